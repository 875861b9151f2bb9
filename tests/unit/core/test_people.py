"""Details of questions, answers and verdicts that a mutant of the core once got past every other test."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide, decide_tree
from forbear.core.decision import Announce, Deliver, Execute, WakeAt
from forbear.core.events import (
    Denied,
    Edited,
    Granted,
    Inspected,
    Interrupted,
    Lost,
    Proposed,
    Returned,
    Revised,
    TurnBegan,
    Woke,
)
from forbear.core.policy import IdempotencyKey, Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Action, Approved, AwaitingApproval
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Verdict
from tests.model.calls import ALLOW, ALWAYS, RESULTS, T0, call
from tests.model.cases import BARE, PLAIN, READ, WRITE
from tests.unit.core.test_decide import GATED, Story, asked


def yes(ticket: str, made: Call) -> Granted:
    """Return a person's yes; the controller starts the call."""
    return Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=False)


def deny(story: Story, made: Call) -> None:
    """Ask about a call and say no."""
    ticket = story.propose(made).ticket
    assert ticket is not None
    assert story.feed(made, Denied(ticket=ticket, fingerprint=made.fingerprint, actor="p")).rule is Rule.DENIED


def two_yeses(policy: ToolPolicy) -> tuple[Story, Call, Action]:
    """Return a story in which two runs have a yes each for one call, and the first one's executes."""
    story, made, ticket = asked(policy, "child")
    story.feed(made, yes(ticket, made))
    story.feed(made, Woke(call=made))
    own = next(action for action in story.s.actions.values() if action.call.base)
    assert isinstance(own.phase, AwaitingApproval)
    granted = Granted(ticket=own.phase.ticket, fingerprint=own.phase.fingerprint, actor="p", reproposes=False)
    story.s = story.s.after(decide(story.s, own.key, granted, T0))
    return story, made, story.s.actions[own.key]


def test_a_yes_of_its_own_while_the_equal_call_executes_is_a_blocked_step() -> None:
    """The run that proposes it again and again is not healthy."""
    story, made, own = two_yeses(GATED)
    child = replace(made, run="child", step="s9", call_id="c9")
    decision = story.feed(own.call, Proposed(call=child, ticket="t9"))
    assert (decision.rule, decision.answer) == (Rule.RUNNING_DUPLICATE, Answer.BLOCKED)
    assert decision.blocked_step
    assert decision.idle_step


def test_a_yes_of_its_own_starts_nothing_in_the_turn_in_which_the_call_was_done() -> None:
    """Its run is told that it is done; in a new turn it is a new wish."""
    story, made, own = two_yeses(GATED)
    story.result(made, RESULTS["ok"](T0))
    done = decide(story.s, own.key, Woke(call=own.call), T0)
    assert done.rule is Rule.COMPLETED_SHARED
    assert [type(command) for command in done.commands] == [Announce]
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    assert isinstance(story.s.actions[own.key].phase, Approved)
    assert decide(story.s, own.key, Woke(call=own.call), T0).rule is Rule.EXECUTED_ON_GRANT


def test_the_run_that_was_asked_first_waits_as_well_for_the_one_that_starts_first() -> None:
    """Whoever starts first executes; the other is blocked meanwhile, and given the result afterwards."""
    story, made, ticket = asked(GATED, "child")
    story.feed(made, yes(ticket, made))
    own = next(action for action in story.s.actions.values() if action.call.base)
    assert isinstance(own.phase, AwaitingApproval)
    granted = Granted(ticket=own.phase.ticket, fingerprint=own.phase.fingerprint, actor="p", reproposes=False)
    story.s = story.s.after(decide(story.s, own.key, granted, T0))
    started = decide(story.s, own.key, Woke(call=own.call), T0)
    assert started.rule is Rule.EXECUTED_ON_GRANT
    story.s = story.s.after(started)
    assert decide(story.s, made.action, Woke(call=made), T0).rule is Rule.GRANT_WOKE_EARLY
    assert story.propose(made).rule is Rule.RUNNING_DUPLICATE
    answered = Returned(attempt=1, envelope=RESULTS["ok"](T0), ticket="tr")
    story.s = story.s.after(decide(story.s, own.key, answered, T0))
    done = story.propose(made)
    assert (done.rule, done.answer) == (Rule.COMPLETED_SHARED, Answer.DELIVERED)
    assert [command for command in done.commands if isinstance(command, Deliver)] == [
        Deliver(action=own.key, attempt=1)
    ]


