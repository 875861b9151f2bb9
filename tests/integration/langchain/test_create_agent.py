"""Harms of `create_agent` and its built-in middleware, measured first; then the same agent with `RecoveryMiddleware`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from forbear import Controller, Refused
from forbear.errors import ConfigError, UsageError
from forbear_adapters.langchain import RecoveryMiddleware
from forbear_adapters.langgraph import deliver_ready
from tests.integration.langchain.chat import Scripted, model
from tests.integration.langgraph.support import (
    FakeClock,
    Says,
    World,
    answers,
    controller,
    doing,
    giving,
    human,
    questions,
    thread,
    tool,
    yes,
)

T = thread()


def agent(said: Scripted, tools: list[Any], *middleware: Any, saver: Any = None) -> Any:
    """Return an agent with these layers, the first one outermost."""
    return create_agent(said, tools, middleware=middleware, checkpointer=saver)


ORDER: list[Says] = [[("order", {"n": n})] for n in range(6)]


def _refusing(world: World) -> list[Any]:
    def order(n: int) -> str:
        world.do("order", n)
        raise PermissionError("denied, token=sk-SECRET")

    return [tool("order", order)]


def test_a_permanent_refusal_is_never_executed_again_also_under_a_retrying_middleware() -> None:
    """Bare: `ToolRetryMiddleware` executes a refused call three times for each call of the model, and leaks its text."""
    world = World()
    retries = ToolRetryMiddleware(initial_delay=0.0, jitter=False)
    out = agent(model(*ORDER), _refusing(world), retries).invoke(human(), T)
    assert world.count("order") == 18
    assert "SECRET" in str(answers(out)[0].content)
    assert "try again" in str(answers(out)[0].content)

    for outer in ((), (ToolRetryMiddleware(initial_delay=0.0, jitter=False),)):
        world = World()
        with controller() as governed:
            governed.declare("order", effect="write", operation="orders", target=lambda _: "the desk")
            said = model(*ORDER)
            out = agent(said, _refusing(world), *outer, RecoveryMiddleware(governed)).invoke(human(), T)
        assert world.count("order") == 1
        assert "SECRET" not in " ".join(str(message.content) for message in answers(out))
        assert len(said.asked) <= 6
        assert "stopped using tools" in out["messages"][-1].content


def test_a_write_that_timed_out_is_never_repeated() -> None:
    """Bare: a timed-out write is executed three times for each call of the model."""

    def tools(world: World) -> list[Any]:
        def order(n: int) -> str:
            world.do("order")
            raise TimeoutError

        return [tool("order", order)]

    script: list[Says] = [[("order", {"n": 1})]] * 3
    world = World()
    agent(model(*script), tools(world), ToolRetryMiddleware(initial_delay=0.0, jitter=False)).invoke(human(), T)
    assert world.count("order") == 9
    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        retries = ToolRetryMiddleware(initial_delay=0.0, jitter=False)
        agent(model(*script), tools(world), retries, RecoveryMiddleware(governed)).invoke(human(), T)
    assert world.count("order") == 1


def test_a_daily_limit_is_waited_for_and_not_hammered() -> None:
    """Bare: a limit that ends in six hours is tried again after a second; ours waits for the hour that was named."""

    def tools(world: World) -> list[Any]:
        def order(n: int) -> str:
            world.do("order", n)
            if world.count("order") <= 1:
                raise Refused("QUOTA_EXHAUSTED", recovery="retry_after", reset_at="2026-09-06T00:00:00Z")
            return "ordered"

        return [tool("order", order)]

    def capped(world: World) -> list[Any]:
        def order(n: int) -> str:
            world.do("order", n)
            raise RuntimeError("limit reached, resets in 6 hours")

        return [tool("order", order)]

    world = World()
    retries = ToolRetryMiddleware(initial_delay=0.0, jitter=False)
    agent(model(*ORDER[:2]), capped(world), retries).invoke(human(), T)
    assert world.count("order") == 6

    clock, world = FakeClock(), World()
    with controller(clock=clock) as governed:
        governed.declare("order", effect="write", repeatable=False)
        graph = agent(
            model([("order", {"n": 1})], [("order", {"n": 1})]),
            tools(world),
            RecoveryMiddleware(governed),
            saver=InMemorySaver(),
        )
        out = graph.invoke(human(), T)
        assert world.count("order") == 1
        assert "2026-09-06T00:00:00" in str(answers(out)[0].content)
        clock.sleep(6 * 3600 + 120)
        governed.work()
        assert world.count("order") == 2
        # The next invocation reads the result in the place of the answer that said "pending".
        out = graph.invoke(human("and?", "h2"), T)
    assert answers(out)[0].content == "ordered"
    assert world.count("order") == 2


def test_a_result_that_became_ready_reaches_an_idle_agent() -> None:
    """`deliver_ready` works on a `create_agent` graph as well."""
    clock, world = FakeClock(), World()

    def order(n: int) -> str:
        world.do("order")
        if world.count("order") == 1:
            raise Refused("QUOTA_EXHAUSTED", recovery="retry_after", reset_at="2026-09-05T19:00:00Z")
        return "ordered"

    with controller(clock=clock) as governed:
        governed.declare("order", effect="write")
        said = model([("order", {"n": 1})])
        graph = agent(said, [tool("order", order)], RecoveryMiddleware(governed), saver=InMemorySaver())
        graph.invoke(human(), T)
        clock.sleep(7200)
        governed.work()
        assert deliver_ready(graph, T, governed) == 1
        graph.invoke(human("and?", "h2"), T)
    assert [message.content for message in said.asked[-1]] == ["ordered"]


def test_a_denial_is_remembered_for_identical_calls() -> None:
    """Bare: `HumanInTheLoopMiddleware` asks five times about the same denied call."""
    script: list[Says] = [[("order", {"n": 1})]] * 5
    tools = [giving("order", "ordered")]

    hitl = HumanInTheLoopMiddleware(interrupt_on={"order": True})
    graph = agent(model(*script), tools, hitl, saver=InMemorySaver())
    state, prompts = graph.invoke(human(), T), 0
    while "__interrupt__" in state:
        prompts += 1
        state = graph.invoke(Command(resume={"decisions": [{"type": "reject"}]}), T)
    assert prompts == 5

    with controller() as governed:
        governed.declare("order", effect="write", approval="always")
        graph = agent(model(*script), tools, RecoveryMiddleware(governed), saver=InMemorySaver())
        state, prompts = graph.invoke(human(), T), 0
        while "__interrupt__" in state:
            prompts += 1
            said = {p["ticket"]: {"decision": "deny", "fingerprint": p["fingerprint"]} for p in questions(state)}
            state = graph.invoke(Command(resume=said), T)
    assert prompts == 1


def test_limits_do_not_reset_on_resume() -> None:
    """Bare: `ToolCallLimitMiddleware(run_limit=2)` beside human approval lets six calls through: each resume starts at 0."""
    world = World()
    tools = [doing(world, "order", "ordered")]
    limit = ToolCallLimitMiddleware(run_limit=2)
    hitl = HumanInTheLoopMiddleware(interrupt_on={"order": True})
    graph = agent(model(*ORDER), tools, limit, hitl, saver=InMemorySaver())
    state = graph.invoke(human(), T)
    while "__interrupt__" in state:
        state = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), T)
    assert world.count("order") == 6

    world.done.clear()
    with controller(limits={"max_calls_per_turn": 2}) as governed:
        governed.declare("order", effect="write", approval="always")
        graph = agent(model(*ORDER), tools, RecoveryMiddleware(governed), saver=InMemorySaver())
        state = graph.invoke(human(), T)
        while "__interrupt__" in state:
            state = graph.invoke(Command(resume=yes(*questions(state))), T)
    assert world.count("order") == 2


def test_several_prompts_are_answered_each_by_its_own() -> None:
    """Each call is a task of its own: two pauses are open at once, and one answer opens one of them."""
    world = World()
    tools = [doing(world, "order", "ordered {n}")]
    with controller() as governed:
        governed.declare("order", effect="write", approval="always")
        graph = agent(
            model([("order", {"n": 1}), ("order", {"n": 2})]),
            tools,
            RecoveryMiddleware(governed),
            saver=InMemorySaver(),
        )
        paused = graph.invoke(human(), T)
        by_call = {
            p["tool_call_id"]: (pause.id, p) for pause in paused["__interrupt__"] for p in pause.value["prompts"]
        }
        pause, prompt = by_call["m0c1"]
        graph.invoke(Command(resume={pause: yes(prompt)}), T)
        assert world.done == [("order", 2)]
        # The other pause gets the answer of the first one: it answers nothing.
        paused = graph.invoke(Command(resume={by_call["m0c0"][0]: yes(prompt)}), T)
        assert world.done == [("order", 2)]
        out = graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("order", 2), ("order", 1)]
    assert sorted(str(m.content) for m in answers(out)) == ["ordered 1", "ordered 2"]


async def test_async_agents_are_governed_the_same_way() -> None:
    """`ainvoke` and `astream(subgraphs=True)`: refusal, pause and halt as in the sync agent."""
    world = World()

    async def order(n: int) -> str:
        world.do("order", n)
        return "ordered"

    tools = [tool("order", None, order)]
    with controller() as governed:
        governed.declare("order", effect="write", approval="always")
        graph = agent(model([("order", {"n": 1})]), tools, RecoveryMiddleware(governed), saver=InMemorySaver())
        chunks = [chunk async for _, chunk in graph.astream(human(), T, stream_mode="updates", subgraphs=True)]
        paused = next(chunk for chunk in chunks if "__interrupt__" in chunk)
        out = await graph.ainvoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("order", 1)]
    assert answers(out)[0].content == "ordered"

    world.done.clear()
    with controller() as governed:
        governed.declare("order", effect="write")

        async def refusing(n: int) -> str:
            world.do("order", n)
            raise PermissionError

        said = model([("order", {"n": 1})], again=True)
        graph = agent(said, [tool("order", None, refusing)], RecoveryMiddleware(governed))
        out = await graph.ainvoke(human(), thread("other"))
    assert world.count("order") == 1
    assert "stopped using tools" in out["messages"][-1].content


async def test_a_sibling_is_not_cancelled_by_a_failing_call() -> None:
    """Bare: one call that raises cancels its async sibling in the middle of a write."""

    def tools(world: World, begun: asyncio.Event, failed: asyncio.Event) -> list[Any]:
        async def slow(n: int) -> str:
            world.do("slow begun")
            begun.set()
            await failed.wait()
            for _ in range(100):
                await asyncio.sleep(0)
            world.do("slow")
            return "fine"

        async def broken(n: int) -> str:
            await begun.wait()
            failed.set()
            raise ConnectionResetError

        return [tool("slow", None, slow), tool("broken", None, broken)]

    script: Says = [("slow", {"n": 1}), ("broken", {"n": 1})]
    world = World()
    with pytest.raises(ConnectionResetError):
        await agent(model(script), tools(world, asyncio.Event(), asyncio.Event())).ainvoke(human(), T)
    assert (world.count("slow begun"), world.count("slow")) == (1, 0)

    world = World()
    with controller() as governed:
        governed.declare("slow", "broken", effect="write")
        both = tools(world, asyncio.Event(), asyncio.Event())
        out = await agent(model(script), both, RecoveryMiddleware(governed)).ainvoke(human(), T)
    assert world.count("slow") == 1
    assert "fine" in [message.content for message in answers(out)]


def test_a_layer_between_the_middleware_and_the_tool_is_refused() -> None:
    """Bare order of layers matters: outside a retrying middleware ours would see one call of three. It refuses."""
    world = World()
    with controller() as governed:
        graph = agent(
            model([("order", {"n": 1})]),
            _refusing(world),
            RecoveryMiddleware(governed),
            ToolRetryMiddleware(initial_delay=0.0, jitter=False),
        )
        with pytest.raises(ConfigError, match="last middleware"):
            graph.invoke(human(), T)
    assert world.done == []


def test_a_misspelt_tool_is_found_by_a_strict_controller() -> None:
    """Bare: a gate on a misspelt name is no gate, and nobody says so. Strict: the undeclared tool does not run."""
    world = World()
    tools = [doing(world, "order")]
    hitl = HumanInTheLoopMiddleware(interrupt_on={"oder": True})
    agent(model(ORDER[0]), tools, hitl, saver=InMemorySaver()).invoke(human(), T)
    assert world.count("order") == 1
    with controller(strict=True) as governed:
        governed.declare("oder", effect="write", approval="always")
        graph = agent(model(ORDER[0]), tools, RecoveryMiddleware(governed), saver=InMemorySaver())
        with pytest.raises(UsageError, match=r"'order'.*must be declared"):
            graph.invoke(human(), T)
    assert world.count("order") == 1


def test_a_forced_tool_that_is_held_ends_the_run() -> None:
    """A model that is made to call a refused tool cannot stop by itself: the run ends at the first held call."""
    world = World()

    class Forcing(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_choice="order"))

    with controller() as governed:
        governed.declare("order", effect="write")
        said = model([("order", {"n": 1})], again=True)
        out = agent(said, _refusing(world), Forcing(), RecoveryMiddleware(governed)).invoke(human(), T)
    assert world.count("order") == 1
    assert len(said.asked) <= 3
    assert "stopped using tools" in out["messages"][-1].content


def test_a_summary_is_no_turn() -> None:
    """`SummarizationMiddleware` writes a human message in the middle of a run: what was refused stays refused."""
    world = World()
    summarizer = model("a summary", "a summary", "a summary", "a summary", "a summary", "a summary")
    shorten = SummarizationMiddleware(summarizer, trigger=("messages", 4), keep=("messages", 2))
    with controller() as governed:
        governed.declare("order", effect="write", operation="orders", target=lambda _: "the desk")
        # After a summary the model begins its script again: with the same call, in another wording.
        said = model([("order", {"n": 1})], [("order", {"n": 2})], [("order", {"n": 3})], again=True, fresh=True)
        graph = agent(said, _refusing(world), shorten, RecoveryMiddleware(governed), saver=InMemorySaver())
        out = graph.invoke(human(), T)
    assert any(message.additional_kwargs.get("lc_source") for message in out["messages"])
    assert world.count("order") == 1
    assert "stopped using tools" in out["messages"][-1].content


# ---- sub-agents -----------------------------------------------------------------------------------------------------


def _team(
    world: World, governed: Controller | None, *, saver: Any, inner_saver: Any, inner_script: list[Says]
) -> tuple[Any, Any]:
    def order(n: int) -> str:
        world.do("order", n)
        return f"ordered {n}"

    def gated(n: int) -> str:
        if governed is None and interrupt({"n": n}) != "yes":
            return "no"
        world.do("gated", n)
        return f"gated {n}"

    layers = () if governed is None else (RecoveryMiddleware(governed),)
    inner_model = model(*inner_script, prefix="i")
    inner = create_agent(
        inner_model, [tool("order", order), tool("gated", gated)], middleware=layers, checkpointer=inner_saver
    )

    def delegate(task: str) -> str:
        world.do("delegate")
        return str(inner.invoke({"messages": [HumanMessage(task, id="task")]})["messages"][-1].content)

    outer = agent(model([("delegate", {"task": "do it"})]), [tool("delegate", delegate)], *layers, saver=saver)
    return outer, inner_model


INNER: list[Says] = [[("order", {"n": 1})], [("gated", {"n": 2})]]


@pytest.mark.parametrize("inner_saver", [None, False], ids=["inherited", "none"])
def test_a_sub_agent_pauses_at_the_top_and_repeats_nothing(inner_saver: Any) -> None:
    """Bare: the resume enters the delegate again, and without a checkpointer of its own the inner agent orders twice."""
    world = World()
    outer, _ = _team(world, None, saver=InMemorySaver(), inner_saver=inner_saver, inner_script=INNER)
    outer.invoke(human(), T)
    outer.invoke(Command(resume="yes"), T)
    assert world.count("order") == (1 if inner_saver is None else 2)
    assert world.count("gated") == 1

    world = World()
    with controller() as governed:
        governed.declare("order", effect="write", repeatable=False)
        governed.declare("gated", effect="write", approval="always")
        outer, _ = _team(world, governed, saver=InMemorySaver(), inner_saver=inner_saver, inner_script=INNER)
        paused = outer.invoke(human(), T)
        prompt = questions(paused)[0]
        assert prompt["path"][0] == "t1"
        assert len(prompt["path"]) == 2
        out = outer.invoke(Command(resume=yes(prompt)), T)
    assert (world.count("order"), world.count("gated")) == (1, 1)
    assert answers(out)[0].content == "done"


def test_what_one_sub_agent_is_refused_no_other_one_gets() -> None:
    """Refusals hold for the whole tree: delegating again does not open the door."""
    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        governed.declare("delegate", effect="undeclared")
        inner = create_agent(
            model([("order", {"n": 1})], prefix="i"), _refusing(world), middleware=[RecoveryMiddleware(governed)]
        )

        def delegate(task: str) -> str:
            return str(inner.invoke({"messages": [HumanMessage(task)]})["messages"][-1].content)

        script: list[Says] = [[("delegate", {"task": f"try {n}"})] for n in range(3)]
        agent(model(*script), [tool("delegate", delegate)], RecoveryMiddleware(governed)).invoke(human(), T)
    assert world.count("order") == 1


def test_threads_at_once_keep_their_runs_apart() -> None:
    """One agent object, two threads at once: neither's refusal is the other's."""
    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        graph = agent(model([("order", {"n": 1})], again=True), _refusing(world), RecoveryMiddleware(governed))
        running = [threading.Thread(target=graph.invoke, args=(human(), thread(f"t{n}"))) for n in range(3)]
        for one in running:
            one.start()
        for one in running:
            one.join(30)
    assert world.count("order") == 3
