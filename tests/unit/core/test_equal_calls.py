"""Equal calls of several runs that need a yes each: who is asked, what each is told, and what nobody does twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decide import decide
from forbear.core.decision import Announce, AskHuman, Decision, Deliver
from forbear.core.events import Edited, Granted, Proposed, Woke
from forbear.core.phases.apart import apart
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Parked,
    Phase,
    Running,
    Unknown,
    action_of,
)
from forbear.core.values import Call, Grant
from forbear.core.vocabulary import Answer
from tests.model.calls import ALLOW, ALWAYS, ASK, RESULTS, T0, call
from tests.unit.core.test_decide import GATED, Story, asked
from tests.unit.core.test_people import two_yeses, yes


def done_by_root() -> tuple[Story, Call, Action]:
    """Return a story in which two runs have a yes each, and the root's call is done."""
    story, made, own = two_yeses(GATED)
    story.result(made, replace(RESULTS["ok"](T0), request_id="act_ok"))
    return story, made, own


def test_a_yes_for_what_was_done_meanwhile_is_spent_and_answered_from_the_record() -> None:
    """The run that was asked first proposes it again, and is given the result of the other run's execution."""
    story, made, ticket = asked(GATED, "child")
    story.feed(made, Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=True))
    key = next(action.key for action in story.s.actions.values() if action.call.base)
    own = story.s.actions[key]
    assert isinstance(own.phase, AwaitingApproval)
    story.feed(own.call, yes(own.phase.ticket, own.call))
    story.feed(own.call, Woke(call=own.call))
    story.result(own.call, replace(RESULTS["ok"](T0), request_id="act_ok"))
    done = story.s.actions[key].phase
    assert isinstance(done, Completed)
    before = story.s.actions[made.action]
    decision = story.propose(made)
    assert decision == Decision(
        rule=Rule.COMPLETED_SHARED,
        changes=(replace(before, phase=Fresh()), story.s.runs["root"]),
        commands=(Deliver(action=key, attempt=1),),
        answer=Answer.DELIVERED,
        told=done.told,
        suppressed=True,
        idle_step=True,
    )


def test_a_yes_that_the_controller_would_start_is_spent_and_its_run_is_told_the_result() -> None:
    """Nobody proposes it again: the result is announced as that of the call that both made."""
    story, made, own = done_by_root()
    decision = decide(story.s, own.key, Woke(call=own.call), T0)
    standing = story.s.actions[made.action].phase
    assert isinstance(standing, Completed)
    assert standing.told is not None
    told = Announce(action=made.action, told=standing.told, call=replace(own.call, action=made.action, base=""))
    assert decision == Decision(rule=Rule.COMPLETED_SHARED, changes=(replace(own, phase=Fresh()),), commands=(told,))


def test_a_yes_expires_whatever_another_run_is_doing() -> None:
    """At its end it is over, and not a duplicate of what is in flight."""
    story, _, own = two_yeses(GATED)
    assert isinstance(own.phase, Approved)
    late = own.phase.grant.expires_at
    assert decide(story.s, own.key, Woke(call=own.call), late).rule is Rule.GRANT_EXPIRED
    early = decide(story.s, own.key, Woke(call=own.call), late - timedelta(microseconds=1))
    assert early.rule is Rule.GRANT_WOKE_EARLY


GRANT = Grant(ticket="t", rule="always", expires_at=T0 + timedelta(minutes=5))
STANDING: list[Phase] = [
    Running(open=()),
    Unknown(attempt=1, ticket="t", started_at=T0, told=RESULTS["unknown"](T0), hold="h"),
    AwaitingApproval(
        ticket="t", rule="always", fingerprint="f", run="child", asked_at=T0, expires_at=T0, told=RESULTS["asks"](T0)
    ),
    Approved(grant=GRANT, fingerprint="f", run_at=None),
    Parked(ticket="t", run_at=T0, since_at=T0, turn=1, told=RESULTS["wait"](T0), grant=GRANT),
]


@pytest.mark.parametrize("phase", STANDING, ids=lambda phase: type(phase).__name__)
def test_a_call_that_is_under_way_on_its_own_is_not_asked_about_again(phase: Phase) -> None:
    """A framework may play an old call again: its question, its yes or its attempt stands."""
    story, made, ticket = asked(GATED, "child")
    [joined] = story.s.actions[made.action].joined
    own = apart(joined)
    standing = Action(key=own.action, call=own, phase=phase)
    story.s = replace(story.s, actions={**story.s.actions, own.action: standing})
    decision = story.feed(made, yes(ticket, made))
    assert not any(isinstance(command, AskHuman) for command in decision.commands)
    assert story.s.actions[own.action] == standing


