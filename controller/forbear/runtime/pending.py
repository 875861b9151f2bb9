"""What waits for a person or the clock, as a person sees it: prompts, waits, unknown outcomes, holds. Nothing is answered.

It works in the agent's process and in any other process on the same store; there it knows of a tool what the agent's
process last noted (names, no functions).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from forbear.core.identity import canonical
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, Approved, AwaitingApproval, Hold, Parked, Unknown, Waiting
from forbear.core.vocabulary import Cause, Scope
from forbear.ports import Row
from forbear.runtime.display import Shown, shown
from forbear.runtime.drift import drifts, named, value_of
from forbear.runtime.engine import Engine
from forbear.runtime.lookups import find_root, noted_policy, parent_of, prompt_facts
from forbear.runtime.policy_rows import noted_of
from forbear.runtime.rows import stored
from forbear.runtime.steps import Flow, transact
from forbear.store.codec import from_us

# Kinds of rows that carry a ticket; POLICY: a looser policy that was refused.
POLICY: Final = "policy"
KINDS: Final = frozenset({"action", "hold", POLICY})
_MAX_PATH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One thing that waits for a person or the clock."""

    # approval, granted, wait, unknown, hold or policy.
    kind: str
    ticket: str
    tool: str
    source: str
    run: str
    # Runs from the root to the one that asked.
    path: tuple[str, ...]
    # Rule that asked (approval), cause of the hold, or "".
    rule: str
    code: str
    # What the run was told, in one line.
    message: str
    # Digest of exactly this call (of this policy); an answer must carry it.
    fingerprint: str
    arguments: tuple[Shown, ...]
    since_at: datetime
    # When it runs, is looked at, or expires (a prompt, a yes that is not spent); None = it waits for a person.
    due_at: datetime | None = None
    # HOLD: what it covers, and what ends it besides an operator (turn, probe, person, verdict, repair, time, run).
    scope: str = ""
    end: str = ""
    # Prompts that were shown for this run tree before.
    prompts_before: int = 0
    # What the run was told it under; it is what `explain` takes.
    request_id: str = ""


_OWN_TIME: Final = (f"{Scope.ACTION.value}:", f":{Cause.TIME.value}")


def is_listed(row: Row) -> bool:
    """Say whether a row is something that waits by itself: the time of a waiting call is told with the call."""
    if row.kind == "hold" and row.key.startswith(_OWN_TIME[0]) and row.key.endswith(_OWN_TIME[1]):
        return False
    return row.kind in KINDS


def pending_flow(engine: Engine, row: Row, limit: int | None) -> Flow[Pending]:
    """Return one thing that waits; its arguments are shown up to `limit` characters each (None = whole)."""
    if row.kind == "hold":
        return (yield from held_flow(engine, stored(row, Hold)))
    if row.kind == POLICY:
        return _refused(row, limit)
    action = stored(row, Action)
    root = row.scope.removeprefix("tree:")
    call, phase = action.call, action.phase
    policy = yield from policy_flow(engine, call.tool)
    before = 0
    rule, due_at, since_at, told = "", None, None, None
    if isinstance(phase, AwaitingApproval):
        kind, rule, told = "approval", phase.rule, phase.told
        since_at, due_at = phase.asked_at, phase.expires_at
        before = (yield from transact(prompt_facts(root, phase.ticket), None)).before
    elif isinstance(phase, (Waiting, Parked)):
        kind, told, since_at = "wait", phase.told, phase.since_at
        due_at = phase.retry_at if isinstance(phase, Waiting) else phase.run_at
    elif isinstance(phase, Unknown):
        kind, told, since_at, due_at = "unknown", phase.told, phase.started_at, phase.inspect_at
    else:
        assert isinstance(phase, Approved)
        kind, rule, due_at = "granted", phase.grant.rule, phase.grant.expires_at
        since_at = due_at - policy.limits.grant_ttl
    envelope = None if told is None else engine.envelope(told, "")
    return Pending(
        kind=kind,
        ticket=row.ticket or "",
        tool=call.tool,
        source=call.source,
        run=call.run,
        path=(yield from path_flow(root, call.run)),
        rule=rule,
        code="" if envelope is None else envelope.code,
        message="" if envelope is None else envelope.safe_message or "",
        fingerprint=call.fingerprint,
        arguments=shown(call.arguments, policy.secret, limit=limit),
        since_at=since_at,
        due_at=due_at,
        prompts_before=before,
        request_id="" if told is None else told.request_id,
    )


def _refused(row: Row, limit: int | None) -> Pending:
    """Return a looser policy that waits for an operator: what each of its looser fields would be."""
    note = noted_of(row)
    refused = note.refused
    assert refused is not None, "a policy's row carries a ticket only while another one waits"
    looser = [one for one in drifts(note, refused.policy) if one.looser]
    return Pending(
        kind=POLICY,
        ticket=refused.ticket,
        tool=row.key,
        source="",
        run="",
        path=(),
        rule="",
        code="",
        message=named(looser),
        fingerprint=refused.policy.digest,
        arguments=shown(canonical({one.field: value_of(refused.policy, one.field) for one in looser}), (), limit=limit),
        since_at=from_us(refused.at_us),
    )


def held_flow(engine: Engine, hold: Hold) -> Flow[Pending]:
    """Return a hold as something that waits."""
    envelope = engine.envelope(hold.told, "")
    root = (yield from transact(find_root(hold.run), None)).link or hold.run
    return Pending(
        kind="hold",
        ticket=hold.ticket,
        tool=hold.tool,
        source="",
        run=hold.run,
        path=(yield from path_flow(root, hold.run)),
        rule=hold.cause.name.lower(),
        code=hold.code,
        message=envelope.safe_message or "",
        fingerprint="",
        arguments=(),
        since_at=hold.placed_at,
        due_at=hold.ends_at,
        scope=hold.scope.value,
        end=hold.end.value,
        request_id=hold.told.request_id,
    )


def path_flow(root: str, run: str) -> Flow[tuple[str, ...]]:
    """Return the runs from the root of a tree to one of its runs."""
    path = [run]
    while path[0] != root and len(path) < _MAX_PATH:
        parent = yield from transact(parent_of(root, path[0]), root)
        path.insert(0, parent or root)
    return tuple(path)


def policy_flow(engine: Engine, tool: str) -> Flow[ToolPolicy]:
    """Return what is known about a tool: declared here, else as the agent's process noted it last."""
    tools = engine.tools
    if not tools.is_declared(tool):
        noted = yield from transact(noted_policy(tool, engine.limits), None)
        if noted is not None:
            tools.remember(noted)
    return tools.known_policy(tool)
