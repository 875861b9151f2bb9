"""`make bench`: every row in interleaved rounds of one run, ratios side by side, then the gates; exit 1 where a gate fails.

Absolute times are shown for orientation only: the machine is not ours. A ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.bench.gates import cyclic_garbage, imported_frameworks, synced_on_loop
from tests.bench.rows import async_rows, sync_rows

BATCH = 100
# row -> (what it is compared with, goal of design section 14; None = no goal)
AGAINST: dict[str, tuple[str, float | None]] = {
    "forbear read": ("tenacity @retry", 1.0),
    "forbear read, with step and call id": ("tenacity @retry", 1.0),
    "forbear read, SQLite file": ("tenacity @retry", 1.0),
    "forbear blocked call": ("tenacity @retry", None),
    "forbear write, :memory:": ("tenacity @retry", None),
    "forbear write, SQLite file": ("tenacity @retry", None),
    "classify a success": ("tenacity @retry", None),
    "classify a 429": ("tenacity @retry", None),
    "forbear read (async)": ("tenacity @retry (async)", 1.0),
    "graph of one RecoveryToolNode": ("graph of one ToolNode", None),
}


def measure(rounds: int, folder: Path) -> dict[str, list[float]]:
    """Return seconds per call of every row, one figure a round."""
    found: dict[str, list[float]] = {}
    dice = random.Random(7)
    loop = asyncio.new_event_loop()
    with sync_rows(folder) as plain, async_rows() as waiting:
        names = [*plain, *waiting]
        for number in track(range(rounds + 2), description="rounds", transient=True):
            dice.shuffle(names)
            for name in names:
                took = _batch(plain[name]) if name in plain else loop.run_until_complete(_abatch(waiting[name]))
                if number >= 2:
                    found.setdefault(name, []).append(took)
    loop.close()
    return found


def _batch(row: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(BATCH):
        row()
    return (time.perf_counter() - began) / BATCH


async def _abatch(row: Callable[[], Any]) -> float:
    began = time.perf_counter()
    for _ in range(BATCH):
        await row()
    return (time.perf_counter() - began) / BATCH


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="interleaved rounds of every row (default: 60)")
    rounds: int = parser.parse_args().rounds
    console = Console()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(rounds, Path(folder))
        failed = _show(console, found)
        garbage, synced, frameworks = cyclic_garbage(), synced_on_loop(Path(folder)), imported_frameworks()
    for title, value, is_good in (
        ("cyclic garbage of succeeding reads (objects)", garbage, garbage == 0),
        ("synced disk calls on the event loop", len(synced), not synced),
        ("frameworks that import forbear loads", ", ".join(frameworks) or "none", not frameworks),
    ):
        console.print(f"gate: {title}: {value}", style="green" if is_good else "red")
        failed += not is_good
    return 1 if failed else 0


def _show(console: Console, found: dict[str, list[float]]) -> int:
    table = Table("row", "us a call", "compared with", "ratio", "goal")
    failed = 0
    for name, seconds in found.items():
        other, goal = AGAINST.get(name, ("", None))
        ratio = statistics.median(a / b for a, b in zip(seconds, found[other], strict=True)) if other else None
        is_over = ratio is not None and goal is not None and ratio > goal
        failed += is_over
        table.add_row(
            name,
            f"{statistics.median(seconds) * 1e6:.1f}",
            other,
            "" if ratio is None else f"{ratio:.2f}",
            "" if goal is None else f"<= {goal:g}",
            style="red" if is_over else "",
        )
    console.print(table)
    return failed


if __name__ == "__main__":
    sys.exit(main())
