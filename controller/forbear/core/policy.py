"""What an integration author declares about tools, as frozen values. Parsing and validation of input live elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Effect, Mode, Outcome, Recovery, Scope, Trust, Verdict

Arguments = Mapping[str, object]

# Defaults of Limits; the docs table is generated from these names.
DEFAULT_WAIT = timedelta(seconds=5)
MAX_WAIT = timedelta(hours=25)
MAX_UNATTENDED = timedelta(hours=1)
MAX_PARKED = 5
INLINE_WAIT = timedelta(seconds=5)
MAX_RETRIES = 1
MAX_RETRIES_TEMPORARY_READ = 2
MAX_REPAIRS_NAMED = 3
MAX_REPAIRS = 8
MAX_REFUSALS_WRITE = 3
MAX_REFUSALS = 8
MAX_BLOCKED_BEFORE_STOP = 1
MAX_BLOCKED_STEPS = 5
MAX_IDLE_STEPS = 10
MAX_BLOCKED_PER_TURN = 30
MAX_SAME_RESULTS = 30
MAX_SAME_RESULTS_WRITE = 10
CHECKER_RETRY = 1
APPROVAL_TTL = timedelta(hours=24)
GRANT_TTL = timedelta(minutes=5)
MAX_PROMPTS = 5
MAX_OPEN_PROMPTS = 10
INSPECT_ATTEMPTS = 3
SETTLE = timedelta(seconds=10)
MAX_SHARED_HOLD = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every number that bounds a run (design section 3). ``None`` = the default that depends on the tool's effect."""

    default_wait: timedelta = DEFAULT_WAIT
    # "wait" = default_wait once; "stop" = never wait without a named time.
    on_unknown_reset: str = "wait"
    max_wait: timedelta = MAX_WAIT
    max_unattended: timedelta = MAX_UNATTENDED
    max_parked: int = MAX_PARKED
    inline_wait: timedelta = INLINE_WAIT
    # Per action and turn. None = 1, or 2 for temporary failures of reads declared repeatable.
    max_retries: int | None = None
    # In a row. None = 3 where the answers name fields, else 8.
    max_repairs: int | None = None
    # In a row. None = 3 for declared writes, else 8.
    max_refusals: int | None = None
    max_blocked_before_stop: int = MAX_BLOCKED_BEFORE_STOP
    max_blocked_steps: int = MAX_BLOCKED_STEPS
    max_idle_steps: int = MAX_IDLE_STEPS
    max_blocked_per_turn: int = MAX_BLOCKED_PER_TURN
    max_calls_per_turn: int | None = None
    max_calls_per_run: int | None = None
    # None = 30, or 10 for declared writes.
    max_same_results: int | None = None
    replay_completed: int = 0
    checker_retry: int = CHECKER_RETRY
    # "block" or "ask".
    on_checker_down: str = "block"
    approval_ttl: timedelta = APPROVAL_TTL
    grant_ttl: timedelta = GRANT_TTL
    max_prompts: int = MAX_PROMPTS
    max_open_prompts: int = MAX_OPEN_PROMPTS
    inspect_attempts: int = INSPECT_ATTEMPTS
    settle: timedelta = SETTLE
    max_shared_hold: timedelta = MAX_SHARED_HOLD
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The read-only check of an unknown write.

    ``applied_if`` is ``"non_empty"``, a mapping {field, equals: argument name} or {field, at_or_after: "start"}, or a
    function of (value, arguments) that returns a Verdict. None = the check cannot tell.
    """

    tool: str
    # Check argument -> argument of the write; empty = every argument that the check shares by name.
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    applied_if: str | Mapping[str, str] | Callable[[object, Arguments], Verdict] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """Where the upstream's idempotency key goes and how long the upstream remembers it."""

    argument: str
    valid_for: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A look at something that is not finished yet."""

    status_field: str
    pending: tuple[str, ...]
    min_interval: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyRetry:
    """Second looks where an empty answer may be a throttle (``empty_means = "unknown"``)."""

    delay: timedelta = DEFAULT_WAIT
    looks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRule:
    """Recognise a refusal, an empty or an invalid result by its text (first 4 KiB). Exactly one matcher is set."""

    prefix: str | None = None
    equals: str | None = None
    # JSON pointer into the (parsed) result, with the value that it must have.
    pointer: str | None = None
    value: str | int | float | bool | None = None
    recovery: Recovery | None = None
    outcome: Outcome | None = None
    code: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRule:
    """Recognise a result by HTTP status and the body's code."""

    status: int
    code: str | None = None
    recovery: Recovery | None = None
    outcome: Outcome | None = None
    # Code that the model sees; "" = the catalogue's code for the class.
    as_code: str = ""
    # Body fields that must equal the call's arguments; where they do not, the result is repair_input CONFLICT.
    only_if_equal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionRule:
    """Recognise an exception by ``module.Class`` (exact)."""

    exception: str
    recovery: Recovery | None = None
    outcome: Outcome | None = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Everything that the author declared about one tool (design section 3). Built by ``forbear.contract.declare``."""

    name: str
    effect: Effect = Effect.UNDECLARED
    repeatable: bool | None = None
    # Family shared by aliases; "" = the tool's name.
    operation: str = ""
    # (canonical name, argument name) pairs, or a function of the arguments; None = no target declared.
    target: tuple[tuple[str, str], ...] | Callable[[Arguments], object] | None = None
    ignore: tuple[str, ...] = ()
    quota: str | Callable[[Arguments], str | None] | None = None
    constraints: Mapping[str, Scope] = field(default_factory=dict[str, Scope])
    # "never", "always", a function of the arguments, or declarative rules (contract/gates.py compiles them to one).
    approval: str | Callable[[Arguments], RuleVerdict] = "never"
    inspect: Inspection | None = None
    idempotency_key: IdempotencyKey | None = None
    poll: Poll | None = None
    # "none" (empty is the answer) or "unknown" (a throttle can look empty).
    empty_means: str = "none"
    empty_retry: EmptyRetry = EmptyRetry()
    required: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    # Allowed preconditions: tool names.
    preconditions: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    approval_hosts: tuple[str, ...] = ()
    error_text: str = "hidden"
    text_rules: tuple[TextRule, ...] = ()
    status_rules: tuple[StatusRule, ...] = ()
    exception_rules: tuple[ExceptionRule, ...] = ()
    # Body fields that may pass to the model, by name -> "text", "number", "boolean" or the allowed values.
    safe_fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])
    # Shared holds (quota, principal) from a remote tool need a code or status that is listed here.
    shared_codes: tuple[str, ...] = ()
    # None = by trust: owned yes, remote no.
    speaks_contract: bool | None = None
    atomic: bool = True
    trust: Trust = Trust.OWNED
    secret: tuple[str, ...] = ()
    mode: Mode = Mode.ENFORCE
    # Names that may pass in `invalid_fields` (pinned input schema); empty = the arguments of the call itself.
    input_fields: tuple[str, ...] = ()
    limits: Limits = Limits()
    # Digest of this policy and the tool's definition; bound into grants and holds.
    digest: str = ""
