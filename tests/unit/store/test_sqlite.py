"""What is particular to the SQLite store: its files, its limits and its errors. The promises of any store are in the kit."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path
from typing import cast

import pytest

import forbear.store.sqlite
from forbear.errors import StoreError, UsageError
from forbear.ports import Commit, JournalLine, Row
from forbear.store.codec import to_us
from forbear.store.sqlite import MEMORY, SqliteStore, default_path, open_sqlite
from forbear.testing.clock import ManualClock

TREE = "tree:run-1"
SECRET = "sk-live-4242"


@pytest.fixture
def clock() -> ManualClock:
    """Return the store's clock."""
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is, in a folder that is not there yet."""
    return tmp_path / "state" / "forbear.db"


@pytest.fixture
def opened(path: Path, clock: ManualClock) -> Iterator[SqliteStore]:
    """Open a store on a file."""
    store = open_sqlite(path, clock=clock)
    yield store
    store.close()


def row(key: str, body: bytes = b"{}", *, live: bool = True, due_us: int | None = None) -> Row:
    """Return a row of one scope."""
    return Row(scope=TREE, kind="action", key=key, body=body, live=live, due_us=due_us)


def put(store: SqliteStore, *rows: Row) -> None:
    """Commit rows at the version that their scope has now."""
    store.commit(Commit(expected={TREE: store.load(TREE).version}, puts=rows))


def a_line() -> JournalLine:
    """Return a journal line."""
    return JournalLine(
        at_us=1, scope=TREE, run="run-1", rule="a.b.c", tool="t", action="a", request_id="act_1", body=b"{}"
    )


def mode(path: Path) -> int:
    """Return who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_nobody_else_can_read_what_is_stored(path: Path, opened: SqliteStore) -> None:
    """The folder that was made, the file and everything beside it are for this user alone, whatever the umask."""
    opened.register("own_1")
    put(opened, row("a"))
    assert mode(path.parent) == 0o700
    beside = sorted(path.parent.iterdir())
    assert [one.name for one in beside] == [
        "forbear.db",
        "forbear.db-lock",
        "forbear.db-owners",
        "forbear.db-shm",
        "forbear.db-wal",
    ]
    assert [mode(one) for one in beside] == [0o600, 0o600, 0o700, 0o600, 0o600]
    assert {mode(one) for one in (path.parent / "forbear.db-owners").iterdir()} == {0o600}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path, clock: ManualClock) -> None:
    """A file that was made in advance gets the same mode, and an existing folder keeps its own."""
    path = tmp_path / "forbear.db"
    path.touch(mode=0o644)
    tmp_path.chmod(0o755)
    open_sqlite(path, clock=clock).close()
    assert (mode(path), mode(tmp_path)) == (0o600, 0o755)


def test_closing_leaves_nothing_open_behind(path: Path, clock: ManualClock) -> None:
    """Descriptors, owners and the write-ahead log are gone; the rows are in the one file."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = open_sqlite(path, clock=clock)
    store.register("own_1")
    put(store, row("a"))
    store.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert sorted(one.name for one in path.parent.iterdir()) == ["forbear.db", "forbear.db-lock", "forbear.db-owners"]
    assert list((path.parent / "forbear.db-owners").iterdir()) == []


def test_the_default_place_is_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_STATE_HOME where it is set to an absolute path, else its default in the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_path() == tmp_path / "state" / "forbear" / "forbear.db"
    for other in ("", "relative/state"):
        monkeypatch.setenv("XDG_STATE_HOME", other)
        assert default_path() == tmp_path / "home" / ".local" / "state" / "forbear" / "forbear.db"
    monkeypatch.delenv("XDG_STATE_HOME")
    store = open_sqlite(clock=ManualClock())
    store.close()
    assert (tmp_path / "home" / ".local" / "state" / "forbear" / "forbear.db").exists()


def test_a_store_in_memory_has_no_file(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written beside the working folder, and two of them share nothing."""
    monkeypatch.chdir(tmp_path)
    first, second = open_sqlite(MEMORY, clock=clock), open_sqlite(Path(MEMORY), clock=clock)
    put(first, row("a"))
    assert list(second.load(TREE).rows) == []
    assert list(tmp_path.iterdir()) == []
    first.close()
    second.close()


def test_a_link_leads_to_the_same_store(path: Path, tmp_path: Path, clock: ManualClock, opened: SqliteStore) -> None:
    """Locks belong to the file and not to the name that it was opened by."""
    put(opened, row("a"))
    link = tmp_path / "link.db"
    link.symlink_to(path)
    other = open_sqlite(link, clock=clock)
    opened.register("own_1")
    with pytest.raises(UsageError):
        other.register("own_1")
    assert len(other.load(TREE).rows) == 1
    other.close()
    assert not link.with_name("link.db-lock").exists()


