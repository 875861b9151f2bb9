"""Read from header fields and bodies when a refusal ends, and whether a quota is used up. Time forms: `time.py`.

Precedence (design section 9): a valid Retry-After, or what a vendor sends in its place, beats RateLimit and
X-RateLimit fields, also when earlier; among equals the later one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from forbear.contract import time as t
from forbear.contract.raw import MAX_HEADERS, MAX_SEEN, Headers, is_telling

# Longer field values are not read, except that endless digits are a number that is too large.
MAX_FIELD: Final = 8192
# Lines of one field, and characters of a structured field, which costs more than others to parse.
_MAX_LINES: Final = 32
_MAX_STRUCTURED: Final = 2048
_REMAINING: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)


class Fields:
    """Header fields by lower-case name, bounded; values that are too long to be honest are left out."""

    __slots__ = ("_values",)

    def __init__(self, headers: Headers) -> None:
        values: dict[str, list[str]] = {}
        for position, (name, value) in enumerate(headers[:MAX_SEEN]):
            if len(name) > MAX_FIELD or (position >= MAX_HEADERS and not is_telling(name)):
                continue
            held = values.setdefault(name.lower(), [])
            if len(held) < _MAX_LINES and (len(value) <= MAX_FIELD or t.is_digits(value)):
                held.append(value[:MAX_FIELD])
        self._values = values

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field, in order."""
        return tuple(self._values.get(name, ()))

    def first(self, name: str) -> str | None:
        """Return the first value of a field."""
        values = self._values.get(name)
        return values[0].strip(" \t") if values else None

    def names(self) -> Iterable[str]:
        """Return the names that are present."""
        return self._values.keys()


@dataclass(frozen=True, slots=True)
class Ends:
    """What a response says about the end of its refusal."""

    # Retry-After and what vendors send in its place.
    asked: t.Hint | None = None
    # The latest reset among quotas that are used up, or not said to have anything left.
    resets: t.Hint | None = None
    # A quota is said to be used up: remaining is 0.
    exhausted: bool = False

    def hint(self) -> t.Hint | None:
        """Return the end that counts."""
        return self.asked if self.asked is not None else self.resets


def remaining(values: tuple[str, ...]) -> bool | None:
    """Tell whether remaining fields leave something (True), nothing (False), or say nothing readable (None)."""
    left: bool | None = None
    for value in values:
        for part in t.members(value):
            if _REMAINING.fullmatch(part):
                if float(part) == 0:
                    return False
                left = True
    return left


def _structured(values: tuple[str, ...], base: t.Base) -> tuple[t.Hint | None, bool]:
    """Read RateLimit: a List of Strings with r and t, or the Dictionary of draft -07; malformed = ignored."""
    # Imported late: it costs more than the rest of this package, and few services send the field.
    from http_sf import StructuredFieldError, parse  # noqa: PLC0415

    raw = ", ".join(values)
    if not raw or len(raw) > _MAX_STRUCTURED or not raw.isascii():
        return None, False
    encoded = raw.encode("ascii")
    try:
        listed = parse(encoded, tltype="list")
    except (StructuredFieldError, ValueError, IndexError):
        return _dictionary(encoded, base)
    hints: list[t.Hint | None] = []
    exhausted = False
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, tuple) or type(item[0]) is not str:
            return None, False
        parameters = item[1]
        left, ends = parameters.get("r"), parameters.get("t", 0)
        if type(left) is not int or left < 0 or type(ends) is not int or ends < 0:
            return None, False
        if left == 0:
            exhausted = True
            if "t" in parameters:
                hints.append(base.after(ends * 1000))
    return t.later(*hints), exhausted


def _dictionary(encoded: bytes, base: t.Base) -> tuple[t.Hint | None, bool]:
    from http_sf import StructuredFieldError, parse  # noqa: PLC0415

    try:
        members = parse(encoded, tltype="dictionary")
    except (StructuredFieldError, ValueError, IndexError):
        return None, False
    if not isinstance(members, dict):
        return None, False
    numbers: dict[str, int] = {}
    for name in ("remaining", "reset"):
        item = members.get(name)
        if not isinstance(item, tuple) or type(item[0]) is not int or item[0] < 0:
            return None, False
        numbers[name] = item[0]
    if numbers["remaining"] > 0:
        return None, False
    return base.after(numbers["reset"] * 1000), True


# (reset field, remaining field) of the unstandardised families.
_TRIPLES: Final = (
    ("ratelimit-reset", "ratelimit-remaining"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("x-rate-limit-reset", "x-rate-limit-remaining"),
    ("x-ratelimit-reset-after", "x-ratelimit-remaining"),
)


def base_of(fields: Fields, now: datetime) -> t.Base:
    """Return what the times of a response are measured against."""
    return t.base_of(now, fields.all("date"))


def ends_of(fields: Fields, base: t.Base) -> Ends:
    """Return what vendor-neutral header fields say about the end of a refusal."""
    asked = t.later(
        t.retry_after(fields.all("retry-after"), base),
        t.milliseconds_after(fields.all("retry-after-ms"), base),
        t.milliseconds_after(fields.all("x-ms-retry-after-ms"), base),
    )
    resets: list[t.Hint | None] = []
    exhausted = False
    for reset_name, remaining_name in _TRIPLES:
        left = remaining(fields.all(remaining_name))
        exhausted = exhausted or left is False
        if left is not True:
            resets.append(t.reset(fields.all(reset_name), base))
    values = fields.all("ratelimit")
    if values and not _cached(fields):
        hint, used_up = _structured(values, base)
        resets.append(hint)
        exhausted = exhausted or used_up
    return Ends(asked, t.later(*resets), exhausted)


def _cached(fields: Fields) -> bool:
    """Tell whether the response came out of a cache, so that its quota fields are old."""
    age = fields.first("age")
    return age is not None and t.is_digits(age) and age.strip("0") != ""
