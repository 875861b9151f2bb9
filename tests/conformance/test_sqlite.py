"""The SQLite store against the public kit, in memory and on a file. Nothing about its files is tested here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forbear.store.sqlite import MEMORY, SqliteStore, open_sqlite
from forbear.testing.clock import ManualClock
from forbear.testing.store_kit import Opener, SharedStoreKit, StoreKit


class TestInMemory(StoreKit):
    """A store in memory belongs to its opener alone."""

    @pytest.fixture
    def opener(self) -> Iterator[Opener]:
        opened: list[SqliteStore] = []

        def open_one() -> SqliteStore:
            opened.append(open_sqlite(MEMORY, clock=ManualClock()))
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()


class TestOnAFile(SharedStoreKit):
    """Every opening is of the same file."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Iterator[Opener]:
        opened: list[SqliteStore] = []

        def open_one() -> SqliteStore:
            opened.append(open_sqlite(tmp_path / "forbear.db", clock=ManualClock()))
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()
