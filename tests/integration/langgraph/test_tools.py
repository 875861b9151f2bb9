"""Tools of every kind: what the controller sees of them, and how it runs them by itself outside the graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError

from forbear import Operator, Refused
from forbear_adapters._kit.tools import needs_graph
from forbear_adapters.langgraph import RecoveryToolNode, deliver_ready
from tests.integration.langgraph.support import (
    FakeClock,
    Model,
    World,
    answers,
    build,
    controller,
    human,
    questions,
    thread,
    tool,
    yes,
)

T = thread()
LATER = {"recovery": "retry_after", "reset_at": "2026-09-05T19:00:00Z"}


class Order(BaseTool):
    """A tool class of an application's own."""

    name: str = "order"
    description: str = "Order."
    world: Any = None

    def _run(self, n: int) -> str:
        self.world.do("order", n)
        if n < 0:
            raise PermissionError("no, token=sk-SECRET")
        return f"ordered {n}"


def test_a_tool_class_of_its_own_is_governed() -> None:
    """Its exceptions are seen, its results pass."""
    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        script: list[Any] = [[("order", {"n": 1})], [("order", {"n": -1})], [("order", {"n": -1})]]
        out = build(Model(*script), RecoveryToolNode([Order(world=world)], governed)).invoke(human(), T)
    assert world.done == [("order", 1), ("order", -1)]
    assert answers(out)[0].content == "ordered 1"
    assert "SECRET" not in str(answers(out))


def test_a_result_that_the_framework_cannot_use_is_unknown_not_repairable() -> None:
    """The write is done when its `Command` turns out to lack the message: it must not be "repaired" by a second one."""
    world = World()

    def order(n: int) -> Command[Any]:
        world.do("order", n)
        return Command(update={"messages": []})

    with controller() as governed:
        governed.declare("order", effect="write")
        script: list[Any] = [[("order", {"n": 1})], [("order", {"n": 1})]]
        out = build(Model(*script), RecoveryToolNode([tool("order", order)], governed)).invoke(human(), T)
    assert world.done == [("order", 1)]
    assert "inspect_outcome" in str(answers(out)[0].content)


def test_a_call_that_cannot_be_built_is_no_attempt_at_all() -> None:
    """A tool that wants a state field which is not there: nothing ran, and the answer says so."""
    world = World()

    def order(n: int, desk: Annotated[str, InjectedState("desk")]) -> str:
        world.do("order", n, desk)
        return "ordered"

    with controller() as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order)], governed)
        out = build(Model([("order", {"n": 1})]), node).invoke(human(), T)
    assert world.done == []
    assert '"executed":"no"' in str(answers(out)[0].content)


def test_structured_content_of_an_mcp_tool_is_what_is_judged() -> None:
    """The artifact that `langchain-mcp-adapters` adds speaks the contract where the policy says so."""
    refusal = {"ok": False, "outcome": "refused", "error": {"code": "ACCESS_DENIED", "recovery": "do_not_retry"}}

    async def call_tool(runtime: Any = None, **arguments: Any) -> tuple[Any, Any]:
        return [{"type": "text", "text": "see the structured content"}], {"structured_content": refusal}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    made = StructuredTool(
        name="order",
        description="x",
        args_schema=schema,
        coroutine=call_tool,
        response_format="content_and_artifact",
    )
    statuses = []
    for speaks in (True, False):
        with controller() as governed:
            governed.declare("order", effect="write", trust="remote", speaks_contract=speaks)
            graph = build(Model([("order", {"n": 1})]), RecoveryToolNode([made], governed))
            import asyncio

            statuses.append(answers(asyncio.run(graph.ainvoke(human(), T)))[0].status)
    assert statuses == ["error", "success"]
    assert not needs_graph(made)