def test_what_cannot_be_opened_is_a_store_error(tmp_path: Path, clock: ManualClock) -> None:
    """Garbage, a folder, a parent that is a file: refused by rule, without a word of the file's content."""
    garbage = tmp_path / "garbage.db"
    garbage.write_text(SECRET * 500)
    (tmp_path / "folder.db").mkdir()
    for path in (garbage, tmp_path / "folder.db", garbage / "below.db", tmp_path / "nul\x00.db", ""):
        with pytest.raises(StoreError) as raised:
            open_sqlite(path, clock=clock)
        assert SECRET not in str(raised.value)
    assert garbage.read_text() == SECRET * 500
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder.db", "garbage.db", "garbage.db-lock"]


def test_a_damaged_file_is_a_store_error(path: Path, clock: ManualClock) -> None:
    """Pages that were overwritten give an error when they are read, not a wrong row."""
    store = open_sqlite(path, clock=clock)
    put(store, *[row(f"{n}", b"x" * 500) for n in range(500)])
    store.close()
    content = bytearray(path.read_bytes())
    # Behind the pages that opening reads.
    content[16384:] = b"\xa5" * (len(content) - 16384)
    path.write_bytes(content)
    damaged = open_sqlite(path, clock=clock)
    with pytest.raises(StoreError, match="damaged"):
        damaged.load(TREE)
    damaged.close()


# ---- all or nothing -------------------------------------------------------------------------------------------------


def test_a_full_disk_stores_nothing_by_half(opened: SqliteStore) -> None:
    """A commit that does not fit raises, leaves rows and versions as they were, and the store goes on working."""
    put(opened, row("a", b"first"))
    connection = opened._connection
    assert connection is not None
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    change = Commit(expected={TREE: 1}, puts=(row("a", b"second"), row("b", b"x" * 100_000)), journal=(a_line(),))
    with pytest.raises(StoreError, match="free space"):
        opened.commit(change)
    assert (opened.load(TREE).version, list(opened.load(TREE).rows)) == (1, [row("a", b"first")])
    assert list(opened.journal()) == []
    connection.execute("PRAGMA max_page_count = 1000000")
    opened.commit(change)
    assert opened.load(TREE).version == 2


def test_an_interrupted_commit_stores_nothing(opened: SqliteStore) -> None:
    """Ctrl-C between two rows undoes the first, and the locks are free again."""

    class Interrupting:
        def __getattr__(self, name: str) -> str:
            if name == "kind":
                raise KeyboardInterrupt
            return TREE

    wrong = Commit(expected={TREE: 0}, puts=(row("a"), cast("Row", Interrupting())))
    with pytest.raises(KeyboardInterrupt):
        opened.commit(wrong)
    assert opened.load(TREE).version == 0
    put(opened, row("a"))
    assert opened.load(TREE).version == 1


