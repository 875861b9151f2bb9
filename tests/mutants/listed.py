"""docs/mutants.md: the list of mutants that may live, read from it, and the figures of a whole run, written into it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.mutator import Mutant

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"
BEGIN, END = "<!-- measured: written by make mutants -->", "<!-- end of what was measured -->"
_ROW = re.compile(r"^\| `(?P<where>[\w.]+)` \| (?P<what>`.*`(?: \(\d+\))?) \| (?P<why>[^|]+) \|$", re.MULTILINE)


def listed(text: str) -> dict[tuple[str, str], str]:
    """Return the mutants that may live, by where and what they are, with the reason."""
    rows = (row.groupdict() for row in _ROW.finditer(text))
    return {(row["where"], row["what"].replace("\\|", "|")): row["why"].strip() for row in rows}


def row(mutant: Mutant, why: str) -> str:
    """Return the line of the list that a mutant has."""
    what = mutant.what.replace("|", "\\|")
    return f"| `{mutant.where}` | {what} | {why} |"


def with_figures(text: str, wanted: Sequence[Mutant], found: Mapping[str, str], took: str) -> str:
    """Return the page with the figures of a whole run.

    Args:
        text: The page as it is.
        wanted: All mutants.
        found: What noticed each, by its key; "" = nothing.
        took: How the run went, in a sentence.
    """
    kinds = ("recorded decisions", "unit tests", "import", "time", "alive")
    rows: dict[str, Counter[str]] = {}
    for mutant in wanted:
        rows.setdefault(mutant.module, Counter())[kind_of(found[mutant.key])] += 1
    lines = [
        "| module | mutants | recorded decisions | unit tests | import | time | alive |",
        "|---|---|---|---|---|---|---|",
    ]
    whole: Counter[str] = Counter()
    for module, counts in rows.items():
        whole.update(counts)
        lines.append(f"| {module} | {counts.total()} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    lines.append(f"| **all** | {whole.total()} | {' | '.join(str(whole[kind]) for kind in kinds)} |")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + "\n".join([BEGIN, "", took, "", *lines, "", END]) + after


def kind_of(by: str) -> str:
    """Return which kind of test noticed a mutant."""
    if not by:
        return "alive"
    if by == "time":
        return "time"
    if by.startswith("import"):
        return "import"
    return "recorded decisions" if by.startswith("explorations") else "unit tests"
