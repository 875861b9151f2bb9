"""What every adapter owes (design section 13), for the tool node and the agent middleware, each sync and async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from forbear import Controller, Operator
from forbear_adapters.langchain import RecoveryMiddleware
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langchain.chat import model as chat
from tests.integration.langgraph.support import (
    Model,
    Says,
    World,
    answers,
    build,
    controller,
    doing,
    giving,
    human,
    questions,
    says,
    thread,
    tool,
    yes,
)

T = thread()


class Way:
    """One way in: the node or the middleware, invoked sync or async."""

    def __init__(self, kind: str, *, is_async: bool) -> None:
        self.kind = kind
        self.is_async = is_async
        self.governed = controller()

    def graph(self, tools: Sequence[BaseTool], *script: Says | AIMessage, again: bool = False) -> Any:
        """Return a graph with a checkpointer whose model follows a script."""
        saver = InMemorySaver()
        if self.kind == "node":
            return build(Model(*script, again=again), RecoveryToolNode(tools, self.governed), saver=saver)
        layers = [RecoveryMiddleware(self.governed)]
        return create_agent(chat(*script, again=again), tools, middleware=layers, checkpointer=saver)

    def run(self, graph: Any, given: Any, config: Any = T) -> Any:
        """Invoke a graph."""
        return asyncio.run(graph.ainvoke(given, config)) if self.is_async else graph.invoke(given, config)


@pytest.fixture(params=["node sync", "node async", "agent sync", "agent async"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Return one way in after the other."""
    kind, _, mode = request.param.partition(" ")
    made = Way(kind, is_async=mode == "async")
    yield made
    made.governed.close()


def _boom(world: World, error: BaseException) -> BaseTool:
    def order(n: int) -> str:
        world.do("order", n)
        raise error

    return tool("order", order)


def test_a_value_passes_unchanged(way: Way) -> None:
    """A successful value is the model's, as it was."""
    out = way.run(way.graph([giving("look", {"a": [1, "ü"]})], [("look", {"n": 1})]), human())
    assert answers(out)[0].content == '{"a": [1, "ü"]}'
    assert answers(out)[0].response_metadata == {}


@pytest.mark.parametrize(
    "error", [PermissionError("x"), TimeoutError("x"), ConnectionResetError("x"), RuntimeError("x")]
)
def test_a_tool_that_raises_ends_nothing_and_runs_once(way: Way, error: Exception) -> None:
    """Whatever a write raises, it is answered, executed once, and the run comes to an end by itself."""
    world = World()
    way.governed.declare("order", effect="write")
    out = way.run(way.graph([_boom(world, error)], [("order", {"n": 1})], again=True), human())
    assert world.done == [("order", 1)]
    assert isinstance(out["messages"][-1], AIMessage)
    assert not out["messages"][-1].tool_calls


def test_garbage_is_a_result(way: Way) -> None:
    """An object that nobody can serialise is told as LangChain tells it, and does not run again in its message."""
    world = World()

    def order(n: int) -> object:
        world.do("order", n)
        return World

    out = way.run(way.graph([tool("order", order)], [("order", {"n": 1}), ("order", {"n": 1})]), human())
    assert world.count("order") == 1
    assert len(answers(out)) == 2


def test_a_tool_that_hangs_is_given_up_where_the_author_says_when(way: Way) -> None:
    """A write that does not answer in time is unknown, and is not repeated."""
    world, never = World(), threading.Event()

    def hangs(n: int) -> str:
        world.do("order", n)
        never.wait(20)
        return "late"

    async def ahangs(n: int) -> str:
        world.do("order", n)
        await asyncio.Event().wait()
        return "late"

    way.governed.declare("order", effect="write", limits={"timeout": 0.05})
    made = tool("order", None, ahangs) if way.is_async else tool("order", hangs)
    out = way.run(way.graph([made], [("order", {"n": 1})], [("order", {"n": 1})]), human())
    never.set()
    assert world.done == [("order", 1)]
    assert "OUTCOME_UNKNOWN" in str(answers(out)[-1].content)


def test_a_broken_store_runs_nothing(way: Way) -> None:
    """It fails closed."""
    world = World()
    graph = way.graph([doing(world, "order")], [("order", {"n": 1})])
    way.governed.close()
    out = way.run(graph, human())
    assert world.done == []
    assert "CONTROLLER_BROKEN" in str(answers(out)[0].content)


def test_a_framework_signal_passes_untouched(way: Way) -> None:
    """A tool's own `interrupt()` reaches the caller as it is, and its answer reaches the tool."""

    def asks(n: int) -> str:
        return f"said {interrupt({'n': n})}"

    graph = way.graph([tool("asks", asks)], [("asks", {"n": 1})])
    paused = way.run(graph, human())
    assert [one.value for one in paused["__interrupt__"]] == [{"n": 1}]
    out = way.run(graph, Command(resume="yes"))
    assert answers(out)[0].content == "said yes"


