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
    return base + MARGIN + (room_of(base - now) - MARGIN) * fraction(key)


def room_of(wait_for: timedelta) -> timedelta:
    """Return the most that margin and jitter together add to a wait."""
    return min(max(wait_for / SHARE, LEAST_ROOM), MOST_ROOM)


def is_within(retry_at: datetime, wait_for: timedelta, now: datetime) -> bool:
    """Say whether the reset behind a retry is at most so far ahead: margin and jitter do not make a wait too long."""
    return retry_at - now <= wait_for + room_of(wait_for)
