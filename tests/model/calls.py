"""Tools, calls and results that the explorations are made of: small closed sets. No promise and no move lives here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from forbear.core.identity import action_key, canonical, fingerprint, target_key
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.values import Call, Envelope, InvalidField, Precondition, RuleVerdict
from forbear.core.vocabulary import Executed, Gate, Outcome, Recovery

T0 = datetime(2026, 9, 6, 12, 0, tzinfo=UTC)
WAIT = timedelta(seconds=30)
ROOT = "root"
CHILD = "child"

ALLOW = RuleVerdict()
ALWAYS = RuleVerdict(gate=Gate.ASK, rule="always")
ASK = RuleVerdict(gate=Gate.ASK, rule="amount")
DENY = RuleVerdict(gate=Gate.DENY, rule="amount")
DOWN = RuleVerdict(gate=Gate.UNAVAILABLE, rule="")

# Bounds on a run that are out of the way where an exploration is not about them.
FAR = 1_000_000
LOOSE = Limits(max_blocked_steps=FAR, max_idle_steps=FAR, max_blocked_per_turn=FAR)


def call(
    policy: ToolPolicy,
    arguments: Mapping[str, object],
    *,
    run: str = ROOT,
    quota: str | None = None,
    malformed: str = "",
    forced: bool = False,
) -> Call:
    """Return a call as an adapter would build it; step and call id are filled in when it is proposed."""
    operation = policy.operation or policy.name
    target = None
    if isinstance(policy.target, tuple):
        target = target_key(operation, {name: arguments.get(argument) for name, argument in policy.target})
    text = canonical(arguments)
    return Call(
        run=run,
        step="",
        call_id="",
        tool=policy.name,
        arguments=text,
        fingerprint=fingerprint(policy.name, "", text),
        action=action_key(operation, arguments, policy.ignore),
        operation=operation,
        effect=policy.effect,
        target=target,
        target_declared=policy.target is not None,
        quota=quota,
        malformed=malformed,
        missing=("size",) if malformed == "INPUT_INVALID" else (),
        forced=forced,
    )


def arguments_of(made: Call) -> dict[str, object]:
    """Return the arguments of a call, parsed."""
    parsed: dict[str, object] = json.loads(made.arguments)
    return parsed


def _no(code: str, recovery: Recovery, outcome: Outcome = Outcome.REFUSED, **fields: object) -> Envelope:
    made = Envelope(outcome=outcome, executed=Executed.NO, code=code, recovery=recovery)
    return replace(made, **fields)  # type: ignore[arg-type]  # fields of Envelope, written in the table below


Result = Callable[[datetime], Envelope]


def _done(outcome: Outcome) -> Result:
    return lambda now: Envelope(outcome=outcome, executed=Executed.YES)


def _same(envelope: Envelope) -> Result:
    return lambda now: envelope


RESULTS: Mapping[str, Result] = {
    "ok": _done(Outcome.SUCCESS),
    "empty": _done(Outcome.EMPTY),
    "satisfied": _done(Outcome.ALREADY_SATISFIED),
    "refused": _same(_no("DESK_FROZEN", Recovery.DO_NOT_RETRY)),
    "denied": _same(_no("NOT_ALLOWED", Recovery.DO_NOT_RETRY, Outcome.DENIED)),
    "refused-until": lambda now: _no("LIMIT_REACHED", Recovery.DO_NOT_RETRY, reset_at=now + WAIT),
    "refused-desk": _same(_no("DESK_FROZEN", Recovery.DO_NOT_RETRY, constraint="desk_status")),
    "refused-unsure": _same(_no("TOOL_ERROR", Recovery.DO_NOT_RETRY, Outcome.FAILED, executed=Executed.UNKNOWN)),
    "vault": _same(_no("VAULT_LOCKED", Recovery.DO_NOT_RETRY)),
    "alternative": _same(_no("WRONG_TOOL", Recovery.USE_ALTERNATIVE, alternative_tools=("alias",))),
    "wait": lambda now: _no("RATE_LIMITED", Recovery.RETRY_AFTER, reset_at=now + WAIT),
    "wait-far": lambda now: _no("RATE_LIMITED", Recovery.RETRY_AFTER, reset_at=now + timedelta(hours=30)),
    "wait-no-reset": _same(_no("RATE_LIMITED", Recovery.RETRY_AFTER)),
    "wait-down": _same(_no("NOT_SENT", Recovery.RETRY_AFTER, Outcome.FAILED, temporary=True, not_accepted=True)),
    "wait-unsure": lambda now: _no(
        "RATE_LIMITED", Recovery.RETRY_AFTER, reset_at=now + WAIT, executed=Executed.UNKNOWN
    ),
    "wait-partly": lambda now: _no(
        "RATE_LIMITED", Recovery.RETRY_AFTER, reset_at=now + WAIT, effects_before_failure=True
    ),
    "repair": _same(_no("INPUT_INVALID", Recovery.REPAIR_INPUT, Outcome.INVALID)),
    "repair-size": _same(
        _no("INPUT_INVALID", Recovery.REPAIR_INPUT, Outcome.INVALID, invalid_fields=(InvalidField(name="size"),))
    ),
    "repair-first": _same(
        _no(
            "NOT_READY",
            Recovery.REPAIR_INPUT,
            Outcome.INVALID,
            precondition=Precondition(tool="prepare", arguments='{"desk":"a"}'),
        )
    ),
    "repair-unsure": _same(_no("INPUT_INVALID", Recovery.REPAIR_INPUT, Outcome.INVALID, executed=Executed.UNKNOWN)),
    "asks": _same(_no("APPROVAL_REQUIRED", Recovery.REQUEST_APPROVAL)),
    "unknown": _same(
        Envelope(
            outcome=Outcome.UNKNOWN,
            executed=Executed.UNKNOWN,
            code="OUTCOME_UNKNOWN",
            recovery=Recovery.INSPECT_OUTCOME,
        )
    ),
    "partly": _same(
        Envelope(
            outcome=Outcome.PARTIAL,
            executed=Executed.YES,
            code="PARTIAL_SUCCESS",
            recovery=Recovery.INSPECT_OUTCOME,
        )
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One exploration: which tools and calls there are, what they may answer, and what else can happen."""

    name: str
    about: str
    tools: tuple[ToolPolicy, ...]
    calls: Mapping[str, Call]
    # Names in RESULTS that a call may answer, by the call's name; "" = every other call.
    results: Mapping[str, tuple[str, ...]]
    # What the author's rule may say when a call is decided, by the call's name; absent = allow.
    verdicts: Mapping[str, tuple[RuleVerdict, ...]] = field(default_factory=dict[str, tuple[RuleVerdict, ...]])
    limits: Limits = LOOSE
    # What else can happen; see world.py.
    also: frozenset[str] = frozenset()
    # Executions of one action, and of all actions together, beyond which a history is not followed.
    attempts: int = 3
    starts: int = FAR
    # How far back the past still matters.
    memory: timedelta = timedelta(0)
    has_approver: bool = True
    principal: str = "desk-account"

    def policy(self, tool: str) -> ToolPolicy:
        """Return the policy of a tool."""
        return next(policy for policy in self.tools if policy.name == tool)
