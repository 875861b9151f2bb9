"""Locks that the kernel drops when a process dies: one around write transactions, one a living owner. No SQL is here.

``flock`` belongs to the open file, not to the process: two stores in one process exclude each other as two processes
do, and closing another descriptor of the same file releases nothing. A forked child shares its parent's locks; the
store therefore closes its copies there (see ``sqlite.py``), or a dead parent would look alive.

Everything here except `close` in a forked child is called with the write lock held, so that no file is removed between being
opened and being locked by somebody else.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from forbear.errors import UsageError

__all__ = ["FileLiveness", "Liveness", "MemoryLiveness", "is_locked", "open_private"]

_OWNER: Final = ".owner"
_ATTACHED: Final = ".attached"


def open_private(path: Path, *, exclusive: bool = False) -> int:
    """Open a file that only this user can read, making it if need be, and return its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if exclusive else 0)
    return os.open(path, flags, 0o600)


def is_locked(path: Path) -> bool:
    """Return whether somebody alive holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _file_of(owner: str) -> str:
    # A digest: an owner's name is somebody else's text and never becomes a path.
    return blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() + _OWNER


class Liveness(Protocol):
    """Who is alive. Every method is called with the store's write lock held."""

    def declare(self, owner: str) -> None:
        """Declare an owner alive until `retire`, `close` or the death of this process.

        Raises:
            UsageError: another store holds this owner's name.
        """
        ...

    def retire(self, owner: str) -> None:
        """Declare an owner dead; unknown ones are ignored."""
        ...

    def dead(self, owners: Iterable[str]) -> frozenset[str]:
        """Return those of some owners that are not alive, and forget what the dead left behind."""
        ...

    def close(self, *, remove: bool = True) -> None:
        """Declare every owner of this store dead; `remove` is False in a forked child, whose parent lives on."""
        ...


class MemoryLiveness:
    """`Liveness` of a store that no other process can see."""

    def __init__(self) -> None:
        self._owners: set[str] = set()

    def declare(self, owner: str) -> None:
        """Declare an owner alive."""
        self._owners.add(owner)

    def retire(self, owner: str) -> None:
        """Declare an owner dead."""
        self._owners.discard(owner)

    def dead(self, owners: Iterable[str]) -> frozenset[str]:
        """Return those of some owners that are not alive."""
        return frozenset(owners) - self._owners

    def close(self, *, remove: bool = True) -> None:
        """Declare every owner dead."""
        self._owners.clear()


class FileLiveness:
    """`Liveness` in a folder with one locked file for every living owner and every attached store.

    Args:
        folder: Made if it is absent, readable by this user alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # File name -> descriptor that holds its lock.
        self._held: dict[str, int] = {}
        folder.mkdir(mode=0o700, exist_ok=True)

    def attach(self) -> bool:
        """Declare that this process uses the store, and return whether another process does too."""
        alive = self._sweep()
        mine = f"{os.getpid()}."
        number = 0
        while mine + f"{number}{_ATTACHED}" in alive:
            number += 1
        self._hold(mine + f"{number}{_ATTACHED}")
        return any(name.endswith(_ATTACHED) and not name.startswith(mine) for name in alive)

    def declare(self, owner: str) -> None:
        """Declare an owner alive until `retire`, `close` or the death of this process.

        Raises:
            UsageError: another store holds this owner's name.
        """
        name = _file_of(owner)
        if name not in self._held:
            self._hold(name)

    def retire(self, owner: str) -> None:
        """Declare an owner dead; unknown ones are ignored."""
        self._drop(_file_of(owner))

    def dead(self, owners: Iterable[str]) -> frozenset[str]:
        """Return those of some owners whose lock is free, and remove the files of the dead."""
        alive = self._sweep()
        return frozenset(owner for owner in owners if _file_of(owner) not in alive)

    def _sweep(self) -> frozenset[str]:
        """Remove the files of the dead and return the names of those that are held."""
        # Own locks count even if somebody cleaned the folder.
        alive = set(self._held)
        for path in self._folder.iterdir():
            if path.name in alive or path.suffix not in {_OWNER, _ATTACHED}:
                continue
            if is_locked(path):
                alive.add(path.name)
            else:
                path.unlink(missing_ok=True)
        return frozenset(alive)

    def close(self, *, remove: bool = True) -> None:
        """Release every lock of this store; `remove` is False in a forked child, whose parent goes on living."""
        for name in list(self._held):
            if remove:
                self._drop(name)
            else:
                os.close(self._held.pop(name))

    def _hold(self, name: str) -> None:
        descriptor = open_private(self._folder / name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError("owner: must be a name that no other living store has registered") from None
        self._held[name] = descriptor

    def _drop(self, name: str) -> None:
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            (self._folder / name).unlink(missing_ok=True)
            os.close(descriptor)
