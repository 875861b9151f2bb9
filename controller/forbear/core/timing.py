"""When a retry may start: floor, margin and jitter on top of a named reset (design section 9). No clock is read here."""

from __future__ import annotations

from datetime import datetime, timedelta

FLOOR = timedelta(seconds=1)
MARGIN = timedelta(milliseconds=250)
SHARE = 5  # margin and jitter together: at most a fifth of the wait
LEAST_ROOM = timedelta(seconds=1)
MOST_ROOM = timedelta(seconds=60)


def fraction(key: str) -> float:
    """Return a number in [0, 1) that is derived from a digest, the same for the same key."""
    return int(key[:8], 16) / 2**32


def not_before(reset: datetime, now: datetime) -> datetime:
    """Return the instant before which no retry of this reset starts, without anybody's jitter."""
    return max(reset, now + FLOOR) + MARGIN


def retry_at(reset: datetime, now: datetime, key: str) -> datetime:
    """Return the instant of the one retry: never before `reset`, never less than the floor from now."""
    base = max(reset, now + FLOOR)
    room = min(max((base - now) / SHARE, LEAST_ROOM), MOST_ROOM)
    return base + MARGIN + (room - MARGIN) * fraction(key)
