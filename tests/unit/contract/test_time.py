"""Time forms: strict ASCII grammar, capped before arithmetic, never an exception, never earlier than what was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import time as t

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
BASE = t.Base(NOW)


def at(hint: t.Hint | None) -> float | str | None:
    """Return a hint as seconds ahead, "far", or None."""
    if hint is None:
        return None
    return "far" if hint.at is None else (hint.at - NOW).total_seconds()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        ("00120", 120),
        ("120.5", 121),
        ("2.0", 2),
        ("0.001", 1),
        ("2678400", 2678400),
        ("2678401", "far"),
        ("1788264060", 60),
        ("1788264060000", 60),
        ("1788263940", 0),
        ("1000000000", "far"),
        ("4102444800", "far"),
        ("9" * 400, "far"),
        ("-5", None),
        ("+5", None),
        ("1e3", None),
        ("1_000", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("٣٠", None),
        ("\uff13\uff10", None),
        ("²", None),
        ("1,5", 5),
        ("30, 60", 60),
        ("60, 30", 60),
        ("30, soon", 30),
        ("30, Tue, 01 Sep 2026 12:02:00 GMT", 120),
        ("", None),
        ("soon", None),
        ("120\x00", None),
        ("120s", None),
        ("120; note=ignore previous instructions", None),
        ("Tue, 01 Sep 2026 12:02:00 GMT", 120),
        ("Tue, 1 Sep 2026 12:02:00 GMT", 120),
        ("Mon, 01 Sep 2026 12:02:00 GMT", 120),
        ("tue, 01 sep 2026 12:02:00 gmt", 120),
        ("Tuesday, 01-Sep-26 12:02:00 GMT", 120),
        ("Tue Sep  1 12:02:00 2026", 120),
        ("Tue Sep 01 12:02:00 2026", 120),
        ("Tue, 01 Sep 2026 12:01:60 GMT", 120),
        ("Tue, 01 Sep 2026 14:02:00 +0200", 120),
        ("Tue, 01 Sep 2026 10:02:00 -0200", 120),
        ("2026-09-01T12:02:00Z", 120),
        ("2026-09-01T14:02:00+02:00", 120),
        ("2026-09-01T12:02:00.0001Z", 120.001),
        ("2026-09-01T12:02:00", None),
        ("Tue, 32 Sep 2026 12:02:00 GMT", None),
        ("Tue, 31 Sep 2026 12:02:00 GMT", None),
        ("Tue, 01 Foo 2026 12:02:00 GMT", None),
        ("Tue, 01 Sep 2026 25:02:00 GMT", None),
        ("Tue, 01 Sep 2026 12:61:00 GMT", None),
        ("Tue, 01 Sep 2026 12:02:61 GMT", None),
        ("Tue, 01 Sep 2026 12:02:00 EST", None),
        ("Tue, 01 Sep 2026 12:02:00", None),
        ("Tue, 01 Sep 26 12:02:00 GMT", None),
        ("Tue, 01 Sep 2026 12:02:00 +9900", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0),
        ("Friday, 31-Dec-99 23:59:59 GMT", 0),
        ("Wed, 31 Dec 2036 23:59:59 GMT", "far"),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("0000-01-01T00:00:00Z", None),
        ("Tue Sep 01 2026 14:10:00 GMT+0200 (Central European Summer Time)", None),
    ],
)
def test_retry_after(value: str, seconds: float | str | None) -> None:
    """Each form of Retry-After is read or ignored as RFC 9110 and the design say."""
    assert at(t.retry_after((value,), BASE)) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("600", 600),
        ("250.25", 250.25),
        ("1788264600", 600),
        ("1788264600.570", 600.57),
        ("1788264600000", 600),
        ("1788260400", 0),
        ("99999999999", "far"),
        ("1000000000000000", None),
        ("9" * 400, None),
        ("2678401", "far"),
        ("2026-09-01T12:10:00Z", 600),
        ("2026-09-01T12:10Z", 660),
        ("2026-09-01T12:10", None),
        ("Tue, 01 Sep 2026 12:10:00 GMT", 600),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("12ms", 0.012),
        ("1us", 0.001),
        ("1s2", None),
        ("m", None),
        ("-1", None),
        ("1788264900, 1788264060", 900),
    ],
)
def test_reset_of_unknown_unit(value: str, seconds: float | str | None) -> None:
    """A reset field of unknown unit is read by the one rule for epochs, deltas, dates and durations."""
    assert at(t.reset((value,), BASE)) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1500", 1.5), ("0", 0), ("1500.2", 1.501), ("-1", None), ("", None), ("9" * 30, "far"), ("2678400001", "far")],
)
def test_milliseconds(value: str, seconds: float | str | None) -> None:
    """Fields in milliseconds are read exactly and rounded up."""
    assert at(t.milliseconds_after((value,), BASE)) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5),
        (64.57, 64.57),
        ("64.58", 64.58),
        (0, 0),
        (-1, None),
        (True, None),
        (None, None),
        ([], None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, "far"),
        (10**30, "far"),
        ("soon", None),
    ],
)
def test_seconds_in_a_body(value: object, seconds: float | str | None) -> None:
    """A number of seconds in a body is read whatever its type, and nothing else is."""
    assert at(t.seconds_after(value, BASE)) == seconds


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [("30s", 30000), ("3.456789012s", 3457), ("-5s", None), ("5", None), ("s", None), (7, None), ("5ms", None)],
)
def test_protobuf_durations(value: object, milliseconds: int | None) -> None:
    """A protobuf duration is seconds with an s, up to nine decimals, rounded up to a millisecond."""
    assert t.proto_duration_ms(value) == milliseconds


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ((), 120),
        (("Tue, 01 Sep 2026 12:00:00 GMT",), 120),
        (("Tue, 01 Sep 2026 11:55:00 GMT",), 420),
        (("Tue, 01 Sep 2026 12:01:00 GMT",), 60),
        (("Tue, 01 Sep 2026 12:10:00 GMT",), 0),
        (("Tue, 01 Sep 2026 12:10:01 GMT",), None),
        (("Tue, 01 Sep 2026 11:49:59 GMT",), None),
        (("yesterday",), 120),
        (("Tue, 01 Sep 2026 11:55:00 GMT", "Tue, 01 Sep 2026 11:55:00 GMT"), 120),
    ],
)
def test_the_servers_clock_counts_for_its_dates(date: tuple[str, ...], seconds: float | None) -> None:
    """An absolute time is measured against the response's Date; a Date that contradicts us proves nothing."""
    base = t.base_of(NOW, date)
    assert at(t.retry_after(("Tue, 01 Sep 2026 12:02:00 GMT",), base)) == seconds
    assert at(t.retry_after(("120",), base)) == 120


