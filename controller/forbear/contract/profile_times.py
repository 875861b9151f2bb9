"""When a refusal ends, in the header fields and body members that one vendor uses. Time forms: `time.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

from forbear.contract import time as t
from forbear.contract.body import first, is_mapping, point
from forbear.contract.hints import Ends, Fields, remaining
from forbear.contract.limits import misspelt
from forbear.errors import ConfigError

_PARAMETER: Final = re.compile(r"\s*([a-z_]{1,32})\s*=\s*([0-9.]{1,20})\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A member that says how long to wait, in the place of Retry-After."""

    header: str = ""
    pointer: str = ""
    # seconds, ms, whole_ms or proto.
    form: str = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A quota: its reset counts where nothing remains of it. ``*`` in both names stands for the same part."""

    reset: str
    remaining: str = ""
    # auto (see `time.reset`), ms, or parameters (``remaining=0; resets=52`` in one field).
    form: str = "auto"
    # A reset of zero is noise.
    positive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """A bucket that fills at a rate: pointers to the cost, what is there, what fits in, and what comes per second."""

    cost: str
    available: str
    maximum: str
    rate: str


# Fields that one pattern of a bucket finds; no vendor has a tenth of them.
_MAX_BUCKETS: Final = 64


def _number(body: object, pointer: str) -> float | None:
    value = first(body, pointer)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= 10**12 else None


def _named(pattern: str, fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield the names that fit a pattern, with what stands for its ``*``."""
    if "*" not in pattern:
        yield pattern, ""
        return
    head, _, tail = pattern.partition("*")
    for name in fields.names():
        if name.startswith(head) and name.endswith(tail) and len(name) > len(head) + len(tail):
            yield name, name[len(head) : len(name) - len(tail)]


