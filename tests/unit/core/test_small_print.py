"""Details of decisions that a mutant of the core once got past every other test."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from forbear.core.decide import decide_tree
from forbear.core.decision import Announce, Decision
from forbear.core.events import Granted, Lifted, TurnBegan, Woke
from forbear.core.holds import place
from forbear.core.policy import IdempotencyKey, Inspection, Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import AwaitingApproval, Completed, Parked, Run, Waiting
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Cause, End, Executed, Mode, Outcome, Scope
from tests.model.calls import ALWAYS, RESULTS, T0, call
from tests.model.cases import PLAIN, READ, WRITE
from tests.unit.core.test_decide import GATED, Story, asked


def test_a_retry_that_waits_on_claims_the_hold_that_it_waits_for() -> None:
    """Under a wider hold the retry joins that hold's queue, and comes for it."""
    story = Story(PLAIN)
    first, second = call(PLAIN, {"size": 1}), call(PLAIN, {"size": 2})
    story.propose(first)
    story.propose(second)
    story.result(first, RESULTS["wait"](T0))
    later = timedelta(seconds=20)
    story.result(second, RESULTS["wait"](T0 + later), after=later)
    phase = story.s.actions[first.action].phase
    assert isinstance(phase, Waiting)
    own = phase.hold
    decision = story.feed(first, Woke(call=story.s.actions[first.action].call), phase.retry_at - T0)
    assert decision.rule is Rule.WOKE_REPARKED
    phase = story.s.actions[first.action].phase
    assert isinstance(phase, Waiting)
    assert phase.hold != own
    assert phase.hold is not None
    assert first.action in story.s.holds[phase.hold].parked
    assert phase.told.reset_at == story.s.holds[phase.hold].ends_at
    due = story.feed(first, Woke(call=story.s.actions[first.action].call), phase.retry_at - T0)
    assert due.rule is Rule.EXECUTED_AS_RETRY


def test_writes_on_different_targets_are_both_kept_under_a_quota() -> None:
    """A write waits for nobody else on its target; another target's write is not its business."""
    story = Story(WRITE)
    made = [call(WRITE, {"desk": desk, "size": 1}, quota="q") for desk in ("a", "b", "c")]
    story.propose(made[0])
    story.result(made[0], RESULTS["wait"](T0))
    assert [story.propose(one).rule for one in made[1:]] == [Rule.HELD_TIME_PARKED, Rule.HELD_TIME_PARKED]
    same = call(WRITE, {"desk": "b", "size": 2}, quota="q")
    assert story.propose(same).rule is Rule.HELD_TIME_NO_SLOT


def test_a_quota_keeps_so_many_calls_and_each_has_its_place() -> None:
    """Beyond the bound a call is told to come again; those that wait start one after the other."""
    policy = replace(READ, limits=Limits(max_parked=3))
    story = Story(policy)
    made = [call(policy, {"desk": str(number)}, quota="q") for number in range(4)]
    story.propose(made[0])
    story.result(made[0], RESULTS["wait"](T0))
    rules = [story.propose(one).rule for one in made[1:]]
    assert rules == [Rule.HELD_TIME_PARKED, Rule.HELD_TIME_PARKED, Rule.HELD_TIME_NO_SLOT]
    instants = [
        phase.run_at for phase in (story.s.actions[one.action].phase for one in made[1:3]) if isinstance(phase, Parked)
    ]
    [hold] = story.s.holds.values()
    assert hold.ends_at is not None
    assert hold.ends_at + timedelta(seconds=1) < instants[0] < hold.ends_at + timedelta(seconds=2.25)
    assert hold.ends_at + timedelta(seconds=2) < instants[1] < hold.ends_at + timedelta(seconds=3.25)


def test_a_forced_choice_is_cleared_when_steps_end_the_run() -> None:
    """The framework would force the same call again."""
    story = Story(WRITE)
    story.s = replace(story.s, limits=Limits(max_blocked_steps=1))
    made = replace(call(WRITE, {"desk": "a"}), forced=True)
    story.propose(made)
    story.result(made, RESULTS["refused"](T0))
    decision = story.propose(made)
    assert (decision.answer, decision.clear_forced) == (Answer.HALTED, True)
    again = story.propose(made)
    assert (again.rule, again.clear_forced) == (Rule.RUN_HALTED, True)


