"""Steps of a run: each counts once, whatever it holds, and only in its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forbear.core.decision import Snapshot
from forbear.core.holds import place, tell
from forbear.core.policy import Limits
from forbear.core.states import Halt, Hold, Run, Tree
from forbear.core.steps import count_start, current, enter, leave, renewed, starts_of, why_over
from forbear.core.vocabulary import Cause, End, Scope
from tests.model.calls import T0, call
from tests.model.cases import PLAIN, WRITE

CALL = call(PLAIN, {"size": 1})
LIMITS = Limits(max_blocked_steps=2, max_idle_steps=3, max_blocked_per_turn=4)


def step(run: Run, name: str, *blocked: bool, idle: bool = True, siblings: int | None = None, turn: int = 1) -> Run:
    """Return a run after one step of calls that were blocked or not."""
    made = replace(CALL, step=name, siblings=len(blocked) if siblings is None else siblings)
    for one in blocked:
        run = leave(enter(run, made, turn), made, blocked=one, idle=idle)
    return run


def test_a_step_of_blocked_calls_counts_once() -> None:
    """A message with five blocked calls is one blocked step."""
    run = step(Run(id="root"), "s1", True, True, True)
    assert (run.blocked_steps, run.idle_steps, run.blocked_in_turn) == (1, 1, 1)


def test_one_call_that_moved_makes_a_step_that_moved() -> None:
    """Where one call of a message ran, the run is not stuck."""
    run = step(
        Run(id="root", turn=1, blocked_steps=1, idle_steps=1, blocked_in_turn=1), "s1", True, False, True, idle=False
    )
    assert (run.blocked_steps, run.idle_steps, run.blocked_in_turn) == (0, 0, 1)


def test_a_step_is_closed_by_the_next_one() -> None:
    """An adapter that does not see all calls of a message still ends its step."""
    run = step(Run(id="root"), "s1", True, siblings=3)
    assert run.blocked_steps == 0
    run = step(run, "s2", True)
    assert run.blocked_steps == 2


def test_a_step_without_a_decided_call_does_not_count() -> None:
    """A halted call opens a step and is not counted."""
    made = replace(CALL, step="s1")
    run = enter(Run(id="root", turn=1, blocked_steps=1), made, 1)
    run = enter(run, replace(CALL, step="s2"), 1)
    assert run.blocked_steps == 1


def test_more_calls_than_were_announced_only_show_that_something_moved() -> None:
    """A late call of a closed step never adds to the count."""
    run = step(Run(id="root"), "s1", True)
    late = replace(CALL, step="s1")
    assert leave(run, late, blocked=True, idle=True) == run
    assert leave(run, late, blocked=False, idle=True).blocked_steps == 0
    assert leave(run, late, blocked=False, idle=True).idle_steps == 1
    assert leave(run, late, blocked=True, idle=False).idle_steps == 0
    assert leave(run, late, blocked=True, idle=False).blocked_steps == 1


def test_a_new_turn_counts_from_the_beginning() -> None:
    """What a run was counted in an older turn does not count against it; totals of the run stay."""
    run = count_start(step(Run(id="root"), "s1", True), "trade")
    fresh = current(run, 2)
    assert (fresh.turn, fresh.blocked_steps, fresh.idle_steps, fresh.blocked_in_turn, fresh.calls_in_turn) == (
        2,
        0,
        0,
        0,
        0,
    )
    assert (fresh.calls_in_run, starts_of(fresh, "trade")) == (1, (0, 1))
    assert current(fresh, 2) is fresh
    assert enter(run, replace(CALL, step="s1"), 2).turn == 2


@pytest.mark.parametrize(
    ("blocked", "idle", "in_turn", "reason"),
    [
        (0, 0, 0, ""),
        (1, 2, 3, ""),
        (2, 0, 0, "BLOCKED"),
        (0, 0, 4, "BLOCKED"),
        (0, 3, 0, "WAITING"),
        (2, 3, 4, "BLOCKED"),
    ],
)
def test_a_run_is_over_at_its_bounds(blocked: int, idle: int, in_turn: int, reason: str) -> None:
    """At the bound, not after it; a run that was blocked is not called waiting."""
    run = Run(id="root", blocked_steps=blocked, idle_steps=idle, blocked_in_turn=in_turn)
    assert why_over(run, LIMITS) == reason


def test_starts_are_counted_by_operation() -> None:
    """One operation's calls do not spend another's budget."""
    run = count_start(count_start(count_start(Run(id="root"), "trade"), "look"), "trade")
    assert starts_of(run, "trade") == (2, 2)
    assert starts_of(run, "look") == (1, 1)
    assert starts_of(run, "other") == (0, 0)
    assert (run.calls_in_turn, run.calls_in_run) == (3, 3)


def budget(scope: Scope, value: str, end: End) -> Hold:
    """Return the hold of a spent budget."""
    made = call(WRITE, {"desk": "a"})
    snapshot = Snapshot(tree=Tree(root="root", principal="p"), runs={}, actions={}, holds={}, known={}, policy=WRITE)
    return place(
        made,
        scope=scope,
        value=value,
        cause=Cause.BUDGET,
        end=end,
        told=tell("X"),
        ticket="t",
        snapshot=snapshot,
        now=T0,
    )


SPENT = Run(id="root", calls_in_turn=3, calls_in_run=9, operations=(("mail", 1, 4), ("trade", 2, 5)))


@pytest.mark.parametrize(
    ("hold", "after"),
    [
        (budget(Scope.RUN, "root", End.RUN), replace(SPENT, calls_in_run=0)),
        (budget(Scope.TURN, "root", End.TURN), replace(SPENT, calls_in_turn=0)),
        (
            budget(Scope.OPERATION, "trade", End.TURN),
            replace(SPENT, operations=(("mail", 1, 4), ("trade", 0, 5))),
        ),
        (
            budget(Scope.OPERATION, "trade", End.RUN),
            replace(SPENT, operations=(("mail", 1, 4), ("trade", 0, 0))),
        ),
    ],
)
def test_a_lifted_budget_begins_anew_and_no_other(hold: Hold, after: Run) -> None:
    """What a person lifted is what is counted from nothing."""
    assert renewed(SPENT, hold) == after


@pytest.mark.parametrize(("reason", "goes_on"), [("BUDGET", True), ("BLOCKED", False)])
def test_a_lifted_budget_ends_the_halt_that_it_caused(reason: str, goes_on: bool) -> None:
    """A run that was over for another reason stays over."""
    halted = replace(SPENT, halted=Halt(reason=reason, told=tell("RUN_HALTED"), at=T0), blocked_steps=2, idle_steps=2)
    after = renewed(halted, budget(Scope.RUN, "root", End.RUN))
    assert ((after.halted is None), after.blocked_steps, after.idle_steps) == (
        (True, 0, 0) if goes_on else (False, 2, 2)
    )
