"""Histories that once broke a promise: the shortest ones that the explorer found, each kept as a test of its own."""

from __future__ import annotations

import inspect

import pytest

from forbear.core import decide
from forbear.errors import UsageError
from forbear.testing.explore import Broken, replay
from tests.model.cases import CASES
from tests.model.planted import BUGS, compiled_in
from tests.model.world import Desk

HISTORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a call refused before the probe, answered after it, leaves the probe in charge": (
        "refusal",
        ("propose A", "propose B", "result of A #1: refused", "new turn", "propose A", "result of B #1: refused"),
    ),
    "a hold placed anew is not ended by the probe of the old one": (
        "refusal",
        (
            "propose A",
            "propose B",
            "result of A #1: refused",
            "new turn",
            "propose A",
            "lift refusal on target {T}",
            "result of B #1: refused",
            "result of A #2: ok",
            "propose B",
        ),
    ),
    "a new turn does not start an undeclared call before its reset": (
        "undeclared",
        (
            "propose A",
            "result of A #1: wait",
            "time passes",
            "propose A",
            "result of A #2: wait",
            "new turn",
            "propose A",
        ),
    ),
    "a cancelled probe answers for nothing any more": (
        "probe",
        ("propose A", "result of A #1: refused", "new turn", "propose A", "cancel A, acknowledged"),
    ),
    "an interrupted probe is made again": (
        "probe",
        ("propose A", "result of A #1: refused", "new turn", "propose A", "interrupted A #2", "propose A"),
    ),
    "a cancelled attempt that was no retry leaves the retry to the next": (
        "probe",
        (
            "propose A",
            "propose A",
            "result of A #1: wait-no-reset",
            "cancel A, acknowledged",
            "time passes",
            "propose A",
            "result of A #3: wait-no-reset",
            "propose A",
        ),
    ),
    "a call of a new turn is no retry of what was refused in the last": (
        "probe",
        (
            "propose A",
            "propose A",
            "result of A #1: wait-no-reset",
            "new turn",
            "time passes",
            "propose A",
            "result of A #2: wait-no-reset",
            "propose A",
        ),
    ),
    "a retry is one again when the framework's question expired": (
        "probe",
        (
            "propose A",
            "propose A",
            "result of A #1: wait-no-reset",
            "interrupted A #2",
            "time passes",
            "time passes",
            "propose A",
            "result of A #3: wait-no-reset",
            "propose A",
        ),
    ),
    "what starts after a verdict is no retry": (
        "parallel-write",
        (
            "propose A",
            "propose A",
            "result of A #1: wait-unsure",
            "time passes",
            "propose A",
            "result of A #2: unknown",
            "person says A is not_applied",
            "propose A",
        ),
    ),
    "an open attempt is not forgotten when its action would have to wait": (
        "retry-quota",
        ("propose R", "propose R", "result of R #1: wait", "propose R"),
    ),
    "an open attempt is not forgotten when a rule asks about the next": (
        "parallel-write",
        ("propose A", "propose A (rule says ask)"),
    ),
    "two waits of one read under way are not an exhausted retry": (
        "retry-quota",
        ("propose R", "propose R", "result of R #1: wait", "result of R #2: wait", "propose R"),
    ),
    "a constraint of a remote tool closes nothing shared that its policy does not list": (
        "refusal-shared",
        ("propose R", "result of R #1: refused-desk", "propose A"),
    ),
    "a hold that ends keeps nobody in its queue": (
        "retry",
        (
            "propose A",
            "result of A #1: wait",
            "time passes",
            "propose A",
            "result of A #2: wait",
            "time passes",
            "propose B",
        ),
    ),
    "the same key's success ends the doubt": (
        "unknown-key",
        ("propose A", "result of A #1: unknown", "time passes", "woke A", "result of A #2: ok", "propose B"),
    ),
    "a refusal of the same key's repetition is no verdict": (
        "unknown-key",
        ("propose A", "result of A #1: unknown", "time passes", "woke A", "result of A #2: refused", "propose B"),
    ),
    "a verdict that says applied answers a resumed call": (
        "unknown-key-only",
        ("propose A", "result of cA #1: unknown", "check says cA is applied", "new turn", "propose cA", "resume A"),
    ),
    "another refused field does not free the first": (
        "repair",
        ("propose A", "result of A #1: repair-size", "propose C", "result of C #1: repair-size", "propose B"),
    ),
    "a question that expired under a hold is over": (
        "unknown-key",
        (
            "propose A (rule says ask)",
            "propose B",
            "time passes",
            "result of B #1: unknown",
            "propose A",
        ),
    ),
    "a yes of one run is not spent by another": (
        "approval",
        ("propose A (rule says ask)", "approve cA", "propose cA (rule says ask)"),
    ),
    "a kept yes of one run is not spent by another": (
        "approval",
        (
            "propose A (rule says ask)",
            "approve cA",
            "propose A (rule says ask)",
            "result of cA #1: wait",
            "time passes",
            "propose cA (rule says ask)",
        ),
    ),
    "a call whose tool asked is not kept and run without its yes": (
        "approval-tool",
        (
            "propose A",
            "propose B",
            "result of A #1: asks",
            "result of B #1: asks",
            "propose B",
            "new turn",
            "propose B",
        ),
    ),
    "an edit answers what was asked about the call that it was edited into": (
        "approval-edit",
        ("propose A (rule says ask)", "propose B (rule says ask)", "edit M into B"),
    ),
    "an edit into a call that is done runs it no second time": (
        "approval-edit-wait",
        ("propose A (rule says ask)", "propose B", "result of B #1: ok", "edit A into B", "propose B"),
    ),
    "after a restart and a new turn a wanted repeat runs": (
        "once",
        ("propose A", "result of cA #1: ok", "run restarted", "new turn", "propose A"),
    ),
    "a restarted run gets one answer, by its old ids or by new ones": (
        "resume",
        ("propose A", "result of A #1: ok", "run restarted", "resume A", "propose A"),
    ),
    "replays are counted from the last execution": (
        "replay",
        (
            "propose R",
            "propose A",
            "result of R #1: ok",
            "propose R",
            "propose R",
            "result of A #1: ok",
            "propose R",
            "result of R #2: ok",
            "propose R",
        ),
    ),
    "a timer's start belongs to the turn in which it starts": (
        "budget",
        ("propose R", "result of R #1: wait", "new turn", "time passes", "woke R"),
    ),
    "an observed call runs whatever is known about it": ("observe", ("propose A", "resume A")),
    "a run that waits for a person goes on when the person says no": (
        "waiting-halt",
        (
            "propose A (rule says ask)",
            "propose A (rule says ask)",
            "propose A (rule says ask)",
            "deny cA",
            "propose A (rule says ask)",
        ),
    ),
    "a person's no stands beside what the policy denied": (
        "approval-rule",
        (
            "propose A (rule says deny)",
            "propose A (rule says ask)",
            "propose B (rule says ask)",
            "deny A",
            "approve B",
            "propose B (rule says unavailable)",
        ),
    ),
    "an expired question that is asked again is not asked about on its own as well": (
        "approval",
        (
            "propose A (rule says ask)",
            "propose cA (rule says ask)",
            "time passes",
            "propose cA (rule says ask)",
            "approve cA",
        ),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_that_broke_a_promise_keeps_it(name: str) -> None:
    """The history can happen, and no promise breaks on its way."""
    case, history = HISTORIES[name]
    desk = Desk(next(found for found in CASES if found.name == case))
    target = next(iter(desk.case.calls.values())).target or ""
    state = replay(desk, [label.replace("{T}", target[:6]) for label in history])
    assert state.s.tree.root == "root"


def test_a_history_that_cannot_happen_is_an_error() -> None:
    """A recorded history does not pass by being skipped."""
    with pytest.raises(UsageError, match="move 2 'woke Z' cannot happen"):
        replay(Desk(CASES[0]), ["propose A", "woke Z"])


def test_a_broken_history_is_shown_move_by_move() -> None:
    """Whoever reads the failure sees the shortest history, numbered, and which promise it breaks."""
    bug = next(bug for bug in BUGS if bug.name == "a turn ends a doubt")
    source = inspect.getsource(decide).replace(bug.right, bug.wrong)
    with compiled_in("decide", source), pytest.raises(Broken) as broken:
        replay(
            Desk(next(case for case in CASES if case.name == "unknown")),
            ["propose A", "result of A #1: unknown", "new turn"],
        )
    assert broken.value.history == ("propose A", "result of A #1: unknown", "new turn")
    assert "  3. new turn" in str(broken.value)
