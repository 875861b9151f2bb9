"""The promises of design section 6 hold in every state that the explorations reach, and they reach all of the machine."""

from __future__ import annotations

from forbear.core.rules import Rule
from tests.model.cases import CASES
from tests.model.survey import EVENTS, PHASES, TREE_EVENTS, gate


def test_promises_hold_in_every_reached_state() -> None:
    """No history of any case breaks a promise or an obligation (a broken one raises with the shortest history)."""
    counts = gate().counts
    assert set(counts) == {case.name for case in CASES}
    assert sum(count.states for count in counts.values()) > 10_000


def test_every_phase_meets_every_event() -> None:
    """A phase that an event never met in the explorations is a phase whose answer nobody has seen."""
    met = {(phase, event) for phase, event, _ in gate().cells}
    wanted = {(phase, event) for phase in PHASES for event in EVENTS} | {("Tree", event) for event in TREE_EVENTS}
    assert wanted - met == set()


def test_every_rule_is_reached() -> None:
    """A rule that no exploration reaches is unproved or dead."""
    reached = {rule for _, _, rule in gate().cells}
    assert set(Rule) - reached == set()
