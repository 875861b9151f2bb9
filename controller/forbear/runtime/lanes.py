"""The way of a call on the lane (see `lane.py`): begin, end, reply, record. No rule may ever be added here either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Final

from forbear.contract import Raw, Value, classify
from forbear.contract.findings import SUCCESS
from forbear.core.policy import MAX_SAME_RESULTS, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Run
from forbear.core.steps import current
from forbear.core.vocabulary import Answer
from forbear.runtime.engine import Engine
from forbear.runtime.giveback import give_up, may_end, nothing_stands
from forbear.runtime.lane import (
    ANY_TIME,
    MAX_KEPT,
    SAME_RESULT_GAP_US,
    STALENESS_US,
    Entry,
    Flight,
    LaneRun,
    is_eligible,
    plain_key,
    plain_success,
)
from forbear.runtime.live import LiveTree
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import digest_of, payload
from forbear.runtime.where import Where
from forbear.store.codec import to_us


class LaneReply(Reply):
    """The reply of a flight: what the lane does not set is made when it is asked for."""

    __slots__ = ("_flight",)
    _flight: Flight

    def __getattr__(self, name: str) -> object:
        """Return a field that was not set: called for such fields only."""
        if name == "envelope":
            return plain_success(self._flight)
        if name in _OF_FLIGHT:
            return getattr(self._flight, name)
        if name == "tool":
            return self._flight.entry.policy.name
        if name == "action":
            return self._flight.entry.identity()[0]
        try:
            return _UNSET[name]
        except KeyError:
            raise AttributeError(name) from None


_OF_FLIGHT: Final = frozenset({"run", "step", "call_id"})
# What every reply of the lane says, and the defaults of what it does not set: a new field of Reply is here by itself.
_UNSET: Final[Mapping[str, object]] = {
    **{one.name: one.default for one in fields(Reply) if one.default is not MISSING},
    "answer": Answer.EXECUTED,
    "rule": Rule.RETURNED_COMPLETED,
}
# Set a field of a frozen object, as its own `__init__` does.
_set = object.__setattr__


def reply_of(flight: Flight, value: object) -> LaneReply:
    """Return the reply of a flight that ended well."""
    reply = LaneReply.__new__(LaneReply)
    _set(reply, "value", value)
    _set(reply, "_flight", flight)
    return reply


# ---- the way itself --------------------------------------------------------------------------------------------------


class Lanes:
    """The lane of one controller: which tools may take it, and the two halves of a call on it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.policies: dict[str, ToolPolicy] = {}
        # A clock may say the time as a number, which is cheaper than an object.
        self._now_us: Callable[[], int] = getattr(engine.clock, "now_us", self._read_us)
        engine.tools.on_declared = self._declared

    def _declared(self) -> None:
        """Look again at which tools may take the lane: none that shares its operation or looks for unknown outcomes."""
        known, checks = self._engine.tools.policies(), self._engine.tools.checks
        shared = {policy.operation for policy in known if policy.operation not in {"", policy.name}}
        limits = self._engine.limits
        self.policies = {
            policy.name: policy
            for policy in known
            if policy.name not in shared and policy.name not in checks and is_eligible(policy, limits)
        }

    def is_ready(self, policy: ToolPolicy, run: str) -> bool:
        """Say whether run and policy are known here, so that nothing has to be looked up first."""
        engine = self._engine
        return run in engine.roots and engine.noted.get(policy.name) == policy.digest

    def begin(self, policy: ToolPolicy, arguments: Mapping[str, object], run: str, where: Where) -> Flight | None:
        """Start a call on the lane; None = it goes the whole way.

        Raises:
            StoreError: the store cannot be written: the read must not start.
        """
        engine = self._engine
        if engine.lost or engine.unsettled or engine.closed:
            return None
        plain = plain_key(arguments)
        live = engine.world.peek(engine.roots[run])
        if plain is None or live is None or not live.lock.acquire(blocking=False):
            return None
        try:
            now_us = self._now_us()
            lane, name = live.lane, policy.name
            key = (name, plain)
            if key in lane.foreign or not self._is_clear(live, now_us) or not self._belongs(live, run, where):
                return None
            source, siblings = where.get("source", ""), where.get("siblings", 1)
            call_id = where.get("call_id") or ""
            if not (type(call_id) is str and type(where.get("step") or "") is str and type(source) is str):
                return None
            # A call without a step is a step of its own, named by its request.
            own = "" if where.get("step") or call_id else engine.ids.request_id()
            step = where.get("step") or call_id or own
            entry = lane.entries.get(key)
            # A replay of a read is an equal call of its step, or one more execution: the core keeps no result of it.
            if not (entry is None or (entry.source == source and _may_follow(entry, run, step))):
                return None
            counters = lane.runs.get(run) or _enter_run(live, run)
            if counters is None:
                return None
            engine.world.batch.make_room()
            if entry is None:
                if len(lane.entries) >= MAX_KEPT:
                    lane.forget()
                entry = lane.entries[key] = Entry(key, policy, source, dict(arguments))
            _count_start(live, counters, step, siblings, name)
            entry.attempts = number = entry.attempts + 1
            flight = Flight(engine, live.root, run, step, call_id, entry, number, now_us, own)
            flight.siblings, flight.forced = siblings, where.get("forced", False)
            entry.flying.append(flight)
            engine.world.batch.lines.append(flight)
            return flight
        finally:
            live.lock.release()

    def _is_clear(self, live: LiveTree, now_us: int) -> bool:
        """Say whether the tree as it is now, here and in the store, stands in no read's way."""
        lane = live.lane
        # A clock that stands still (a test's) checks always.
        if not lane.checked_us < now_us < lane.checked_us + STALENESS_US:
            if live.evicted or not self._engine.world.is_current(live):
                return False
            lane.checked_us = now_us
        if lane.is_clear is None:
            lane.is_clear = nothing_stands(live)
        return lane.is_clear and live.complete and not live.shared.holds and self._engine.world.is_fresh(live)

    def _belongs(self, live: LiveTree, run: str, where: Where) -> bool:
        """Say whether the rest of what the caller said about the run is nothing new."""
        if where.get("truncated"):
            return False
        parent = where.get("parent")
        if parent is not None and self._engine.roots.get(parent) != live.root:
            return False
        if run != live.root:
            return True
        principal, turn = where.get("principal"), where.get("turn")
        return (principal is None or principal == live.tree.principal) and (turn is None or turn in live.lane.turns)

    def end(self, flight: Flight, raw: Raw) -> LaneReply | None:
        """End a call on the lane; None = the attempt of the flight goes the whole way from here."""
        engine, entry = self._engine, flight.entry
        live = engine.world.enter(flight.root)
        try:
            if flight.attempt is not None:
                return None
            now_us = self._now_us()
            value = (raw.value,) if type(raw) is Value else payload(raw)
            lane, tree = live.lane, live.tree
            said_digest = "" if value is None else digest_of(value[0])
            same = _same_results(entry, said_digest, tree.turn, tree.writes, now_us)
            if not self._is_plain_success(entry, raw) or same >= _limit(entry.policy) or not may_end(live):
                give_up(live, entry)
                return None
            entry.same, entry.turn = same, tree.turn
            if said_digest:
                entry.digest, entry.at_us, entry.writes = said_digest, now_us, tree.writes
            flight.ended_us, flight.turn, flight.writes, flight.epoch = now_us, tree.turn, tree.writes, tree.epoch
            entry.flying.remove(flight)
            entry.done, entry.value = flight, value
            if _step_of(live, flight.run) == flight.step:
                lane.valued.setdefault(flight.run, []).append(entry)
            else:
                entry.value = None
            engine.world.batch.lines.append((flight,))
            return reply_of(flight, None if value is None else value[0])
        finally:
            live.lock.release()

    def _is_plain_success(self, entry: Entry, raw: Raw) -> bool:
        try:
            said = classify(
                raw, policy=entry.policy, arguments=entry.arguments, now=ANY_TIME, catalogue=self._engine.catalogue
            )
        except Exception:  # noqa: BLE001 - the tool's object raised: the whole way says what that means
            return False
        return said is SUCCESS or said == SUCCESS

    def _read_us(self) -> int:
        return to_us(self._engine.clock.now())

    def give_up(self, flight: Flight) -> Attempt:
        """Return the attempt of a flight that did not end well; it is settled like any other."""
        live = self._engine.world.enter(flight.root)
        try:
            if flight.attempt is None:
                give_up(live, flight.entry)
            assert flight.attempt is not None
            return flight.attempt
        finally:
            live.lock.release()


