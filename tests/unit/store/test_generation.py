"""The shared number of commits: a cache is never believed to be newer than it is, whoever dies when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forbear.errors import StoreError
from forbear.ports import Commit, JournalLine, Row
from forbear.store.generation import Generation
from forbear.store.locks import open_private
from forbear.store.sqlite import SqliteStore, open_sqlite
from forbear.testing.clock import ManualClock

TREE = "tree:run-1"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], Generation]]:
    """Return a function that makes the number of one more store on the same file."""
    made: list[tuple[Generation, int]] = []

    def make_one() -> Generation:
        file = tmp_path / "forbear.db-lock"
        descriptor = open_private(file)
        made.append((Generation(file, descriptor), descriptor))
        return made[-1][0]

    yield make_one
    for generation, descriptor in made:
        generation.close()
        os.close(descriptor)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Open two stores on one file."""
    first, second = (open_sqlite(tmp_path / "forbear.db", clock=ManualClock()) for _ in range(2))
    yield first, second
    first.close()
    second.close()


def put(store: SqliteStore, key: str = "a") -> None:
    """Commit a row."""
    row = Row(scope=TREE, kind="action", key=key, body=b"")
    store.commit(Commit(expected={TREE: store.load(TREE).version}, puts=(row,)))


def test_a_commit_shows_to_others_and_not_to_its_own_store(make: Callable[[], Generation]) -> None:
    """Each store counts the others' commits alone."""
    first, second = make(), make()
    seen = first.read(), second.read()
    first.begin()
    first.end()
    assert first.read() == seen[0]
    assert second.read() != seen[1]
    again = second.read()
    assert second.read() == again


def test_while_another_store_commits_nothing_is_believed(make: Callable[[], Generation]) -> None:
    """Between its two marks every look gives a number that was never seen, and the committing store sees its old one."""
    first, second = make(), make()
    own, before = first.read(), second.read()
    first.begin()
    during = [second.read() for _ in range(3)]
    assert first.read() == own
    first.end()
    after = second.read()
    assert len({before, after, *during}) == 5
    assert first.read() == own


def test_a_store_that_died_in_a_commit_is_believed_by_nobody(make: Callable[[], Generation]) -> None:
    """Until somebody commits again every look says changed; then the number is steady, and not the one of before."""
    dying, second, third = make(), make(), make()
    seen = {second.read(), third.read()}
    dying.begin()
    assert len({second.read(), second.read(), *seen}) == len(seen) + 2
    second.begin()
    second.end()
    for generation in (second, third):
        assert generation.read() == generation.read()
        assert generation.read() not in seen


def test_opening_counts_the_commit_of_a_dead_store(make: Callable[[], Generation]) -> None:
    """Who comes new repairs the number, and who was there sees a change."""
    dying, second = make(), make()
    before = second.read()
    dying.begin()
    third = make()
    assert third.read() == third.read()
    assert second.read() == second.read() != before


def test_a_mark_that_cannot_be_written_before_a_commit_prevents_it(
    stores: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored that others could overlook."""

    def fail(*_: object) -> int:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(StoreError):
            put(stores[0])
    assert stores[1].load(TREE).version == 0
    put(stores[0])
    assert stores[1].load(TREE).version == 1


def test_a_mark_that_cannot_be_written_after_a_commit_makes_others_look_again(
    stores: tuple[SqliteStore, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is done and says so; nobody believes a cache until the next one."""
    first, second = stores
    before = second.generation()
    real, calls = os.pwrite, iter([True, False])

    def once(descriptor: int, content: bytes, offset: int) -> int:
        if not next(calls):
            raise OSError
        return real(descriptor, content, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", once)
        put(first)
    assert second.load(TREE).version == 1
    assert len({before, second.generation(), second.generation()}) == 3
    put(first)
    assert second.generation() == second.generation() != before


def test_only_changed_rows_make_others_read_again(stores: tuple[SqliteStore, SqliteStore]) -> None:
    """Journal lines, owners and refused commits cost no other process its cache."""
    first, second = stores
    before = second.generation()
    line = JournalLine(at_us=1, scope=TREE, run="r", rule="a.b.c", tool="t", action="a", request_id="", body=b"{}")
    first.commit(Commit(expected={}, journal=(line,)))
    first.register("own_1")
    first.lost()
    first.prune(2**62)
    with pytest.raises(StoreError):
        first.commit(Commit(expected={TREE: 7}, puts=(Row(scope=TREE, kind="action", key="a", body=b""),)))
    assert second.generation() == before
    put(first)
    assert second.generation() != before
