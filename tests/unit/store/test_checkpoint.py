"""The write-ahead log is moved by a thread of the store's own, and what goes wrong there harms no commit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import forbear.store.checkpoint
from forbear.ports import Commit, Row
from forbear.store.sqlite import SqliteStore, open_sqlite
from forbear.testing.clock import ManualClock

TREE = "tree:run-1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is."""
    return tmp_path / "forbear.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """Open a store whose log is worth moving after 100 pages."""
    monkeypatch.setattr(forbear.store.checkpoint, "_PAGES", 100)
    opened = open_sqlite(path, clock=ManualClock())
    yield opened
    opened.close()


def write(store: SqliteStore, *, commits: int = 1, size: int = 100_000) -> None:
    """Commit a few large rows."""
    for _ in range(commits):
        version = store.load(TREE).version
        puts = (Row(scope=TREE, kind="result", key=f"{version}", body=b"x" * size),)
        store.commit(Commit(expected={TREE: version}, puts=puts))


def idle(store: SqliteStore) -> bool:
    """Wait until the thread has nothing to do."""
    assert store._checkpoints is not None
    return store._checkpoints.idle.wait(60)


def threads() -> list[str]:
    """Return the checkpoint threads that run."""
    return [one.name for one in threading.enumerate() if one.name == "forbear-checkpoint"]


def test_the_thread_moves_the_log_while_the_store_is_open(path: Path, store: SqliteStore) -> None:
    """The database itself grows without anybody closing it, and this process's cache stays valid."""
    before, generation = path.stat().st_size, store.generation()
    write(store)
    assert (path.stat().st_size, threads()) == (before, [])
    write(store, commits=5)
    assert idle(store)
    assert path.stat().st_size > before + 100_000
    assert store.generation() == generation
    assert len(store.load(TREE).rows) == 6
    assert threads() == ["forbear-checkpoint"]


def test_small_commits_count_too(path: Path, store: SqliteStore) -> None:
    """A log fills with indexes and journal pages even where bodies are small."""
    before = path.stat().st_size
    write(store, commits=30, size=10)
    assert idle(store)
    assert path.stat().st_size > before


def test_closing_ends_the_thread(store: SqliteStore) -> None:
    """Nothing of a closed store runs on."""
    write(store, commits=6)
    store.close()
    assert threads() == []


def test_a_store_that_closes_beside_another_moves_the_log(path: Path, store: SqliteStore) -> None:
    """Short-lived processes beside a long-lived one do not leave an ever longer log."""
    before = path.stat().st_size
    other = open_sqlite(path, clock=ManualClock())
    write(other)
    other.close()
    assert path.stat().st_size > before
    assert len(store.load(TREE).rows) == 1


def test_a_commit_that_was_stored_never_fails_for_want_of_a_thread(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can be had, commits go on, and the thread comes later."""

    def fail(_: threading.Thread) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        write(store, commits=6)
    assert threads() == []
    write(store, commits=6)
    assert idle(store)
    assert len(store.load(TREE).rows) == 12
    assert threads() == ["forbear-checkpoint"]


def test_a_checkpoint_that_fails_is_tried_again(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the thread ends neither it nor a commit."""
    before = path.stat().st_size

    def fail(_: int) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        write(store, commits=5)
        assert idle(store)
    assert path.stat().st_size == before
    assert threads() == ["forbear-checkpoint"]
    write(store, commits=5)
    assert idle(store)
    assert path.stat().st_size > before


def test_the_next_commit_after_a_checkpoint_does_not_begin_the_log(path: Path, store: SqliteStore) -> None:
    """The log's new head, which SQLite syncs, was written by the thread and stays as it is."""
    log = path.with_name("forbear.db-wal")
    first = log.read_bytes()[:32]
    write(store, commits=5)
    assert idle(store)
    second = log.read_bytes()[:32]
    write(store)
    assert log.read_bytes()[:32] == second
    assert len({first, second, b"", bytes(32)}) == 4


def test_the_first_commit_after_opening_does_not_begin_the_log(path: Path, store: SqliteStore) -> None:
    """Opening has written the head of a log that was gone."""
    write(store)
    store.close()
    again = open_sqlite(path, clock=ManualClock())
    log = path.with_name("forbear.db-wal")
    head = log.read_bytes()[:32]
    write(again)
    assert log.read_bytes()[:32] == head != b""
    again.close()


def test_closing_from_several_threads_is_harmless(store: SqliteStore) -> None:
    """Whoever comes second finds it closed."""
    write(store, commits=5)
    closing = [threading.Thread(target=store.close) for _ in range(4)]
    for one in closing:
        one.start()
    for one in closing:
        one.join()
    assert threads() == []


def test_the_log_is_not_moved_more_often_than_it_is_worth(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a checkpoint counting starts anew."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write(store, commits=5)
    assert idle(store)
    assert len(synced) == 1
    for _ in range(3):
        write(store, size=10)
        assert idle(store)
    assert len(synced) == 1
