"""Read the time forms that services use: deltas, HTTP-dates, ISO 8601, epochs, durations. No header name lives here.

Everything is ASCII grammar, capped before arithmetic: `nan`, `inf`, `1e3`, `1_000`, signs and Unicode digits are not
numbers here. Sources: RFC 9110 5.6.7 and 10.2.3, RFC 3339, Go's time.Duration, protobuf's JSON Duration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

# A named time further ahead than this is no schedule (design section 9).
MAX_AHEAD: Final = timedelta(days=31)
# A server's Date header that differs by more than this says nothing about its clock.
MAX_SKEW: Final = timedelta(minutes=10)
MAX_TIME_TEXT: Final = 128

_MS: Final = timedelta(milliseconds=1)
_MAX_AHEAD_MS: Final = MAX_AHEAD // _MS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_SECONDS: Final = 10**9
_EPOCH_MS: Final = 10**12
_NOT_A_TIME: Final = 10**15
_LAST_SECOND: Final = 253402300799

_MONTHS: Final = {
    name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)
}
_DAY: Final = r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}"
_DATE: Final = re.compile(
    rf"(?:{_DAY},?[ ]+)?([0-9]{{1,2}})([ -])([a-z]{{3}})\2([0-9]{{4}}|[0-9]{{2}})[ ]+"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})[ ]+(gmt|utc|[+-][0-9]{4})",
    re.ASCII | re.IGNORECASE,
)
_ASCTIME: Final = re.compile(
    rf"{_DAY}[ ]+([a-z]{{3}})[ ]+([0-9]{{1,2}})[ ]+([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}})[ ]+([0-9]{{4}})",
    re.ASCII | re.IGNORECASE,
)
_ISO: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"[ ]?(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})",
    re.ASCII | re.IGNORECASE,
)
_DECIMAL: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?", re.ASCII)
_GO_PART: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(h|ms|us|\u00b5s|ns|m|s)")
_GO_UNIT_NS: Final = {
    "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "\u00b5s": 10**3, "ns": 1
}  # fmt: skip
_WEEKDAY_COMMA: Final = re.compile(rf"\b{_DAY},[ ]*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hint:
    """When the other side says that its refusal ends. ``at`` None = further ahead than `MAX_AHEAD`."""

    at: datetime | None


TOO_FAR: Final = Hint(None)


@dataclass(frozen=True, slots=True)
class Base:
    """What times are measured against: the instant of receipt, and the server's own clock at that instant.

    `skew` = receipt minus the server's Date; None = a Date that contradicts us, so that absolute times prove nothing.
    """

    now: datetime
    skew: timedelta | None = timedelta(0)

    def after(self, milliseconds: int) -> Hint:
        """Return the hint that lies so many milliseconds ahead."""
        if milliseconds > _MAX_AHEAD_MS:
            return TOO_FAR
        return Hint(self.now + milliseconds * _MS)

    def at(self, instant: datetime) -> Hint | None:
        """Return the hint for an absolute time of the server's clock; past = now; None = the clocks contradict."""
        if self.skew is None:
            return None
        try:
            ours = instant + self.skew
        except OverflowError:
            return TOO_FAR
        if ours - self.now > MAX_AHEAD:
            return TOO_FAR
        return Hint(max(ours, self.now))


def base_of(now: datetime, dates: tuple[str, ...]) -> Base:
    """Return the base of a response with these Date fields; anything but one readable Date is no evidence."""
    if len(dates) != 1:
        return Base(now)
    served = http_date(dates[0].strip(" \t"), now)
    if served is None:
        return Base(now)
    skew = now - served
    return Base(now, skew if abs(skew) <= MAX_SKEW else None)


def later(*hints: Hint | None) -> Hint | None:
    """Return the latest hint; one that is too far ahead is later than all."""
    best: Hint | None = None
    for hint in hints:
        if hint is None:
            continue
        if hint.at is None:
            return TOO_FAR
        if best is None or best.at is None or hint.at > best.at:
            best = hint
    return best


def is_digits(text: str) -> bool:
    """Tell whether a text is 1*DIGIT in ASCII."""
    return text.isascii() and text.isdigit()


