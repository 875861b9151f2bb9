"""A number that tells a process whether another one has committed, for the price of a look at memory.

Eight bytes in the file of the write lock, mapped for reading and written with the lock held: even at rest, odd while a
commit is under way. A process that dies in between leaves it odd, and then every look says "changed" until the next
commit: a cache is never believed to be newer than it is. The version checks of commits do not depend on it.
"""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

__all__ = ["Generation"]

_SIZE: Final = 8


class Generation:
    """The shared number, as one store sees it: its own commits are subtracted.

    Made, and written, with the write lock held; read without it.

    Args:
        file: The file of the write lock, which exists.
        descriptor: Of that file, open for writing; it stays the caller's.
    """

    def __init__(self, file: Path, descriptor: int) -> None:
        self._descriptor = descriptor
        self._own = 0
        self._unlike = count(1)
        stored = os.pread(descriptor, _SIZE, 0)
        # Written, not made by truncating: a hole that cannot be filled would be a signal instead of an error.
        self._write(int.from_bytes(stored, sys.byteorder) if len(stored) == _SIZE else 0)
        # The mapping keeps a descriptor of its own, which must not be a copy of the one that the lock belongs to.
        mapped = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(mapped, _SIZE, access=mmap.ACCESS_READ)
        finally:
            os.close(mapped)
        self._view = memoryview(self._map).cast("Q")
        self._repair()

    def read(self) -> int:
        """Return the number; while a commit of another process is under way, one that was never returned before.

        Raises:
            ValueError: it was closed.
        """
        number = self._view[0] - self._own
        return -next(self._unlike) if number & 1 else number

    def begin(self) -> None:
        """Say that a commit is under way.

        Raises:
            OSError: it cannot be said, so nothing may be committed.
        """
        self._write(self._repair() + 1)
        self._own += 1

    def end(self) -> None:
        """Say that it is over. Never raises: the commit is done, and an odd number is safe."""
        with suppress(OSError):
            self._write(self._view[0] + 1)
            self._own += 1

    def close(self) -> None:
        """Let go of the file."""
        self._view.release()
        self._map.close()

    def _repair(self) -> int:
        """Count the commit of a process that died in the middle, and return the number, which is even."""
        number = self._view[0]
        if number & 1:
            number += 1
            self._write(number)
        return number

    def _write(self, number: int) -> None:
        os.pwrite(self._descriptor, number.to_bytes(_SIZE, sys.byteorder), 0)