async def test_an_mcp_tools_wait_is_retried_outside_the_graph_and_written_like_a_fresh_result() -> None:
    """Async only, a schema as a mapping, content with an artifact: the controller runs it by itself after the reset."""
    world, clock = World(), FakeClock()

    async def call_tool(runtime: Any = None, **arguments: Any) -> tuple[Any, Any]:
        world.do("order", arguments["n"])
        if world.count("order") == 1:
            raise Refused("QUOTA_EXHAUSTED", **LATER)
        return [{"type": "text", "text": '{"id": 7}'}], {"structured_content": {"id": 7}}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = StructuredTool(
        name="order",
        description="x",
        args_schema=schema,
        coroutine=call_tool,
        response_format="content_and_artifact",
    )
    with controller(clock=clock) as governed:
        governed.declare("order", effect="write")
        graph = build(Model([("order", {"n": 1})]), RecoveryToolNode([made], governed), saver=InMemorySaver())
        await graph.ainvoke(human(), T)
        clock.sleep(7200)
        await governed.awork()
        assert deliver_ready(graph, T, governed) == 1
        found = answers(graph.get_state(T).values)[0]
    assert world.done == [("order", 1), ("order", 1)]
    assert (found.content, found.status) == ('{"id": 7}', "success")


@pytest.mark.parametrize("answered", ["later", "never"])
def test_a_retry_that_fails_outside_the_graph_is_told_in_its_place(answered: str) -> None:
    """The retry is refused again, or answers with an error: the waiting message says what became of it."""
    world, clock = World(), FakeClock()

    def order(n: int) -> str:
        world.do("order", n)
        if world.count("order") == 1 or answered == "later":
            raise Refused("QUOTA_EXHAUSTED", **LATER)
        raise ToolException("no")

    with controller(clock=clock) as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order)], governed)
        graph = build(Model([("order", {"n": 1})]), node, saver=InMemorySaver())
        graph.invoke(human(), T)
        clock.sleep(7200)
        governed.work()
        assert deliver_ready(graph, T, governed) == 1
        found = str(answers(graph.get_state(T).values)[0].content)
    assert world.count("order") == 2
    assert ("RETRY_EXHAUSTED" if answered == "later" else "repair_input") in found


def _with_runtime(n: int, runtime: ToolRuntime) -> int:
    return n if runtime is not None else 0


def _with_state(n: int, state: Annotated[dict[str, Any], InjectedState]) -> int:
    return n if state else 0


def _with_optional_state(n: int, state: Annotated[Any, InjectedState()] = None) -> int:
    return n if state else 0


def _with_config(n: int, config: Any = None) -> int:
    return n if config else 0


def _plain(n: int, m: int = 1) -> int:
    return n + m


@pytest.mark.parametrize(
    ("function", "needs"),
    [(_with_runtime, True), (_with_state, True), (_with_optional_state, True), (_with_config, False), (_plain, False)],
)
def test_a_tool_that_needs_the_graph_is_not_run_outside_of_it(function: Callable[..., object], *, needs: bool) -> None:
    """State, store and runtime exist only inside; an argument of the model, or of LangChain, is no reason."""
    assert needs_graph(tool("x", function)) is needs


def test_a_tool_that_needs_the_graph_is_retried_when_it_is_proposed_after_the_reset() -> None:
    """Nobody runs it before; then the model's proposal is the retry."""
    world, clock = World(), FakeClock()

    def order(n: int, runtime: ToolRuntime) -> str:
        world.do("order", n)
        if world.count("order") == 1:
            raise Refused("QUOTA_EXHAUSTED", **LATER)
        return f"ordered for {runtime.tool_call_id}"

    with controller(clock=clock) as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order)], governed)
        graph = build(Model([("order", {"n": 1})], [("order", {"n": 1})]), node, saver=InMemorySaver())
        seen: list[Any] = []
        for _ in graph.stream(human(), T):
            seen.append(world.count("order"))
            clock.sleep(3600 if len(seen) == 2 else 1200)
        out = graph.get_state(T).values
    assert world.count("order") == 2
    assert answers(out)[1].content == "ordered for m1c0"


