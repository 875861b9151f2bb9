"""Details of refusals and waits that a mutant of the core once got past every other test."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide_tree
from forbear.core.events import Reconnected, Returned, TurnBegan, Woke
from forbear.core.policy import Inspection, Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Waiting
from forbear.core.vocabulary import Answer, Recovery, Scope, Trust
from tests.model.calls import RESULTS, T0, call
from tests.model.cases import BARE, READ, WRITE
from tests.unit.core.test_decide import Story

SECOND = timedelta(seconds=1)


def test_a_connection_that_comes_back_ends_no_shared_wait() -> None:
    """The call that was never accepted is due; what others were told to wait for stands."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, replace(RESULTS["wait"](T0), not_accepted=True))
    [before] = story.s.holds.values()
    assert before.scope is Scope.TARGET
    assert story.feed(made, Reconnected(), SECOND).rule is Rule.RECONNECTED
    [after] = story.s.holds.values()
    assert after.ends_at == before.ends_at
    assert story.feed(made, Woke(call=made), SECOND).rule is Rule.WOKE_REPARKED


def test_a_connection_that_comes_back_ends_the_wait_of_its_own_call() -> None:
    """Nobody else waits for it."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait-down"](T0))
    assert story.feed(made, Reconnected(), SECOND).rule is Rule.RECONNECTED
    assert story.feed(made, Woke(call=made), SECOND).rule is Rule.EXECUTED_AS_RETRY


@pytest.mark.parametrize(
    ("turns", "after", "rule"),
    [
        (0, timedelta(hours=2), Rule.EXECUTED_AS_RETRY),
        (1, timedelta(hours=1), Rule.EXECUTED_AS_RETRY),
        (1, timedelta(hours=1, microseconds=1), Rule.UNATTENDED),
    ],
)
def test_a_write_runs_late_only_while_the_human_has_not_spoken(turns: int, after: timedelta, rule: Rule) -> None:
    """At the bound it still runs; without a human message it runs whenever its time comes."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    for _ in range(turns):
        story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    assert story.feed(made, Woke(call=made), after).rule is rule


def test_a_declared_constraint_of_a_remote_tool_holds_its_operation() -> None:
    """Only what is shared with other runs needs a listed code."""
    policy = replace(WRITE, trust=Trust.REMOTE, constraints={"desk_status": Scope.OPERATION})
    story = Story(policy)
    made = call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["refused-desk"](T0))
    assert story.propose(call(policy, {"desk": "b"})).rule is Rule.HELD_REFUSAL


@pytest.mark.parametrize(
    ("policy", "answer"), [(BARE, Answer.EXECUTED), (READ, Answer.BLOCKED), (WRITE, Answer.BLOCKED)]
)
def test_a_refusal_holds_the_target_of_declared_tools_only(policy: ToolPolicy, answer: Answer) -> None:
    """Nobody said what an undeclared tool's target means."""
    declared = replace(policy, target=(("desk", "desk"),))
    story = Story(declared)
    made = call(declared, {"desk": "a", "size": 1})
    story.propose(made)
    story.result(made, RESULTS["refused"](T0))
    assert story.propose(call(declared, {"desk": "a", "size": 2})).answer is answer


def test_a_retry_waits_for_the_latest_end_that_its_target_was_given() -> None:
    """Two calls of one target were refused at once, with different times."""
    story = Story(WRITE)
    one, other = call(WRITE, {"desk": "a", "size": 1}), call(WRITE, {"desk": "a", "size": 2})
    story.propose(one)
    story.propose(other)
    story.result(one, RESULTS["wait"](T0))
    story.result(other, replace(RESULTS["wait"](T0), reset_at=T0 + SECOND))
    first, second = (story.s.actions[made.action].phase for made in (one, other))
    assert isinstance(first, Waiting)
    assert isinstance(second, Waiting)
    assert second.retry_at >= first.retry_at >= T0 + 30 * SECOND


