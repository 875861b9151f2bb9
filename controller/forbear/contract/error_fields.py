"""Read the members of the contract's `error` object, each by its type. What they mean is decided elsewhere."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, cast

from forbear.contract.catalogue import MAX_CODE, is_code
from forbear.contract.time import iso_instant
from forbear.contract.words import recovery_of
from forbear.core.identity import canonical
from forbear.core.values import InvalidField, Precondition
from forbear.core.vocabulary import Recovery
from forbear.errors import UsageError

MAX_NAMES: Final = 16
RULE_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)


class Wrong(Exception):
    """A field's value has the wrong type; carries the rule."""


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong("must be a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong("must be finite")
    if abs(value) > 10**15:
        raise Wrong("must be at most 10^15")
    return value


def _whole(value: object) -> int:
    number = _number(value)
    if number < 0:
        raise Wrong("must not be negative")
    return math.ceil(number)


def _string(value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > 512:
        raise Wrong("must be a string of 1 to 512 characters")
    return value


def _code(value: object) -> str:
    if isinstance(value, str) and len(value) <= MAX_CODE and is_code(value.upper()):
        return value.upper()
    raise Wrong("must be UPPER_SNAKE with at most 63 characters")


def _recovery(value: object) -> Recovery:
    recovery = recovery_of(value)
    if recovery is None:
        raise Wrong("must be one of the six classes")
    return recovery


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise Wrong("must be a list of strings")
    return tuple(_string(one) for one in cast("list[object]", value)[:MAX_NAMES])


def _fields(value: object) -> tuple[InvalidField, ...]:
    """Read names, {name, rule} objects, or a mapping of name to rule word; anything else in a rule is no rule word."""
    entries: list[tuple[object, object]] = []
    if isinstance(value, Mapping):
        entries = list(cast("Mapping[object, object]", value).items())
    elif isinstance(value, (list, tuple)):
        for one in cast("list[object]", value)[:MAX_NAMES]:
            if isinstance(one, Mapping):
                members = cast("Mapping[str, object]", one)
                name = next((members[key] for key in ("name", "field", "pointer") if key in members), None)
                entries.append((name, next((members[key] for key in ("rule", "code") if key in members), "invalid")))
            else:
                entries.append((one, "invalid"))
    else:
        raise Wrong("must be a list or an object")
    read: list[InvalidField] = []
    for name, rule in entries[:MAX_NAMES]:
        word = rule if isinstance(rule, str) and RULE_WORD.fullmatch(rule) else "invalid"
        read.append(InvalidField(name=_string(name), rule=word))
    return tuple(read)


def _precondition(value: object) -> Precondition:
    if not isinstance(value, Mapping):
        raise Wrong("must be an object")
    members = cast("Mapping[str, object]", value)
    arguments = members.get("args", members.get("arguments", {}))
    if not isinstance(arguments, Mapping):
        raise Wrong("must hold 'args', an object")
    try:
        text = canonical(cast("Mapping[str, object]", arguments))
    except UsageError as error:
        raise Wrong("must hold 'args' in JSON") from error
    if len(text) > 4096:
        raise Wrong("must be at most 4096 characters")
    return Precondition(tool=_string(members.get("tool")), arguments=text)


def _instant(value: object) -> object:
    instant = iso_instant(value) if isinstance(value, str) else None
    if instant is None:
        raise Wrong("must be an RFC 3339 time with a zone")
    return instant


def _status(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 100 <= value <= 599:
        raise Wrong("must be a status of 100 to 599")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "code": _code,
    "constraint": _string,
    "recovery": _recovery,
    "limit": _number,
    "remaining": _number,
    "reset_at": _instant,
    "retry_after_seconds": _whole,
    "invalid_fields": _fields,
    "precondition": _precondition,
    "alternative_tools": _names,
    "required_permission": _string,
    "approval_url": _string,
    "http_status": _status,
    "operation": _string,
    "safe_message": _string,
    "effects_before_failure": _flag,
}
