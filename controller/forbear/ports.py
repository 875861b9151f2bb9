"""What the runtime needs from outside: a clock, ids, a store, tools. Protocols only; no implementation lives here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

__all__ = ["Clock", "Commit", "Ids", "JournalLine", "Row", "ScopeRows", "Store"]


class Clock(Protocol):
    """The real time, or a test's."""

    def now(self) -> datetime:
        """Return the present instant, aware UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        ...


class Ids(Protocol):
    """The only source of randomness."""

    def request_id(self) -> str:
        """Return ``act_`` and 32 hex characters (128 random bits)."""
        ...

    def ticket(self) -> str:
        """Return ``tkt_`` and 32 hex characters."""
        ...

    def owner(self) -> str:
        """Return a new name for an executing process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One encoded entity. Stores never look into `body`."""

    # Aggregate that versions are counted for: "tree:ROOT" or "principal:NAME".
    scope: str
    # tree, run, action, hold, known, result, prompt
    kind: str
    key: str
    body: bytes
    # Instants are integer microseconds since the epoch, rounded up.
    due_us: int | None = None
    # Set while an attempt of this row is open: the executing process.
    owner: str | None = None
    ticket: str | None = None
    request_id: str | None = None
    # Rows that are loaded with their scope; the others are fetched by key.
    live: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRows:
    """The live rows of one scope and its version (0 = never written)."""

    version: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One decision as it is kept: which rule, about what, and what it changed. Never arguments or results."""

    at_us: int
    scope: str
    run: str
    rule: str
    tool: str
    action: str
    request_id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One atomic change: all of it or nothing."""

    # Scope -> version that was read; every scope that is written or relied on.
    expected: dict[str, int]
    puts: tuple[Row, ...] = ()
    # (scope, kind, key)
    drops: tuple[tuple[str, str, str], ...] = ()
    journal: tuple[JournalLine, ...] = ()


class Store(Protocol):
    """Encoded rows with index columns; no rule is in it. One instance per process, safe for its threads."""

    def load(self, scope: str) -> ScopeRows:
        """Return the live rows of a scope."""
        ...

    def fetch(self, scope: str, kind: str, key: str) -> Row | None:
        """Return one row, live or not."""
        ...

    def commit(self, change: Commit) -> None:
        """Store a change durably and bump the version of every scope that it writes (by one per commit).

        Raises:
            StaleWrite: a scope has another version than expected; nothing was written.
            StoreError: the store cannot be written; nothing was written.
        """
        ...

    def due(self, now_us: int, limit: int) -> Sequence[Row]:
        """Return rows with due_us <= now_us, earliest first."""
        ...

    def next_due_us(self) -> int | None:
        """Return the earliest due instant of all rows."""
        ...

    def by_ticket(self, ticket: str) -> Row | None:
        """Return the live row that carries this ticket."""
        ...

    def tickets(
        self, kind: str | None = None, *, beginning: str = "", scope: str | None = None, limit: int | None = None
    ) -> Sequence[Row]:
        """Return the live rows that carry a ticket, oldest first; only those that are asked for are read.

        Args:
            kind: Of this kind only.
            beginning: Only tickets that begin with this text; a whole ticket finds every row that carries it.
            scope: Of this scope only.
            limit: So many at most; None = all.
        """
        ...

    def lost(self) -> Sequence[Row]:
        """Return the live rows whose owner is dead (its liveness lock is free)."""
        ...

    def register(self, owner: str) -> None:
        """Declare this process alive under this name until it ends, however it ends."""
        ...

    def generation(self) -> int:
        """Return a number that changes when another process has committed."""
        ...

    def journal(
        self, *, after: int = 0, limit: int = 100, request_id: str | None = None, action: str | None = None
    ) -> Sequence[tuple[int, JournalLine]]:
        """Return journal lines with their sequence numbers, oldest first; of one request or action where that is named.

        Finding a request's lines is fast; an action's may be looked for in the whole journal.
        """
        ...

    def close(self) -> None:
        """Release files and locks; calling it twice is harmless."""
        ...
