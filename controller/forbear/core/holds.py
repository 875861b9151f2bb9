"""Holds: which calls a hold covers, which of them stand in the way now, and how one is placed. Phases live elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from forbear.core.decision import Snapshot
from forbear.core.identity import field_digest
from forbear.core.states import Hold, hold_key, place_key
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Cause, Effect, End, Executed, Gate, Mode, Outcome, Recovery, Scope

SHARED = frozenset({Scope.QUOTA, Scope.PRINCIPAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """What stands in the way of one start, strongest first, and what the start takes with it."""

    # Holds that end otherwise than by time (or too far away), in the order in which they are told.
    barring: tuple[Hold, ...]
    # Time holds that are not over, or whose claimed retry is not answered.
    waiting: tuple[Hold, ...]
    # Time holds that this start claims, refusals that it probes.
    claims: tuple[Hold, ...]
    probes: tuple[Hold, ...]


def matches(hold: Hold, call: Call, snapshot: Snapshot) -> bool:
    """Return whether a hold is about this call at all. There is no matching by similarity."""
    if call.tool in hold.exempt or (hold.writes_only and call.effect is Effect.READ):
        return False
    if hold.observed and snapshot.policy.mode is not Mode.OBSERVE:
        return False
    if not _in_scope(hold, call, snapshot):
        return False
    if hold.gated_only and not _gated(hold, call) and not _denied_itself(hold, call):
        return False
    return all(field_digest(call.arguments, name) == refused for name, refused in hold.fields)


def _in_scope(hold: Hold, call: Call, snapshot: Snapshot) -> bool:
    match hold.scope:
        case Scope.ACTION:
            return hold.value in (call.action, call.common)
        case Scope.TARGET:
            # A call without a (scalar) target may be about any target of its operation.
            return hold.value == call.target or (call.target is None and hold.operation == call.operation)
        case Scope.OPERATION:
            # The tool name too: a renamed operation does not escape.
            return hold.value == call.operation or hold.tool == call.tool
        case Scope.RULE:
            # A checker that is down might have named this rule.
            return (
                hold.value == call.verdict.rule
                or _denied_itself(hold, call)
                or (call.verdict.gate is Gate.UNAVAILABLE and hold.operation == call.operation)
            )
        case Scope.QUOTA:
            return hold.value == call.quota
        case Scope.RUN | Scope.TURN:
            return hold.value == call.run
        case Scope.PRINCIPAL:
            return hold.value == snapshot.tree.principal


def _denied_itself(hold: Hold, call: Call) -> bool:
    """Return whether a person said no to exactly this action: a rule that allows it now does not outvote the person."""
    return hold.end is End.PERSON and hold.action == call.action


def _gated(hold: Hold, call: Call) -> bool:
    match call.verdict.gate:
        case Gate.ALLOW:
            return False
        case Gate.DENY | Gate.UNAVAILABLE:
            return True
        case Gate.ASK:
            # What a policy denied does not take the question from what the same rule would ask.
            return hold.end is not End.RUN


def covering(snapshot: Snapshot, call: Call, now: datetime, *, passes: frozenset[str] = frozenset()) -> Cover:
    """Return what covers a start at this moment.

    Args:
        snapshot: The state that the start is decided on.
        call: The call that would start.
        now: The instant of the start.
        passes: Keys of holds that this start answers (a repetition with the same key its own doubt).
    """
    barring: list[Hold] = []
    waiting: list[Hold] = []
    claims: list[Hold] = []
    probes: list[Hold] = []
    for hold in snapshot.holds.values():
        if not matches(hold, call, snapshot):
            continue
        if hold.cause is Cause.TIME:
            _sort_time(hold, call, now, snapshot, waiting, claims, barring)
        elif hold.key in passes:
            continue
        elif _probe_is_due(hold, snapshot, now):
            if hold.claim is None:
                probes.append(hold)
            else:
                barring.append(hold)
        elif not _is_over(hold, snapshot, now):
            barring.append(hold)
    barring.sort(key=lambda hold: (hold.cause, hold.key))
    waiting.sort(key=lambda hold: (hold.ends_at or now, hold.key), reverse=True)
    return Cover(barring=tuple(barring), waiting=tuple(waiting), claims=tuple(claims), probes=tuple(probes))


def _sort_time(
    hold: Hold,
    call: Call,
    now: datetime,
    snapshot: Snapshot,
    waiting: list[Hold],
    claims: list[Hold],
    barring: list[Hold],
) -> None:
    ends_at = hold.ends_at or now
    if hold.claim is not None:
        waiting.append(hold)
    elif now >= ends_at:
        if place_key(hold, snapshot.tree.root, call.action) in hold.parked or not _is_served(
            hold, ends_at, now, snapshot
        ):
            claims.append(hold)
        else:
            waiting.append(hold)
    elif ends_at - now > snapshot.policy.limits.max_wait:
        barring.append(hold)
    else:
        waiting.append(hold)


def without(hold: Hold, root: str, action: str) -> tuple[str, ...]:
    """Return the places of a hold without that of an action of a tree."""
    mine = place_key(hold, root, action)
    return tuple(place for place in hold.parked if place != mine)


def _is_served(hold: Hold, ends_at: datetime, now: datetime, snapshot: Snapshot) -> bool:
    """Say whether the calls that wait for a hold's time come for it.

    Each has a second of its own after the end. Where all of them let theirs go by (nothing runs them, and nobody
    proposes them any more), the hold has no claimant, and who comes later does not wait for them.
    """
    places = timedelta(seconds=len(hold.parked) + 1)
    return bool(hold.parked) and now < ends_at + places + snapshot.policy.limits.default_wait


def _probe_is_due(hold: Hold, snapshot: Snapshot, now: datetime) -> bool:
    if hold.end is not End.PROBE or hold.ends_at is not None:
        return False  # a named end is never probed early
    if snapshot.tree.turn > hold.turn and hold.probed < snapshot.tree.turn:
        return True
    return hold.scope in SHARED and now >= hold.placed_at + snapshot.policy.limits.max_shared_hold


def _is_over(hold: Hold, snapshot: Snapshot, now: datetime) -> bool:
    if hold.end is End.TURN or hold.end is End.REPAIR:
        return snapshot.tree.turn > hold.turn
    return hold.ends_at is not None and now >= hold.ends_at


def place(
    call: Call,
    *,
    scope: Scope,
    value: str,
    cause: Cause,
    end: End,
    told: Envelope,
    ticket: str,
    snapshot: Snapshot,
    now: datetime,
    step: str | None = None,
    mark: str = "",
) -> Hold:
    """Return a new hold on a scope, or the one that stands there with its newest reason.

    Holds with different marks stand beside each other. What an observed tool places never touches an enforced hold.
    """
    key = hold_key(scope, value, cause, mark=f"{mark}~" if snapshot.policy.mode is Mode.OBSERVE else mark)
    fresh = Hold(
        key=key,
        scope=scope,
        value=value,
        cause=cause,
        end=end,
        code=told.code,
        told=told,
        ticket=ticket,
        operation=call.operation,
        tool=call.tool,
        action=call.action,
        run=call.run,
        step=call.step if step is None else step,
        turn=snapshot.tree.turn,
        placed_at=now,
        policy=snapshot.policy.digest,
        observed=snapshot.policy.mode is Mode.OBSERVE,
    )
    standing = snapshot.holds.get(key)
    if standing is None:
        return fresh
    return replace(
        fresh,
        ticket=standing.ticket,
        parked=standing.parked,
        blocked=standing.blocked,
        last_step=standing.last_step,
        probed=standing.probed,
    )


def tell(
    code: str,
    *,
    recovery: Recovery | None = Recovery.DO_NOT_RETRY,
    outcome: Outcome = Outcome.REFUSED,
    executed: Executed = Executed.NO,
    request_id: str = "",
    reset_at: datetime | None = None,
    call: Call | None = None,
) -> Envelope:
    """Return an envelope with one of the controller's own codes; its text comes from the catalogue when it is shown."""
    return Envelope(
        outcome=outcome,
        executed=executed,
        code=code,
        recovery=recovery,
        request_id=request_id,
        reset_at=reset_at,
        operation=None if call is None else call.operation,
    )


def not_kept(told: Envelope, ends_at: datetime | None) -> Envelope:
    """Return what is told about a call under a time hold that the controller does not keep: it may be made later."""
    return replace(told, code="LIMIT_NOT_OVER", safe_message=None, reset_at=ends_at)


def narrow(call: Call, scope: Scope, tree_principal: str) -> tuple[Scope, str]:
    """Return a scope and its value for a call; a target that this call does not have becomes the action."""
    match scope:
        case Scope.ACTION:
            return scope, call.common
        case Scope.TARGET:
            return (scope, call.target) if call.target is not None else (Scope.ACTION, call.common)
        case Scope.OPERATION:
            return scope, call.operation
        case Scope.RULE:
            return (scope, call.verdict.rule) if call.verdict.rule else (Scope.ACTION, call.common)
        case Scope.QUOTA:
            return (scope, call.quota) if call.quota is not None else (Scope.ACTION, call.common)
        case Scope.RUN | Scope.TURN:
            return scope, call.run
        case Scope.PRINCIPAL:
            return scope, tree_principal
