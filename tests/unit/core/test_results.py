"""What an answer means in detail: bounds by default, what is handed back, what is told, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.events import (
    Reconnected,
    Returned,
    Woke,
)
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import (
    Claim,
    Parked,
    Running,
    Stopped,
    Streak,
)
from forbear.core.timing import retry_at
from forbear.core.vocabulary import Cause, Scope
from tests.model.calls import ALLOW, ALWAYS, RESULTS, T0, call
from tests.model.cases import BARE, PLAIN, READ, WRITE
from tests.unit.core.test_decide import GATED, Story
from tests.unit.core.test_people import yes

AGAIN = replace(WRITE, repeatable=True)
LOOK = replace(READ, target=(("desk", "desk"),))


def rules_of(policy: ToolPolicy, result: str, times: int) -> list[Rule]:
    """Return the rules of equal results of so many different calls, each in a step of its own."""
    story = Story(policy)
    rules: list[Rule] = []
    for number in range(times):
        made = call(policy, {"desk": str(number), "size": number})
        story.propose(made)
        rules.append(story.result(made, RESULTS[result](T0)).rule)
    return rules


@pytest.mark.parametrize(
    ("policy", "result", "most", "last"),
    [
        (WRITE, "refused", 3, Rule.RETURNED_REFUSALS_EXHAUSTED),
        (READ, "refused", 8, Rule.RETURNED_REFUSALS_EXHAUSTED),
        (BARE, "refused", 8, Rule.RETURNED_REFUSALS_EXHAUSTED),
        (READ, "repair-size", 3, Rule.RETURNED_REPAIRS_EXHAUSTED),
        (READ, "repair", 8, Rule.RETURNED_REPAIRS_EXHAUSTED),
    ],
)
def test_results_in_a_row_have_a_bound_by_default(policy: ToolPolicy, result: str, most: int, last: Rule) -> None:
    """So many and no more, by what the author said about the tool and what the answers say."""
    rules = rules_of(policy, result, most)
    assert [rule is last for rule in rules] == [False] * (most - 1) + [True]


@pytest.mark.parametrize(("policy", "most"), [(AGAIN, 10), (replace(BARE, repeatable=True), 30), (READ, 30)])
def test_equal_results_without_progress_have_a_bound_by_default(policy: ToolPolicy, most: int) -> None:
    """Thirty looks, ten for a declared write; a write counts only where it changes nothing."""
    story, made = Story(policy), call(policy, {"desk": "a"})
    rules: list[Rule] = []
    for attempt in range(1, most + 1):
        story.propose(made)
        before = story.s.tree
        event = Returned(attempt=attempt, envelope=RESULTS["ok"](T0), digest="same", ticket="t")
        rules.append(story.feed(made, event).rule)
        story.s = replace(story.s, tree=replace(story.s.tree, writes=before.writes))
        standing = story.s.actions[made.action]
        story.s = replace(story.s, actions={made.action: replace(standing, last_writes=before.writes)})
    assert [rule is Rule.RETURNED_NO_PROGRESS for rule in rules] == [False] * (most - 1) + [True]


def test_other_results_are_progress() -> None:
    """A look that sees something else each time goes on."""
    policy = replace(READ, limits=Limits(max_same_results=2))
    story, made = Story(policy), call(policy, {"desk": "a"})
    for attempt, digest in enumerate(("one", "other", "one"), start=1):
        story.propose(made)
        event = Returned(attempt=attempt, envelope=RESULTS["ok"](T0), digest=digest, ticket="t")
        assert story.feed(made, event).rule is Rule.RETURNED_COMPLETED


@pytest.mark.parametrize(("repairs", "rule"), [(29, Rule.EXECUTED), (30, Rule.HELD_REPAIR)])
def test_the_same_input_is_tried_again_thirty_times_by_default(repairs: int, rule: Rule) -> None:
    """Each time after another write, until it is plain that no write helps."""
    story, made, other = Story(PLAIN), call(PLAIN, {"size": 1}), call(PLAIN, {"size": 2})
    story.propose(made)
    story.result(made, RESULTS["repair"](T0))
    story.propose(other)
    story.result(other, RESULTS["ok"](T0))
    standing = replace(story.s.actions[made.action], repairs=repairs)
    story.s = replace(story.s, actions={**story.s.actions, made.action: standing})
    assert story.propose(made).rule is rule


def test_other_work_does_not_stand_in_for_what_has_to_come_first() -> None:
    """A result that names a call to be made first is not freed by another write."""
    story, made, other = Story(PLAIN), call(PLAIN, {"size": 1}), call(PLAIN, {"size": 2})
    story.propose(made)
    story.result(made, RESULTS["repair-first"](T0))
    story.propose(other)
    story.result(other, RESULTS["ok"](T0))
    assert story.propose(made).rule is Rule.HELD_REPAIR


# ---- waits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "retried"),
    [(READ, True), (replace(READ, repeatable=False), False), (replace(PLAIN, repeatable=True), False)],
)
def test_only_a_repeatable_read_has_a_second_retry(policy: ToolPolicy, retried: bool) -> None:
    """A temporary failure of anything else is retried once."""
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    at = timedelta(0)
    for attempt in (1, 2):
        story.result(made, RESULTS["wait-down"](T0 + at), attempt=attempt, after=at)
        at += timedelta(minutes=2)
        story.feed(made, Woke(call=story.s.actions[made.action].call), at)
    assert isinstance(story.s.actions[made.action].phase, Running if retried else Stopped)


def test_the_longest_wait_is_waited() -> None:
    """Beyond it by anything, the call is stopped, and told until when."""
    made = call(WRITE, {"desk": "a"})
    envelope = replace(RESULTS["wait"](T0), safe_message="It is tried again for you.")
    assert envelope.reset_at is not None
    most = retry_at(envelope.reset_at, T0, made.action) - T0
    for longest, rule in ((most, Rule.RETURNED_WAIT), (most - timedelta(microseconds=1), Rule.RETURNED_WAIT_TOO_FAR)):
        story = Story(replace(WRITE, limits=Limits(max_wait=longest)))
        story.propose(made)
        decision = story.result(made, envelope)
        assert decision.rule is rule
        assert decision.told is not None
        assert decision.told.reset_at == envelope.reset_at
        assert (decision.told.safe_message is None) is (rule is Rule.RETURNED_WAIT_TOO_FAR)


def test_a_wait_of_ours_that_is_too_long_names_its_end() -> None:
    """The tool named none: what the controller would have waited is what the model is told."""
    story, made = Story(replace(WRITE, limits=Limits(default_wait=timedelta(hours=30)))), call(WRITE, {"desk": "a"})
    story.propose(made)
    decision = story.result(made, RESULTS["wait-no-reset"](T0))
    assert decision.rule is Rule.RETURNED_WAIT_TOO_FAR
    assert decision.told is not None
    assert decision.told.reset_at == T0 + timedelta(hours=30)


def test_waits_of_one_operation_do_not_close_another() -> None:
    """The second different call that one code refuses closes its own operation."""
    other = replace(PLAIN, name="send", operation="mail")
    story = Story(PLAIN)
    for size in (1, 2):
        made = call(PLAIN, {"size": size})
        story.s = replace(story.s, holds={})
        story.propose(made)
        story.result(made, RESULTS["wait"](T0))
    sent = call(other, {"to": "a"})
    story.s = replace(story.s, holds={})
    story.propose(sent)
    story.result(sent, RESULTS["wait"](T0))
    assert [hold.scope for hold in story.s.holds.values()] == [Scope.ACTION]


def test_a_temporary_failure_that_names_its_end_closes_the_target() -> None:
    """Only one without a time says nothing about other calls."""
    for envelope, scope in (
        (replace(RESULTS["wait"](T0), temporary=True), Scope.TARGET),
        (RESULTS["wait-down"](T0), Scope.ACTION),
    ):
        story, made = Story(LOOK), call(LOOK, {"desk": "a"})
        story.propose(made)
        story.result(made, envelope)
        assert [hold.scope for hold in story.s.holds.values()] == [scope]


def test_nothing_wider_than_the_call_waits_for_an_undeclared_tool() -> None:
    """Whatever its author said about its target."""
    policy = replace(BARE, target=(("desk", "desk"),))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    assert [hold.scope for hold in story.s.holds.values()] == [Scope.ACTION]


def test_a_later_end_is_noted_while_the_retry_is_under_way() -> None:
    """The claimed retry still answers for the quota when an older attempt moves its end."""
    story = Story(READ)
    first, other = (call(READ, {"desk": desk}, quota="q") for desk in ("a", "b"))
    story.propose(other)
    story.propose(first)
    story.result(first, RESULTS["wait"](T0))
    at = timedelta(minutes=2)
    story.feed(first, Woke(call=story.s.actions[first.action].call), at)
    story.result(other, RESULTS["wait"](T0 + at), after=at)
    [hold] = story.s.holds.values()
    assert hold.claim == Claim(tree="root", action=first.action, attempt=2)


def test_a_wait_does_not_count_as_a_refusal() -> None:
    """Also where refusals of the same code have reached their bound."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    streak = Streak(operation="trade", code="RATE_LIMITED", count=9, step="", action=made.action)
    story.s = replace(story.s, tree=replace(story.s.tree, streaks=(streak,)))
    assert story.result(made, RESULTS["wait"](T0)).rule is Rule.RETURNED_WAIT
    assert not any(hold.cause is Cause.EXHAUSTED for hold in story.s.holds.values())


