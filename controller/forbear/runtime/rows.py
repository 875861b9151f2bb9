"""Between core values and stored rows: index columns, journal lines, and the few rows that only the runtime knows.

Nothing is read from or written to a store here, and nothing is decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from forbear.core.decision import Decision, DropHold, PutKnown
from forbear.core.identity import digest
from forbear.core.policy import Arguments, Limits, ToolPolicy
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
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Effect, Scope
from forbear.errors import StoreError
from forbear.ports import JournalLine, Row
from forbear.store.codec import decode, encode, to_us

T = TypeVar("T")

SHARED: Final = frozenset({Scope.QUOTA, Scope.PRINCIPAL})
# A recorded result is kept up to this size (design section 7).
MAX_RESULT_BYTES: Final = 64 * 1024
KEYS_SCOPE: Final = "keys"
# So many turn ids of the root run are remembered; an older id that comes again is not a new turn.
MAX_TURNS: Final = 32


def tree_scope(root: str) -> str:
    """Return the scope of a run tree's rows."""
    return f"tree:{root}"


def principal_scope(principal: str) -> str:
    """Return the scope of the rows that all runs of a principal share."""
    return f"principal:{principal}"


def run_scope(run: str) -> str:
    """Return the scope that says which tree a child run belongs to."""
    return f"run:{run}"


def result_key(action: str, attempt: int) -> str:
    """Return the key of the recorded result of one attempt."""
    return f"{action}:{attempt}"


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


# ---- rows that only the runtime knows -------------------------------------------------------------------------------


def turns_row(root: str, turns: tuple[str, ...]) -> Row:
    """Return the row of the turn ids that the root run has seen, oldest first, as digests."""
    return Row(scope=tree_scope(root), kind="turns", key=root, body=json.dumps(turns).encode())


def turns_of(row: Row) -> tuple[str, ...]:
    """Return the digests of the turn ids that the root run has seen."""
    return tuple(_texts(row))


def _texts(row: Row) -> list[str]:
    parsed: object = _json(row)
    if isinstance(parsed, list) and all(isinstance(item, str) for item in parsed):  # pyright: ignore[reportUnknownVariableType]
        return parsed  # pyright: ignore[reportUnknownVariableType]
    raise StoreError(f"stored row of kind {row.kind!r} must hold a list of texts")


def _json(row: Row) -> object:
    try:
        parsed: object = json.loads(row.body)
    except ValueError:
        raise StoreError(f"stored row of kind {row.kind!r} must be JSON") from None
    return parsed


def secret_row(secret: bytes) -> Row:
    """Return the row of the key of idempotency keys."""
    return Row(scope=KEYS_SCOPE, kind="secret", key="idempotency", body=secret, live=False)


def completions_row(root: str, action: str, count: int) -> Row:
    """Return the row of how often an action has completed (kept only where an idempotency key is declared)."""
    return Row(scope=tree_scope(root), kind="completions", key=action, body=str(count).encode(), live=False)


