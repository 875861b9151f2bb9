"""Validate the numbers that bound a run (design section 3). Defaults live in `core/policy.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

from forbear.contract.time import go_duration_ms
from forbear.core.policy import Limits
from forbear.errors import ConfigError

_NAMES: Final = tuple(field.name for field in fields_of(Limits))
_DURATIONS: Final = frozenset(
    "default_wait max_wait max_unattended inline_wait approval_ttl grant_ttl settle max_shared_hold timeout".split()
)
_OPTIONAL: Final = frozenset(
    "max_retries max_repairs max_refusals max_calls_per_turn max_calls_per_run max_same_results timeout".split()
)
_WORDS: Final = {"on_unknown_reset": ("wait", "stop"), "on_checker_down": ("block", "ask")}
# A second automatic execution is the most that may be declared: "bounded retry" is a promise.
_MAXIMA: Final = {"max_retries": 2, "checker_retry": 10, "inspect_attempts": 20}
_LONGEST: Final = timedelta(days=366)
_MOST: Final = 10**6


def nearest(given: str, valid: tuple[str, ...]) -> str:
    """Return the known name that is most like another one, "" where none is."""
    return next(iter(get_close_matches(given, valid, n=1, cutoff=0.5)), "")


def misspelt(kind: str, given: str, valid: tuple[str, ...]) -> ConfigError:
    """Return the error for a name that is not known, with the nearest one that is."""
    near = nearest(given, valid)
    hint = f"; nearest is {near!r}" if near else ""
    return ConfigError(f"{kind} {given[:64]!r} is not known{hint}")


def duration(field: str, value: object) -> timedelta:
    """Return a duration given as a timedelta, seconds, or a text such as ``1h30m``.

    Raises:
        ConfigError: it is negative, not finite, longer than a year, or of another type.
    """
    held: timedelta | None = None
    if isinstance(value, timedelta):
        held = value
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 10**9:
        held = timedelta(seconds=value)
    elif isinstance(value, str) and (milliseconds := go_duration_ms(value)) is not None:
        held = timedelta(milliseconds=milliseconds)
    if held is None:
        raise ConfigError(f"field {field!r} must be a timedelta, seconds, or a text such as '1h30m'")
    if not timedelta(0) <= held <= _LONGEST:
        raise ConfigError(f"field {field!r} must be between 0 and {_LONGEST.days} days")
    return held


def _value(name: str, value: object) -> object:
    if value is None:
        if name in _OPTIONAL:
            return None
        raise ConfigError(f"limit {name!r} must have a value")
    if name in _DURATIONS:
        return duration(name, value)
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise ConfigError(f"limit {name!r} must be one of {', '.join(_WORDS[name])}")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"limit {name!r} must be a whole number")
    most = _MAXIMA.get(name, _MOST)
    if not 0 <= value <= most:
        raise ConfigError(f"limit {name!r} must be between 0 and {most}")
    return value


def limits_from(mapping: Mapping[str, object], base: Limits | None = None) -> Limits:
    """Return limits with these values; see `limits`."""
    values: dict[str, Any] = {}
    for name, value in mapping.items():
        if name not in _NAMES:
            raise misspelt("limit", name, _NAMES)
        values[name] = _value(name, value)
    built = replace(base if base is not None else Limits(), **values)
    if built.default_wait > built.max_wait:
        raise ConfigError("limit 'default_wait' must not be longer than 'max_wait'")
    return built


def limits(**fields: object) -> Limits:
    """Return validated limits; durations are timedeltas, seconds, or texts such as ``25h``.

    Raises:
        ConfigError: a name or a value is wrong; the message names the limit and the rule.
    """
    return limits_from(fields)
