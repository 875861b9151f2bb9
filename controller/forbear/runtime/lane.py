"""The short way of a declared read that succeeds: counters move, nothing else, and the core is not asked.

It is taken only where the core's answer is known beforehand: the tree has no hold, halt, streak, wait or announcement,
the policy asks for nothing (no budget, approval, poll, replay, required argument), the call is new, and the tool
returned a plain success. Everything else goes the whole way; whatever the lane has counted is first given back to the
tree in the core's own values. `tests/unit/runtime/test_lane.py` holds the two ways equal.

No rule may ever be added here: what is not certain is not for the lane.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeGuard, cast

from forbear.contract import Trail
from forbear.contract.findings import SUCCESS
from forbear.core.identity import canonical, digest, fingerprint
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.settle import SAME_RESULT_GAP
from forbear.core.states import Action, Completed, Known, Run, Running, Started, known_key, step_key
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Effect, Mode, Outcome
from forbear.runtime.calls import build, frozen_arguments
from forbear.runtime.reply import Attempt
from forbear.store.codec import from_us

if TYPE_CHECKING:
    from forbear.runtime.engine import Engine
    from forbear.runtime.live import LiveTree

# A read may start so long after another process has committed something that would stop it (design section 7).
STALENESS_US: Final = 20_000
SAME_RESULT_GAP_US: Final = SAME_RESULT_GAP // timedelta(microseconds=1)
# Actions that the lane keeps of one tree; the oldest are forgotten.
MAX_KEPT: Final = 4096
_PLAIN: Final = 2
# Whether a result is a plain success does not depend on the time; what names a time is none.
ANY_TIME: Final = from_us(0)
_SCALARS: Final = frozenset({str, int, bool, type(None), float})


def is_eligible(policy: ToolPolicy, limits: Limits) -> bool:
    """Say whether a tool's policy asks for nothing that the lane does not do."""
    own = policy.limits
    return (
        policy.effect is Effect.READ
        and policy.mode is Mode.ENFORCE
        and policy.repeatable is not False
        and policy.approval == "never"
        and policy.operation in {"", policy.name}
        and policy.poll is None
        and policy.empty_means == "none"
        and not policy.required
        and not policy.ignore
        and policy.target is None
        and policy.quota is None
        and own.replay_completed == 0
        and own.timeout is None
        and (own.max_calls_per_turn, own.max_calls_per_run) == (None, None)
        and (limits.max_calls_per_turn, limits.max_calls_per_run) == (None, None)
    )


def plain_key(arguments: Mapping[str, object]) -> bytes | None:
    """Return bytes that are equal exactly where flat JSON arguments are, or None where they are not flat."""
    for name, value in arguments.items():
        if type(name) is not str or type(value) not in _SCALARS:
            return None
        if type(value) is float and not isfinite(value):
            return None
    # Built-in scalars: marshal writes each with its type, so 1, 1.0, True and "1" are four keys.
    return marshal.dumps(sorted(cast("dict[str, str]", arguments).items()), _PLAIN)


def is_plain(arguments: object) -> TypeGuard[dict[str, object]]:
    """Say whether arguments are a plain mapping (what is in it is looked at later)."""
    return type(arguments) is dict


class Entry:
    """What the lane knows of one action."""

    __slots__ = (
        "_identity", "arguments", "at_us", "attempts", "digest", "done", "flying", "key", "policy", "same", "source", "turn", "value",
        "writes",
    )  # fmt: skip

    def __init__(self, key: tuple[str, bytes], policy: ToolPolicy, source: str, arguments: dict[str, object]) -> None:
        self.key = key
        self.policy = policy
        self.source = source
        self.arguments = arguments
        self.attempts = 0
        self.turn = 0
        self.same = 0
        self.digest = ""
        self.at_us = 0
        self.writes = 0
        # Digests of its calls, made when they are needed.
        self._identity: tuple[str, str] | None = None
        # The last flight that ended well, and those that are open.
        self.done: Flight | None = None
        self.flying: list[Flight] = []
        # The value of `done`, while its step is not over.
        self.value: tuple[object] | None = None

    def identity(self) -> tuple[str, str]:
        """Return the action's key and the fingerprint of a call with these arguments."""
        if self._identity is None:
            text = canonical(self.arguments)
            name = self.policy.name
            self._identity = digest("action", name, text), fingerprint(name, self.source, text)
        return self._identity


