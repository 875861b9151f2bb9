"""The closed sets of words that decisions are made of, equal to the words on the wire. No behaviour lives here."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Outcome(StrEnum):
    """What became of a call (design section 2)."""

    SUCCESS = "success"
    EMPTY = "empty"
    PARTIAL = "partial"
    ALREADY_SATISFIED = "already_satisfied"
    REFUSED = "refused"
    INVALID = "invalid"
    DENIED = "denied"
    TIMEOUT = "timeout"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    PENDING = "pending"


COMPLETED = frozenset({Outcome.SUCCESS, Outcome.EMPTY, Outcome.PARTIAL, Outcome.ALREADY_SATISFIED})


class Executed(StrEnum):
    """Whether the tool's effect may have happened. A killed running write is ``unknown``, never ``no``."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Recovery(StrEnum):
    """The six recovery classes."""

    DO_NOT_RETRY = "do_not_retry"
    RETRY_AFTER = "retry_after"
    REPAIR_INPUT = "repair_input"
    REQUEST_APPROVAL = "request_approval"
    INSPECT_OUTCOME = "inspect_outcome"
    USE_ALTERNATIVE = "use_alternative"


class Answer(StrEnum):
    """What the proposer of a call gets."""

    EXECUTED = "executed"
    DELIVERED = "delivered"
    PENDING = "pending"
    NEEDS_APPROVAL = "needs_approval"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    HALTED = "halted"


class Effect(StrEnum):
    """What the author declared about a tool's effect."""

    READ = "read"
    WRITE = "write"
    UNDECLARED = "undeclared"


class Trust(StrEnum):
    """Where a tool's code runs: in this process (``owned``) or behind a protocol (``remote``)."""

    OWNED = "owned"
    REMOTE = "remote"


class Mode(StrEnum):
    """Whether decisions are enforced or only recorded."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Gate(StrEnum):
    """The verdict of the author's approval rule about one call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    UNAVAILABLE = "unavailable"


class Verdict(StrEnum):
    """What an inspection says about an unknown write."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    CANNOT_TELL = "cannot_tell"


class Scope(StrEnum):
    """What a hold covers."""

    ACTION = "action"
    TARGET = "target"
    OPERATION = "operation"
    RULE = "rule"
    QUOTA = "quota"
    RUN = "run"
    TURN = "turn"
    PRINCIPAL = "principal"


class Cause(IntEnum):
    """Why a hold exists. The number is the precedence of what is told: lower wins (design section 4, step 6)."""

    DENIAL = 1
    UNKNOWN = 2
    REFUSAL = 3
    EXHAUSTED = 4
    REPAIR = 5
    BUDGET = 6
    TIME = 7


class End(StrEnum):
    """What ends a hold, besides an operator."""

    TURN = "turn"
    PROBE = "probe"
    PERSON = "person"
    VERDICT = "verdict"
    REPAIR = "repair"
    TIME = "time"
    RUN = "run"
