"""How a file gets its schema, and which files are left alone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import forbear.store.schema
from forbear.errors import SchemaTooNew, StoreError
from forbear.store.schema import MIGRATIONS, Migration, Stage, inspect, migrate, read_sql, statements
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock

FIRST = Migration(version=1, stage=Stage.BEFORE)
BEFORE = Migration(version=2, stage=Stage.BEFORE)
AFTER = Migration(version=2, stage=Stage.AFTER)
THIRD = Migration(version=3, stage=Stage.BEFORE)
FILES = {
    FIRST.file: "CREATE TABLE old (a);",
    BEFORE.file: "CREATE TABLE new (a); -- a comment; with a semicolon\nINSERT INTO new VALUES (1);",
    AFTER.file: "DROP TABLE old;",
    THIRD.file: "CREATE TABLE third (a);",
}


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """Open an empty database."""
    opened = sqlite3.connect(":memory:", isolation_level=None)
    yield opened
    opened.close()


@pytest.fixture
def _other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forbear.store.schema, "read_sql", FILES.__getitem__)


def tables(connection: sqlite3.Connection) -> dict[str, str]:
    """Return everything that a database defines, without differences in white space and comments."""
    found: dict[str, str] = {}
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        lines = [one.split("--")[0] for one in sql.splitlines()]
        found[name] = " ".join(" ".join(lines).split())
    return found


def test_the_schema_file_equals_the_sum_of_the_migrations(connection: sqlite3.Connection) -> None:
    """Who reads schema.sql reads what a database has."""
    migrate(connection, alone=True)
    read = sqlite3.connect(":memory:", isolation_level=None)
    read.executescript(read_sql("schema.sql"))
    assert tables(read) == tables(connection)
    read.close()


def test_every_migration_file_is_in_the_list() -> None:
    """No file is forgotten, none is listed that is not there, and numbers rise with `before` ahead of `after`."""
    folder = Path(forbear.store.schema.__file__).parent / "migrations"
    assert sorted(migration.file for migration in MIGRATIONS) == sorted(
        f"migrations/{path.name}" for path in folder.glob("*")
    )
    order = [(migration.version, migration.stage is Stage.AFTER) for migration in MIGRATIONS]
    assert order == sorted(set(order))


def test_statements_of_a_script_come_one_by_one() -> None:
    """A trigger's inner semicolons do not cut it."""
    script = "CREATE TABLE a (b);\n\nCREATE TRIGGER t BEFORE DELETE ON a\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\n"
    assert [one.strip().split()[1] for one in statements(script)] == ["TABLE", "TRIGGER"]
    assert "".join(statements(read_sql("migrations/0001_before.sql"))) == read_sql("migrations/0001_before.sql")


def test_migrating_twice_changes_nothing(connection: sqlite3.Connection) -> None:
    """A database of this release is left as it is."""
    assert inspect(connection) == frozenset()
    migrate(connection, alone=True)
    before = connection.total_changes
    migrate(connection, alone=False)
    assert connection.total_changes == before
    assert inspect(connection) == {(1, "before"), (2, "before"), (3, "before")}


@pytest.mark.usefixtures("_other_files")
def test_what_an_older_process_needs_is_removed_only_when_none_is_attached(connection: sqlite3.Connection) -> None:
    """`before` runs at once; `after` waits until this process is alone."""
    migrate(connection, alone=True, known=(FIRST,))
    migrate(connection, alone=False, known=(FIRST, BEFORE, AFTER))
    assert {"old", "new"} <= tables(connection).keys()
    assert inspect(connection, known=(FIRST, BEFORE, AFTER)) == {(1, "before"), (2, "before")}
    migrate(connection, alone=True, known=(FIRST, BEFORE, AFTER))
    assert "old" not in tables(connection)


@pytest.mark.usefixtures("_other_files")
def test_a_release_that_needs_a_held_back_step_does_not_start(connection: sqlite3.Connection) -> None:
    """Where the next step builds on one that has to wait, opening fails and nothing was changed."""
    migrate(connection, alone=True, known=(FIRST,))
    before = tables(connection)
    with pytest.raises(StoreError):
        migrate(connection, alone=False, known=(FIRST, BEFORE, AFTER, THIRD))
    assert tables(connection) == before
    assert inspect(connection, known=(FIRST,)) == {(1, "before")}
    migrate(connection, alone=True, known=(FIRST, BEFORE, AFTER, THIRD))
    assert {"new", "third"} <= tables(connection).keys()


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All migrations of one opening are one transaction."""
    monkeypatch.setattr(
        forbear.store.schema, "read_sql", {**FILES, BEFORE.file: "CREATE TABLE new (a);\nCREATE TABLE new (a);"}.get
    )
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, alone=True, known=(FIRST, BEFORE))
    assert tables(connection) == {}
    assert connection.execute("PRAGMA application_id").fetchone() == (0,)
    assert not connection.in_transaction


@pytest.mark.usefixtures("_other_files")
def test_a_database_of_a_newer_release_is_refused(connection: sqlite3.Connection) -> None:
    """Neither its higher version nor an unknown stage of a known version is guessed about."""
    migrate(connection, alone=True, known=(FIRST, BEFORE))
    for known in ((FIRST,), (FIRST, AFTER)):
        with pytest.raises(SchemaTooNew):
            migrate(connection, alone=True, known=known)


def test_a_file_of_a_newer_release_is_not_touched(tmp_path: Path) -> None:
    """Opening it fails with its own error, and not one byte of it changes."""
    path = tmp_path / "forbear.db"
    open_sqlite(path, clock=ManualClock()).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA journal_mode = DELETE")
    newer.execute("INSERT INTO schema_version VALUES (999, 'before')")
    newer.commit()
    newer.close()
    path.chmod(0o640)
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode
    with pytest.raises(SchemaTooNew, match="not touched"):
        open_sqlite(path, clock=ManualClock())
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) == before
    assert not path.with_name("forbear.db-wal").exists()


def test_a_database_of_another_application_is_not_touched(tmp_path: Path) -> None:
    """A path that names somebody else's SQLite file is refused, whether or not that file says whose it is."""
    for number, script in enumerate(
        ("CREATE TABLE theirs (a);", "PRAGMA application_id = 7; CREATE TABLE theirs (a);")
    ):
        path = tmp_path / f"{number}.db"
        theirs = sqlite3.connect(path)
        theirs.executescript(script)
        theirs.close()
        before = path.read_bytes(), path.stat().st_mode
        with pytest.raises(StoreError, match="another application"):
            open_sqlite(path, clock=ManualClock())
        assert (path.read_bytes(), path.stat().st_mode) == before


def test_no_statement_reads_a_whole_table() -> None:
    """Each query finds its rows by an index, however many other rows there are."""
    store = open_sqlite(":memory:", clock=ManualClock())
    connection = store._connection
    assert connection is not None
    for name, sql in store._sql.items():
        places = {int(number) for number in re.findall(r"\?(\d+)", sql)}
        arguments = [None] * (max(places) if places else sql.count("?"))
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]
        assert not [step for step in plan if step.startswith("SCAN")], name
    assert len(store._sql) == 23
    store.close()
