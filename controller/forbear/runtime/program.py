"""The procedures, written once as generators of effects: load, read the clock, decide, save, and again after a lost race.

Nothing is performed here: no lock, no connection, no tool, no await. What is decided is the core's; what is stored
follows from the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from forbear.core.decide import decide, decide_tree
from forbear.core.decision import Decision, Deliver, Join
from forbear.core.events import Edited, Event, Inspected, Proposed, Returned, TreeEvent, TurnBegan
from forbear.core.rules import Rule
from forbear.core.states import Action, Completed, known_key
from forbear.core.vocabulary import COMPLETED, Answer, Mode
from forbear.errors import StoreError
from forbear.ports import Row
from forbear.runtime.asked import Asked, Decided, Frame
from forbear.runtime.beside import (
    announced,
    announcement,
    answered_now,
    attempt_of,
    completion_rows,
    is_volatile,
    new_prompt_rows,
    request_of,
)
from forbear.runtime.effects import Program, Save, fetch, keep, load, read_clock, save
from forbear.runtime.live import LiveTree
from forbear.runtime.notes import (
    count_of,
    result_key,
    result_row,
    turns_row,
    with_turn,
)
from forbear.runtime.rows import tree_scope

# So often a decision is made again after somebody else committed first.
MAX_RACES: Final = 64


Extra = Callable[[LiveTree, Decision, datetime], tuple[Row, ...]]


class Leaves(Protocol):
    """What the end of an attempt leaves behind beside its decision."""

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Return the boundaries that the execution reached."""
        ...

    def piece(self, live: LiveTree, event: Event, now: datetime) -> Callable[[bytes], bytes] | None:
        """Return what makes a piece of evidence with the key of argument digests; None = there is nothing to keep."""
        ...


def _nothing(_live: LiveTree, _decision: Decision, _now: datetime) -> tuple[Row, ...]:
    return ()


def _decided(
    asked: Asked,
    event_at: Callable[[LiveTree, datetime], Event],
    *,
    attempt: int = 0,
    known: str = "",
    other: str = "",
    extra: Extra = _nothing,
    leaves: Leaves | None = None,
) -> Program[Decided]:
    call = asked.call
    actions = (call.action, other) if other else (call.action,)
    evidence = ""
    for _ in range(MAX_RACES):
        live = yield from load(asked.root, actions=actions, known=known, call=call)
        now = yield from read_clock()
        event = event_at(live, now)
        decision = decide(asked.frame(live), call.action, event, now)
        counted = None
        if asked.policy.idempotency_key is not None or isinstance(event, Inspected):
            counted = yield from fetch(tree_scope(asked.root), "completions", call.action)
        drops = answered_now(asked, live, decision)
        if leaves is not None and not evidence and (piece := leaves.piece(live, event, now)) is not None:
            evidence = yield from keep(asked.request_id, piece)
        saved = yield from save(
            Save(
                live=live,
                decision=decision,
                now=now,
                event=type(event).__name__,
                call=call,
                attempt=attempt or attempt_of(decision),
                policy=asked.policy.digest,
                request_id=asked.request_id or request_of(decision),
                actor=asked.actor,
                observed=asked.policy.mode is Mode.OBSERVE,
                evidence=evidence,
                boundaries=() if leaves is None else leaves.boundaries,
                puts=(
                    *extra(live, decision, now),
                    *completion_rows(asked, decision, counted),
                    *new_prompt_rows(asked, live, decision),
                ),
                drops=drops,
                volatile=not drops and is_volatile(live, call, decision),
            )
        )
        if saved:
            decided = yield from _with_result(asked, live, decision, now)
            return decided if counted is None else replace(decided, completions=count_of(counted))
    raise StoreError(f"the decision about tool {call.tool!r} lost {MAX_RACES} races against other writers")


def _with_result(asked: Asked, live: LiveTree, decision: Decision, now: datetime) -> Program[Decided]:
    """Read the recorded result that the decision delivers."""
    recorded = None
    value = None
    deliver = next((command for command in decision.commands if isinstance(command, Deliver)), None)
    if deliver is not None:
        key = result_key(deliver.action, deliver.attempt)
        value = live.value(key)
        if value is None:
            recorded = yield from fetch(tree_scope(asked.root), "result", key)
    action = live.actions.get(asked.call.action)
    join = next((command for command in decision.commands if isinstance(command, Join)), None)
    flight = None if join is None else live.flights.get((join.action, join.attempt))
    completed, pending = live.summary() if decision.answer is Answer.HALTED else ((), ())
    return Decided(
        decision=decision,
        live=live,
        now=now,
        action=action,
        recorded=recorded,
        value=value,
        flight=None if flight is None else flight.join(),
        completed=completed,
        pending=pending,
    )


