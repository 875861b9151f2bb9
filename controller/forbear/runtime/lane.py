"""The short way of a declared read that succeeds: counters move, nothing else, and the core is not asked.

It is taken only where the core's answer is known beforehand: the tree has no hold, halt, streak, wait or announcement,
the policy asks for nothing (no budget, approval, poll, replay, required argument), the call is new, and the tool
returned a plain success. Everything else goes the whole way; whatever the lane has counted is first given back to the
tree in the core's own values. `tests/unit/runtime/test_lane.py` holds the two ways equal.

No rule may ever be added here: what is not certain is not for the lane.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import Final, Protocol, TypeGuard, cast

from forbear.contract import Trail
from forbear.contract.findings import SUCCESS
from forbear.core.identity import canonical, digest, fingerprint
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.settle import SAME_RESULT_GAP
from forbear.core.states import Run
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Effect, Mode
from forbear.ports import Ids, JournalLine
from forbear.runtime.calls import frozen_arguments
from forbear.runtime.reply import Attempt
from forbear.runtime.rows import tree_scope
from forbear.store.codec import from_us

# A read may start so long after another process has committed something that would stop it (design section 7).
STALENESS_US: Final = 20_000
SAME_RESULT_GAP_US: Final = SAME_RESULT_GAP // timedelta(microseconds=1)
# Actions that the lane keeps of one tree; the oldest are forgotten.
MAX_KEPT: Final = 4096
_PLAIN: Final = 2
# Whether a result is a plain success does not depend on the time; what names a time is none.
ANY_TIME: Final = from_us(0)
# A number with more digits than Python writes in JSON has no canonical form.
_TOO_LONG: Final = 10**600
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
        if type(value) is int and not -_TOO_LONG < value < _TOO_LONG:
            return None
    # Built-in scalars: marshal writes each with its type, so 1, 1.0, True and "1" are four keys.
    return marshal.dumps(sorted(cast("dict[str, str]", arguments).items()), _PLAIN)


def is_plain(arguments: object) -> TypeGuard[dict[str, object]]:
    """Say whether arguments are a plain mapping (what is in it is looked at later)."""
    return type(arguments) is dict


class Owner(Protocol):
    """What a flight needs of its controller."""

    @property
    def ids(self) -> Ids:
        """Return where ids come from."""
        ...

    @property
    def owner(self) -> str:
        """Return the name of the executing process."""
        ...


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
        owner: Owner,
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

    __slots__ = ("calls", "closed", "fresh", "operations", "run", "seen", "step")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = run.step
        self.seen = run.seen
        self.closed = run.closed
        self.calls = 0
        self.operations: dict[str, int] = {}
        # A step was opened here: in it something moved.
        self.fresh = False

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

    __slots__ = ("checked_us", "entries", "foreign", "is_clear", "runs", "turns", "valued")

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
        # Entries that hold a value of the step that their run is in, by run.
        self.valued: dict[str, list[Entry]] = {}

    def completed_in(self, turn: int) -> set[str]:
        """Return the tools that completed on the lane in a turn."""
        return {entry.policy.name for entry in self.entries.values() if entry.done is not None and entry.turn == turn}

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


def plain_success(flight: Flight) -> Envelope:
    """Return the envelope of a plain success."""
    return replace(SUCCESS, request_id=flight.request_id)


# ---- the record ------------------------------------------------------------------------------------------------------


def line_of(flight: Flight, *, ended: bool, began: bool = False) -> JournalLine:
    """Return the journal line of one half of a flight: the same facts as `rows.line` keeps of the core's decision.

    Args:
        flight: The execution.
        ended: The line of its end; False = of its beginning.
        began: The line of the end says the beginning too (`began_us`, and the phase before it).
    """
    entry = flight.entry
    action, fingerprint = entry.identity()
    if ended:
        before = "Running"
        if began:
            before = "Fresh" if flight.number == 1 else "Completed"
        facts = f'"event":"Returned","before":"{before}","after":"Completed","attempt":{flight.number},'
        if began:
            facts += f'"began_us":{flight.started_us},'
        facts += '"answer":"executed","outcome":"success","executed":"yes"'
    else:
        before = "Fresh" if flight.number == 1 else "Completed"
        facts = f'"event":"Proposed","before":"{before}","after":"Running","attempt":{flight.number},'
        facts += '"answer":"executed"'
    where = f'"policy":"{entry.policy.digest}","step":{quoted(flight.step)}'
    if flight.call_id:
        where += f',"call_id":{quoted(flight.call_id)}'
    reached = f',"boundaries":{json.dumps(flight.trail.reached)}' if ended and flight.trail is not None else ""
    return JournalLine(
        at_us=flight.ended_us if ended else flight.started_us,
        scope=tree_scope(flight.root),
        run=flight.run,
        rule=Rule.RETURNED_COMPLETED if ended else Rule.EXECUTED,
        tool=entry.policy.name,
        action=action,
        request_id=flight.request_id,
        body=f'{{{facts},{where},"fingerprint":"{fingerprint}"{reached}}}'.encode(),
    )