def test_a_run_that_joined_a_wait_is_told_what_came_of_it() -> None:
    """Two runs wait for one write: both learn that it is done."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    story.propose(replace(made, run="child"))
    story.feed(made, Woke(call=story.s.actions[made.action].call), timedelta(seconds=60))
    decision = story.result(made, RESULTS["ok"](T0), attempt=2)
    told = [command.call.run for command in decision.commands if isinstance(command, Announce) and command.call]
    assert told == ["child"]
    assert story.s.actions[made.action].joined == ()


def test_an_operator_lifts_the_halt_of_one_run() -> None:
    """The halt of another run is not the operator's business here."""
    story = Story(WRITE)
    story.s = replace(story.s, limits=Limits(max_blocked_steps=1))
    made = call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["refused"](T0))
    for run in ("root", "child"):
        assert story.propose(replace(made, run=run)).answer is Answer.HALTED
    lifted = decide_tree(story.s, Lifted(hold=None, run="child", actor="p"), T0)
    story.s = story.s.after(lifted)
    assert story.s.runs["child"].halted is None
    assert story.s.runs["root"].halted is not None
    assert decide_tree(story.s, Lifted(hold=None, run="child", actor="p"), T0).rule is Rule.LIFTED_NOTHING


def test_a_read_that_completes_starts_its_repairs_anew() -> None:
    """Repairs are counted in a row, for what they are about."""
    policy = replace(READ, limits=Limits(max_repairs=2))
    story = Story(policy)
    wrong, right, wrong_again = (call(policy, {"desk": desk}) for desk in ("x", "a", "y"))
    story.propose(wrong)
    story.result(wrong, RESULTS["repair"](T0))
    story.propose(right)
    story.result(right, RESULTS["ok"](T0))
    story.propose(wrong_again)
    assert story.result(wrong_again, RESULTS["repair"](T0)).rule is Rule.RETURNED_REPAIR


def test_another_run_joins_an_ungranted_execution_and_is_asked_apart_from_a_granted_one() -> None:
    """What ran by a yes of one run answers no other run; what ran without one does."""
    story, made, ticket = asked(GATED)
    story.feed(made, Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=False))
    story.feed(made, Woke(call=made))
    assert story.propose(replace(made, run="child")).answer is Answer.NEEDS_APPROVAL
    plain = Story(GATED)
    free = call(GATED, {"desk": "a", "size": 1})
    plain.propose(free)
    assert plain.propose(replace(free, run="child", verdict=ALWAYS)).rule is Rule.RUNNING_DUPLICATE


def test_a_repeatable_write_that_is_done_leaves_the_other_runs_question_open() -> None:
    """Only a write declared not repeatable answers every run of its turn."""
    again = replace(GATED, repeatable=None)
    for policy, answer in ((again, Answer.NEEDS_APPROVAL), (GATED, Answer.DELIVERED)):
        story, made, ticket = asked(policy, "child")
        story.feed(made, Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=False))
        story.feed(made, Woke(call=made))
        story.result(made, RESULTS["ok"](T0))
        own = next(action for action in story.s.actions.values() if action.call.base)
        assert isinstance(own.phase, AwaitingApproval)
        decision = story.propose(replace(made, run="child"))
        assert decision.answer is answer
        assert answer is Answer.DELIVERED or decision.ticket == own.phase.ticket


def test_a_known_call_whose_action_is_forgotten_is_decided_anew() -> None:
    """A store may keep less than the framework's checkpoint."""
    story, made = Story(READ), call(READ, {"desk": "a"})
    first = story.propose(made)
    assert first.answer is Answer.EXECUTED
    story.s = replace(story.s, actions={})
    story.steps -= 1
    assert story.propose(made).rule is Rule.EXECUTED


def test_a_read_of_a_target_starts_the_repairs_of_that_target_anew() -> None:
    """Repairs that are counted for one target are not those of another."""
    policy = replace(READ, target=(("desk", "desk"),), limits=Limits(max_repairs=2))
    for completed, rule in (("a", Rule.RETURNED_REPAIR), ("b", Rule.RETURNED_REPAIRS_EXHAUSTED)):
        story = Story(policy)
        made = [call(policy, {"desk": desk, "size": size}) for desk, size in (("a", 1), (completed, 2), ("a", 3))]
        rules: list[Rule] = []
        for one, result in zip(made, ("repair", "ok", "repair"), strict=True):
            story.propose(one)
            rules.append(story.result(one, RESULTS[result](T0)).rule)
        assert rules[-1] is rule


