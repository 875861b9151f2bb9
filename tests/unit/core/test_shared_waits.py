"""What one limit refused together is retried in order: whose end it is, who goes first, and who is not concerned."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import Decision
from forbear.core.events import Cancelled
from forbear.core.policy import Limits
from forbear.core.rules import Rule
from forbear.core.states import Hold, Waiting
from forbear.core.timing import not_before
from forbear.core.values import Call
from forbear.core.vocabulary import Scope
from tests.model.calls import RESULTS, T0, call
from tests.model.cases import PLAIN, READ, WRITE
from tests.unit.core.test_decide import Story

ONE, OTHER, THIRD = (call(PLAIN, {"size": size}) for size in (1, 2, 3))


def refused(story: Story, made: Call, seconds: int, after: timedelta = timedelta(0)) -> Decision:
    """Answer an open call: not before so many seconds after the start of the story."""
    return story.result(made, replace(RESULTS["wait"](T0), reset_at=T0 + timedelta(seconds=seconds)), after=after)


def retry_of(story: Story, made: Call) -> datetime:
    """Return when a call is retried."""
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, Waiting)
    return phase.retry_at


def operation_hold(story: Story) -> Hold:
    """Return the one hold that closes the operation."""
    [hold] = [hold for hold in story.s.holds.values() if hold.scope is Scope.OPERATION]
    return hold


def opened(*made: Call) -> Story:
    """Return a story in which these calls are under way."""
    story = Story(PLAIN)
    for one in made:
        story.propose(one)
    return story


def test_the_operation_is_closed_until_the_retry_that_waits_already() -> None:
    """It goes first and at its own time, also where the second answer names an earlier one."""
    story = opened(ONE, OTHER)
    refused(story, ONE, 30)
    assert refused(story, OTHER, 20).rule is Rule.RETURNED_WAIT_NO_SLOT
    hold = operation_hold(story)
    assert (hold.ends_at, hold.parked) == (retry_of(story, ONE), (ONE.action,))


def test_the_operation_is_closed_although_nobody_waits_any_more() -> None:
    """The first one was cancelled; the second answer still says that the limit is the operation's."""
    story = opened(ONE, OTHER)
    refused(story, ONE, 30)
    story.feed(ONE, Cancelled(acknowledged=True))
    assert refused(story, OTHER, 30).rule is Rule.RETURNED_WAIT_NO_SLOT
    assert operation_hold(story).parked == ()


def test_an_end_that_a_later_answer_moved_is_not_moved_back() -> None:
    """The third answer names the first time again."""
    story = opened(ONE, OTHER, THIRD)
    refused(story, ONE, 30)
    refused(story, OTHER, 90)
    moved = operation_hold(story).ends_at
    assert moved is not None
    assert moved > T0 + timedelta(seconds=90)
    refused(story, THIRD, 30)
    assert operation_hold(story).ends_at == moved


def test_an_end_that_is_late_enough_stays() -> None:
    """To the microsecond: another call's jitter moves nothing."""
    story = opened(ONE, OTHER, THIRD)
    refused(story, ONE, 30)
    refused(story, OTHER, 30)
    hold = operation_hold(story)
    edge = not_before(T0 + timedelta(seconds=60), T0)
    story.s = replace(story.s, holds={**story.s.holds, hold.key: replace(hold, ends_at=edge)})
    refused(story, THIRD, 60)
    assert operation_hold(story).ends_at == edge


def test_refusals_of_other_operations_do_not_keep_this_one_open() -> None:
    """What another operation was told is beside the point, whichever came first."""
    sent = call(replace(PLAIN, name="send", operation="mail"), {"to": "a"})
    story = opened(sent, ONE, OTHER)
    for made in (sent, ONE, OTHER):
        refused(story, made, 30)
    assert operation_hold(story).parked == (ONE.action,)


def test_only_so_many_wait_as_may_be_kept() -> None:
    """The first ones of those who waited alone; one place is left for whoever comes."""
    policy = replace(WRITE, limits=Limits(max_parked=3))
    story = Story(policy)
    alone = [call(policy, {"desk": desk, "size": 1}) for desk in ("a", "b", "c")]
    nowhere = call(policy, {"size": 9})
    for made in (*alone, nowhere):
        story.propose(made)
    for made in alone:
        refused(story, made, 30)
    first = sorted(alone, key=lambda made: retry_of(story, made))
    refused(story, nowhere, 30)
    assert operation_hold(story).parked == tuple(made.action for made in first[:2])


def test_a_read_that_may_have_run_is_retried_where_it_may_run_twice() -> None:
    """Only one that bills is not."""
    for policy, rule in ((READ, Rule.RETURNED_WAIT), (replace(READ, repeatable=False), Rule.RETURNED_RETRY_EXHAUSTED)):
        story, made = Story(policy), call(policy, {"desk": "a"})
        story.propose(made)
        assert story.result(made, RESULTS["wait-unsure"](T0)).rule is rule


def test_a_wait_of_another_tree_spends_no_retry_of_this_one() -> None:
    """An equal call of another tree was refused; this one's first start is no retry, though it answers for the quota."""
    for other_tree, retries in ((True, 0), (False, 1)):
        story, made = Story(READ), call(READ, {"desk": "a"}, quota="q")
        story.propose(made)
        refused(story, made, 30)
        [hold] = story.s.holds.values()
        hold = replace(hold, parked=(), run="elsewhere" if other_tree else hold.run)
        story.s = replace(story.s, holds={hold.key: hold}, actions={})
        assert story.propose(made, timedelta(minutes=2)).rule is Rule.EXECUTED
        assert story.s.actions[made.action].retries == retries