def count_of(row: Row | None) -> int:
    """Return the number that a row counts; 0 where there is none."""
    return 0 if row is None else int(row.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """What is remembered of a prompt beside the action's phase."""

    # The framework proposes an approved call again by itself.
    reproposes: bool = False
    # Prompts that a person was shown for this tree before.
    before: int = 0


def prompt_rows(root: str, ticket: str, facts: PromptFacts) -> tuple[Row, Row]:
    """Return the row of a prompt, and that of how many a tree has had."""
    scope = tree_scope(root)
    body = json.dumps({"reproposes": facts.reproposes, "before": facts.before}).encode()
    return (
        Row(scope=scope, kind="prompt", key=ticket, body=body, live=False),
        Row(scope=scope, kind="prompts", key=root, body=str(facts.before + 1).encode()),
    )


def prompt_of(row: Row | None) -> PromptFacts:
    """Return what is remembered of a prompt."""
    parsed = {} if row is None else _json(row)
    if not isinstance(parsed, dict):
        raise StoreError("stored row of kind 'prompt' must hold an object")
    return PromptFacts(reproposes=parsed.get("reproposes") is True, before=int(parsed.get("before", 0)))


def policy_scope(tool: str) -> str:
    """Return the scope of what was declared about a tool when it was last used."""
    return f"policy:{tool}"


def policy_row(policy: ToolPolicy) -> Row:
    """Return the row by which a process that declares nothing (an operator's) knows a tool: names only, no functions."""
    kept = {
        "digest": policy.digest,
        "effect": policy.effect.value,
        "operation": policy.operation,
        "target": [list(pair) for pair in policy.target] if isinstance(policy.target, tuple) else None,
        "targeted": policy.target is not None,
        "ignore": list(policy.ignore),
        "secret": list(policy.secret),
        "approval": policy.approval if isinstance(policy.approval, str) else "always",
        "grant_ttl": policy.limits.grant_ttl.total_seconds(),
        "approval_ttl": policy.limits.approval_ttl.total_seconds(),
    }
    return Row(scope=policy_scope(policy.name), kind="policy", key=policy.name, body=json.dumps(kept).encode())


def policy_of(row: Row, limits: Limits) -> ToolPolicy:
    """Return a tool as a process that declares nothing knows it; what was a function is treated as strictly as may be."""
    kept = _json(row)
    if not isinstance(kept, dict):
        raise StoreError("stored row of kind 'policy' must hold an object")
    target: Callable[[Arguments], object] | tuple[tuple[str, str], ...] | None = None
    if kept["target"] is not None:
        target = tuple((str(name), str(argument)) for name, argument in kept["target"])
    elif kept["targeted"]:
        # No target that is known here: covered by every target hold of the operation.
        target = _no_target
    return ToolPolicy(
        name=row.key,
        effect=Effect(kept["effect"]),
        operation=kept["operation"],
        target=target,
        ignore=tuple(kept["ignore"]),
        secret=tuple(kept["secret"]),
        approval=kept["approval"],
        limits=replace(
            limits,
            grant_ttl=timedelta(seconds=kept["grant_ttl"]),
            approval_ttl=timedelta(seconds=kept["approval_ttl"]),
        ),
        digest=kept["digest"],
    )


def _no_target(_arguments: Arguments) -> object:
    return None


def link_row(run: str, root: str) -> Row:
    """Return the row that says which tree a child run belongs to."""
    return Row(scope=run_scope(run), kind="link", key=run, body=root.encode(), live=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A result that became ready outside a call; handed out once."""

    action: str
    attempt: int
    run: str
    step: str
    call_id: str
    tool: str
    rule: str
    answer: Answer
    told: Envelope
    # Ticket that the run was given when it was told to wait.
    ticket: str
    # Time-ordered, so that results are handed out in the order in which they became ready.
    order: int
    # Canonical arguments that ran, where a person changed the call; "" = those that the model proposed.
    effective: str = ""

    @property
    def key(self) -> str:
        """Return the key of its row."""
        return f"{self.order:020d}:{self.action}"


def ready_row(root: str, ready: Ready) -> Row:
    """Return the row of a result that waits to be handed out."""
    told = encode(ready.told).decode()
    fields = {name: getattr(ready, name) for name in _READY_FIELDS} | {"told": told}
    return Row(scope=tree_scope(root), kind="ready", key=ready.key, body=json.dumps(fields).encode())


_READY_FIELDS: Final = ("action", "attempt", "run", "step", "call_id", "tool", "rule", "answer", "ticket", "order", "effective")


def ready_of(row: Row) -> Ready:
    """Return a result that waits to be handed out."""
    parsed = _json(row)
    try:
        fields: dict[str, object] = dict(parsed)  # type: ignore[call-overload]
        told = decode(str(fields.pop("told")).encode())
        ready = Ready(told=told, **fields)  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError):
        raise StoreError("stored row of kind 'ready' has the wrong fields") from None
    return ready


def keep(value: object) -> bytes | None:
    """Return the recorded form of a result, or None where it has no JSON form of at most `MAX_RESULT_BYTES`."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        if _changes(value):
            return None
        body = text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return body if len(body) <= MAX_RESULT_BYTES else None


def _changes(value: object) -> bool:
    """Say whether JSON would give back something else (a key that is not text, a tuple, a subclass)."""
    kind = type(value)
    if value is None or kind in {str, int, float, bool}:
        return False
    if kind is list:
        return any(_changes(item) for item in value)  # type: ignore[attr-defined]
    if kind is dict:
        return any(type(key) is not str or _changes(item) for key, item in value.items())  # type: ignore[attr-defined]
    return True


def result_row(root: str, action: str, attempt: int, body: bytes) -> Row:
    """Return the row of a recorded result."""
    return Row(scope=tree_scope(root), kind="result", key=result_key(action, attempt), body=body, live=False)


def result_of(row: Row) -> object:
    """Return a recorded result."""
    return _json(row)


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
) -> JournalLine:
    """Return one decision as it is kept. Never arguments, never results, never text of others."""
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


def phase_name(phase: Phase) -> str:
    """Return the name of a phase as the journal carries it."""
    return type(phase).__name__
