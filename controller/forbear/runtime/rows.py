"""Between core values and stored rows: bodies, index columns, and the lines of the journal.

Rows that only the runtime knows are in `notes.py`. Nothing is read from or written to a store here, and nothing is decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from forbear.core.decision import Decision, DropHold, PutKnown
from forbear.core.identity import digest
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Hold,
    Known,
    NeedsRepair,
    Parked,
    Phase,
    Run,
    Running,
    Stopped,
    Tree,
    Unknown,
    Waiting,
)
from forbear.core.values import Call
from forbear.core.vocabulary import Scope
from forbear.errors import StoreError
from forbear.ports import JournalLine, Row
from forbear.store.codec import decode, encode, to_us

T = TypeVar("T")

SHARED: Final = frozenset({Scope.QUOTA, Scope.PRINCIPAL})


def tree_scope(root: str) -> str:
    """Return the scope of a run tree's rows."""
    return f"tree:{root}"


def principal_scope(principal: str) -> str:
    """Return the scope of the rows that all runs of a principal share."""
    return f"principal:{principal}"


def stored(row: Row, kind: type[T]) -> T:
    """Return the value of a row.

    Raises:
        StoreError: the row holds a value of another class.
    """
    value = decode(row.body)
    if not isinstance(value, kind):
        raise StoreError(f"stored row of kind {row.kind!r} must hold a {kind.__name__}")
    return value


# ---- rows of core values --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """The index columns of an action's row; they follow from its phase."""

    due_at: datetime | None = None
    owner: str | None = None
    ticket: str | None = None
    request_id: str | None = None
    live: bool = True


def _index(phase: Phase) -> _Index:
    match phase:
        case Fresh():
            return _Index(live=False)
        case Running():
            return _Index(owner=phase.open[0].owner if phase.open else None)
        case Waiting():
            return _Index(due_at=phase.retry_at, ticket=phase.ticket, request_id=phase.told.request_id or None)
        case Parked():
            return _Index(due_at=phase.run_at, ticket=phase.ticket, request_id=phase.told.request_id or None)
        case AwaitingApproval():
            return _Index(due_at=phase.expires_at, ticket=phase.ticket, request_id=phase.told.request_id or None)
        case Approved():
            return _Index(due_at=phase.run_at or phase.grant.expires_at, ticket=phase.grant.ticket)
        case Unknown():
            return _Index(due_at=phase.inspect_at, ticket=phase.ticket, request_id=phase.told.request_id or None)
        case NeedsRepair() | Stopped():
            return _Index(request_id=phase.told.request_id or None)
        case Completed():
            return _Index(live=False, request_id=phase.request_id or None)


def tree_row(tree: Tree) -> Row:
    """Return the row of a tree."""
    return Row(scope=tree_scope(tree.root), kind="tree", key=tree.root, body=encode(tree))


def run_row(root: str, run: Run) -> Row:
    """Return the row of a run."""
    return Row(scope=tree_scope(root), kind="run", key=run.id, body=encode(run))


def action_row(root: str, action: Action) -> Row:
    """Return the row of an action with its index columns."""
    index = _index(action.phase)
    return Row(
        scope=tree_scope(root),
        kind="action",
        key=action.key,
        body=encode(action),
        due_us=None if index.due_at is None else to_us(index.due_at),
        owner=index.owner,
        ticket=index.ticket,
        request_id=index.request_id,
        live=index.live,
    )


def hold_row(root: str, principal: str, hold: Hold) -> Row:
    """Return the row of a hold, in its tree's or its principal's scope."""
    return Row(
        scope=hold_scope(root, principal, hold.scope),
        kind="hold",
        key=hold.key,
        body=encode(hold),
        ticket=hold.ticket or None,
        request_id=hold.told.request_id or None,
    )


def hold_scope(root: str, principal: str, scope: Scope) -> str:
    """Return the scope that a hold is stored in."""
    return principal_scope(principal) if scope in SHARED else tree_scope(root)