def bounded_int(text: str) -> int | None:
    """Return the number that ASCII digits spell; None = too large to be a time."""
    significant = text.lstrip("0")
    return int(significant or "0") if len(significant) <= 15 else None


def decimal_ms(text: str) -> int | None:
    """Return a decimal number of seconds in milliseconds, rounded up; None = no such number."""
    match = _DECIMAL.fullmatch(text) if len(text) <= MAX_TIME_TEXT else None
    if match is None:
        return None
    nanoseconds = int((match[2] or "").ljust(9, "0"))
    return int(match[1]) * 1000 - (-nanoseconds // 10**6)


def _build(
    year: int, month: int, day: int, hour: int, minute: int, second: int, *, zone: str = "", fraction: str = ""
) -> datetime | None:
    """Return an aware UTC instant, or None where the calendar has no such time (RFC 9110 allows second 60)."""
    if second > 60 or hour > 23:
        return None
    try:
        instant = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        if second == 60:
            instant += timedelta(seconds=1)
        if zone[:1] in ("+", "-"):
            digits = zone[1:].replace(":", "")
            offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            if offset >= timedelta(hours=24):
                return None
            instant = instant - offset if zone[0] == "+" else instant + offset
        if fraction:
            instant += -(-int(fraction.ljust(9, "0")) // 10**6) * _MS
    except (ValueError, OverflowError):
        return None
    return instant


def http_date(text: str, now: datetime) -> datetime | None:
    """Return the instant of an HTTP-date in its three forms, or with a numeric zone; None = not one."""
    if len(text) > MAX_TIME_TEXT:
        return None
    if match := _DATE.fullmatch(text):
        month = _MONTHS.get(match[3].lower())
        if month is None or (len(match[4]) == 2 and match[2] != "-"):
            return None
        year = int(match[4])
        if len(match[4]) == 2:
            # RFC 9110 5.6.7: more than 50 years ahead means the past century.
            year += now.year // 100 * 100
            if year > now.year + 50:
                year -= 100
        clock = (int(match[5]), int(match[6]), int(match[7]))
        return _build(year, month, int(match[1]), *clock, zone=match[8])
    if match := _ASCTIME.fullmatch(text):
        month = _MONTHS.get(match[1].lower())
        if month is None:
            return None
        return _build(int(match[6]), month, int(match[2]), int(match[3]), int(match[4]), int(match[5]))
    return None


def iso_instant(text: str) -> datetime | None:
    """Return the instant of an ISO 8601 text with a zone; without seconds it is the end of that minute."""
    match = _ISO.fullmatch(text) if len(text) <= MAX_TIME_TEXT else None
    if match is None:
        return None
    parts = (int(match[1]), int(match[2]), int(match[3]), int(match[4]), int(match[5]))
    instant = _build(*parts, int(match[6] or 0), zone=match[8].upper(), fraction=match[7] or "")
    if instant is None or match[6] is not None:
        return instant
    try:
        return instant + timedelta(minutes=1)
    except OverflowError:
        return None


def go_duration_ms(text: str) -> int | None:
    """Return a Go duration (``6m0s``, ``12ms``) in milliseconds, rounded up; None = not one."""
    if not text or len(text) > MAX_TIME_TEXT:
        return None
    position = 0
    nanoseconds = 0
    while position < len(text):
        match = _GO_PART.match(text, position)
        if match is None:
            return None
        unit = _GO_UNIT_NS[match[3]]
        nanoseconds += int(match[1]) * unit + int((match[2] or "").ljust(9, "0")) * unit // 10**9
        position = match.end()
    return -(-nanoseconds // 10**6)


def proto_duration_ms(text: object) -> int | None:
    """Return a protobuf JSON Duration (``3.5s``) in milliseconds, rounded up; None = not one, or negative."""
    if not isinstance(text, str) or not text.endswith("s"):
        return None
    return decimal_ms(text[:-1])


def epoch(seconds: int, base: Base) -> Hint | None:
    """Return the hint for seconds since 1970."""
    if seconds > _LAST_SECOND:
        return TOO_FAR
    return base.at(_EPOCH + timedelta(seconds=seconds))


def epoch_ms(milliseconds: int, base: Base) -> Hint | None:
    """Return the hint for milliseconds since 1970."""
    if milliseconds > _LAST_SECOND * 1000:
        return TOO_FAR
    return base.at(_EPOCH + milliseconds * _MS)


def _near(instant_seconds: int, base: Base) -> bool:
    return abs(_EPOCH + timedelta(seconds=instant_seconds) - base.now) <= MAX_AHEAD


def _retry_after_member(text: str, base: Base) -> Hint | None:
    milliseconds = None if is_digits(text) else decimal_ms(text)
    if is_digits(text) or milliseconds is not None:
        # The grammar knows whole seconds only: up to the next one.
        number = bounded_int(text) if milliseconds is None else -(-milliseconds // 1000)
        if number is None:
            return TOO_FAR
        if _EPOCH_SECONDS <= number <= _LAST_SECOND and _near(number, base):
            return epoch(number, base)
        if _EPOCH_MS <= number <= _LAST_SECOND * 1000 and _near(number // 1000, base):
            return epoch_ms(number, base)
        return base.after(number * 1000)
    instant = http_date(text, base.now) or iso_instant(text)
    return base.at(instant) if instant is not None else None


def members(value: str) -> tuple[str, ...]:
    """Split a field value that a proxy may have joined from several lines; a weekday's comma does not split."""
    if "," not in value:
        return (value.strip(" \t"),)
    return tuple(part.strip(" \t") for part in _WEEKDAY_COMMA.sub("", value).split(",")[:64])


def retry_after(values: tuple[str, ...], base: Base) -> Hint | None:
    """Return what Retry-After fields say (RFC 9110 10.2.3): the latest valid member; None = nothing valid."""
    return later(*(_retry_after_member(part, base) for value in values for part in members(value) if part))


def milliseconds_after(values: tuple[str, ...], base: Base) -> Hint | None:
    """Return what fields in whole or decimal milliseconds say."""
    hints: list[Hint | None] = []
    for value in values:
        for part in members(value):
            if is_digits(part):
                number = bounded_int(part)
                hints.append(TOO_FAR if number is None else base.after(number))
            elif (thousandths := decimal_ms(part)) is not None:
                hints.append(base.after(-(-thousandths // 1000)))
    return later(*hints)


def _reset_member(text: str, base: Base) -> Hint | None:
    """Read one reset value of unknown unit (no standard exists for X-RateLimit-Reset)."""
    if is_digits(text):
        number = bounded_int(text)
        if number is None or number >= _NOT_A_TIME:
            return None
        if number >= _EPOCH_MS:
            return epoch_ms(number, base)
        if number >= _EPOCH_SECONDS:
            return epoch(number, base)
        return base.after(number * 1000)
    milliseconds = decimal_ms(text)
    if milliseconds is not None:
        if milliseconds >= _EPOCH_MS:
            return epoch_ms(milliseconds, base) if milliseconds < _NOT_A_TIME else None
        return base.after(milliseconds)
    instant = iso_instant(text) or http_date(text, base.now)
    if instant is not None:
        return base.at(instant)
    duration = go_duration_ms(text)
    return base.after(duration) if duration is not None else None


def reset(values: tuple[str, ...], base: Base) -> Hint | None:
    """Return what reset fields of unknown unit say: the latest valid member; None = nothing valid."""
    return later(*(_reset_member(part, base) for value in values for part in members(value) if part))


def seconds_after(value: object, base: Base) -> Hint | None:
    """Return the hint for a number of seconds in a body (int, float or decimal text), rounded up to a millisecond."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        if value < 0:
            return None
        return base.after(value * 1000) if value < _NOT_A_TIME else TOO_FAR
    if isinstance(value, float):
        if not 0 <= value < float("inf"):
            return None
        if value > MAX_AHEAD.total_seconds():
            return TOO_FAR
        return base.after(decimal_ms(f"{value:.9f}") or 0)
    if isinstance(value, str):
        milliseconds = decimal_ms(value)
        return base.after(milliseconds) if milliseconds is not None else None
    return None
