"""How a person sees what waits: what is asked, the exact arguments, since when, and what ends it. Nothing is asked here.

All text of others is escaped before it is laid out; colours are only where there is a terminal.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from forbear.cli.terminal import count, escaped
from forbear.core.vocabulary import End

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forbear.runtime.display import Shown
    from forbear.runtime.pending import Pending

# Columns of the labels at the left, and of an argument's name at most.
LABEL: Final = 10
NAME: Final = 24
NARROWEST: Final = 16

# kind -> label, style, plural of what it is.
KINDS: Final = {
    "approval": ("approve?", "bold yellow", "question"),
    "unknown": ("unknown", "bold red", "unknown outcome"),
    "granted": ("approved", "green", "approved call"),
    "wait": ("waits", "cyan", "waiting call"),
    "hold": ("held", "magenta", "hold"),
}
ENDS: Final = {
    End.TURN: "the next human message",
    End.PROBE: "one probe after the next human message",
    End.PERSON: "a person",
    End.VERDICT: "a verdict about its outcome",
    End.REPAIR: "a repaired call, or the next human message",
    End.TIME: "time",
    End.RUN: "the end of the run",
}
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def console() -> Console:
    """Return the terminal, or the file that stands in its place."""
    return Console(highlight=False, markup=False, emoji=False)


def span(length: timedelta) -> str:
    """Return a length of time in its two largest units."""
    seconds = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for unit, size in _UNITS:
        number, seconds = divmod(seconds, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or "0 s"


def instant(at: datetime) -> str:
    """Return an instant as it is read."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def ahead(at: datetime, now: datetime) -> str:
    """Return when something will be, and in how long; or that it is due."""
    return f"{instant(at)} (in {span(at - now)})" if at > now else f"{instant(at)} (now due)"


def heading(waiting: Sequence[Pending]) -> Text:
    """Return how much waits, by kind."""
    numbers = {kind: sum(one.kind == kind for one in waiting) for kind in KINDS}
    parts = [count(number, KINDS[kind][2]) for kind, number in numbers.items() if number]
    return Text(" · ".join(parts), style="bold")


def in_order(waiting: Sequence[Pending]) -> list[Pending]:
    """Return what waits with that first which waits for a person; oldest first within a kind."""
    kinds = list(KINDS)
    return sorted(waiting, key=lambda one: kinds.index(one.kind))


def block(one: Pending, now: datetime, width: int) -> RenderableType:
    """Return one thing that waits."""
    label, style, _ = KINDS[one.kind]
    grid = Table.grid(padding=(0, 1), pad_edge=False)
    grid.add_column(width=LABEL - 1, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style=style), Text(escaped(one.tool), style="bold"))
    grid.add_row("", Text(one.ticket, style="dim"))
    for name, text in _facts(one, now):
        grid.add_row(Text(name, style="dim"), Text(escaped(text)))
    if one.fingerprint:
        grid.add_row(Text("call", style="dim"), Text(f"{one.fingerprint} (fingerprint)", style="dim"))
    if not one.arguments:
        return grid
    return Group(grid, arguments(one.arguments, width))


def _facts(one: Pending, now: datetime) -> list[tuple[str, str]]:
    """Return labelled lines: where it comes from, why it waits, since when and until when."""
    since = span(now - one.since_at)
    why = f"{one.code}: {one.message}" if one.code and one.message else one.code or one.message
    match one.kind:
        case "approval":
            asked = [f"rule {one.rule}", *_where(one)]
            if one.prompts_before:
                asked.append(f"{count(one.prompts_before, 'prompt')} before")
            ends = "" if one.due_at is None else f", expires {ahead(one.due_at, now)}"
            lines = [("asked by", ", ".join(asked)), ("open", f"{since}{ends}")]
            if one.rule == "framework":
                lines.append(("answer", "through the framework that asked, not here"))
            return lines
        case "granted":
            ends = "" if one.due_at is None else ahead(one.due_at, now)
            return [("asked by", ", ".join([f"rule {one.rule}", *_where(one)])), ("starts", f"once, by {ends}")]
        case "unknown":
            looks = "waits for a person" if one.due_at is None else f"next look {ahead(one.due_at, now)}"
            return [("in", ", ".join(_where(one))), ("told", why), ("since", f"{since}, {looks}")]
        case "wait":
            runs = "" if one.due_at is None else f", runs {ahead(one.due_at, now)}"
            return [("in", ", ".join(_where(one))), ("told", why), ("since", f"{since}{runs}")]
        case _:
            ends = ENDS[End(one.end)] if one.due_at is None else ahead(one.due_at, now)
            covers = f"its {one.scope}" if one.scope != "run" else "the run"
            return [
                ("in", ", ".join(_where(one))),
                ("told", why),
                ("covers", covers),
                ("since", f"{since}, ends by {ends}" if one.due_at is None else f"{since}, ends {ends}"),
            ]


def _where(one: Pending) -> list[str]:
    found = [f"run {' > '.join(one.path)}"]
    return [*found, f"server {one.source}"] if one.source else found


def arguments(shown: Sequence[Shown], width: int) -> Table:
    """Return arguments, each with its type and length; a value is broken at the width, and nothing of it is trimmed."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(width=LABEL - 2, no_wrap=True)
    names = min(max(cell_len(one.name) for one in shown), NAME)
    types = max(len(_type(one)) for one in shown)
    grid.add_column(width=names, overflow="fold", style="bold")
    grid.add_column(width=types, no_wrap=True, style="dim")
    grid.add_column(no_wrap=True)
    left = max(width - LABEL - names - types - 4, NARROWEST)
    for one in shown:
        grid.add_row("", Text(one.name), _type(one), _value(one, left))
    return grid


def _type(one: Shown) -> str:
    match one.type:
        case "text":
            return f"text, {one.length}"
        case "list" | "object":
            return f"{one.type}, {one.length}"
        case _:
            return one.type


def _value(one: Shown, width: int) -> Text:
    if one.hidden:
        return Text(one.text, style="dim italic")
    shown = one.text
    if one.type == "text":
        # Quotes show where it begins and ends, so that a space at either end is seen.
        shown = f'"{shown}' if one.cut else f'"{shown}"'
    value = Text("\n".join(chop_cells(shown, width)))
    if one.cut:
        value.append("\n… cut here; --whole shows all of it", style="dim italic")
    return value
