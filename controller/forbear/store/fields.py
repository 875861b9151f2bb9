"""How single values of a stored field are written and read: texts, numbers, instants, enums and tuples of them.

A codec is a pair of functions: value to JSON text, and parsed JSON to value. Either raises `Wrong` with the rule that was
broken, never with the value. Classes and their tags are in ``codec.py``; nothing here knows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from json.encoder import encode_basestring
from math import isfinite
from typing import Final, cast

from forbear.errors import StoreError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Encoder = Callable[[object], str]
Decoder = Callable[[object], object]
Codec = tuple[Encoder, Decoder]


class Wrong(Exception):
    """A value is not what its field's annotation says; the argument is the rule, never the value."""


# ---- instants -------------------------------------------------------------------------------------------------------


def to_us(at: datetime) -> int:
    """Return an instant as integer microseconds since the epoch, rounded up (a wait never ends early).

    A ``datetime`` holds whole microseconds, so the rounding is exact today.

    Raises:
        StoreError: `at` is naive.
    """
    try:
        return -((_EPOCH - at) // _MICROSECOND)
    except TypeError:
        raise StoreError("an instant that is stored must be timezone-aware") from None


def from_us(us: int) -> datetime:
    """Return the aware UTC instant of integer microseconds since the epoch.

    Raises:
        StoreError: the number is outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        raise StoreError("a stored instant must lie in the years 1 to 9999") from None


# ---- encoders and decoders of single fields -------------------------------------------------------------------------


def _encode_text(value: object) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    raise Wrong("a text")


def _decode_text(raw: object) -> object:
    if type(raw) is str:
        return raw
    raise Wrong("a text")


def _encode_boolean(value: object) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    raise Wrong("a boolean")


def _decode_boolean(raw: object) -> object:
    if type(raw) is bool:
        return raw
    raise Wrong("a boolean")


def _encode_integer(value: object) -> str:
    if type(value) is int:
        return repr(value)
    raise Wrong("an integer")


def _decode_integer(raw: object) -> object:
    if type(raw) is int:
        return raw
    raise Wrong("an integer")


def _encode_instant(value: object) -> str:
    if isinstance(value, datetime):
        return repr(to_us(value))
    raise Wrong("an instant")


def _decode_instant(raw: object) -> object:
    if type(raw) is int:
        return from_us(raw)
    raise Wrong("an integer number of microseconds")


def _encode_scalar(value: object) -> str:
    kind = type(value)
    if kind is float:
        if isfinite(cast("float", value)):
            return repr(value)
        raise Wrong("a finite number")
    if kind is int:
        return repr(value)
    return _encode_text(value) if kind is str else _encode_boolean(value)


def scalar_codec(kinds: frozenset[object]) -> Codec:
    """Return the codec of a union of plain JSON types."""
    rule = "one of " + ", ".join(sorted(str(getattr(kind, "__name__", "")) for kind in kinds))

    def encode_one(value: object) -> str:
        if type(value) in kinds:
            return _encode_scalar(value)
        raise Wrong(rule)

    def decode_one(raw: object) -> object:
        if type(raw) in kinds and not (type(raw) is float and not isfinite(raw)):
            return raw
        raise Wrong(rule)

    return encode_one, decode_one


def enum_codec(cls: type[Enum]) -> Codec:
    """Return the codec of an enum: its members by value."""
    texts: dict[object, str] = {member: json.dumps(member.value) for member in cls}
    members: dict[object, Enum] = {member.value: member for member in cls}
    raw_types: set[type[object]] = {type(cast("object", member.value)) for member in cls}

    def encode_one(value: object) -> str:
        try:
            return texts[value]
        except (KeyError, TypeError):
            raise Wrong(f"a {cls.__name__}") from None

    def decode_one(raw: object) -> object:
        member = members.get(raw) if type(raw) in raw_types else None
        if member is None:
            raise Wrong(f"a {cls.__name__}")
        return member

    return encode_one, decode_one


def optional_codec(inner: Codec) -> Codec:
    """Return the codec of a value or None."""
    encode_inner, decode_inner = inner

    def encode_one(value: object) -> str:
        return "null" if value is None else encode_inner(value)

    def decode_one(raw: object) -> object:
        return None if raw is None else decode_inner(raw)

    return encode_one, decode_one


def sequence_codec(inner: Codec) -> Codec:
    """Return the codec of a tuple of any length."""
    encode_inner, decode_inner = inner

    def encode_one(value: object) -> str:
        if isinstance(value, tuple):
            return "[" + ",".join(map(encode_inner, cast("tuple[object, ...]", value))) + "]"
        raise Wrong("a tuple")

    def decode_one(raw: object) -> object:
        if type(raw) is list:
            return tuple(map(decode_inner, cast("list[object]", raw)))
        raise Wrong("a list")

    return encode_one, decode_one


def record_codec(parts: list[Codec]) -> Codec:
    """Return the codec of a tuple with one codec for each place."""
    rule = f"a list of {len(parts)}"

    def encode_one(value: object) -> str:
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            if len(items) == len(parts):
                return "[" + ",".join(part[0](item) for part, item in zip(parts, items, strict=True)) + "]"
        raise Wrong(rule)

    def decode_one(raw: object) -> object:
        if type(raw) is list:
            items = cast("list[object]", raw)
            if len(items) == len(parts):
                return tuple(part[1](item) for part, item in zip(parts, items, strict=True))
        raise Wrong(rule)

    return encode_one, decode_one


TEXT: Final[Codec] = (_encode_text, _decode_text)
BOOLEAN: Final[Codec] = (_encode_boolean, _decode_boolean)
INTEGER: Final[Codec] = (_encode_integer, _decode_integer)
INSTANT: Final[Codec] = (_encode_instant, _decode_instant)
