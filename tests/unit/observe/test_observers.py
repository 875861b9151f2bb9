"""Who is told, when, how often, and what happens to an observer that fails."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from forbear import Controller, Operator, Refused, UsageError
from forbear.core.rules import Rule
from forbear.core.vocabulary import Answer
from forbear.observe import Event, LoggingObserver, Notice, Reads, Severity, Usage
from forbear.observe.naming import EVENTS, named


def refuse(**_arguments: object) -> object:
    """Refuse with a code that no catalogue holds."""
    raise Refused("DESK_FROZEN_BY_OWNER", recovery="do_not_retry")


def journal_rules(controller: Controller) -> Sequence[str]:
    """Return the rules of the decisions that the journal holds."""
    controller._engine.world.batch.flush()
    # Lines that are no decision (a policy was noted) name none of the core's rules.
    lines = [line for _, line in controller._engine.store.journal(limit=1000) if line.rule in set(Rule)]
    # A read that began and ended in one batch is one line that says both decisions.
    both = [Rule.EXECUTED for line in lines if "began_us" in json.loads(line.body)]
    return [line.rule for line in lines] + both


def test_every_rule_has_one_event_and_a_severity() -> None:
    """A new rule gets an event in the same commit, and no rule is two events."""
    assert set(EVENTS) == set(Rule)
    for rule in Rule:
        for answer in (None, *Answer):
            event, severity = named(rule, answer)
            assert isinstance(event, Event)
            assert isinstance(severity, Severity)


def test_each_journalled_decision_is_told_once(opened: Any, recorder: Any) -> None:
    """What an observer is told is what the journal holds: nothing is missing, nothing comes twice."""
    controller = opened(recorder)
    controller.declare("read", effect="read")
    controller.declare("write", effect="write", approval="always")
    for n in range(3):
        controller.call("read", {"n": n}, run="r", step=f"s{n}", execute=lambda n: n)
    controller.call("write", {"n": 1}, run="r", step="w", execute=lambda n: n)
    prompt = Operator(controller).pending()[0]
    Operator(controller).deny(prompt.ticket, prompt.fingerprint)
    controller.call("write", {"n": 1}, run="r", step="x", execute=lambda n: n)
    controller.run("r").new_turn()
    expected = journal_rules(controller)
    controller.close()
    assert sorted(recorder.rules) == sorted(expected)
    assert len(expected) >= 10


def test_a_notice_says_what_was_decided(opened: Any, recorder: Any) -> None:
    """Rule, phases, tool, operation, attempt, recovery, code and ids are told; a refusal warns, the last one is an error."""
    controller = opened(recorder)
    controller.declare("pay", effect="write", operation="payments.charge")
    for n in range(3):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", call_id=f"c{n}", execute=refuse)
    started, refused, blocked, stopped = recorder.notices
    assert (started.event, started.severity, started.before, started.after) == (
        Event.STARTED,
        Severity.DEBUG,
        "Fresh",
        "Running",
    )
    assert (refused.event, refused.severity, refused.before, refused.after) == (
        Event.REFUSED,
        Severity.WARNING,
        "Running",
        "Stopped",
    )
    assert (refused.tool, refused.operation, refused.attempt, refused.recovery) == (
        "pay",
        "payments.charge",
        1,
        "do_not_retry",
    )
    assert refused.started_at == refused.at
    assert refused.request_id.startswith("act_")
    assert (refused.run, refused.step, refused.call_id) == ("r", "s0", "c0")
    assert (blocked.event, blocked.severity) == (Event.BLOCKED, Severity.WARNING)
    assert (stopped.event, stopped.severity) == (Event.STOPPED, Severity.ERROR)


def test_an_observer_that_raises_breaks_no_call(opened: Any, recorder: Any) -> None:
    """The call is answered, other observers are told, one warning names the class, and every failure is counted."""

    class Broken:
        def observe(self, notice: Notice) -> None:
            raise RuntimeError("secret-7f")

    controller = opened(Broken(), recorder)

    def calls() -> list[object]:
        return [controller.call("write", {"n": n}, run="r", execute=lambda n: n).value for n in (1, 2)]

    with pytest.warns(RuntimeWarning, match=r"observer Broken raised RuntimeError") as caught:
        values = calls()
    assert values == [1, 2]
    assert len(caught) == 1
    assert "secret-7f" not in str(caught[0].message)
    assert controller.observer_errors == {"Broken": 4}
    assert len(recorder.notices) == 4


def test_a_warning_that_is_an_error_breaks_no_call(opened: Any) -> None:
    """Where an application makes errors of warnings, an observer that raises still breaks no call."""

    class Broken:
        def observe(self, notice: Notice) -> None:
            raise RuntimeError

    controller = opened(Broken())
    assert controller.call("write", {"n": 1}, run="r", execute=lambda n: n).value == 1


def test_an_observer_is_told_after_the_commit_and_outside_locks(opened: Any) -> None:
    """An observer may look at the journal and even make a governed call: the decision is there and no lock is held."""
    seen: list[str] = []

    class Curious:
        def observe(self, notice: Notice) -> None:
            lines = controller._engine.store.journal(limit=1000)
            assert any(line.rule == notice.rule for _, line in lines)
            if notice.rule is Rule.RETURNED_REFUSED and not seen:
                seen.append(notice.request_id)
                assert controller.call("other", {}, run="r", step="o", execute=lambda: "done").value == "done"

    controller = opened(Curious())
    controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    assert len(seen) == 1
    assert controller.observer_errors == {}


def test_observers_are_never_called_at_the_same_time(opened: Any) -> None:
    """An observer needs no lock of its own: threads that decide at once tell it one after the other."""
    inside = 0
    most = 0
    count = 0

    class Counting:
        def observe(self, notice: Notice) -> None:
            nonlocal inside, most, count
            inside += 1
            most = max(most, inside)
            count += 1
            threading.Event().wait(0)
            inside -= 1

    controller = opened(Counting())

    def calls(run: str) -> None:
        for n in range(20):
            controller.call("write", {"n": n}, run=run, execute=lambda n: n)

    threads = [threading.Thread(target=calls, args=(f"r{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, count) == (1, 4 * 20 * 2)


def test_what_is_no_observer_is_refused(opened: Any) -> None:
    """A wrong observer is found when the controller is opened, not when something is refused."""
    with pytest.raises(UsageError, match="must have a method 'observe'"):
        opened(object())


def test_succeeding_reads_are_counted_together(opened: Any, recorder: Any) -> None:
    """An observer that takes reads together gets their number and time; another one gets two notices each."""
    together: list[Reads] = []

    class Together:
        def observe(self, notice: Notice) -> None:
            pass

        def observe_reads(self, reads: Sequence[Reads]) -> None:
            together.extend(reads)

    controller = opened(Together(), recorder)
    controller.declare("quote", effect="read")
    for n in range(300):
        controller.call("quote", {"n": n}, run="r", execute=lambda n: n)
    assert 0 < sum(one.count for one in together) <= 300
    controller.close()
    assert sum(one.count for one in together) == 300
    assert {one.tool for one in together} == {"quote"}
    assert len(recorder.notices) == 600


def test_names_that_nobody_declared_are_nobodys_words(opened: Any, recorder: Any) -> None:
    """A tool name that a model made up, and a code that no catalogue holds, are told as `_OTHER`."""
    controller = opened(recorder)
    controller.propose("sk-live-51H", {}, run="r", step="s")
    controller.declare("pay", effect="write")
    controller.call(
        "pay",
        {},
        run="r2",
        step="s",
        execute=lambda: (_ for _ in ()).throw(Refused("SK_LIVE_51H", recovery="do_not_retry")),
    )
    assert "51H" not in repr(recorder.notices)
    assert {notice.tool for notice in recorder.notices} == {"_OTHER", "pay"}
    assert [notice.code_is_known for notice in recorder.notices] == [True, True, False]


def test_a_lift_names_the_tool_and_the_code_of_the_hold(opened: Any, recorder: Any) -> None:
    """Over-blocking can be counted: a hold that a person lifted is told with where it came from."""
    controller = opened(recorder)
    controller.declare("pay", effect="write", target="n")
    controller.call("pay", {"n": 1}, run="r", step="s", execute=lambda n: (_ for _ in ()).throw(PermissionError()))
    refused = recorder.notices[-1]
    ticket = next(row.ticket for row in controller._engine.store.tickets("hold"))
    Operator(controller).lift(ticket)
    lift = recorder.notices[-1]
    assert lift.event is Event.LIFTED
    assert [(one.tool, one.code) for one in lift.lifts] == [("pay", refused.code)]


def test_usage_is_told_with_the_step(opened: Any, recorder: Any) -> None:
    """What a step cost reaches the observers that price, once; a number below nothing is refused."""
    told: list[Usage] = []

    class Pricing:
        def observe(self, notice: Notice) -> None:
            pass

        def observe_usage(self, usage: Usage) -> None:
            told.append(usage)

    controller = opened(Pricing(), recorder)
    controller.run("r").usage("s1", tokens=12, seconds=0.5)
    assert [(one.run, one.step, one.tokens, one.seconds, one.has_read) for one in told] == [("r", "s1", 12, 0.5, False)]
    with pytest.raises(UsageError, match="0 or more"):
        controller.run("r").usage("s1", tokens=-1)
    with pytest.raises(UsageError, match="0 or more"):
        controller.run("r").usage("s1", seconds=float("nan"))
    opened().run("r").usage("s1", tokens=1)
    assert len(told) == 1


def test_async_calls_are_told_too(opened: Any, recorder: Any) -> None:
    """A task's decisions are told as a thread's are."""
    controller = opened(recorder)

    async def work(n: int) -> int:
        return n

    async def main() -> None:
        await controller.acall("write", {"n": 1}, run="r", execute=work)

    asyncio.run(main())
    assert recorder.rules == [Rule.EXECUTED, Rule.RETURNED_COMPLETED]


def test_the_log_holds_each_decision(opened: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A handled refusal is a warning, the last one an error, a success is debug; the fields are attributes."""
    caplog.set_level(logging.DEBUG, "forbear")
    observer = LoggingObserver()
    controller = opened(observer)
    controller.declare("pay", effect="write")
    controller.declare("quote", effect="read")
    controller.call("quote", {"n": 1}, run="q", step="s", execute=lambda n: n)
    for n in range(3):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", execute=refuse)
    controller.close()
    levels = [(record.levelname, getattr(record, "forbear_rule", "")) for record in caplog.records]
    assert ("WARNING", "running.returned.refused") in levels
    assert ("WARNING", "start.held.refusal") in levels
    assert ("ERROR", "start.held.refusal") in levels
    assert [r.getMessage() for r in caplog.records if getattr(r, "forbear_count", 0)] == [
        "forbear.completed tool=quote count=1"
    ]
    refused = next(r for r in caplog.records if getattr(r, "forbear_rule", "") == "running.returned.refused")
    assert refused.__dict__["forbear_unknown_codes"] == 1
    assert observer.unknown_codes == {"pay": 1}
    assert json.dumps(refused.__dict__, default=str)


def test_observe_mode_says_what_would_have_been_answered(opened: Any, recorder: Any) -> None:
    """An observed call runs; the notice names the answer that it would have got, and by which rule."""
    controller = opened(recorder, mode="observe")
    controller.declare("pay", effect="write")
    for n in range(2):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", execute=refuse)
    told = [(one.event, one.would, one.would_rule) for one in recorder.notices if one.cause == "Proposed"]
    assert told == [
        (Event.STARTED, Answer.EXECUTED, Rule.EXECUTED),
        (Event.OBSERVED, Answer.BLOCKED, Rule.HELD_REFUSAL),
    ]
