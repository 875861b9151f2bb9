"""Run vector files of either format and report what fails. What the formats mean is in journeys.py and signals.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from forbear.testing.journeys import run_journey
from forbear.testing.signals import run_signals

__all__ = ["Failure", "Report", "run"]

# Called with (cases done, cases in all).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One case that failed, in words for one line."""

    id: str
    event: object
    expected: object
    got: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of running vector files."""

    passed: int
    failures: tuple[Failure, ...]
    # What vectors say and the runner could not use or compare, one sentence each; no failures.
    notes: tuple[str, ...] = ()


def run(paths: Sequence[Path], *, progress: Progress | None = None) -> Report:
    """Run every case of every file.

    A line that cannot be read is a failing case with a reason; it never ends the run.

    Raises:
        OSError: a file cannot be opened.
    """
    lines = [(path, number, text) for path in paths for number, text in _lines(path)]
    failures: list[Failure] = []
    notes: list[str] = []
    passed = 0
    for done, (path, number, text) in enumerate(lines, start=1):
        found = _case(f"{path.name}:{number}", text, notes)
        failures.extend(found)
        passed += not found
        if progress is not None:
            progress(done, len(lines))
    return Report(passed=passed, failures=tuple(failures), notes=tuple(notes))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _case(place: str, text: str, notes: list[str]) -> list[Failure]:
    try:
        line: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return [_unreadable(place, f"not JSON: {error}")]
    if not isinstance(line, dict):
        return [_unreadable(place, "a vector must be a JSON object")]
    case = cast("dict[str, object]", line)
    name = str(case.get("id", place))
    if "events" not in case and "input" not in case:
        return [_unreadable(name, "neither a journey (events) nor a signal (input)")]
    try:
        if "events" in case:
            said: list[str] = []
            found = run_journey(case, notes=said)
            notes.extend(f"{name}: {one}" for one in said)
            return [Failure(id=one.id, event=one.event, expected=one.expected, got=one.got) for one in found]
        return [Failure(id=one.id, event="-", expected=one.expected, got=one.got) for one in run_signals([text])]
    except Exception as error:  # noqa: BLE001 - whatever a line does to the runner, it is that line's failure
        return [Failure(id=name, event="-", expected="the case can be run", got=f"{type(error).__name__}: {error}")]


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unreadable(name: str, reason: str) -> Failure:
    return Failure(id=name, event="-", expected="a vector", got=reason)
