"""Fresh, NeedsRepair and Stopped: nothing is open, and a proposal is decided by the holds that stand. No attempt lives here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.decision import Decision, DropHold, Snapshot
from forbear.core.events import (
    Event,
    Proposed,
)
from forbear.core.phases.stale import stale
from forbear.core.policy import MAX_SAME_RESULTS
from forbear.core.start import Start
from forbear.core.states import Action, NeedsRepair
from forbear.core.vocabulary import End


def on_fresh(s: Snapshot, action: Action, event: Event, now: datetime, start: Start) -> Decision:
    """Start what nothing stands against; what was stopped stays so by its hold, which bars it or lets one probe through."""
    if not isinstance(event, Proposed):
        return stale(event)
    return admit(s, action, start, now)


def on_needs_repair(
    s: Snapshot, action: Action, state: NeedsRepair, event: Event, now: datetime, start: Start
) -> Decision:
    """Keep the same input from running until something that it may depend on has changed."""
    if not isinstance(event, Proposed):
        return stale(event)
    if not _depends_on_other_work(s, action, state):
        return admit(s, action, start, now)
    # Another write completed: the same input may mean something else now.
    hold = s.holds[state.hold]
    holds = {key: other for key, other in s.holds.items() if key != state.hold}
    decision = admit(replace(s, holds=holds), action, start, now)
    return replace(decision, changes=(DropHold(key=hold.key, scope=hold.scope), *decision.changes))


def _depends_on_other_work(s: Snapshot, action: Action, state: NeedsRepair) -> bool:
    hold = s.holds.get(state.hold)
    if hold is None or state.fields or hold.end is not End.REPAIR or hold.precondition is not None:
        return False
    limit = s.policy.limits.max_same_results
    if limit is None:
        limit = MAX_SAME_RESULTS
    return s.tree.writes > state.writes and action.repairs < limit
