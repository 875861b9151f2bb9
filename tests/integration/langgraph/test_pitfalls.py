"""Harms that plain LangGraph does, measured first; then the same graph with `RecoveryToolNode`, where they do not happen."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphRecursionError, NodeTimeoutError
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy

from forbear import RunHalted
from forbear.errors import ConfigError
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langgraph.support import (
    Model,
    World,
    answers,
    bare,
    build,
    controller,
    doing,
    human,
    says,
    thread,
    tool,
)

FAST = RetryPolicy(max_attempts=3, initial_interval=0.001, backoff_factor=1, jitter=False)


def _broken_and_healthy(world: World) -> list[Any]:
    def broken(n: int) -> str:
        world.do("broken")
        raise ConnectionResetError("half way")

    def healthy(n: int) -> str:
        world.do("healthy")
        return "fine"

    return [tool("broken", broken), tool("healthy", healthy)]


BOTH = [("healthy", {"n": 1}), ("broken", {"n": 1})]


def test_a_retry_policy_on_the_node_never_multiplies_executions() -> None:
    """Bare: `RetryPolicy(max_attempts=3)` executes the failed write and its healthy sibling three times each."""
    world = World()
    with pytest.raises(ConnectionResetError):
        build(Model(BOTH), bare(_broken_and_healthy(world)), retry_policy=FAST).invoke(human(), thread())
    assert (world.count("broken"), world.count("healthy")) == (3, 3)

    world = World()
    with controller() as governed:
        governed.declare("broken", "healthy", effect="write")
        node = RecoveryToolNode(_broken_and_healthy(world), governed)
        out = build(Model(BOTH), node, retry_policy=FAST).invoke(human(), thread())
    assert (world.count("broken"), world.count("healthy")) == (1, 1)
    assert [message.status for message in answers(out)] == ["success", "error"]
    assert "inspect_outcome" in str(answers(out)[1].content)


@pytest.mark.parametrize(
    "error", [httpx.ReadTimeout("slow"), NodeTimeoutError("tools", 1.0, kind="run", run_timeout=1.0)]
)
def test_the_default_retry_condition_never_repeats_a_write_that_timed_out(error: Exception) -> None:
    """Bare: LangGraph's default `retry_on` takes a timeout for harmless and starts the write three times."""

    def tools(world: World) -> list[Any]:
        def order(n: int) -> str:
            world.do("order")
            raise error

        return [tool("order", order)]

    world = World()
    with pytest.raises(type(error)):
        build(Model([("order", {"n": 1})]), bare(tools(world)), retry_policy=FAST).invoke(human(), thread())
    assert world.count("order") == 3

    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        model = Model([("order", {"n": 1})], again=True)
        build(model, RecoveryToolNode(tools(world), governed), retry_policy=FAST).invoke(human(), thread())
    assert world.count("order") == 1


def test_one_failing_call_never_loses_its_sibling() -> None:
    """Bare: a raise ends the run and the finished sibling's result is lost."""
    world = World()
    with pytest.raises(ConnectionResetError):
        build(Model(BOTH), bare(_broken_and_healthy(world))).invoke(human(), thread())
    assert world.count("healthy") == 1

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_broken_and_healthy(world), governed)
        out = build(Model(BOTH), node).invoke(human(), thread())
    assert answers(out)[0].content == "fine"


async def test_one_failing_call_never_leaves_its_async_sibling_running() -> None:
    """Bare: the async sibling goes on after the run has died, and nobody gets its result."""

    def tools(world: World, gate: asyncio.Event) -> list[Any]:
        async def broken(n: int) -> str:
            raise ConnectionResetError("half way")

        async def slow(n: int) -> str:
            await gate.wait()
            world.do("slow")
            return "fine"

        return [
            tool("broken", None, broken),
            tool("slow", None, slow),
        ]

    script = [("broken", {"n": 1}), ("slow", {"n": 1})]
    world, gate = World(), asyncio.Event()
    with pytest.raises(ConnectionResetError):
        await build(Model(script), bare(tools(world, gate))).ainvoke(human(), thread())
    before = world.count("slow")
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (before, world.count("slow")) == (0, 1)

    world, gate = World(), asyncio.Event()
    with controller() as governed:
        governed.declare("broken", "slow", effect="write")
        graph = build(Model(script), RecoveryToolNode(tools(world, gate), governed))
        running = asyncio.create_task(graph.ainvoke(human(), thread()))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not running.done()
        gate.set()
        out = await running
    assert [message.content for message in answers(out)][1] == "fine"