def test_a_yes_that_waits_is_not_started_early() -> None:
    """The controller looks again when it said it would."""
    story, made, own = two_yeses(replace(GATED, repeatable=None))
    waits = decide(story.s, own.key, Woke(call=own.call), T0)
    story.s = story.s.after(waits)
    story.result(made, RESULTS["ok"](T0))
    at = next(command.at for command in waits.commands if isinstance(command, WakeAt))
    early = decide(story.s, own.key, Woke(call=own.call), at - timedelta(microseconds=1))
    assert early.rule is Rule.GRANT_WOKE_EARLY
    assert decide(story.s, own.key, Woke(call=own.call), at).rule is Rule.EXECUTED_ON_GRANT


def test_runs_that_joined_a_question_are_told_that_it_expired() -> None:
    """Another run's proposal finds it expired; the one that asked first hears of it."""
    story, made, _ = asked(GATED, "child")
    late = Limits().approval_ttl
    decision = story.propose(replace(made, run="child"), after=late)
    assert decision.rule is Rule.APPROVAL_ASKED
    told = [
        (command.told.code, command.call.run)
        for command in decision.commands
        if isinstance(command, Announce) and command.call
    ]
    assert told == [("APPROVAL_EXPIRED", "root")]


def test_two_noes_in_a_row_and_the_operation_asks_nobody() -> None:
    """Until the next human message; what no rule asks about runs."""
    story = Story(BARE)
    made = [replace(call(BARE, {"size": size}), verdict=ALWAYS) for size in range(4)]
    deny(story, made[0])
    assert story.propose(made[2]).answer is Answer.NEEDS_APPROVAL
    deny(story, made[1])
    assert story.propose(made[3]).rule is Rule.HELD_DENIAL
    assert story.propose(replace(made[3], verdict=ALLOW)).rule is Rule.EXECUTED
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    assert story.propose(replace(call(BARE, {"size": 9}), verdict=ALWAYS)).answer is Answer.NEEDS_APPROVAL


def test_a_no_to_an_undeclared_call_holds_the_exact_call() -> None:
    """Nobody said what its target means."""
    policy = replace(BARE, target=(("desk", "desk"),))
    story = Story(policy)
    deny(story, replace(call(policy, {"desk": "a", "size": 1}), verdict=ALWAYS))
    same_desk = replace(call(policy, {"desk": "a", "size": 2}), verdict=ALWAYS)
    assert story.propose(same_desk).answer is Answer.NEEDS_APPROVAL


@pytest.mark.parametrize(("turns", "rule"), [(0, Rule.EDITED_HELD), (1, Rule.EDITED)])
def test_an_edit_into_a_call_that_is_done_is_held_in_its_turn(turns: int, rule: Rule) -> None:
    """In a new turn the person's edit is a new wish."""
    story = Story(GATED)
    done = call(GATED, {"desk": "b", "size": 2})
    story.propose(done)
    story.result(done, RESULTS["ok"](T0))
    for _ in range(turns):
        story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    made = replace(call(GATED, {"desk": "a", "size": 1}), verdict=ALWAYS)
    ticket = story.propose(made).ticket
    assert ticket is not None
    edited = Edited(ticket=ticket, fingerprint=made.fingerprint, actor="p", call=done, reproposes=False, new_ticket="n")
    assert story.feed(made, edited).rule is rule


def test_changes_that_a_person_wants_are_not_made_by_other_work() -> None:
    """A revised call waits for other arguments or the turn, whatever else completes."""
    story = Story(PLAIN)
    made = replace(call(PLAIN, {"size": 1}), verdict=ALWAYS)
    ticket = story.propose(made).ticket
    assert ticket is not None
    story.feed(made, Revised(ticket=ticket, fingerprint=made.fingerprint, actor="p"))
    other = call(PLAIN, {"size": 2})
    story.propose(other)
    story.result(other, RESULTS["ok"](T0))
    assert story.propose(made).rule is Rule.HELD_REPAIR


