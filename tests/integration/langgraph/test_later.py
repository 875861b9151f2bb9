"""Results that become ready later take the place of the answer that said so, in the graph's own messages."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from forbear import Controller, Operator, Refused
from forbear_adapters.langgraph import RecoveryToolNode, adeliver_ready, deliver_ready
from tests.integration.langgraph.support import (
    FakeClock,
    Model,
    World,
    answers,
    build,
    controller,
    human,
    thread,
    tool,
)

T = thread()


def _waiting(world: World, clock: FakeClock, **options: Any) -> tuple[Controller, list[Any]]:
    """Return a desk whose daily limit is used up until an hour from now, and a harmless look."""

    def order(n: int) -> str:
        world.do("order", n)
        if world.count("order") == 1:
            raise Refused("QUOTA_EXHAUSTED", recovery="retry_after", reset_at="2026-09-05T19:00:00Z")
        return f"ordered {n}"

    def look(n: int) -> str:
        world.do("look", n)
        return "seen"

    governed = controller(clock=clock, **options)
    governed.declare("order", effect="write", target="n")
    governed.declare("look", effect="read")
    return governed, [tool("order", order), tool("look", look)]


def test_a_result_that_becomes_ready_replaces_its_answer_at_the_next_step() -> None:
    """The model reads "pending", does other work, and then reads the result in the same place."""
    world, clock = World(), FakeClock()
    governed, tools = _waiting(world, clock)
    shown: list[list[str]] = []

    def model(state: dict[str, Any]) -> dict[str, Any]:
        shown.append([str(m.content) for m in answers(state)])
        step = len(answers(state))
        if step == 1:
            clock.sleep(7200)
            governed.work()
        calls = [[("order", {"n": 1})], [("look", {"n": 1})]]
        from tests.integration.langgraph.support import says

        return {"messages": [says(step, calls[step])] if step < 2 else [AIMessage("done")]}

    with governed:
        out = build(model, RecoveryToolNode(tools, governed), saver=InMemorySaver()).invoke(human(), T)
    assert world.done == [("order", 1), ("order", 1), ("look", 1)]
    assert "retry_after" in shown[1][0]
    assert shown[2] == ["ordered 1", "seen"]
    assert [m.content for m in answers(out)] == ["ordered 1", "seen"]


def test_a_result_that_becomes_ready_reaches_an_idle_thread() -> None:
    """`deliver_ready` replaces the message by its id before the next invocation; the model never sees both."""
    world, clock = World(), FakeClock()
    governed, tools = _waiting(world, clock)
    with governed:
        model = Model([("order", {"n": 1})])
        graph = build(model, RecoveryToolNode(tools, governed), saver=InMemorySaver())
        out = graph.invoke(human(), T)
        assert "retry_after" in str(answers(out)[0].content)
        assert deliver_ready(graph, T, governed) == 0
        clock.sleep(7200)
        governed.work()
        assert deliver_ready(graph, T, governed) == 1
        assert deliver_ready(graph, T, governed) == 0
        graph.invoke(human("and?", "h2"), T)
    assert [str(m.content) for m in answers({"messages": model.seen[-1]})] == ["ordered 1"]
    assert world.count("order") == 2


async def test_a_result_that_becomes_ready_reaches_an_idle_async_thread() -> None:
    """The same with an async graph."""
    world, clock = World(), FakeClock()
    governed, tools = _waiting(world, clock)
    with governed:
        graph = build(Model([("order", {"n": 1})]), RecoveryToolNode(tools, governed), saver=InMemorySaver())
        await graph.ainvoke(human(), T)
        clock.sleep(7200)
        await governed.awork()
        assert await adeliver_ready(graph, T, governed) == 1
        state = await graph.aget_state(T)
    assert [m.content for m in answers(state.values)] == ["ordered 1"]


def test_a_wait_is_never_asked_for_again_by_the_model() -> None:
    """Bare models repeat: however often the call comes, it is executed once before and once after the reset."""
    world, clock = World(), FakeClock()
    governed, tools = _waiting(world, clock)
    with governed:
        graph = build(Model(*[[("order", {"n": 1})]] * 6), RecoveryToolNode(tools, governed), saver=InMemorySaver())
        graph.invoke(human(), T)
        assert world.count("order") == 1
        clock.sleep(7200)
        governed.work()
        governed.work()
    assert world.count("order") == 2


def test_an_approval_without_a_checkpointer_is_carried_out_by_the_controller() -> None:
    """Nothing can be resumed: after the yes the controller runs the call itself, and the result takes its place."""
    world = World()

    def gated(n: int) -> str:
        world.do("gated", n)
        return f"gated {n}"

    with controller() as governed:
        governed.declare("gated", effect="write", approval="always")
        node = RecoveryToolNode([tool("gated", gated)], governed)
        out = build(Model([("gated", {"n": 1})]), node).invoke(human(), T)
        operator = Operator(governed)
        prompt = operator.pending()[0]
        operator.approve(prompt.ticket, prompt.fingerprint)
        governed.work()
        assert world.done == [("gated", 1)]
        again = build(Model([("gated", {"n": 1})], [("gated", {"n": 9})]), node)
        out = again.invoke({"messages": [*out["messages"], *human("go on", "h2")["messages"]]}, T)
    assert str(answers(out)[0].content) == "gated 1"


def test_a_due_call_runs_with_the_tool_of_its_own_conversation() -> None:
    """Two nodes on one controller, each with a closure of its own under one name: no run gets the other one's."""
    clock, done = FakeClock(), list[tuple[str, int]]()

    def order_of(user: str) -> Any:
        def order(n: int) -> str:
            done.append((user, n))
            if done.count((user, n)) == 1:
                raise Refused("QUOTA_EXHAUSTED", recovery="retry_after", reset_at="2026-09-05T19:00:00Z")
            return f"ordered by {user}"

        return tool("order", order)

    with controller(clock=clock) as governed:
        governed.declare("order", effect="write", target="n")
        graphs = {
            user: build(
                Model([("order", {"n": number})]),
                RecoveryToolNode([order_of(user)], governed),
                saver=InMemorySaver(),
            )
            for number, user in enumerate(("ann", "bo"))
        }
        for user, graph in graphs.items():
            graph.invoke(human(), thread(user))
        clock.sleep(7200)
        governed.work()
        for user, graph in graphs.items():
            assert deliver_ready(graph, thread(user), governed) == 1
            state = graph.get_state(thread(user)).values
            assert [str(m.content) for m in answers(state)] == [f"ordered by {user}"]
    assert sorted(done) == [("ann", 0), ("ann", 0), ("bo", 1), ("bo", 1)]
