"""Appending to the journal of a SQLite store: every commit's lines are sealed as `chain.py` says.

Called inside the store's write transaction, by one thread at a time. What a line means, and whether a journal is whole,
are other modules' business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from forbear.ports import JournalLine
from forbear.store.chain import START, Link, chain_text, digest_unsealed, seal

__all__ = ["ChainedJournal", "line_of"]

_Columns = tuple[int, int, str, str, str, str, str, str, bytes]


def line_of(columns: _Columns) -> tuple[int, JournalLine]:
    """Return a line with its number from the columns of a query."""
    seq, at_us, scope, run, rule, tool, action, request_id, body = columns
    return seq, JournalLine(
        at_us=at_us, scope=scope, run=run, rule=rule, tool=tool, action=action, request_id=request_id, body=body
    )


def _columns(line: JournalLine, epoch: int) -> tuple[int, str, str, str, str, str, str, bytes, int]:
    return (
        line.at_us,
        line.scope,
        line.run,
        line.rule,
        line.tool,
        line.action,
        line.request_id,
        line.body,
        epoch,
    )


class ChainedJournal:
    """The chain of one open store: its epoch begins with the first line that it writes.

    Args:
        sql: The store's statements by name.
    """

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql
        # Name of the writer, kept with the first line; the first one that the store hears of.
        self.writer = ""
        # Epoch and last seal of what is known to be committed.
        self._epoch: int | None = None
        self._head = START
        # Number, epoch and seal of the last line of a transaction that may not have been committed.
        self._trying: tuple[int, int, bytes] | None = None

    def append(self, connection: sqlite3.Connection, lines: Sequence[JournalLine]) -> None:
        """Add the lines of one commit, in order."""
        tail: tuple[int, int | None, bytes | None] = connection.execute(self._sql["journal_tail"]).fetchone() or (
            0,
            None,
            None,
        )
        self._take_notice(connection, tail)
        first = tail[0] + 1
        epoch = first if self._epoch is None else self._epoch
        chain = ""
        if self._epoch is None or tail[1] != epoch:
            chain = chain_text(self._link(connection, tail))
        head = seal(self._head, epoch=epoch, first=first, chain=chain, lines=lines)
        if len(lines) > 1:
            connection.executemany(self._sql["journal_add"], [_columns(one, epoch) for one in lines[:-1]])
        connection.execute(
            self._sql["journal_seal_add"], (*_columns(lines[-1], epoch), chain or None, self._head, head)
        )
        self._trying = (first + len(lines) - 1, epoch, head)

    def _take_notice(self, connection: sqlite3.Connection, tail: tuple[int, int | None, bytes | None]) -> None:
        """Find out whether the last transaction was committed: whoever raised since then need not have known it."""
        if self._trying is None:
            return
        seq, epoch, head = self._trying
        if tail == self._trying or connection.execute(self._sql["journal_seal"], (seq,)).fetchone() == (epoch, head):
            self._epoch, self._head = epoch, head
        self._trying = None

    def _link(self, connection: sqlite3.Connection, tail: tuple[int, int | None, bytes | None]) -> Link:
        seq, epoch, sealed = tail
        follows = None if epoch is None or sealed is None else (seq, epoch, sealed)
        if self._epoch is not None:
            return Link(follows=follows)
        [store] = connection.execute(self._sql["identity"]).fetchone()
        unsealed = None if follows is not None or not seq else digest_unsealed(self._lines(connection, seq))
        return Link(store=store, writer=self.writer, follows=follows, unsealed=unsealed)

    def _lines(self, connection: sqlite3.Connection, last: int) -> Iterator[JournalLine]:
        for columns in connection.execute(self._sql["journal_until"], (last,)):
            yield line_of(columns)[1]