_BODY_FORMS: Final[Mapping[str, Callable[[object, t.Base], t.Hint | None]]] = {
    "seconds": t.seconds_after,
    "ms": lambda value, base: base.after(value) if isinstance(value, int) and 0 <= value < 10**12 else None,
    "proto": lambda value, base: base.after(ms) if (ms := t.proto_duration_ms(value)) is not None else None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a vendor says about time."""

    delays: tuple[Delay, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    refill: Refill | None = None
    # Retry-After and the quota's reset may both hold: the later counts.
    later: bool = False

    def ends(self, fields: Fields, base: t.Base, neutral: Ends, body: object) -> Ends:
        """Return the ends that an answer names, by neutral and by this vendor's fields."""
        asked = neutral.asked
        for delay in self.delays:
            asked = t.later(asked, self._delay(delay, fields, base, body))
        resets, exhausted = neutral.resets, neutral.exhausted
        for bucket in self.buckets:
            for hint in self._bucket(bucket, fields, base):
                resets, exhausted = t.later(resets, hint), True
        resets = t.later(resets, self._refilled(base, body))
        if self.later and exhausted and asked is not None:
            asked = t.later(asked, resets)
        return Ends(asked, resets, exhausted)

    def _delay(self, delay: Delay, fields: Fields, base: t.Base, body: object) -> t.Hint | None:
        if delay.header:
            values = fields.all(delay.header)
            if delay.form == "whole_ms":
                return t.milliseconds_after(tuple(value for value in values if t.is_digits(value.strip())), base)
            return t.milliseconds_after(values, base) if delay.form == "ms" else t.retry_after(values, base)
        return t.later(*(_BODY_FORMS[delay.form](value, base) for value in point(body, delay.pointer)))

    def _bucket(self, bucket: Bucket, fields: Fields, base: t.Base) -> Iterator[t.Hint | None]:
        for name, part in islice(_named(bucket.reset, fields), _MAX_BUCKETS):
            values = fields.all(name)
            if bucket.form == "parameters":
                yield from self._parameters(values, base)
                continue
            # What remains may be unsaid, but where it is said it has to be nothing.
            said = fields.all(bucket.remaining.replace("*", part)) if bucket.remaining else ()
            if not values or (said and remaining(said) is not False):
                continue
            if bucket.positive and all(value.strip(" 0smh.") == "" for value in values):
                continue
            yield t.milliseconds_after(values, base) if bucket.form == "ms" else t.reset(values, base)

    def _parameters(self, values: tuple[str, ...], base: t.Base) -> Iterator[t.Hint | None]:
        for value in values:
            held: dict[str, str] = {}
            for part in value.split(";")[:16]:
                match = _PARAMETER.fullmatch(part)
                if match is not None:
                    held[match[1]] = match[2]
            if remaining((held.get("remaining", ""),)) is False:
                yield t.reset((held.get("resets", held.get("reset", "")),), base)

    def _costs(self, body: object) -> tuple[float, float, float, float] | None:
        if self.refill is None:
            return None
        numbers = [
            _number(body, pointer)
            for pointer in (self.refill.cost, self.refill.available, self.refill.maximum, self.refill.rate)
        ]
        if any(number is None for number in numbers):
            return None
        cost, available, maximum, rate = cast("list[float]", numbers)
        return cost, available, maximum, rate

    def _refilled(self, base: t.Base, body: object) -> t.Hint | None:
        costs = self._costs(body)
        if costs is None or costs[3] <= 0:
            return None
        cost, available, _, rate = costs
        return base.after(math.ceil(max(0.0, cost - available) / rate * 1000))

    def never_enough(self, body: object) -> bool:
        """Tell whether a cost is larger than its bucket, so that no wait pays it."""
        costs = self._costs(body)
        return costs is not None and costs[0] > costs[2]


def _tables(profile: str, key: str, value: object, allowed: tuple[str, ...]) -> list[dict[str, object]]:
    if not isinstance(value, list):
        raise ConfigError(f"profile {profile!r}: {key!r} must be a list of tables")
    tables: list[dict[str, object]] = []
    for one in cast("list[object]", value):
        if not is_mapping(one):
            raise ConfigError(f"profile {profile!r}: {key!r} must be a list of tables")
        table = dict(one)
        for name in table:
            if name not in allowed:
                raise misspelt(f"profile {profile!r}: {key} key", name, allowed)
        tables.append(table)
    return tables


def read_times(profile: str, value: object) -> Times:
    """Return the times of a parsed profile.

    Raises:
        ConfigError: a key has a wrong name or value.
    """
    if not is_mapping(value):
        raise ConfigError(f"profile {profile!r}: 'times' must be a table")
    table = value
    allowed = ("delays", "buckets", "refill", "later")
    for key in table:
        if key not in allowed:
            raise misspelt(f"profile {profile!r}: times key", key, allowed)
    delays: list[Delay] = []
    for one in _tables(profile, "delays", table.get("delays", []), ("header", "pointer", "form")):
        header, pointer, form = (str(one.get(key, "")) for key in ("header", "pointer", "form"))
        form = form or "seconds"
        forms = ("seconds", "ms", "whole_ms") if header else tuple(_BODY_FORMS)
        if bool(header) == bool(pointer) or form not in forms:
            raise ConfigError(f"profile {profile!r}: a delay needs 'header' or 'pointer', and a form of {forms}")
        delays.append(Delay(header=header.lower(), pointer=pointer, form=form))
    buckets: list[Bucket] = []
    for one in _tables(profile, "buckets", table.get("buckets", []), ("reset", "remaining", "form", "positive")):
        form = str(one.get("form", "auto"))
        if "reset" not in one or form not in ("auto", "ms", "parameters"):
            raise ConfigError(f"profile {profile!r}: a bucket needs 'reset', and a form of auto, ms or parameters")
        buckets.append(
            Bucket(
                reset=str(one["reset"]).lower(),
                remaining=str(one.get("remaining", "")).lower(),
                form=form,
                positive=one.get("positive") is True,
            )
        )
    refill = table.get("refill")
    built: Refill | None = None
    if refill is not None:
        pointers = ("cost", "available", "maximum", "rate")
        one = _tables(profile, "refill", [refill], pointers)[0]
        if set(one) != set(pointers):
            raise ConfigError(f"profile {profile!r}: 'refill' needs {', '.join(pointers)}")
        built = Refill(**{key: str(held) for key, held in one.items()})
    return Times(delays=tuple(delays), buckets=tuple(buckets), refill=built, later=table.get("later") is True)
