"""How an attempt ends: judged and settled, interrupted, cancelled, or left. Flows; what it means is the core's.

The exception that ended an attempt is never raised here: it goes on after its end was committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from forbear.contract import Raised, Raw, witnessed
from forbear.core.events import Cancelled, Interrupted, Lost
from forbear.core.vocabulary import COMPLETED
from forbear.errors import StoreError
from forbear.runtime.asked import Decided
from forbear.runtime.engine import Engine
from forbear.runtime.inspection import looked_flow
from forbear.runtime.leaving import Left
from forbear.runtime.notes import keep
from forbear.runtime.program import settle, tell
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import is_recorded, payload
from forbear.runtime.steps import (
    Ended,
    Flow,
    How,
    transact,
)

# End of the id of the run in which the controller looks for the outcomes of a tree.
CHECKS: Final = "\x1fchecks"


def settle_flow(engine: Engine, attempt: Attempt, raw: Raw, ended: Ended) -> Flow[Reply]:
    """Judge what an attempt returned and decide what it means; `ended` is how it ended, for the record."""
    policy = engine.tools.known_policy(attempt.tool)
    value = payload(raw)
    # What the controller ran by itself has no caller who gets the value: it is kept for the run.
    recorded = attempt.by_controller or is_recorded(policy)
    result = keep(value[0]) if value is not None and recorded else None
    if attempt.by_controller:
        engine.hold_value(attempt, value)
    asked = engine.asked(attempt.root, attempt.call, policy, request_id=attempt.request_id)
    program = settle(
        asked,
        attempt.number,
        judge=engine.judging(attempt, policy, raw, value=value, kept=result is not None),
        result=result,
        value=value,
        announce=attempt.by_controller,
        leaves=Left(engine, attempt, ended, policy),
    )
    decided = yield from transact(program, attempt.root)
    reply = _landed(attempt, decided, engine.answer(decided, asked, value=value))
    if reply.envelope.outcome in COMPLETED and attempt.tool in engine.tools.checks and not is_check(attempt.run):
        yield from looked_flow(engine, attempt, None if value is None else value[0])
    return reply


def is_check(run: str) -> bool:
    """Say whether a run is the controller's own, in which it looks for outcomes."""
    return run.endswith(CHECKS)


def _landed(attempt: Attempt, decided: Decided, reply: Reply) -> Reply:
    decided.live.land(attempt.action, attempt.number, reply)
    return reply


def end_flow(engine: Engine, attempt: Attempt, ended: Ended) -> Flow[Reply]:
    """Commit how an attempt ended. The exception that ended it is the caller's to raise, afterwards.

    Raises:
        StoreError: the store cannot be written; the end is kept and committed before the tree's next decision.
    """
    try:
        return (yield from _end(engine, attempt, ended))
    except StoreError:
        engine.unsettled.append((attempt, ended))
        raise


def _end(engine: Engine, attempt: Attempt, ended: Ended) -> Flow[Reply]:
    ticket, request_id = engine.ids.ticket(), attempt.request_id
    if ended.trail is None and (trail := engine.take_trail(attempt)) is not None:
        raw = witnessed(ended.raw, trail) if isinstance(ended.raw, Raised) else ended.raw
        ended = replace(ended, raw=raw, trail=trail)
    event: Interrupted | Cancelled | Lost
    match ended.how:
        case How.ANSWERED:
            assert ended.raw is not None
            return (yield from settle_flow(engine, attempt, ended.raw, ended))
        case How.SIGNAL:
            event = Interrupted(attempt=attempt.number, ticket=ticket)
        case How.CANCELLED:
            event = Cancelled(acknowledged=False, ticket=ticket, request_id=request_id)
        case How.NEVER_CALLED:
            event = Cancelled(acknowledged=True, ticket=ticket, request_id=request_id)
        case How.LEFT:
            event = Lost(attempt=attempt.number, ticket=ticket, request_id=request_id, died=False)
    policy = engine.tools.known_policy(attempt.tool)
    asked = engine.asked(attempt.root, attempt.call, policy, request_id=request_id)
    leaves = Left(engine, attempt, ended, policy)
    decided = yield from transact(tell(asked, event, attempt=attempt.number, here=True, leaves=leaves), attempt.root)
    return _landed(attempt, decided, engine.answer(decided, asked))
