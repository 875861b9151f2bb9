"""What is told where a decision says nothing itself: from the record, or from the phase that stands. No decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    NeedsRepair,
    Parked,
    Running,
    Stopped,
    Unknown,
    Waiting,
)
from forbear.core.values import Envelope
from forbear.core.vocabulary import Answer, Executed, Outcome
from forbear.runtime.asked import Decided
from forbear.runtime.notes import result_of
from forbear.runtime.reply import Attempt

RESULT_NOT_KEPT: Final = "RESULT_NOT_KEPT"
_OPEN = Envelope(outcome=Outcome.PENDING, executed=Executed.UNKNOWN)


def told_of(decided: Decided, attempt: Attempt | None) -> Envelope:
    """Return what is told where the decision says nothing itself."""
    if attempt is not None:
        return replace(_OPEN, request_id=attempt.request_id)
    if decided.envelope is not None:
        return decided.envelope
    action = decided.action
    if action is not None and isinstance(action.phase, Completed):
        phase = action.phase
        return phase.told or Envelope(outcome=phase.outcome, executed=Executed.YES, request_id=phase.request_id)
    return Envelope(outcome=Outcome.SUCCESS if decided.recorded is not None else Outcome.PENDING, executed=Executed.YES)


def recorded(decided: Decided, envelope: Envelope) -> tuple[tuple[object] | None, Envelope]:
    """Return the recorded result; where it was not kept, the envelope says that the call is satisfied already."""
    if decided.value is not None:
        return decided.value, envelope
    if decided.recorded is not None:
        return (result_of(decided.recorded),), envelope
    kept_nothing = replace(envelope, outcome=Outcome.ALREADY_SATISFIED, executed=Executed.YES, reason=RESULT_NOT_KEPT)
    return None, kept_nothing


def standing(decided: Decided, told: Envelope | None) -> tuple[Answer, Envelope | None, str | None, datetime | None]:
    """Return what an action's phase says to whoever asks: an event met a phase in which it means nothing."""
    if decided.envelope is not None:
        # A result of an attempt that was answered already: it is still what this execution returned.
        return Answer.EXECUTED, told or decided.envelope, None, None
    action: Action | None = decided.action
    if action is None:
        return Answer.DELIVERED, told, None, None
    phase = action.phase
    match phase:
        case Waiting():
            return Answer.PENDING, told or phase.told, phase.ticket, phase.retry_at
        case Parked():
            return Answer.PENDING, told or phase.told, phase.ticket, phase.run_at
        case AwaitingApproval():
            return Answer.NEEDS_APPROVAL, told or phase.told, phase.ticket, None
        case Approved():
            return Answer.PENDING, told, phase.grant.ticket, phase.run_at
        case Running():
            return Answer.PENDING, told, None, None
        case Unknown():
            return Answer.BLOCKED, told or phase.told, phase.ticket, None
        case NeedsRepair() | Stopped():
            return Answer.BLOCKED, told or phase.told, None, None
        case Completed():
            return Answer.DELIVERED, told or phase.told, None, None
        case Fresh():
            return Answer.BLOCKED, told, None, None
