"""Which schema a SQLite file has, and how it gets the one that this release needs. No statement about rows lives here.

A migration is a numbered file with a stage: ``before`` only adds, so that processes of the previous release keep
working; ``after`` removes what only they needed, and waits until no other process is attached.
"""

from __future__ import annotations

import pkgutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from forbear.errors import SchemaTooNew, StoreError

__all__ = ["MIGRATIONS", "Migration", "Stage", "inspect", "migrate", "read_sql", "statements"]

# In the header of the file, so that a database of another application is never touched.
APPLICATION_ID: Final = int.from_bytes(b"frbr")

_VERSIONS_TABLE: Final = """
CREATE TABLE schema_version (
    version    INTEGER NOT NULL,
    stage      TEXT    NOT NULL CHECK (stage IN ('before', 'after')),
    PRIMARY KEY (version, stage)
)"""


class Stage(StrEnum):
    """When a migration may run, seen from the upgrade of the code."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file of ``migrations/``."""

    version: int
    stage: Stage

    @property
    def file(self) -> str:
        """Return its name, relative to this package."""
        return f"migrations/{self.version:04d}_{self.stage}.sql"


# In the order in which they run.
MIGRATIONS: Final[Sequence[Migration]] = (
    Migration(version=1, stage=Stage.BEFORE),
    Migration(version=2, stage=Stage.BEFORE),
    Migration(version=3, stage=Stage.BEFORE),
)


@cache
def read_sql(name: str) -> str:
    """Return the text of a ``.sql`` file of this package."""
    content = pkgutil.get_data("forbear.store", name)
    assert content is not None
    return content.decode()


def statements(script: str) -> Iterator[str]:
    """Return the statements of a script one by one (``executescript`` would end the transaction around it)."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def inspect(connection: sqlite3.Connection, *, known: Sequence[Migration] = MIGRATIONS) -> frozenset[tuple[int, str]]:
    """Return the migrations that a database has, none for a new one. Nothing is written.

    Raises:
        SchemaTooNew: it has a migration that this release does not know.
        StoreError: it belongs to another application.
    """
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [objects] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and objects == 0:
        return frozenset()
    if application != APPLICATION_ID:
        raise StoreError("path: must name a database of forbear; the file belongs to another application")
    applied = frozenset((int(row[0]), str(row[1])) for row in connection.execute("SELECT * FROM schema_version"))
    if not applied <= {(migration.version, migration.stage.value) for migration in known}:
        raise SchemaTooNew("path: the database was written by a newer release of forbear; it was not touched")
    return applied


def migrate(connection: sqlite3.Connection, *, alone: bool, known: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a database to the schema of this release, in one transaction; the caller holds the write lock.

    Args:
        connection: In autocommit mode.
        alone: No other process is attached, so that ``after`` migrations may run.
        known: The migrations of this release, in order.

    Raises:
        StoreError: the next migration has to wait for processes of an older release. Nothing was changed.
    """
    applied = inspect(connection, known=known)
    missing = [migration for migration in known if (migration.version, migration.stage.value) not in applied]
    if not missing:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not applied:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(_VERSIONS_TABLE)
        held_back = False
        for migration in missing:
            if migration.stage is Stage.AFTER and not alone:
                held_back = True
                continue
            if held_back:
                raise StoreError("path: a process of an older release is attached; stop it, then open the store again")
            for statement in statements(read_sql(migration.file)):
                connection.execute(statement)
            connection.execute("INSERT INTO schema_version VALUES (?, ?)", (migration.version, migration.stage.value))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
