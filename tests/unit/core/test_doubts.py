"""Doubts, verdicts and what an attempt answers for, in detail: nothing is repeated, and nothing stays claimed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide_tree
from forbear.core.decision import Announce, Inspect, PutKnown
from forbear.core.events import (
    Cancelled,
    Inspected,
    Interrupted,
    Proposed,
    Returned,
    RunRestarted,
    TurnBegan,
    Woke,
)
from forbear.core.holds import place, tell
from forbear.core.policy import IdempotencyKey, Inspection, Limits, Poll, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Claim, Completed, Fresh, Hold, Running, Started, Unknown
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Cause, End, Scope, Verdict
from tests.model.calls import ALWAYS, RESULTS, T0, call
from tests.model.cases import BARE, PLAIN, READ, WRITE
from tests.unit.core.test_decide import Story
from tests.unit.core.test_people import deny, yes

KEYED = replace(WRITE, idempotency_key=IdempotencyKey(argument="key"))


def in_doubt(policy: ToolPolicy = KEYED) -> tuple[Story, Call]:
    """Return a story in which a write may have happened."""
    story, made = Story(policy), call(policy, {"desk": "a", "size": 1})
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    return story, made


def repeated(policy: ToolPolicy = KEYED) -> tuple[Story, Call]:
    """Return a story in which the one repetition with the same key is under way."""
    story, made = in_doubt(policy)
    assert story.feed(made, Woke(call=made), timedelta(seconds=2)).rule is Rule.REPEAT_WITH_KEY
    return story, made


def test_the_same_key_is_used_once() -> None:
    """The repetition is in doubt as well: a person has to say."""
    story, made = repeated()
    story.result(made, RESULTS["unknown"](T0), attempt=2)
    assert story.feed(made, Woke(call=made), timedelta(seconds=4)).rule is Rule.VERDICT_CANNOT_TELL
    assert story.feed(made, Woke(call=made), timedelta(seconds=6)).rule is Rule.WOKE_NOTHING


def test_a_key_is_used_while_the_upstream_remembers_it() -> None:
    """At the end of its time it is another key's turn, and there is none."""
    valid_for = timedelta(hours=24)
    for after, rule in (
        (valid_for - timedelta(microseconds=1), Rule.REPEAT_WITH_KEY),
        (valid_for, Rule.VERDICT_CANNOT_TELL),
    ):
        story, made = in_doubt()
        assert story.feed(made, Woke(call=made), after).rule is rule


@pytest.mark.parametrize("verdict", [Verdict.APPLIED, Verdict.NOT_APPLIED])
def test_after_a_verdict_a_call_is_an_ordinary_one(verdict: Verdict) -> None:
    """Its next attempt repeats no doubt: a refusal of it is a refusal."""
    story, made = repeated()
    story.result(made, RESULTS["unknown"](T0), attempt=2)
    story.feed(made, Inspected(verdict=verdict, source="person"))
    story.s = story.s.after(decide_tree(story.s, TurnBegan(at=T0), T0))
    assert story.propose(made).rule is Rule.EXECUTED
    assert story.result(made, RESULTS["refused"](T0), attempt=3).rule is Rule.RETURNED_REFUSED


def test_a_repetition_that_is_cancelled_is_unknown_whatever_the_tool_confirms() -> None:
    """What did not land is the repetition; the first attempt may have."""
    story, made = repeated()
    assert story.feed(made, Cancelled(acknowledged=True)).rule is Rule.CANCELLED_UNKNOWN
    assert isinstance(story.s.actions[made.action].phase, Unknown)


def test_a_repetition_that_is_interrupted_is_answered_and_not_announced() -> None:
    """Whoever interrupted it is there; and no request is made up."""
    story, made = repeated()
    decision = story.feed(made, Interrupted(attempt=2, ticket="t"))
    assert decision.rule is Rule.INTERRUPTED
    assert not any(isinstance(command, Announce) for command in decision.commands)
    assert decision.told is not None
    assert decision.told.request_id == ""


def test_each_look_is_made() -> None:
    """The last one as well, after which none is scheduled."""
    story, made = in_doubt(replace(WRITE, inspect=Inspection(tool="look"), limits=Limits(inspect_attempts=2)))
    for after in (1, 11):
        decision = story.feed(made, Woke(call=made), timedelta(seconds=after))
        assert decision.rule is Rule.INSPECT_NOW
        assert decision.commands[0] == Inspect(action=made.action)


