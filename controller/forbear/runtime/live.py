"""The decoded state of one run tree and of one principal in this process. Nothing is loaded, stored or decided here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forbear.core.decision import Decision, DropHold, Execute, PutKnown, Snapshot
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Hold,
    Known,
    Parked,
    Run,
    Running,
    Tree,
    Unknown,
    Waiting,
)
from forbear.runtime.lane import Lane
from forbear.runtime.notes import Ready
from forbear.runtime.rows import SHARED

if TYPE_CHECKING:
    from forbear.runtime.reply import Reply

# Beyond this many, completed actions and known calls of one tree are dropped from memory, oldest first.
MAX_REMEMBERED: Final = 4096


class Flight:
    """An attempt that is open in this process: whoever joins it gets its reply."""

    __slots__ = ("_gate", "_reply", "_waiting")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._reply: Reply | None = None
        self._waiting: list[Future[Reply]] = []

    def join(self) -> Future[Reply]:
        """Return the reply that is to come, a future of the caller's own."""
        future: Future[Reply] = Future()
        with self._gate:
            if self._reply is None:
                self._waiting.append(future)
                return future
        future.set_result(self._reply)
        return future

    def land(self, reply: Reply) -> None:
        """Answer everybody who joined."""
        with self._gate:
            self._reply = reply
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_result(reply)


@dataclass(slots=True, eq=False)
class Shared:
    """Holds that all runs of a principal share. The mapping is replaced, never changed: trees read it without a lock."""

    principal: str
    version: int = 0
    holds: Mapping[str, Hold] = field(default_factory=dict[str, Hold])
    # Epoch of the working set in which it was last read; -1 = must be read again.
    epoch: int = -1


