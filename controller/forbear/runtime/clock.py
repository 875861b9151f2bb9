"""The real time and real randomness: the only Python file that reads either. Nothing is decided here."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["SystemClock", "SystemIds"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Ids that one read of the system's random source serves.
_POOLED: Final = 256
_ID_BYTES: Final = 16


class SystemClock:
    """The machine's wall clock, which never goes backwards within one process.

    A clock that jumps back is held at the last instant until it has caught up, so that nothing happens earlier than an
    instant that was already seen.

    Args:
        on_jump_back: Called once a jump with how far the clock went back, from the thread that noticed.
    """

    def __init__(self, *, on_jump_back: Callable[[timedelta], None] | None = None) -> None:
        self._on_jump_back = on_jump_back
        self._lock = threading.Lock()
        # Microseconds since the epoch: the latest instant returned, and the reading before this one.
        self._latest = 0
        self._reading = 0

    def now(self) -> datetime:
        """Return the present instant, aware UTC, rounded down to microseconds."""
        return _EPOCH + timedelta(microseconds=self.now_us())

    def now_us(self) -> int:
        """Return the present instant as microseconds since the epoch: what `now` returns, without making an object."""
        with self._lock:
            # Read under the lock: a thread that was overtaken would look like a jump.
            reading = time.time_ns() // 1000
            jumped = self._reading - reading
            self._reading = reading
            latest = self._latest
            if reading > latest:
                self._latest = latest = reading
        if jumped > 0 and self._on_jump_back is not None:
            self._on_jump_back(timedelta(microseconds=jumped))
        return latest

    def sleep(self, seconds: float) -> None:
        """Block the calling thread; a negative time is none."""
        time.sleep(max(seconds, 0.0))

    async def asleep(self, seconds: float) -> None:
        """Suspend the calling task; a negative time is none."""
        await asyncio.sleep(max(seconds, 0.0))


class SystemIds:
    """128 random bits an id, from the operating system, read in pools; a forked child never continues a pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = ""
        self._used = 0
        self._pid = 0

    def request_id(self) -> str:
        """Return ``act_`` and 32 hex characters."""
        return "act_" + self._next()

    def ticket(self) -> str:
        """Return ``tkt_`` and 32 hex characters."""
        return "tkt_" + self._next()

    def owner(self) -> str:
        """Return ``own_`` and 32 hex characters: a new name for an executing process."""
        return "own_" + self._next()

    def _next(self) -> str:
        pid = os.getpid()
        with self._lock:
            if self._used >= len(self._pool) or pid != self._pid:
                self._pool = os.urandom(_POOLED * _ID_BYTES).hex()
                self._used = 0
                self._pid = pid
            start = self._used
            self._used = end = start + 2 * _ID_BYTES
            return self._pool[start:end]