def test_writes_without_their_target_do_not_overwrite_each_other() -> None:
    """Nobody knows what they were about: the record of each still answers its equal call."""
    story = Story(WRITE)
    one, other = call(WRITE, {"size": 1}), call(WRITE, {"size": 2})
    for made in (one, other):
        story.propose(made)
        story.result(made, RESULTS["ok"](T0))
    assert story.propose(one).rule is Rule.COMPLETED_DELIVERED


def test_writes_of_different_operations_without_a_target_are_both_kept() -> None:
    """Only a write of the same operation may be about the same thing."""
    other = replace(PLAIN, name="send", operation="mail")
    story = Story(PLAIN)
    made = [
        call(PLAIN, {"size": 1}, quota="q"),
        call(PLAIN, {"size": 2}, quota="q"),
        call(other, {"to": "a"}, quota="q"),
    ]
    story.propose(made[0])
    story.result(made[0], RESULTS["wait"](T0))
    assert story.propose(made[2]).rule is Rule.HELD_TIME_PARKED
    assert story.propose(made[1]).rule is Rule.HELD_TIME_NO_SLOT


def told_to(decision: Decision) -> list[tuple[str | None, str, str | None]]:
    """Return who is told what about which operation."""
    return [
        (command.call.run if command.call else None, command.told.code, command.told.operation)
        for command in decision.commands
        if isinstance(command, Announce)
    ]


def test_a_new_turn_tells_each_joined_run_about_its_own_question() -> None:
    """Two questions are void at once, and nobody is told about the other one."""
    other = replace(GATED, name="send", operation="mail")
    story = Story(GATED)
    for policy, run in ((GATED, "child"), (other, "guest")):
        made = replace(call(policy, {"desk": "a"}), verdict=ALWAYS)
        story.propose(made)
        story.propose(replace(made, run=run))
    told = told_to(decide_tree(story.s, TurnBegan(at=T0), T0))
    assert set(told) == {
        (None, "APPROVAL_CLOSED", "trade"),
        (None, "APPROVAL_CLOSED", "mail"),
        ("child", "APPROVAL_CLOSED", "trade"),
        ("guest", "APPROVAL_CLOSED", "mail"),
    }


def waiting(*runs: str, policy: ToolPolicy = WRITE) -> tuple[Story, Call]:
    """Return a story in which a root's write waits for its retry, and other runs joined."""
    story, made = Story(policy), call(policy, {"desk": "a", "size": 1})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    for run in runs:
        assert story.propose(replace(made, run=run)).rule is Rule.WAITING_JOINED
    return story, made


def test_a_run_that_joined_a_wait_is_told_of_a_doubt() -> None:
    """The retry's outcome is unknown, and is looked for: who waited for it hears so now."""
    story, made = waiting("child", policy=replace(WRITE, inspect=Inspection(tool="look")))
    story.feed(made, Woke(call=story.s.actions[made.action].call), timedelta(seconds=60))
    decision = story.result(made, RESULTS["unknown"](T0), attempt=2)
    assert told_to(decision) == [("child", "OUTCOME_UNKNOWN", "trade")]


def test_whoever_makes_the_retry_the_others_are_told_what_came_of_it() -> None:
    """The run that waited first and those that joined stay among those who wait when another run claims the retry."""
    story, made = waiting("child")
    decision = story.propose(replace(made, run="guest"), timedelta(seconds=60))
    assert decision.rule is Rule.EXECUTED_AS_RETRY
    assert [joined.run for joined in story.s.actions[made.action].joined] == ["root", "child"]
    told = told_to(story.result(made, RESULTS["ok"](T0), attempt=2))
    assert [run for run, _, _ in told] == ["root", "child"]


def test_a_run_that_is_answered_is_not_told_as_well() -> None:
    """A kept call is stopped as a run that joined asks for it: that run has its answer, and only the others are told."""
    story, made = Story(READ), call(READ, {"desk": "a"}, quota="q")
    first = call(READ, {"desk": "b"}, quota="q")
    story.propose(first)
    story.result(first, RESULTS["wait"](T0))
    story.propose(made)
    for run in ("child", "guest"):
        assert story.propose(replace(made, run=run)).rule is Rule.PARKED_JOINED
    hold = place(
        made,
        scope=Scope.ACTION,
        value=made.action,
        cause=Cause.REFUSAL,
        end=End.PROBE,
        told=RESULTS["refused"](T0),
        ticket="t",
        snapshot=story.s,
        now=T0,
    )
    story.s = replace(story.s, holds={hold.key: hold})
    decision = story.propose(replace(made, run="child"), timedelta(hours=1))
    assert (decision.rule, decision.answer) == (Rule.WOKE_STOPPED, Answer.STOPPED)
    assert [run for run, _, _ in told_to(decision)] == [None, "guest"]


