"""A paused graph asks about exactly one call a prompt, takes only answers that name it, and executes it once.

Each test first does the same with plain LangGraph and `interrupt()` in a wrapper, as people write it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from forbear import Controller, Operator
from forbear.errors import NotOperator, UsageError
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langgraph.support import (
    FakeClock,
    Model,
    World,
    answers,
    bare,
    build,
    controller,
    human,
    naive_gate,
    questions,
    thread,
    tool,
    yes,
)

T = thread()


def _tools(world: World) -> list[Any]:
    def gated(n: int) -> str:
        world.do("gated", n)
        return f"gated {n}"

    def free(n: int) -> str:
        world.do("free", n)
        return f"free {n}"

    return [tool("gated", gated), tool("free", free)]


def _declared(governed: Controller) -> Controller:
    governed.declare("gated", effect="write", approval="always")
    governed.declare("free", effect="write")
    return governed


MIXED = [("free", {"n": 1}), ("gated", {"n": 2})]
TWO = [("gated", {"n": 1}), ("gated", {"n": 2})]


def test_a_sibling_that_ran_before_the_pause_never_runs_again() -> None:
    """Bare: the call beside the one that paused is executed again by the resume."""
    world = World()
    graph = build(Model(MIXED), bare(_tools(world), wrap_tool_call=naive_gate), saver=InMemorySaver())
    graph.invoke(human(), T)
    graph.invoke(Command(resume="yes"), T)
    assert (world.count("free"), world.count("gated")) == (2, 1)

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model(MIXED), node, saver=InMemorySaver())
        paused = graph.invoke(human(), T)
        assert world.done == [("free", 1)]
        out = graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("free", 1), ("gated", 2)]
    assert [m.content for m in answers(out)] == ["free 1", "gated 2"]


def test_the_prompt_shows_the_call_and_nothing_that_is_secret() -> None:
    """The payload names ticket, fingerprint, tool and the escaped arguments, as JSON."""
    import json

    with controller() as governed:
        governed.declare("gated", effect="write", approval="always", secret=("pin",))

        def gated(n: str, pin: str) -> str:
            return n + pin

        node = RecoveryToolNode([tool("gated", gated)], governed)
        script = [("gated", {"n": "a\u202eb", "pin": "1234"})]
        graph = build(Model(script), node, saver=InMemorySaver())
        pause = graph.invoke(human(), T)["__interrupt__"][0].value
    text = json.dumps(pause)
    assert "1234" not in text
    assert "\\\\u202e" in text
    prompt = pause["prompts"][0]
    assert prompt["tool"] == "gated"
    assert prompt["tool_call_id"] == "m0c0"
    assert len(prompt["fingerprint"]) == 32


def test_an_answer_never_reaches_another_call() -> None:
    """Bare: with two pauses in one task the answer for call 1 is given to whichever call asks first on the re-run."""
    world = World()
    seen: list[tuple[int, Any]] = []
    order = threading.Event()

    def gate(request: Any, execute: Any) -> Any:
        number = request.tool_call["args"]["n"]
        if number == 1:
            # The second call asks first: LangGraph runs both in threads, and nothing orders them.
            order.wait(5)
        try:
            answer = interrupt({"for": number})
        finally:
            order.set()
        seen.append((number, answer))
        return execute(request)

    graph = build(Model(TWO), bare(_tools(world), wrap_tool_call=gate), saver=InMemorySaver())
    asked = graph.invoke(human(), T)["__interrupt__"]
    assert [one.value for one in asked] == [{"for": 1}]
    order.clear()
    graph.invoke(Command(resume="yes for call 1"), T)
    assert (2, "yes for call 1") in seen

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model(TWO), node, saver=InMemorySaver())
        paused = graph.invoke(human(), T)
        first, second = questions(paused)
        # Only the second is answered: only the second runs, and the first is asked about again.
        paused = graph.invoke(Command(resume=yes(second)), T)
        assert world.done == [("gated", 2)]
        assert [prompt["ticket"] for prompt in questions(paused)] == [first["ticket"]]
        # The ticket of one with the fingerprint of the other answers nothing.
        crossed = {first["ticket"]: {"decision": "approve", "fingerprint": second["fingerprint"]}}
        paused = graph.invoke(Command(resume=crossed), T)
        assert world.done == [("gated", 2)]
        out = graph.invoke(Command(resume=yes(first)), T)
    assert world.done == [("gated", 2), ("gated", 1)]
    assert [m.content for m in answers(out)] == ["gated 1", "gated 2"]


def test_a_resume_value_of_another_form_answers_nothing_and_is_warned_about_once() -> None:
    """A bare "yes" is no answer to a prompt that names a ticket: the question is asked again, and the line is named."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        first = questions(graph.invoke(human(), T))
        with pytest.warns(RuntimeWarning, match=r"no answer to a prompt.*test_approval\.py:\d+"):
            paused = graph.invoke(Command(resume="yes"), T)
        assert questions(paused) == first
        assert world.done == []
        for value in (True, ["approve"], {"decision": "approve"}):
            paused = graph.invoke(Command(resume=value), T)
        assert world.done == []
        graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("gated", 1)]


