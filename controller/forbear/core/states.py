"""What the controller remembers: phases of an action, holds, runs and trees, as frozen values. Nothing is decided here.

One dataclass per phase with the fields that this phase needs and no others. A `told` envelope is what the model was
told, so that it can be told the same again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forbear.core.values import Call, Envelope, Grant
from forbear.core.vocabulary import Cause, End, Outcome, Scope

# Name of the rule where a tool asked through its framework.
FRAMEWORK = "framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One open attempt: who holds it and what it passed."""

    attempt: int
    run: str
    step: str
    call_id: str
    started_at: datetime
    # Identity of the process that executes it; a dead owner makes the attempt lost.
    owner: str
    # Keys of the holds that this start claims (time) or probes (refusal).
    claims: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Nothing stands against this action by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """At least one attempt is open. Only repeatable actions have several."""

    open: tuple[Started, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Refused until a time; the controller retries once at or after `retry_at`."""

    ticket: str
    retry_at: datetime
    since_at: datetime
    turn: int
    told: Envelope
    # Key of the time hold that this retry claims.
    hold: str | None = None
    grant: Grant | None = None
    # Never accepted by the other side: due at once when it is reconnected.
    not_accepted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Kept by the controller for a first start at `run_at` (time hold, poll interval, checker, open prompts)."""

    ticket: str
    run_at: datetime
    since_at: datetime
    turn: int
    told: Envelope
    # Key of the time hold that it waits for; None = another reason.
    hold: str | None = None
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingApproval:
    """A person is being asked about exactly `fingerprint`."""

    ticket: str
    rule: str
    fingerprint: str
    run: str
    asked_at: datetime
    expires_at: datetime
    told: Envelope
    # The framework asks and answers by itself (it raised its own interrupt); a re-proposal runs.
    by_framework: bool = False
    # Grants answer `request_approval` results at most once per turn.
    after_attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A person said yes to exactly this call; one start may spend it."""

    grant: Grant
    fingerprint: str
    # When the controller starts it by itself; None = the framework proposes it again.
    run_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A write may have happened. Nothing but a verdict, a person or the late result ends this."""

    attempt: int
    ticket: str
    started_at: datetime
    told: Envelope
    hold: str
    inspections: int = 0
    # First time that the check found nothing; absence counts only twice, `settle` apart.
    absent_at: datetime | None = None
    # When the controller looks next; None = it does not look (any more).
    inspect_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsRepair:
    """The same input does not run before something that it may depend on has changed."""

    attempt: int
    turn: int
    told: Envelope
    fields: tuple[str, ...] = ()
    # Completed writes of the tree when it was refused.
    writes: int = 0
    hold: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The effect is there; a completed result is never retried."""

    attempt: int
    outcome: Outcome
    turn: int
    started_at: datetime
    request_id: str
    # Completed writes of the tree after this one.
    writes: int
    # Run and step that it was executed in (step_key), for equal calls of one step.
    step: str = ""
    # Restart epoch of the tree; an older one is delivered once to a restarted run.
    epoch: int = 0
    # None = no poll; otherwise whether the status is finished.
    finished: bool | None = None
    # The result is kept in the store and can be delivered from the record.
    kept: bool = False
    told: Envelope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Refused, denied or exhausted."""

    code: str
    told: Envelope
    turn: int
    # Key of the hold that must end first.
    hold: str


Phase = Fresh | Running | Waiting | Parked | AwaitingApproval | Approved | Unknown | NeedsRepair | Completed | Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """(tree, operation, arguments without `ignore` fields), its phase and its counters."""

    key: str
    # The call as last decided; its `arguments` are the frozen bytes that run.
    call: Call
    phase: Phase = Fresh()
    # Number of the last attempt; attempts are never renumbered.
    attempts: int = 0
    # Turn that the counters below belong to; older counters read as zero.
    turn: int = 0
    retries: int = 0
    checks: int = 0
    repairs: int = 0
    replays: int = 0
    same_results: int = 0
    empty_looks: int = 0
    asked_by_tool: int = 0
    # Attempt after which the one repetition with the same idempotency key was used; 0 = not used.
    key_spent: int = 0
    last_result: str = ""
    last_result_at: datetime | None = None
    last_writes: int = 0
    # Equal calls of other runs that were given this action's ticket, one a run: they are told what becomes of it.
    joined: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The attempt that answers for a hold: the claimed retry of a time hold, or the probe of a refusal."""

    tree: str
    action: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A reason why covered calls may not run (design section 5). Its key is scope, value and cause."""

    key: str
    scope: Scope
    # Digest or name that the scope is about.
    value: str
    cause: Cause
    end: End
    code: str
    told: Envelope
    ticket: str
    # Where it came from: operation, tool, action, run, step.
    operation: str
    tool: str
    action: str
    run: str
    step: str
    turn: int
    placed_at: datetime
    policy: str = ""
    # TIME: not before this instant. REFUSAL: the end that the refusal named, None = one probe per new turn.
    ends_at: datetime | None = None
    claim: Claim | None = None
    # Turn in which the probe was last used.
    probed: int = 0
    # Calls that wait for this hold's time, by `place_key`.
    parked: tuple[str, ...] = ()
    # Steps that were blocked under it, and the last one counted.
    blocked: int = 0
    last_step: str = ""
    # UNKNOWN: reads pass.
    writes_only: bool = False
    # DENIAL: covers only calls that the author's rule would ask or deny.
    gated_only: bool = False
    # Tools that are exempt (declared alternatives).
    exempt: tuple[str, ...] = ()
    # REPAIR: (field, digest of its refused value).
    fields: tuple[tuple[str, str], ...] = ()
    # REPAIR: the call (precondition_key) whose completion ends it.
    precondition: str | None = None
    # From an observed tool: covers only observed tools.
    observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """A run's tool use is over until a new turn or an operator."""

    # BLOCKED, WAITING, BUDGET, FORCED.
    reason: str
    told: Envelope
    at: datetime
    clear_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One agent run of the tree: its halt, its step and its bounds."""

    id: str
    parent: str | None = None
    halted: Halt | None = None
    # Turn that the counters belong to; older counters read as zero.
    turn: int = 0
    step: str = ""
    seen: int = 0
    all_blocked: bool = True
    all_idle: bool = True
    closed: bool = True
    blocked_steps: int = 0
    idle_steps: int = 0
    blocked_in_turn: int = 0
    calls_in_turn: int = 0
    calls_in_run: int = 0
    # operation, executions in this turn, executions in this run.
    operations: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Refusals of one code from one operation in a row, no success between; calls of one step count once."""

    operation: str
    code: str
    count: int
    step: str
    action: str
    # Distinct actions refused with retry_after.
    waits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What a root run and its children share."""

    root: str
    principal: str
    turn: int = 1
    turn_at: datetime | None = None
    epoch: int = 0
    # Turn in which a run was last restarted; a new turn ends the replay.
    restarted: int = 0
    # Completed writes so far.
    writes: int = 0
    # target digest -> (action that wrote last, value of `writes` then), this turn only.
    target_writes: tuple[tuple[str, str, int], ...] = ()
    streaks: tuple[Streak, ...] = ()
    # target or operation -> (repairs in a row, last step).
    repairs: tuple[tuple[str, int, str], ...] = ()
    # operation -> denials in a row.
    denials: tuple[tuple[str, int], ...] = ()
    # Answered no since the last yes, and in this turn.
    noes: int = 0
    noes_in_turn: int = 0
    open_prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A call that was seen before: same run, step, call id and fingerprint."""

    action: str
    # Attempt that answers it.
    attempt: int
    # That attempt completed and its result is delivered from the record.
    completed: bool = False


def hold_key(scope: Scope, value: str, cause: Cause, *, mark: str = "") -> str:
    """Return the key of the one hold of this cause on this scope; marks tell apart what one cause may say twice."""
    key = f"{scope.value}:{value}:{cause.value}"
    return f"{key}:{mark}" if mark else key


def place_key(hold: Hold, root: str, action: str) -> str:
    """Return the name of an action among those that wait for a hold: equal calls of two trees have two places."""
    return f"{root}\x1f{action}" if hold.scope in (Scope.QUOTA, Scope.PRINCIPAL) else action


def action_of(place: str) -> str:
    """Return the action that has a place."""
    return place.rpartition("\x1f")[2]


def step_key(run: str, step: str) -> str:
    """Return the name of one step of one run."""
    return f"{run}\x1f{step}"


def precondition_key(tool: str, arguments: str) -> str:
    """Return the name of a call that a refusal made a precondition; `arguments` is canonical."""
    return f"{tool}\x1f{arguments}"


def known_key(run: str, step: str, call_id: str, fingerprint: str) -> str:
    """Return the key under which a call is recognised when it comes again."""
    return f"{run}\x1f{step}\x1f{call_id}\x1f{fingerprint}"
