"""When a retry may start: never before the reset, never at once, never much later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from forbear.core.identity import digest
from forbear.core.timing import FLOOR, LEAST_ROOM, MARGIN, MOST_ROOM, fraction, is_within, not_before, retry_at, room_of

NOW = datetime(2026, 9, 6, tzinfo=UTC)
KEYS = st.text().map(lambda text: digest("action", text))
WAITS = st.timedeltas(min_value=timedelta(days=-2), max_value=timedelta(days=40))


@given(WAITS, KEYS)
def test_a_retry_is_never_before_the_reset_nor_within_the_floor(wait: timedelta, key: str) -> None:
    """The margin lies after the reset, also where clocks differ a little."""
    at = retry_at(NOW + wait, NOW, key)
    assert at >= NOW + wait + MARGIN
    assert at >= NOW + FLOOR + MARGIN


@given(WAITS, KEYS)
def test_margin_and_jitter_are_bounded(wait: timedelta, key: str) -> None:
    """Together they are at most a fifth of the wait, at least a second, at most a minute."""
    base = max(NOW + wait, NOW + FLOOR)
    room = min(max((base - NOW) / 5, LEAST_ROOM), MOST_ROOM)
    assert retry_at(NOW + wait, NOW, key) <= base + room
    assert timedelta(seconds=1) == LEAST_ROOM
    assert timedelta(seconds=60) == MOST_ROOM


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=2)), KEYS)
def test_margin_and_jitter_make_no_wait_too_long(wait: timedelta, key: str) -> None:
    """A reset that is within what may be waited is within it with its margin and jitter; one far behind it is not."""
    assert is_within(retry_at(NOW + wait, NOW, key), wait, NOW)
    assert not is_within(retry_at(NOW + wait * 1.2 + timedelta(seconds=1), NOW, key), wait, NOW)


def test_the_same_key_gives_the_same_instant_and_different_keys_spread() -> None:
    """Jitter is derived, not drawn; a crowd of waiting calls does not start at once."""
    reset = NOW + timedelta(minutes=10)
    instants = {retry_at(reset, NOW, digest("action", str(number))) for number in range(100)}
    assert instants == {retry_at(reset, NOW, digest("action", str(number))) for number in range(100)}
    assert len(instants) == 100
    assert max(instants) - min(instants) > timedelta(seconds=50)


def test_the_ends_of_the_jitter() -> None:
    """The smallest key starts right after the margin, the largest key just before the room ends."""
    reset = NOW + timedelta(seconds=100)
    assert retry_at(reset, NOW, "0" * 32) == reset + timedelta(seconds=0.25)
    late = retry_at(reset, NOW, "f" * 32)
    assert reset + timedelta(seconds=19.99) < late <= reset + timedelta(seconds=20)
    assert fraction("0" * 32) == 0
    assert fraction("80000000" + "f" * 24) == 0.5
    assert 0.999 < fraction("f" * 32) < 1


def test_a_reset_in_the_past_waits_for_the_floor() -> None:
    """A server that says "now" is not asked again at once."""
    assert retry_at(NOW - timedelta(hours=1), NOW, "0" * 32) == NOW + timedelta(seconds=1.25)


def test_no_retry_starts_before_the_reset_and_a_margin() -> None:
    """Whoever's jitter is added: a reset that is past counts from the floor."""
    ahead = timedelta(seconds=30)
    assert not_before(NOW + ahead, NOW) == NOW + ahead + MARGIN
    assert not_before(NOW - ahead, NOW) == NOW + FLOOR + MARGIN
    assert retry_at(NOW + ahead, NOW, "00000000") == not_before(NOW + ahead, NOW)


def test_a_wait_is_within_its_bound_to_the_microsecond() -> None:
    """The longest one with all of its jitter is the last one."""
    wait = timedelta(minutes=10)
    last = NOW + wait + room_of(wait)
    assert is_within(last, wait, NOW)
    assert not is_within(last + timedelta(microseconds=1), wait, NOW)
