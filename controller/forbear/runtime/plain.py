"""The JSON form of Python values that a tool is called with. Exact and closed: what has no form here is an error.

Whether two forms are the same call is the core's business (core/identity.py); nothing is judged here.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from forbear.core.identity import MAX_DEPTH, canonical

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["NotJson", "plain"]

_AS_TEXT: Final = (
    UUID,
    Decimal,
    PurePath,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    # Interfaces are addresses.
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)
_MOMENTS: Final = (dt.date, dt.time)
# Members of an object are named by a text; what these say as a text is said by no other value of their kind.
_AS_KEY: Final = (int, dt.date, UUID, Enum)


class NotJson(Exception):
    """A value has no JSON form.

    Args:
        path: Where, as names and indexes joined by slashes.
        why: The rule, without the value.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def plain(value: object, path: str, depth: int = 0) -> object:
    """Return the JSON form of a value.

    pydantic models give their own (`model_dump(mode="json")`), dataclasses an object of their fields, enumerations
    their value, moments ISO 8601, durations seconds, UUID, Decimal, paths, addresses and URLs their text, bytes the
    text that they are in UTF-8, sets a sorted array. Keys of objects may be texts, whole numbers, dates, UUID and
    enumerations of them.

    Raises:
        NotJson: there is none, or the value's own code raises when it is asked for it.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None or kind is float:
        return value
    if depth:
        return _form(value, path, depth)
    try:
        return _form(value, path, depth)
    except NotJson:
        raise
    except Exception:  # noqa: BLE001 - the value's own code: what it raises is nobody's text
        raise NotJson(path, f"{kind.__name__} does not give its JSON form") from None


def _form(value: object, path: str, depth: int) -> object:
    if depth >= MAX_DEPTH:
        raise NotJson(path, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Enum):
        return plain(cast("object", value.value), path, depth + 1)
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), path, depth)
    if isinstance(value, (list, tuple)):
        members = cast("list[object] | tuple[object, ...]", value)
        return [plain(member, f"{path}/{index}", depth + 1) for index, member in enumerate(members)]
    if isinstance(value, (str, int, float)):
        # A subclass stands for its plain value.
        return value
    return _converted(value, path, depth)


def _object(members: Mapping[object, object], path: str, depth: int) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, member in members.items():
        name = key if type(key) is str else _key(key, path)
        if name in made:
            raise NotJson(path, "two object keys have the same text")
        made[name] = plain(member, f"{path}/{name}", depth + 1)
    return made


def _key(key: object, path: str) -> str:
    if isinstance(key, _AS_KEY) and not isinstance(key, bool):
        key = plain(key, path, 1)
    if isinstance(key, (str, int)) and not isinstance(key, bool):
        return str(key)
    raise NotJson(path, "object keys must be strings")


def _converted(value: object, path: str, depth: int) -> object:
    if isinstance(value, _MOMENTS):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return _text(bytes(value), path)
    if isinstance(value, AbstractSet):
        members = [plain(member, f"{path}/*", depth + 1) for member in cast("AbstractSet[object]", value)]
        return sorted(members, key=lambda member: canonical({"": member}))
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return plain(dump(mode="json"), path, depth + 1)
    if hasattr(type(value), "__dataclass_fields__"):
        return {
            field.name: plain(getattr(value, field.name), f"{path}/{field.name}", depth + 1)
            for field in dataclasses.fields(cast("DataclassInstance", value))
        }
    if type(value).__module__ == "pydantic.networks":
        return str(value)
    raise NotJson(path, f"{type(value).__name__} has no canonical form")


def _text(value: bytes, path: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NotJson(path, "bytes must be a text in UTF-8") from None
