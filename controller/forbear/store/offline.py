"""Reading the file of a SQLite store, or a copy of it, without opening the store: nothing is locked, made or upgraded.

What the lines mean, and whether the journal is whole, is judged by `forbear.audit`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from forbear.errors import StoreError
from forbear.ports import JournalLine
from forbear.store.faults import store_error
from forbear.store.journal import line_of
from forbear.store.schema import inspect

__all__ = ["ClosedBook", "SealedLine", "read_closed"]

_PAGE: Final = 1000
_LINES: Final = """
SELECT seq, at_us, scope, run, rule, tool, action, request_id, body, epoch, chain, prev_hash, hash FROM journal
WHERE seq > ? ORDER BY seq LIMIT ?"""
_REQUEST: Final = """
SELECT seq, at_us, scope, run, rule, tool, action, request_id, body, epoch, chain, prev_hash, hash FROM journal
WHERE request_id = ? AND request_id <> '' ORDER BY seq"""
_ROWS: Final = """
SELECT e.key, e.body FROM scope AS s JOIN entity AS e ON e.scope = s.id WHERE s.name = ? AND e.kind = ? ORDER BY e.id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedLine:
    """One line as the file has it: the columns of the chain may hold anything, where somebody changed them."""

    seq: int
    line: JournalLine
    epoch: int | None = None
    chain: str = ""
    before: bytes = b""
    seal: bytes | None = None


class ClosedBook:
    """The file of a store, for reading; made by `read_closed`. One view of it, whatever is written meanwhile."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def identity(self) -> str:
        """Return the name of the store; "" = the file has none."""
        found = self._all("SELECT name FROM identity WHERE id = 1")
        return str(found[0][0]) if found else ""

    def lines(self, *, after: int = 0) -> Iterator[SealedLine]:
        """Return the journal's lines with a number above `after`, in order."""
        while True:
            page = self._all(_LINES, after, _PAGE)
            for columns in page:
                yield _sealed(columns)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def last(self) -> int:
        """Return the number of the last line, 0 where there is none."""
        return int(self._all("SELECT coalesce(max(seq), 0) FROM journal")[0][0])

    def of_request(self, request_id: str) -> list[SealedLine]:
        """Return the lines of one request, in order."""
        return [_sealed(columns) for columns in self._all(_REQUEST, request_id)]

    def rows(self, scope: str, kind: str) -> list[tuple[str, bytes]]:
        """Return key and body of the rows of one kind in a scope, live or not, oldest first."""
        return [(str(key), bytes(body)) for key, body in self._all(_ROWS, scope, kind)]

    def _all(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise store_error(error) from error


def _sealed(columns: tuple[object, ...]) -> SealedLine:
    epoch, chain, before, seal = columns[9:]
    texts = [value if isinstance(value, str) else repr(value) for value in columns[2:8]]
    at_us, body = columns[1], columns[8]
    seq, line = line_of(
        (
            columns[0] if isinstance(columns[0], int) else 0,
            at_us if isinstance(at_us, int) else 0,
            texts[0],
            texts[1],
            texts[2],
            texts[3],
            texts[4],
            texts[5],
            body if isinstance(body, bytes) else b"",
        )
    )
    return SealedLine(
        seq=seq,
        line=line,
        epoch=epoch if isinstance(epoch, int) else None,
        chain=chain if isinstance(chain, str) else "",
        before=before if isinstance(before, bytes) else b"",
        seal=seal if isinstance(seal, bytes) else None,
    )


@contextmanager
def read_closed(path: Path) -> Generator[ClosedBook]:
    """Open the file of a store, or a copy, for reading.

    A copy of the file without its ``-wal`` file lacks what was not moved into it yet; copy both.

    Raises:
        SchemaTooNew: a newer release wrote it.
        StoreError: it is not there, is no database of forbear, or was made by a release that did not chain its journal.
    """
    if not path.is_file():
        raise StoreError("path: must name the file of a store")
    # Without a log nobody has the store open: SQLite is told so, and makes no file beside a copy that is only looked at.
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise store_error(error) from error
    with closing(connection):
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            found = inspect(connection)
        except sqlite3.Error as error:
            raise store_error(error) from error
        if (2, "before") not in found:
            raise StoreError("path: the journal is not chained yet: open the store once with this release")
        yield ClosedBook(connection)