def test_a_late_result_lets_a_run_go_on_once() -> None:
    """The run is changed once by it, whoever notes that something is ready."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.s = replace(story.s, limits=Limits(max_idle_steps=1))
    story.propose(made)
    story.result(made, RESULTS["unknown"](T0))
    assert story.propose(made).answer is Answer.HALTED
    decision = story.result(made, RESULTS["ok"](T0))
    assert decision.rule is Rule.RETURNED_LATE
    assert [change.halted for change in decision.changes if isinstance(change, Run)] == [None]


def test_a_part_of_the_work_is_completed_work() -> None:
    """A tool that did a part, and says nothing about trying again, has answered."""
    story, made = Story(WRITE), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, Envelope(outcome=Outcome.PARTIAL, executed=Executed.YES))
    assert isinstance(story.s.actions[made.action].phase, Completed)


def test_an_observed_call_runs_in_a_run_that_is_over() -> None:
    """Observation changes nothing, whatever ended the tool use of the run."""
    story = Story(WRITE)
    story.s = replace(story.s, limits=Limits(max_blocked_per_turn=1))
    made = call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["refused"](T0))
    assert story.propose(made).answer is Answer.HALTED
    policy = replace(READ, mode=Mode.OBSERVE)
    story.s = replace(story.s, policy=policy)
    assert story.propose(call(policy, {"desk": "a"})).answer is Answer.EXECUTED


def test_deliveries_alone_do_not_keep_a_run_going() -> None:
    """A model that only reads its record again moves nothing."""
    policy = replace(READ, limits=Limits(replay_completed=9))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.s = replace(story.s, limits=Limits(max_idle_steps=2))
    story.propose(made)
    story.result(made, RESULTS["ok"](T0))
    assert [story.propose(made).answer for _ in range(2)] == [Answer.DELIVERED, Answer.HALTED]


def test_an_operator_who_ends_a_doubt_gives_the_key_its_one_repetition_back() -> None:
    """What was lifted is over: a new attempt that is in doubt may be repeated with its key as the first one was."""
    policy = replace(WRITE, idempotency_key=IdempotencyKey(argument="key"))
    story, made = Story(policy), call(policy, {"desk": "a"})
    story.propose(made)
    rules: list[Rule] = []
    for attempt in (1, 3):
        story.result(made, RESULTS["unknown"](T0), attempt=attempt)
        rules.append(story.feed(made, Woke(call=made), timedelta(seconds=2)).rule)
        story.result(made, RESULTS["unknown"](T0), attempt=attempt + 1)
        [hold] = [hold for hold in story.s.holds.values() if hold.cause is Cause.UNKNOWN]
        story.s = story.s.after(decide_tree(story.s, Lifted(hold=hold.key, run=None, actor="p"), T0))
        story.propose(made)
    assert rules == [Rule.REPEAT_WITH_KEY, Rule.REPEAT_WITH_KEY]


def test_a_hold_is_lifted_although_its_action_is_forgotten() -> None:
    """A store may keep less than what was placed by it."""
    story, made = Story(replace(WRITE, limits=Limits(max_retries=0))), call(WRITE, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["wait"](T0))
    [hold] = [hold for hold in story.s.holds.values() if hold.cause is Cause.EXHAUSTED]
    story.s = replace(story.s, actions={})
    assert decide_tree(story.s, Lifted(hold=hold.key, run=None, actor="p"), T0).rule is Rule.LIFTED


def test_a_budget_is_lifted_although_its_run_is_forgotten() -> None:
    """There is no count to begin anew."""
    policy = replace(READ, limits=Limits(max_calls_per_turn=1))
    story = Story(policy)
    for desk in ("a", "b"):
        story.propose(call(policy, {"desk": desk}))
    [hold] = story.s.holds.values()
    story.s = replace(story.s, runs={})
    lifted = decide_tree(story.s, Lifted(hold=hold.key, run=None, actor="p"), T0)
    assert lifted.rule is Rule.LIFTED
    assert not any(isinstance(change, Run) for change in lifted.changes)
