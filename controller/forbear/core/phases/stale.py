"""Answers to events that are legal everywhere and act nowhere but in one phase. No phase's own rule lives here."""

from __future__ import annotations

from forbear.core.decision import Decision
from forbear.core.events import (
    Cancelled,
    Denied,
    Edited,
    Granted,
    Inspected,
    Interrupted,
    Lost,
    Reconnected,
    Returned,
    Revised,
    Woke,
)
from forbear.core.rules import Rule

Stale = Returned | Interrupted | Lost | Cancelled | Woke | Granted | Denied | Revised | Edited | Inspected | Reconnected


def stale(event: Stale) -> Decision:
    """Return the rule that says why an event changes nothing in the phase that it met."""
    match event:
        case Returned():
            return Decision(rule=Rule.RETURNED_STALE)
        case Interrupted():
            return Decision(rule=Rule.INTERRUPTED_STALE)
        case Lost():
            return Decision(rule=Rule.LOST_STALE)
        case Cancelled():
            return Decision(rule=Rule.CANCELLED_NOTHING)
        case Woke():
            return Decision(rule=Rule.WOKE_NOTHING)
        case Granted() | Denied() | Revised() | Edited():
            return Decision(rule=Rule.ANSWER_STALE)
        case Inspected():
            return Decision(rule=Rule.VERDICT_STALE)
        case Reconnected():
            return Decision(rule=Rule.RECONNECTED_NOTHING)
