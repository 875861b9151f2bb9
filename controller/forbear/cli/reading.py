"""Commands by which a person looks: what waits, one run, and what became of one request. They change nothing."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from forbear.cli.desk import STORE, At, Json, at_store, print_json
from forbear.cli.show import KINDS, block, console, heading, instant, labelled, merged
from forbear.cli.terminal import count, escaped, note
from forbear.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from forbear.runtime.explain import Explanation, Happening
    from forbear.runtime.overview import RunView
    from forbear.runtime.pending import Pending

# So many calls, and so many holds, are shown where nobody says how many.
LIMIT = 200

run_ = typer.Typer(help="Look at one agent run.", no_args_is_help=True)


def pending(
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help=f"Only this kind: {', '.join(KINDS)}.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run and its children.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Show every argument to its end.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="NUMBER",
            min=1,
            help="The oldest so many calls, and holds; with --json none is left out.",
        ),
    ] = None,
    store: At = None,
    as_json: Json = False,
) -> None:
    """Show what waits for a person or the clock: questions, unknown outcomes, waits, holds, looser policies.

    On a terminal and in a file the oldest 200 calls and 200 holds, unless --limit, --run or --kind says otherwise.
    """
    if set(kind or ()) - KINDS.keys():
        raise UsageError(f"--kind: must be one of {', '.join(KINDS)}")
    with at_store(store) as desk:
        most = LIMIT if limit is None and not (as_json or kind or run) else limit
        found = desk.operator.pending(whole=whole or as_json, limit=most)
        waiting = [one for one in found if (not kind or one.kind in kind) and (run is None or run in one.path)]
        if as_json:
            print_json([asdict(one) for one in waiting])
        elif waiting:
            _print_waiting(waiting, desk.now, console())
        else:
            typer.echo("Nothing waits.")
        calls = sum(one.kind != "hold" for one in found)
        if most is not None and max(calls, len(found) - calls) >= most and not as_json:
            note(f"the oldest {most} of a kind are shown; there may be more (--limit NUMBER)")


def _print_waiting(waiting: Collection[Pending], now: datetime, out: Console) -> None:
    shown = merged(waiting)
    out.print(heading(one for one, _ in shown))
    for one, hold in shown:
        out.print()
        out.print(block(one, hold, now, out.width))
    lines = [line for kind, line in _ANSWERS.items() if any(one.kind == kind for one, _ in shown)]
    if lines:
        out.print()
        out.print(Text("\n".join(lines), style="dim"))


_ANSWERS = {
    "approval": "Answer a question:  forbear approve|deny|revise|edit TICKET",
    "unknown": "Say what happened:  forbear resolve TICKET applied|not_applied|cannot_tell",
    "hold": "End a hold early:   forbear lift TICKET",
    "policy": "Take a looser one:  forbear allow TICKET",
}


@run_.command("show")
def run_show(run: Annotated[str, typer.Argument(metavar="RUN")], *, store: At = None, as_json: Json = False) -> None:
    """Show one run: its place, its turn, whether its tool use is over, its stopped calls, and what waits in it."""
    with at_store(store) as desk:
        view = desk.operator.run(run)
        if as_json:
            print_json(asdict(view))
            return
        out = console()
        out.print(Text(escaped(f"run {view.run}"), style="bold"))
        for label, said, style in _run_lines(view):
            out.print(Text("\n").join(labelled(label, said, out.width, style)))
        if view.waiting:
            out.print()
            _print_waiting(view.waiting, desk.now, out)


def _run_lines(view: RunView) -> list[tuple[str, str, str]]:
    since = "" if view.turn_at is None else f", since {instant(view.turn_at)}"
    blocked = f"{count(view.blocked_in_turn, 'step')} of this turn blocked"
    lines = [
        ("tree", " > ".join(view.path), ""),
        ("quotas", f"of {view.principal}", ""),
        ("turn", f"{view.turn}{since}", ""),
        ("calls", f"{view.calls_in_turn} in this turn, {view.calls_in_run} in all; {blocked}", ""),
    ]
    if view.children:
        lines.append(("children", ", ".join(view.children), ""))
    if view.halted:
        at = "" if view.halted_at is None else f" since {instant(view.halted_at)}"
        lines.append(("halted", f"{view.halted}{at}: {view.message}", "bold red"))
        lines.append(("", f"ends with the next human message, or: forbear lift --run {shlex.quote(view.run)}", ""))
    for call in view.calls:
        why = f" ({call.code})" if call.code else ""
        explained = f", forbear explain {call.request_id}" if call.request_id else ""
        attempts = count(call.attempts, "attempt")
        lines.append((_PHASES[call.phase], f"{call.tool}{why}, {attempts}{explained}", ""))
    return lines


_PHASES = {"Running": "running", "Stopped": "stopped", "NeedsRepair": "repair"}


def explain(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID")], *, store: At = None, as_json: Json = False
) -> None:
    """Say in words what became of one request, what holds now, what the model was told, and what a person can do."""
    with at_store(store) as desk:
        said = desk.controller.explain(request_id)
        if as_json:
            print_json(asdict(said))
            return
        out = console()
        for line in _explained(said, out.width, store):
            out.print(line)


def _explained(said: Explanation, width: int, store: str | None) -> list[Text]:
    lines = [Text.assemble((f"{'request':<10}", "dim"), (said.request_id, "bold"))]
    lines += labelled("call", f"{said.tool} (operation {said.operation})", width)
    lines += labelled("run", " > ".join(said.path), width)
    lines += [Text(), Text.assemble(("What happened", "bold"), ("  (UTC)", "dim"))]
    for one in said.story:
        lines += _happened(one, width)
    if said.left_out:
        lines.append(Text(f"  {said.left_out} more in between are left out", style="dim"))
    lines += [Text(), Text("What holds now", style="bold")]
    lines += [line for sentence in said.now for line in _indented(sentence, width)]
    lines += [Text(), Text("What the model was told", style="bold"), *_told(said.told, width)]
    lines += [Text(), Text("What a person can do", style="bold")]
    for remedy in said.remedies:
        lines += _indented(remedy.text, width)
        if remedy.command:
            # Never broken: it is there to be copied.
            at = "" if store in {None, os.environ.get(STORE)} else f" --store {shlex.quote(str(store))}"
            lines.append(Text(escaped(f"      {remedy.command}{at}"), style="bold"))
    return lines


def _happened(one: Happening, width: int) -> list[Text]:
    often = f" ({one.times} times, until {instant(one.until_at)})" if one.times > 1 else ""
    mark, style = (">", "bold") if one.is_asked else (" ", "")
    head = f"{mark} {one.at:%Y-%m-%d %H:%M:%S}  "
    lines = _indented(f"{one.text}{often}", width, by=len(head), style=style)
    return [Text.assemble((head, style or "dim"), lines[0][len(head) :]), *lines[1:]]


def _told(told: str, width: int) -> list[Text]:
    """Return what the model was told; a refusal in words, with every field that it had (``--json`` has it as it was)."""
    try:
        view: object = json.loads(told)
    except ValueError:
        return _indented(told, width)
    error = cast("dict[str, dict[str, object]]", view).get("error") if isinstance(view, dict) else None
    if error is None:
        return _indented(told, width)
    head = f"{error.get('code')} ({error.get('recovery', 'no recovery')}): {error.get('message')}"
    more = [f"{name}: {_plain(value)}" for name, value in error.items() if name not in {"code", "recovery", "message"}]
    return [line for said in (head, *more) for line in _indented(said, width)]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _indented(said: str, width: int, by: int = 2, style: str = "") -> list[Text]:
    lines = labelled("", said, width + 10 - by, style)
    return [Text.assemble(" " * by, line[10:]) for line in lines]


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (pending, explain):
        app.command(command.__name__, rich_help_panel="Operators")(command)
    app.add_typer(run_, name="run", rich_help_panel="Operators")
