"""Calls and envelopes as values: what was proposed, and what a result says. No decision and no wire format lives here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from forbear.core.vocabulary import Effect, Executed, Gate, Outcome, Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """A call that must have completed in this run before a refused one may run (``recovery = repair_input``)."""

    tool: str
    # Canonical JSON of the arguments (see core/identity.py).
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidField:
    """A field to repair: its name or JSON pointer and a rule word, never a value."""

    name: str
    rule: str = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A result in the contract's form (design section 2), without the tool's data.

    Every text in it has passed the allowlists of ``forbear.contract``; nothing is checked again later.
    """

    outcome: Outcome
    executed: Executed
    request_id: str = ""
    code: str = ""
    recovery: Recovery | None = None
    constraint: str | None = None
    limit: int | float | None = None
    remaining: int | float | None = None
    # The instant that the refusal named, aware UTC; None = not named. Floor, margin and jitter are added by the core.
    reset_at: datetime | None = None
    retry_after_seconds: int | None = None
    invalid_fields: tuple[InvalidField, ...] = ()
    precondition: Precondition | None = None
    alternative_tools: tuple[str, ...] = ()
    required_permission: str | None = None
    approval_url: str | None = None
    http_status: int | None = None
    operation: str | None = None
    safe_message: str | None = None
    effects_before_failure: bool = False
    # meta.reason of a completed or pending result (NO_MATCHES, RESULT_NOT_KEPT, ...).
    reason: str | None = None
    # Declared safe body fields (policy safe_fields), name and scalar.
    safe_fields: tuple[tuple[str, str | int | float | bool | None], ...] = ()
    # Hints for the core that never leave it: a temporary failure; a call that was certainly never accepted.
    temporary: bool = False
    not_accepted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """What the author's approval rule said about one call."""

    gate: Gate = Gate.ALLOW
    # Name of the rule; "always" for approval = "always"; "" where the gate allows without naming one.
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One proposal, with everything that identity needs computed once (core/identity.py).

    Digests are 32 lowercase hex characters.
    """

    run: str
    step: str
    call_id: str
    tool: str
    # Where the tool comes from ("" in process, else the server's registered name): part of the fingerprint.
    source: str = ""
    # Canonical JSON text of all arguments: exactly what runs.
    arguments: str
    fingerprint: str
    # Digest of operation and canonical arguments without the policy's `ignore` fields.
    action: str
    operation: str
    effect: Effect
    # Digest of operation and declared target values; None = no target declared, or not scalar in this call.
    target: str | None = None
    target_declared: bool = False
    quota: str | None = None
    verdict: RuleVerdict = field(default_factory=RuleVerdict)
    # How many calls the step holds, where the adapter knows it.
    siblings: int = 1
    # The framework was told to call this tool.
    forced: bool = False
    # INPUT_TRUNCATED or INPUT_INVALID where the proposal cannot be used; "" = well formed.
    malformed: str = ""
    # The names that made it INPUT_INVALID (missing required fields).
    missing: tuple[str, ...] = ()
    # A person wrote these arguments: results of it say which arguments ran.
    edited: bool = False
    # The action that equal calls of all runs share, where this run's call is asked about on its own ("" = `action`).
    base: str = ""

    @property
    def common(self) -> str:
        """Return the action that equal calls of all runs of the tree share."""
        return self.base or self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A person's yes, bound to one call, spent once."""

    ticket: str
    rule: str
    expires_at: datetime
    actor: str = ""
    # Digest of the tool's policy and definition that the person saw it under; another one makes it void.
    policy: str = ""
