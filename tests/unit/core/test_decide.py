"""Single decisions that the explorations meet rarely or never: what a shell does only when something went wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide, decide_tree
from forbear.core.decision import Announce, AskHuman, Decision, Execute, Snapshot, WakeAt
from forbear.core.events import (
    Cancelled,
    Denied,
    Edited,
    Event,
    Granted,
    Inspected,
    Interrupted,
    Lost,
    Proposed,
    Reconnected,
    Returned,
    TurnBegan,
    Woke,
)
from forbear.core.policy import IdempotencyKey, Inspection, Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import AwaitingApproval, Completed, NeedsRepair, Parked, Running, Stopped, Tree, Unknown
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Executed, Mode, Outcome, Recovery, Verdict
from tests.model.calls import ALWAYS, LOOSE, RESULTS, T0, call
from tests.model.cases import BARE, PLAIN, READ, WRITE


class Story:
    """A snapshot that decisions are applied to, one after the other."""

    def __init__(self, policy: ToolPolicy) -> None:
        tree = Tree(root="root", principal="account")
        self.s = Snapshot(tree=tree, runs={}, actions={}, holds={}, known={}, policy=policy, limits=LOOSE)
        self.steps = 0

    def feed(self, made: Call, event: Event, after: timedelta = timedelta(0)) -> Decision:
        """Decide about an event of a call and apply it."""
        decision = decide(self.s, made.action, event, T0 + after)
        self.s = self.s.after(decision)
        return decision

    def propose(self, made: Call, after: timedelta = timedelta(0)) -> Decision:
        """Propose a call in a step of its own."""
        self.steps += 1
        named = replace(made, step=f"s{self.steps}", call_id=f"c{self.steps}")
        return self.feed(named, Proposed(call=named, ticket=f"t{self.steps}", request_id="act_1"), after)

    def result(self, made: Call, envelope: Envelope, attempt: int = 1, after: timedelta = timedelta(0)) -> Decision:
        """Answer an attempt."""
        return self.feed(made, Returned(attempt=attempt, envelope=envelope, ticket="tr"), after)


@pytest.mark.parametrize(
    ("event", "rule"),
    [
        (Returned(attempt=1, envelope=RESULTS["ok"](T0)), Rule.RETURNED_STALE),
        (Interrupted(attempt=1), Rule.INTERRUPTED_STALE),
        (Lost(attempt=1), Rule.LOST_STALE),
        (Cancelled(acknowledged=True), Rule.CANCELLED_NOTHING),
        (Denied(ticket="t", fingerprint="f", actor="p"), Rule.ANSWER_STALE),
        (Inspected(verdict=Verdict.APPLIED, source="check"), Rule.VERDICT_STALE),
        (Reconnected(), Rule.RECONNECTED_NOTHING),
    ],
)
def test_an_event_of_an_action_that_nobody_remembers_changes_nothing(event: Event, rule: Rule) -> None:
    """A store may have forgotten an action whose late event arrives."""
    assert Story(WRITE).feed(call(WRITE, {"desk": "a"}), event) == Decision(rule=rule)


@pytest.mark.parametrize(
    "outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.UNKNOWN, Outcome.CANCELLED, Outcome.REFUSED]
)
@pytest.mark.parametrize(
    ("policy", "executed", "phase"),
    [(READ, Executed.UNKNOWN, Stopped), (WRITE, Executed.NO, Stopped), (WRITE, Executed.UNKNOWN, Unknown)],
)
def test_a_failure_without_a_class_is_read_safely(
    outcome: Outcome, policy: ToolPolicy, executed: Executed, phase: type
) -> None:
    """A read stops; a write that may have happened is unknown."""
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, Envelope(outcome=outcome, executed=executed))
    assert type(story.s.actions[made.action].phase) is phase


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.EMPTY, Outcome.ALREADY_SATISFIED])
def test_a_completed_result_is_completed_whatever_class_it_carries(outcome: Outcome) -> None:
    """A tool that says "done" and "retry" is done."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, Envelope(outcome=outcome, executed=Executed.YES, recovery=Recovery.RETRY_AFTER))
    assert isinstance(story.s.actions[made.action].phase, Completed)


