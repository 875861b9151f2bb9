"""Which header field says when a refusal ends: precedence, exhausted quotas, malformed and oversized fields."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forbear.contract.hints import Ends, Fields, base_of, ends_of

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def ends(*headers: tuple[str, str]) -> Ends:
    """Return what these fields say."""
    fields = Fields(headers)
    return ends_of(fields, base_of(fields, NOW))


def seconds(*headers: tuple[str, str]) -> float | str | None:
    """Return the end that counts, in seconds ahead."""
    hint = ends(*headers).hint()
    if hint is None:
        return None
    return "far" if hint.at is None else (hint.at - NOW).total_seconds()


@pytest.mark.parametrize(
    ("value", "expected", "exhausted"),
    [
        ('"default";r=0;t=30', 30, True),
        ('"burst";r=0;t=5, "daily";r=0;t=3600', 3600, True),
        ('"burst";r=0;t=5, "daily";r=900;t=86400', 5, True),
        ('"default";r=5;t=30', None, False),
        ('"default";r=0', None, True),
        ('"default";t=30', None, False),
        ('"default";r=-1;t=30', None, False),
        ('"default";r=0;t=1.5', None, False),
        ('"default";r="0";t=30', None, False),
        ("default;r=0;t=30", None, False),
        ('("default");r=0;t=30', None, False),
        ('"default";r=0;t=30;pk=:aGk=:', 30, True),
        ('"default";r=0;t=999999999999999', "far", True),
        ('"default";r=0;t=9999999999999999', None, False),
        ("limit=100, remaining=0, reset=30", 30, True),
        ("limit=100, remaining=3, reset=30", None, False),
        ("limit=100, remaining=0", None, False),
        ("limit=100;remaining=0", None, False),
        ('"a";r=0;t=30,', None, False),
        ("", None, False),
        ("ä", None, False),
    ],
)
def test_ratelimit_field(value: str, expected: float | str | None, *, exhausted: bool) -> None:
    """RateLimit is a List of Strings, or draft -07's Dictionary; a malformed field is ignored whole."""
    assert seconds(("RateLimit", value)) == expected
    assert ends(("RateLimit", value)).exhausted is exhausted


def test_a_list_may_be_split_over_lines() -> None:
    """Two RateLimit lines are one list."""
    assert seconds(("RateLimit", '"a";r=0;t=5'), ("ratelimit", '"b";r=0;t=9')) == 9


def test_a_cached_quota_is_ignored() -> None:
    """A response out of a cache says nothing about the quota now, but a Retry-After still counts."""
    assert seconds(("RateLimit", '"a";r=0;t=5'), ("Age", "12")) is None
    assert seconds(("RateLimit", '"a";r=0;t=5'), ("Age", "0")) == 5
    assert seconds(("RateLimit", '"a";r=0;t=5'), ("Age", "12"), ("Retry-After", "7")) == 7


def test_retry_after_beats_quota_fields() -> None:
    """A valid Retry-After counts also when it is earlier; one that does not parse is as if absent."""
    assert seconds(("RateLimit", '"a";r=0;t=90'), ("Retry-After", "30")) == 30
    assert seconds(("X-RateLimit-Reset", "90"), ("Retry-After", "30")) == 30
    assert seconds(("X-RateLimit-Reset", "90"), ("Retry-After", "soon")) == 90


def test_the_later_of_two_explicit_waits_counts() -> None:
    """Seconds and milliseconds beside each other: the later."""
    assert seconds(("Retry-After", "30"), ("retry-after-ms", "1500")) == 30
    assert seconds(("Retry-After", "1"), ("x-ms-retry-after-ms", "1500")) == 1.5


@pytest.mark.parametrize(
    ("remaining", "expected"), [("0", 60), ("0.0", 60), ("9", None), ("", 60), ("many", 60), ("9, 0", 60), ("-1", 60)]
)
def test_a_reset_counts_where_nothing_remains(remaining: str, expected: float | None) -> None:
    """A reset of a quota with something left says nothing about this refusal."""
    for family in ("X-RateLimit", "X-Rate-Limit", "RateLimit"):
        assert seconds((f"{family}-Reset", "60"), (f"{family}-Remaining", remaining)) == expected


def test_two_families_the_later_counts() -> None:
    """Of several exhausted quotas the later reset counts."""
    assert seconds(("X-RateLimit-Reset", "60"), ("X-Rate-Limit-Reset", "90"), ("RateLimit-Reset", "30")) == 90


def test_bounds() -> None:
    """Endless digits are a number that is too large; other oversized values and headers are not read."""
    assert seconds(("Retry-After", "9" * 65536)) == "far"
    assert seconds(("Retry-After", "x" * 65536)) is None
    assert seconds(("RateLimit", '"a";r=0;t=5,' * 6000)) is None
    assert seconds(*[("X-Junk", "1")] * 10000, ("Retry-After", "5")) == 5
    assert seconds(*[("X-Junk", "1")] * 10000, ("X-Vendor-Reset", "5")) is None
    assert seconds(*[("X-Junk", "1")] * 30000, ("Retry-After", "5")) is None
    assert seconds(("Retry-After", "5"), *[("X-Junk", "1")] * 10000) == 5
