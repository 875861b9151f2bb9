"""Printing what was counted: one table side by side, one sentence, or JSON. No figure is made up here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from examples.paper_trading.counts import Counts, total
from examples.paper_trading.run import Outcome, Side

WIDTH = 118
"""Columns of a table that nobody has given a width: a file, a pipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the table."""

    title: str
    figure: Callable[[Counts], int]
    of: Callable[[Counts], int] | None = None
    """Where set, the cell reads ``figure/of``, and an ``of`` of 0 is a dash."""
    harm: bool = True
    """Whether anything above 0 is damage."""

    def cell(self, counts: Counts) -> str:
        """Return one side's figure as text."""
        if self.of is None:
            return str(self.figure(counts))
        return f"{self.figure(counts)}/{self.of(counts)}" if self.of(counts) else "-"

    def style(self, counts: Counts) -> str:
        """Return the colour of one side's figure."""
        if not self.harm:
            return ""
        return "red" if self.figure(counts) else "green"


COLUMNS = (
    Column(title="real\ncalls", figure=lambda counts: counts.executions, harm=False),
    Column(title="double\norders", figure=lambda counts: counts.duplicates),
    Column(title="before\nreset_at", figure=lambda counts: counts.early),
    Column(title="final\nrefusal\nmet again", figure=lambda counts: counts.after_refusal),
    Column(title="calls\nafter\na no", figure=lambda counts: counts.after_no),
    Column(title="asked\nafter\na no", figure=lambda counts: counts.prompts_after_no),
    Column(title="secret\nshown", figure=lambda counts: counts.leaks, of=lambda counts: counts.runs),
    Column(title="goal\nreached", figure=lambda counts: counts.goals, of=lambda counts: counts.goals_of, harm=False),
    Column(title="model\nsteps", figure=lambda counts: counts.steps, harm=False),
)


def tables(outcomes: Sequence[Outcome], out: Console, *, by_model: bool = False) -> list[Table]:
    """Return the table, divided between columns into as many as it takes for no cell to be cut at this width."""
    done: list[Table] = []
    left: Sequence[Column] = COLUMNS
    while left:
        shown = len(left)
        while shown > 1 and _width(table(outcomes, by_model=by_model, columns=left[:shown]), out) > out.width:
            shown -= 1
        done.append(table(outcomes, by_model=by_model, columns=left[:shown]))
        left = left[shown:]
    return done


def _width(grid: Table, out: Console) -> int:
    """Return how wide a table is that nothing cuts."""
    return Measurement.get(out, out.options.update(max_width=10 * WIDTH), grid).maximum


def table(outcomes: Sequence[Outcome], *, by_model: bool = False, columns: Sequence[Column] = COLUMNS) -> Table:
    """Return the table: a row for each journey (or each of its models), and the sum."""
    sides = _sides(outcomes)
    grid = Table(
        box=box.SIMPLE_HEAD, title=" → ".join(sides), title_justify="left", pad_edge=False, padding=(0, 0, 0, 1)
    )
    grid.add_column("journey" if not by_model else "journey, model", no_wrap=True)
    for column in columns:
        grid.add_column(column.title, justify="right", no_wrap=True)
    names = list(dict.fromkeys(_name(outcome, by_model=by_model) for outcome in outcomes))
    for name in names:
        own = [one for one in outcomes if _name(one, by_model=by_model) == name]
        grid.add_row(name, *_cells(own, sides, columns))
    if len(names) > 1:
        grid.add_section()
        grid.add_row(Text("all", style="bold"), *_cells(outcomes, sides, columns), style="bold")
    return grid


def meaning(outcomes: Sequence[Outcome]) -> str:
    """Return one sentence that says what the sums mean."""
    sides = _sides(outcomes)
    bare = total(one.counts for one in outcomes if one.trip.side is Side.BARE)
    if sides != [Side.BARE, Side.GOVERNED]:
        return f"{', '.join(sides)}: {_account(total(one.counts for one in outcomes))}."
    governed = total(one.counts for one in outcomes if one.trip.side is Side.GOVERNED)
    return f"The same models and the same desk. Bare: {_account(bare)}. Under forbear: {_account(governed)}."


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return every run and the sums as JSON."""
    runs = [
        {
            "journey": one.trip.journey.name,
            "model": one.trip.model_name,
            "side": one.trip.side.value,
            "loop": one.trip.loop,
            **asdict(one.counts),
        }
        for one in outcomes
    ]
    sums = {
        side.value: asdict(total(one.counts for one in outcomes if one.trip.side is side)) for side in _sides(outcomes)
    }
    return json.dumps({"runs": runs, "totals": sums}, indent=2)


def console() -> Console:
    """Return where things are printed: as wide as the terminal, or as wide as the table."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH)


def _account(counts: Counts) -> str:
    return (
        f"{counts.executions} real calls, {counts.duplicates} double orders, {counts.early} calls before a reset,"
        f" {counts.after_refusal} after a final refusal,"
        f" {counts.prompts_after_no} prompts after a no, secrets shown in {counts.leaks} of {counts.runs} runs,"
        f" {counts.goals} of {counts.goals_of} goals"
    )


def _cells(outcomes: Sequence[Outcome], sides: Sequence[Side], columns: Sequence[Column]) -> list[Text]:
    sums = [total(one.counts for one in outcomes if one.trip.side is side) for side in sides]
    cells: list[Text] = []
    for column in columns:
        cell = Text()
        for index, counts in enumerate(sums):
            cell.append(" → " if index else "", style="dim")
            cell.append(column.cell(counts), style=column.style(counts))
        cells.append(cell)
    return cells


def _name(outcome: Outcome, *, by_model: bool) -> str:
    name = outcome.trip.journey.name.replace("_", " ")
    return f"{name}, {outcome.trip.model_name}" if by_model else name


def _sides(outcomes: Sequence[Outcome]) -> list[Side]:
    present = {outcome.trip.side for outcome in outcomes}
    return [side for side in Side if side in present]
