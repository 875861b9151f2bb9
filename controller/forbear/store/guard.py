"""What stands around a connection: the write lock, who is alive, and the number of foreign commits. No SQL is here.

`FileGuard` does it with files beside the database; `MemoryGuard` for a database that no other process can see. Threads
of one process are kept apart by the store itself; every method but `generation` is called by one thread at a time.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path
from typing import Protocol

from forbear.store.generation import Generation
from forbear.store.locks import FileLiveness, Liveness, MemoryLiveness, open_private

__all__ = ["FileGuard", "Guard", "MemoryGuard"]


class Guard(Protocol):
    """What a store needs around its transactions."""

    @property
    def liveness(self) -> Liveness:
        """Return who is alive; used with the lock held."""
        ...

    def acquire(self) -> None:
        """Wait for the write lock, which excludes every other store of this database."""
        ...

    def release(self) -> None:
        """Give the write lock back, whether or not it is held."""
        ...

    def check(self) -> None:
        """See with the lock held that the files are where others find them.

        Raises:
            OSError: one was moved, deleted or replaced: what is written here, nobody reads.
        """
        ...

    def generation(self) -> int:
        """Return a number that changes with the commits of other stores; needs no lock."""
        ...

    def begin(self) -> None:
        """Tell other stores that a commit is under way."""
        ...

    def end(self) -> None:
        """Tell them that it is over. Never raises."""
        ...

    def close(self) -> None:
        """Declare this store's owners dead and let go of the files; called with the lock held, which is given back."""
        ...

    def abandon(self) -> None:
        """Let go of the files in a forked child, whose parent goes on using them."""
        ...


class MemoryGuard:
    """`Guard` of a database in memory."""

    def __init__(self) -> None:
        self._liveness = MemoryLiveness()

    @property
    def liveness(self) -> Liveness:
        """Return who is alive."""
        return self._liveness

    def acquire(self) -> None:
        """Return at once."""

    def release(self) -> None:
        """Return at once."""

    def check(self) -> None:
        """Return at once."""

    def generation(self) -> int:
        """Return 0: nobody else commits."""
        return 0

    def begin(self) -> None:
        """Tell nobody."""

    def end(self) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """Declare every owner dead."""
        self._liveness.close()

    def abandon(self) -> None:
        """Declare every owner dead."""
        self._liveness.close()


class FileGuard:
    """`Guard` of a database in a file, whose `-lock` file is opened at once and the rest by `attach`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._file = path.with_name(path.name + "-lock")
        self._folder = path.with_name(path.name + "-owners")
        self._lock = open_private(self._file)
        self._alive: FileLiveness | None = None
        self._commits: Generation | None = None
        # The database and the lock file, as they were when they were opened.
        self._found: tuple[os.stat_result, os.stat_result] | None = None

    def attach(self) -> bool:
        """Take part, with the lock held, and return whether another process does too."""
        self._alive = FileLiveness(self._folder)
        shared = self._alive.attach()
        self._commits = Generation(self._file, self._lock)
        self._found = self._path.stat(), os.fstat(self._lock)
        return shared

    @property
    def liveness(self) -> Liveness:
        """Return who is alive."""
        assert self._alive is not None
        return self._alive

    def acquire(self) -> None:
        """Wait for the write lock, however long another process has it; a dead one never has."""
        flock(self._lock, LOCK_EX)

    def release(self) -> None:
        """Give the write lock back, said and not left to closing: a child that is being forked may hold a copy."""
        flock(self._lock, LOCK_UN)

    def check(self) -> None:
        """See that both files are where others find them.

        Raises:
            OSError: one was moved, deleted or replaced.
        """
        if self._found is None:
            return
        for path, found in zip((self._path, self._file), self._found, strict=True):
            if not os.path.samestat(path.stat(), found):
                raise FileNotFoundError
        # SQLite removes it only where it closes the last connection.
        self._log.stat()

    def generation(self) -> int:
        """Return the number of foreign commits.

        Raises:
            ValueError: the guard was closed.
        """
        assert self._commits is not None
        return self._commits.read()

    def begin(self) -> None:
        """Tell other stores that a commit is under way."""
        assert self._commits is not None
        self._commits.begin()

    def end(self) -> None:
        """Tell them that it is over."""
        assert self._commits is not None
        self._commits.end()

    def close(self) -> None:
        """Declare this store's owners dead and let go of the files."""
        if self._alive is not None:
            self._alive.close()
        if self._commits is not None:
            self._commits.close()
        self.release()
        os.close(self._lock)

    def abandon(self) -> None:
        """Let go of the files in a forked child."""
        if self._alive is not None:
            self._alive.close(remove=False)
        if self._commits is not None:
            self._commits.close()
        os.close(self._lock)
