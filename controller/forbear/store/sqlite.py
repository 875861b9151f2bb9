"""The embedded store: encoded rows in one SQLite file, for every thread of a process and for other processes beside it.

One connection and one lock per store. A connection per thread was measured too: as fast for one thread, 0.75 to 1.6
times as fast for 4 and 16, and less fair, at rates that no agent reaches (17,000 commits a second and more).

Every write transaction, checkpoint and close happens under a file lock of our own: SQLite's busy handler starves
writers, and releases before 3.51.3 can damage a file that two connections write and checkpoint at the same moment (the
WAL-reset bug). For the same reason the database is never mapped into memory.

Rules about calls, the meaning of a row's body, and the real time never live here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet

from forbear.errors import StaleWrite, StoreError, UsageError
from forbear.ports import Clock, Commit, JournalLine, Row, ScopeRows
from forbear.store.checkpoint import BACKSTOP_PAGES, Checkpointer
from forbear.store.codec import to_us
from forbear.store.faults import store_error
from forbear.store.guard import FileGuard, Guard, MemoryGuard
from forbear.store.journal import ChainedJournal, line_of
from forbear.store.locks import open_private
from forbear.store.schema import inspect, migrate, read_sql

__all__ = ["MEMORY", "SqliteStore", "default_path", "open_sqlite"]

MEMORY: Final = ":memory:"

# Milliseconds that a program which does not know our lock (a backup, the sqlite3 shell) may hold the file.
_FOREIGN_HOLD_MS: Final = 1000
_WAL_RESET_FIXED: Final = (3, 51, 3)
_PRUNE_BATCH: Final = 1000
_PRAGMAS: Final = (
    "PRAGMA synchronous = NORMAL",
    f"PRAGMA wal_autocheckpoint = {BACKSTOP_PAGES}",
    f"PRAGMA journal_size_limit = {64 * 1024 * 1024}",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 0",
    "PRAGMA trusted_schema = OFF",
)
_T = TypeVar("_T")
_Columns = tuple[str, str, str, bytes, int | None, str | None, str | None, str | None, int]


@cache
def _queries() -> dict[str, str]:
    """Return the statements of ``queries.sql`` by name."""
    found: dict[str, str] = {}
    for block in read_sql("queries.sql").split("-- name: ")[1:]:
        name, _, text = block.partition("\n")
        found[name.strip()] = text.strip()
    return found


def _row(columns: _Columns) -> Row:
    scope, kind, key, body, due_us, owner, ticket, request_id, live = columns
    return Row(
        scope=scope,
        kind=kind,
        key=key,
        body=body,
        due_us=due_us,
        owner=owner,
        ticket=ticket,
        request_id=request_id,
        live=live == 1,
    )


def default_path() -> Path:
    """Return where the store is where nobody says: ``forbear/forbear.db`` in the user's state folder (XDG)."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG base directory specification: a relative path is to be ignored.
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "forbear" / "forbear.db"


def open_sqlite(path: str | os.PathLike[str] | None = None, *, clock: Clock) -> SqliteStore:
    """Open a store, making or upgrading its database if need be.

    Args:
        path: A file, ``":memory:"``, or None for `default_path`. A missing parent folder is made for this user alone.
        clock: Stamps rows for retention; nothing else is decided by it.

    Raises:
        SchemaTooNew: a newer release wrote the database; it was not touched.
        StoreError: the file cannot be opened, is not a database, or is one of another application (not touched).
    """
    try:
        if path is not None and os.fspath(path) == MEMORY:
            connection = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            migrate(connection, alone=True)
            return SqliteStore(connection, clock, MemoryGuard())
        if path is not None and not os.fspath(path):
            raise StoreError("path: must not be empty")
        # Resolved, as SQLite does for its own files: one lock for a file, whatever link leads to it.
        return _open_file(Path(default_path() if path is None else path).resolve(), clock)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise store_error(error) from error


def _open_file(path: Path, clock: Clock) -> SqliteStore:
    if path.is_dir():
        raise StoreError("path: must name a file, not a folder")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    guard = FileGuard(path)
    connection: sqlite3.Connection | None = None
    try:
        guard.acquire()
        # Only a new file is ever opened by us: closing a descriptor of a file that SQLite has open somewhere in this
        # process would drop SQLite's own locks on it.
        with suppress(FileExistsError):
            os.close(open_private(path, exclusive=True))
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=_FOREIGN_HOLD_MS / 1000
        )
        inspect(connection)
        # A file that may not be written is opened for reading without a word; this says so.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        found = path.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            path.chmod(0o600)
        shared = guard.attach()
        if shared and sqlite3.sqlite_version_info < _WAL_RESET_FIXED:
            warnings.warn(
                f"several processes use one store, and SQLite {sqlite3.sqlite_version} has the WAL-reset bug: "
                "forbear's own lock avoids it, other programs on the same file do not; SQLite 3.51.3 has the fix",
                RuntimeWarning,
                stacklevel=3,
            )
        connection.execute("PRAGMA journal_mode = WAL")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection, alone=not shared)
        if not shared:
            _begin_log(connection)
        guard.release()
    except BaseException:
        if connection is not None:
            connection.close()
        guard.close()
        raise
    return SqliteStore(connection, clock, guard, path=path)


