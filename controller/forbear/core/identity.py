"""Identity of arguments: canonical form, fingerprint, action and target digests. Nothing is folded and nothing is similar.

Type-tagged by JSON itself: 1, 1.0, true and "1" are four different values. No clock, no randomness, no policy lookup.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeGuard

from forbear.errors import UsageError

MAX_DEPTH = 64
ABSENT = "-"
INFINITE = float("inf")

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


class NotCanonical(UsageError):
    """Arguments that a model can write in JSON text, and that have no canonical form: an infinite number, too deep."""


def is_object(value: object) -> TypeGuard[Mapping[object, object]]:
    """Say whether a value is a JSON object; its members are then `object` instead of unknown."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[object]]:
    """Say whether a value is a JSON array; its members are then `object` instead of unknown."""
    return isinstance(value, (list, tuple))


def _check(value: object, path: str, depth: int) -> None:
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, float):
        if not -INFINITE < value < INFINITE:  # false for NaN, too
            raise NotCanonical(f"argument {path!r} is not JSON: a number must be finite")
        return
    if depth >= MAX_DEPTH:
        raise NotCanonical(f"argument {path!r} is not JSON: nested deeper than {MAX_DEPTH}")
    if is_object(value):
        for key, member in value.items():
            if not isinstance(key, str):
                raise UsageError(f"argument {path!r} is not JSON: object keys must be strings")
            _check(member, f"{path}/{key}" if path else key, depth + 1)
        return
    if is_array(value):
        for index, member in enumerate(value):
            _check(member, f"{path}/{index}", depth + 1)
        return
    raise UsageError(f"argument {path!r} is not JSON: {type(value).__name__} has no canonical form")


def _plain(value: object) -> object:
    if is_object(value):
        return {str(key): _plain(member) for key, member in value.items()}
    if is_array(value):
        return [_plain(member) for member in value]
    return value


def canonical(arguments: Mapping[str, object]) -> str:
    """Return the canonical JSON text of a call's arguments.

    Raises:
        NotCanonical: a number is infinite or has too many digits, or the arguments are nested too deeply.
        UsageError: a value has no JSON form; the message names the path, never the value.
    """
    _check(arguments, "", 0)
    try:
        return _encode(arguments)
    except (TypeError, ValueError):
        # Mappings and sequences of other kinds.
        pass
    try:
        return _encode(_plain(arguments))
    except ValueError:
        raise NotCanonical("an argument is not JSON: a number has too many digits") from None


def digest(*parts: str) -> str:
    """Return 32 hex characters that stand for the parts in this order; parts cannot run into each other."""
    state = blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.hexdigest()


def fingerprint(tool: str, source: str, arguments: str) -> str:
    """Return the digest of exactly this call; `arguments` is canonical."""
    return digest("call", tool, source, arguments)


def action_key(operation: str, arguments: Mapping[str, object], ignore: tuple[str, ...]) -> str:
    """Return the digest of an operation and its arguments without the fields that do not change the meaning."""
    kept = {key: value for key, value in arguments.items() if key not in ignore} if ignore else arguments
    return digest("action", operation, canonical(kept))


def apart_key(action: str, run: str, step: str, call_id: str) -> str:
    """Return the digest of an action as one call of one run asks for it on its own."""
    return digest("apart", action, run, step, call_id)


def target_key(operation: str, values: Mapping[str, object]) -> str | None:
    """Return the digest of what an operation is done to, or None where a value is missing or not scalar."""
    for value in values.values():
        if not isinstance(value, (str, int, float)):
            return None
    return digest("target", operation, canonical(values))


def _find(value: object, name: str) -> list[object]:
    found: list[object] = []
    if is_object(value):
        for key, member in value.items():
            if key == name:
                found.append(member)
            found.extend(_find(member, name))
    elif is_array(value):
        for member in value:
            found.extend(_find(member, name))
    return found


def _point(value: object, pointer: str) -> list[object]:
    for raw in pointer.split("/")[1:]:
        token = raw.replace("~1", "/").replace("~0", "~")
        if is_object(value) and token in value:
            value = value[token]
        elif is_array(value) and token.isascii() and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return []
    return [value]


def field_digest(arguments: str, name: str) -> str:
    """Return a digest of one field of canonical arguments: a JSON pointer (RFC 6901), else the name at any depth."""
    parsed: object = json.loads(arguments)
    found = _point(parsed, name) if name.startswith("/") else _find(parsed, name)
    return digest("field", _encode(found)) if found else ABSENT
