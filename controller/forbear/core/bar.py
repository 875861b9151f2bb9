"""A start that may not run now: barred by a hold, parked under a time, or kept for later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import (
    Announce,
    Change,
    Decision,
    Snapshot,
    WakeAt,
)
from forbear.core.holds import not_kept, tell, without
from forbear.core.rules import Rule
from forbear.core.start import By, Start
from forbear.core.states import (
    Action,
    Hold,
    Parked,
    Running,
    Stopped,
    Waiting,
    place_key,
    step_key,
)
from forbear.core.timing import MARGIN, fraction
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import (
    Answer,
    Effect,
    Executed,
    Outcome,
    Recovery,
    Scope,
)


def bar(s: Snapshot, call: Call, hold: Hold, rule: Rule, request_id: str, changes: tuple[Change, ...] = ()) -> Decision:
    """Answer a proposal under a hold and count its step once, if the refusal had been told before that step."""
    here = step_key(call.run, call.step)
    told_before = step_key(hold.run, hold.step) != here
    if told_before and hold.last_step != here:
        hold = replace(hold, blocked=hold.blocked + 1, last_step=here)
        changes = (*changes, hold)
    over = hold.blocked > s.policy.limits.max_blocked_before_stop
    answer = Answer.STOPPED if over else Answer.BLOCKED
    if over and (hold.scope in (Scope.RUN, Scope.TURN) or call.forced):
        answer = Answer.HALTED
    return Decision(
        rule=rule,
        changes=changes,
        answer=answer,
        told=replace(hold.told, request_id=request_id),
        ticket=hold.ticket,
        clear_forced=answer is Answer.HALTED and call.forced,
        blocked_step=told_before,
        idle_step=True,
    )


def stop_waiting(s: Snapshot, action: Action, start: Start, hold: Hold) -> Decision:
    """Stop a call that waited: another hold came to cover it, and a grant is void."""
    stopped = Stopped(code=hold.code, told=hold.told, turn=s.tree.turn, hold=hold.key)
    return Decision(
        rule=Rule.WOKE_STOPPED,
        changes=(replace(action, phase=stopped), *leave_queues(s, action)),
        commands=(Announce(action=action.key, told=hold.told),),
        answer=Answer.STOPPED,
        told=hold.told,
        ticket=hold.ticket,
    )


def leave_queues(s: Snapshot, action: Action) -> tuple[Hold, ...]:
    """Return the holds without this action among the calls that wait for them."""
    return tuple(
        replace(hold, parked=without(hold, s.tree.root, action.key))
        for hold in s.holds.values()
        if place_key(hold, s.tree.root, action.key) in hold.parked
    )


def wait_for(s: Snapshot, action: Action, start: Start, hold: Hold, now: datetime) -> Decision:
    """Park a call under a time hold, or tell it to be proposed later where there is no slot."""
    ends_at = hold.ends_at or now
    # Calls leave a hold one by one and in the order in which they came: each place has its own second, with jitter in it.
    mine = place_key(hold, s.tree.root, action.key)
    place = hold.parked.index(mine) if mine in hold.parked else len(hold.parked)
    run_at = max(ends_at, now) + MARGIN + timedelta(seconds=place + 0.25 + 0.75 * fraction(action.key))
    told = replace(hold.told, outcome=Outcome.PENDING, executed=Executed.NO, reset_at=ends_at)
    if start.by is not By.PROPOSAL:
        standing = action.phase
        parked: Parked | Waiting
        if isinstance(standing, Waiting):
            # It stays the one retry of a call that already ran.
            parked = replace(standing, retry_at=run_at, hold=hold.key, told=told)
        else:
            parked = _parked(s, action, start, run_at, told, hold.key, now)
        waits = replace(hold, parked=_joined(hold.parked, mine))
        return Decision(
            rule=Rule.WOKE_REPARKED,
            changes=(replace(action, phase=parked), waits),
            commands=(WakeAt(action=action.key, at=run_at),),
            answer=Answer.PENDING,
            told=told,
            ticket=parked.ticket,
            retry_at=run_at,
        )
    # An action that is under way cannot wait as well.
    has_slot = len(hold.parked) < s.policy.limits.max_parked and not isinstance(action.phase, Running)
    if not has_slot or not _may_park(s, start.call):
        return Decision(
            rule=Rule.HELD_TIME_NO_SLOT,
            answer=Answer.PENDING,
            told=not_kept(replace(told, request_id=start.request_id), ends_at),
            retry_at=ends_at,
            idle_step=step_key(hold.run, hold.step) != step_key(start.call.run, start.call.step),
        )
    kept = _parked(s, action, start, run_at, replace(told, request_id=start.request_id), hold.key, now)
    return Decision(
        rule=Rule.HELD_TIME_PARKED,
        changes=(
            replace(action, call=start.call, phase=kept),
            replace(hold, parked=_joined(hold.parked, mine)),
        ),
        commands=(WakeAt(action=action.key, at=run_at),),
        answer=Answer.PENDING,
        told=kept.told,
        ticket=kept.ticket,
        retry_at=run_at,
    )


def _may_park(s: Snapshot, call: Call) -> bool:
    """Reads wait freely; a declared write only where no other call waits on its target."""
    if call.effect is not Effect.WRITE:
        return call.effect is Effect.READ
    return not any(
        isinstance(other.phase, (Waiting, Parked)) and other.call.target == call.target
        for other in s.actions.values()
        if other.call.operation == call.operation
    )


def _joined(parked: tuple[str, ...], key: str) -> tuple[str, ...]:
    return parked if key in parked else (*parked, key)


def _parked(
    s: Snapshot, action: Action, start: Start, run_at: datetime, told: Envelope, hold: str | None, now: datetime
) -> Parked:
    standing = action.phase
    ticket, since_at, turn = start.ticket, now, s.tree.turn
    if isinstance(standing, (Waiting, Parked)):
        ticket, since_at, turn = standing.ticket, standing.since_at, standing.turn
    return Parked(ticket=ticket, run_at=run_at, since_at=since_at, turn=turn, told=told, hold=hold, grant=start.grant)


def park(s: Snapshot, action: Action, start: Start, run_at: datetime, now: datetime, code: str, rule: Rule) -> Decision:
    """Keep a call for later for a reason other than a hold (poll interval, checker, open prompts)."""
    told = tell(
        code,
        recovery=Recovery.RETRY_AFTER,
        outcome=Outcome.PENDING,
        request_id=start.request_id,
        reset_at=run_at,
    )
    parked = _parked(s, action, start, run_at, told, None, now)
    return Decision(
        rule=rule,
        changes=(replace(action, call=start.call, phase=parked), *leave_queues(s, action)),
        commands=(WakeAt(action=action.key, at=run_at),),
        answer=Answer.PENDING,
        told=told,
        ticket=parked.ticket,
        retry_at=run_at,
    )