def test_a_doubt_ends_although_its_hold_is_gone() -> None:
    """A store that lost the hold still learns what became of the write."""
    story, made = in_doubt()
    story.s = replace(story.s, holds={})
    assert story.feed(made, Inspected(verdict=Verdict.APPLIED, source="person")).rule is Rule.VERDICT_APPLIED
    assert isinstance(story.s.actions[made.action].phase, Completed)


def test_a_verdict_ends_its_own_doubt_while_another_target_is_in_doubt() -> None:
    """What is repeated elsewhere keeps nothing closed here."""
    story, first = in_doubt()
    other = call(KEYED, {"desk": "c", "size": 1})
    story.propose(other)
    story.result(other, RESULTS["unknown"](T0))
    story.feed(first, Woke(call=first), timedelta(seconds=2))
    story.feed(other, Inspected(verdict=Verdict.NOT_APPLIED, source="person"))
    held = [hold.value for hold in story.s.holds.values() if hold.cause is Cause.UNKNOWN]
    assert held == [first.target]


def test_a_verdict_leaves_the_target_closed_while_another_write_to_it_is_in_doubt() -> None:
    """The repetition of the other one is under way: nobody knows yet."""
    story = Story(KEYED)
    first, other = call(KEYED, {"desk": "a", "size": 1}), call(KEYED, {"desk": "a", "size": 2})
    story.propose(first)
    story.propose(other)
    for made in (first, other):
        story.result(made, RESULTS["unknown"](T0))
    assert story.feed(first, Woke(call=first), timedelta(seconds=2)).rule is Rule.REPEAT_WITH_KEY
    story.feed(other, Inspected(verdict=Verdict.NOT_APPLIED, source="person"))
    assert [hold.cause for hold in story.s.holds.values()] == [Cause.UNKNOWN]


def test_a_doubt_is_told_without_what_the_tool_promised() -> None:
    """No text and no time of a retry that will not be made."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    promised = replace(RESULTS["wait-partly"](T0), safe_message="It is tried again for you.", retry_after_seconds=30)
    told = story.result(made, promised).told
    assert told is not None
    assert (told.code, told.safe_message, told.reset_at, told.retry_after_seconds) == (
        "OUTCOME_UNKNOWN",
        None,
        None,
        None,
    )


def test_a_read_that_had_effects_is_not_retried() -> None:
    """Whatever time the answer names."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    assert story.result(made, RESULTS["wait-partly"](T0)).rule is Rule.RETURNED_REFUSED


def test_a_call_without_an_id_is_not_remembered_by_one() -> None:
    """Two calls without an id are not the same call."""
    story, made = Story(WRITE), replace(call(WRITE, {"desk": "a"}), step="s")
    decisions = [story.feed(made, Proposed(call=made, ticket="t", request_id="act_1"))]
    decisions.append(story.result(made, RESULTS["ok"](T0)))
    assert not any(isinstance(change, PutKnown) for decision in decisions for change in decision.changes)


@pytest.mark.parametrize("result", ["ok", "asks"])
def test_any_result_lets_a_run_go_on_that_waited(result: str) -> None:
    """The run was over because nothing was ready; now something is."""
    policy = replace(WRITE, repeatable=None)
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.s = replace(story.s, limits=Limits(max_idle_steps=1))
    story.propose(made)
    assert story.propose(made).answer is Answer.HALTED
    story.result(made, RESULTS[result](T0))
    assert story.s.runs["root"].halted is None


# ---- what an attempt answers for ------------------------------------------------------------------------------------


def refusal(story: Story, made: Call, attempt: int, value: str = "x") -> Hold:
    """Return a refusal of an older turn that an attempt probes."""
    hold = place(
        made,
        scope=Scope.ACTION,
        value=value,
        cause=Cause.REFUSAL,
        end=End.PROBE,
        told=tell("DESK_FROZEN"),
        ticket="t",
        snapshot=story.s,
        now=T0,
    )
    return replace(hold, turn=0, probed=1, claim=Claim(tree="root", action=made.action, attempt=attempt))


