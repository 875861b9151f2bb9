"""Commands by which a person looks: what waits, one run, and what became of one request. They change nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from forbear.cli.desk import At, Json, as_json, at_store, print_json
from forbear.cli.show import KINDS, block, console, heading, in_order
from forbear.errors import UsageError


def pending(
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help=f"Only this kind: {', '.join(KINDS)}.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run and its children.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Show every argument to its end.")] = False,
    store: At = None,
    json_: Json = False,
) -> None:
    """Show what waits for a person or the clock: questions, unknown outcomes, waits, holds."""
    unknown = sorted(set(kind or ()) - KINDS.keys())
    if unknown:
        raise UsageError(f"kind: must be one of {', '.join(KINDS)}")
    with at_store(store) as desk:
        found = desk.operator.pending(whole=whole or json_)
        waiting = [one for one in found if (not kind or one.kind in kind) and (run is None or run in one.path)]
        if json_:
            print_json([as_json(one) for one in waiting])
            return
        out = console()
        if not waiting:
            out.print("Nothing waits.")
            return
        out.print(heading(waiting))
        for one in in_order(waiting):
            out.print()
            out.print(block(one, desk.now, out.width))
        lines = _what_to_do({one.kind for one in waiting})
        if lines:
            out.print()
            for line in lines:
                out.print(line, style="dim", soft_wrap=True)


def _what_to_do(kinds: set[str]) -> list[str]:
    lines = {
        "approval": "answer a question:  forbear approve|deny|revise|edit TICKET",
        "unknown": "say what happened:  forbear resolve TICKET applied|not_applied|cannot_tell",
        "hold": "end a hold early:   forbear lift TICKET",
    }
    return [line for kind, line in lines.items() if kind in kinds]


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("pending", rich_help_panel="Operators")(pending)
