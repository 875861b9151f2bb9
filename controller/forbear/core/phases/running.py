"""Running: attempts are open. Every result answers one attempt; a lost write is unknown, never "not executed"."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.decision import Announce, Decision, Join, Snapshot
from forbear.core.draft import draft_of, hand_back, repeats_unknown
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
from forbear.core.repair import unknown
from forbear.core.rules import Rule
from forbear.core.settle import settle
from forbear.core.start import Start, may_run_again
from forbear.core.states import FRAMEWORK, Action, AwaitingApproval, Fresh, Running, Started, step_key
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Effect, Executed, Gate, Outcome, Recovery


def on_running(s: Snapshot, action: Action, state: Running, event: Event, now: datetime, start: Start) -> Decision:
    """Answer repeats of a running call, and settle its attempts."""
    match event:
        case Proposed():
            return _proposed(s, action, state, now, start)
        case Returned():
            started = _opened(state, event.attempt)
            return stale(event) if started is None else settle(s, action, started, event, now)
        case Interrupted():
            started = _opened(state, event.attempt)
            return stale(event) if started is None else _interrupted(s, action, started, event, now)
        case Lost():
            started = _opened(state, event.attempt)
            if started is None:
                return stale(event)
            return _lost(s, action, started, event.ticket, event.request_id, now, announce=event.died)
        case Cancelled():
            return _cancelled(s, action, state, event, now)
        case Woke() | Granted() | Denied() | Revised() | Edited() | Inspected() | Reconnected():
            return stale(event)


def _opened(state: Running, attempt: int) -> Started | None:
    return next((started for started in state.open if started.attempt == attempt), None)


def _proposed(s: Snapshot, action: Action, state: Running, now: datetime, start: Start) -> Decision:
    here = step_key(start.call.run, start.call.step)
    repeats = may_run_again(s, start.call)
    shared = next((o for o in state.open if step_key(o.run, o.step) == here), None)
    if shared is not None and (start.call.effect is Effect.READ or not repeats):
        # One message that holds the same call twice means one execution.
        return Decision(
            rule=Rule.RUNNING_SHARED,
            commands=(Join(action=action.key, attempt=shared.attempt),),
            answer=Answer.DELIVERED,
            suppressed=True,
            idle_step=True,
        )
    if repeats and start.call.verdict.gate is Gate.ALLOW:
        # What a rule would ask about or deny is decided once nothing is under way.
        return admit(s, action, start, now)
    told = tell("DUPLICATE_IN_FLIGHT", executed=Executed.UNKNOWN, request_id=start.request_id, call=start.call)
    return Decision(rule=Rule.RUNNING_DUPLICATE, answer=Answer.BLOCKED, told=told, blocked_step=True, idle_step=True)


def _interrupted(s: Snapshot, action: Action, started: Started, event: Interrupted, now: datetime) -> Decision:
    """The tool asked through the framework: the framework proposes the call again with the answer."""
    if repeats_unknown(action):
        decision = _lost(s, action, started, event.ticket, "", now, announce=False)
        return replace(decision, rule=Rule.INTERRUPTED)
    draft = draft_of(s, action, started, now)
    hand_back(draft, used=False)
    told = tell("APPROVAL_REQUIRED", recovery=Recovery.REQUEST_APPROVAL, outcome=Outcome.PENDING, call=action.call)
    phase = AwaitingApproval(
        ticket=event.ticket,
        rule=FRAMEWORK,
        fingerprint=action.call.fingerprint,
        run=started.run,
        asked_at=now,
        expires_at=now + s.policy.limits.approval_ttl,
        told=told,
        by_framework=True,
        after_attempt=started.attempt,
    )
    return draft.decide(Rule.INTERRUPTED, phase, told=told, answer=Answer.NEEDS_APPROVAL, ticket=event.ticket)


def _call_of(action: Action, started: Started) -> Call:
    """Return the call that an attempt was made for; the action may have been proposed since by another one."""
    return replace(action.call, run=started.run, step=started.step, call_id=started.call_id)


def _lost(
    s: Snapshot, action: Action, started: Started, ticket: str, request_id: str, now: datetime, *, announce: bool
) -> Decision:
    draft = draft_of(s, action, started, now)
    hand_back(draft, used=True)
    if action.call.effect is Effect.READ:
        told = tell("CANCELLED", recovery=None, outcome=Outcome.CANCELLED, request_id=request_id, call=action.call)
        if announce:
            draft.commands.append(Announce(action=action.key, told=told, call=_call_of(action, started)))
        return draft.decide(Rule.LOST_FRESH, Fresh(), told=told, answer=Answer.EXECUTED)
    told = tell(
        "OUTCOME_UNKNOWN",
        recovery=Recovery.INSPECT_OUTCOME,
        outcome=Outcome.UNKNOWN,
        executed=Executed.UNKNOWN,
        request_id=request_id,
        call=action.call,
    )
    decision = unknown(draft, told, ticket, Rule.LOST_UNKNOWN)
    if announce:
        decision = replace(
            decision,
            commands=(*decision.commands, Announce(action=action.key, told=told, call=_call_of(action, started))),
        )
    return decision


def _cancelled(s: Snapshot, action: Action, state: Running, event: Cancelled, now: datetime) -> Decision:
    """A cancelled running write is unknown unless the tool confirmed that nothing landed."""
    started = state.open[-1]
    is_in_doubt = not event.acknowledged and action.call.effect is not Effect.READ
    if is_in_doubt or repeats_unknown(action):
        decision = _lost(s, action, started, event.ticket, event.request_id, now, announce=False)
        return replace(decision, rule=Rule.CANCELLED_UNKNOWN)
    draft = draft_of(s, replace(action, phase=Fresh()), started, now)
    for one in state.open:
        hand_back(replace(draft, started=one), used=True)
    told = tell("CANCELLED", recovery=None, outcome=Outcome.CANCELLED, request_id=event.request_id, call=action.call)
    return draft.decide(Rule.CANCELLED_FRESH, Fresh(), told=told, answer=Answer.EXECUTED)