def test_a_duplicate_answer_never_answers_the_next_question() -> None:
    """Bare: the answer to question 1, posted twice, answers question 2 as well."""
    script: list[Any] = [[("gated", {"n": 1})], [("gated", {"n": 2})]]
    world = World()
    graph = build(Model(*script), bare(_tools(world), wrap_tool_call=naive_gate), saver=InMemorySaver())
    paused = graph.invoke(human(), T)
    answer = {paused["__interrupt__"][0].id: "yes"}
    graph.invoke(Command(resume=answer), T)
    graph.invoke(Command(resume="yes"), T)
    assert world.done == [("gated", 1), ("gated", 2)]

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model(*script), node, saver=InMemorySaver())
        first = yes(*questions(graph.invoke(human(), T)))
        graph.invoke(Command(resume=first), T)
        paused = graph.invoke(Command(resume=first), T)
        assert world.done == [("gated", 1)]
        graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("gated", 1), ("gated", 2)]


def test_an_answer_posted_at_an_old_checkpoint_executes_nothing_again() -> None:
    """Bare: the same answer at the old checkpoint id executes the effect a second time."""
    world = World()
    graph = build(Model([("gated", {"n": 1})]), bare(_tools(world), wrap_tool_call=naive_gate), saver=InMemorySaver())
    graph.invoke(human(), T)
    old = graph.get_state(T).config
    graph.invoke(Command(resume="yes"), T)
    graph.invoke(Command(resume="yes"), old)
    assert world.count("gated") == 2

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        answer = yes(*questions(graph.invoke(human(), T)))
        old = graph.get_state(T).config
        graph.invoke(Command(resume=answer), T)
        out = graph.invoke(Command(resume=answer), old)
    assert world.count("gated") == 1
    assert answers(out)[-1].content == "gated 1"


def test_two_resumes_at_once_execute_once() -> None:
    """Bare: two concurrent resumes of one pause execute the effect twice."""

    def race(resume: Callable[[], Any]) -> list[Any]:
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(resume())) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        return results

    world = World()
    both = threading.Barrier(2)

    def gated(n: int) -> str:
        both.wait(20)
        world.do("gated", n)
        return "ok"

    node = bare([tool("gated", gated)], wrap_tool_call=naive_gate)
    graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
    graph.invoke(human(), T)
    race(lambda: graph.invoke(Command(resume="yes"), T))
    assert world.count("gated") == 2

    world = World()
    with controller() as governed:
        ours = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), ours, saver=InMemorySaver())
        answer = yes(*questions(graph.invoke(human(), T)))
        results = race(lambda: graph.invoke(Command(resume=answer), T))
    assert world.count("gated") == 1
    assert len(results) == 2


