"""`python -m tests.model`: explore the core, print what was reached, and write what is generated from it."""

from __future__ import annotations

import argparse
import sys

from forbear.testing.explore import Broken
from tests.model import golden, planted, transitions
from tests.model.cases import CASES
from tests.model.survey import GATE, survey


def main() -> int:
    """Explore all cases, or do one of the other things."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument(
        "--states", type=int, help=f"states of each case (default: {GATE}; {planted.STATES} with a planted bug)"
    )
    parser.add_argument("--case", action="append", default=[], help="only this case; may be given several times")
    parser.add_argument("--planted", action="store_true", help="plant one bug at a time and look for it")
    parser.add_argument("--write-docs", action="store_true", help="write docs/transitions.md")
    parser.add_argument("--write-golden", action="store_true", help="write tests/golden/decisions.jsonl")
    options = parser.parse_args()
    if options.planted:
        return planted.main(options.states or planted.STATES)
    cases = [case for case in CASES if not options.case or case.name in options.case]
    try:
        made = survey(cases, options.states or GATE)
    except Broken as broken:
        sys.stdout.write(f"{broken}\n")
        return 1
    rows = [
        f"{name:20} {c.states:8} {c.edges:9} {c.depth:6}  {'all' if c.complete else 'nearest'}"
        for name, c in made.counts.items()
    ]
    states = sum(c.states for c in made.counts.values())
    edges = sum(c.edges for c in made.counts.values())
    head = f"{'case':20} {'states':>8} {'edges':>9} {'depth':>6}"
    sys.stdout.write("\n".join([head, *rows, f"{'total':20} {states:8} {edges:9}"]) + "\n")
    if options.write_docs:
        transitions.write(made)
    if options.write_golden:
        sys.stdout.write(f"{golden.write(made)} vectors\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