# ---- procedures -----------------------------------------------------------------------------------------------------


def propose(asked: Asked, *, ticket: str) -> Program[Decided]:
    """Decide about a proposed call."""
    call = asked.call

    def event(_live: LiveTree, _now: datetime) -> Event:
        return Proposed(call=call, reproposes=asked.reproposes, ticket=ticket, request_id=asked.request_id)

    return (
        yield from _decided(
            asked, event, known=known_key(call.run, call.step, call.call_id, call.fingerprint) if call.call_id else ""
        )
    )


def settle(
    asked: Asked,
    attempt: int,
    *,
    judge: Callable[[datetime], Returned],
    result: bytes | None,
    value: tuple[object] | None,
    announce: bool,
    leaves: Leaves | None = None,
) -> Program[Decided]:
    """Judge what an attempt returned, decide, and keep the result and the announcement in the same commit."""
    judged: list[Returned] = []

    def event(_live: LiveTree, now: datetime) -> Event:
        judged[:] = [judge(now)]
        return judged[0]

    def extra(live: LiveTree, decision: Decision, now: datetime) -> tuple[Row, ...]:
        # Whoever waits for this attempt gets its answer from here; after the call was told "unknown", nobody waits.
        told_here = announce or decision.rule is not Rule.RETURNED_LATE
        rows = announced(asked.root, live, decision, now, skip=asked.call.action if told_here else "")
        if result is not None and judged[0].kept and _completes(decision, asked.call.action, attempt):
            rows = (*rows, result_row(asked.root, asked.call.action, attempt, result))
        if announce and decision.answer in _FINAL and decision.told is not None:
            rows = (*rows, announcement(asked.root, asked.call, attempt, decision, decision.told, now))
        return rows

    decided = yield from _decided(asked, event, attempt=attempt, extra=extra, leaves=leaves)
    envelope = judged[0].envelope
    if value is not None and envelope.outcome in COMPLETED and decided.decision.answer is Answer.EXECUTED:
        decided.live.remember_value(asked.call.run, asked.call.step, result_key(asked.call.action, attempt), value[0])
    return replace(decided, envelope=envelope)


# Answers after which the run need not wait any more for this call.
_FINAL: Final = frozenset({Answer.EXECUTED, Answer.DELIVERED, Answer.BLOCKED, Answer.STOPPED, Answer.HALTED})


def _completes(decision: Decision, action: str, attempt: int) -> bool:
    for change in decision.changes:
        if isinstance(change, Action) and change.key == action:
            phase = change.phase
            return not isinstance(phase, Completed) or phase.attempt == attempt
    return False


def tell(
    asked: Asked, event: Event, *, attempt: int = 0, here: bool = False, leaves: Leaves | None = None
) -> Program[Decided]:
    """Feed an event that carries everything it needs: wake, answers of a person, verdicts, loss, cancellation.

    `here` = a caller gets the answer about this action, so the run is not told it again later.
    """

    def event_at(_live: LiveTree, _now: datetime) -> Event:
        return event

    def extra(live: LiveTree, decision: Decision, now: datetime) -> tuple[Row, ...]:
        skip = asked.call.action if here else ""
        return announced(asked.root, live, decision, now, skip=skip, note=asked.note)

    # An edit touches the action that the person wrote, too.
    other = event.call.action if isinstance(event, Edited) else ""
    return (yield from _decided(asked, event_at, attempt=attempt, other=other, extra=extra, leaves=leaves))


def tell_tree(
    root: str,
    frame: Frame,
    event_at: Callable[[datetime], TreeEvent],
    *,
    run: str = "",
    turn: str = "",
    actor: str = "",
) -> Program[Decided | None]:
    """Feed an event of the tree. `turn` is the digest of an opaque turn id; one that was seen before changes nothing."""
    for _ in range(MAX_RACES):
        live = yield from load(root)
        if turn and turn in live.turns:
            return None
        now = yield from read_clock()
        event = event_at(now)
        decision = decide_tree(frame(live), event, now)
        puts = announced(root, live, decision, now)
        if isinstance(event, TurnBegan):
            turns = with_turn(live.turns, turn, is_empty=live.is_empty)
            if turns != live.turns:
                puts = (*puts, turns_row(root, turns))
        effect = Save(
            live=live,
            decision=decision,
            now=now,
            event=type(event).__name__,
            run=run or root,
            request_id=request_of(decision),
            actor=actor,
            puts=puts,
        )
        if (yield from save(effect)):
            return Decided(decision=decision, live=live, now=now)
    raise StoreError(f"a decision about run {run or root!r} lost {MAX_RACES} races against other writers")