def test_a_new_message_while_paused_ends_the_prompt_and_says_so() -> None:
    """Bare: plain input while paused silently replaces the approval. Ours: the old answer is void, nothing runs."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})], [("free", {"n": 9})]), node, saver=InMemorySaver())
        first = yes(*questions(graph.invoke(human(), T)))
        # The person writes instead of answering: the model goes on with the new message.
        graph.invoke(human("never mind", "h2"), T)
        ticket, said = next(iter(first.items()))
        with pytest.raises(UsageError, match="open prompt"):
            Operator(governed).approve(ticket, said["fingerprint"])
    assert world.count("gated") == 0


def test_a_denial_is_remembered_and_a_reworded_call_is_not_asked_again_forever() -> None:
    """Bare: a person who says no is asked again for every repetition."""
    script = [[("gated", {"n": 1})]] * 5
    world = World()
    graph = build(Model(*script), bare(_tools(world), wrap_tool_call=naive_gate), saver=InMemorySaver())
    state = graph.invoke(human(), T)
    prompts = 0
    while "__interrupt__" in state:
        prompts += 1
        state = graph.invoke(Command(resume="no"), T)
    assert prompts == 5

    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model(*script), node, saver=InMemorySaver())
        state = graph.invoke(human(), T)
        prompts = 0
        while "__interrupt__" in state:
            prompts += 1
            said = {p["ticket"]: {"decision": "deny", "fingerprint": p["fingerprint"]} for p in questions(state)}
            state = graph.invoke(Command(resume=said), T)
    assert prompts == 1
    assert world.done == []
    assert "USER_DENIED" in str(answers(state)[0].content)


def test_a_pause_and_its_answer_survive_a_restart(tmp_path: Path) -> None:
    """A new process (new controller, new saver, new graph) takes the answer and executes once."""
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    world = World()

    def open_all() -> tuple[Controller, Any, sqlite3.Connection]:
        governed = _declared(Controller.open(tmp_path / "forbear.db", worker=False))
        connection = sqlite3.connect(tmp_path / "graph.db", check_same_thread=False)
        node = RecoveryToolNode(_tools(world), governed)
        return governed, build(Model(MIXED), node, saver=SqliteSaver(connection)), connection

    governed, graph, connection = open_all()
    answer = yes(*questions(graph.invoke(human(), T)))
    governed.close()
    connection.close()

    governed, graph, connection = open_all()
    again = graph.get_state(T).interrupts
    assert [prompt["ticket"] for pause in again for prompt in pause.value["prompts"]] == list(answer)
    out = graph.invoke(Command(resume=answer), T)
    governed.close()
    connection.close()
    assert world.done == [("free", 1), ("gated", 2)]
    assert [m.content for m in answers(out)] == ["free 1", "gated 2"]


async def test_a_pause_survives_a_restart_with_the_async_saver(tmp_path: Path) -> None:
    """The same with `AsyncSqliteSaver` and async tools."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    world = World()

    async def gated(n: int) -> str:
        world.do("gated", n)
        return f"gated {n}"

    answer: dict[str, Any] = {}
    out: Any = None
    for _ in range(2):
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
            with Controller.open(tmp_path / "forbear.db", worker=False) as governed:
                governed.declare("gated", effect="write", approval="always")
                node = RecoveryToolNode([tool("gated", None, gated)], governed)
                graph = build(Model([("gated", {"n": 1})]), node, saver=saver)
                out = await graph.ainvoke(Command(resume=answer) if answer else human(), T)
                answer = answer or yes(*questions(out))
    assert world.done == [("gated", 1)]
    assert answers(out)[0].content == "gated 1"


def test_an_answer_from_outside_is_enough(tmp_path: Path) -> None:
    """An operator in another process approves; the graph is resumed with anything and proposes again."""
    world = World()
    with Controller.open(tmp_path / "forbear.db", worker=False) as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        prompt = questions(graph.invoke(human(), T))[0]
        with Operator(tmp_path / "forbear.db") as operator:
            assert [one.ticket for one in operator.pending()] == [prompt["ticket"]]
            operator.approve(prompt["ticket"], prompt["fingerprint"])
        out = graph.invoke(Command(resume="answered elsewhere"), T)
    assert world.done == [("gated", 1)]
    assert answers(out)[0].content == "gated 1"


def test_an_edited_call_runs_instead_once() -> None:
    """What the person wrote runs; what the model proposed does not."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        prompt = questions(graph.invoke(human(), T))[0]
        said = {prompt["ticket"]: {"decision": "edit", "fingerprint": prompt["fingerprint"], "arguments": {"n": 7}}}
        out = graph.invoke(Command(resume=said), T)
    assert world.done == [("gated", 7)]
    assert answers(out)[0].content == "gated 7"


def test_a_revision_lets_a_changed_call_be_asked_about() -> None:
    """A wish for changes is no refusal: the same call does not come back, another one may."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})], [("gated", {"n": 2})]), node, saver=InMemorySaver())
        prompt = questions(graph.invoke(human(), T))[0]
        said = {"decision": "revise", "fingerprint": prompt["fingerprint"], "ticket": prompt["ticket"]}
        paused = graph.invoke(Command(resume=said), T)
        assert world.done == []
        out = graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("gated", 2)]
    assert "CHANGES_REQUESTED" in str(answers(out)[0].content)


