"""Sentences of the design that journeys written from its text alone found the core to break, or to leave open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide_tree
from forbear.core.events import Denied, Granted, Lifted, TurnBegan, Woke
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import AwaitingApproval, Stopped, Waiting
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Executed, Recovery
from tests.model.calls import ALWAYS, DOWN, LOOSE, RESULTS, T0, call
from tests.model.cases import BARE, PLAIN, READ, WRITE
from tests.unit.core.test_decide import Story


@pytest.mark.parametrize(
    ("executed", "rule"), [(Executed.UNKNOWN, Rule.RETURNED_RETRY_EXHAUSTED), (Executed.NO, Rule.RETURNED_WAIT)]
)
def test_a_read_that_bills_is_never_repeated_by_the_controller_after_it_may_have_run(
    executed: Executed, rule: Rule
) -> None:
    """`repeatable = False` (section 3) outranks the retry of a read that timed out; one that never ran waits as usual."""
    billed = replace(READ, repeatable=False)
    story, made = Story(billed), call(billed, {"desk": "a"})
    story.propose(made)
    assert story.result(made, replace(RESULTS["wait-down"](T0), executed=executed)).rule is rule
    if executed is Executed.UNKNOWN:
        assert isinstance(story.s.actions[made.action].phase, Stopped)
        assert story.propose(made).answer is Answer.BLOCKED
    else:
        assert isinstance(story.s.actions[made.action].phase, Waiting)
        assert story.feed(made, Woke(call=made), timedelta(seconds=10)).rule is Rule.EXECUTED_AS_RETRY


def test_a_person_who_is_asked_because_the_checker_is_down_is_told_so() -> None:
    """A failing checker is no verdict: the question says that nobody else decided (section 4, step 4)."""
    policy = replace(PLAIN, limits=Limits(checker_retry=0, on_checker_down="ask"))
    asked = Story(policy).propose(replace(call(policy, {"size": 1}), verdict=DOWN))
    assert asked.rule is Rule.APPROVAL_ASKED
    assert asked.told is not None
    assert (asked.told.code, asked.told.recovery) == ("CHECKER_UNAVAILABLE", Recovery.REQUEST_APPROVAL)


def _answer(story: Story, made: Call, *, yes: bool) -> None:
    assert story.propose(made).answer is Answer.NEEDS_APPROVAL
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, AwaitingApproval)
    if yes:
        yes_to_it = Granted(ticket=phase.ticket, fingerprint=phase.fingerprint, actor="p", reproposes=False)
        story.feed(made, yes_to_it)
    else:
        story.feed(made, Denied(ticket=phase.ticket, fingerprint=phase.fingerprint, actor="p"))


def _gated(most: int) -> tuple[ToolPolicy, list[Call]]:
    policy = replace(WRITE, limits=Limits(max_prompts=most))
    return policy, [replace(call(policy, {"desk": str(desk)}), verdict=ALWAYS) for desk in range(9)]


def _turn(story: Story) -> None:
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))


def test_noes_count_since_the_last_yes_and_a_human_message_opens_one_more_question() -> None:
    """`max_prompts` (section 3) is no bound of a turn; but what a person says next always may be asked about."""
    policy, made = _gated(2)
    story = Story(policy)
    _answer(story, made[0], yes=False)
    _answer(story, made[1], yes=False)
    assert story.propose(made[2]).rule is Rule.APPROVAL_PROMPTS_SPENT
    _turn(story)
    _answer(story, made[3], yes=False)
    assert story.propose(made[4]).rule is Rule.APPROVAL_PROMPTS_SPENT
    _turn(story)
    _answer(story, made[5], yes=True)
    _answer(story, made[6], yes=False)
    assert story.propose(made[7]).answer is Answer.NEEDS_APPROVAL


def test_a_no_of_an_older_turn_still_counts() -> None:
    """One no in each of two turns is two noes."""
    policy, made = _gated(2)
    story = Story(policy)
    _answer(story, made[0], yes=False)
    _turn(story)
    _answer(story, made[1], yes=False)
    assert story.propose(made[2]).rule is Rule.APPROVAL_PROMPTS_SPENT


_BUDGETS = ("max_calls_per_turn", "max_calls_per_run")


@pytest.mark.parametrize(
    ("whole", "own", "turns"),
    [
        (Limits(max_calls_per_turn=1), Limits(), 0),
        (Limits(max_calls_per_run=1), Limits(), 1),
        (Limits(), Limits(max_calls_per_turn=1), 0),
        (Limits(), Limits(max_calls_per_run=1), 1),
    ],
)
def test_a_lifted_budget_is_a_fresh_budget(whole: Limits, own: Limits, turns: int) -> None:
    """What a person lifted is not placed again by the very next call; when it is spent again, it is."""
    policy = replace(BARE, limits=own)
    story = Story(policy)
    story.s = replace(story.s, limits=replace(LOOSE, **{name: getattr(whole, name) for name in _BUDGETS}))
    made = [call(policy, {"size": size}) for size in range(4)]
    assert story.propose(made[0]).rule is Rule.EXECUTED
    for _ in range(turns):
        _turn(story)
    assert story.propose(made[1]).rule is Rule.BUDGET_SPENT
    story.propose(made[1])
    [hold] = story.s.holds.values()
    story.s = story.s.after(decide_tree(story.s, Lifted(hold=hold.key, run=None, actor="p"), T0))
    assert story.propose(made[2]).rule is Rule.EXECUTED
    assert story.propose(made[3]).rule is Rule.BUDGET_SPENT


def test_the_same_missing_field_is_refused_and_then_final() -> None:
    """The second blocked step under one refusal is a stop (section 4); other arguments and a new turn are free."""
    story = Story(WRITE)
    lacks = call(WRITE, {"desk": "a"}, malformed="INPUT_INVALID")
    assert [story.propose(lacks).answer for _ in range(3)] == [Answer.BLOCKED, Answer.BLOCKED, Answer.STOPPED]
    other = call(WRITE, {"desk": "b"}, malformed="INPUT_INVALID")
    assert story.propose(other).answer is Answer.BLOCKED
    assert story.propose(call(WRITE, {"desk": "a", "size": 1})).rule is Rule.EXECUTED
    _turn(story)
    assert story.propose(lacks).answer is Answer.BLOCKED


def test_a_cut_call_is_no_reason_to_refuse_the_whole_one() -> None:
    """What was cut off says nothing about the same arguments in a call that was not."""
    story = Story(WRITE)
    cut = call(WRITE, {"desk": "a"}, malformed="INPUT_TRUNCATED")
    assert [story.propose(cut).answer for _ in range(3)] == [Answer.BLOCKED, Answer.BLOCKED, Answer.STOPPED]
    assert story.propose(call(WRITE, {"desk": "a"})).rule is Rule.EXECUTED


def _waiting(story: Story, made: Call) -> Waiting:
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, Waiting)
    return phase


@pytest.mark.parametrize("word", range(12))
def test_calls_that_one_limit_refused_go_in_their_order_and_apart(word: int) -> None:
    """Another call's jitter for the same reset moves no end: who waits first goes first, and at its own time."""
    story = Story(READ)
    made = [call(READ, {"desk": f"{word}-{n}"}, quota="q") for n in range(3)]
    for one in made:
        story.propose(one)
    for one in made:
        story.result(one, RESULTS["wait"](T0))
    waits = [_waiting(story, one).retry_at for one in made]
    assert len(set(waits)) == 3
    [hold] = story.s.holds.values()
    assert hold.ends_at == waits[0] == min(waits)
    assert story.feed(made[0], Woke(call=made[0]), waits[0] - T0).rule is Rule.EXECUTED_AS_RETRY


@pytest.mark.parametrize("word", range(12))
def test_a_wait_that_was_alone_goes_first_when_its_operation_is_closed(word: int) -> None:
    """The second call that meets one code closes the operation; the first one's retry stays what it was told."""
    story = Story(READ)
    made = [call(READ, {"desk": f"{word}-{n}"}) for n in range(2)]
    for one in made:
        story.propose(one)
    for one in made:
        story.result(one, RESULTS["wait-down"](T0))
    first = _waiting(story, made[0]).retry_at
    assert first < _waiting(story, made[1]).retry_at
    assert story.feed(made[0], Woke(call=made[0]), first - T0).rule is Rule.EXECUTED_AS_RETRY
    assert story.result(made[0], RESULTS["ok"](T0), attempt=2, after=first - T0).rule is Rule.RETURNED_COMPLETED
    second = timedelta(minutes=1)
    assert story.feed(made[1], Woke(call=made[1]), second).rule is Rule.EXECUTED_AS_RETRY
