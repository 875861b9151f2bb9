"""What a journey vector says that its runner cannot use: members the format does not have. Nothing is judged here.

A vector of another author may hold more than the format; it is run all the same, and what was not used is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from forbear.testing.journey_format import Json

__all__ = ["strange_members"]

_JOURNEY: Final = frozenset(
    "id kind recovery t0 note assumes tool other_tools limits forced_tool_choice events expected forbidden".split()
)
_TOOL: Final = frozenset(
    "name effect repeatable match_on inspect_with applied_if gate quota_scope poll empty_means empty_retry required "
    "text_rules status_rules operation ignore alternatives idempotency_key atomic note".split()
)
_EVENTS: Final[Mapping[str, frozenset[str]]] = {
    "call": frozenset(
        "id tool args policy batch quota_scope session agent framework_interrupt finish_reason args_repaired note".split()
    ),
    "result": frozenset(
        "for type value late class phase message cause status headers control_flow body_fields body "
        "effects_before_failure protocol isError content structuredContent precondition note".split()
    ),
    "human": frozenset("for decision actor args tool note".split()),
    "control": frozenset(
        "kind for user note transcript_tail ack grace_s persisted lost replayed session agent policy".split()
    ),
}
_POLICY: Final = frozenset(("verdict", "rule", "checker", "note"))


def strange_members(line: Json) -> Iterator[str]:
    """Yield one sentence for each member that the format does not have, with its place; never a value."""
    yield from _strange("the journey", line, _JOURNEY)
    yield from _strange("tool", line.get("tool"), _TOOL)
    for index, tool in enumerate(_listed(line.get("other_tools"))):
        yield from _strange(f"other_tools[{index}]", tool, _TOOL)
    for index, entry in enumerate(_listed(line.get("events"))):
        if not isinstance(entry, dict):
            continue
        event = cast("Json", entry)
        yield from _strange(f"events[{index}]", event, frozenset(("at", "note", *_EVENTS)))
        for kind, known in _EVENTS.items():
            body = event.get(kind)
            yield from _strange(f"events[{index}].{kind}", body, known)
            if isinstance(body, dict):
                yield from _strange(f"events[{index}].{kind}.policy", cast("Json", body).get("policy"), _POLICY)


def _strange(place: str, value: object, known: frozenset[str]) -> Iterator[str]:
    if isinstance(value, dict):
        for name in sorted(cast("Json", value).keys() - known):
            yield f"{place}: {name!r} is no member of the format and was not used"


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
