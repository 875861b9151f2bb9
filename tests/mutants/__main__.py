"""`python -m tests.mutants`: change the core in one small place at a time, and see whether a test notices.

Every mutant must be noticed, or be listed with a reason in docs/mutants.md; a listed one that is noticed, or that is no
longer there, is an error as well. What is known is kept in .mutants/judged.jsonl, by the text of the function that a mutant
is in and the tests that judged it: a run can be stopped and gone on with, and after a change only what changed is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.mutants.judge import judge
from tests.mutants.listed import PAGE, kind_of, listed, row, with_figures
from tests.mutants.measure import RECORD, ROOT, UNIT, digests, measure, modules, source_of
from tests.mutants.mutator import Mutant, mutants
from tests.mutants.pool import fork_each

KEPT = ROOT / ".mutants" / "judged.jsonl"
# Seconds of a processor for one mutant: in a function, and where everything is imported and explored again.
QUICK, SLOW = 20, 60
# Seconds between two lines that say how far a run is.
EVERY = 10


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier run found out about a mutant."""

    by: str
    # Parts of the tests that said so, with their digests: the one that noticed it, or all that did not.
    parts: dict[str, str]

    def holds(self, now: Mapping[str, str]) -> bool:
        """Say whether it is still true, by what was asked."""
        asked = self.parts if self.by else now
        return all(now.get(part) == digest == self.parts.get(part) for part, digest in asked.items())


def read_known() -> dict[str, Known]:
    """Return what earlier runs found out, the newest last."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    return {made["key"]: Known(made["by"], made["parts"]) for made in map(json.loads, lines)}


def asked(by: str, now: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of the tests that a finding depends on."""
    if not by:
        return dict(now)
    file = by.split("::", maxsplit=1)[0]
    return {file: now[file]} if file in UNIT else {RECORD: now[RECORD]}


def judge_all(todo: Sequence[Mutant], known: dict[str, Known], jobs: int) -> None:
    """Judge mutants; what is found out is added to `known` and kept at once."""
    say("Exploring and testing the unchanged core ...")
    measured = measure()
    begun, told = time.monotonic(), time.monotonic()
    alive = 0

    def do(mutant: Mutant) -> str:
        before = known.get(mutant.key, Known("", {}))
        return judge(mutant, measured, {} if before.by else before.parts, before.by)

    def seconds(mutant: Mutant) -> int:
        return QUICK if mutant.in_function else SLOW

    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as kept:
        for number, (mutant, by) in enumerate(fork_each(todo, do, jobs, seconds), 1):
            found = known[mutant.key] = Known(by, asked(by, measured.parts))
            kept.write(json.dumps({"key": mutant.key, "by": by, "parts": found.parts}) + "\n")
            kept.flush()
            if not by:
                alive += 1
                say(f"alive: {row(mutant, '...')}")
            if time.monotonic() - told >= EVERY or number == len(todo):
                told = time.monotonic()
                left = (told - begun) / number * (len(todo) - number)
                say(f"{number} of {len(todo)} judged, {alive} alive, about {left / 60:.0f} min left")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Judge mutants, keep what is known, and say which are alive without a reason, and which reasons are out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--module", action="append", default=[], help="only this module; may be given several times")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found out")
    options = parser.parse_args()
    os.nice(15)
    begun = time.monotonic()
    # What is quick to judge comes first.
    wanted = [mutant for module in options.module or modules() for mutant in mutants(module, source_of(module))]
    if options.fresh:
        KEPT.unlink(missing_ok=True)
    known, now = read_known(), digests()
    todo = [mutant for mutant in wanted if mutant.key not in known or not known[mutant.key].holds(now)]
    say(f"{len(wanted)} mutants, {len(todo)} to be judged")
    if todo:
        judge_all(sorted(todo, key=lambda mutant: not mutant.in_function), known, options.jobs)
    found = {mutant.key: known[mutant.key].by for mutant in wanted}
    took = f"{len(wanted)} mutants, {len(todo)} of them judged by this run in {(time.monotonic() - begun) / 60:.0f} minutes."
    return verdict(wanted, found, took, whole=not options.module)


def verdict(wanted: Sequence[Mutant], found: Mapping[str, str], took: str, *, whole: bool) -> int:
    """Print the score, and what differs from the list; return 0 where nothing does."""
    page = PAGE.read_text(encoding="utf-8")
    reasons = listed(page)
    alive = {(mutant.where, mutant.what): mutant for mutant in wanted if not found[mutant.key]}
    unlisted = [mutant for name, mutant in alive.items() if name not in reasons]
    asked_about = {mutant.module for mutant in wanted}
    dead = [name for name in reasons if name not in alive and (whole or _module(name[0]) in asked_about)]
    say(f"{took} {dict(Counter(kind_of(found[mutant.key]) for mutant in wanted))}")
    for mutant in unlisted:
        say(f"alive and not listed: {row(mutant, '...')}")
    for where, what in dead:
        say(f"listed, but not alive: {where} {what}")
    if whole:
        PAGE.write_text(with_figures(page, wanted, found, took), encoding="utf-8")
    return 1 if unlisted or dead else 0


def _module(where: str) -> str:
    return max((module for module in modules() if f"{where}.".startswith(f"{module}.")), key=len, default="")


if __name__ == "__main__":
    sys.exit(main())