def test_without_a_checkpointer_nothing_pauses_and_the_result_says_so() -> None:
    """Bare: an interrupt without a checkpointer loses the run. Ours: the call answers that a person is needed."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        out = build(Model(MIXED), node).invoke(human(), T)
        assert "__interrupt__" not in out
        assert world.done == [("free", 1)]
        assert answers(out)[1].response_metadata["forbear"]["answer"] == "needs_approval"
        assert "APPROVAL_REQUIRED" in str(answers(out)[1].content)


def test_limits_do_not_reset_on_resume() -> None:
    """A budget counts over pauses: the fourth call is over it although every call was a resume of its own."""
    world = World()
    with controller(limits={"max_calls_per_turn": 3}) as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        script: list[Any] = [[("gated", {"n": n})] for n in range(6)]
        graph = build(Model(*script), node, saver=InMemorySaver())
        state = graph.invoke(human(), T)
        while "__interrupt__" in state:
            state = graph.invoke(Command(resume=yes(*questions(state))), T)
    assert world.count("gated") == 3
    assert "BUDGET_EXHAUSTED" in str(answers(state)[3].content)


def test_a_rule_that_changes_its_mind_between_pause_and_resume_never_opens_the_gate() -> None:
    """The rule flips to "allow" while the person says no: the no stands."""
    from forbear.contract import allow, ask

    world = World()
    flips = [ask("cap"), allow()]
    with controller() as governed:
        governed.declare("gated", effect="write", approval=lambda _arguments: flips[0])
        node = RecoveryToolNode(_tools(world), governed)
        graph = build(Model([("gated", {"n": 1})], [("gated", {"n": 1})]), node, saver=InMemorySaver())
        prompt = questions(graph.invoke(human(), T))[0]
        flips.pop(0)
        graph.invoke(Command(resume={prompt["ticket"]: {"decision": "deny", "fingerprint": prompt["fingerprint"]}}), T)
    assert world.done == []


def test_a_tool_that_pauses_by_itself_passes_through_and_resumes() -> None:
    """`interrupt()` inside a tool works as with `ToolNode`; its finished sibling is not executed again."""
    world = World()

    def asks(n: int) -> str:
        answer = interrupt(f"really {n}?")
        world.do("asks", n, answer)
        return f"said {answer}"

    tools = [tool("asks", asks), *_tools(world)]
    script = [("free", {"n": 1}), ("asks", {"n": 2})]
    graph = build(Model(script), bare(tools), saver=InMemorySaver())
    graph.invoke(human(), T)
    graph.invoke(Command(resume="sure"), T)
    assert (world.count("free"), world.count("asks")) == (2, 1)
    world.done.clear()
    with controller() as governed:
        _declared(governed).declare("asks", effect="write")
        graph = build(Model(script), RecoveryToolNode(tools, governed), saver=InMemorySaver())
        paused = graph.invoke(human(), T)
        assert paused["__interrupt__"][0].value == "really 2?"
        out = graph.invoke(Command(resume="sure"), T)
    assert world.done == [("free", 1), ("asks", 2, "sure")]
    assert [m.content for m in answers(out)] == ["free 1", "said sure"]


def test_a_wrapper_that_catches_everything_never_swallows_a_pause() -> None:
    """Bare: `except Exception` in a wrapper swallows the interrupt, and the model is told that something failed."""
    world = World()

    def careless(request: Any, execute: Callable[[Any], Any]) -> Any:
        try:
            return execute(request)
        except Exception:  # noqa: BLE001 - that is the harm
            return ToolMessage("failed", tool_call_id=request.tool_call["id"])

    async def acareless(request: Any, execute: Callable[[Any], Any]) -> Any:
        try:
            return await execute(request)
        except Exception:  # noqa: BLE001 - that is the harm
            return ToolMessage("failed", tool_call_id=request.tool_call["id"])

    def asks(n: int) -> str:
        world.do("asks", n)
        return f"said {interrupt(n)}"

    tools = [tool("asks", asks), *_tools(world)]
    graph = build(Model([("asks", {"n": 1})]), bare(tools, wrap_tool_call=careless), saver=InMemorySaver())
    assert "__interrupt__" not in graph.invoke(human(), T)

    for script in ([("asks", {"n": 1})], [("gated", {"n": 1})]):
        with controller() as governed:
            node = RecoveryToolNode(tools, _declared(governed), wrap_tool_call=careless, awrap_tool_call=acareless)
            assert "__interrupt__" in build(Model(script), node, saver=InMemorySaver()).invoke(human(), T)
            graph = build(Model(script), node, saver=InMemorySaver())
            assert "__interrupt__" in asyncio.run(graph.ainvoke(human(), thread("other")))


def test_two_tools_of_one_message_that_pause_by_themselves_are_an_error_not_a_mix_up() -> None:
    """LangGraph tells the answers of one task apart by order only, so ours refuses to guess; `Send` keeps them apart."""

    def asks(n: int) -> str:
        return f"{n} said {interrupt(n)}"

    script = [("asks", {"n": 1}), ("asks", {"n": 2})]
    with controller() as governed:
        node = RecoveryToolNode([tool("asks", asks)], governed)
        with pytest.raises(UsageError, match="more than one tool of a message paused"):
            build(Model(script), node, saver=InMemorySaver()).invoke(human(), T)
    with controller() as governed:
        node = RecoveryToolNode([tool("asks", asks)], governed)
        graph = build(Model(script), node, saver=InMemorySaver(), send=True)
        paused = graph.invoke(human(), T)
        said = {one.id: f"answer {one.value}" for one in paused["__interrupt__"]}
        out = graph.invoke(Command(resume=said), T)
    assert sorted(str(m.content) for m in answers(out)) == ["1 said answer 1", "2 said answer 2"]


def test_calls_that_are_sent_one_by_one_are_asked_about_one_by_one() -> None:
    """With `Send` each call is its own task with its own question; the siblings are one step all the same."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model(TWO), node, saver=InMemorySaver(), send=True)
        paused = graph.invoke(human(), T)
        first, second = sorted(questions(paused), key=lambda prompt: prompt["tool_call_id"])
        by_id = {pause.id: yes(*pause.value["prompts"]) for pause in paused["__interrupt__"]}
        out = graph.invoke(Command(resume=by_id), T)
    assert (first["tool_call_id"], second["tool_call_id"]) == ("m0c0", "m0c1")
    assert sorted(world.done) == [("gated", 1), ("gated", 2)]
    assert len(answers(out)) == 2