def test_a_connection_comes_back_although_the_wait_was_lifted() -> None:
    """The call is due at once; there is no hold left to end."""
    story, made = Story(PLAIN), call(PLAIN, {"size": 1})
    story.propose(made)
    story.result(made, RESULTS["wait-down"](T0))
    story.s = replace(story.s, holds={})
    assert story.feed(made, Reconnected()).rule is Rule.RECONNECTED


def test_a_yes_under_a_time_is_kept_for_its_own_run() -> None:
    """The call runs on that yes once the time is over, for the run that it was given to and for no other."""
    policy = replace(GATED, quota="q")
    for run, rule in (("root", Rule.EXECUTED_ON_GRANT), ("child", Rule.PARKED_JOINED), (None, Rule.EXECUTED_ON_GRANT)):
        story = Story(policy)
        made = replace(call(policy, {"desk": "a"}, quota="q"), verdict=ALWAYS)
        busy = call(policy, {"desk": "b"}, quota="q")
        ticket = story.propose(made).ticket
        assert ticket is not None
        story.propose(busy)
        story.result(busy, RESULTS["wait"](T0))
        story.feed(made, yes(ticket, made))
        assert story.feed(made, Woke(call=made)).rule is Rule.WOKE_REPARKED
        phase = story.s.actions[made.action].phase
        assert isinstance(phase, Parked)
        due = phase.run_at - T0
        if run is None:
            decision = story.feed(made, Woke(call=made), due)
        else:
            # The author's rule is not asked about again: it said "ask", and the yes is kept.
            decision = story.propose(replace(made, run=run, verdict=ALLOW if run == "child" else ALWAYS), due)
        assert decision.rule is rule