def test_each_run_is_asked_about_its_own_words() -> None:
    """A memo may differ: what the person sees, what the yes names and what runs are the same call."""
    policy = replace(GATED, ignore=("memo",))
    story = Story(policy)
    made = replace(call(policy, {"desk": "a", "memo": 1}), verdict=ALWAYS)
    child = replace(call(policy, {"desk": "a", "memo": 2}), verdict=ALWAYS, run="child")
    ticket = story.propose(made).ticket
    assert ticket is not None
    story.propose(child)
    [joined] = story.s.actions[made.action].joined
    own = apart(joined)
    # An older question about the same proposal is over.
    older = replace(own, arguments="{}", fingerprint="older")
    story.s = replace(story.s, actions={**story.s.actions, own.action: Action(key=own.action, call=older)})
    other = replace(call(policy, {"desk": "z"}), verdict=ALWAYS)
    elsewhere = story.propose(other).ticket
    decision = story.feed(made, yes(ticket, made))
    standing = story.s.actions[own.action]
    assert isinstance(standing.phase, AwaitingApproval)
    assert standing.phase.fingerprint == standing.call.fingerprint == child.fingerprint
    [question] = [command for command in decision.commands if isinstance(command, AskHuman)]
    assert story.s.tree.open_prompts == (elsewhere, question.ticket)


@pytest.mark.parametrize(("policy", "phase"), [(GATED, Completed), (replace(GATED, repeatable=True), Approved)])
def test_an_edit_into_a_call_that_is_done_runs_only_what_may_run_twice(policy: ToolPolicy, phase: type) -> None:
    """Where the author said that the same call twice does no harm, the person's words run."""
    story = Story(policy)
    done = call(policy, {"desk": "a", "size": 2})
    story.propose(done)
    story.result(done, RESULTS["ok"](T0))
    made = replace(call(policy, {"desk": "a", "size": 1}), verdict=ALWAYS)
    ticket = story.propose(made).ticket
    assert ticket is not None
    edit = Edited(ticket=ticket, fingerprint=made.fingerprint, actor="p", call=done, reproposes=False, new_ticket="n")
    story.feed(made, edit)
    assert isinstance(story.s.actions[done.action].phase, phase)


def test_an_execution_that_nobody_granted_is_joined_although_another_one_was_granted() -> None:
    """Only where every open execution is on the yes of another run is a call asked about on its own."""
    policy = replace(GATED, repeatable=True)
    story, made, ticket = asked(policy)
    story.feed(made, yes(ticket, made))
    story.feed(made, Woke(call=made))
    story.propose(replace(made, verdict=ALLOW))
    assert story.propose(replace(made, run="child")).rule is Rule.RUNNING_DUPLICATE


def test_a_yes_to_a_tools_question_is_not_spent_by_another_run() -> None:
    """No rule asks here, the tool did: the other run's equal call is told so."""
    story, made = Story(GATED), call(GATED, {"desk": "a"})
    story.propose(made)
    story.result(made, RESULTS["asks"](T0))
    phase = story.s.actions[made.action].phase
    assert isinstance(phase, AwaitingApproval)
    granted = Granted(ticket=phase.ticket, fingerprint=made.fingerprint, actor="p", reproposes=True)
    story.feed(made, granted)
    assert story.propose(replace(made, run="child")).rule is Rule.APPROVAL_OTHER_CALL
    assert story.propose(made).rule is Rule.EXECUTED_ON_GRANT


def test_an_expired_question_under_a_hold_is_told_to_all_who_waited() -> None:
    """The run that asks again is told of the hold; the others hear that nobody answered."""
    story, made, _ = asked(GATED, "child")
    other = call(GATED, {"desk": "a", "size": 9})
    story.propose(other)
    story.result(other, RESULTS["unknown"](T0))
    decision = story.propose(replace(made, run="child"), after=Limits().approval_ttl)
    assert decision.rule is Rule.HELD_UNKNOWN
    assert [(one.told.code, one.call.run) for one in decision.commands if isinstance(one, Announce) and one.call] == [
        ("APPROVAL_EXPIRED", "root")
    ]


