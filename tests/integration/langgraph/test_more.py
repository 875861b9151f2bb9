"""Commands beside a pause, edits into another tool, cancelled runs, and async resumes at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime, tools_condition
from langgraph.types import Command

from forbear import Controller
from forbear_adapters.langgraph import RecoveryToolNode, recovery_condition
from tests.integration.langgraph.support import (
    Model,
    World,
    answers,
    build,
    controller,
    doing,
    human,
    questions,
    thread,
    tool,
    yes,
)

T = thread()


class Desk(MessagesState):
    """A state with a field that a tool's command sets."""

    desk: str


def _handing(world: World) -> Any:
    def hand_over(n: int, runtime: ToolRuntime) -> Command[Any]:
        """Hand over."""
        world.do("hand_over", n)
        message = ToolMessage(f"moved {n}", tool_call_id=runtime.tool_call_id)
        return Command(update={"desk": f"desk {n}", "messages": [message]})

    return hand_over


def test_a_command_of_a_sibling_is_carried_out_after_the_pause() -> None:
    """The call beside the pause ran before it; its state update arrives with the resume, and it ran once."""
    world = World()
    with controller() as governed:
        governed.declare("gated", effect="write", approval="always")
        node = RecoveryToolNode([_handing(world), doing(world, "gated")], governed)
        graph: Any = StateGraph(Desk)
        graph.add_node("model", Model([("hand_over", {"n": 1}), ("gated", {"n": 2})]))
        graph.add_node("tools", node)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_conditional_edges("tools", recovery_condition)
        app = graph.compile(checkpointer=InMemorySaver())
        paused: Any = app.invoke(human(), T)
        out: Any = app.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("hand_over", 1), ("gated", 2)]
    assert out["desk"] == "desk 1"
    assert sorted(str(m.content) for m in answers(out)) == ["moved 1", "ok"]


def test_an_edit_into_another_tool_is_asked_about_again() -> None:
    """A person who changes the tool is asked about that tool; only then it runs."""
    world = World()
    with controller() as governed:
        governed.declare("gated", "other", effect="write", approval="always")
        node = RecoveryToolNode([doing(world, "gated"), doing(world, "other")], governed)
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        prompt = questions(graph.invoke(human(), T))[0]
        said = {"decision": "edit", "fingerprint": prompt["fingerprint"], "tool": "other", "arguments": {"n": 5}}
        paused = graph.invoke(Command(resume={prompt["ticket"]: said}), T)
        assert world.done == []
        second = questions(paused)[0]
        assert second["tool"] == "other"
        out = graph.invoke(Command(resume=yes(second)), T)
    assert world.done == [("other", 5)]
    assert len(answers(out)) == 1


def test_an_edited_call_survives_a_second_pause_of_its_message() -> None:
    """Two prompts, the first one edited: the node starts anew at the second answer, and the edit is carried out once."""
    world = World()
    with controller() as governed:
        governed.declare("gated", effect="write", approval="always")
        node = RecoveryToolNode([doing(world, "gated", "did {n}")], governed)
        graph = build(Model([("gated", {"n": 1}), ("gated", {"n": 2})]), node, saver=InMemorySaver())
        first, second = questions(graph.invoke(human(), T))
        said = {"decision": "edit", "fingerprint": first["fingerprint"], "arguments": {"n": 7}}
        paused = graph.invoke(Command(resume={first["ticket"]: said}), T)
        assert [one["ticket"] for one in questions(paused)] == [second["ticket"]]
        out = graph.invoke(Command(resume=yes(second)), T)
    assert world.done == [("gated", 7), ("gated", 2)]
    assert [m.content for m in answers(out)] == ["did 7", "did 2"]


async def test_two_async_resumes_at_once_execute_once() -> None:
    """In one event loop as in two threads."""
    world, both = World(), asyncio.Event()

    async def gated(n: int) -> str:
        world.do("gated", n)
        await both.wait()
        return f"gated {n}"

    with controller() as governed:
        governed.declare("gated", effect="write", approval="always")
        graph = build(
            Model([("gated", {"n": 1})]),
            RecoveryToolNode([tool("gated", None, gated)], governed),
            saver=InMemorySaver(),
        )
        said = yes(*questions(await graph.ainvoke(human(), T)))
        running = [asyncio.create_task(graph.ainvoke(Command(resume=said), T)) for _ in range(2)]
        for _ in range(200):
            await asyncio.sleep(0)
        both.set()
        results = await asyncio.gather(*running)
    assert world.done == [("gated", 1)]
    assert [answers(out)[-1].content for out in results] == ["gated 1", "gated 1"]


async def test_a_run_that_is_cancelled_in_the_middle_of_a_write_leaves_it_unknown() -> None:
    """The cancelled write may have happened: the next invocation does not repeat it."""
    world, begun = World(), asyncio.Event()

    async def order(n: int) -> str:
        world.do("order", n)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    with controller() as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", None, order)], governed)
        graph = build(Model([("order", {"n": 1})]), node, saver=InMemorySaver())
        running = asyncio.create_task(graph.ainvoke(human(), T))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        out = await graph.ainvoke(None, T)
    assert world.done == [("order", 1)]
    assert "OUTCOME_UNKNOWN" in str(answers(out)[0].content)


def test_a_subgraph_node_on_the_same_thread_is_the_same_run() -> None:
    """A graph used as a node shares the thread: what its tools were refused, the outer tools are refused too."""
    world = World()

    def order(n: int) -> str:
        world.do("order", n)
        raise PermissionError

    with controller() as governed:
        governed.declare("order", effect="write")
        made = [tool("order", order)]
        inner = build(Model([("order", {"n": 1})], prefix="i"), RecoveryToolNode(made, governed))
        graph: Any = StateGraph(MessagesState)
        graph.add_node("inner", inner)
        graph.add_node("model", Model([], [("order", {"n": 1})], prefix="o"))
        graph.add_node("tools", RecoveryToolNode(made, governed))
        graph.add_edge(START, "inner")
        graph.add_edge("inner", "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_conditional_edges("tools", recovery_condition)
        out: Any = graph.compile(checkpointer=InMemorySaver()).invoke(human(), T)
    assert world.done == [("order", 1)]
    assert len(answers(out)) == 2


def test_a_model_node_of_another_name_needs_a_path_map() -> None:
    """`recovery_condition` says "model" or the end; a path map translates."""
    world = World()
    governed: Controller
    with controller() as governed:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("agent", Model([("look", {"n": 1})]))
        graph.add_node("tools", RecoveryToolNode([doing(world, "look")], governed))
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", tools_condition)
        graph.add_conditional_edges("tools", recovery_condition, {"model": "agent", END: END})
        out: Any = graph.compile().invoke(human(), T)
    assert out["messages"][-1].content == "done"