def test_a_status_that_is_pending_is_a_completed_look() -> None:
    """A poll that answers "not yet" has answered."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    story.result(made, Envelope(outcome=Outcome.PENDING, executed=Executed.YES))
    assert isinstance(story.s.actions[made.action].phase, Completed)


def test_a_kept_write_is_offered_again_after_the_human_spoke() -> None:
    """It waited longer than anybody was there to see, and the human may want something else now."""
    story = Story(WRITE)
    first, kept = call(WRITE, {"desk": "a", "size": 1}), call(WRITE, {"desk": "a", "size": 2})
    story.propose(first)
    story.result(first, RESULTS["wait"](T0))
    story.feed(first, Woke(call=story.s.actions[first.action].call), timedelta(seconds=40))
    story.propose(kept, timedelta(seconds=41))
    assert isinstance(story.s.actions[kept.action].phase, Parked)
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    soon = decide(story.s, kept.action, Woke(call=story.s.actions[kept.action].call), T0 + timedelta(hours=1))
    assert soon.rule is not Rule.UNATTENDED
    late = story.feed(kept, Woke(call=story.s.actions[kept.action].call), timedelta(hours=2))
    assert late.rule is Rule.UNATTENDED
    assert any(isinstance(command, Announce) for command in late.commands)


def test_an_undeclared_call_is_not_kept_under_a_time() -> None:
    """Nobody said that it may run later by itself."""
    policy = replace(BARE, quota="q")
    story = Story(policy)
    first, other = call(policy, {"size": 1}, quota="q"), call(policy, {"size": 2}, quota="q")
    story.propose(first)
    story.result(first, RESULTS["wait"](T0))
    decision = story.propose(other)
    assert (decision.rule, decision.answer, decision.ticket) == (Rule.HELD_TIME_NO_SLOT, Answer.PENDING, None)


def test_a_read_that_was_cut_off_is_told_by_its_own_caller() -> None:
    """Only a dead process leaves somebody to be told."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    assert story.feed(made, Lost(attempt=1, died=False)).commands == ()
    story.propose(made)
    assert [type(command) for command in story.feed(made, Lost(attempt=2)).commands] == [Announce]


def test_a_key_repeats_only_what_may_start() -> None:
    """A rule that asks is not passed by a key: without a check, a person is told."""
    policy = replace(WRITE, idempotency_key=IdempotencyKey(argument="key"))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    asks = replace(story.s.actions[made.action].call, verdict=ALWAYS)
    decision = story.feed(made, Woke(call=asks), timedelta(seconds=2))
    assert decision.rule is Rule.VERDICT_CANNOT_TELL
    assert not any(isinstance(command, Execute) for command in decision.commands)
    assert isinstance(story.s.actions[made.action].phase, Unknown)


def test_an_observed_refusal_leaves_no_wait_to_schedule() -> None:
    """Where there is nothing to wait for under observation, nothing is counted in a row either."""
    policy = replace(WRITE, mode=Mode.OBSERVE)
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    decision = story.result(made, RESULTS["wait"](T0))
    assert (decision.commands, decision.answer, decision.would) == ((), Answer.EXECUTED, Answer.PENDING)
    assert story.s.tree.streaks == ()


def test_repairs_end_with_the_turn_for_the_same_input() -> None:
    """A bound of one repair closes the target at the first refusal."""
    policy = replace(PLAIN, limits=Limits(max_repairs=1))
    story, made = Story(policy), call(policy, {"size": 1})
    story.propose(made)
    decision = story.result(made, RESULTS["repair"](T0))
    assert decision.rule is Rule.RETURNED_REPAIRS_EXHAUSTED
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, NeedsRepair)
    other = story.propose(call(policy, {"size": 2}))
    assert (other.rule, other.answer) == (Rule.HELD_EXHAUSTED, Answer.BLOCKED)