def test_an_expired_prompt_is_void() -> None:
    """An answer after the time to answer executes nothing; the call is asked about again."""
    world, clock = World(), FakeClock()
    with controller(clock=clock, limits={"approval_ttl": 60}) as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        late = yes(*questions(graph.invoke(human(), T)))
        clock.sleep(61)
        paused = graph.invoke(Command(resume=late), T)
        assert world.done == []
        graph.invoke(Command(resume=yes(*questions(paused))), T)
    assert world.done == [("gated", 1)]


async def test_streaming_shows_the_pause_and_goes_on_after_it() -> None:
    """`astream(subgraphs=True)` shows the interrupt, and the resumed stream the answer."""
    world = World()
    with controller() as governed:
        node = RecoveryToolNode(_tools(world), _declared(governed))
        graph = build(Model([("gated", {"n": 1})]), node, saver=InMemorySaver())
        stream = graph.astream(human(), T, stream_mode="updates", subgraphs=True)
        chunks: list[Any] = [chunk async for _, chunk in stream]
        pauses = [chunk for chunk in chunks if "__interrupt__" in chunk]
        said = yes(*questions(pauses[0]))
        async for _, chunk in graph.astream(Command(resume=said), T, stream_mode="updates", subgraphs=True):
            chunks.append(chunk)
    assert len(pauses) == 1
    assert [c["tools"]["messages"][0].content for c in chunks if "tools" in c] == ["gated 1"]
    assert world.done == [("gated", 1)]


