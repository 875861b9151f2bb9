"""Completed: the effect is there. A completed result is never retried; whether an equal call runs is decided here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.bar import park
from forbear.core.decision import Decision, Deliver, Snapshot
from forbear.core.events import (
    Event,
    Proposed,
)
from forbear.core.holds import place, tell
from forbear.core.phases.stale import stale
from forbear.core.rules import Rule
from forbear.core.start import Start, current_counters, is_declared_once, may_run_again
from forbear.core.states import Action, Completed, Stopped, step_key
from forbear.core.vocabulary import Answer, Cause, Effect, End, Scope


def on_completed(s: Snapshot, action: Action, state: Completed, event: Event, now: datetime, start: Start) -> Decision:
    """Deliver what is recorded where the author said so; otherwise an equal call is a new one."""
    if not isinstance(event, Proposed):
        return stale(event)
    return _proposed(s, action, state, start, now)


def _proposed(s: Snapshot, action: Action, state: Completed, start: Start, now: datetime) -> Decision:
    call = start.call
    is_read = call.effect is Effect.READ
    here = step_key(call.run, call.step)
    if state.step == here and (is_read or not may_run_again(s, call)):
        return _deliver(action, state, Rule.COMPLETED_SHARED)
    if state.epoch < s.tree.epoch and s.tree.restarted == s.tree.turn and not is_read:
        seen = replace(action, phase=replace(state, epoch=s.tree.epoch))
        decision = _deliver(seen, state, Rule.COMPLETED_RESTARTED)
        return replace(decision, changes=(seen,), suppressed=False, idle_step=False)
    same_turn = state.turn == s.tree.turn
    unchanged = s.tree.writes == state.writes
    poll = s.policy.poll
    if poll is not None and state.finished is False and now < state.started_at + poll.min_interval:
        at = state.started_at + poll.min_interval
        return park(s, action, start, at, now, "POLL_INTERVAL", Rule.COMPLETED_POLL_PARKED)
    if poll is not None and state.finished and same_turn and unchanged:
        return _deliver(action, state, Rule.COMPLETED_POLL_DONE)
    if is_declared_once(s) and same_turn and not _written_by_another(s, action, state):
        return _deliver(action, state, Rule.COMPLETED_DELIVERED)
    replays = s.policy.limits.replay_completed
    if replays > 0 and is_read and same_turn and unchanged:
        return _replay(s, action, state, start, now, replays)
    return admit(s, action, start, now)


def _deliver(action: Action, state: Completed, rule: Rule) -> Decision:
    return Decision(
        rule=rule,
        commands=(Deliver(action=action.key, attempt=state.attempt),),
        answer=Answer.DELIVERED,
        told=state.told,
        suppressed=True,
        idle_step=True,
    )


def _written_by_another(s: Snapshot, action: Action, state: Completed) -> bool:
    """Another action wrote to the same declared target since: the record may not be true any more."""
    return any(
        # Who wrote last is remembered: where that was this action, its own record is as new.
        target == action.call.target and at > state.writes
        for target, _, at in s.tree.target_writes
    )


def _replay(s: Snapshot, action: Action, state: Completed, start: Start, now: datetime, replays: int) -> Decision:
    counted = current_counters(action, s.tree.turn)
    if counted.replays < replays:
        seen = replace(counted, replays=counted.replays + 1)
        return replace(_deliver(seen, state, Rule.COMPLETED_REPLAYED), changes=(seen,))
    told = tell("NO_PROGRESS", request_id=start.request_id, call=start.call)
    hold = place(
        start.call,
        scope=Scope.ACTION,
        value=action.key,
        cause=Cause.EXHAUSTED,
        end=End.TURN,
        told=told,
        ticket=start.ticket,
        snapshot=s,
        now=now,
        step="",
    )
    hold = replace(
        hold, blocked=s.policy.limits.max_blocked_before_stop + 1, last_step=step_key(start.call.run, start.call.step)
    )
    stopped = Stopped(code=told.code, told=told, turn=s.tree.turn, hold=hold.key)
    return Decision(
        rule=Rule.COMPLETED_NO_PROGRESS,
        changes=(replace(counted, phase=stopped), hold),
        answer=Answer.STOPPED,
        told=told,
        ticket=hold.ticket,
        blocked_step=True,
        idle_step=True,
    )
