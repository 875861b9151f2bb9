"""The two drivers of flows: they run programs, tools, rules and waits in the order that a flow asks for. No decisions.

Whatever a tool does (return, raise, be cancelled, leave with KeyboardInterrupt), the flow learns it as a value first,
commits what it means, and only then the exception goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar, cast

from forbear.contract import (
    Grpc,
    Http,
    Mcp,
    McpError,
    Process,
    Raised,
    RaisedFacts,
    Raw,
    Trail,
    Value,
    phase_of,
    witnessed,
)
from forbear.contract.boundaries import EXECUTION
from forbear.core.values import RuleVerdict
from forbear.ports import Clock
from forbear.runtime.calls import UNAVAILABLE, awaited, begin_judging, judged
from forbear.runtime.drive import World, adrive, drive
from forbear.runtime.lane import Flight
from forbear.runtime.reply import Attempt
from forbear.runtime.steps import Await, Ended, Executor, Flow, How, Judge, Pause, Perform, Signals, Step, Transact

T = TypeVar("T")

# Types of results that nobody can await.
_AT_ONCE = frozenset({dict, str, list, int, float, bool, type(None), tuple, bytes})
_RAW = (Value, Raised, RaisedFacts, Http, Mcp, McpError, Grpc, Process)


class Surroundings(Protocol):
    """What the drivers need of the controller."""

    @property
    def world(self) -> World:
        """What performs the effects of programs."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def threads(self) -> ThreadPoolExecutor | None:
        """Threads for store calls that may block an event loop; None = they may not."""
        ...

    def tell(self) -> None:
        """Tell observers what was committed; no lock is held."""
        ...

    def late(self, attempt: Attempt, ended: Ended) -> None:
        """Feed what a tool answered after its timeout was over."""
        ...


@dataclass(slots=True)
class Inside:
    """The governed call that this code runs in: a run that starts here is its child."""

    owner: object
    root: str
    run: str
    call_id: str
    # What the execution reached, made when something is written down.
    trail: Trail | None = None


class Within(Protocol):
    """What `INSIDE` holds: an `Inside`, or a call on the lane."""

    trail: Trail | None

    @property
    def owner(self) -> object:
        """Return the controller's parts."""
        ...

    @property
    def root(self) -> str:
        """Return the root of the run's tree."""
        ...

    @property
    def run(self) -> str:
        """Return the run."""
        ...

    @property
    def call_id(self) -> str:
        """Return the framework's id of the call."""
        ...


# One variable for both: where adapters write down what an execution reached, and whose child a new run is.
INSIDE = cast("ContextVar[Within | None]", EXECUTION)


# ---- sync -----------------------------------------------------------------------------------------------------------


def run_flow(flow: Flow[T], here: Surroundings) -> T:
    """Run a flow to its end in this thread. What a step raises is raised in the flow, which may go on all the same."""
    answer: object = None
    failed: BaseException | None = None
    try:
        while True:
            try:
                step = flow.send(answer) if failed is None else flow.throw(failed)
            except StopIteration as stop:
                result: T = stop.value
                return result
            failed = None
            try:
                answer = _take_step(step, here)
            except BaseException as error:  # noqa: BLE001 - given to the flow, whose step it was
                failed = error
    finally:
        # An exception that is kept in a frame of its own traceback is a cycle.
        failed = None


def _take_step(step: Step, here: Surroundings) -> object:
    match step:
        case Transact():
            try:
                return drive(step.program, here.world, step.root)
            finally:
                here.tell()
        case Judge():
            return awaited(begin_judging(step.policy, step.arguments))
        case Perform():
            return _perform(step, here)
        case Pause():
            here.clock.sleep(_seconds(step.until, here.clock))
            return None
        case Await():
            return step.reply.result()


def _seconds(until: datetime, clock: Clock) -> float:
    return max((until - clock.now()).total_seconds(), 0.0)


def _perform(step: Perform, here: Surroundings) -> Ended:
    if step.timeout is not None:
        return _perform_for(step, here, step.timeout.total_seconds())
    inside = _inside(step.attempt, here)
    token = INSIDE.set(inside)
    try:
        return _ran(step, inside)
    finally:
        INSIDE.reset(token)


def _inside(attempt: Attempt, here: Surroundings) -> Inside:
    return Inside(here, attempt.root, attempt.run, attempt.call_id)


