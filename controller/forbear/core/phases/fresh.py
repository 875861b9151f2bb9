"""Fresh, NeedsRepair and Stopped: nothing is open, and a proposal is decided by the holds that stand. No attempt lives here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.decision import Decision, DropHold, Snapshot
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
from forbear.core.phases.stale import stale
from forbear.core.start import Start
from forbear.core.states import Action, Fresh, NeedsRepair, Stopped
from forbear.core.vocabulary import End


def on_fresh(s: Snapshot, action: Action, state: Fresh, event: Event, now: datetime, start: Start) -> Decision:
    """Start what nothing stands against."""
    match event:
        case Proposed():
            return admit(s, action, start, now)
        case (
            Returned()
            | Interrupted()
            | Lost()
            | Cancelled()
            | Woke()
            | Granted()
            | Denied()
            | Revised()
            | Edited()
            | Inspected()
            | Reconnected()
        ):
            return stale(event)


def on_stopped(s: Snapshot, action: Action, state: Stopped, event: Event, now: datetime, start: Start) -> Decision:
    """Keep refused what was refused: the hold bars it, or lets one probe through."""
    match event:
        case Proposed():
            return admit(s, action, start, now)
        case (
            Returned()
            | Interrupted()
            | Lost()
            | Cancelled()
            | Woke()
            | Granted()
            | Denied()
            | Revised()
            | Edited()
            | Inspected()
            | Reconnected()
        ):
            return stale(event)


def on_needs_repair(
    s: Snapshot, action: Action, state: NeedsRepair, event: Event, now: datetime, start: Start
) -> Decision:
    """Keep the same input from running until something that it may depend on has changed."""
    match event:
        case Proposed():
            if not _depends_on_other_work(s, action, state):
                return admit(s, action, start, now)
            # Another write completed: the same input may mean something else now.
            hold = s.holds[state.hold]
            holds = {key: other for key, other in s.holds.items() if key != state.hold}
            decision = admit(replace(s, holds=holds), action, start, now)
            return replace(decision, changes=(DropHold(key=hold.key, scope=hold.scope), *decision.changes))
        case (
            Returned()
            | Interrupted()
            | Lost()
            | Cancelled()
            | Woke()
            | Granted()
            | Denied()
            | Revised()
            | Edited()
            | Inspected()
            | Reconnected()
        ):
            return stale(event)


def _depends_on_other_work(s: Snapshot, action: Action, state: NeedsRepair) -> bool:
    hold = s.holds.get(state.hold)
    if hold is None or state.fields or hold.end is not End.REPAIR or hold.precondition is not None:
        return False
    limit = s.policy.limits.max_same_results
    if limit is None:
        limit = 30
    repairs = action.repairs if action.turn == s.tree.turn else 0
    return s.tree.writes > state.writes and repairs < limit
