"""How a person sees what waits: what is asked, the exact arguments, since when, and what ends it. Nothing is asked here.

All text of others is escaped before it is laid out; colours are only where there is a terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from forbear.audit.words import ENDS, SCOPES
from forbear.cli.terminal import count, escaped
from forbear.core.vocabulary import End, Scope

if TYPE_CHECKING:
    from forbear.runtime.display import Shown
    from forbear.runtime.pending import Pending

# Columns of the labels at the left; of an argument's name at most, and of its value at least.
LABEL: Final = 10
NAME: Final = 24
NARROWEST: Final = 16

# kind -> label, style, what it is called where it is counted.
KINDS: Final = {
    "approval": ("approve?", "bold yellow", "question"),
    "unknown": ("unknown", "bold red", "unknown outcome"),
    "granted": ("approved", "bold green", "approved call"),
    "wait": ("waits", "bold cyan", "waiting call"),
    "hold": ("held", "bold magenta", "hold"),
    "policy": ("looser?", "bold yellow", "looser policy"),
}
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def console() -> Console:
    """Return the terminal, or the file that stands in its place."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


# ---- words ----------------------------------------------------------------------------------------------------------


def span(length: timedelta) -> str:
    """Return a length of time in its two largest units."""
    seconds = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for place, (unit, size) in enumerate(_UNITS):
        number, seconds = divmod(seconds, size)
        if number:
            parts = [f"{number} {unit}"]
            if place + 1 < len(_UNITS):
                smaller, size_of_it = _UNITS[place + 1]
                rest = seconds // size_of_it
                parts += [f"{rest} {smaller}"] if rest else []
            break
    return " ".join(parts) or "0 s"


def instant(at: datetime) -> str:
    """Return an instant as it is read."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def ahead(at: datetime, now: datetime) -> str:
    """Return when something will be, and in how long; or that it is due."""
    return f"{instant(at)} (in {span(at - now)})" if at > now else f"{instant(at)} (due)"


def heading(waiting: Iterable[Pending]) -> Text:
    """Return how much waits, by kind."""
    kinds = [one.kind for one in waiting]
    parts = [count(kinds.count(kind), KINDS[kind][2]) for kind in KINDS if kind in kinds]
    return Text(" · ".join(parts), style="bold")


def merged(waiting: Collection[Pending]) -> list[tuple[Pending, Pending | None]]:
    """Return what waits, what waits for a person first; a hold goes with the call that carries its ticket."""
    kinds = list(KINDS)
    calls = {one.ticket for one in waiting if one.kind != "hold"}
    holds = {one.ticket: one for one in waiting if one.kind == "hold"}
    ordered = sorted(waiting, key=lambda one: kinds.index(one.kind))
    return [
        (one, holds.get(one.ticket) if one.kind != "hold" else None)
        for one in ordered
        if one.kind != "hold" or one.ticket not in calls
    ]


# ---- one thing that waits -------------------------------------------------------------------------------------------


def block(one: Pending, hold: Pending | None, now: datetime, width: int) -> Text:
    """Return one thing that waits, with the hold that goes with it, laid out for a width."""
    label, style, _ = KINDS[one.kind]
    lines = [Text.assemble((f"{label:<{LABEL}}", style), (escaped(one.tool), "bold"))]
    lines.append(Text.assemble(" " * LABEL, (escaped(one.ticket), "dim")))
    for name, said in _facts(one, hold, now):
        lines += labelled(name, said, width)
    if one.fingerprint:
        what = "policy" if one.kind == "policy" else "call"
        lines.append(Text(f"{what:<{LABEL}}{one.fingerprint} (fingerprint)", style="dim"))
    if one.request_id:
        lines.append(Text(f"{'request':<{LABEL}}{escaped(one.request_id)}", style="dim"))
    if one.arguments:
        lines += arguments(one.arguments, width)
    return Text("\n").join(lines)


def labelled(label: str, said: str, width: int, style: str = "") -> list[Text]:
    """Return a labelled text, broken between words at the width."""
    room = max(width - LABEL, NARROWEST)
    broken: list[str] = []
    line = ""
    for word in escaped(said).split(" "):
        if line and cell_len(line) + 1 + cell_len(word) > room:
            broken.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    pieces = [piece for line in [*broken, line] for piece in chop_cells(line, room) or [""]]
    return [
        Text.assemble((f"{label if n == 0 else '':<{LABEL}}", "dim"), (piece, style)) for n, piece in enumerate(pieces)
    ]


def _facts(one: Pending, hold: Pending | None, now: datetime) -> list[tuple[str, str]]:
    """Return labelled lines: where it comes from, why it waits, since when and until when."""
    since = span(now - one.since_at)
    due = "" if one.due_at is None else ahead(one.due_at, now)
    where = ", ".join(_where(one))
    why = f"{one.code}: {one.message}" if one.code and one.message else one.code or one.message
    covers = [] if hold is None else [("holds", SCOPES[Scope(hold.scope)])]
    match one.kind:
        case "approval":
            before = f", {count(one.prompts_before, 'prompt')} before" if one.prompts_before else ""
            lines = [("asked by", f"rule {one.rule}, {where}{before}"), ("open", f"{since}, expires {due}")]
            if one.rule == "framework":
                lines.append(("answer", "through the framework that asked, not here"))
            return lines
        case "granted":
            return [("asked by", f"rule {one.rule}, {where}"), ("starts", f"once, before {due}")]
        case "unknown":
            looks = f"next look {due}" if due else "waits for a person"
            return [("in", where), ("told", why), ("since", f"{since}, {looks}"), *covers]
        case "wait":
            return [("in", where), ("told", why), ("since", f"{since}, runs {due}"), *covers]
        case "policy":
            return [("looser", one.message), ("since", since)]
        case _:
            ends = f"ends {due}" if due else f"ends {ENDS[End(one.end)]}"
            return [("in", where), ("told", why), ("holds", SCOPES[Scope(one.scope)]), ("since", f"{since}, {ends}")]


def _where(one: Pending) -> list[str]:
    found = [f"run {' > '.join(one.path)}"]
    return [*found, f"server {one.source}"] if one.source else found


def arguments(shown: Sequence[Shown], width: int) -> list[Text]:
    """Return arguments, each with its type and length; a value is broken at the width, and nothing of it is trimmed."""
    names = min(max(cell_len(one.name) for one in shown), NAME)
    types = max(len(_type(one)) for one in shown)
    room = max(width - LABEL - names - types - 4, NARROWEST)
    lines: list[Text] = []
    for one in shown:
        name = chop_cells(one.name, NAME)
        value = _value(one, room)
        for n in range(max(len(name), len(value))):
            left = name[n] if n < len(name) else ""
            line = Text(" " * LABEL)
            line.append(left + " " * (names - cell_len(left) + 2), style="bold")
            line.append(f"{_type(one) if n == 0 else '':<{types + 2}}", style="dim")
            if n < len(value):
                line.append(*value[n])
            else:
                line.rstrip()
            lines.append(line)
    return lines


def _type(one: Shown) -> str:
    return f"{one.type}, {one.length}" if one.type in {"text", "list", "object"} else one.type


def _value(one: Shown, room: int) -> list[tuple[str, str]]:
    if one.hidden:
        return [(one.text, "dim italic")]
    value = one.text
    if one.type == "text":
        # Quotes show where it begins and ends, so that a space at either end is seen.
        value = f'"{value}' if one.cut else f'"{value}"'
    lines = [(line, "") for line in chop_cells(value, room)]
    return [*lines, ("... cut here; --whole shows all of it", "dim italic")] if one.cut else lines
