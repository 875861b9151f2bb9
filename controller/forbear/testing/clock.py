"""A clock that a test moves, and ids that a test can foresee. Nothing here reads the real time or random bits."""

from __future__ import annotations

import asyncio
import heapq
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

__all__ = ["ManualClock", "SequenceIds"]

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class _Sleeper:
    """One waiting thread (`future` is None) or task."""

    __slots__ = ("future", "loop", "woken")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, future: asyncio.Future[None] | None) -> None:
        self.loop = loop
        self.future = future
        self.woken = False


class ManualClock:
    """Virtual time: it stands still until a test moves it.

    Args:
        start: The first instant, aware.
        auto_advance: A sleeping call moves the clock itself instead of waiting for `advance`. Tasks that fall asleep
            in the same turn of their loop are woken one by one, earliest first.
    """

    def __init__(self, start: datetime = _START, *, auto_advance: bool = False) -> None:
        if start.tzinfo is None:
            raise ValueError("start: must be timezone-aware")
        self._now = start.astimezone(UTC)
        self._auto = auto_advance
        self._changed = threading.Condition()
        self._sleepers: list[tuple[datetime, int, _Sleeper]] = []
        self._numbers = count()

    def now(self) -> datetime:
        """Return the virtual instant, aware UTC."""
        return self._now

    @property
    def sleepers(self) -> int:
        """How many threads and tasks wait for the clock to move."""
        return len(self._sleepers)

    @property
    def next_wake_at(self) -> datetime | None:
        """When the earliest sleeper wants to be woken."""
        with self._changed:
            return self._sleepers[0][0] if self._sleepers else None

    def advance(self, seconds: float | timedelta) -> datetime:
        """Move the clock forward, wake who is due in time order, and return the new instant."""
        step = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        if step < timedelta():
            raise ValueError("seconds: must not be negative; use `set` for a clock that jumps back")
        with self._changed:
            return self._move(self._now + step)

    def set(self, at: datetime) -> datetime:
        """Move the clock to an instant, backwards too, wake who is due in time order, and return it."""
        if at.tzinfo is None:
            raise ValueError("at: must be timezone-aware")
        with self._changed:
            return self._move(at.astimezone(UTC))

    def wait_for_sleepers(self, number: int) -> None:
        """Block until so many threads and tasks are asleep (for tests with threads)."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._sleepers) >= number)

    def sleep(self, seconds: float) -> None:
        """Block the calling thread until another one moves the clock; with `auto_advance`, move it."""
        with self._changed:
            wake_at = self._now + timedelta(seconds=max(seconds, 0.0))
            if self._auto or wake_at <= self._now:
                self._move(max(wake_at, self._now))
                return
            sleeper = _Sleeper(None, None)
            self._add(wake_at, sleeper)
            self._changed.wait_for(lambda: sleeper.woken)

    async def asleep(self, seconds: float) -> None:
        """Suspend the calling task until the clock is moved; with `auto_advance`, move it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        sleeper = _Sleeper(loop, future)
        with self._changed:
            wake_at = self._now + timedelta(seconds=max(seconds, 0.0))
            if wake_at <= self._now:
                self._wake(sleeper)
            else:
                self._add(wake_at, sleeper)
        if self._auto:
            loop.call_soon(self._wake_earliest)
        try:
            await future
        finally:
            with self._changed:
                self._sleepers = [entry for entry in self._sleepers if entry[2] is not sleeper]
                heapq.heapify(self._sleepers)

    def _add(self, wake_at: datetime, sleeper: _Sleeper) -> None:
        heapq.heappush(self._sleepers, (wake_at, next(self._numbers), sleeper))
        self._changed.notify_all()

    def _wake_earliest(self) -> None:
        with self._changed:
            if self._sleepers:
                self._move(max(self._now, self._sleepers[0][0]))

    def _move(self, at: datetime) -> datetime:
        self._now = at
        while self._sleepers and self._sleepers[0][0] <= at:
            self._wake(heapq.heappop(self._sleepers)[2])
        self._changed.notify_all()
        return at

    def _wake(self, sleeper: _Sleeper) -> None:
        sleeper.woken = True
        if sleeper.loop is not None and sleeper.future is not None:
            # A loop that was closed meanwhile has nobody left to wake.
            with suppress(RuntimeError):
                sleeper.loop.call_soon_threadsafe(_finish, sleeper.future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class SequenceIds:
    """Ids that count: the first of each kind ends in 1.

    Args:
        start: Where every kind starts, so that two sources in one test never meet.
    """

    def __init__(self, *, start: int = 1) -> None:
        self._request_ids = count(start)
        self._tickets = count(start)
        self._owners = count(start)

    def request_id(self) -> str:
        """Return ``act_`` and 32 hex characters."""
        return f"act_{next(self._request_ids):032x}"

    def ticket(self) -> str:
        """Return ``tkt_`` and 32 hex characters."""
        return f"tkt_{next(self._tickets):032x}"

    def owner(self) -> str:
        """Return ``own_`` and 32 hex characters."""
        return f"own_{next(self._owners):032x}"
