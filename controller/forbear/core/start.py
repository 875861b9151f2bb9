"""One attempt to start a call: who starts it, and what the author said about repeating it. Nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from forbear.core.decision import (
    Snapshot,
)
from forbear.core.states import (
    Action,
    Run,
)
from forbear.core.values import Call, Grant
from forbear.core.vocabulary import (
    Effect,
    Mode,
)


class By(StrEnum):
    """Who starts a call."""

    PROPOSAL = "proposal"
    # The claimed retry of a waiting call.
    RETRY = "retry"
    # Whatever else the controller starts by itself: a parked call, a granted one, a repetition with the same key.
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One attempt to start a call at one moment."""

    call: Call
    by: By
    # The run as it stands in this decision (its step already opened, for a proposal).
    run: Run
    ticket: str
    request_id: str
    grant: Grant | None = None
    passes: frozenset[str] = frozenset()


def joined_by(action: Action, call: Call) -> tuple[Action, ...]:
    """Return the action with a call of another run that is given its ticket, where it was not given it before."""
    if call.run == action.call.run or any(other.run == call.run for other in action.joined):
        return ()
    return (replace(action, joined=(*action.joined, call)),)


def current_counters(action: Action, turn: int) -> Action:
    """Return the action with the counters of an older turn set back."""
    if action.turn == turn:
        return action
    return replace(
        action,
        turn=turn,
        retries=0,
        checks=0,
        repairs=0,
        same_results=0,
        empty_looks=0,
        asked_by_tool=0,
    )


def is_observed(s: Snapshot) -> bool:
    """Return whether the event's tool is only observed."""
    return s.policy.mode is Mode.OBSERVE


def may_run_again(s: Snapshot, call: Call) -> bool:
    """Return whether the author said that the same call twice does no harm (declared reads by default)."""
    if s.policy.repeatable is not None:
        return s.policy.repeatable
    return call.effect is Effect.READ


def is_declared_once(s: Snapshot) -> bool:
    """Return whether an equal call after a success, in one turn, is delivered from the record."""
    return s.policy.repeatable is False