def _begin_log(connection: sqlite3.Connection) -> None:
    """Make the first write to an empty log, which syncs its head, so that no caller's commit has to.

    What is written is a number that nothing reads.
    """
    [number] = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {(number + 1) % 2}")


class SqliteStore:
    """`forbear.ports.Store` in SQLite. Made by `open_sqlite`; safe for all threads of the process."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, guard: Guard, *, path: Path | None = None) -> None:
        # Its file; None = in memory.
        self.path: Final = path
        self._connection: sqlite3.Connection | None = connection
        self._clock = clock
        self._guard = guard
        self._sql = _queries()
        self._journal = ChainedJournal(self._sql)
        # Keeps the threads of this process apart; taken before the guard's lock.
        self._gate = threading.Lock()
        self._checkpoints = None if path is None else Checkpointer(path.with_name(path.name + "-wal"), self._move_log)
        # Bytes of bodies since the last commit.
        self._written = 0
        _OPEN.add(self)

    @property
    def is_in_memory(self) -> bool:
        """Say whether all of it is gone when it is closed."""
        return isinstance(self._guard, MemoryGuard)

    # ---- opening and closing ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release files and locks; calling it twice is harmless. Owners that were registered here count as dead."""
        if self._checkpoints is not None:
            # Before the gate, which its thread may be waiting for.
            self._checkpoints.close()
        with self._gate:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            try:
                self._guard.acquire()
                try:
                    # Closing moves the log only where no other process is attached.
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                    connection.close()
                finally:
                    self._guard.close()
            except (sqlite3.Error, OSError) as error:
                raise store_error(error) from error

    def abandon(self) -> None:
        """Let go of everything in a forked child: the parent goes on using it."""
        self._gate = threading.Lock()
        if self._connection is not None:
            # Never closed here: SQLite forbids using, and so closing, a connection across a fork.
            _ABANDONED.append(self._connection)
            self._connection = None
            self._checkpoints = None
            self._guard.abandon()

    def _move_log(self) -> None:
        """Move the write-ahead log into the database and begin it anew, in the checkpoint thread."""
        with self._gate:
            connection = self._used()
            self._guard.acquire()
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                _begin_log(connection)
            finally:
                self._guard.release()

    # ---- the two ways in --------------------------------------------------------------------------------------------

    def _used(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("the store is closed (a forked process has to open its own)")
        return self._connection

    def _read(self, name: str, arguments: tuple[object, ...] = ()) -> list[Any]:
        """Return the rows of one statement, which is one consistent view of the database."""
        with self._gate:
            try:
                return self._used().execute(self._sql[name], arguments).fetchall()
            except (sqlite3.Error, ValueError, OverflowError) as error:
                raise store_error(error) from error

    def _write(self, work: Callable[[sqlite3.Connection], _T], *, tell: bool = False) -> _T:
        """Do some work in one transaction under the file lock: all of it or nothing.

        `tell` makes other stores read again what they have in memory.
        """
        guard = self._guard
        with self._gate:
            connection = self._used()
            try:
                guard.acquire()
                try:
                    guard.check()
                    connection.execute("BEGIN IMMEDIATE")
                    done = work(connection)
                    if tell:
                        guard.begin()
                    try:
                        connection.execute("COMMIT")
                    finally:
                        if tell:
                            guard.end()
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    guard.release()
            except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
                raise store_error(error) from error
            if self._checkpoints is not None:
                self._checkpoints.wrote(self._written)
                self._written = 0
            return done

    # ---- forbear.ports.Store ----------------------------------------------------------------------------------------

    def load(self, scope: str) -> ScopeRows:
        """Return the live rows of a scope, oldest first, and its version."""
        found = self._read("load", (scope,))
        if not found:
            return ScopeRows(version=0, rows=())
        version: int = found[0][0]
        if found[0][1] is None:
            return ScopeRows(version=version, rows=())
        return ScopeRows(version=version, rows=tuple(_row((scope, *columns[1:], 1)) for columns in found))

    def fetch(self, scope: str, kind: str, key: str) -> Row | None:
        """Return one row, live or not."""
        return self._first("fetch", (scope, kind, key))

    def commit(self, change: Commit) -> None:
        """Store a change durably and bump the version of every scope that has a put or a drop, by one.

        Raises:
            StaleWrite: a scope has another version than expected; nothing was written.
            UsageError: a put or a drop is in a scope that is not in `expected`; nothing was written.
            StoreError: the store cannot be written; nothing was written.
        """
        expected = change.expected
        written = {row.scope for row in change.puts}
        written.update(scope for scope, _, _ in change.drops)
        if not written <= expected.keys():
            raise UsageError("change.expected: must name every scope that is written")
        sql = self._sql
        now_us = to_us(self._clock.now())

        def work(connection: sqlite3.Connection) -> None:
            execute = connection.execute
            ids: dict[str, int] = {}
            for scope, version in expected.items():
                found = execute(sql["version"], (scope,)).fetchone()
                if version != (0 if found is None else found[1]):
                    raise StaleWrite("a scope was written by somebody else since it was read")
                if scope in written:
                    if found is None:
                        added = execute(sql["add_scope"], (scope,)).lastrowid
                        assert added is not None
                        ids[scope] = added
                    else:
                        execute(sql["bump_scope"], (found[0],))
                        ids[scope] = found[0]
            for scope, kind, key in change.drops:
                execute(sql["drop"], (ids[scope], kind, key))
            for row in change.puts:
                execute(
                    sql["put"],
                    (
                        ids[row.scope],
                        row.kind,
                        row.key,
                        1 if row.live else 0,
                        row.due_us,
                        row.owner,
                        row.ticket,
                        row.request_id,
                        now_us,
                        row.body,
                    ),
                )
                self._written += len(row.body)
            if change.journal:
                self._journal.append(connection, change.journal)

        self._write(work, tell=bool(written))

    def due(self, now_us: int, limit: int) -> Sequence[Row]:
        """Return at most `limit` rows with due_us <= now_us, earliest first."""
        return self._rows("due", (now_us, max(limit, 0)))

    def next_due_us(self) -> int | None:
        """Return the earliest due instant of all rows."""
        earliest: int | None = self._read("next_due")[0][0]
        return earliest

    def by_ticket(self, ticket: str) -> Row | None:
        """Return the live row that carries this ticket (the oldest one, where several do)."""
        return self._first("by_ticket", (ticket,))

    def tickets(
        self, kind: str | None = None, *, beginning: str = "", scope: str | None = None, limit: int | None = None
    ) -> Sequence[Row]:
        """Return the live rows that carry a ticket, in the order in which they got it; each way in has its index."""
        most = -1 if limit is None else max(limit, 0)
        if beginning:
            # The first text after all that begin like this; no code point comes after the last.
            end = f"{beginning}{chr(0x10FFFF)}"
            return self._rows("tickets_beginning", (kind, scope, most, beginning, end))
        if scope is not None:
            return self._rows("tickets_of_scope", (kind, scope, most))
        return self._rows("tickets", (kind, most))

    def lost(self) -> Sequence[Row]:
        """Return the live rows whose owner is dead, oldest first, and remove the lock files of the dead."""
        owned = self._rows("owned", ())
        # The rows first: an owner registers before it commits, so one that is seen here was registered before this.
        owners = {row.owner for row in owned if row.owner is not None}
        dead = self._write(lambda _: self._guard.liveness.dead(owners))
        return [row for row in owned if row.owner in dead]

    def register(self, owner: str) -> None:
        """Declare this process alive under this name until the store is closed or the process ends, however it ends.

        Raises:
            UsageError: another living store has registered this name.
        """
        self._write(lambda _: self._guard.liveness.declare(owner))
        self._journal.writer = self._journal.writer or owner

    def release(self, owner: str) -> None:
        """Stop answering for an owner: its live rows are lost from now on."""
        self._write(lambda _: self._guard.liveness.retire(owner))

    def generation(self) -> int:
        """Return a number that changes when another store has changed rows; own commits leave it as it is.

        It is not a count, and journal lines alone do not change it.
        """
        if self._connection is None:
            raise StoreError("the store is closed (a forked process has to open its own)")
        return self._guard.generation()

    def journal(
        self, *, after: int = 0, limit: int = 100, request_id: str | None = None, action: str | None = None
    ) -> Sequence[tuple[int, JournalLine]]:
        """Return at most `limit` journal lines with their sequence numbers above `after`, oldest first.

        Args:
            after: Sequence number below the first line.
            limit: Most lines.
            request_id: Only lines of this request.
            action: Only lines of this action; "" = lines that are about no action. There is no index for it, so that no
                write pays for one: a million lines take about 0.2 s.
        """
        if request_id is None:
            found = self._read("journal_all", (after, action, max(limit, 0)))
        else:
            found = self._read("journal_of_request", (after, request_id, action, max(limit, 0)))
        return [line_of(columns) for columns in found]

    def prune(self, before_us: int) -> int:
        """Delete rows that are not live, not due and were last written before an instant; return how many.

        The journal is kept: it is append-only.
        """
        pruned = 0
        while True:
            batch = self._write(lambda c: c.execute(self._sql["prune"], (before_us, _PRUNE_BATCH)).rowcount)
            pruned += batch
            if batch < _PRUNE_BATCH:
                return pruned

    def _rows(self, name: str, arguments: tuple[object, ...]) -> list[Row]:
        return [_row(columns) for columns in self._read(name, arguments)]

    def _first(self, name: str, arguments: tuple[object, ...]) -> Row | None:
        found = self._read(name, arguments)
        return _row(found[0]) if found else None


# What a fork has to know about this process (a store holds descriptors, which are the process's, not an object's).
_OPEN: Final[WeakSet[SqliteStore]] = WeakSet()
_ABANDONED: Final[list[sqlite3.Connection]] = []


def _after_fork() -> None:
    for store in list(_OPEN):
        store.abandon()


os.register_at_fork(after_in_child=_after_fork)
