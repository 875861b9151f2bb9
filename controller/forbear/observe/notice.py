"""What an observer is told: one notice for each decision, of closed words, numbers and ids; and who may be told.

Never arguments, results, or text of others: a tool name that nobody declared and a code that no catalogue holds are
`OTHER`. Nothing is counted or sent here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from forbear.core.rules import Rule
from forbear.core.vocabulary import Answer, Cause, Executed, Outcome, Recovery

# In the place of a word that is not in a closed set (the fallback that OpenTelemetry names for `error.type`).
OTHER: Final = "_OTHER"


class Event(StrEnum):
    """What happened."""

    STARTED = "forbear.started"
    COMPLETED = "forbear.completed"
    REFUSED = "forbear.refused"
    UNKNOWN = "forbear.unknown"
    WAITS = "forbear.waits"
    DELIVERED = "forbear.delivered"
    BLOCKED = "forbear.blocked"
    STOPPED = "forbear.stopped"
    HALTED = "forbear.halted"
    ASKED = "forbear.asked"
    ANSWERED = "forbear.answered"
    INSPECTED = "forbear.inspected"
    CANCELLED = "forbear.cancelled"
    LOST = "forbear.lost"
    LIFTED = "forbear.lifted"
    TURN = "forbear.turn"
    OBSERVED = "forbear.observed"
    BROKEN = "forbear.broken"
    NOTHING = "forbear.nothing"


class Unrecorded(StrEnum):
    """What a reply names in the place of a rule where nothing could be decided: the store could not be written."""

    # The call did not run (an observed one did).
    PROPOSED = "any.proposed.controller_broken"
    # The tool ran; its end is committed, and told, before the tree's next decision.
    RETURNED = "any.returned.controller_broken"


class Severity(StrEnum):
    """How much a person should care: a refusal that is handled warns, the last one is an error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """A hold that a person ended."""

    tool: str
    code: str
    # None = the halt of a run.
    cause: Cause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One committed decision, or (`forbear.broken`) a call about which none could be committed.

    Words are members of closed sets, except `tool` and `operation` (declared by the author) and `code` (of the
    catalogue), which are `OTHER` where they are not known. Ids are for logs and spans, never for metrics.
    """

    event: Event
    severity: Severity
    # The controller's clock, aware UTC.
    at: datetime
    rule: Rule | Unrecorded
    # The core's event: Proposed, Returned, Woke, Granted, …
    cause: str
    # Names of the action's phase; "" = the decision is about no action.
    before: str = ""
    after: str = ""
    tool: str = ""
    operation: str = ""
    # None = nobody waited for an answer.
    answer: Answer | None = None
    outcome: Outcome | None = None
    executed: Executed | None = None
    recovery: Recovery | None = None
    # Of what was told; "" = no code.
    code: str = ""
    # False = a tool answered with a code that the catalogue does not hold.
    code_is_known: bool = True
    # 0 = the decision is about no attempt.
    attempt: int = 0
    # When that attempt began, where the decision ended it.
    started_at: datetime | None = None
    # The decision starts an execution; it asks a person.
    starts: bool = False
    asks: bool = False
    suppressed: bool = False
    # Observe mode: what would have been answered, and by which rule.
    would: Answer | None = None
    would_rule: Rule | None = None
    lifts: tuple[Lift, ...] = ()
    # Ids: of the answer, of the run and the root of its tree, of the step and the call, of the action (a digest).
    request_id: str = ""
    run: str = ""
    root: str = ""
    step: str = ""
    call_id: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Reads of one tool that succeeded at once, counted together after they were journalled."""

    tool: str
    operation: str
    count: int
    # Sum of how long they ran.
    ran_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one step of the model cost, as the application said it."""

    at: datetime
    run: str
    root: str
    step: str
    tokens: int
    seconds: float
    # A read of this step succeeded at once (nobody was told of it one by one).
    has_read: bool


class Observer(Protocol):
    """Is told each decision once, after it was committed, outside every lock, never two at the same time.

    It should be quick: the call that was decided about waits for it. What it raises is counted and breaks nothing.
    """

    def observe(self, notice: Notice) -> None:
        """Take notice of one decision."""
        ...


@runtime_checkable
class ReadObserver(Protocol):
    """An observer that takes succeeding reads counted together (two decisions each) instead of one by one."""

    def observe_reads(self, reads: Sequence[Reads]) -> None:
        """Take notice of reads that were journalled together, by tool."""
        ...


@runtime_checkable
class UsageObserver(Protocol):
    """An observer that prices steps."""

    def observe_usage(self, usage: Usage) -> None:
        """Take notice of what a step cost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How one call ended, for the span around it. The words are closed as in `Notice`."""

    tool: str
    operation: str = ""
    rule: str = ""
    answer: Answer | None = None
    outcome: Outcome | None = None
    executed: Executed | None = None
    recovery: Recovery | None = None
    code: str = ""
    # Name of the exception that left the call (`OTHER` where it is not the controller's own); "" = none did.
    raised: str = ""
    would: Answer | None = None
    suppressed: bool = False
    request_id: str = ""
    run: str = ""


@runtime_checkable
class CallTracer(Protocol):
    """An observer that puts a span around each call."""

    def begin(self, tool: str, call_id: str) -> object:
        """Begin in the context of the caller; the tool runs inside."""
        ...

    def end(self, opened: object, seen: Seen) -> None:
        """End what `begin` returned, in the same context."""
        ...

    def mark(self, seen: Seen, call_id: str, began_at: datetime, ended_at: datetime) -> None:
        """Note a call that somebody else executed, in the context of the caller."""
        ...

    def trace_id(self) -> str:
        """Return the id of the trace that this code runs in, for the protected record; "" = none."""
        ...