def test_two_attempts_of_a_read_are_open_at_once() -> None:
    """Reads of different steps do not wait for each other, and each answer settles its own attempt."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    story.propose(made)
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, Running)
    assert [opened.attempt for opened in phase.open] == [1, 2]
    story.result(made, RESULTS["ok"](T0), attempt=2)
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, Running)
    assert [opened.attempt for opened in phase.open] == [1]


GATED = replace(WRITE, approval="always")


def asked(policy: ToolPolicy, *runs: str) -> tuple[Story, Call, str]:
    """Return a story in which a root's call is asked about and equal calls of other runs joined; and the ticket."""
    story = Story(policy)
    made = replace(call(policy, {"desk": "a", "size": 1}), verdict=ALWAYS)
    ticket = story.propose(made).ticket
    assert ticket is not None
    for run in runs:
        assert story.propose(replace(made, run=run)).ticket == ticket
    return story, made, ticket


def test_a_joined_call_is_told_nothing_where_the_edit_speaks_for_itself() -> None:
    """What a person wrote instead runs for the run that asked; the runs that joined are not told a made-up result."""
    story, made, ticket = asked(GATED, "child")
    other = replace(call(GATED, {"desk": "a", "size": 2}), verdict=ALWAYS, step="s9", call_id="c9")
    edited = Edited(
        ticket=ticket, fingerprint=made.fingerprint, actor="p", call=other, reproposes=False, new_ticket="t9"
    )
    decision = story.feed(made, edited)
    assert decision.rule is Rule.EDITED
    assert story.s.actions[made.action].joined == ()
    assert not any(isinstance(command, Announce) for command in decision.commands)


def test_calls_that_joined_are_asked_about_on_their_own_as_far_as_prompts_go() -> None:
    """A yes belongs to the run that asked; beyond the bound the others ask when they propose again."""
    policy = replace(GATED, limits=Limits(max_open_prompts=1))
    story, made, ticket = asked(policy, "child", "other")
    granted = Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=False)
    decision = story.feed(made, granted)
    assert sum(isinstance(command, AskHuman) for command in decision.commands) == 1
    assert len(story.s.tree.open_prompts) == 1


def test_a_yes_of_its_own_waits_while_the_equal_call_is_in_flight() -> None:
    """Two runs were each given a yes for the same write: they do not write at once."""
    story, made, ticket = asked(GATED, "child")
    story.feed(made, Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=False))
    story.feed(made, Woke(call=made))
    own = next(action for action in story.s.actions.values() if action.call.base)
    phase = own.phase
    assert isinstance(phase, AwaitingApproval)
    yes = Granted(ticket=phase.ticket, fingerprint=phase.fingerprint, actor="p", reproposes=False)
    story.s = story.s.after(decide(story.s, own.key, yes, T0))
    woken = decide(story.s, own.key, Woke(call=own.call), T0)
    assert woken.rule is Rule.GRANT_WOKE_EARLY
    assert [type(command) for command in woken.commands] == [WakeAt]


def test_looks_are_bounded_and_grow_apart() -> None:
    """A check that never finds out is not asked for ever."""
    policy = replace(WRITE, inspect=Inspection(tool="look"), limits=Limits(inspect_attempts=3))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    looks: list[timedelta] = []
    at = timedelta(seconds=1)
    while True:
        decision = story.feed(made, Woke(call=made), at)
        assert decision.rule is Rule.INSPECT_NOW
        looks.append(at)
        wakes = [command.at for command in decision.commands if isinstance(command, WakeAt)]
        if not wakes:
            break
        at = wakes[0] - T0
    assert looks == [timedelta(seconds=1), timedelta(seconds=11), timedelta(seconds=31)]
    assert story.feed(made, Woke(call=made), timedelta(hours=1)).rule is Rule.WOKE_NOTHING
