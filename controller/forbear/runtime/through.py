"""One call of an author's function through the controller, as `govern` and `execute` make it. Nothing is decided here.

What breaks in the controller itself never lets a function run that was not decided about, and is never raised with
somebody else's text.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Signature
from types import FunctionType
from typing import Final, cast

from forbear.core.values import Envelope
from forbear.core.vocabulary import Answer, Executed, Mode, Outcome, Recovery
from forbear.errors import ForbearError, StoreError, UsageError
from forbear.runtime.broken import CODE, RULE_BROKEN, RULE_UNRECORDED, broken_flow, record_flow, ungoverned_flow
from forbear.runtime.controller import Controller
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.flows import propose_flow, run_attempt
from forbear.runtime.function import Bound, Function
from forbear.runtime.perform import arun_flow, run_flow
from forbear.runtime.reply import Reply
from forbear.runtime.standing import RESULT_NOT_KEPT
from forbear.runtime.steps import Executor, Flow, Signals
from forbear.runtime.where import Where

__all__ = [
    "Passed",
    "Runner",
    "Shot",
    "acall_tool",
    "bind_in_run",
    "bind_once",
    "call_tool",
    "executor_of",
    "on_loop",
    "value_of",
]

# Exceptions with which frameworks steer themselves, by module and class: they pass through and are never judged.
STEERING: Final = frozenset(
    {
        "langgraph.errors.GraphBubbleUp",
        "pydantic_ai.exceptions.ApprovalRequired",
        "pydantic_ai.exceptions.CallDeferred",
        "strands.interrupt.InterruptException",
        "workflows.runtime.types.results.WaitingForEvent",
    }
)


class Passed(Exception):
    """Carries a framework's own exception through the controller."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@dataclass(slots=True, eq=False)
class Shot:
    """What one execution of a function gave, below the controller."""

    started: bool = False
    value: tuple[object] | None = None
    error: BaseException | None = None


class Runner:
    """How the controller runs a function by itself: from the JSON of the call alone."""

    def __init__(self, function: Function, run: str = "") -> None:
        self.function = function
        # The run that brought it; "" = it is the same in all runs.
        self.run = run
        # Read by `inspect.signature`: the names that a check may be called with.
        self.__signature__: Signature = function.signature

    def __call__(self, **arguments: object) -> object:
        """Call the function, or return an awaitable of its result."""
        return self.function.invoke(arguments)


def bind_once(controller: Controller, function: Function) -> None:
    """Let the controller run a function by itself, unless the author has bound something under its name.

    Raises:
        UsageError: another function is governed under this name: a retry could run the wrong one.
    """
    tools = controller.engine.tools
    bound = tools.executor(function.name)
    if bound is None and not tools.varies(function.name):
        controller.bind(function.name, Runner(function))
    elif tools.varies(function.name) or (isinstance(bound, Runner) and bound.function.fn != function.fn):
        raise UsageError(
            f"tool {function.name!r}: another function is governed under this name; give one of them another name=…, or "
            "pass bind=False, so that the controller never runs it by itself"
        )


def bind_in_run(controller: Controller, function: Function, run: str) -> None:
    """Let the controller run a function by itself; where its name stands for another one in other runs, in this run only.

    A method of an object of this conversation, a closure over a user's credentials: no run gets another one's.
    """
    tools = controller.engine.tools
    name, bound = function.name, tools.executor(function.name)
    if bound is None and not tools.varies(name) and _is_one_for_all(function.fn):
        controller.bind(name, Runner(function, run))
    elif bound is None:
        # Also the first one of a process: what waits may be of a run that another process has served.
        tools.bind_in(name, {run: Runner(function, run)})
    elif isinstance(bound, Runner) and bound.function.fn != function.fn:
        if not bound.run:
            raise UsageError(f"tool {name!r}: another function is governed under this name; give it another name")
        tools.bind_in(name, {bound.run: bound, run: Runner(function, run)})


def _is_one_for_all(fn: object) -> bool:
    """Say whether a function is the same object in every run: one of a module's own, no method of an object, no closure."""
    return isinstance(fn, FunctionType) and "<locals>" not in fn.__qualname__


