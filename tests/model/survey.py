"""Explorations of all cases, and what they reached: counts, cells of phase and event, rules, and samples of decisions.

No promise and no case lives here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from forbear.core.rules import Rule
from forbear.testing.explore import Explored, explore
from tests.model.calls import Case
from tests.model.cases import CASES
from tests.model.plain import Texts
from tests.model.world import Desk, Seen

# States of each case that the gate visits, nearest first; a larger survey is made by hand.
GATE = 400

PHASES = (
    "Fresh",
    "Running",
    "Waiting",
    "Parked",
    "AwaitingApproval",
    "Approved",
    "Unknown",
    "NeedsRepair",
    "Completed",
    "Stopped",
)
EVENTS = (
    "Proposed",
    "Returned",
    "Interrupted",
    "Lost",
    "Cancelled",
    "Woke",
    "Granted",
    "Denied",
    "Revised",
    "Edited",
    "Inspected",
    "Reconnected",
)
TREE_EVENTS = ("TurnBegan", "RunRestarted", "Lifted")


@dataclass(slots=True)
class Survey:
    """What one run over all cases reached."""

    counts: dict[str, Explored] = field(default_factory=dict[str, Explored])
    cells: Counter[tuple[str, str, Rule]] = field(default_factory=Counter[tuple[str, str, Rule]])
    # First decision of each case, phase, event and rule.
    samples: dict[tuple[str, str, Rule], list[tuple[str, Seen]]] = field(
        default_factory=dict[tuple[str, str, Rule], list[tuple[str, Seen]]]
    )
    # Digest of every decision that was taken, in order, by the case's name.
    digests: dict[str, str] = field(default_factory=dict[str, str])


def survey(cases: Iterable[Case] = CASES, states: int = GATE) -> Survey:
    """Explore cases, each up to so many states.

    Raises:
        Broken: a promise does not hold.
    """
    made = Survey()
    for case in cases:
        total = blake2b(digest_size=16)
        desk = Desk(case, _sampler(made, case.name, total.update))
        made.counts[case.name] = explore(desk, max_states=states)
        made.cells.update(desk.cells)
        made.digests[case.name] = total.hexdigest()
    return made


def _sampler(made: Survey, name: str, record: Callable[[bytes], object]) -> Callable[[Seen], None]:
    texts = Texts()

    def listen(seen: Seen) -> None:
        record(f"{seen.phase} {type(seen.event).__name__} {texts.text(seen.decision)}\n".encode())
        cell = (seen.phase, type(seen.event).__name__, seen.decision.rule)
        found = made.samples.setdefault(cell, [])
        if len(found) < 3 and all(case != name for case, _ in found):
            found.append((name, seen))

    return listen


@lru_cache(maxsize=1)
def gate() -> Survey:
    """Return the survey that the tests share."""
    return survey()