class Flight:
    """One execution on the lane; also the record that its two journal lines are made of."""

    __slots__ = (
        "_request_id", "attempt", "call_id", "ended_us", "entry", "epoch", "forced", "number", "owner", "root", "run",
        "siblings", "started_us", "step", "trail", "turn", "writes",
    )  # fmt: skip

    def __init__(
        self,
        owner: Engine,
        root: str,
        run: str,
        step: str,
        call_id: str,
        entry: Entry,
        number: int,
        started_us: int,
        request_id: str = "",
    ) -> None:
        # These four are what `perform.Inside` has: a run that starts in this call is a child.
        self.owner = owner
        self.root = root
        self.run = run
        self.call_id = call_id
        self.step = step
        self.entry = entry
        self.number = number
        self.started_us = started_us
        self.ended_us = self.turn = self.writes = self.epoch = 0
        # What the execution reached, made when something is written down.
        self.trail: Trail | None = None
        self.siblings = 1
        self.forced = False
        # Set where the tree took the flight over before it ended.
        self.attempt: Attempt | None = None
        self._request_id = request_id

    @property
    def request_id(self) -> str:
        """The id that joins the answer to the record, made when somebody asks for it."""
        if not self._request_id:
            self._request_id = self.owner.ids.request_id()
        return self._request_id


class LaneRun:
    """The counters of one run, ahead of the tree's."""

    __slots__ = ("calls", "closed", "fresh", "operations", "run", "seen", "step", "valued")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = run.step
        self.seen = run.seen
        self.closed = run.closed
        self.calls = 0
        self.operations: dict[str, int] = {}
        # A step was opened here: in it something moved.
        self.fresh = False
        # Entries that hold a value of this step.
        self.valued: list[Entry] = []

    def ahead(self) -> Run:
        """Return the run as the core would have it now."""
        if not self.calls:
            return self.run
        run = self.run
        operations = {name: (in_turn, in_run) for name, in_turn, in_run in run.operations}
        for name, count in self.operations.items():
            in_turn, in_run = operations.get(name, (0, 0))
            operations[name] = (in_turn + count, in_run + count)
        return replace(
            run,
            step=self.step,
            seen=self.seen,
            all_blocked=False if self.fresh else run.all_blocked,
            all_idle=False if self.fresh else run.all_idle,
            closed=self.closed,
            calls_in_turn=run.calls_in_turn + self.calls,
            calls_in_run=run.calls_in_run + self.calls,
            operations=tuple((name, in_turn, in_run) for name, (in_turn, in_run) in operations.items()),
        )


