"""Arguments as a person sees them before answering: escaped data with type and length, never markup, never hidden tricks.

Nothing is executed, asked or decided here.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

# Characters of one argument that are shown; the rest is said to be there.
MAX_SHOWN: Final = 400
HIDDEN: Final = "(hidden)"
# Control, format (bidi and zero-width among them), surrogate, private use, unassigned, line and paragraph separators.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One argument of a call that a person is asked about."""

    name: str
    # text, number, boolean, null, list or object.
    type: str
    # Escaped; what was cut is marked by `cut`.
    text: str
    # Characters of a text, items of a list, members of an object.
    length: int
    cut: bool = False
    hidden: bool = False


def visible(text: str) -> str:
    """Return a text with every character that a person could not see written as an escape."""
    return "".join(_escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char != " " and (unicodedata.category(char) in _INVISIBLE or char.isspace() or unicodedata.combining(char)):
        return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
    return char


def shown(arguments: str, secret: tuple[str, ...], *, limit: int | None = MAX_SHOWN) -> tuple[Shown, ...]:
    """Return the frozen arguments of a call, argument by argument.

    Args:
        arguments: Canonical JSON.
        secret: Names that are hidden, at any depth.
        limit: Characters of one argument that are shown; None = all.
    """
    parsed: dict[str, object] = json.loads(arguments)
    return tuple(_shown(name, value, secret, limit) for name, value in parsed.items())


def _shown(name: str, value: object, secret: tuple[str, ...], limit: int | None) -> Shown:
    kind, length = _kind(value)
    if name in secret:
        return Shown(name=visible(name), type=kind, text=HIDDEN, length=length, hidden=True)
    safe = without(value, secret)
    raw = safe if isinstance(safe, str) else json.dumps(safe, ensure_ascii=False)
    text = visible(raw[:limit])
    return Shown(name=visible(name), type=kind, text=text, length=length, cut=limit is not None and len(raw) > limit)


def without(value: object, secret: tuple[str, ...]) -> object:
    """Return a JSON value with its secret members hidden, at any depth."""
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        return {name: HIDDEN if name in secret else without(member, secret) for name, member in members.items()}
    if isinstance(value, list):
        return [without(member, secret) for member in cast("list[object]", value)]
    return value


def _kind(value: object) -> tuple[str, int]:
    match value:
        case None:
            return "null", 0
        case bool():
            return "boolean", 1
        case int() | float():
            return "number", len(repr(value))
        case str():
            return "text", len(value)
        case list():
            return "list", len(cast("list[object]", value))
        case _:
            return "object", len(cast("dict[str, object]", value))
