"""Counting of steps: when a run's tool use is over because nothing moves any more. Holds are not looked at here.

A step counts once, when all of its calls were seen or the next step begins (design section 4, "Stopping").
"""

from __future__ import annotations

from dataclasses import replace

from forbear.core.decision import Snapshot
from forbear.core.policy import Limits
from forbear.core.states import Hold, Run
from forbear.core.values import Call
from forbear.core.vocabulary import End, Scope


def current(run: Run, turn: int) -> Run:
    """Return the run with the counters of an older turn set back."""
    if run.turn == turn:
        return run
    return replace(
        run,
        turn=turn,
        blocked_steps=0,
        idle_steps=0,
        blocked_in_turn=0,
        calls_in_turn=0,
        operations=tuple((name, 0, total) for name, _, total in run.operations),
    )


def enter(run: Run, call: Call, turn: int) -> Run:
    """Open the step of a proposed call, after closing the step before it."""
    run = current(run, turn)
    if run.step == call.step:
        return run
    if not run.closed:
        run = _close(run)
    return replace(run, step=call.step, seen=0, all_blocked=True, all_idle=True, closed=False)


def leave(run: Run, call: Call, *, blocked: bool, idle: bool) -> Run:
    """Count one decided call of the open step, and close the step when it was the last one."""
    if run.closed:
        # More calls than the step was said to hold: they can only show that something moved.
        return replace(
            run,
            blocked_steps=run.blocked_steps if blocked else 0,
            idle_steps=run.idle_steps if idle else 0,
        )
    run = replace(
        run,
        seen=run.seen + 1,
        all_blocked=run.all_blocked and blocked,
        all_idle=run.all_idle and idle,
    )
    return _close(run) if run.seen >= call.siblings else run


def _close(run: Run) -> Run:
    if run.seen == 0:
        return run
    return replace(
        run,
        closed=True,
        blocked_steps=run.blocked_steps + 1 if run.all_blocked else 0,
        blocked_in_turn=run.blocked_in_turn + (1 if run.all_blocked else 0),
        idle_steps=run.idle_steps + 1 if run.all_idle else 0,
    )


def resumed(s: Snapshot) -> list[Run]:
    """Return the runs that were halted because nothing was ready, as they go on now that something is."""
    waiting = [run for run in s.runs.values() if run.halted is not None and run.halted.reason == "WAITING"]
    return [replace(run, halted=None, idle_steps=0) for run in waiting]


def why_over(run: Run, limits: Limits) -> str:
    """Return the reason why the run's tool use is over, or "" where it is not."""
    if run.blocked_steps >= limits.max_blocked_steps or run.blocked_in_turn >= limits.max_blocked_per_turn:
        return "BLOCKED"
    if run.idle_steps >= limits.max_idle_steps:
        return "WAITING"
    return ""


def renewed(run: Run, hold: Hold) -> Run:
    """Return a run whose spent budget a person lifted: what it counts begins anew, and the halt that it caused ends."""
    if run.halted is not None and run.halted.reason == "BUDGET":
        run = replace(run, halted=None, blocked_steps=0, idle_steps=0)
    match hold.scope:
        case Scope.RUN:
            return replace(run, calls_in_run=0)
        case Scope.TURN:
            return replace(run, calls_in_turn=0)
        case _:
            ends_with_turn = hold.end is End.TURN
            kept = tuple(
                (name, 0, in_run if ends_with_turn else 0) if name == hold.value else (name, in_turn, in_run)
                for name, in_turn, in_run in run.operations
            )
            return replace(run, operations=kept)


def count_start(run: Run, operation: str) -> Run:
    """Count one execution of an operation in a run."""
    counted = tuple((n, a + 1, b + 1) if n == operation else (n, a, b) for n, a, b in run.operations)
    if all(name != operation for name, _, _ in run.operations):
        counted = (*run.operations, (operation, 1, 1))
    return replace(run, calls_in_turn=run.calls_in_turn + 1, calls_in_run=run.calls_in_run + 1, operations=counted)


def starts_of(run: Run, operation: str) -> tuple[int, int]:
    """Return the executions of an operation in this turn and in this run."""
    for name, in_turn, in_run in run.operations:
        if name == operation:
            return in_turn, in_run
    return 0, 0