def test_an_approval_is_for_exactly_the_call_that_was_shown(way: Way) -> None:
    """An edited checkpoint cannot grant: other arguments under the same ids are another question."""
    world = World()
    way.governed.declare("order", effect="write", approval="always")
    graph = way.graph([doing(world, "order")], [("order", {"n": 1})])
    prompt = questions(way.run(graph, human()))[0]
    changed = says(0, [("order", {"n": 1_000_000})])
    node = "model" if way.kind == "node" else graph.get_state(T).metadata.get("source") and "model"
    graph.update_state(T, {"messages": [changed]}, as_node=node)
    paused = way.run(graph, Command(resume=yes(prompt)))
    assert world.done == []
    assert [one["arguments"][0]["text"] for one in questions(paused)] == ["1000000"]


def test_an_approval_is_spent_once(way: Way) -> None:
    """One yes, one execution; the same call again is asked about again."""
    world = World()
    way.governed.declare("order", effect="write", approval="always")
    graph = way.graph([doing(world, "order")], [("order", {"n": 1})], [("order", {"n": 1})])
    first = questions(way.run(graph, human()))
    paused = way.run(graph, Command(resume=yes(*first)))
    assert world.done == [("order", 1)]
    second = questions(paused)
    assert second[0]["ticket"] != first[0]["ticket"]


def test_a_resume_finds_what_ran(way: Way) -> None:
    """The same step entered again from an old checkpoint is answered from the record."""
    world = World()
    way.governed.declare("order", effect="write")
    graph = way.graph([doing(world, "order", "ordered {n}")], [("order", {"n": 1})])
    way.run(graph, human())
    before = [state for state in graph.get_state_history(T) if state.next == ("tools",)][-1]
    out = way.run(graph, None, before.config)
    assert world.done == [("order", 1)]
    assert answers(out)[0].content == "ordered 1"


def test_equal_calls_of_one_message_are_one_execution(way: Way) -> None:
    """Two equal writes of one message are one write, and both are answered."""
    world = World()
    way.governed.declare("order", effect="write")
    out = way.run(way.graph([doing(world, "order")], [("order", {"n": 1}), ("order", {"n": 1})]), human())
    assert world.count("order") == 1
    assert [message.content for message in answers(out)] == ["ok", "ok"]


def test_a_cut_off_call_does_not_run(way: Way) -> None:
    """The last call of a message that hit the length limit is not executed."""
    world = World()
    cut = says(0, [("order", {"n": 1})], response_metadata={"stop_reason": "max_tokens"})
    out = way.run(way.graph([doing(world, "order")], cut), human())
    assert world.done == []
    assert "INPUT_TRUNCATED" in str(answers(out)[0].content)


def test_a_halted_run_ends_and_the_person_is_told(way: Way) -> None:
    """A model that only repeats a refused call is not asked any more; the last message is for the person."""
    world = World()
    way.governed.declare("order", effect="write")
    out = way.run(way.graph([_boom(world, PermissionError())], [("order", {"n": 1})], again=True), human())
    assert world.count("order") == 1
    assert "stopped using tools" in str(out["messages"][-1].content)
    assert sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in out["messages"]) <= 7


def test_a_new_human_message_is_a_new_turn(way: Way) -> None:
    """A refused call may be probed once after the next human message, not before."""
    world = World()
    way.governed.declare("order", effect="write")
    graph = way.graph([_boom(world, PermissionError())], *[[("order", {"n": 1})]] * 4)
    way.run(graph, human("one", "h1"))
    assert world.count("order") == 1
    way.run(graph, human("two", "h2"))
    assert world.count("order") <= 2


def test_two_threads_are_two_runs(way: Way) -> None:
    """What one thread was refused another one may try."""
    world = World()
    way.governed.declare("order", effect="write")
    for name in ("a", "b"):
        way.run(way.graph([_boom(world, PermissionError())], [("order", {"n": 1})]), human(), thread(name))
    assert world.count("order") == 2


def test_an_operator_elsewhere_decides_like_the_resume(way: Way) -> None:
    """A "no" from outside is found when the graph goes on."""
    world = World()
    way.governed.declare("order", effect="write", approval="always")
    graph = way.graph([doing(world, "order")], [("order", {"n": 1})])
    prompt = questions(way.run(graph, human()))[0]
    Operator(way.governed).deny(prompt["ticket"], prompt["fingerprint"])
    out = way.run(graph, Command(resume="go on"))
    assert world.done == []
    assert "USER_DENIED" in str(answers(out)[0].content)


def test_the_same_controller_serves_both_ways(way: Way) -> None:
    """What the node was refused in a thread, the agent on that thread does not get either."""
    world = World()
    governed: Controller = way.governed
    governed.declare("order", effect="write")
    way.run(way.graph([_boom(world, PermissionError())], [("order", {"n": 1})]), human())
    other = Way("agent" if way.kind == "node" else "node", is_async=way.is_async)
    other.governed.close()
    other.governed = governed
    script = [("order", {"n": 1})]
    other.run(
        other.graph([_boom(world, PermissionError())], AIMessage("", id="x", tool_calls=says(0, script).tool_calls)),
        human(),
    )
    assert world.count("order") == 1
