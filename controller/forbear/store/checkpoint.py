"""When SQLite's write-ahead log is moved into the database, and by whom: a thread, not the caller whose commit fills it.

Moving the log syncs the disk. Left to itself SQLite does that inside a commit, which stalls its caller (an event loop)
for milliseconds; with a thread, a commit waits only if it falls into that very moment. How the log is moved is the
store's business; nothing is read or decided here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from forbear.errors import StoreError

__all__ = ["BACKSTOP_PAGES", "Checkpointer"]

# SQLite's own default for a checkpoint, in pages of 4 KiB.
_PAGES: Final = 1000
_PAGE_BYTES: Final = 4096
# Pages that a commit changes besides those of its bodies: table, indexes, scope and journal.
_COMMIT_PAGES: Final = 6
# Where SQLite checkpoints inside a commit all the same: the thread was starved, or processes were killed too often.
BACKSTOP_PAGES: Final = 16 * _PAGES


class Checkpointer:
    """The thread of one store, started when there is first something to do.

    Args:
        log: The file of the write-ahead log.
        move: Moves it, under the store's locks.
    """

    def __init__(self, log: Path, move: Callable[[], None]) -> None:
        self._log = log
        self._move = move
        self._pages = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        # Set while there is nothing to do.
        self.idle = threading.Event()
        self.idle.set()

    def wrote(self, size: int) -> None:
        """Count a commit with so many bytes of bodies, and wake the thread when the log is worth it.

        Called by one thread at a time. Never raises: the commit is done.
        """
        self._pages += _COMMIT_PAGES + size // _PAGE_BYTES
        if self._pages < _PAGES or self._closing:
            return
        self._pages = 0
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="forbear-checkpoint", daemon=True)
            # A process that may start no more threads has SQLite's own checkpoint.
            try:
                thread.start()
            except RuntimeError:
                return
            self._thread = thread
        self.idle.clear()
        self._wake.set()

    def close(self) -> None:
        """End the thread, waiting for what it is doing; no other one is started. Not to be called with a lock held."""
        self._closing = True
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closing:
                return
            # What fails is tried again after more commits, and SQLite's own checkpoint stands behind that.
            with suppress(sqlite3.Error, OSError, StoreError):
                self._sync_log()
                self._move()
            self.idle.set()

    def _sync_log(self) -> None:
        """Sync the log before any lock is taken, so that what is left to sync under it is short.

        SQLite holds no lock on the log's own file that closing a descriptor could drop.
        """
        log = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(log)
        finally:
            os.close(log)
