"""Giving back what the lane has counted: the tree gets it in the core's own values (see `lane.py`). No rules."""

from __future__ import annotations

from dataclasses import replace

from forbear.core.states import Action, Completed, Known, Running, Started, known_key, step_key
from forbear.core.values import Call
from forbear.core.vocabulary import Effect, Outcome
from forbear.runtime.calls import build, frozen_arguments
from forbear.runtime.lane import Entry, Flight, plain_key, plain_success
from forbear.runtime.live import LiveTree
from forbear.runtime.reply import Attempt
from forbear.store.codec import from_us


def give_back(live: LiveTree, call: Call | None) -> None:
    """Give the tree what an event needs: the runs' counters, and the action that it is about (None = open flights)."""
    for run in live.lane.runs.values():
        live.runs[run.run.id] = run.ahead()
    live.lane.runs.clear()
    if not live.lane.entries:
        return
    if call is None:
        for entry in [entry for entry in live.lane.entries.values() if entry.flying]:
            _give(live, entry)
        return
    if call.malformed or call.effect is not Effect.READ:
        return
    key = plain_key(frozen_arguments(call))
    found = None if key is None else live.lane.entries.get((call.tool, key))
    if found is not None:
        _give(live, found)


def give_all_back(live: LiveTree) -> None:
    """Give the tree everything."""
    give_back(live, None)
    for entry in list(live.lane.entries.values()):
        _give(live, entry)


def _give(live: LiveTree, entry: Entry) -> None:
    del live.lane.entries[entry.key]
    call = _call(entry)
    action = _action(entry, call)
    live.actions[action.key] = action
    live.volatile.add(action.key)
    live.lane.foreign.add(entry.key)
    done = entry.done
    if done is not None and entry.value is not None:
        live.remember_value(done.run, done.step, f"{action.key}:{done.number}", entry.value[0])
    for flight in (done, *entry.flying):
        if flight is not None and flight.call_id:
            key = known_key(flight.run, flight.step, flight.call_id, call.fingerprint)
            live.known[key] = Known(action=call.action, attempt=flight.number)
            live.volatile_known.add(key)
    for flight in entry.flying:
        _take_over(live, flight, call)
    # A dropped entry and its last flight would hold each other.
    entry.flying, entry.value, entry.done = [], None, None


def may_end(live: LiveTree) -> bool:
    """Say whether the core would do nothing but complete a read that succeeded now."""
    if live.lane.is_clear is None:
        live.lane.is_clear = nothing_stands(live)
    return live.lane.is_clear


def give_up(live: LiveTree, entry: Entry) -> None:
    """Give the tree an action whose flight did not end well, with the counters of the runs."""
    give_back(live, None)
    if entry.key in live.lane.entries:
        _give(live, entry)


def _take_over(live: LiveTree, flight: Flight, call: Call) -> None:
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


def _call(entry: Entry) -> Call:
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


def _action(entry: Entry, call: Call) -> Action:
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