def test_a_temporary_failure_of_a_read_is_retried_twice() -> None:
    """And not three times."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    rules: list[Rule] = []
    after = timedelta(0)
    for attempt in range(1, 4):
        rules.append(story.result(made, RESULTS["wait-down"](T0), attempt=attempt, after=after).rule)
        after += 10 * SECOND
        story.feed(made, Woke(call=made), after)
    assert rules == [Rule.RETURNED_WAIT, Rule.RETURNED_WAIT, Rule.RETURNED_RETRY_EXHAUSTED]


def test_the_second_read_that_one_code_refused_keeps_its_retry() -> None:
    """A read does no harm when it runs by itself; a write is proposed again."""
    story = Story(READ)
    made = [call(READ, {"desk": desk}) for desk in ("a", "b")]
    for one in made:
        story.propose(one)
    assert [story.result(one, RESULTS["wait"](T0)).rule for one in made] == [Rule.RETURNED_WAIT, Rule.RETURNED_WAIT]
    assert {hold.scope for hold in story.s.holds.values()} == {Scope.ACTION, Scope.OPERATION}


@pytest.mark.parametrize(
    ("listed", "scope"), [(("429",), Scope.QUOTA), (("RATE_LIMITED",), Scope.QUOTA), (("503",), Scope.ACTION)]
)
def test_a_listed_status_or_code_closes_a_shared_quota(listed: tuple[str, ...], scope: Scope) -> None:
    """Either is enough; another one is not."""
    policy = replace(READ, trust=Trust.REMOTE, shared_codes=listed)
    story, made = Story(policy), call(policy, {"desk": "a"}, quota="q")
    story.propose(made)
    story.result(made, replace(RESULTS["wait"](T0), http_status=429))
    assert {hold.scope for hold in story.s.holds.values()} == {scope}


@pytest.mark.parametrize(("policy", "answer"), [(BARE, Answer.EXECUTED), (WRITE, Answer.BLOCKED)])
def test_a_named_field_reaches_other_calls_on_the_target_of_declared_tools_only(
    policy: ToolPolicy, answer: Answer
) -> None:
    """Other words with the same wrong size repair nothing, where the author said what a target is."""
    declared = replace(policy, target=(("desk", "desk"),))
    story = Story(declared)
    made = call(declared, {"desk": "a", "size": 1, "memo": "x"})
    story.propose(made)
    story.result(made, RESULTS["repair-size"](T0))
    assert story.propose(call(declared, {"desk": "a", "size": 1, "memo": "y"})).answer is answer
    assert story.propose(call(declared, {"desk": "a", "size": 2, "memo": "x"})).answer is Answer.EXECUTED


def test_an_unknown_outcome_keeps_its_tools_code_and_drops_a_promise() -> None:
    """What the tool said about the doubt is told; a retry that it promised is not."""
    for result, code in (("partly", "PARTIAL_SUCCESS"), ("wait-unsure", "OUTCOME_UNKNOWN")):
        story, made = Story(WRITE), call(WRITE, {"desk": "a"})
        story.propose(made)
        told = story.result(made, RESULTS[result](T0)).told
        assert told is not None
        assert (told.code, told.reset_at, told.recovery) == (code, None, Recovery.INSPECT_OUTCOME)


def test_no_look_is_scheduled_where_none_is_wanted() -> None:
    """Zero attempts are none; without a check or a key there is nothing to look with."""
    looks = replace(WRITE, inspect=Inspection(tool="look"))
    for policy, count in ((replace(looks, limits=Limits(inspect_attempts=0)), 0), (looks, 1), (WRITE, 0)):
        story, made = Story(policy), call(policy, {"desk": "a"})
        story.propose(made)
        assert len(story.result(made, RESULTS["unknown"](T0)).commands) == count


def test_an_older_answer_does_not_end_a_wait_that_another_attempt_answers_for() -> None:
    """The retry is under way: whoever comes now waits for its answer."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    later = 60 * SECOND
    assert story.propose(made, after=later).answer is Answer.EXECUTED
    story.result(made, RESULTS["ok"](T0), attempt=2, after=later)
    assert story.propose(made, after=later).rule is Rule.HELD_TIME_NO_SLOT


@pytest.mark.parametrize(("apart", "rule"), [(0.999999, Rule.RETURNED_NO_PROGRESS), (1.0, Rule.RETURNED_COMPLETED)])
def test_equal_looks_a_second_apart_are_progress(apart: float, rule: Rule) -> None:
    """A slow watch is healthy (decision 3)."""
    policy = replace(READ, limits=Limits(max_same_results=2))
    story, made = Story(policy), call(policy, {"desk": "a"})
    ok = RESULTS["ok"](T0)
    story.propose(made)
    story.feed(made, Returned(attempt=1, envelope=ok, digest="same"))
    story.propose(made)
    assert story.feed(made, Returned(attempt=2, envelope=ok, digest="same"), apart * SECOND).rule is rule


def test_an_empty_look_beside_another_look_is_pending() -> None:
    """The other one is the second look."""
    policy = replace(READ, empty_means="unknown")
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.propose(made)
    decision = story.result(made, RESULTS["empty"](T0))
    assert (decision.rule, decision.answer, decision.commands) == (Rule.RETURNED_EMPTY_LOOK, Answer.PENDING, ())


def test_a_run_joins_once() -> None:
    """It is told once, however often it asked."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    for _ in range(2):
        story.propose(replace(made, run="child"))
    assert [joined.run for joined in story.s.actions[made.action].joined] == ["child"]
