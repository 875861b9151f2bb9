"""The reference of telemetry, made from the code; `python -m tests.docs.telemetry_table` writes it."""

from __future__ import annotations

from pathlib import Path

from forbear.core.rules import Rule
from forbear.observe.naming import EVENTS, LAST, severity_of
from forbear.observe.notice import Event, Unrecorded
from forbear.observe.words import INSTRUMENTS, SPAN

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "telemetry.md"
HEAD = """# Telemetry

What observers are told, and what `forbear.observe.OpenTelemetryObserver` makes of it. Every attribute has a closed set of
values, except ids, which are on spans and in logs only. How to use it: [watch what is
refused](../how-to/watch-what-is-refused.md). Made from the code by `python -m tests.docs.telemetry_table`.

## Metrics

`error.type` is the code where the catalogue holds it, else `_OTHER`; attributes without a value are left out. Counters are
read when they are collected.

| metric | kind | unit | attributes | meaning |
|---|---|---|---|---|
"""
SPANS = """
## The span around a call

Name `execute_tool {tool}`, kind internal, after the GenAI conventions of OpenTelemetry (in development). Its status is an
error where `error.type` is set; it has no description, and no exception is ever recorded on it. Where the framework's own
span records an `execute_tool`, that gets these attributes, and its status stays the framework's.

| attribute | meaning |
|---|---|
"""
EVENT = """
## Events

The event of a decision follows from its rule; an answer `stopped` makes a `forbear.stopped` of a block or a wait, an
answer `halted` a `forbear.halted`, and both are errors. A handled refusal is a warning; rules after which the controller
tries nothing more by itself are errors (marked with `!`). `forbear.broken` is no decision: the store could not be written,
so the call did not run (or it ran, and what it said is committed, and told, later).

| event | severity | rules |
|---|---|---|
"""


def page() -> str:
    """Return the page."""
    metrics = [
        f"| `{one.name}` | {one.kind} | `{one.unit}` | {', '.join(f'`{name}`' for name in one.attributes)} "
        f"| {one.meaning} |"
        for one in INSTRUMENTS
    ]
    spans = [f"| `{one.name}` | {one.meaning} |" for one in SPAN]
    events = []
    for event in dict.fromkeys(EVENTS.values()):
        rules = [f"`{rule}`{'!' if rule in LAST else ''}" for rule in Rule if EVENTS[rule] is event]
        events.append(f"| `{event}` | {severity_of(event)} | {', '.join(rules)} |")
    broken = ", ".join(f"`{rule}`" for rule in Unrecorded)
    events.append(f"| `{Event.BROKEN}` | {severity_of(Event.BROKEN)} | {broken} |")
    return HEAD + "\n".join(metrics) + "\n" + SPANS + "\n".join(spans) + "\n" + EVENT + "\n".join(events) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
