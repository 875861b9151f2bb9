"""One run as a person sees it: where it stands in its tree, its turn, its halt, its calls, and what waits. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Halt,
    Parked,
    Run,
    Unknown,
    Waiting,
)
from forbear.errors import UsageError
from forbear.runtime.effects import Program, load
from forbear.runtime.engine import Engine
from forbear.runtime.lookups import find_root
from forbear.runtime.notes import ANNOUNCED
from forbear.runtime.pending import Pending, is_listed, path_flow, pending_flow
from forbear.runtime.rows import phase_name, tree_scope
from forbear.runtime.steps import Flow, transact

# Phases that a ticket stands for, or that nothing is to be said about.
_ELSEWHERE = (Waiting, Parked, AwaitingApproval, Approved, Unknown, Completed, Fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A call that is running, stopped, or to be repaired."""

    tool: str
    run: str
    # Running, Stopped or NeedsRepair.
    phase: str
    code: str
    attempts: int
    # Explains it; "" where it is running.
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run, and what waits in it and in its children."""

    run: str
    # Runs from the root of the tree to this one.
    path: tuple[str, ...]
    children: tuple[str, ...]
    principal: str
    # Human messages so far, from 1.
    turn: int
    turn_at: datetime | None
    calls_in_turn: int
    calls_in_run: int
    blocked_in_turn: int
    # Why its tool use is over ("" = it is not), since when, and what it was told.
    halted: str
    halted_at: datetime | None
    message: str
    calls: tuple[CallView, ...]
    waiting: tuple[Pending, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    run: Run
    runs: tuple[Run, ...]
    principal: str
    # As the core counts: 1 is what came before the first announced message.
    turn: int
    # 1 where nothing came before it, else 0.
    announced: int
    turn_at: datetime | None
    actions: tuple[Action, ...]


def run_view_flow(engine: Engine, run: str) -> Flow[RunView]:
    """Return a run as it stands.

    Raises:
        UsageError: the store does not know the run.
    """
    place = yield from transact(find_root(run), None)
    if place.link is None and not place.is_root:
        raise UsageError(f"run {run!r}: is not known to the store")
    root = place.link or run
    read = yield from transact(_read(root, run), root)
    mine = {one.id for one in read.runs if _is_under(one.id, run, read.runs)} | {run}
    halt: Halt | None = read.run.halted
    waiting: list[Pending] = []
    for row in engine.store.tickets(scope=tree_scope(root)):
        if is_listed(row):
            one = yield from pending_flow(engine, row, None)
            if one.run in mine:
                waiting.append(one)
    return RunView(
        run=run,
        path=(yield from path_flow(root, run)),
        children=tuple(one.id for one in read.runs if one.parent == run),
        principal=read.principal,
        turn=read.turn - read.announced,
        turn_at=read.turn_at,
        calls_in_turn=read.run.calls_in_turn if read.run.turn == read.turn else 0,
        calls_in_run=read.run.calls_in_run,
        blocked_in_turn=read.run.blocked_in_turn if read.run.turn == read.turn else 0,
        halted="" if halt is None else halt.reason,
        halted_at=None if halt is None else halt.at,
        message="" if halt is None else engine.envelope(halt.told, "").safe_message or "",
        calls=tuple(_call(action) for action in read.actions if action.call.run in mine),
        waiting=tuple(waiting),
    )


def _read(root: str, run: str) -> Program[_Read]:
    live = yield from load(root)
    return _Read(
        run=live.runs.get(run) or Run(id=run),
        runs=tuple(live.runs.values()),
        principal=live.tree.principal,
        turn=live.tree.turn,
        announced=int(ANNOUNCED in live.turns),
        turn_at=live.tree.turn_at,
        actions=tuple(action for action in live.actions.values() if not isinstance(action.phase, _ELSEWHERE)),
    )


def _is_under(run: str, above: str, runs: tuple[Run, ...]) -> bool:
    parents = {one.id: one.parent for one in runs}
    seen: set[str] = set()
    at: str | None = run
    while at is not None and at not in seen:
        if at == above:
            return True
        seen.add(at)
        at = parents.get(at)
    return False


def _call(action: Action) -> CallView:
    told = getattr(action.phase, "told", None)
    return CallView(
        tool=action.call.tool,
        run=action.call.run,
        phase=phase_name(action.phase),
        code="" if told is None else told.code,
        attempts=action.attempts,
        request_id="" if told is None else told.request_id,
    )