def two_open(policy: ToolPolicy) -> tuple[Story, Call, list[Hold]]:
    """Return a story with two open attempts, each of which probes a refusal of its own."""
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    holds = [refusal(story, made, 1, "x"), refusal(story, made, 2, "y")]
    opened = tuple(
        Started(
            attempt=attempt, run="root", step=f"s{attempt}", call_id="c", started_at=T0, owner="", probes=(hold.key,)
        )
        for attempt, hold in enumerate(holds, start=1)
    )
    action = replace(story.s.actions[made.action], phase=Running(open=opened), attempts=2)
    story.s = replace(story.s, actions={made.action: action}, holds={hold.key: hold for hold in holds})
    return story, made, holds


def test_a_question_gives_up_what_the_other_attempt_answered_for() -> None:
    """Nobody will hear its answer: the refusal can be probed again, in another turn."""
    story, made, (_, other) = two_open(replace(READ, repeatable=True))
    story.feed(made, Interrupted(attempt=1, ticket="t"))
    held = story.s.holds[other.key]
    assert (held.claim, held.probed) == (None, 1)


def test_a_cancel_gives_up_what_every_attempt_answered_for() -> None:
    """And nothing of the call is open any more."""
    story, made, holds = two_open(replace(READ, repeatable=True))
    assert story.feed(made, Cancelled(acknowledged=True)).rule is Rule.CANCELLED_FRESH
    assert isinstance(story.s.actions[made.action].phase, Fresh)
    assert [story.s.holds[hold.key].claim for hold in holds] == [None, None]


def one_open(policy: ToolPolicy, result: str) -> Hold:
    """Return a refusal after the attempt that probes it was answered."""
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    hold = refusal(story, made, 1)
    action = story.s.actions[made.action]
    assert isinstance(action.phase, Running)
    opened = replace(action.phase.open[0], probes=(hold.key,))
    story.s = replace(
        story.s,
        actions={made.action: replace(action, phase=Running(open=(opened,)))},
        holds={hold.key: hold},
    )
    story.result(made, RESULTS[result](T0))
    return story.s.holds[hold.key]


@pytest.mark.parametrize(("result", "probed"), [("asks", 0), ("repair", 0), ("wait", 0), ("refused", 1)])
def test_a_probe_that_was_not_answered_may_be_made_again(result: str, probed: int) -> None:
    """Only a refusal says that what was refused still is."""
    hold = one_open(READ, result)
    assert (hold.claim, hold.probed) == (None, probed)


def test_an_older_attempt_that_is_refused_leaves_the_probe_to_the_one_that_makes_it() -> None:
    """It started before the probe; the probe still answers for the hold."""
    story, older = Story(PLAIN), call(PLAIN, {"size": 1})
    story.propose(older)
    made = call(PLAIN, {"size": 2})
    claim = Claim(tree="root", action=made.action, attempt=1)
    story.result(older, RESULTS["refused"](T0))
    [key] = story.s.holds
    story.s = replace(story.s, holds={key: replace(story.s.holds[key], claim=claim)}, actions={})
    reopened = Started(attempt=1, run="root", step="s", call_id="c", started_at=T0, owner="")
    story.propose(call(PLAIN, {"size": 3}))
    action = next(iter(story.s.actions.values()))
    action = replace(action, key=older.action, call=older, phase=Running(open=(reopened,)))
    story.s = replace(story.s, actions={older.action: action})
    story.result(older, RESULTS["refused"](T0))
    assert story.s.holds[key].claim == claim


# ---- what a refusal holds -------------------------------------------------------------------------------------------


def test_an_owned_tool_closes_what_its_author_declared_for_a_constraint() -> None:
    """The declared scope may be wider than the run tree."""
    policy = replace(WRITE, constraints={"desk_status": Scope.PRINCIPAL})
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["refused-desk"](T0))
    assert [hold.scope for hold in story.s.holds.values()] == [Scope.PRINCIPAL]


def test_a_call_without_its_target_is_repaired_by_itself() -> None:
    """There is no target that other calls could be about."""
    story, made = Story(WRITE), call(WRITE, {"size": 1})
    story.propose(made)
    story.result(made, RESULTS["repair-size"](T0))
    assert [hold.scope for hold in story.s.holds.values()] == [Scope.ACTION]


def test_repairs_of_an_undeclared_tool_are_counted_for_its_operation() -> None:
    """Its target is nobody's word."""
    policy = replace(BARE, target=(("desk", "desk"),), limits=Limits(max_repairs=1))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["repair"](T0))
    assert {hold.scope for hold in story.s.holds.values()} == {Scope.ACTION, Scope.OPERATION}