def test_another_program_that_holds_the_file_is_a_store_error(
    path: Path, opened: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that holds the write lock without ours makes a commit fail, and the next one works."""
    connection = opened._connection
    assert connection is not None
    connection.execute("PRAGMA busy_timeout = 0")
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program"):
        put(opened, row("a"))
    foreign.execute("ROLLBACK")
    foreign.close()
    put(opened, row("a"))


def test_the_write_lock_is_held_for_exactly_a_write(path: Path, opened: SqliteStore) -> None:
    """It is taken while rows are written, not for reading, and given back."""
    lock = os.open(path.with_name("forbear.db-lock"), os.O_RDWR)
    seen: list[str] = []

    def is_free() -> bool:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        flock(lock, LOCK_UN)
        return True

    class Looking(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            seen.append("free" if is_free() else "held")
            return super().__eq__(other)

        __hash__ = str.__hash__

    assert is_free()
    opened.commit(Commit(expected={TREE: 0}, puts=(row("a"),), drops=((Looking(TREE), "action", "b"),)))
    assert seen[-1:] == ["held"]
    assert is_free()
    flock(lock, LOCK_EX)
    assert opened.load(TREE).version == 1
    assert opened.generation() == opened.generation()
    os.close(lock)


# ---- journal and retention ------------------------------------------------------------------------------------------


def test_the_journal_cannot_be_changed(path: Path, opened: SqliteStore) -> None:
    """No statement on the file updates, deletes or replaces a line, or puts one before the last."""
    opened.commit(Commit(expected={}, journal=(a_line(), a_line())))
    kept = opened.journal()
    foreign = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE journal SET rule = 'x'",
        "UPDATE journal SET seq = 9 WHERE seq = 1",
        "DELETE FROM journal",
        "DELETE FROM journal WHERE seq = 1",
        "INSERT OR REPLACE INTO journal VALUES (1, 1, 's', 'r', 'x', 't', 'a', '', x'00', 1, NULL, NULL, NULL)",
        "INSERT INTO journal VALUES (0, 1, 's', 'r', 'x', 't', 'a', '', x'00', 1, NULL, NULL, NULL)",
        "INSERT INTO journal VALUES (-1, 1, 's', 'r', 'x', 't', 'a', '', x'00', 1, NULL, NULL, NULL)",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            foreign.execute(statement)
    foreign.close()
    assert opened.journal() == kept


def test_old_rows_that_are_not_live_can_be_pruned(opened: SqliteStore, clock: ManualClock) -> None:
    """Only rows that are over, not due, and last written before the instant go; live ones and the journal stay."""
    put(opened, row("old", live=False), row("live"), row("due", live=False, due_us=1), row("again", live=False))
    opened.commit(Commit(expected={}, journal=(a_line(),)))
    clock.advance(60)
    put(opened, row("again", live=False), row("new", live=False))
    version = opened.load(TREE).version
    assert opened.prune(to_us(clock.now())) == 1
    assert [opened.fetch(TREE, "action", key) is None for key in ("old", "live", "due", "again", "new")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert (opened.load(TREE).version, len(opened.journal())) == (version, 1)


def test_pruning_goes_on_beyond_one_batch(
    opened: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are over, all of them go, in short transactions."""
    monkeypatch.setattr(forbear.store.sqlite, "_PRUNE_BATCH", 10)
    put(opened, *[row(f"{n}", live=False) for n in range(40)], row("live"))
    clock.advance(1)
    assert opened.prune(to_us(clock.now())) == 40
    assert opened.prune(to_us(clock.now())) == 0
    assert len(opened.load(TREE).rows) == 1


# ---- several processes ----------------------------------------------------------------------------------------------


def held(path: Path, name: str) -> int:
    """Hold a lock file as another process would (a lock belongs to the opened file)."""
    descriptor = os.open(path.with_name("forbear.db-owners") / name, os.O_RDWR | os.O_CREAT, 0o600)
    flock(descriptor, LOCK_EX)
    return descriptor


def test_a_second_process_is_warned_about_an_old_sqlite(
    path: Path, opened: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where SQLite has the WAL-reset bug and another process is attached, opening says so, and works."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    descriptor = held(path, "1.0.attached")
    with pytest.warns(RuntimeWarning, match="WAL-reset") as caught:
        second = open_sqlite(path, clock=clock)
    assert [one.filename for one in caught] == [__file__]
    second.close()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    open_sqlite(path, clock=clock).close()
    os.close(descriptor)


def test_a_second_store_of_this_process_or_a_dead_one_is_no_second_process(
    path: Path, opened: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only another living process is warned about; what a dead one left is cleaned."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    os.close(held(path, "1.0.attached"))
    open_sqlite(path, clock=clock).close()
    assert not (path.with_name("forbear.db-owners") / "1.0.attached").exists()


def test_own_owners_stay_alive_when_their_files_are_cleaned_away(path: Path, opened: SqliteStore) -> None:
    """A tool that empties the folder does not make this process's open attempts look lost."""
    opened.register("own_1")
    opened.commit(Commit(expected={TREE: 0}, puts=(Row(scope=TREE, kind="action", key="a", body=b"", owner="own_1"),)))
    for one in path.with_name("forbear.db-owners").iterdir():
        one.unlink()
    assert list(opened.lost()) == []


def test_an_owner_that_is_released_is_lost(clock: ManualClock, opened: SqliteStore) -> None:
    """A controller that ends before its store gives its open attempts up; releasing twice is harmless."""
    memory = open_sqlite(MEMORY, clock=clock)
    for store in (opened, memory):
        store.register("own_1")
        store.commit(
            Commit(expected={TREE: 0}, puts=(Row(scope=TREE, kind="action", key="a", body=b"", owner="own_1"),))
        )
        assert list(store.lost()) == []
        store.release("own_1")
        store.release("own_1")
        assert [one.key for one in store.lost()] == ["a"]
        store.register("own_1")
        assert list(store.lost()) == []
    memory.close()


def test_errors_never_contain_what_was_to_be_stored(opened: SqliteStore) -> None:
    """A message names the rule; keys, bodies and texts of others are not in it."""
    attempts: list[Callable[[], object]] = [
        lambda: put(opened, row(f"{SECRET}\ud800")),
        lambda: put(opened, Row(scope=TREE, kind="action", key=SECRET, body=cast("bytes", SECRET))),
        lambda: put(opened, Row(scope=TREE, kind="action", key=SECRET, body=cast("bytes", None))),
        lambda: put(opened, row(SECRET, due_us=2**70)),
        lambda: opened.fetch(TREE, "action", f"{SECRET}\ud800"),
        lambda: opened.commit(Commit(expected={TREE: 5}, puts=(row(SECRET),))),
        lambda: opened.commit(Commit(expected={}, puts=(row(SECRET),))),
    ]
    for attempt in attempts:
        with pytest.raises((StoreError, UsageError)) as raised:
            attempt()
        assert SECRET not in str(raised.value)
    assert opened.load(TREE).version == 0
