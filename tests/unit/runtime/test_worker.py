"""What is due is done once, at its time, by whoever claims it first; results reach the run."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from forbear.core.vocabulary import Answer, Outcome, Verdict
from forbear.errors import Refused
from forbear.runtime.operator import Operator

LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)


def rules(controller: Any) -> Any:
    """Return the rules of the journal."""
    return [line.rule for _, line in controller.store.journal(limit=1000)]


@pytest.fixture
def desk(controller: Any) -> Any:
    """Declare a write and the check of its outcome."""
    controller.declare("find", effect="read")
    controller.declare("place", effect="write", target="id", inspect={"tool": "find", "applied_if": "non_empty"})
    return controller


def test_a_due_retry_runs_once_and_its_result_is_handed_out_once(desk: Any, clock: Any, scripted: Any) -> None:
    """`work` runs what is due with the bound executor, not before its time and not twice."""
    tool = scripted(LATER, {"id": 7})
    desk.bind("place", tool)
    ready: list[Any] = []
    desk.engine.on_ready = ready.append
    waiting = desk.call("place", {"id": 1}, run="r", call_id="c")
    clock.advance(59)
    assert desk.work() == []
    clock.advance(15)
    assert [reply.value for reply in desk.work()] == [{"id": 7}]
    assert desk.work() == []
    assert tool.count == 2
    run = desk.run("r")
    assert [(reply.value, reply.call_id) for reply in run.inbox()] == [({"id": 7}, "c")]
    assert run.inbox() == []
    assert [reply.value for reply in ready] == [{"id": 7}]
    assert waiting.answer is Answer.PENDING


async def test_awork_runs_async_executors_at_the_same_time(desk: Any, clock: Any) -> None:
    """Due calls of one pass do not wait for one another."""
    both = asyncio.Barrier(2)
    seen = []

    async def tool(**arguments: object) -> object:
        seen.append(arguments)
        if len(seen) <= 2:
            raise LATER
        await both.wait()
        return arguments

    desk.bind("place", tool)
    for n in (1, 2):
        await desk.acall("place", {"id": n}, run=f"r{n}")
    clock.advance(75)
    done = await asyncio.wait_for(desk.awork(), 10)
    assert sorted(reply.value["id"] for reply in done) == [1, 2]


def test_due_claims_for_callers_that_execute_by_themselves(desk: Any, clock: Any, scripted: Any) -> None:
    """`due` hands out open attempts; their settled results go into the inbox."""
    desk.call("place", {"id": 1}, run="r", execute=scripted(LATER))
    clock.advance(75)
    (claimed,) = desk.due()
    assert (claimed.answer, dict(claimed.attempt.arguments)) == (Answer.EXECUTED, {"id": 1})
    assert desk.due() == []
    settled = desk.settle(claimed.attempt, {"done": True})
    assert settled.value == {"done": True}
    assert [reply.value for reply in desk.run("r").inbox()] == [{"done": True}]


def test_a_missing_executor_is_one_warning_and_the_row_stays_due(desk: Any, clock: Any, scripted: Any) -> None:
    """What cannot be run here is left for whoever can."""
    desk.call("place", {"id": 1}, run="r", execute=scripted(LATER))
    clock.advance(75)
    with pytest.warns(RuntimeWarning, match="'place'") as caught:
        assert desk.work() == []
    assert desk.work() == []
    assert len(caught) == 1
    desk.bind("place", scripted({"id": 1}))
    assert len(desk.work()) == 1


def test_many_rows_that_cannot_be_worked_on_do_not_hide_one_that_can(opened: Any, clock: Any, scripted: Any) -> None:
    """A batch full of foreign rows does not starve the others."""
    controller = opened()
    controller.declare("far", effect="read")
    controller.declare("near", effect="read")
    for n in range(70):
        controller.call("far", {"n": n}, run=f"r{n}", execute=scripted(LATER))
    clock.advance(1)
    tool = scripted(LATER, {"ok": 1})
    controller.bind("near", tool)
    controller.call("near", {}, run="x")
    clock.advance(100)
    with pytest.warns(RuntimeWarning, match="'far'"):
        assert [reply.value for reply in controller.work()] == [{"ok": 1}]


def test_an_unknown_write_is_looked_for_and_absence_counts_only_twice(desk: Any, clock: Any, scripted: Any) -> None:
    """The declared check runs as a governed read; nothing is repeated before a verdict."""
    place, find = scripted(TimeoutError()), scripted([])
    desk.bind("place", place)
    desk.bind("find", find)
    desk.tool(name="find", effect="read", input_fields=["id"])(find)
    reply = desk.call("place", {"id": 1, "n": 2}, run="r")
    assert reply.envelope.outcome is Outcome.UNKNOWN
    clock.advance(2)
    desk.work()
    assert find.received == [{"id": 1}]
    assert desk.call("place", {"id": 1, "n": 2}, run="r").answer is Answer.BLOCKED
    clock.advance(60)
    desk.work()
    assert find.count == 2
    assert "unknown.inspected.not_applied" in rules(desk)
    assert place.count == 1


def test_a_check_that_finds_the_write_completes_it(desk: Any, clock: Any, scripted: Any) -> None:
    """Applied → completed, and the run is told."""
    place, find = scripted(TimeoutError()), scripted([{"id": 1}])
    desk.bind("place", place)
    desk.tool(name="find", effect="read", input_fields=["id"])(find)
    desk.call("place", {"id": 1}, run="r")
    clock.advance(2)
    desk.work()
    (told,) = desk.run("r").inbox()
    assert told.envelope.outcome is Outcome.ALREADY_SATISFIED
    assert rules(desk).count("unknown.inspected.applied") == 1


def test_a_failed_look_up_is_not_absence(desk: Any, clock: Any, scripted: Any) -> None:
    """A check that raises, or that is no declared read, says nothing."""
    place, find = scripted(TimeoutError()), scripted(ValueError("boom"))
    desk.bind("place", place)
    desk.tool(name="find", effect="read", input_fields=["id"])(find)
    desk.call("place", {"id": 1}, run="r")
    for _ in range(4):
        clock.advance(100)
        desk.work()
    assert "unknown.inspected.not_applied" not in rules(desk)
    assert desk.call("place", {"id": 1}, run="r").answer is Answer.BLOCKED
    assert place.count == 1


def test_the_models_own_look_up_counts(desk: Any, clock: Any, scripted: Any) -> None:
    """A read that the model made with the arguments of the declared check answers for the unknown write."""
    desk.call("place", {"id": 1}, run="r", execute=scripted(TimeoutError()))
    desk.call("find", {"id": 2}, run="r", execute=scripted([{"id": 2}]))
    assert "unknown.inspected.applied" not in rules(desk)
    desk.call("find", {"id": 1}, run="r", execute=scripted([{"id": 1}]))
    assert "unknown.inspected.applied" in rules(desk)
    assert [reply.tool for reply in desk.run("r").inbox()] == ["place"]


@pytest.mark.parametrize(
    ("rule", "value", "verdict"),
    [
        (None, [1], Verdict.CANNOT_TELL),
        ("non_empty", {"items": []}, Verdict.NOT_APPLIED),
        ("non_empty", [{"a": 1}], Verdict.APPLIED),
        ({"field": "ref", "equals": "ref"}, [{"ref": "B"}, {"ref": "A"}], Verdict.APPLIED),
        ({"field": "ref", "equals": "ref"}, [{"ref": "B"}], Verdict.NOT_APPLIED),
        ({"field": "ref", "equals": "ref"}, [{"other": "B"}], Verdict.CANNOT_TELL),
        ({"field": "at", "at_or_after": "start"}, [{"at": "2026-01-01T00:00:00Z"}], Verdict.APPLIED),
        ({"field": "at", "at_or_after": "start"}, [{"at": "2025-12-31T23:59:58Z"}], Verdict.NOT_APPLIED),
        ({"field": "at", "at_or_after": "start"}, [{"at": "yesterday"}], Verdict.CANNOT_TELL),
        (lambda value, arguments: Verdict.APPLIED, 1, Verdict.APPLIED),
        (lambda value, arguments: 1 / 0, 1, Verdict.CANNOT_TELL),
        (lambda value, arguments: True, 1, Verdict.CANNOT_TELL),
    ],
    ids=[*"abcdefghijkl"],
)
def test_what_a_completed_check_says(clock: Any, rule: Any, value: Any, verdict: Any) -> None:
    """A verdict comes from the declared rule alone, and unclear input is `cannot_tell`."""
    from forbear.core.policy import Inspection
    from forbear.runtime.inspection import verdict_of

    assert verdict_of(Inspection(tool="find", applied_if=rule), value, {"ref": "A"}, clock.now()) is verdict


def test_a_granted_call_runs_its_frozen_arguments_once(controller: Any, clock: Any, scripted: Any) -> None:
    """The grant is spent by one execution of exactly the bytes that the person saw."""
    controller.declare("pay", effect="write", approval="always")
    tool = scripted({"paid": 1})
    controller.bind("pay", tool)
    asked = controller.call("pay", {"n": 1}, run="r")
    assert asked.answer is Answer.NEEDS_APPROVAL
    operator = Operator(controller)
    (prompt,) = operator.pending()
    operator.approve(prompt.ticket, prompt.fingerprint)
    assert [reply.value for reply in controller.work()] == [{"paid": 1}]
    assert controller.work() == []
    assert tool.received == [{"n": 1}]
    assert [reply.value for reply in controller.run("r").inbox()] == [{"paid": 1}]


def test_a_grant_that_the_framework_spends_is_not_run_by_the_controller(
    controller: Any, clock: Any, scripted: Any
) -> None:
    """Where the framework proposes again, its re-proposal spends the grant."""
    controller.declare("pay", effect="write", approval="always")
    tool = scripted({"paid": 1})
    controller.bind("pay", tool)
    where = {"run": "r", "step": "s", "call_id": "c", "reproposes": True}
    controller.call("pay", {"n": 1}, **where)
    operator = Operator(controller)
    (prompt,) = operator.pending()
    operator.approve(prompt.ticket, prompt.fingerprint)
    assert controller.work() == []
    assert controller.call("pay", {"n": 1}, **where).value == {"paid": 1}
    assert tool.count == 1


def test_an_expired_prompt_is_told_and_runs_nothing(controller: Any, clock: Any, scripted: Any) -> None:
    """A prompt that nobody answers ends, and the run is told so."""
    controller.declare("pay", effect="write", approval="always")
    tool = scripted(1)
    controller.bind("pay", tool)
    controller.call("pay", {"n": 1}, run="r")
    clock.advance(timedelta(hours=25))
    controller.work()
    assert [reply.envelope.code for reply in controller.run("r").inbox()] == ["APPROVAL_EXPIRED"]
    assert tool.count == 0


def test_the_checker_is_asked_again_when_a_wait_is_over(controller: Any, clock: Any, scripted: Any) -> None:
    """Every start passes the author's rule again at its own moment."""
    verdicts = ["allow", "deny"]
    controller.declare("pay", effect="write", approval=lambda _arguments: verdicts.pop(0))
    tool = scripted(LATER, 1)
    controller.bind("pay", tool)
    controller.call("pay", {"n": 1}, run="r")
    clock.advance(75)
    controller.work()
    assert tool.count == 1
    assert verdicts == []