def known_row(root: str, key: str, known: Known) -> Row:
    """Return the row by which a call is recognised when it comes again."""
    return Row(scope=tree_scope(root), kind="known", key=known_id(key), body=encode(known), live=False)


def known_id(key: str) -> str:
    """Return the stored form of a known call's key, which may hold long ids of a framework."""
    return digest("known", key)


def change_rows(root: str, principal: str, decision: Decision) -> tuple[list[Row], list[tuple[str, str, str]]]:
    """Return what a decision stores and what it drops; a later change of one entity replaces an earlier one."""
    row: Row
    puts: dict[tuple[str, str, str], Row] = {}
    drops: dict[tuple[str, str, str], None] = {}
    for change in decision.changes:
        match change:
            case Tree():
                row = tree_row(change)
            case Run():
                row = run_row(root, change)
            case Action():
                row = action_row(root, change)
            case Hold():
                row = hold_row(root, principal, change)
            case PutKnown():
                row = known_row(root, change.key, change.known)
            case DropHold():
                dropped = (hold_scope(root, principal, change.scope), "hold", change.key)
                puts.pop(dropped, None)
                drops[dropped] = None
                continue
        place = (row.scope, row.kind, row.key)
        drops.pop(place, None)
        puts[place] = row
    return list(puts.values()), list(drops)


# ---- the journal ----------------------------------------------------------------------------------------------------


def line(
    *,
    at: datetime,
    root: str,
    decision: Decision,
    event: str,
    call: Call | None,
    run: str,
    phases: tuple[str, str],
    attempt: int,
    policy: str,
    request_id: str,
    actor: str = "",
    evidence: str = "",
    boundaries: tuple[str, ...] = (),
    lifted: Hold | None = None,
) -> JournalLine:
    """Return one decision as it is kept. Never arguments, never results, never text of others.

    `lifted` is the hold that an operator ended; it says which calls the line is about.
    """
    told = decision.told
    facts: tuple[tuple[str, object], ...] = (
        ("event", event),
        ("before", phases[0]),
        ("after", phases[1]),
        ("attempt", attempt),
        ("answer", decision.answer),
        ("would", decision.would),
        ("code", told.code if told is not None else ""),
        ("recovery", told.recovery if told is not None else None),
        ("outcome", told.outcome if told is not None else None),
        ("executed", told.executed if told is not None else None),
        ("ticket", decision.ticket),
        ("suppressed", decision.suppressed),
        ("policy", policy),
        ("actor", actor),
        ("step", call.step if call is not None else ""),
        ("call_id", call.call_id if call is not None else ""),
        ("fingerprint", call.fingerprint if call is not None else ""),
        ("boundaries", boundaries),
        ("evidence", evidence),
        *(() if lifted is None else _lifted(lifted)),
    )
    kept = {name: value for name, value in facts if value}
    return JournalLine(
        at_us=to_us(at),
        scope=tree_scope(root),
        run=call.run if call is not None else run,
        rule=decision.rule,
        tool=call.tool if call is not None else "",
        action=call.action if call is not None else "",
        request_id=request_id,
        body=json.dumps(kept, separators=(",", ":")).encode(),
    )


def _lifted(hold: Hold) -> tuple[tuple[str, object], ...]:
    return (
        ("lifted", hold.ticket),
        ("lifted_action", hold.action),
        ("lifted_tool", hold.tool),
        ("lifted_code", hold.code),
    )


OPENED: Final = "controller.opened"


def opened_line(at: datetime, owner: str, labels: Mapping[str, str]) -> JournalLine:
    """Return the line that says under which labels a controller writes what follows it."""
    body = json.dumps({"owner": owner, "labels": dict(labels)}, separators=(",", ":")).encode()
    return JournalLine(
        at_us=to_us(at), scope=f"owner:{owner}", run="", rule=OPENED, tool="", action="", request_id="", body=body
    )


def phase_name(phase: Phase) -> str:
    """Return the name of a phase as the journal carries it."""
    return type(phase).__name__
