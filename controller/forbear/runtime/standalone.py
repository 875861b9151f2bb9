"""`RecoveryPolicy`: the rules about one result, without a controller: no store, no run, no memory between calls.

It asks the same core that the controller asks, about a tree in which nothing else has happened. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from forbear.contract import (
    Catalogue,
    Grpc,
    Http,
    Mcp,
    McpError,
    Raised,
    RaisedFacts,
    Raw,
    Value,
    builtin_catalogue,
    classify,
    phase_of,
    tool_policy,
)
from forbear.contract.alone import WITHOUT_A_CODE, standalone_catalogue
from forbear.core.decide import decide
from forbear.core.decision import Snapshot
from forbear.core.events import Returned
from forbear.core.policy import ToolPolicy
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    NeedsRepair,
    Parked,
    Phase,
    Run,
    Running,
    Started,
    Stopped,
    Tree,
    Unknown,
    Waiting,
)
from forbear.core.timing import is_within
from forbear.core.values import Envelope
from forbear.core.view import view_text
from forbear.errors import UsageError
from forbear.ports import Clock
from forbear.runtime.calls import build
from forbear.runtime.clock import SystemClock

__all__ = ["NextStep", "RecoveryPolicy", "ToDo"]

_RAW: Final = (Value, Raised, RaisedFacts, Http, Mcp, McpError, Grpc)
_RUN: Final = "standalone"


class ToDo(StrEnum):
    """What a caller does after a result."""

    # The call completed.
    DONE = "done"
    # Do not execute it again: refused, denied, or executed as often as it may be.
    STOP = "stop"
    # Execute exactly this call once more, at or after `retry_at`.
    RETRY_AT = "retry_at"
    # Another input may be executed; `envelope.invalid_fields` says where, if known.
    REPAIR = "repair"
    # A person has to approve it first.
    ASK = "ask"
    # It may have been carried out: look with a read-only check before anything else.
    INSPECT = "inspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What a result means for its call."""

    to_do: ToDo
    envelope: Envelope
    # RETRY_AT: not before this instant, aware UTC; floor, margin and jitter are in it.
    retry_at: datetime | None = None

    def is_within(self, wait_for: timedelta, now: datetime) -> bool:
        """Say whether the call may be executed once more after a wait of at most so long; margin and jitter aside."""
        return self.retry_at is not None and is_within(self.retry_at, wait_for, now)

    def for_model(self) -> str:
        """Return what a model may see of it, as JSON."""
        return view_text(self.envelope)


class RecoveryPolicy:
    """What may be done after a result, for loops that keep their own state.

    Args:
        catalogue: The project's codes beside the built-in ones.
        clock: Where `now` comes from; a test passes its own.
        **policy_fields: What is declared about the tool, as for `Controller.declare`. Without `effect` it is treated
            like a write: what may have happened is not repeated.

    Raises:
        ConfigError: a policy field is wrong.

    Example:
        >>> from datetime import UTC, datetime
        >>> policy = RecoveryPolicy(effect="read")
        >>> now = datetime(2026, 9, 6, tzinfo=UTC)
        >>> policy.next_step(PermissionError("no"), attempt=1, now=now).to_do
        <ToDo.STOP: 'stop'>
    """

    def __init__(
        self, *, catalogue: Catalogue | None = None, clock: Clock | None = None, **policy_fields: object
    ) -> None:
        self.policy: ToolPolicy = tool_policy("tool", **policy_fields)
        self._catalogue = standalone_catalogue(builtin_catalogue() if catalogue is None else catalogue)
        self._clock: Clock = SystemClock() if clock is None else clock

    def now(self) -> datetime:
        """Return the present instant of this policy's clock, aware UTC."""
        return self._clock.now()

    def next_step(
        self,
        result: object,
        attempt: int,
        now: datetime,
        *,
        arguments: Mapping[str, object] | None = None,
    ) -> NextStep:
        """Say what may be done after a result. Pure: the same arguments give the same answer.

        Args:
            result: What the tool returned; the exception that it raised; or a raw result of `forbear.contract` (`Http`,
                `Mcp`, …).
            attempt: Which execution of the call gave it, from 1. Waits count by it: attempt 2 has had its retry.
            now: The instant of receipt, aware.
            arguments: The call's arguments: for rules that compare with them, and to spread retries of different calls.

        Raises:
            UsageError: `attempt` is less than 1, `now` is naive, or an argument has no JSON form.
        """
        if attempt < 1:
            raise UsageError("attempt: must be 1 or more")
        if now.tzinfo is None:
            raise UsageError("now: must be timezone-aware")
        now = now.astimezone(UTC)
        given: Mapping[str, object] = {} if arguments is None else arguments
        envelope = classify(_raw(result), policy=self.policy, arguments=given, now=now, catalogue=self._catalogue)
        call = build(self.policy, given, run=_RUN, step="1", call_id="1")
        opened = Started(attempt=attempt, run=_RUN, step="1", call_id="1", started_at=now, owner=_RUN)
        action = Action(
            key=call.action, call=call, phase=Running(open=(opened,)), attempts=attempt, turn=1, retries=attempt - 1
        )
        snapshot = Snapshot(
            tree=Tree(root=_RUN, principal=_RUN),
            runs={_RUN: Run(id=_RUN, turn=1)},
            actions={action.key: action},
            holds={},
            known={},
            policy=self.policy,
            limits=self.policy.limits,
            owner=_RUN,
        )
        event = Returned(attempt=attempt, envelope=envelope, ticket="standalone")
        decision = decide(snapshot, call.action, event, now)
        told = envelope if decision.told is None else decision.told
        to_do, retry_at = _meaning(snapshot.after(decision).actions[call.action].phase)
        return NextStep(to_do=to_do, envelope=self._texted(told), retry_at=retry_at)

    def _texted(self, told: Envelope) -> Envelope:
        """Return an envelope with a text that is true without a controller, where it has none or a controller's code."""
        if told.code and (told.safe_message is None or self._catalogue.is_controllers(told.code)):
            return replace(told, safe_message=self._catalogue.text(told.code, told))
        if told.code or told.safe_message is not None or told.recovery is None:
            return told
        return replace(told, safe_message=WITHOUT_A_CODE.get(told.recovery))


def _raw(result: object) -> Raw:
    if isinstance(result, _RAW):
        return result
    if isinstance(result, BaseException):
        return Raised(result, phase=phase_of(result, reached=False))
    return Value(result)


def _meaning(phase: Phase) -> tuple[ToDo, datetime | None]:
    """Return what the phase after a result asks of the caller."""
    match phase:
        case Completed():
            return ToDo.DONE, None
        case Waiting():
            return ToDo.RETRY_AT, phase.retry_at
        case Parked():
            return ToDo.RETRY_AT, phase.run_at
        case NeedsRepair():
            return ToDo.REPAIR, None
        case AwaitingApproval():
            return ToDo.ASK, None
        case Unknown():
            return ToDo.INSPECT, None
        case Stopped() | Fresh() | Running() | Approved():
            # Fresh, Running and Approved do not follow a result of the only open attempt.
            return ToDo.STOP, None