def _ran(step: Perform, inside: Inside) -> Ended:
    try:
        value = step.executor(**step.attempt.arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    except BaseException as error:  # noqa: BLE001 - every way out of a started write is committed before it goes on
        return ended_by(error, step.signals, inside.trail)
    return Ended(how=How.ANSWERED, raw=raw_of(value, inside.trail), trail=inside.trail)


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def raw_of(value: object, trail: Trail | None = None) -> Raw:
    """Return what a tool returned as a raw result; an adapter's executor may return one itself.

    `trail` is how far its execution came; None = as this code's own execution says.
    """
    if isinstance(value, Raised):
        return witnessed(value, trail)
    return value if isinstance(value, _RAW) else Value(value)


def ended_by(error: BaseException, signals: Signals, trail: Trail | None = None) -> Ended:
    """Return what it means for an attempt that its tool raised this; `trail` is how far it had come."""
    if isinstance(error, signals):
        return Ended(how=How.SIGNAL, error=error, trail=trail)
    if isinstance(error, asyncio.CancelledError):
        return Ended(how=How.CANCELLED, error=error, trail=trail)
    if isinstance(error, Exception):
        # Where nobody saw a boundary reached, a mistake of the tool's own code happened in the tool.
        raw = witnessed(Raised(error, phase=phase_of(error, reached=False)), trail)
        return Ended(how=How.ANSWERED, raw=raw, trail=trail)
    return Ended(how=How.LEFT, error=error, trail=trail)


def _perform_for(step: Perform, here: Surroundings, seconds: float) -> Ended:
    """Run a tool in a thread of its own for so long; what it answers later is fed as its late result."""
    over: list[Ended] = []
    given_up = False
    gate = threading.Lock()
    done = threading.Event()
    context = contextvars.copy_context()
    inside = _inside(step.attempt, here)
    context.run(INSIDE.set, inside)

    def work() -> None:
        ended = context.run(_ran, step, inside)
        with gate:
            over.append(ended)
            is_late = given_up
        done.set()
        if is_late:
            here.late(step.attempt, ended)

    threading.Thread(target=work, name=f"forbear-{step.attempt.tool}", daemon=True).start()
    done.wait(seconds)
    with gate:
        if over:
            return over[0]
        given_up = True
    return Ended(how=How.ANSWERED, raw=Raised(WaitTimeout()), trail=inside.trail)


def fly(flight: Flight, executor: Executor, arguments: dict[str, object], signals: Signals) -> Raw | Ended:
    """Run the tool of a call on the lane; what it returned, or how else it ended."""
    token = INSIDE.set(flight)
    try:
        value = executor(**arguments)
        if type(value) in _AT_ONCE:
            return Value(value)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
    except BaseException as error:  # noqa: BLE001 - every way out of a started call is settled before it goes on
        return ended_by(error, signals, flight.trail)
    finally:
        INSIDE.reset(token)
    return raw_of(value, flight.trail)


async def afly(flight: Flight, executor: Executor, arguments: dict[str, object], signals: Signals) -> Raw | Ended:
    """Do what `fly` does, in this task."""
    token = INSIDE.set(flight)
    try:
        value = executor(**arguments)
        if type(value) in _AT_ONCE:
            return Value(value)
        if inspect.isawaitable(value):
            value = await value
    except BaseException as error:  # noqa: BLE001 - every way out of a started call is settled before it goes on
        return ended_by(error, signals, flight.trail)
    finally:
        INSIDE.reset(token)
    return raw_of(value, flight.trail)


# ---- async ----------------------------------------------------------------------------------------------------------


async def arun_flow(flow: Flow[T], here: Surroundings) -> T:
    """Run a flow to its end in this task. What a step raises is raised in the flow, which may go on all the same.

    A cancellation that arrives while the store works is kept until the store has answered: a tool that was not called
    yet is not called any more, and then the cancellation goes on.
    """
    answer: object = None
    failed: BaseException | None = None
    cancelled: asyncio.CancelledError | None = None
    try:
        while True:
            try:
                step = flow.send(answer) if failed is None else flow.throw(failed)
            except StopIteration as stop:
                if cancelled is not None:
                    raise cancelled from None
                result: T = stop.value
                return result
            failed = None
            try:
                if isinstance(step, Transact):
                    answer, stopped = await adrive(step.program, here.world, step.root, here.threads)
                    cancelled = cancelled or stopped
                    here.tell()
                elif cancelled is None:
                    answer = await _atake_step(step, here)
                elif isinstance(step, Perform):
                    answer = Ended(how=How.NEVER_CALLED, error=cancelled)
                else:
                    raise cancelled
            except BaseException as error:  # noqa: BLE001 - given to the flow, whose step it was
                failed = error
    finally:
        # An exception that is kept in a frame of its own traceback is a cycle.
        failed = cancelled = None


async def _atake_step(step: Step, here: Surroundings) -> object:
    match step:
        case Transact():
            raise AssertionError("driven by the caller")
        case Judge():
            return await _ajudge(step)
        case Perform():
            return await _aperform(step, here)
        case Pause():
            await here.clock.asleep(_seconds(step.until, here.clock))
            return None
        case Await():
            return await asyncio.wrap_future(step.reply)


async def _ajudge(step: Judge) -> RuleVerdict:
    said = begin_judging(step.policy, step.arguments)
    if isinstance(said, RuleVerdict):
        return said
    try:
        return judged(step.policy, await said)
    except Exception:  # noqa: BLE001 - a failing checker is not a verdict (design section 4, step 4)
        return UNAVAILABLE


async def _aperform(step: Perform, here: Surroundings) -> Ended:
    inside = _inside(step.attempt, here)
    token = INSIDE.set(inside)
    try:
        value = step.executor(**step.attempt.arguments)
        if inspect.isawaitable(value):
            if step.timeout is None:
                value = await value
            else:
                value = await asyncio.wait_for(_awaited(value), step.timeout.total_seconds())
    except BaseException as error:  # noqa: BLE001 - every way out of a started write is committed before it goes on
        return ended_by(error, step.signals, inside.trail)
    finally:
        INSIDE.reset(token)
    return Ended(how=How.ANSWERED, raw=raw_of(value, inside.trail), trail=inside.trail)


__all__ = ["INSIDE", "Executor", "Inside", "Surroundings", "arun_flow", "ended_by", "raw_of", "run_flow"]