def test_an_async_only_hook_never_leaves_a_call_ungoverned() -> None:
    """Bare: a node with only `awrap_tool_call` runs tools ungoverned under a sync invoke; ours refuses to be built."""
    world = World()
    tools = [doing(world, "order")]

    async def gate(request: Any, execute: Any) -> ToolMessage:
        return ToolMessage("refused", tool_call_id=request.tool_call["id"])

    build(Model([("order", {"n": 1})]), bare(tools, awrap_tool_call=gate)).invoke(human(), thread())
    assert world.count("order") == 1

    with controller() as governed:
        with pytest.raises(ConfigError, match="both"):
            RecoveryToolNode(tools, governed, awrap_tool_call=gate)
        governed.declare("order", approval="always")
        node = RecoveryToolNode(tools, governed)
        build(Model([("order", {"n": 1})]), node).invoke(human(), thread())
        asyncio.run(build(Model([("order", {"n": 2})]), node).ainvoke(human(), thread()))
    assert world.count("order") == 1


async def test_sync_tools_never_run_on_the_event_loop() -> None:
    """Bare: a sync wrapper under `ainvoke` runs the tool on the loop's own thread, one call after the other."""
    threads: list[int] = []

    def look(n: int) -> int:
        threads.append(threading.get_ident())
        return n

    tools = [tool("look", look)]
    script = [("look", {"n": 1}), ("look", {"n": 2})]
    node = bare(tools, wrap_tool_call=lambda request, execute: execute(request))
    await build(Model(script), node).ainvoke(human(), thread())
    assert set(threads) == {threading.get_ident()}

    threads.clear()
    with controller() as governed:
        await build(Model(script), RecoveryToolNode(tools, governed)).ainvoke(human(), thread())
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_a_looping_model_is_stopped_and_the_run_ends() -> None:
    """Bare: a model that repeats a refused call executes it until the recursion limit, by default thousands of times."""

    def tools(world: World) -> list[Any]:
        def order(n: int) -> str:
            world.do("order")
            return "refused: the desk is frozen"

        return [tool("order", order)]

    world = World()
    with pytest.raises(GraphRecursionError):
        build(Model([("order", {"n": 1})], again=True), bare(tools(world))).invoke(human(), thread())
    assert world.count("order") > 25

    world = World()
    with controller() as governed:
        rule = {"prefix": "refused:", "recovery": "do_not_retry", "code": "ACCESS_DENIED"}
        governed.declare("order", effect="write", text_rules=[rule])
        model = Model([("order", {"n": 1})], again=True)
        out = build(model, RecoveryToolNode(tools(world), governed)).invoke(human(), thread())
    assert world.count("order") == 1
    assert model.calls <= 8
    assert isinstance(out["messages"][-1], AIMessage)
    assert "stopped using tools" in out["messages"][-1].content


def _halting(world: World, governed: Any, **options: Any) -> RecoveryToolNode:
    def order(n: int) -> str:
        world.do("order")
        raise PermissionError("no")

    governed.declare("order", effect="write")
    return RecoveryToolNode([tool("order", order)], governed, **options)


def test_goto_end_beside_a_static_edge_does_not_end_a_run_and_recovery_condition_does() -> None:
    """Bare: a node that returns `Command(goto=END)` beside a static edge is followed by the model all the same."""
    model = Model([("order", {"n": 1})], again=True)

    def ends(state: Any) -> Command[Any]:
        call = state["messages"][-1].tool_calls[0]
        return Command(goto=END, update={"messages": [ToolMessage("stop", tool_call_id=call["id"])]})

    with pytest.raises(GraphRecursionError):
        build(model, ends).invoke(human(), thread())

    world = World()
    with controller() as governed:
        model = Model([("order", {"n": 1})], again=True)
        build(model, _halting(world, governed)).invoke(human(), thread())
    assert model.calls <= 8

    # The same node behind a static edge cannot end the run: it says so once, with the line that built it.
    world = World()
    with controller() as governed:
        model = Model([("order", {"n": 1})], again=True)
        graph = build(model, _halting(world, governed), routed=False)
        with (
            pytest.warns(RuntimeWarning, match=r"recovery_condition.*test_pitfalls\.py:\d+") as warned,
            pytest.raises(GraphRecursionError),
        ):
            graph.invoke(human(), thread())
    assert len(warned) == 1
    assert world.count("order") == 1


