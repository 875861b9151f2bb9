"""The row by which a store knows one tool's policy: what operators' processes need of it, its form, and a refused one.

It is JSON of plain values: functions are names in it. Nothing is read from or written to a store here, and which of two
policies is looser is not said here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, cast

from forbear.contract.declare import policy_form
from forbear.contract.drift import Form
from forbear.core.policy import Arguments, Limits, ToolPolicy
from forbear.core.vocabulary import Effect
from forbear.errors import StoreError
from forbear.ports import Row
from forbear.runtime.notes import Fields

KIND: Final = "policy"
# Limits of the controller that bound every run beside those of the tool; its other limits are inherited by tools.
OF_RUNS: Final = (
    "max_calls_per_turn",
    "max_calls_per_run",
    "max_blocked_steps",
    "max_idle_steps",
    "max_blocked_per_turn",
)


def policy_scope(tool: str) -> str:
    """Return the scope of what was declared about a tool when it was last used."""
    return f"policy:{tool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedPolicy:
    """What a store has of one tool's policy."""

    # What is kept of it, plain JSON; the form of a release that kept none is absent.
    members: Mapping[str, object]
    # A looser policy that waits for an operator.
    refused: RefusedPolicy | None = None

    @property
    def digest(self) -> str:
        """Return the policy's digest."""
        return str(self.members.get("digest"))

    @property
    def form(self) -> Form | None:
        """Return the policy's form, or None where a release kept none."""
        return _object(self.members.get("form"))

    @property
    def runs(self) -> Form:
        """Return what bounds every run beside it."""
        return _object(self.members.get("runs")) or {}

    def is_same(self, other: NotedPolicy) -> bool:
        """Say whether another one declares the same, in a form that can be compared."""
        return self.digest == other.digest and self.form is not None and self.runs == other.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPolicy:
    """A policy that may not take the place of the noted one before an operator allows it."""

    policy: NotedPolicy
    ticket: str
    at_us: int


def noted(policy: ToolPolicy, limits: Limits) -> NotedPolicy:
    """Return what a store keeps of a policy, and of the limits of its controller that bound every run."""
    target = policy.target
    pairs = () if target is None or callable(target) else target
    return NotedPolicy(
        members={
            "digest": policy.digest,
            "effect": policy.effect.value,
            "operation": policy.operation,
            "targeted": target is not None,
            "canonical": [name for name, _ in pairs],
            "arguments": [argument for _, argument in pairs],
            "ignore": list(policy.ignore),
            "secret": list(policy.secret),
            "approval": policy.approval if isinstance(policy.approval, str) else "always",
            "grant_ttl": policy.limits.grant_ttl.total_seconds(),
            "approval_ttl": policy.limits.approval_ttl.total_seconds(),
            "form": policy_form(policy),
            "runs": {name: getattr(limits, name) for name in OF_RUNS},
        }
    )


def policy_row(tool: str, note: NotedPolicy) -> Row:
    """Return the row of a tool's policy; while a looser one waits, the row carries its ticket."""
    members, refused = dict(note.members), note.refused
    if refused is not None:
        members["refused"] = {
            "policy": dict(refused.policy.members),
            "ticket": refused.ticket,
            "at_us": refused.at_us,
        }
    return Row(
        scope=policy_scope(tool),
        kind=KIND,
        key=tool,
        body=json.dumps(members).encode(),
        ticket=None if refused is None else refused.ticket,
    )


def noted_of(row: Row) -> NotedPolicy:
    """Return what a row says of a policy.

    Raises:
        StoreError: the row does not hold it.
    """
    fields = Fields(row)
    members = dict(fields.members)
    members.pop("refused", None)
    held = _object(fields.members.get("refused"))
    if held is None:
        return NotedPolicy(members=members)
    policy, ticket, at_us = _object(held.get("policy")), held.get("ticket"), held.get("at_us")
    if policy is None or not isinstance(ticket, str) or not isinstance(at_us, int):
        raise StoreError("stored row of kind 'policy', field 'refused': must hold policy, ticket and at_us")
    refused = RefusedPolicy(policy=NotedPolicy(members=policy), ticket=ticket, at_us=at_us)
    return NotedPolicy(members=members, refused=refused)


def policy_of(row: Row, limits: Limits) -> ToolPolicy:
    """Return a tool as a process that declares nothing knows it; what was a function is treated as strictly as may be."""
    fields = Fields(row)
    pairs = tuple(zip(fields.texts("canonical"), fields.texts("arguments"), strict=True))
    # A target that was a function is not known here: the call is covered by every target hold of its operation.
    target = pairs or (_no_target if fields.get("targeted", bool) else None)
    return ToolPolicy(
        name=row.key,
        effect=Effect(fields.get("effect", str)),
        operation=fields.get("operation", str),
        target=target,
        ignore=fields.texts("ignore"),
        secret=fields.texts("secret"),
        approval=fields.get("approval", str),
        limits=replace(
            limits,
            grant_ttl=timedelta(seconds=fields.get("grant_ttl", float)),
            approval_ttl=timedelta(seconds=fields.get("approval_ttl", float)),
        ),
        digest=fields.get("digest", str),
    )


def _no_target(_arguments: Arguments) -> object:
    return None


def _object(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None
