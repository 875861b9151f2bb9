"""Unknown: a write may have happened. Only a verdict, a person, or the late result of that attempt ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.decision import Announce, Decision, Inspect, PutKnown, Snapshot, WakeAt
from forbear.core.draft import end_doubt, succeeded
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
from forbear.core.holds import tell
from forbear.core.phases.stale import stale
from forbear.core.rules import Rule
from forbear.core.settle import settle
from forbear.core.start import Start
from forbear.core.states import Action, Completed, Fresh, Known, Started, Unknown, known_key, step_key
from forbear.core.vocabulary import Answer, Executed, Outcome, Verdict


def on_unknown(s: Snapshot, action: Action, state: Unknown, event: Event, now: datetime, start: Start) -> Decision:
    """Repeat nothing; look, and take the truth from wherever it comes."""
    match event:
        case Proposed():
            return admit(s, action, start, now)
        case Returned():
            return _late(s, action, state, event, now) if event.attempt == state.attempt else stale(event)
        case Woke():
            return _woke(s, action, state, start, now)
        case Inspected():
            return _inspected(s, action, state, event, now)
        case Interrupted() | Lost() | Cancelled() | Granted() | Denied() | Revised() | Edited() | Reconnected():
            return stale(event)


def _late(s: Snapshot, action: Action, state: Unknown, event: Returned, now: datetime) -> Decision:
    """The answer of the attempt arrived after all: it is the truth."""
    started = Started(
        attempt=state.attempt,
        run=action.call.run,
        step=action.call.step,
        call_id=action.call.call_id,
        started_at=state.started_at,
        owner=s.owner,
    )
    ended = end_doubt(s, action, state.hold)
    gone = {change.key for change in ended}
    holds = {key: hold for key, hold in s.holds.items() if key not in gone}
    decision = settle(replace(s, holds=holds), action, started, event, now)
    commands = (*decision.commands, Announce(action=action.key, told=decision.told or event.envelope))
    return replace(decision, rule=Rule.RETURNED_LATE, changes=(*ended, *decision.changes), commands=commands)


def _woke(s: Snapshot, action: Action, state: Unknown, start: Start, now: datetime) -> Decision:
    if state.inspect_at is None:
        return Decision(rule=Rule.WOKE_NOTHING)
    if now < state.inspect_at:
        return Decision(rule=Rule.INSPECT_LATER, commands=(WakeAt(action=action.key, at=state.inspect_at),))
    key = s.policy.idempotency_key
    if key is not None and action.key_spent == 0 and now - state.started_at < key.valid_for:
        spent = replace(action, key_spent=action.attempts)
        repeat = replace(start, passes=frozenset({state.hold}))
        decision = admit(s, spent, repeat, now)
        if decision.answer is Answer.EXECUTED:
            return replace(decision, rule=Rule.REPEAT_WITH_KEY)
    if s.policy.inspect is None:
        return _give_up(s, action, state)
    # The next look is scheduled before this one is made: a crash in between loses nothing.
    looks = state.inspections + 1
    later = now + s.policy.limits.settle * (2**state.inspections)
    next_at = later if looks < s.policy.limits.inspect_attempts else None
    looked = replace(action, phase=replace(state, inspections=looks, inspect_at=next_at))
    commands = (Inspect(action=action.key),)
    if next_at is None:
        return Decision(rule=Rule.INSPECT_NOW, changes=(looked,), commands=commands)
    return Decision(
        rule=Rule.INSPECT_NOW, changes=(looked,), commands=(*commands, WakeAt(action=action.key, at=next_at))
    )


def _give_up(s: Snapshot, action: Action, state: Unknown) -> Decision:
    """Nothing can look any more: a person is told in one line."""
    still = replace(action, phase=replace(state, inspect_at=None))
    return Decision(
        rule=Rule.VERDICT_CANNOT_TELL,
        changes=(still,),
        commands=(Announce(action=action.key, told=state.told),),
        told=state.told,
        ticket=state.ticket,
    )


def _inspected(s: Snapshot, action: Action, state: Unknown, event: Inspected, now: datetime) -> Decision:
    match event.verdict:
        case Verdict.APPLIED:
            return _applied(s, action, state, event)
        case Verdict.NOT_APPLIED:
            first = state.absent_at
            is_certain = event.source == "person" or (first is not None and now - first >= s.policy.limits.settle)
            if is_certain:
                return _not_applied(s, action, state, event)
            absent = replace(state, absent_at=now if first is None else first)
            if state.inspect_at is None:
                # Nobody looks a second time.
                return replace(_give_up(s, action, absent), rule=Rule.VERDICT_ABSENT_ONCE)
            return Decision(rule=Rule.VERDICT_ABSENT_ONCE, changes=(replace(action, phase=absent),))
        case Verdict.CANNOT_TELL:
            if state.inspect_at is None:
                return _give_up(s, action, state)
            return Decision(rule=Rule.VERDICT_CANNOT_TELL)


def _applied(s: Snapshot, action: Action, state: Unknown, event: Inspected) -> Decision:
    told = tell(
        "",
        recovery=None,
        outcome=Outcome.SUCCESS,
        executed=Executed.YES,
        request_id=event.request_id,
    )
    call = action.call
    tree = succeeded(s.tree, call, is_write=True)
    completed = Completed(
        attempt=state.attempt,
        outcome=Outcome.SUCCESS,
        turn=s.tree.turn,
        started_at=state.started_at,
        request_id=event.request_id,
        writes=tree.writes,
        step=step_key(action.call.run, action.call.step),
        epoch=s.tree.epoch,
        told=told,
    )
    return Decision(
        rule=Rule.VERDICT_APPLIED,
        changes=(
            replace(action, phase=completed, key_spent=0),
            tree,
            *end_doubt(s, action, state.hold),
            PutKnown(
                key=known_key(call.run, call.step, call.call_id, call.fingerprint),
                known=Known(action=action.key, attempt=state.attempt, completed=True),
            ),
        ),
        commands=(Announce(action=action.key, told=told),),
        told=told,
        ticket=state.ticket,
    )


def _not_applied(s: Snapshot, action: Action, state: Unknown, event: Inspected) -> Decision:
    told = tell(
        "NOT_APPLIED",
        recovery=None,
        outcome=Outcome.CANCELLED,
        request_id=event.request_id,
        call=action.call,
    )
    return Decision(
        rule=Rule.VERDICT_NOT_APPLIED,
        changes=(replace(action, phase=Fresh(), key_spent=0), *end_doubt(s, action, state.hold)),
        commands=(Announce(action=action.key, told=told),),
        told=told,
        ticket=state.ticket,
    )