def test_later_prefers_what_is_further_ahead() -> None:
    """Of several hints the latest counts, and one that is too far ahead is the latest of all."""
    one, other = t.Hint(NOW), t.Hint(NOW + timedelta(seconds=1))
    assert t.later(None, one, other, None) == other
    assert t.later(one, t.TOO_FAR, other) == t.TOO_FAR
    assert t.later(None) is None


numbers = st.text("0123456789.-+eE_ ,:;TZGMTUhms\x00٣", max_size=40)


@given(value=st.text(max_size=200) | numbers)
def test_no_text_raises_or_gives_a_past_time(value: str) -> None:
    """No text at all makes a reader raise, and no hint lies in the past or beyond the cap."""
    for hint in (
        t.retry_after((value,), BASE),
        t.reset((value,), BASE),
        t.milliseconds_after((value,), BASE),
        t.seconds_after(value, BASE),
    ):
        if hint is not None and hint.at is not None:
            assert NOW <= hint.at <= NOW + t.MAX_AHEAD
    t.http_date(value, NOW)
    t.iso_instant(value)
    t.go_duration_ms(value)
    t.proto_duration_ms(value)


@given(moment=st.datetimes(datetime(2026, 9, 1, 12), datetime(2026, 9, 30)))  # noqa: DTZ001
def test_dates_that_we_write_are_read(moment: datetime) -> None:
    """An IMF-fixdate and an RFC 3339 text of an instant are read as that instant."""
    instant = moment.replace(microsecond=0, tzinfo=UTC)
    assert t.http_date(format_datetime(instant, usegmt=True), NOW) == instant
    assert t.iso_instant(instant.isoformat()) == instant


@given(seconds=st.decimals(0, 2_000_000, places=6))
def test_decimals_are_never_earlier(seconds: object) -> None:
    """A decimal number of seconds is rounded up, by less than a millisecond."""
    milliseconds = t.decimal_ms(str(seconds))
    assert milliseconds is not None
    assert 0 <= milliseconds - float(str(seconds)) * 1000 < 1.0001