READING = [("look", {"n": 1}), ("gated", {"n": 2}), ("whole", {"n": 3})]


def _with_reads(world: World) -> list[Any]:
    def look(n: int) -> dict[str, int]:
        world.do("look", n)
        return {"seen": n}

    def whole(n: int) -> tuple[str, object]:
        world.do("whole", n)
        return f"whole {n}", ["raw", n]

    artifact = StructuredTool.from_function(
        whole, name="whole", description="Look.", response_format="content_and_artifact"
    )
    return [*_tools(world), tool("look", look), artifact]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_read_beside_a_pause_is_answered_from_the_record(restarts: bool, tmp_path: Path) -> None:
    """It ran once and is not looked up again by the resume, also after a restart; what no record can give runs again."""
    world, saver = World(), InMemorySaver()

    def opened() -> Controller:
        governed = _declared(Controller.open(tmp_path / "forbear.db", clock=FakeClock(), worker=False))
        governed.declare("look", "whole", effect="read")
        return governed

    governed = opened()
    graph = build(Model(READING), RecoveryToolNode(_with_reads(world), governed), saver=saver)
    paused = graph.invoke(human(), T)
    assert sorted(world.done) == [("look", 1), ("whole", 3)]
    if restarts:
        governed.close()
        governed = opened()
        graph = build(Model(READING), RecoveryToolNode(_with_reads(world), governed), saver=saver)
    out = graph.invoke(Command(resume=yes(*questions(paused))), T)
    governed.close()
    assert (world.count("look"), world.count("gated"), world.count("whole")) == (1, 1, 1 + restarts)
    assert [m.content for m in answers(out)] == ['{"seen": 1}', "gated 2", "whole 3"]
    assert [m.status for m in answers(out)] == ["success"] * 3


async def test_a_read_beside_a_pause_is_answered_from_the_record_in_tasks() -> None:
    """The same where the graph is async, and where a tool pauses by itself."""
    world = World()
    with controller() as governed:
        governed.declare("look", effect="read")

        def asks(n: int) -> str:
            return f"{interrupt('sure?')} {n}"

        node = RecoveryToolNode([*_with_reads(world), tool("asks", asks)], governed)
        graph = build(Model([("look", {"n": 1}), ("asks", {"n": 2})]), node, saver=InMemorySaver())
        await graph.ainvoke(human(), T)
        assert world.done == [("look", 1)]
        out = await graph.ainvoke(Command(resume="yes"), T)
    assert world.done == [("look", 1)]
    assert [m.content for m in answers(out)] == ['{"seen": 1}', "yes 2"]


def test_with_an_operator_token_an_answer_without_it_says_what_to_do(tmp_path: Path) -> None:
    """The node warns when it is built; an answer through the graph is refused with what helps; each help works."""
    world, path, saver = World(), tmp_path / "forbear.db", InMemorySaver()
    governed = _declared(Controller.open(path, clock=FakeClock(), worker=False))
    token = Operator(governed).make_token()
    with pytest.warns(
        RuntimeWarning, match="the store has an operator token.*Operator.controller, token=.*forbear approve"
    ):
        node = RecoveryToolNode(_tools(world), governed)
    graph = build(Model([("gated", {"n": 2})]), node, saver=saver)
    paused = graph.invoke(human(), T)
    answer: Command[Any] = Command(resume=yes(*questions(paused)))
    with pytest.raises(NotOperator, match=r"operator: the store has an operator token.*Operator\(controller, token"):
        graph.invoke(answer, T)
    assert world.done == []
    # Answered elsewhere, then resumed with anything.
    (asked,) = questions(paused)
    Operator(governed, token=token).approve(asked["ticket"], asked["fingerprint"])
    out = graph.invoke(None, T)
    assert [m.content for m in answers(out)] == ["gated 2"]
    # Or with an operator that has the token: no warning, and the answer is taken.
    node = RecoveryToolNode(_tools(world), governed, operator=Operator(governed, token=token))
    graph = build(Model([("gated", {"n": 5})], prefix="x"), node, saver=saver)
    config = thread("with a token")
    paused = graph.invoke(human(), config)
    out = graph.invoke(Command(resume=yes(*questions(paused))), config)
    assert world.done == [("gated", 2), ("gated", 5)]
    governed.close()