@dataclass(slots=True, eq=False)
class LiveTree:
    """One run tree in memory. Everything but `lock` and `evicted` is read and written under `lock`."""

    root: str
    tree: Tree
    shared: Shared
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: int = 0
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    actions: dict[str, Action] = field(default_factory=dict[str, Action])
    holds: dict[str, Hold] = field(default_factory=dict[str, Hold])
    known: dict[str, Known] = field(default_factory=dict[str, Known])
    # Digests of the turn ids of the root run, oldest first.
    turns: tuple[str, ...] = ()
    ready: dict[str, Ready] = field(default_factory=dict[str, Ready])
    # How many prompts a person was shown for this tree.
    prompts: int = 0
    # What the store holds of `tree` and `runs`, where memory is ahead of it.
    stored_tree: Tree | None = None
    stored_runs: dict[str, Run] = field(default_factory=dict[str, Run])
    # Keys of actions and known calls that only memory has (declared reads).
    volatile: set[str] = field(default_factory=set[str])
    volatile_known: set[str] = field(default_factory=set[str])
    # Memory has every row of this tree; otherwise rows that are not live are fetched by key.
    complete: bool = False
    absent: set[str] = field(default_factory=set[str])
    # Attempts that are open in this process, by action and number.
    flights: dict[tuple[str, int], Flight] = field(default_factory=dict[tuple[str, int], Flight])
    # By run: the step that it is in, and the values of its calls by result key: a second answer in one step is the same
    # object.
    values: dict[str, tuple[str, dict[str, object]]] = field(default_factory=dict[str, tuple[str, dict[str, object]]])
    # Epoch of the working set in which it was last read; -1 = must be read again.
    epoch: int = -1
    loaded: bool = False
    evicted: bool = False
    # Grows with every use, for dropping the longest unused.
    used: int = 0
    lane: Lane = field(default_factory=Lane)
    _merged: Mapping[str, Hold] | None = None
    _merged_from: Mapping[str, Hold] | None = None

    @property
    def is_empty(self) -> bool:
        """Say whether nothing has happened in this tree: no call, no turn."""
        return not self.runs and not self.actions and self.tree.turn_at is None

    def all_holds(self) -> Mapping[str, Hold]:
        """Return the holds of the tree and of its principal, by key."""
        shared = self.shared.holds
        if not shared:
            return self.holds
        if self._merged is None or self._merged_from is not shared:
            self._merged = {**shared, **self.holds}
            self._merged_from = shared
        return self._merged

    def snapshot(self, policy: ToolPolicy, limits: Limits, owner: str, *, has_approver: bool) -> Snapshot:
        """Return what one decision may look at; it must not outlive the lock."""
        return Snapshot(
            tree=self.tree,
            runs=self.runs,
            actions=self.actions,
            holds=self.all_holds(),
            known=self.known,
            policy=policy,
            limits=limits,
            owner=owner,
            has_approver=has_approver,
        )

    def apply(self, decision: Decision) -> dict[str, Hold] | None:
        """Apply the changes of a committed decision; return the principal's new holds where they changed."""
        shared: dict[str, Hold] | None = None
        for change in decision.changes:
            match change:
                case Tree():
                    self.tree = change
                case Run():
                    self._enter(change)
                case Action():
                    self.actions[change.key] = change
                    self.lane.note(change.call)
                case PutKnown():
                    self.known[change.key] = change.known
                case Hold() | DropHold():
                    if change.scope in SHARED:
                        shared = dict(self.shared.holds) if shared is None else shared
                        _put(shared, change)
                    else:
                        _put(self.holds, change)
                        self._merged = None
        for command in decision.commands:
            if isinstance(command, Execute):
                self.open_flight(command.action, command.attempt)
        self._forget()
        self.lane.is_clear = None
        return shared

    def _enter(self, run: Run) -> None:
        kept = self.values.get(run.id)
        if kept is not None and kept[0] != run.step:
            del self.values[run.id]
        self.runs[run.id] = run

    def _forget(self) -> None:
        """Keep memory bounded: what is complete can be fetched again, or was a read that succeeded."""
        if len(self.actions) > MAX_REMEMBERED:
            over = len(self.actions) - MAX_REMEMBERED // 2
            for key in [key for key, action in self.actions.items() if isinstance(action.phase, (Completed, Fresh))][
                :over
            ]:
                del self.actions[key]
                self.complete = self.complete and key in self.volatile
                self.volatile.discard(key)
        if len(self.known) > MAX_REMEMBERED:
            for key in list(self.known)[: MAX_REMEMBERED // 2]:
                del self.known[key]
                self.complete = self.complete and key in self.volatile_known
                self.volatile_known.discard(key)
        if len(self.absent) > MAX_REMEMBERED:
            self.absent.clear()

    def forget_merged(self) -> None:
        """Build the common view of all holds again when it is next asked for."""
        self._merged = None

    def open_flight(self, action: str, attempt: int) -> None:
        """An attempt is open in this process: equal calls can join it."""
        self.flights[action, attempt] = Flight()

    def land(self, action: str, attempt: int, reply: Reply) -> None:
        """Answer everybody who joined an attempt of this process."""
        flight = self.flights.pop((action, attempt), None)
        if flight is not None:
            flight.land(reply)

    def summary(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tools that were completed in this turn, and those that wait for the clock or a person."""
        completed = self.lane.completed_in(self.tree.turn)
        pending: set[str] = set()
        for action in self.actions.values():
            phase = action.phase
            if isinstance(phase, Completed):
                if phase.turn == self.tree.turn:
                    completed.add(action.call.tool)
            elif isinstance(phase, (Waiting, Parked, AwaitingApproval, Approved, Unknown, Running)):
                pending.add(action.call.tool)
        return tuple(sorted(completed)), tuple(sorted(pending))

    def remember_value(self, run: str, step: str, key: str, value: object) -> None:
        """Keep a result for the other equal calls of the step that it belongs to, while the run is in it."""
        current = self.runs.get(run)
        if current is not None and current.step == step:
            self.values.setdefault(run, (step, {}))[1][key] = value

    def value(self, key: str) -> tuple[object] | None:
        """Return a result of a step that is not over, in a tuple, or None."""
        for _, kept in self.values.values():
            if key in kept:
                return (kept[key],)
        return None


def _put(holds: dict[str, Hold], change: Hold | DropHold) -> None:
    if isinstance(change, Hold):
        holds[change.key] = change
    else:
        holds.pop(change.key, None)