def _enter_run(live: LiveTree, run: str) -> LaneRun | None:
    """Take over the counters of a run, where the core would count a success without looking back."""
    found = live.runs.get(run)
    if found is None:
        if run != live.root:
            return None
        found = Run(id=run)
    if found.turn != live.tree.turn:
        found = current(found, live.tree.turn)
    if found.halted is not None or found.blocked_steps or found.idle_steps:
        return None
    if not found.closed and (found.all_blocked or found.all_idle):
        return None
    counters = live.lane.runs[run] = LaneRun(found)
    return counters


def _may_follow(entry: Entry | None, run: str, step: str) -> bool:
    """Say whether a call is a new execution: no equal one is open, and none was made in this step."""
    if entry is None:
        return True
    if entry.flying:
        return False
    done = entry.done
    return done is None or done.step != step or done.run != run


def _count_start(live: LiveTree, counters: LaneRun, step: str, siblings: int, operation: str) -> None:
    """Count a start as the core does: the step, and the executions of the operation."""
    if counters.step != step:
        counters.step, counters.seen, counters.closed = step, 0, False
        live.values.pop(counters.run.id, None)
        for entry in live.lane.valued.pop(counters.run.id, ()):
            entry.value = None
    if not counters.closed:
        counters.fresh = True
        counters.seen += 1
        counters.closed = counters.seen >= siblings
    counters.calls += 1
    counters.operations[operation] = counters.operations.get(operation, 0) + 1


def _step_of(live: LiveTree, run: str) -> str:
    """Return the step that a run is in."""
    counters = live.lane.runs.get(run)
    if counters is not None:
        return counters.step
    found = live.runs.get(run)
    return "" if found is None else found.step


def _same_results(entry: Entry, digest: str, turn: int, writes: int, now_us: int) -> int:
    """Return how many equal results there were in a row, as the core counts them."""
    before = entry.same if entry.turn == turn else 0
    if not digest:
        return before
    equal = entry.digest == digest and entry.writes == writes and now_us - entry.at_us < SAME_RESULT_GAP_US
    return before + 1 if equal else 1


def _limit(policy: ToolPolicy) -> int:
    own = policy.limits.max_same_results
    return MAX_SAME_RESULTS if own is None else own
