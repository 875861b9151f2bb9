"""Core values as JSON and back, by a closed table of types: for golden vectors that a person can read. No rule lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum

from forbear.core import decision, events, policy, states, values, vocabulary

JSON = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None

_MODULES = (decision, events, policy, states, values, vocabulary)
_KNOWN: dict[str, type] = {
    name: found
    for module in _MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and found.__module__ == module.__name__
}


def to_plain(value: object) -> JSON:
    """Return a value as JSON; fields that have their default are left out."""
    if isinstance(value, Enum):
        return {"word": f"{type(value).__name__}.{value.name}"}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if isinstance(value, (tuple, list)):
        return [to_plain(member) for member in value]
    if isinstance(value, Mapping):
        return {"map": {str(key): to_plain(member) for key, member in sorted(value.items())}}
    if is_dataclass(value) and not isinstance(value, type):
        made: dict[str, JSON] = {"is": type(value).__name__}
        for entry in fields(value):
            member = getattr(value, entry.name)
            default = entry.default if entry.default is not MISSING else None
            if entry.default_factory is not MISSING:
                default = entry.default_factory()
            has_default = entry.default is not MISSING or entry.default_factory is not MISSING
            if not (has_default and member == default):
                made[entry.name] = to_plain(member)
        return made
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(value: JSON) -> object:
    """Return the value that a plain form stands for."""
    if isinstance(value, list):
        return tuple(from_plain(member) for member in value)
    if not isinstance(value, dict):
        return value
    if "at" in value and len(value) == 1:
        return datetime.fromisoformat(str(value["at"]))
    if "seconds" in value and len(value) == 1:
        return timedelta(seconds=float(str(value["seconds"])))
    if "map" in value and len(value) == 1:
        inner = value["map"]
        assert isinstance(inner, dict)
        return {key: from_plain(member) for key, member in inner.items()}
    if "word" in value and len(value) == 1:
        kind, _, name = str(value["word"]).partition(".")
        return getattr(_KNOWN[kind], name)
    members = {key: from_plain(member) for key, member in value.items() if key != "is"}
    return _KNOWN[str(value["is"])](**members)


class Texts:
    """Core values as one line of text each, for digests: the same wherever it is made, and without what has its default.

    A value is written once and remembered, since the values of a history are mostly those of the history before it.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        self._plans: dict[type, tuple[tuple[str, object], ...]] = {}

    def text(self, value: object) -> str:
        """Return the text of a value."""
        if value is None or isinstance(value, (str, int, float, datetime, timedelta)):
            return repr(value)
        if isinstance(value, tuple):
            return f"({','.join([self.text(member) for member in value])})"
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, self._fields(value))
        return known[1]

    def _fields(self, value: object) -> str:
        kind = type(value)
        plan = self._plans.get(kind)
        if plan is None:
            assert is_dataclass(value)
            plan = tuple((entry.name, entry.default) for entry in fields(value))
            self._plans[kind] = plan
        made = [f"{name}={self.text(member)}" for name, default in plan if (member := getattr(value, name)) != default]
        return f"{kind.__name__}({','.join(made)})"
