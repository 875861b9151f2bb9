"""Rows that only the runtime knows: turn ids, child runs, results, what waits to be handed out, prompts.

They are JSON of plain values. Nothing is read from or written to a store here, and nothing is decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from forbear.core.values import Envelope
from forbear.core.vocabulary import Answer
from forbear.errors import StoreError
from forbear.ports import Row
from forbear.runtime.results import is_small
from forbear.runtime.rows import tree_scope
from forbear.store.codec import decode, encode

T = TypeVar("T")

# A recorded result is kept up to this size (design section 7).
MAX_RESULT_BYTES: Final = 64 * 1024
KEYS_SCOPE: Final = "keys"
# So many turn ids of the root run are remembered; an older id that comes again is not a new turn.
MAX_TURNS: Final = 32
# Among the digests of turn ids: the tree was empty when its first human message was announced, so that what the core
# counts as its second turn is the first.
ANNOUNCED: Final = "announced"


def run_scope(run: str) -> str:
    """Return the scope that says which tree a child run belongs to."""
    return f"run:{run}"


def result_key(action: str, attempt: int) -> str:
    """Return the key of the recorded result of one attempt."""
    return f"{action}:{attempt}"


def _json(row: Row) -> object:
    try:
        parsed: object = json.loads(row.body)
    except ValueError:
        raise StoreError(f"stored row of kind {row.kind!r} must be JSON") from None
    return parsed


class Fields:
    """The members of a stored JSON object, read by type.

    Raises:
        StoreError: the row holds no JSON object.
    """

    def __init__(self, row: Row) -> None:
        parsed = _json(row)
        if not isinstance(parsed, dict):
            raise StoreError(f"stored row of kind {row.kind!r} must hold an object")
        self._kind = row.kind
        self.members: Mapping[str, object] = cast("dict[str, object]", parsed)

    def get(self, name: str, kind: type[T]) -> T:
        """Return a member.

        Raises:
            StoreError: it is not there, or of another type.
        """
        value = self.members.get(name)
        if not isinstance(value, kind):
            raise StoreError(f"stored row of kind {self._kind!r}, field {name!r}: must be a {kind.__name__}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return _texts(self._kind, self.members.get(name))


def _texts(kind: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, str) for item in items):
            return tuple(cast("list[str]", items))
    raise StoreError(f"stored row of kind {kind!r} must hold a list of texts")


def turns_row(root: str, turns: tuple[str, ...]) -> Row:
    """Return the row of the turn ids that the root run has seen, oldest first, as digests."""
    return Row(scope=tree_scope(root), kind="turns", key=root, body=json.dumps(turns).encode())


def with_turn(turns: tuple[str, ...], turn: str, *, is_empty: bool) -> tuple[str, ...]:
    """Return the turn ids of a tree with one more ("" = it has none).

    Args:
        turns: Those that were seen.
        turn: The digest of the new one.
        is_empty: Nothing has happened in the tree yet.
    """
    first = (ANNOUNCED,) if is_empty or ANNOUNCED in turns else ()
    seen = (*(one for one in turns if one != ANNOUNCED), *((turn,) if turn else ()))
    return (*first, *seen[-MAX_TURNS:])


def turns_of(row: Row) -> tuple[str, ...]:
    """Return the digests of the turn ids that the root run has seen."""
    return _texts(row.kind, _json(row))


def secret_row(secret: bytes) -> Row:
    """Return the row of the key of idempotency keys; live, because it must outlast every retention."""
    return Row(scope=KEYS_SCOPE, kind="secret", key="idempotency", body=secret)


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
    if row is None:
        return PromptFacts()
    fields = Fields(row)
    return PromptFacts(reproposes=fields.get("reproposes", bool), before=fields.get("before", int))


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
        return f"{self.order:020d}:{self.action}:{self.run}"


def ready_row(root: str, ready: Ready) -> Row:
    """Return the row of a result that waits to be handed out."""
    kept: dict[str, object] = {name: getattr(ready, name) for name in _READY_FIELDS}
    kept["told"] = encode(ready.told).decode()
    return Row(scope=tree_scope(root), kind="ready", key=ready.key, body=json.dumps(kept).encode())


_READY_FIELDS: Final = (
    "action",
    "attempt",
    "run",
    "step",
    "call_id",
    "tool",
    "rule",
    "answer",
    "ticket",
    "order",
    "effective",
)


def ready_of(row: Row) -> Ready:
    """Return a result that waits to be handed out."""
    fields = Fields(row)
    told = decode(fields.get("told", str).encode())
    if not isinstance(told, Envelope):
        raise StoreError("stored row of kind 'ready' must hold an Envelope")
    return Ready(
        action=fields.get("action", str),
        attempt=fields.get("attempt", int),
        run=fields.get("run", str),
        step=fields.get("step", str),
        call_id=fields.get("call_id", str),
        tool=fields.get("tool", str),
        rule=fields.get("rule", str),
        answer=Answer(fields.get("answer", str)),
        told=told,
        ticket=fields.get("ticket", str),
        order=fields.get("order", int),
        effective=fields.get("effective", str),
    )


def keep(value: object) -> bytes | None:
    """Return the recorded form of a result, or None where it has no JSON form of at most `MAX_RESULT_BYTES`."""
    try:
        if not is_small(value, MAX_RESULT_BYTES) or _changes(value):
            return None
        body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except Exception:  # noqa: BLE001 - the tool's object: whatever it raises, it has no JSON form
        return None
    return body if len(body) <= MAX_RESULT_BYTES else None


def _changes(value: object) -> bool:
    """Say whether JSON would give back something else (a key that is not text, a tuple, a subclass)."""
    kind = type(value)
    if value is None or kind in {str, int, float, bool}:
        return False
    if kind is list:
        return any(_changes(item) for item in cast("list[object]", value))
    if kind is dict:
        members = cast("dict[object, object]", value)
        return any(type(key) is not str or _changes(member) for key, member in members.items())
    return True


def result_row(root: str, action: str, attempt: int, body: bytes) -> Row:
    """Return the row of a recorded result."""
    return Row(scope=tree_scope(root), kind="result", key=result_key(action, attempt), body=body, live=False)


def result_of(row: Row) -> object:
    """Return a recorded result."""
    return _json(row)
