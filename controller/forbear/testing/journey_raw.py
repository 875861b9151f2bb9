"""From a result as a vector writes it to a raw result as a tool gives it. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, cast

from forbear.contract import ABSENT, Http, Mcp, RaisedFacts, Raw, Value, header_pairs
from forbear.testing.journey_format import Json, Result

__all__ = ["raw_of", "secrets_of"]

_PROTOCOLS: Final = {"mcp": ("mcp", "session", "streamable"), "graphql": ("graphql", "gql")}
_TELLING: Final = frozenset("0123456789:/@=")


def raw_of(result: Result, *, start: datetime, instants: frozenset[str]) -> Raw:
    """Return the raw result.

    Args:
        result: The vector's result.
        start: The journey's start.
        instants: Names of fields that hold seconds after the start; a service writes instants.
    """
    body = result.body
    match result.type:
        case "value":
            return Value(_dated(body["value"], start, instants))
        case "http":
            return Http(
                status=cast("int", body["status"]),
                headers=header_pairs(body.get("headers") or {}),
                body=_dated(body.get("body_fields", body.get("body", "")), start, instants),
                # Flagged, counted or listed: each says that something was done before the failure.
                effects_before_failure=bool(body.get("effects_before_failure")),
                protocol=_protocol(str(body.get("protocol", ""))),
            )
        case "mcp":
            content = body.get("content", ())
            return Mcp(
                is_error=body.get("isError") is True,
                content=tuple(cast("list[object]", content)) if isinstance(content, list) else (),
                structured=body.get("structuredContent", ABSENT),
            )
        case _:
            return _raised(body)


def _protocol(word: str) -> str:
    """Return the product's word for what a vector says is spoken over HTTP."""
    said = word.lower()
    return next((name for name, marks in _PROTOCOLS.items() if any(mark in said for mark in marks)), word)


def _raised(body: Json) -> RaisedFacts:
    status = body.get("status")
    return RaisedFacts(
        names=(_class_name(body["class"]),),
        phase=str(body.get("phase", "unknown")),
        chain=tuple((_class_name(cause),) for cause in _causes(body.get("cause"))),
        status=status if isinstance(status, int) else None,
        headers=header_pairs(body.get("headers") or {}),
        body=body.get("body_fields", ""),
        # Flagged, or named by the signal's own class.
        control_flow=bool(body.get("control_flow")),
    )


def _class_name(name: object) -> str:
    """Return "package.Class"; a vector that names no module means any class of that name."""
    text = str(name)
    return text if "." in text else f".{text}"


def _causes(cause: object) -> Iterator[str]:
    if isinstance(cause, str):
        yield cause
    elif isinstance(cause, Mapping):
        members = cast("Mapping[str, object]", cause)
        if isinstance(members.get("class"), str):
            yield str(members["class"])
        yield from _causes(members.get("cause"))
    elif isinstance(cause, list):
        for one in cast("list[object]", cause):
            yield from _causes(one)


def _dated(value: object, start: datetime, instants: frozenset[str]) -> object:
    if not instants:
        return value
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {
            name: (start + timedelta(seconds=member)).isoformat()
            if name in instants and isinstance(member, (int, float)) and not isinstance(member, bool)
            else _dated(member, start, instants)
            for name, member in members.items()
        }
    if isinstance(value, list):
        return [_dated(member, start, instants) for member in cast("list[object]", value)]
    return value


def secrets_of(result: Result) -> set[str]:
    """Return the words of others' text in a failed result that nobody may see: long ones that look like data."""
    texts: list[str] = []
    body = result.body
    if result.type == "exception":
        texts.append(str(body.get("message", "")))
    if result.type == "mcp" and body.get("isError"):
        texts.extend(_texts(body.get("content")))
    if result.type == "http" and cast("int", body["status"]) >= 400:
        texts.extend(_texts(cast("Json", body.get("body_fields") or {}).get("errors")))
    return {word for text in texts for word in text.split() if len(word) >= 6 and not _TELLING.isdisjoint(word)}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in cast("Mapping[str, object]", value).values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _texts(member)