@pytest.mark.parametrize(("most", "rule"), [(1, Rule.HELD_REPAIR), (2, Rule.EXECUTED)])
def test_the_same_input_is_tried_again_so_often_after_other_work(most: int, rule: Rule) -> None:
    """The bound is the number of refusals of the same input in a turn."""
    policy = replace(PLAIN, limits=Limits(max_same_results=most))
    story = Story(policy)
    made, other = call(policy, {"size": 1}), call(policy, {"size": 2})
    story.propose(made)
    story.result(made, RESULTS["repair"](T0))
    story.propose(other)
    story.result(other, RESULTS["ok"](T0))
    assert story.propose(made).rule is rule


def test_a_write_that_may_be_repeated_runs_twice_in_one_step() -> None:
    """Two equal lines of one message were meant twice."""
    story = Story(replace(PLAIN, repeatable=True))
    first = replace(call(PLAIN, {"size": 1}), step="s", siblings=2)
    for name in ("c1", "c2"):
        made = replace(first, call_id=name)
        assert story.feed(made, Proposed(call=made, ticket=name)).answer is Answer.EXECUTED


def test_a_write_is_never_replayed_and_one_replay_is_one() -> None:
    """Records of reads stand in for reads, so many times."""
    once = Limits(replay_completed=1)
    write = Story(replace(PLAIN, limits=once))
    made = call(PLAIN, {"size": 1})
    write.propose(made)
    write.result(made, RESULTS["ok"](T0))
    assert write.propose(made).answer is Answer.EXECUTED
    read, look = Story(replace(READ, limits=once)), call(READ, {"desk": "a"})
    read.propose(look)
    read.result(look, RESULTS["ok"](T0))
    assert [read.propose(look).rule for _ in range(2)] == [Rule.COMPLETED_REPLAYED, Rule.COMPLETED_NO_PROGRESS]


def test_an_interrupted_repetition_by_key_is_unknown_again() -> None:
    """The framework asks; nobody knows more than before."""
    policy = replace(WRITE, idempotency_key=IdempotencyKey(argument="key"))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    repeated = story.feed(made, Woke(call=made), timedelta(seconds=2))
    assert any(isinstance(command, Execute) for command in repeated.commands)
    assert story.feed(made, Interrupted(attempt=2, ticket="t"), timedelta(seconds=3)).rule is Rule.INTERRUPTED
    assert story.propose(made).rule is Rule.HELD_UNKNOWN


def test_the_loss_of_a_call_is_told_to_the_step_that_made_it() -> None:
    """An inbox needs to know which call it was."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    [told] = [command for command in story.feed(made, Lost(attempt=1)).commands if isinstance(command, Announce)]
    assert told.call is not None
    assert (told.call.run, told.call.step, told.call.call_id) == ("root", "s1", "c1")


def test_absence_counts_twice_and_settle_apart() -> None:
    """A check that finds nothing at once may have looked too early."""
    policy = replace(WRITE, limits=Limits(settle=timedelta(seconds=10)))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    absent = Inspected(verdict=Verdict.NOT_APPLIED, source="check")
    seconds = [0.0, 5.0, 9.999999, 10.0]
    rules = [story.feed(made, absent, timedelta(seconds=second)).rule for second in seconds]
    assert rules == [*[Rule.VERDICT_ABSENT_ONCE] * 3, Rule.VERDICT_NOT_APPLIED]
    assert story.propose(made).rule is Rule.EXECUTED


def test_a_yes_of_its_own_is_good_in_a_new_turn() -> None:
    """What was done in an older turn does not answer the run that was given its own yes."""
    story, made, _ = two_yeses(GATED)
    story.result(made, RESULTS["ok"](T0))
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    child = replace(made, run="child", step="s9", call_id="c9")
    decision = story.feed(child, Proposed(call=child, ticket="t9"))
    assert decision.rule is Rule.EXECUTED_ON_GRANT


def test_a_known_call_is_delivered_although_its_action_is_forgotten() -> None:
    """The record answers it, and nothing is told that nobody knows."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["ok"](T0))
    story.s = replace(story.s, actions={})
    story.steps -= 1
    decision = story.propose(made)
    assert (decision.rule, decision.told) == (Rule.KNOWN_DELIVERED, None)


def test_the_loss_of_an_older_attempt_is_told_to_its_own_step() -> None:
    """Two steps look at once, and the first one's process dies."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    story.propose(made)
    [told] = [command for command in story.feed(made, Lost(attempt=1)).commands if isinstance(command, Announce)]
    assert told.call is not None
    assert (told.call.step, told.call.call_id) == ("s1", "c1")