def test_a_read_without_its_target_starts_anew_what_was_counted_for_the_operation() -> None:
    """A success of the operation ends what was counted in a row where no target is known."""
    policy = replace(READ, target=(("desk", "desk"),), limits=Limits(max_repairs=2))
    story = Story(policy)
    rules: list[Rule] = []
    for arguments, result in (({"size": 1}, "repair"), ({"desk": "a"}, "ok"), ({"size": 2}, "repair")):
        made = call(policy, arguments)
        story.propose(made)
        rules.append(story.result(made, RESULTS[result](T0)).rule)
    assert rules == [Rule.RETURNED_REPAIR, Rule.RETURNED_COMPLETED, Rule.RETURNED_REPAIR]


def test_noes_in_a_row_are_counted_for_each_operation() -> None:
    """A no about one operation is no second one about another."""
    tools = [replace(BARE, name=name, operation=name) for name in ("mail", "post")]
    story = Story(tools[0])
    quiet: list[bool] = []
    for size, policy in enumerate((tools[1], tools[0], tools[1])):
        made = call(policy, {"size": size})
        deny(story, replace(made, verdict=ALWAYS))
        quiet.append(any(hold.scope is Scope.OPERATION for hold in story.s.holds.values()))
    assert quiet == [False, False, True]


def test_a_yes_ends_the_quiet_of_its_operation() -> None:
    """Nobody is asked after two noes, until a person says yes to what was asked before."""
    story = Story(BARE)
    made = [replace(call(BARE, {"size": size}), verdict=ALWAYS) for size in range(4)]
    ticket = story.propose(made[0]).ticket
    assert ticket is not None
    deny(story, made[1])
    deny(story, made[2])
    assert story.propose(made[3]).rule is Rule.HELD_DENIAL
    story.feed(made[0], yes(ticket, made[0]))
    assert story.propose(made[3]).rule is Rule.APPROVAL_ASKED


# ---- records --------------------------------------------------------------------------------------------------------


def test_a_repeatable_write_runs_for_each_time_that_a_step_holds_it() -> None:
    """Also where the first one is done before the second one is seen."""
    policy = replace(WRITE, repeatable=True)
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["ok"](T0))
    story.steps -= 1
    second = replace(made, step="s1", call_id="other")
    assert story.feed(second, Proposed(call=second, ticket="t", request_id="act_1")).rule is Rule.EXECUTED


def test_a_restarted_run_reads_again() -> None:
    """Only writes are answered from the record of the run before."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["ok"](T0))
    story.s = story.s.after(decide_tree(story.s, RunRestarted(run="root"), T0))
    assert story.propose(made).rule is Rule.EXECUTED


def test_a_read_that_is_made_once_is_as_new_as_the_write_before_it() -> None:
    """What was written before the read is in it."""
    policy = replace(READ, name="order", operation="trade", target=(("desk", "desk"),), repeatable=False)
    story = Story(policy)
    wrote, read = call(WRITE, {"desk": "a", "size": 1}), call(policy, {"desk": "a"})
    for made in (wrote, read):
        story.propose(made)
        story.result(made, RESULTS["ok"](T0))
    assert story.propose(read).rule is Rule.COMPLETED_DELIVERED
    later = call(WRITE, {"desk": "a", "size": 2})
    story.propose(later)
    story.result(later, RESULTS["ok"](T0))
    assert story.propose(read).rule is Rule.EXECUTED


def test_two_runs_join_one_wait() -> None:
    """Each of them is remembered."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    for run in ("child", "guest"):
        story.propose(replace(made, run=run))
    assert [joined.run for joined in story.s.actions[made.action].joined] == ["child", "guest"]


def test_a_finished_status_is_looked_at_again_after_a_write() -> None:
    """The record answers until something was written."""
    policy = replace(READ, poll=Poll(status_field="status", pending=("open",)))
    story, look, wrote = Story(policy), call(policy, {"job": 1}), call(WRITE, {"desk": "a"})
    story.propose(look)
    story.feed(look, Returned(attempt=1, envelope=RESULTS["ok"](T0), finished=True, kept=True))
    assert story.propose(look).rule is Rule.COMPLETED_POLL_DONE
    story.propose(wrote)
    story.result(wrote, RESULTS["ok"](T0))
    assert story.propose(look).rule is Rule.EXECUTED
