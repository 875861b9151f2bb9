"""Waiting and Parked: the controller starts the call later. The model is told the same ticket; nothing starts early."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.bar import leave_queues
from forbear.core.decision import Announce, Decision, Snapshot, WakeAt
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
    Revised,
    Woke,
)
from forbear.core.holds import covering, place, tell
from forbear.core.phases.stale import stale
from forbear.core.rules import Rule
from forbear.core.start import By, Start, joined_by
from forbear.core.states import Action, Fresh, Parked, Stopped, Waiting
from forbear.core.vocabulary import Answer, Cause, Effect, End, Executed, Outcome, Scope


def on_waiting(s: Snapshot, action: Action, state: Waiting, event: Event, now: datetime, start: Start) -> Decision:
    """Hold a call that was refused until its reset; run it again once."""
    match event:
        case Proposed():
            if now >= state.retry_at and _may_claim(action, state, start):
                return admit(s, action, _as_retry(start, state), now)
            return _joined(s, action, state, state.retry_at, start, now, Rule.WAITING_JOINED)
        case Woke():
            if now < state.retry_at:
                return Decision(rule=Rule.WAITING_WOKE_EARLY, commands=(WakeAt(action=action.key, at=state.retry_at),))
            if _is_unattended(s, action, state, now):
                return _offer_again(s, action, start, now)
            return admit(s, action, _as_retry(start, state), now)
        case Cancelled():
            return cancel(s, action, event, now)
        case Reconnected():
            if not state.not_accepted or state.retry_at <= now:
                return stale(event)
            due = replace(action, phase=replace(state, retry_at=now))
            own = None if state.hold is None else s.holds.get(state.hold)
            ended = (replace(own, ends_at=now),) if own is not None and own.scope is Scope.ACTION else ()
            return Decision(rule=Rule.RECONNECTED, changes=(due, *ended), commands=(WakeAt(action=action.key, at=now),))
        case Returned() | Interrupted() | Lost() | Granted() | Denied() | Revised() | Edited() | Inspected():
            return stale(event)


def on_parked(s: Snapshot, action: Action, state: Parked, event: Event, now: datetime, start: Start) -> Decision:
    """Start a parked call once its time has come, after deciding about it again."""
    match event:
        case Proposed():
            if now >= state.run_at and _may_claim(action, state, start):
                return admit(s, action, replace(start, by=By.CONTROLLER, grant=state.grant), now)
            return _joined(s, action, state, state.run_at, start, now, Rule.PARKED_JOINED)
        case Woke():
            if now < state.run_at:
                return Decision(rule=Rule.PARKED_WOKE_EARLY, commands=(WakeAt(action=action.key, at=state.run_at),))
            if _is_unattended(s, action, state, now):
                return _offer_again(s, action, start, now)
            return admit(s, action, replace(start, grant=state.grant), now)
        case Cancelled():
            return cancel(s, action, event, now)
        case (
            Returned()
            | Interrupted()
            | Lost()
            | Granted()
            | Denied()
            | Revised()
            | Edited()
            | Inspected()
            | Reconnected()
        ):
            return stale(event)


def _may_claim(action: Action, state: Waiting | Parked, start: Start) -> bool:
    """A yes belongs to the call and the run that it was given to: the controller starts that call by itself."""
    mine, theirs = action.call, start.call
    return state.grant is None or (mine.fingerprint, mine.run) == (theirs.fingerprint, theirs.run)


def _as_retry(start: Start, state: Waiting) -> Start:
    return replace(start, by=By.RETRY, grant=state.grant)


def _joined(
    s: Snapshot,
    action: Action,
    state: Waiting | Parked,
    at: datetime,
    start: Start,
    now: datetime,
    rule: Rule,
) -> Decision:
    """Answer an equal call with the wait that stands, unless something stronger came to cover it."""
    cover = covering(s, start.call, now)
    if any(hold.cause is not Cause.TIME for hold in cover.barring):
        return admit(s, action, start, now)
    told = replace(state.told, outcome=Outcome.PENDING, executed=Executed.NO)
    return Decision(
        rule=rule,
        changes=joined_by(action, start.call),
        answer=Answer.PENDING,
        told=told,
        ticket=state.ticket,
        retry_at=at,
        suppressed=True,
        idle_step=True,
    )


def _is_unattended(s: Snapshot, action: Action, state: Waiting | Parked, now: datetime) -> bool:
    """A write that waited long runs by itself only while the human has not spoken since."""
    if action.call.effect is Effect.READ:
        return False
    return s.tree.turn > state.turn and now - state.since_at > s.policy.limits.max_unattended


def _offer_again(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    told = tell(
        "OFFERED_AGAIN", recovery=None, outcome=Outcome.CANCELLED, request_id=start.request_id, call=action.call
    )
    return Decision(
        rule=Rule.UNATTENDED,
        changes=(replace(action, phase=Fresh()), *leave_queues(s, action)),
        commands=(Announce(action=action.key, told=told),),
        told=told,
    )


def cancel(s: Snapshot, action: Action, event: Cancelled, now: datetime) -> Decision:
    """Stop a call that has not started until a new turn."""
    told = tell("CANCELLED", outcome=Outcome.CANCELLED, request_id=event.request_id, call=action.call)
    hold = place(
        action.call,
        scope=Scope.ACTION,
        value=action.key,
        cause=Cause.EXHAUSTED,
        end=End.TURN,
        told=told,
        ticket=event.ticket,
        snapshot=s,
        now=now,
    )
    stopped = Stopped(code=told.code, told=told, turn=s.tree.turn, hold=hold.key)
    return Decision(
        rule=Rule.CANCELLED_STOPPED,
        changes=(replace(action, phase=stopped), hold, *leave_queues(s, action)),
        commands=(Announce(action=action.key, told=told),),
        told=told,
    )
