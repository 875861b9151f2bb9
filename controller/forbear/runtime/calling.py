"""One call from proposal to answer, sync and async: on the lane where that is possible, else the whole way.

Only the order of the two ways is here; what happens on each is in `lanes.py` and `flows.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from forbear.contract import Raw
from forbear.errors import StoreError
from forbear.runtime.asking import Asking
from forbear.runtime.broken import broken_flow
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.flows import after_lane, call_flow
from forbear.runtime.lane import Flight, is_plain
from forbear.runtime.observing import Traced
from forbear.runtime.perform import afly, arun_flow, fly, run_flow
from forbear.runtime.places import prepare_flow
from forbear.runtime.reply import Reply
from forbear.runtime.steps import Ended, Executor, Flow, How, Signals
from forbear.runtime.where import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a call is made, beside what it proposes."""

    signals: Signals
    # Wait inside the call where that is short.
    wait: bool
    # A blocked reply instead of StoreError where the store cannot be written.
    answers_broken: bool


USUAL = Manner(signals=(), wait=True, answers_broken=False)


def call(asking: Asking, tool: str, arguments: object, where: Where, executor: Executor, manner: Manner) -> Reply:
    """Answer one call in this thread.

    Raises:
        StoreError: the store cannot be written (unless the manner is to answer, or the tool is only observed).
    """
    engine = asking.engine
    policy = asking.lanes.policies.get(tool)
    if policy is not None and is_plain(arguments) and (run := where.get("run")):
        try:
            if not asking.lanes.is_ready(policy, run):
                run_flow(prepare_flow(engine, asking.ask(tool, arguments, where), policy), engine)
            flight = asking.lanes.begin(policy, arguments, run, where)
        except StoreError as error:
            if manner.answers_broken:
                return run_flow(broken_flow(engine, asking.ask(tool, arguments, where), error), engine)
            raise
        if flight is not None:
            came = fly(flight, executor, arguments, manner.signals)
            reply = None if isinstance(came, Ended) else asking.lanes.end(flight, came)
            if engine.untold:
                engine.tell()
            return reply if reply is not None else run_flow(_go_on(asking, flight, came, executor, manner), engine)
    return run_flow(_whole(engine, asking.ask(tool, arguments, where), executor, manner), engine)


async def acall(
    asking: Asking, tool: str, arguments: object, where: Where, executor: Executor, manner: Manner
) -> Reply:
    """Answer one call in this task. Raises like `call`."""
    engine = asking.engine
    policy = asking.lanes.policies.get(tool)
    if policy is not None and is_plain(arguments) and (run := where.get("run")):
        try:
            if not asking.lanes.is_ready(policy, run):
                await arun_flow(prepare_flow(engine, asking.ask(tool, arguments, where), policy), engine)
            flight = asking.lanes.begin(policy, arguments, run, where)
        except StoreError as error:
            if manner.answers_broken:
                return await arun_flow(broken_flow(engine, asking.ask(tool, arguments, where), error), engine)
            raise
        if flight is not None:
            came = await afly(flight, executor, arguments, manner.signals)
            reply = None if isinstance(came, Ended) else asking.lanes.end(flight, came)
            if engine.untold:
                engine.tell()
            return (
                reply if reply is not None else await arun_flow(_go_on(asking, flight, came, executor, manner), engine)
            )
    return await arun_flow(_whole(engine, asking.ask(tool, arguments, where), executor, manner), engine)


def traced_call(
    asking: Asking, tool: str, arguments: object, where: Where, executor: Executor, manner: Manner
) -> Reply:
    """Do what `call` does, with a span around it."""
    assert asking.engine.observing is not None
    with Traced(asking.engine.observing, tool, where.get("call_id") or "", manner.signals) as traced:
        traced.reply = call(asking, tool, arguments, where, executor, manner)
    return traced.reply


async def traced_acall(
    asking: Asking, tool: str, arguments: object, where: Where, executor: Executor, manner: Manner
) -> Reply:
    """Do what `acall` does, with a span around it."""
    assert asking.engine.observing is not None
    with Traced(asking.engine.observing, tool, where.get("call_id") or "", manner.signals) as traced:
        traced.reply = await acall(asking, tool, arguments, where, executor, manner)
    return traced.reply


def _whole(engine: Engine, ask: Ask, executor: Executor, manner: Manner) -> Flow[Reply]:
    return call_flow(
        engine,
        ask,
        executor,
        signals=manner.signals,
        wait=manner.wait,
        answers_broken=manner.answers_broken,
    )


def _go_on(asking: Asking, flight: Flight, came: Raw | Ended, executor: Executor, manner: Manner) -> Flow[Reply]:
    ended = came if isinstance(came, Ended) else Ended(how=How.ANSWERED, raw=came, trail=flight.trail)
    return after_lane(
        asking.engine,
        asking.lanes.give_up(flight),
        ended,
        executor,
        signals=manner.signals,
        wait=manner.wait,
        answers_broken=manner.answers_broken,
    )
