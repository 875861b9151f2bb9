"""Whether a policy may take the place of the one that a store has: noted, changed, loosened by an operator, or refused.

Which of two policies is looser is said by `forbear.contract.drift`; what a row holds is in `policy_rows.py`. Nothing is
decided about a call here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, cast

from forbear.contract.declare import policy_form
from forbear.contract.drift import Drift, compare, compare_limits
from forbear.core.policy import Limits, ToolPolicy
from forbear.errors import NotOperator, StoreError, UsageError
from forbear.ports import Ids, JournalLine, Row
from forbear.runtime.effects import Program, put_row, read_clock, read_scope
from forbear.runtime.policy_rows import KIND, NotedPolicy, RefusedPolicy, noted, noted_of, policy_row, policy_scope
from forbear.runtime.program import MAX_RACES
from forbear.runtime.token import has_token, may_answer
from forbear.store.codec import to_us

NOTED: Final = "policy.noted"
CHANGED: Final = "policy.changed"
LOOSENED: Final = "policy.loosened"
REFUSED: Final = "policy.refused"
# Who allowed a policy whose application brought the token; other allowances name a person.
APPLICATION: Final = "the application"

_USUAL: Final = policy_form(ToolPolicy(name=""))
# A difference that is in no field: what else defines the tool (its description, its input schema).
_DEFINITION: Final = Drift(field="definition", looser=False, rule="may change")
# What a store of an earlier release kept cannot be compared.
_UNCOMPARED: Final = Drift(field="policy", looser=True, rule="was kept in a form that cannot be compared")


def drifts(old: NotedPolicy, new: NotedPolicy) -> tuple[Drift, ...]:
    """Return in which fields a policy, or what bounds every run beside it, is not what it was."""
    if old.form is None or new.form is None:
        return (_UNCOMPARED,)
    fields = compare(old.form, new.form, _USUAL)
    runs = compare_limits({"limits": old.runs}, {"limits": new.runs}, {})
    return (*fields, *(replace(one, field=f"controller.{one.field}") for one in runs)) or (_DEFINITION,)


def note_policy(policy: ToolPolicy, limits: Limits, *, token: str | None, ids: Ids) -> Program[None]:
    """Let the store know what is declared about a tool; where it has an operator token, a looser policy needs it.

    A policy that is new, equal or tighter is taken. Each change is journalled with its fields.

    Args:
        policy: What is declared here.
        limits: The controller's own.
        token: The operator token that the controller was given.
        ids: Makes the ticket of a policy that is refused.

    Raises:
        NotOperator: the policy is looser than what the store has, and the store's token was not given. It was journalled,
            once, and waits for an operator under a ticket; what the store has is as it was.
        StoreError: the store cannot be read or written.
    """
    scope, new = policy_scope(policy.name), noted(policy, limits)
    for _ in range(MAX_RACES):
        found = yield from read_scope(scope)
        old = _noted_in(found.rows)
        if old is not None and old.digest == new.digest and old.form is not None:
            # A process that declares nothing knows the tool by what the store has: by less than its form.
            new = replace(new, members={**new.members, "form": old.form})
            if old.runs == new.runs:
                return
        changes = () if old is None else drifts(old, new)
        looser = [one for one in changes if one.looser]
        rule, actor = NOTED if old is None else CHANGED, ""
        if old is not None and looser and (yield from has_token()):
            if not (yield from may_answer(token)):
                yield from _refuse(policy.name, found.version, old, new, looser, ids)
                continue
            rule, actor = LOOSENED, APPLICATION
        line = _line(policy.name, (yield from read_clock()), rule, new, changes, actor=actor)
        if (yield from put_row(policy_row(policy.name, new), version=found.version, journal=(line,))):
            return
    raise StoreError(f"the policy of tool {policy.name!r} lost {MAX_RACES} races against other writers")


def _refuse(
    tool: str, version: int, old: NotedPolicy, new: NotedPolicy, looser: Sequence[Drift], ids: Ids
) -> Program[None]:
    """Write a looser policy down for an operator, and refuse it; it returns only where another writer was first.

    Raises:
        NotOperator: it is written down, now or since an earlier attempt.
    """
    waiting = old.refused
    if waiting is None or not waiting.policy.is_same(new):
        now = yield from read_clock()
        waiting = RefusedPolicy(policy=new, ticket=ids.ticket(), at_us=to_us(now))
        row = policy_row(tool, replace(old, refused=waiting))
        if not (yield from put_row(row, version=version, journal=(_line(tool, now, REFUSED, new, looser),))):
            return
    raise NotOperator(
        f"tool {tool!r}: {named(looser)}. This is looser than the policy that the store has, and the store has an operator "
        f"token: 'forbear allow {waiting.ticket}' allows it, or Controller.open(token=...)"
    )


def allow_policy(tool: str, ticket: str, digest: str, *, actor: str) -> Program[tuple[Drift, ...]]:
    """Let the policy that waits under a ticket take the place of the noted one; return what changed.

    Raises:
        UsageError: none waits there, or another one does; nothing was changed.
        StoreError: the store cannot be read or written.
    """
    for _ in range(MAX_RACES):
        found = yield from read_scope(policy_scope(tool))
        old = _noted_in(found.rows)
        waiting = None if old is None else old.refused
        if old is None or waiting is None or waiting.ticket != ticket:
            raise UsageError(f"ticket {ticket!r}: is not that of a policy that waits (unknown, or over already)")
        if waiting.policy.digest != digest:
            raise UsageError("fingerprint: must be that of the policy that is shown")
        changes = drifts(old, waiting.policy)
        line = _line(tool, (yield from read_clock()), LOOSENED, waiting.policy, changes, actor=actor)
        if (yield from put_row(policy_row(tool, waiting.policy), version=found.version, journal=(line,))):
            return changes
    raise StoreError(f"the policy of tool {tool!r} lost {MAX_RACES} races against other writers")


def value_of(policy: NotedPolicy, field: str) -> object:
    """Return what a policy says in one field, named as in `Drift`; None where it says nothing."""
    form: object = {**(policy.form or {}), "controller": {"limits": policy.runs}}
    for part in field.split("."):
        form = cast("Mapping[str, object]", form).get(part) if isinstance(form, Mapping) else None
    return form


def named(changes: Sequence[Drift]) -> str:
    """Return fields and what each of them must not do, in one line."""
    return "; ".join(f"field {one.field!r} {one.rule}" for one in changes)


def _noted_in(rows: Sequence[Row]) -> NotedPolicy | None:
    return next((noted_of(row) for row in rows if row.kind == KIND), None)


def _line(
    tool: str, now: datetime, rule: str, policy: NotedPolicy, changes: Sequence[Drift], *, actor: str = ""
) -> JournalLine:
    """Return the journal line: what is kept of the policy, and the fields that changed; no values of them."""
    body: dict[str, object] = {name: value for name, value in policy.members.items() if name not in ("form", "runs")}
    if changes:
        body["looser"] = [one.field for one in changes if one.looser]
        body["other"] = [one.field for one in changes if not one.looser]
    if actor:
        body["actor"] = actor
    return JournalLine(
        at_us=to_us(now),
        scope=policy_scope(tool),
        run="",
        rule=rule,
        tool=tool,
        action="",
        request_id="",
        body=json.dumps(body).encode(),
    )