def on_loop() -> bool:
    """Say whether an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_steering(error: BaseException) -> bool:
    """Say whether a framework uses this exception to steer itself."""
    return any(f"{base.__module__}.{base.__qualname__}" in STEERING for base in type(error).__mro__)


def executor_of(function: Function, bound: Bound, shot: Shot, signals: Signals, *, threaded: bool = False) -> Executor:
    """Return what runs a function once for a decided call, and notes what came out below the controller.

    Args:
        function: The function.
        bound: The call as it was proposed.
        shot: Takes the notes.
        signals: Exceptions that pass through.
        threaded: The caller is async: a function that is not runs in a thread.
    """

    def caught(error: BaseException) -> BaseException:
        shot.error = error
        return Passed(error) if is_steering(error) and not isinstance(error, signals) else error

    def execute(**arguments: object) -> object:
        shot.started = True
        try:
            value = function.invoke(arguments, bound)
            if inspect.isawaitable(value):
                _close(value)
                raise UsageError(f"tool {function.name!r}: returned an awaitable; pass is_async=True")
        except BaseException as error:
            passed = caught(error)
            if passed is error:
                raise
            raise passed from None
        shot.value = (value,)
        return value

    async def aexecute(**arguments: object) -> object:
        shot.started = True
        try:
            value = await _awaited(function, arguments, bound)
        except BaseException as error:
            passed = caught(error)
            if passed is error:
                raise
            raise passed from None
        shot.value = (value,)
        return value

    return aexecute if function.is_async or threaded else execute


async def _awaited(function: Function, arguments: Mapping[str, object], bound: Bound) -> object:
    value = (
        function.invoke(arguments, bound)
        if function.is_async
        else await asyncio.to_thread(function.invoke, arguments, bound)
    )
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value


def _close(value: object) -> None:
    """Give up a coroutine that nobody will await."""
    close: object = getattr(value, "close", None)
    if callable(close):
        close()


def value_of(reply: Reply, shot: Shot) -> tuple[object] | None:
    """Return the value of a completed call (a tuple, because it may be None), or None where there is no value.

    The result of a call that a person changed is none of the call that was proposed: the text says what ran instead.
    """
    if not reply.ok or reply.envelope.reason == RESULT_NOT_KEPT:
        return None
    if reply.value is not None:
        # Looked at only here: most replies have a value and nothing else.
        return (reply.value,) if shot.value is not None or reply.effective is None else None
    if shot.value is not None and shot.value[0] is None:
        return (None,)
    return (None,) if reply.answer is Answer.DELIVERED and reply.envelope.recovery is None else None


# ---- calls ----------------------------------------------------------------------------------------------------------


def call_tool(
    controller: Controller,
    tool: str,
    arguments: object,
    execute: Executor,
    shot: Shot,
    signals: Signals,
    where: Where,
    *,
    at_once: bool = False,
) -> Reply:
    """Make a governed call; what breaks inside the controller is an answer, and then nothing ran that was not decided.

    Args:
        controller: The controller.
        tool: The tool's name.
        arguments: The call.
        execute: Runs the tool once.
        shot: What `execute` notes its result in.
        signals: Exceptions that pass through.
        where: Where the proposal comes from.
        at_once: Wait for nothing: an event loop is running in this thread.

    Raises:
        UsageError: the API was used wrongly.
        Passed: a framework's own exception came out of the tool.
    """
    passing = (*signals, Passed)
    try:
        if at_once:
            ask = controller._asking.ask(tool, arguments, where)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return run_flow(_at_once_flow(controller.engine, ask, execute, passing), controller.engine)
        return controller.call(tool, arguments, execute=execute, signals=passing, on_broken="block", **where)
    except Exception as error:  # noqa: BLE001 - the controller's own failure; what is not goes on
        reply = _failed(error, controller.engine, tool, where, shot, passing)
        with suppress(Exception):
            # Whatever else is broken: the answer stands, with or without a record for operators.
            run_flow(record_flow(controller.engine, reply, arguments, error), controller.engine)
        return reply


async def acall_tool(
    controller: Controller,
    tool: str,
    arguments: object,
    execute: Executor,
    shot: Shot,
    signals: Signals,
    where: Where,
) -> Reply:
    """Do what `call_tool` does, in a task."""
    passing = (*signals, Passed)
    try:
        return await controller.acall(tool, arguments, execute=execute, signals=passing, on_broken="block", **where)
    except Exception as error:  # noqa: BLE001 - the controller's own failure; what is not goes on
        reply = _failed(error, controller.engine, tool, where, shot, passing)
        with suppress(Exception):
            await arun_flow(record_flow(controller.engine, reply, arguments, error), controller.engine)
        return reply


def _at_once_flow(engine: Engine, ask: Ask, executor: Executor, signals: Signals) -> Flow[Reply]:
    """Propose, run, settle, without waiting for anything: the thread's event loop goes on after this call."""
    try:
        reply = yield from propose_flow(engine, ask)
    except StoreError as error:
        if engine.tools.known_policy(ask.tool).mode is Mode.OBSERVE:
            return (yield from ungoverned_flow(engine, ask, executor, signals))
        return (yield from broken_flow(engine, ask, error))
    if reply.attempt is not None:
        return (yield from run_attempt(engine, reply.attempt, executor, signals, answers_broken=True))
    if reply.joins is None:
        return reply
    told = Envelope(outcome=Outcome.PENDING, executed=Executed.UNKNOWN, code="DUPLICATE_IN_FLIGHT")
    return _answer(engine, ask.tool, told, Answer.PENDING, reply.rule, reply.run)


def _failed(error: Exception, engine: Engine, tool: str, where: Where, shot: Shot, passing: Signals) -> Reply:
    """Return the answer to a call in which the controller itself failed; what is no failure of its own goes on."""
    if isinstance(error, passing) or (isinstance(error, ForbearError) and not isinstance(error, StoreError)):
        raise error
    what = "the tool did not run" if not shot.started else "the tool ran, and its end was not recorded"
    warnings.warn(
        f"tool {tool!r}: the controller failed with {type(error).__name__}; {what}", RuntimeWarning, stacklevel=4
    )
    run = where.get("run") or ""
    if not shot.started:
        told = Envelope(outcome=Outcome.FAILED, executed=Executed.NO, code=CODE, recovery=Recovery.DO_NOT_RETRY)
        return _answer(engine, tool, told, Answer.BLOCKED, RULE_BROKEN, run)
    if engine.tools.is_read(tool):
        told = Envelope(
            outcome=Outcome.FAILED, executed=Executed.UNKNOWN, code="INTERNAL_ERROR", recovery=Recovery.DO_NOT_RETRY
        )
    else:
        told = Envelope(
            outcome=Outcome.UNKNOWN,
            executed=Executed.UNKNOWN,
            code="OUTCOME_UNKNOWN",
            recovery=Recovery.INSPECT_OUTCOME,
        )
    return _answer(engine, tool, told, Answer.EXECUTED, RULE_UNRECORDED, run)


def _answer(engine: Engine, tool: str, told: Envelope, answer: Answer, rule: str, run: str) -> Reply:
    envelope = engine.envelope(told, engine.ids.request_id())
    return Reply(answer=answer, rule=rule, envelope=envelope, tool=tool, run=run)