def test_cancel_stops_what_waits_and_reconnected_makes_due_what_was_never_accepted(
    controller: Any, clock: Any, scripted: Any
) -> None:
    """The application says what it knows about a run; the controller decides."""
    controller.declare("send", effect="write", target="to")
    refused = ConnectionRefusedError()
    controller.call("send", {"to": "a"}, run="r", call_id="c1", execute=scripted(LATER))
    run = controller.run("r")
    assert [reply.rule for reply in run.cancel("c1")] == ["waiting.cancelled.stopped"]
    assert run.cancel() == []
    controller.bind("send", scripted(1))
    controller.call("send", {"to": "b"}, run="q", execute=scripted(refused), wait=False)
    other = controller.run("q")
    count = other.reconnected()
    assert count == len(controller.work())


def test_the_embedded_worker_makes_a_retry_by_itself(opened: Any, scripted: Any) -> None:
    """A thread of the controller runs what is due, and stops with it."""
    from forbear.runtime.clock import SystemClock

    done = threading.Event()
    controller = opened(worker=True, clock=SystemClock(), on_ready=lambda _reply: done.set())
    controller.declare("place", effect="write", limits={"inline_wait": 0})
    soon = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=0)
    tool = scripted(soon, {"id": 7})
    controller.bind("place", tool)
    assert controller.call("place", {"id": 1}, run="r").answer is Answer.PENDING
    assert done.wait(20)
    thread = controller._worker._thread
    controller.close()
    assert tool.count == 2
    assert not thread.is_alive()


async def test_the_embedded_worker_is_a_task_where_calls_are_async(opened: Any, scripted: Any) -> None:
    """On an event loop the worker is a task of that loop."""
    from forbear.runtime.clock import SystemClock

    done = asyncio.Event()
    controller = opened(worker=True, clock=SystemClock(), on_ready=lambda _reply: done.set())
    controller.declare("place", effect="write", limits={"inline_wait": 0})
    soon = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=0)
    tool = scripted(soon, {"id": 7})
    controller.bind("place", tool)
    await controller.acall("place", {"id": 1}, run="r")
    await asyncio.wait_for(done.wait(), 20)
    assert controller._worker._thread is None
    controller.close()
    await asyncio.sleep(0)
    assert tool.count == 2