class Lane:
    """The lane of one tree; everything in it is read and written under the tree's lock."""

    __slots__ = ("checked_us", "entries", "foreign", "is_clear", "runs", "turns")

    def __init__(self) -> None:
        self.entries: dict[tuple[str, bytes], Entry] = {}
        self.runs: dict[str, LaneRun] = {}
        # Turn ids of the root run that have begun.
        self.turns: set[str] = set()
        # Tool and key of the actions that the tree has: their calls go the whole way.
        self.foreign: set[tuple[str, bytes]] = set()
        # Nothing stands in the way of any read; None = to be looked at.
        self.is_clear: bool | None = None
        self.checked_us = 0

    # ---- giving back ------------------------------------------------------------------------------------------------

    def give_back(self, live: LiveTree, call: Call | None) -> None:
        """Give the tree what an event needs: the runs' counters, and the action that it is about (None = open flights)."""
        for run in self.runs.values():
            live.runs[run.run.id] = run.ahead()
        self.runs.clear()
        if not self.entries:
            return
        if call is None:
            for entry in [entry for entry in self.entries.values() if entry.flying]:
                self._give(live, entry)
            return
        if call.malformed or call.effect is not Effect.READ:
            return
        key = plain_key(frozen_arguments(call))
        found = None if key is None else self.entries.get((call.tool, key))
        if found is not None:
            self._give(live, found)

    def give_all_back(self, live: LiveTree) -> None:
        """Give the tree everything."""
        self.give_back(live, None)
        for entry in list(self.entries.values()):
            self._give(live, entry)

    def _give(self, live: LiveTree, entry: Entry) -> None:
        del self.entries[entry.key]
        call = self._call(entry)
        action = self._action(entry, call)
        live.actions[action.key] = action
        live.volatile.add(action.key)
        self.foreign.add(entry.key)
        done = entry.done
        if done is not None and entry.value is not None:
            live.remember_value(done.run, done.step, f"{action.key}:{done.number}", entry.value[0])
        for flight in (done, *entry.flying):
            if flight is not None and flight.call_id:
                key = known_key(flight.run, flight.step, flight.call_id, call.fingerprint)
                live.known[key] = Known(action=call.action, attempt=flight.number)
                live.volatile_known.add(key)
        for flight in entry.flying:
            self._take_over(live, flight, call)
        # A dropped entry and its last flight would hold each other.
        entry.flying, entry.value, entry.done = [], None, None

    def completed_in(self, turn: int) -> set[str]:
        """Return the tools that completed on the lane in a turn."""
        return {entry.policy.name for entry in self.entries.values() if entry.done is not None and entry.turn == turn}

    def may_end(self, live: LiveTree) -> bool:
        """Say whether the core would do nothing but complete a read that succeeded now."""
        if self.is_clear is None:
            self.is_clear = nothing_stands(live)
        return self.is_clear

    def give_up(self, live: LiveTree, entry: Entry) -> None:
        """Give the tree an action whose flight did not end well, with the counters of the runs."""
        self.give_back(live, None)
        if entry.key in self.entries:
            self._give(live, entry)

    def turn_began(self, turn: str) -> None:
        """A turn with this opaque id has begun; ids that are no longer remembered go the whole way."""
        if len(self.turns) >= MAX_KEPT:
            self.turns.clear()
        self.turns.add(turn)

    def forget(self) -> None:
        """Keep the lane bounded: forget the oldest actions, as the tree does with its own."""
        for key in [key for key, entry in self.entries.items() if not entry.flying][: MAX_KEPT // 2]:
            self.entries.pop(key).done = None

    def note(self, call: Call) -> None:
        """The tree decided about a call of a read: its arguments are the tree's from now on."""
        if call.effect is Effect.READ and not call.malformed:
            key = plain_key(frozen_arguments(call))
            if key is not None:
                self.foreign.add((call.tool, key))

    def _take_over(self, live: LiveTree, flight: Flight, call: Call) -> None:
        """Make an attempt of a flight that is still open: it is settled like any other."""
        call = replace(call, run=flight.run, step=flight.step, call_id=flight.call_id)
        flight.attempt = Attempt(
            tool=call.tool,
            arguments=flight.entry.arguments,
            number=flight.number,
            run=flight.run,
            step=flight.step,
            call_id=flight.call_id,
            fingerprint=call.fingerprint,
            request_id=flight.request_id,
            started_at=from_us(flight.started_us),
            root=flight.root,
            call=call,
        )
        live.open_flight(call.action, flight.number)

    def _call(self, entry: Entry) -> Call:
        last = entry.flying[-1] if entry.flying else entry.done
        assert last is not None
        return build(
            entry.policy,
            entry.arguments,
            run=last.run,
            step=last.step,
            call_id=last.call_id,
            source=entry.source,
            siblings=last.siblings,
            forced=last.forced,
        )

    def _action(self, entry: Entry, call: Call) -> Action:
        phase: Running | Completed
        if entry.flying:
            phase = Running(open=tuple(_started(flight) for flight in entry.flying))
        else:
            assert entry.done is not None
            phase = _completed(entry.done)
        return Action(
            key=call.action,
            call=call,
            phase=phase,
            attempts=entry.attempts,
            turn=entry.turn,
            same_results=entry.same,
            last_result=entry.digest,
            last_result_at=from_us(entry.at_us) if entry.digest else None,
            last_writes=entry.writes,
        )


# ---- what the core would have --------------------------------------------------------------------------------------


def _started(flight: Flight) -> Started:
    return Started(
        attempt=flight.number,
        run=flight.run,
        step=flight.step,
        call_id=flight.call_id,
        started_at=from_us(flight.started_us),
        owner=flight.owner.owner,
    )


def _completed(flight: Flight) -> Completed:
    return Completed(
        attempt=flight.number,
        outcome=Outcome.SUCCESS,
        turn=flight.turn,
        started_at=from_us(flight.started_us),
        request_id=flight.request_id,
        writes=flight.writes,
        step=step_key(flight.run, flight.step),
        epoch=flight.epoch,
        told=plain_success(flight),
    )


def plain_success(flight: Flight) -> Envelope:
    """Return the envelope of a plain success."""
    return replace(SUCCESS, request_id=flight.request_id)


def nothing_stands(live: LiveTree) -> bool:
    """Say whether nothing in the tree could change the core's answer to a read that succeeds."""
    tree = live.tree
    return (
        not live.holds
        and not live.ready
        and not tree.streaks
        and not tree.repairs
        and all(run.halted is None for run in live.runs.values())
    )