def test_an_idempotency_key_reaches_the_tool_and_never_the_model() -> None:
    """The key goes with the request, in the argument that the policy names."""
    world = World()

    def order(n: int, key: str = "") -> str:
        world.do("order", n, key)
        return "ordered"

    with controller() as governed:
        governed.declare("order", effect="write", idempotency_key={"argument": "key"})
        node = RecoveryToolNode([tool("order", order)], governed)
        out = build(Model([("order", {"n": 1})]), node).invoke(human(), T)
    (_, _, key) = world.done[0]
    assert len(key) == 32
    assert key not in str(out["messages"])


class Answer(BaseModel):
    """What a person has to answer."""

    sure: bool


def test_an_answer_that_does_not_fit_a_tools_own_question_can_be_given_again() -> None:
    """It concerns the person, not the model: the run fails, and the question stays open."""
    import langgraph.errors

    if not hasattr(langgraph.errors, "is_invalid_resume"):
        pytest.skip("this release of LangGraph does not check answers")

    def asks(n: int) -> str:
        return f"{n}: {interrupt('sure?', response_schema=Answer).sure}"

    with controller() as governed:
        governed.declare("asks", effect="write")
        node = RecoveryToolNode([tool("asks", asks)], governed)
        graph = build(Model([("asks", {"n": 1})]), node, saver=InMemorySaver())
        graph.invoke(human(), T)
        with pytest.raises(ValidationError):
            graph.invoke(Command(resume={"unsure": 1}), T)
        out = graph.invoke(Command(resume={"sure": True}), T)
    assert answers(out)[0].content == "1: True"


def test_an_approval_and_a_question_of_the_same_tool_are_an_error() -> None:
    """LangGraph would give the approval to the tool's question: one of both has to ask."""
    from forbear.errors import UsageError

    def asks(n: int) -> str:
        return f"said {interrupt(n)}"

    with controller() as governed:
        governed.declare("asks", effect="write", approval="always")
        node = RecoveryToolNode([tool("asks", asks)], governed)
        graph = build(Model([("asks", {"n": 1})]), node, saver=InMemorySaver())
        said = yes(*questions(graph.invoke(human(), T)))
        with pytest.raises(UsageError, match="let one of both ask"):
            graph.invoke(Command(resume=said), T)


def test_a_question_that_is_answered_elsewhere_does_not_hold_up_the_graph() -> None:
    """A grant for the same action in other words: nothing to ask here, so the call says what it waits for."""
    world = World()

    def order(n: int, memo: str) -> str:
        world.do("order", n, memo)
        return "ordered"

    with controller() as governed:
        governed.declare("order", effect="write", approval="always", ignore=("memo",))
        made = [tool("order", order)]
        first = build(
            Model([("order", {"n": 1, "memo": "a"})]), RecoveryToolNode(made, governed), saver=InMemorySaver()
        )
        prompt = questions(first.invoke(human(), T))[0]
        Operator(governed).approve(prompt["ticket"], prompt["fingerprint"])
        other = build(
            Model([("order", {"n": 1, "memo": "b"})], prefix="o"),
            RecoveryToolNode(made, governed),
            saver=InMemorySaver(),
        )
        out = other.invoke(human(), T)
    assert world.done == []
    assert answers(out)[0].response_metadata["forbear"]["answer"] == "needs_approval"


async def test_an_async_wrapper_of_the_application_lies_around_ours() -> None:
    """It sees the answer, and may ask twice without a second execution."""
    world, seen = World(), []

    def around(request: Any, execute: Callable[[Any], Any]) -> Any:
        return execute(request)

    async def aaround(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        seen.append(await execute(request))
        return await execute(request)

    def order(n: int) -> str:
        world.do("order", n)
        return "ordered"

    with controller() as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order)], governed, wrap_tool_call=around, awrap_tool_call=aaround)
        out = await build(Model([("order", {"n": 1})]), node).ainvoke(human(), T)
    assert world.done == [("order", 1)]
    assert isinstance(seen[0], ToolMessage)
    assert answers(out)[0].content == "ordered"


def test_a_hidden_argument_stays_hidden() -> None:
    """`InjectedToolArg` is nobody's to fill but the application's: the tool is not run outside the graph either."""

    def order(n: int, secret: Annotated[str, InjectedToolArg] = "x") -> str:
        return f"{n}{secret}"

    assert needs_graph(tool("order", order))