def test_a_halt_can_be_raised_where_the_graph_has_a_static_edge() -> None:
    """`on_halt="raise"` ends any graph."""
    world = World()
    with controller() as governed:
        model = Model([("order", {"n": 1})], again=True)
        graph = build(model, _halting(world, governed, on_halt="raise"), routed=False)
        with pytest.raises(RunHalted):
            graph.invoke(human(), thread())
    assert world.count("order") == 1
    assert model.calls <= 8


def test_a_halted_run_goes_on_with_the_next_human_message() -> None:
    """A halt ends with a new turn; what was refused is probed once."""
    from langgraph.checkpoint.memory import InMemorySaver

    world = World()
    with controller() as governed:
        governed.declare("look", effect="read")

        def look(n: int) -> str:
            world.do("look")
            return "seen"

        def order(n: int) -> str:
            world.do("order")
            raise PermissionError("no")

        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order), tool("look", look)], governed)
        saver = InMemorySaver()
        first = build(Model([("order", {"n": 1})], again=True), node, saver=saver)
        out = first.invoke(human(), thread())
        assert "stopped using tools" in out["messages"][-1].content
        steps = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in out["messages"])
        script: list[Any] = [[("order", {"n": 1})]] * steps + [[("look", {"n": 1})]]
        second = build(Model(*script), node, saver=saver)
        out = second.invoke(human("again", "h2"), thread())
    assert world.count("look") == 1
    assert out["messages"][-1].content == "done"


