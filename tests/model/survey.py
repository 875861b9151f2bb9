"""Explorations of all cases, and what they reached: counts, cells of phase and event, rules, and samples of decisions.

No promise and no case lives here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from forbear.core.decision import Announce, Command, Join, WakeAt
from forbear.core.rules import Rule
from forbear.core.values import Envelope
from forbear.testing.explore import Explored, explore
from tests.model.calls import Case
from tests.model.cases import CASES
from tests.model.plain import to_plain
from tests.model.world import Desk, Seen

# States of each case that the gate visits, nearest first; a larger survey is made by hand.
GATE = 400
# Decisions of each case, phase, event and rule that are recorded whole; of the others, what is answered and commanded.
WHOLE = 2

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


class Record:
    """Writes down the decisions of one exploration, in order, in a form that is the same wherever it is made."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.shown: Counter[tuple[str, str, Rule]] = Counter()

    def __call__(self, seen: Seen) -> None:
        """Write down one decision."""
        made = seen.decision
        event = type(seen.event).__name__
        self.shown[seen.phase, event, made.rule] += 1
        at = None if made.retry_at is None else made.retry_at - seen.now
        answer = (made.answer, at, made.suppressed, made.clear_forced, made.would, made.would_rule)
        counts = (made.blocked_step, made.idle_step, made.ticket)
        commands = [_command(command) for command in made.commands]
        self.note(f"{seen.phase} {event} {made.rule} {answer} {counts} {_told(made.told)} {commands}")
        if self.shown[seen.phase, event, made.rule] <= WHOLE:
            self.note(str(to_plain(made)))


def _told(told: Envelope | None) -> object:
    return None if told is None else (told.code, told.outcome, told.executed, told.recovery, told.request_id)


def _command(command: Command) -> object:
    name = type(command).__name__
    match command:
        case WakeAt():
            return name, command.action, command.at
        case Announce():
            return name, command.action, _told(command.told), None if command.call is None else command.call.run
        case Join():
            return name, command.action, command.attempt
        case _:
            return name, command.action


def survey(cases: Iterable[Case] = CASES, states: int = GATE) -> Survey:
    """Explore cases, each up to so many states.

    Raises:
        Broken: a promise does not hold.
    """
    made = Survey()
    for case in cases:
        lines: list[str] = []
        desk = Desk(case, _sampler(made, case.name, Record(lines.append)))
        made.counts[case.name] = explore(desk, max_states=states)
        made.cells.update(desk.cells)
        made.digests[case.name] = blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
    return made


def _sampler(made: Survey, name: str, record: Record) -> Callable[[Seen], None]:
    def listen(seen: Seen) -> None:
        record(seen)
        cell = (seen.phase, type(seen.event).__name__, seen.decision.rule)
        found = made.samples.setdefault(cell, [])
        if len(found) < 3 and all(case != name for case, _ in found):
            found.append((name, seen))

    return listen


@lru_cache(maxsize=1)
def gate() -> Survey:
    """Return the survey that the tests share."""
    return survey()
