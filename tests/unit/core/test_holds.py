"""What a hold covers, and which scope a call has."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.decision import Snapshot
from forbear.core.holds import covering, matches, narrow, not_kept, place, tell
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.states import Hold, Tree, action_of, hold_key, place_key
from forbear.core.values import Call, RuleVerdict
from forbear.core.vocabulary import Cause, Effect, End, Gate, Mode, Scope
from tests.model.calls import ALLOW, ASK, DENY, DOWN, T0, call
from tests.model.cases import ALIAS, WRITE

A = call(WRITE, {"desk": "a", "size": 1})
READ = replace(A, effect=Effect.READ)
NOWHERE = replace(A, target=None)


def snapshot(*holds: Hold, policy: ToolPolicy = WRITE) -> Snapshot:
    """Return a snapshot with these holds."""
    tree = Tree(root="root", principal="account")
    return Snapshot(tree=tree, runs={}, actions={}, holds={hold.key: hold for hold in holds}, known={}, policy=policy)


def hold(scope: Scope, value: str, cause: Cause = Cause.REFUSAL, end: End = End.TURN, **more: object) -> Hold:
    """Return a hold that call A's refusal placed."""
    made = place(
        A,
        scope=scope,
        value=value,
        cause=cause,
        end=end,
        told=tell("DESK_FROZEN"),
        ticket="ticket",
        snapshot=snapshot(),
        now=T0,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of Hold


@pytest.mark.parametrize(
    ("scope", "value", "other"),
    [
        (Scope.ACTION, A.action, replace(A, action="another")),
        (Scope.TARGET, A.target or "", call(WRITE, {"desk": "c", "size": 1})),
        (Scope.OPERATION, "trade", replace(A, operation="other", tool="other")),
        (Scope.QUOTA, "q", replace(A, quota="other")),
        (Scope.RUN, "root", replace(A, run="child")),
        (Scope.TURN, "root", replace(A, run="child")),
        (Scope.RULE, "amount", replace(A, verdict=RuleVerdict(gate=Gate.ASK, rule="other"))),
    ],
)
def test_a_hold_covers_its_scope_and_nothing_else(scope: Scope, value: str, other: Call) -> None:
    """Different work is never lost to a hold that is not about it."""
    covered = replace(A, quota="q", verdict=ASK)
    assert matches(hold(scope, value), covered, snapshot())
    assert not matches(hold(scope, value), other, snapshot())


def test_a_principal_hold_covers_every_call_of_the_principal() -> None:
    """And none of another principal."""
    assert matches(hold(Scope.PRINCIPAL, "account"), A, snapshot())
    assert not matches(hold(Scope.PRINCIPAL, "other"), A, snapshot())


def test_a_call_without_a_target_is_covered_by_every_target_of_its_operation() -> None:
    """It may be about any of them; another operation's targets are not its business."""
    target = hold(Scope.TARGET, A.target or "")
    assert matches(target, NOWHERE, snapshot())
    assert not matches(target, replace(NOWHERE, operation="other"), snapshot())


def test_a_renamed_operation_does_not_escape() -> None:
    """An operation hold also covers the tool that it came from."""
    assert matches(hold(Scope.OPERATION, "trade"), replace(A, operation="new"), snapshot())
    assert matches(hold(Scope.OPERATION, "trade"), call(ALIAS, {"desk": "b"}), snapshot())


def test_a_checker_that_is_down_might_have_named_the_rule() -> None:
    """A rule hold covers what that operation's rule could not judge, and no other operation's."""
    rule = hold(Scope.RULE, "amount", Cause.DENIAL)
    assert matches(rule, replace(A, verdict=DOWN), snapshot())
    assert not matches(rule, replace(A, verdict=DOWN, operation="other"), snapshot())


def test_declared_alternatives_are_exempt() -> None:
    """The tool that the refusal offers may run."""
    assert not matches(hold(Scope.TARGET, A.target or "", exempt=("alias",)), call(ALIAS, {"desk": "a"}), snapshot())


def test_an_unknown_write_lets_reads_pass() -> None:
    """Looking does no harm; undeclared calls may write."""
    doubt = hold(Scope.TARGET, A.target or "", writes_only=True)
    assert not matches(doubt, READ, snapshot())
    assert matches(doubt, replace(A, effect=Effect.UNDECLARED), snapshot())


def test_an_observed_hold_covers_observed_tools_only() -> None:
    """Observation changes nothing for tools that are enforced."""
    seen = hold(Scope.TARGET, A.target or "", observed=True)
    assert not matches(seen, A, snapshot())
    assert matches(seen, A, snapshot(policy=replace(WRITE, mode=Mode.OBSERVE)))


@pytest.mark.parametrize(
    ("verdict", "by_policy", "by_person"), [(ALLOW, False, False), (ASK, False, True), (DENY, True, True)]
)
def test_a_denied_rule_covers_what_it_would_judge(verdict: RuleVerdict, by_policy: bool, by_person: bool) -> None:
    """A policy's denial leaves what the same rule would ask (decision 2); a person's no does not."""
    made = replace(A, action="another", verdict=verdict)
    policy = hold(Scope.RULE, "amount", Cause.DENIAL, End.RUN, gated_only=True)
    person = hold(Scope.RULE, "amount", Cause.DENIAL, End.PERSON, gated_only=True)
    named = replace(made, verdict=replace(verdict, rule="amount"))
    assert matches(policy, named, snapshot()) is by_policy
    assert matches(person, named, snapshot()) is by_person


def test_what_a_person_denied_itself_stays_denied() -> None:
    """A rule that allows the very call later does not outvote the person."""
    person = hold(Scope.RULE, "amount", Cause.DENIAL, End.PERSON, gated_only=True)
    assert matches(person, replace(A, verdict=ALLOW), snapshot())


@pytest.mark.parametrize(
    ("scope", "value"),
    [
        (Scope.ACTION, A.action),
        (Scope.TARGET, A.target),
        (Scope.OPERATION, "trade"),
        (Scope.RULE, "amount"),
        (Scope.QUOTA, "q"),
        (Scope.RUN, "root"),
        (Scope.TURN, "root"),
        (Scope.PRINCIPAL, "account"),
    ],
)
def test_a_scope_takes_its_value_from_the_call(scope: Scope, value: str) -> None:
    """What a call has decides what its holds are about."""
    assert narrow(replace(A, quota="q", verdict=ASK), scope, "account") == (scope, value)


@pytest.mark.parametrize("scope", [Scope.TARGET, Scope.RULE, Scope.QUOTA])
def test_a_scope_that_a_call_does_not_have_becomes_the_action(scope: Scope) -> None:
    """A refusal never reaches further than the call can say."""
    assert narrow(NOWHERE, scope, "account") == (Scope.ACTION, A.action)


def test_the_strongest_reason_comes_first() -> None:
    """Denial before unknown before refusal: what is told is what ends last."""
    causes = [Cause.REPAIR, Cause.REFUSAL, Cause.DENIAL, Cause.UNKNOWN, Cause.BUDGET, Cause.EXHAUSTED]
    made = [hold(Scope.ACTION, A.action, cause) for cause in causes]
    assert [found.cause for found in covering(snapshot(*made), A, T0).barring] == sorted(causes)


def test_the_latest_time_comes_first() -> None:
    """A call waits for all of its times."""
    early = hold(Scope.ACTION, A.action, Cause.TIME, End.TIME, ends_at=T0 + timedelta(seconds=1))
    late = hold(Scope.TARGET, A.target or "", Cause.TIME, End.TIME, ends_at=T0 + timedelta(seconds=9))
    assert covering(snapshot(early, late), A, T0).waiting == (late, early)
    early, late = replace(early, ends_at=late.ends_at), replace(late, ends_at=early.ends_at)
    assert covering(snapshot(early, late), A, T0).waiting == (early, late)


def test_a_time_beyond_the_longest_wait_bars() -> None:
    """At the bound the controller still waits."""
    policy = replace(WRITE, limits=Limits(max_wait=timedelta(hours=1)))
    far = hold(Scope.ACTION, A.action, Cause.TIME, End.TIME, ends_at=T0 + timedelta(hours=1))
    assert covering(snapshot(far, policy=policy), A, T0).waiting == (far,)
    further = replace(far, ends_at=T0 + timedelta(hours=1, microseconds=1))
    assert covering(snapshot(further, policy=policy), A, T0).barring == (further,)


def test_a_time_is_over_at_its_end() -> None:
    """One microsecond before it, the call waits; at it, the start claims the hold."""
    timed = hold(Scope.ACTION, A.action, Cause.TIME, End.TIME, ends_at=T0)
    before = covering(snapshot(timed), A, T0 - timedelta(microseconds=1))
    assert (before.waiting, before.claims) == ((timed,), ())
    at = covering(snapshot(timed), A, T0)
    assert (at.waiting, at.claims) == ((), (timed,))


def test_who_waits_goes_first_and_not_for_ever() -> None:
    """A queue that nobody serves any more keeps nobody out."""
    queued = hold(Scope.TARGET, A.target or "", Cause.TIME, End.TIME, ends_at=T0, parked=("other",))
    assert covering(snapshot(queued), A, T0).waiting == (queued,)
    assert covering(snapshot(queued), replace(A, action="other"), T0).claims == (queued,)
    edge = T0 + timedelta(seconds=2) + Limits().default_wait
    assert covering(snapshot(queued), A, edge - timedelta(microseconds=1)).waiting == (queued,)
    assert covering(snapshot(queued), A, edge).claims == (queued,)


def test_a_shared_refusal_without_an_end_is_probed_after_its_longest_time() -> None:
    """Other runs of a principal do not wait for a turn that they do not have; one with a named end is never probed."""
    shared = hold(Scope.PRINCIPAL, "account", Cause.REFUSAL, End.PROBE, probed=1)
    long = Limits().max_shared_hold
    assert covering(snapshot(shared), A, T0 + long).probes == (shared,)
    assert covering(snapshot(shared), A, T0 + long - timedelta(microseconds=1)).barring == (shared,)
    named = replace(shared, ends_at=T0 + 3 * long)
    assert covering(snapshot(named), A, T0 + long).barring == (named,)
    own = hold(Scope.TARGET, A.target or "", Cause.REFUSAL, End.PROBE, probed=1)
    assert covering(snapshot(own), A, T0 + long).barring == (own,)


def test_marks_keep_holds_of_one_cause_apart() -> None:
    """One code's end says nothing about another's."""
    assert hold_key(Scope.ACTION, "x", Cause.REFUSAL) == "action:x:3"
    assert hold_key(Scope.ACTION, "x", Cause.REFUSAL, mark="CODE") == "action:x:3:CODE"


def test_placing_again_keeps_what_was_told() -> None:
    """The same reason on the same scope is one hold with one ticket, and its count goes on."""
    first = hold(Scope.ACTION, A.action, blocked=2, last_step="s", probed=1, parked=("k",), exempt=("alias",))
    again = place(
        A,
        scope=Scope.ACTION,
        value=A.action,
        cause=Cause.REFUSAL,
        end=End.TURN,
        told=tell("NEW"),
        ticket="other",
        snapshot=snapshot(first),
        now=T0,
        step="here",
    )
    assert (again.ticket, again.blocked, again.last_step, again.probed, again.parked) == ("ticket", 2, "s", 1, ("k",))
    assert (again.code, again.step, again.exempt) == ("NEW", "here", ())


def test_a_call_that_stands_apart_is_covered_by_holds_on_itself_and_on_its_equals() -> None:
    """It has a key of its own, and is still the same call."""
    own = replace(A, action="own", base=A.action)
    assert matches(hold(Scope.ACTION, "own"), own, snapshot())
    assert matches(hold(Scope.ACTION, A.action), own, snapshot())
    assert not matches(hold(Scope.ACTION, "own"), A, snapshot())


def test_holds_of_one_end_are_told_in_one_order() -> None:
    """Whatever order a store returns them in."""
    holds = [hold(scope, value, Cause.TIME, End.TIME, ends_at=T0 + timedelta(seconds=9)) for scope, value in
             ((Scope.TARGET, A.target or ""), (Scope.OPERATION, "trade"), (Scope.RUN, "root"))]  # fmt: skip
    for order in (holds, holds[::-1]):
        assert [one.scope for one in covering(snapshot(*order), A, T0).waiting] == [
            Scope.TARGET,
            Scope.RUN,
            Scope.OPERATION,
        ]


def test_a_probe_is_of_a_later_turn_than_the_refusal() -> None:
    """However often it was given back."""
    given_back = hold(Scope.TARGET, A.target or "", Cause.REFUSAL, End.PROBE, probed=0)
    assert covering(snapshot(given_back), A, T0).barring == (given_back,)
    older = replace(given_back, turn=0)
    assert covering(snapshot(older), A, T0).probes == (older,)


@pytest.mark.parametrize("end", [End.TURN, End.REPAIR])
def test_what_ends_with_a_turn_is_over_in_the_next(end: End) -> None:
    """A hold that a store still has does not outlive its turn."""
    standing = hold(Scope.ACTION, A.action, Cause.REPAIR, end)
    assert covering(snapshot(standing), A, T0).barring == (standing,)
    assert covering(snapshot(replace(standing, turn=0)), A, T0).barring == ()


def test_a_stop_that_names_a_time_ends_with_its_turn() -> None:
    """The time is what the model is told; nothing starts at it by itself."""
    stopped = hold(Scope.ACTION, A.action, Cause.EXHAUSTED, End.TURN, ends_at=T0)
    assert covering(snapshot(stopped), A, T0 + timedelta(days=1)).barring == (stopped,)


def test_a_hold_says_under_which_policy_it_was_placed() -> None:
    """An operator sees that the policy has changed since."""
    policy = replace(WRITE, digest="d1")
    made = place(
        A,
        scope=Scope.ACTION,
        value=A.action,
        cause=Cause.REFUSAL,
        end=End.TURN,
        told=tell("X"),
        ticket="t",
        snapshot=snapshot(policy=policy),
        now=T0,
    )
    assert made.policy == "d1"


def test_what_is_not_kept_is_told_without_the_text_of_the_wait() -> None:
    """The text promised a retry by the controller."""
    told = not_kept(replace(tell("RATE_LIMITED"), safe_message="It is tried again for you."), T0)
    assert (told.code, told.safe_message, told.reset_at) == ("LIMIT_NOT_OVER", None, T0)


@pytest.mark.parametrize("scope", list(Scope))
def test_equal_calls_of_two_trees_have_two_places_in_what_they_share(scope: Scope) -> None:
    """A quota and a principal are shared by trees; whatever else is held belongs to one."""
    one, other = (place_key(hold(scope, "x"), root, A.action) for root in ("root", "other"))
    assert (one != other) is (scope in (Scope.QUOTA, Scope.PRINCIPAL))
    assert action_of(one) == action_of(other) == A.action