def test_two_equal_calls_of_one_message_share_one_execution_also_with_one_id() -> None:
    """Bare: equal calls of one message, even with one id, are all executed."""

    def tools(world: World) -> list[Any]:
        return [doing(world, "order")]

    call = {"name": "order", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
    message = AIMessage("", tool_calls=[call, dict(call)], id="a1")
    world = World()
    build(Model(message), bare(tools(world))).invoke(human(), thread())
    assert world.count("order") == 2

    world = World()
    with controller() as governed:
        governed.declare("order", effect="write")
        out = build(Model(message), RecoveryToolNode(tools(world), governed)).invoke(human(), thread())
    assert world.count("order") == 1
    assert [m.content for m in answers(out)] == ["ok", "ok"]


def test_a_missing_thread_id_is_one_warning_with_the_line_and_still_governed() -> None:
    """Bare: nothing says that a run has no identity; ours warns once, names the line, and governs this invocation."""
    world = World()
    with controller() as governed:
        model = Model([("order", {"n": 1})], again=True)
        graph = build(model, _halting(world, governed))
        with pytest.warns(RuntimeWarning, match=r"no thread id.*test_pitfalls\.py:\d+") as warned:
            graph.invoke(human())
        graph.invoke(human(name="h2"))
    assert len(warned) == 1
    # Two invocations are two runs: each of them tries once.
    assert world.count("order") == 2


def test_a_thread_id_that_is_not_a_run_of_its_own_is_never_taken_from_the_model() -> None:
    """A call's arguments cannot choose the run: another thread's refusal does not go away by naming a thread."""
    world = World()
    with controller() as governed:
        node = _halting(world, governed)
        script = [("order", {"n": 1, "thread_id": "other"})]
        build(Model(script, again=True), node).invoke(human(), thread())
    assert world.count("order") == 1


def test_a_truncated_message_runs_only_what_was_finished() -> None:
    """A message that was cut off: its last call may be half written and does not run, the ones before it do."""
    world = World()
    cut = says(0, [("order", {"n": 1}), ("order", {"n": 2})], response_metadata={"finish_reason": "length"})
    tools = [doing(world, "order")]
    with controller() as governed:
        out = build(Model(cut), RecoveryToolNode(tools, governed)).invoke(human(), thread())
    assert world.done == [("order", 1)]
    assert "INPUT_TRUNCATED" in str(answers(out)[1].content)


def test_a_call_that_did_not_parse_is_answered_too() -> None:
    """A provider wants an answer to every call: one whose JSON is broken gets one, and runs nothing."""
    world = World()
    broken = [{"name": "order", "args": '{"n": 2', "id": "bad", "error": "x", "type": "invalid_tool_call"}]
    message = says(0, [("order", {"n": 1})], invalid_tool_calls=broken)
    tools = [doing(world, "order")]
    with controller() as governed:
        out = build(Model(message), RecoveryToolNode(tools, governed)).invoke(human(), thread())
    assert world.done == [("order", 1)]
    assert {m.tool_call_id: m.status for m in answers(out)} == {"m0c0": "success", "bad": "error"}


def test_a_user_wrapper_is_around_ours_and_may_call_twice_without_a_second_execution() -> None:
    """A wrapper that repeats on its own gets the recorded answer the second time."""
    world = World()

    def twice(request: Any, execute: Any) -> Any:
        execute(request)
        return execute(request)

    async def atwice(request: Any, execute: Any) -> Any:
        await execute(request)
        return await execute(request)

    tools = [doing(world, "order")]
    build(Model([("order", {"n": 1})]), ToolNode(tools, wrap_tool_call=twice)).invoke(human(), thread())
    assert world.count("order") == 2
    with controller() as governed:
        governed.declare("order", effect="write", repeatable=False)
        node = RecoveryToolNode(tools, governed, wrap_tool_call=twice, awrap_tool_call=atwice)
        out = build(Model([("order", {"n": 1})]), node).invoke(human(), thread())
    assert world.count("order") == 3
    assert answers(out)[0].content == "ok"


def test_a_tool_that_retries_inside_is_refused_or_unwrapped() -> None:
    """Bare: three attempts inside the tool are three remote calls; ours refuses the tool by name, or takes the retry off."""
    from tenacity import retry, stop_after_attempt, wait_none

    world = World()

    def order(n: int) -> str:
        """Order."""
        world.do("order")
        raise ConnectionResetError

    stubborn = retry(stop=stop_after_attempt(3), wait=wait_none(), reraise=True)(order)
    with pytest.raises(ConnectionResetError):
        build(Model([("order", {"n": 1})]), ToolNode([stubborn])).invoke(human(), thread())
    assert world.count("order") == 3
    world.done.clear()
    with controller() as governed:
        with pytest.raises(ConfigError, match=r"'order'.*tenacity"):
            RecoveryToolNode([stubborn], governed)
        governed.declare("order", effect="write")
        node = RecoveryToolNode([stubborn], governed, inner_retries="unwrap")
        build(Model([("order", {"n": 1})]), node).invoke(human(), thread())
    assert world.count("order") == 1


def test_two_controllers_and_two_nodes_share_a_process_without_touching_each_other() -> None:
    """What one controller refuses, another one knows nothing of."""
    world = World()
    with controller() as one, controller() as other:
        for governed in (one, other):
            build(Model([("order", {"n": 1})], again=True), _halting(world, governed)).invoke(human(), thread())
    assert world.count("order") == 2


async def test_streaming_shows_the_same_answers_sync_and_async() -> None:
    """`stream` and `astream`, with subgraphs, carry the answers as updates of the tool node."""
    world = World()
    tools = [doing(world, "look", "seen")]
    with controller() as governed:
        graph = build(Model([("look", {"n": 1})]), RecoveryToolNode(tools, governed))
        chunks: list[Any] = [c for c in graph.stream(human(), thread("a"), stream_mode="updates") if "tools" in c]
        achunks: list[Any] = [
            chunk
            async for _, chunk in graph.astream(human(), thread("b"), stream_mode="updates", subgraphs=True)
            if "tools" in chunk
        ]
    assert [c["tools"]["messages"][0].content for c in (*chunks, *achunks)] == ["seen", "seen"]


def test_the_store_that_cannot_be_written_runs_nothing() -> None:
    """A read-only or broken store: the tool does not run and the model is told so."""
    world = World()
    governed = controller()
    governed.declare("order", effect="write")
    node = RecoveryToolNode([doing(world, "order")], governed)
    governed.close()
    out = build(Model([("order", {"n": 1})]), node).invoke(human(), thread())
    assert world.done == []
    assert "CONTROLLER_BROKEN" in str(answers(out)[0].content)
