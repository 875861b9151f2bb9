"""The promises of a journey that can be checked after it ran: dispatches, windows, results, texts. Nothing is run here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, cast

from forbear.contract import lint_text
from forbear.testing.journey_format import Journey

__all__ = ["Dispatch", "broken"]

_AT_MOST_ONE: Final = re.compile(r"(?:more than one|a second|two) dispatch(?:es)? of (\w+)")
_NONE: Final = re.compile(r"(?:any|a) dispatch of (\w+)")
_AT_MOST_TWO: Final = re.compile(r"(?:more than two|a third) dispatch(?:es)? of (\w+)")
_TWICE: Final = re.compile(r"(\w+) (?:run|executed|dispatched) twice")
_BEFORE: Final = re.compile(r"(?:any|a) dispatch before offset (\d+)")
_CLOSER: Final = re.compile(r"polls closer than (\d+) s dispatched")
_LEAK: Final = re.compile(r"the string (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One real execution of a tool."""

    tool: str
    args: Mapping[str, object]
    call: str
    by: str
    at: datetime
    # The earliest instant that the vector allows for it; None = no window.
    not_before: datetime | None
    action: str


def broken(
    story: Journey,
    *,
    dispatches: list[Dispatch],
    views: list[str],
    finals: Mapping[str, int],
    secrets: set[str],
    messages: set[str],
) -> Iterator[tuple[str, str]]:
    """Yield (promise, what broke it)."""
    counts = Counter(one.tool for one in dispatches)
    for promise in story.forbidden:
        yield from _counted(promise, counts)
        yield from _timed(promise, story, dispatches)
        # "the string of the exception" names nothing; a secret does not look like an ordinary word.
        secrets |= {word for word in _LEAK.findall(promise) if not word.islower() or not word.isalpha()}
    for one in dispatches:
        if one.not_before is not None and one.at < one.not_before:
            yield "no dispatch before its window", f"{one.call} at {one.at.isoformat()}"
    for call, number in finals.items():
        if number > 1:
            yield "one final result for each call", f"{number} for {call}"
    shown = _allowed(story)
    for secret in sorted(secrets - shown):
        if any(secret in view for view in views):
            yield "no text of others in front of a model or an approver", f"{secret[:4]}… was shown"
    if any(not view for view in views):
        yield "a view is never empty", "an empty one"
    for message in sorted(messages):
        for finding in lint_text(message):
            yield "no text invites another attempt", finding


def _counted(promise: str, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    for pattern, most in ((_AT_MOST_ONE, 1), (_NONE, 0), (_AT_MOST_TWO, 2)):
        found = pattern.fullmatch(promise.strip())
        if found is not None and counts[found[1]] > most:
            yield promise, f"{counts[found[1]]} dispatches"


def _timed(promise: str, story: Journey, dispatches: list[Dispatch]) -> Iterator[tuple[str, str]]:
    said = promise.strip()
    found = _TWICE.fullmatch(said)
    if found is not None and sum(one.call == found[1] for one in dispatches) > 1:
        yield promise, f"{found[1]} was dispatched again"
    found = _BEFORE.fullmatch(said)
    if found is not None:
        # The proposals that met the limit came before it; what the controller starts by itself may not.
        limit = story.start + timedelta(seconds=int(found[1]))
        for one in dispatches:
            if one.by == "controller" and one.at < limit:
                yield promise, f"{one.call} at {one.at.isoformat()}"
    found = _CLOSER.fullmatch(said)
    if found is not None:
        gap = timedelta(seconds=int(found[1]))
        for one, other in pairwise(dispatches):
            if one.action == other.action and other.at - one.at < gap:
                yield promise, f"{other.call} after {one.call}"


def _allowed(story: Journey) -> set[str]:
    """Return the words that the model wrote itself: its own arguments are no secrets to it."""
    return {word for call in story.calls().values() for text in _texts(call.args) for word in text.split()}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for member in cast("dict[str, object]", value).values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _texts(member)
    else:
        yield str(value)
