"""The evidence store: what others said (exception text, header fields, bodies), beside the journal, found by digest.

It is a store of its own, in a file that only its user can read, opened when there is first something to keep. A piece is
written before the line that refers to it; a piece that no line refers to is what a crash left. What is in a piece is
`record.py`'s business; nothing in here is ever given to a model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from forbear.errors import StaleWrite, StoreError
from forbear.ports import Commit, Row, Store

__all__ = ["KIND", "LOST", "EvidenceStore", "digest_of", "evidence_path", "scope_of"]

KIND: Final = "evidence"
# What a line says instead of a digest, where the piece could not be written.
LOST: Final = "lost"
_KEYS: Final = "keys"


def evidence_path(store: Path) -> Path:
    """Return the file of the evidence that belongs to a store's file: ``forbear-evidence.db`` beside ``forbear.db``."""
    return store.with_name(f"{store.stem}-evidence{store.suffix}")


def scope_of(request_id: str) -> str:
    """Return the scope of the evidence about one request."""
    return f"evidence:{request_id}"


def digest_of(body: bytes) -> str:
    """Return the digest by which a line refers to a piece (SHA-256, hex)."""
    return sha256(body).hexdigest()


class EvidenceStore:
    """Keeps and finds pieces of evidence; safe for threads.

    Args:
        opener: Opens the store that the pieces are kept in, once.
        new_key: Makes the key of argument digests, where the store has none yet (32 random bytes or more).
    """

    def __init__(self, opener: Callable[[], Store], new_key: Callable[[], bytes]) -> None:
        self._opener = opener
        self._new_key = new_key
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._key = b""
        self._closed = False

    def prepare(self) -> None:
        """Open the store and read its key now: making a file syncs the disk, which is not for an event loop to wait for.

        What cannot be opened is left to the first piece that is to be kept.
        """
        with suppress(StoreError):
            self.key()

    def keep(self, request_id: str, body: bytes) -> str:
        """Store a piece and return its digest; the same piece twice is one.

        Raises:
            StoreError: it cannot be written.
        """
        digest = digest_of(body)
        scope = scope_of(request_id)
        store = self._store()
        row = Row(scope=scope, kind=KIND, key=digest, body=body, request_id=request_id or None, live=False)
        while True:
            version = store.load(scope).version
            if version and store.fetch(scope, KIND, digest) is not None:
                return digest
            # The loser of a race against another piece about the same request tries again.
            with suppress(StaleWrite):
                store.commit(Commit(expected={scope: version}, puts=(row,)))
                return digest

    def read(self, request_id: str, digest: str) -> bytes | None:
        """Return a piece, or None.

        Raises:
            StoreError: the store cannot be read.
        """
        row = self._store().fetch(scope_of(request_id), KIND, digest)
        return None if row is None else row.body

    def key(self) -> bytes:
        """Return the key of argument digests; it is the same for every process on the store, and nowhere else.

        Raises:
            StoreError: the store cannot be read or written.
        """
        if not self._key:
            store = self._store()
            row = store.fetch(_KEYS, "secret", "arguments")
            if row is None:
                row = Row(scope=_KEYS, kind="secret", key="arguments", body=self._new_key())
                try:
                    store.commit(Commit(expected={_KEYS: 0}, puts=(row,)))
                except StaleWrite:
                    row = store.fetch(_KEYS, "secret", "arguments")
            if row is None:
                raise StoreError("the evidence store has lost its key")
            self._key = row.body[:64]
        return self._key

    def close(self) -> None:
        """Close the store, if it was opened; calling it twice is harmless."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _store(self) -> Store:
        with self._lock:
            if self._closed:
                raise StoreError("the evidence store is closed")
            if self._opened is None:
                self._opened = self._opener()
            return self._opened
