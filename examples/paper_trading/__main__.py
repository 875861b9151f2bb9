"""The demo's command line: ``python -m examples.paper_trading``. Only arguments and printing live here."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.paper_trading.journeys import BY_NAME, JOURNEYS
from examples.paper_trading.real import NoModel, real_model
from examples.paper_trading.report import as_json, console, meaning, tables
from examples.paper_trading.run import LOOPS, Outcome, Side, Trip, make, trips


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit status: 0, or 2 where it could not be run."""
    asked = _parser().parse_args(arguments)
    try:
        model = real_model(asked.model) if asked.model else None
    except NoModel as problem:
        print(problem, file=sys.stderr)
        return 2
    chosen = [BY_NAME[name] for name in asked.journey] if asked.journey else JOURNEYS
    sides = [Side(asked.side)] if asked.side else list(Side)
    planned = trips(chosen, sides, scripted=model is None, loop=asked.loop)
    if not planned:
        print(f"--loop {asked.loop}: makes only {', '.join(LOOPS[asked.loop].journeys or ())}", file=sys.stderr)
        return 2
    out = console()
    outcomes = _made(planned, model, Console(stderr=True) if asked.json else out)
    if asked.json:
        print(as_json(outcomes))
    else:
        for part in tables(outcomes, out, by_model=len(chosen) == 1):
            out.print(part)
        out.print(meaning(outcomes))
    return 0


def _made(planned: Sequence[Trip], model: BaseChatModel | None, out: Console) -> list[Outcome]:
    """Make the runs with a bar that says which one was made last."""
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="paper-trading-") as folder,
        Progress(*columns, console=out, transient=True) as progress,
    ):
        bar = progress.add_task("starting the desk", total=len(planned))

        def made(outcome: Outcome) -> None:
            trip = outcome.trip
            said = f"{trip.journey.name.replace('_', ' ')}, {trip.model_name}, {trip.side}"
            progress.update(bar, advance=1, description=said)

        return asyncio.run(make(planned, Path(folder), model=model, made=made))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.paper_trading",
        description="What models do to a paper-trading desk, bare and under forbear, counted by the desk itself.",
    )
    parser.add_argument(
        "--journey", action="append", choices=sorted(BY_NAME), metavar="NAME", help=f"one of {', '.join(BY_NAME)}"
    )
    parser.add_argument("--side", choices=[side.value for side in Side], help="only one side")
    parser.add_argument(
        "--loop", choices=list(LOOPS), default="langgraph", help="how the agent is built (default: %(default)s)"
    )
    parser.add_argument("--model", metavar="PROVIDER:NAME", help="a real model instead of the scripted ones")
    parser.add_argument("--json", action="store_true", help="every run and the sums, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
