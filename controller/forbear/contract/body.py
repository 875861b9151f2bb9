"""Look into a result's body within bounds: parse JSON, follow pointers, tell emptiness. No vendor lives here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, Never, TypeGuard, cast

from forbear.contract.raw import ABSENT

# Characters: a longer body is not parsed; text rules and XML codes look at less.
MAX_JSON: Final = 256 * 1024
MAX_SCAN: Final = 64 * 1024
MAX_RULE_TEXT: Final = 4096
_MAX_CHECKED: Final = 16 * 1024
_MAX_LIST: Final = 64

# Members that say something about the answer, not what was asked for.
_META: Final = frozenset(
    "ok success status has_more hasmore next next_cursor nextcursor next_page next_page_token nextpagetoken cursor "
    "previous prev total total_count totalcount total_results count size page per_page page_size pages limit offset "
    "meta metadata _meta pagination paging response_metadata kind etag object url links request_id requestid query "
    "took timed_out truncated warnings incomplete_results resultsize done".split()
)
_NOT_MATCHES: Final = frozenset("errors error warnings issues failures problems violations conflicts".split())
_WRAPPERS: Final = frozenset({"data", "result", "results", "response", "value"})
_XML_CODE: Final = re.compile(r"<Code>\s*([A-Za-z0-9_.:-]{1,128})\s*</Code>")


class Unreadable:
    """The type of `UNREADABLE`."""

    __slots__ = ()


# A body that is not JSON, or too large or too deep to be parsed.
UNREADABLE: Final = Unreadable()


def _no_constant(name: str) -> Never:
    raise ValueError(name)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate member")
    return members


def parse(text: str) -> object:
    """Return the JSON value of a text, or `UNREADABLE`; never raises, never takes a large or deep body.

    A small body that says the same thing twice says nothing; large ones, which are no refusals, are not checked.
    """
    if len(text) > MAX_JSON:
        return UNREADABLE
    pairs = _no_duplicates if len(text) <= _MAX_CHECKED else None
    try:
        return cast("object", json.loads(text, parse_constant=_no_constant, object_pairs_hook=pairs))
    except (ValueError, RecursionError):
        return UNREADABLE


def text_of(body: object) -> str:
    """Return a body as text; bytes are cut first, an object that was already parsed has none."""
    if isinstance(body, str):
        return body
    if isinstance(body, (bytes, bytearray)):
        try:
            return body.decode("utf-8") if len(body) <= MAX_JSON else body[:MAX_SCAN].decode("utf-8", "replace")
        except UnicodeDecodeError:
            return body[:MAX_SCAN].decode("utf-8", "replace")
    return ""


def parsed(body: object) -> object:
    """Return the value of a body: what it already is, or its JSON; `UNREADABLE` where there is none."""
    if isinstance(body, (str, bytes, bytearray)):
        if len(body) > MAX_JSON:
            return UNREADABLE
        text = text_of(body).removeprefix("\ufeff")
        start = text[:MAX_RULE_TEXT].lstrip()[:1]
        if not start or start not in '{["-0123456789ntf':
            return UNREADABLE
        return parse(text)
    return body


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Tell whether a value is a JSON object."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Tell whether a value is a JSON array."""
    return isinstance(value, (list, tuple))


def member(value: object, name: str) -> object:
    """Return a member of an object, or `ABSENT`."""
    return value.get(name, ABSENT) if is_mapping(value) else ABSENT


def items(value: object) -> tuple[object, ...]:
    """Return the first members of a list, or nothing."""
    return tuple(cast("list[object]", value)[:_MAX_LIST]) if isinstance(value, (list, tuple)) else ()


def point(value: object, pointer: str) -> Iterator[object]:
    """Yield what a JSON pointer (RFC 6901) finds; the token ``*`` means every member of a list or object."""
    tokens = tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
    yield from _point(value, tokens)


def _point(value: object, tokens: tuple[str, ...]) -> Iterator[object]:
    if not tokens:
        yield value
        return
    head, rest = tokens[0], tokens[1:]
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        found = members.get(head, ABSENT)
        if head == "*" and found is ABSENT:
            for element in list(members.values())[:_MAX_LIST]:
                yield from _point(element, rest)
        elif found is not ABSENT:
            yield from _point(found, rest)
    elif isinstance(value, (list, tuple)):
        elements = items(cast("object", value))
        if head == "*":
            for element in elements:
                yield from _point(element, rest)
        elif head.isascii() and head.isdigit() and len(head) < 4 and int(head) < len(elements):
            yield from _point(elements[int(head)], rest)


def first(value: object, pointer: str) -> object:
    """Return the first value that a pointer finds, or `ABSENT`."""
    return next(point(value, pointer), ABSENT)


def xml_codes(text: str) -> tuple[str, ...]:
    """Return the texts of `<Code>` elements near the start of an XML error document."""
    if not text[:MAX_SCAN].lstrip().startswith("<"):
        return ()
    return tuple(_XML_CODE.findall(text[:MAX_SCAN])[:8])


def is_empty(value: object) -> bool:
    """Tell whether a completed answer holds nothing: null, "", [], {}, or one empty list beside counters and cursors.

    A list of errors or warnings that is empty is an answer, not emptiness.
    """
    if value is None:
        return True
    if isinstance(value, (str, list, tuple)):
        return not value
    if not isinstance(value, Mapping):
        return False
    members = cast("Mapping[object, object]", value)
    asked: object = ABSENT
    held_list = False
    for name, held in members.items():
        if name in _META:
            continue
        lowered = name.lower() if isinstance(name, str) else ""
        if lowered in _META:
            continue
        if asked is not ABSENT or lowered in _NOT_MATCHES:
            return False
        asked = held
        held_list = isinstance(held, (list, tuple))
        if not held_list and lowered not in _WRAPPERS:
            return False
    if asked is ABSENT:
        return not members
    return not asked if held_list else is_empty(asked)


def is_empty_text(text: str) -> bool:
    """Tell whether a text holds nothing, or the JSON of nothing."""
    stripped = text.strip() if len(text) <= MAX_RULE_TEXT else text
    if not stripped:
        return True
    if stripped in ("null", "[]", "{}"):
        return True
    return len(stripped) <= 512 and stripped[0] == "{" and is_empty(parse(stripped))
