"""The stored form of what the controller remembers: compact JSON by a closed table of tags, and instants as integers.

A stored value is ``[FORMAT,"tag",{fields}]`` in UTF-8. Fields that equal their default are left out, enums are stored
by value, instants as integer microseconds since the epoch, and a field that may hold one of several classes as
``["tag",{fields}]``. Encoders and decoders are made once, from the annotations of the classes in the table.

No import by name, no call by name and no pickle may ever be added here: stored bytes choose a row of the table or are
refused. Rules about calls do not live here either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

from forbear.core import states, values
from forbear.errors import SchemaTooNew, StoreError
from forbear.store.fields import (
    BOOLEAN,
    INSTANT,
    INTEGER,
    TEXT,
    Codec,
    Wrong,
    enum_codec,
    from_us,
    optional_codec,
    record_codec,
    scalar_codec,
    sequence_codec,
    to_us,
)

__all__ = ["FORMAT", "TAGS", "decode", "encode", "from_us", "to_us"]

# Raised when the stored form of any class changes in a way that the previous release cannot read.
FORMAT: Final = 1

# Every class that may be stored, by the tag that it is stored under. A tag is never given to another class.
TAGS: Final[Mapping[str, type[object]]] = {
    "tree": states.Tree,
    "run": states.Run,
    "action": states.Action,
    "hold": states.Hold,
    "known": states.Known,
    "call": values.Call,
    "envelope": values.Envelope,
    "grant": values.Grant,
    "precondition": values.Precondition,
    "invalid_field": values.InvalidField,
    "rule_verdict": values.RuleVerdict,
    "started": states.Started,
    "claim": states.Claim,
    "halt": states.Halt,
    "streak": states.Streak,
    "fresh": states.Fresh,
    "running": states.Running,
    "waiting": states.Waiting,
    "parked": states.Parked,
    "awaiting_approval": states.AwaitingApproval,
    "approved": states.Approved,
    "unknown": states.Unknown,
    "needs_repair": states.NeedsRepair,
    "completed": states.Completed,
    "stopped": states.Stopped,
}

_TAG_OF: Final[Mapping[type[object], str]] = {cls: tag for tag, cls in TAGS.items()}
_SCALARS: Final[frozenset[object]] = frozenset({str, int, float, bool})
_REQUIRED: Final = object()

# The codecs of the classes of the table; each is made when it is first needed.
_MADE: Final[dict[type[object], Codec]] = {}


# ---- classes --------------------------------------------------------------------------------------------------------


def _default(field: Field[object]) -> object:
    if field.default is not MISSING:
        return field.default
    return _REQUIRED if field.default_factory is MISSING else field.default_factory()


def _class_codec(cls: type[object]) -> Codec:
    """Return the codec of one class of the table. Objects are read as tuples of pairs, so that duplicates are seen."""
    made = _MADE.get(cls)
    if made is None:
        made = _MADE[cls] = _make_class_codec(cls)
    return made


def _make_class_codec(cls: type[object]) -> Codec:
    tag = _TAG_OF[cls]
    hints = get_type_hints(cls)
    declared: tuple[Field[object], ...] = fields(cast("Any", cls))
    names = [field.name for field in declared]
    codecs = {name: _field_codec(hints[name]) for name in names}
    defaults = {field.name: _default(field) for field in declared}
    required = frozenset(name for name in names if defaults[name] is _REQUIRED)
    decoders = {name: codec[1] for name, codec in codecs.items()}
    # One row a field: default, whether it is compared by value, what stands before the value, encoder.
    rows = [
        (default, default is not None and default is not _REQUIRED, f'"{name}":', codecs[name][0])
        for name, default in defaults.items()
    ]
    # attrgetter returns a tuple only for two names and more.
    read = cast("Callable[[object], tuple[object, ...]]", attrgetter(*names, "__class__", "__class__"))

    def encode_one(value: object) -> str:
        if type(value) is not cls:
            raise Wrong(f"a {cls.__name__}")
        parts: list[str] = []
        for item, (default, by_value, prefix, encode_item) in zip(read(value), rows, strict=False):
            if item is default or (by_value and item == default):
                continue
            try:
                parts.append(prefix + encode_item(item))
            except Wrong as wrong:
                raise StoreError(f"{tag}, field {prefix[1:-2]!r}: must be {wrong}") from None
        return "{" + ",".join(parts) + "}"

    def decode_one(raw: object) -> object:
        if type(raw) is not tuple:
            raise Wrong("an object")
        known: dict[str, object] = {}
        for name, item in cast("tuple[tuple[str, object], ...]", raw):
            decoder = decoders.get(name)
            if decoder is None:
                raise StoreError(f"stored {tag}: an unknown field")
            if name in known:
                raise StoreError(f"stored {tag}, field {name!r}: must be there once")
            try:
                known[name] = decoder(item)
            except Wrong as wrong:
                raise StoreError(f"stored {tag}, field {name!r}: must be {wrong}") from None
        if not required <= known.keys():
            raise StoreError(f"stored {tag}: a required field is missing")
        return cls(**known)

    return encode_one, decode_one


def _union_codec(classes: list[type[object]]) -> Codec:
    encoders = {cls: (f'["{_TAG_OF[cls]}",', _class_codec(cls)[0]) for cls in classes}
    decoders = {_TAG_OF[cls]: _class_codec(cls)[1] for cls in classes}

    def encode_one(value: object) -> str:
        found = encoders.get(type(value))
        if found is None:
            raise Wrong("one of its classes")
        prefix, encode_item = found
        return prefix + encode_item(value) + "]"

    def decode_one(raw: object) -> object:
        if type(raw) is list:
            items = cast("list[object]", raw)
            decoder = decoders.get(items[0]) if len(items) == 2 and type(items[0]) is str else None
            if decoder is not None:
                return decoder(items[1])
        raise Wrong("a known tag and its object")

    return encode_one, decode_one


_SIMPLE: Final[Mapping[object, Codec]] = {str: TEXT, int: INTEGER, bool: BOOLEAN, datetime: INSTANT}


def _field_codec(hint: object) -> Codec:
    """Return the codec of an annotation.

    Raises:
        TypeError: the annotation has no stored form (found when this module is first used, not when a row is read).
    """
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin in {Union, UnionType}:
        chosen = [argument for argument in arguments if argument is not NoneType]
        if set(chosen) <= _SCALARS and len(chosen) > 1:
            inner = scalar_codec(frozenset(chosen))
        elif len(chosen) > 1:
            inner = _union_codec(chosen)
        else:
            inner = _field_codec(chosen[0])
        return optional_codec(inner) if len(chosen) < len(arguments) else inner
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return sequence_codec(_field_codec(arguments[0]))
        return record_codec([_field_codec(argument) for argument in arguments])
    if isinstance(hint, type):
        cls = cast("type[object]", hint)
        if issubclass(cls, Enum):
            return enum_codec(cls)
        if is_dataclass(cls) and cls in _TAG_OF:
            return _class_codec(cls)
    raise TypeError(f"no stored form for {hint!r}")


# ---- the two functions that the runtime calls -----------------------------------------------------------------------


def _refuse_constant(_: str) -> object:
    raise ValueError("NaN and infinities are not JSON")


_parse = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse_constant).raw_decode
_HEADS: Final[Mapping[type[object], str]] = {cls: f'[{FORMAT},"{tag}",' for tag, cls in TAGS.items()}


def encode(value: object) -> bytes:
    """Return the stored form of a value whose class is in the table.

    Raises:
        StoreError: the class is not in the table, a field has the wrong type, an instant is naive, a number is not
            finite, or a text is not valid Unicode.
    """
    cls = type(value)
    head = _HEADS.get(cls)
    if head is None:
        raise StoreError("a value of this class is never stored")
    try:
        return (head + _class_codec(cls)[0](value) + "]").encode()
    except UnicodeEncodeError:
        raise StoreError("a text that is stored must be valid Unicode (no lone surrogates)") from None
    except ValueError:
        raise StoreError("a number that is stored is too long") from None


def decode(body: bytes) -> object:
    """Return the value that was encoded.

    Raises:
        SchemaTooNew: a newer release wrote these bytes.
        StoreError: the bytes are not a stored value: an unknown tag or field, a wrong type, a missing field.
    """
    try:
        text = body.decode()
        parsed, end = _parse(text)
    except (ValueError, RecursionError):
        raise StoreError("stored bytes must be JSON") from None
    if type(parsed) is not list or end != len(text):
        raise StoreError("stored bytes must be a list of format, tag and fields")
    parts = cast("list[object]", parsed)
    written = parts[0] if parts else None
    if type(written) is int and written > FORMAT:
        raise SchemaTooNew("a stored value was written by a newer release of forbear")
    if written != FORMAT or type(written) is not int or len(parts) != 3:
        raise StoreError("stored bytes must be a list of format, tag and fields")
    cls = TAGS.get(parts[1]) if type(parts[1]) is str else None
    if cls is None:
        raise StoreError("stored bytes have an unknown tag")
    try:
        return _class_codec(cls)[1](parts[2])
    except Wrong as wrong:
        raise StoreError(f"stored {parts[1]}: must be {wrong}") from None