def test_an_edit_into_another_tool_is_asked_by_the_rule_that_asks_about_it() -> None:
    """And a call that waited in a queue leaves it, since a person decides now."""
    story = Story(GATED)
    read = replace(GATED, name="look", operation="look", quota="q")
    first, kept = (call(read, {"desk": desk}, quota="q") for desk in ("x", "y"))
    story.propose(first)
    story.result(first, RESULTS["wait"](T0))
    story.propose(kept)
    assert isinstance(story.s.actions[kept.action].phase, Parked)
    made = replace(call(GATED, {"desk": "a"}), verdict=ALWAYS)
    ticket = story.propose(made).ticket
    assert ticket is not None
    edit = Edited(
        ticket=ticket,
        fingerprint=made.fingerprint,
        actor="p",
        call=replace(kept, verdict=ASK),
        reproposes=False,
        new_ticket="n",
    )
    assert story.feed(made, edit).rule is Rule.EDITED_ASKS
    phase = story.s.actions[kept.action].phase
    assert isinstance(phase, AwaitingApproval)
    assert phase.rule == ASK.rule
    places = [place for hold in story.s.holds.values() for place in hold.parked]
    assert [action_of(place) for place in places] == [first.action]


def test_a_framework_that_asks_by_itself_runs_exactly_the_call_that_it_asked_about() -> None:
    """Other words are another question; the yes is bound to the policy that it was given under."""
    policy = replace(GATED, ignore=("memo",), digest="d1")
    story = Story(policy)
    made, other = (call(policy, {"desk": "a", "memo": memo}) for memo in (1, 2))
    story.propose(made)
    phase = AwaitingApproval(
        ticket="t",
        rule="framework",
        fingerprint=made.fingerprint,
        run="root",
        asked_at=T0,
        expires_at=T0 + timedelta(hours=1),
        told=RESULTS["asks"](T0),
        by_framework=True,
    )
    asking = replace(story.s.actions[made.action], phase=phase)
    story.s = replace(story.s, actions={made.action: asking})
    event = Proposed(call=replace(other, verdict=ALWAYS, step="s8", call_id="c8"))
    assert decide(story.s, made.action, event, T0).rule is Rule.APPROVAL_JOINED
    assert story.propose(replace(made, verdict=ALWAYS)).rule is Rule.EXECUTED_ON_GRANT


def test_a_yes_is_good_under_the_policy_that_it_was_given_under() -> None:
    """And under no other one: the call is asked about again."""
    for now_under, rule in (("d1", Rule.EXECUTED_ON_GRANT), ("d2", Rule.APPROVAL_ASKED)):
        story, made, ticket = asked(replace(GATED, digest="d1"))
        story.feed(made, yes(ticket, made))
        story.s = replace(story.s, policy=replace(GATED, digest=now_under))
        assert story.propose(made).rule is rule


def test_a_run_whose_yes_expired_hears_what_becomes_of_the_question_that_is_asked_anew() -> None:
    """Another run asks: the one that was asked first is told that its yes is over, and waits with the other one."""
    story, made, ticket = asked(GATED)
    story.feed(made, Granted(ticket=ticket, fingerprint=made.fingerprint, actor="p", reproposes=True))
    child = replace(made, run="child", verdict=ALWAYS, step="s9", call_id="c9")
    decision = story.feed(
        replace(child, verdict=ALLOW), Proposed(call=replace(child, verdict=ALLOW)), Limits().grant_ttl
    )
    assert decision.answer is Answer.EXECUTED
    assert [joined.run for joined in story.s.actions[made.action].joined] == ["root"]


def test_who_joined_a_question_hears_of_the_words_that_a_person_ran_instead() -> None:
    """The person changed what does not change the meaning: it is the same call, and the other run waits for it."""
    policy = replace(GATED, ignore=("memo",))
    story = Story(policy)
    made, other = (replace(call(policy, {"desk": "a", "memo": memo}), verdict=ALWAYS) for memo in (1, 2))
    ticket = story.propose(made).ticket
    assert ticket is not None
    story.propose(replace(made, run="child"))
    words = replace(other, step="s1", call_id="c1")
    edit = Edited(ticket=ticket, fingerprint=made.fingerprint, actor="p", call=words, reproposes=False, new_ticket="n")
    assert story.feed(made, edit).rule is Rule.EDITED
    assert story.feed(made, Woke(call=words)).rule is Rule.EXECUTED_ON_GRANT
    decision = story.result(made, RESULTS["ok"](T0))
    told = [command.call.run for command in decision.commands if isinstance(command, Announce) and command.call]
    assert told == ["child"]
