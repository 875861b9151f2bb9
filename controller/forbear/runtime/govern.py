"""`govern`: put a controller around one callable, for frameworks that build tools from Python functions.

The wrapper looks like the function (name, docstring, resolved signature), so that every tool builder makes the same
schema of it. It answers a refusal with a value and never raises for a decision. Nothing is decided here.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, ParamSpec, TypeVar, cast

from forbear.core.vocabulary import Mode
from forbear.errors import UsageError
from forbear.runtime.controller import Controller
from forbear.runtime.function import MARK, Bound, Function
from forbear.runtime.perform import INSIDE, Within
from forbear.runtime.reply import Reply
from forbear.runtime.steps import Executor, Signals
from forbear.runtime.through import Passed, Shot, acall_tool, bind_once, call_tool, executor_of, on_loop, value_of
from forbear.runtime.where import Where

__all__ = ["Refusals", "govern", "in_run"]

P = ParamSpec("P")
R = TypeVar("R")

# What a caller gets in the place of a value: JSON text, or the same as a dict.
Refusals = Literal["text", "dict"]
REFUSALS: Final = ("text", "dict")


# ---- which run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Current:
    """The run that code in this context belongs to."""

    run: str
    turn: str | None
    # The governed call in which the run was named, if any.
    inside: Within | None


CURRENT: ContextVar[Current | None] = ContextVar("forbear_run", default=None)


@contextmanager
def in_run(run: str, *, turn: str | None = None) -> Generator[None]:
    """Say which run the governed functions belong to that are called in this block, and in tasks that are begun in it.

    A thread belongs to it where it is begun with a copy of the context, as `asyncio.to_thread` does; `threading.Thread`
    and thread pools do not. Pass `run=` there.

    Args:
        run: Id of the agent's run (its thread, its conversation). Never take it from anything that a model wrote.
        turn: Opaque id of the human message that is being answered; a new one begins a turn.

    Raises:
        UsageError: `run` is empty.
    """
    if not run:
        raise UsageError("run: must not be empty")
    token = CURRENT.set(Current(run, turn, INSIDE.get()))
    try:
        yield
    finally:
        CURRENT.reset(token)


def where_here(controller: Controller) -> Where:
    """Return the run of this context; none where a governed call has begun in it since, whose calls are a child's."""
    current, inside = CURRENT.get(), INSIDE.get()
    if current is None:
        return {}
    if inside is not None and inside is not current.inside and inside.owner is controller.engine:
        return {}
    return {"run": current.run, "turn": current.turn}


# ---- govern ---------------------------------------------------------------------------------------------------------


def govern(
    fn: Callable[P, R],
    controller: Controller,
    *,
    run: str | None = None,
    name: str | None = None,
    injected: str | Sequence[str] = (),
    refusals: Refusals = "text",
    signals: Signals = (),
    bind: bool = True,
    is_async: bool | None = None,
    **policy_fields: object,
) -> Callable[P, R]:
    """Return the function with a controller around it: same name, signature and docstring, sync or async as it was.

    A call that completes gives the function's very value. Any other answer (refused, waiting, needs approval, blocked,
    halted, the function raised) is *returned*, as the text that the model may see.

    Args:
        fn: A function, method, `functools.partial` or callable object. Not a generator.
        controller: The controller.
        run: Id of the agent's run; default: that of `in_run`, else a missing run id (one warning, or an error where the
            controller is strict).
        name: The tool's name; default: the function's own.
        injected: Parameters that the framework or the author supplies and no model (a context, a client). They are
            no part of the call, need no JSON form, and keep the controller from running the function by itself. Those
            that are annotated with the context of a known framework are found by themselves.
        refusals: What is returned in the place of a value: JSON text, or the same as a dict.
        signals: Exceptions that the framework steers itself with; they pass through. Those of LangGraph, Pydantic AI,
            Strands and LlamaIndex are known.
        bind: The controller may run the function by itself, for a retry that is due. False where the name stands for
            another function in every request (a closure over a user's credentials): a retry then waits to be proposed.
        is_async: Calling it gives an awaitable; default: what the function's form says.
        **policy_fields: What is declared about the tool; default: what was declared before.

    Raises:
        UsageError: it cannot be governed, or another function is governed under this name.
        ConfigError: a policy field is wrong, a named parameter does not exist, or the function retries inside.
    """
    if refusals not in REFUSALS:
        raise UsageError("refusals: must be 'text' or 'dict'")
    outside = (injected,) if isinstance(injected, str) else tuple(injected)
    function = declared_function(fn, controller, name=name, injected=outside, is_async=is_async, fields=policy_fields)
    if bind and not function.injected:
        bind_once(controller, function)
    governed = _Governed(controller, function, run, signals, refusals)
    wrapper = _async_wrapper(governed) if function.is_async else _sync_wrapper(governed)
    return cast("Callable[P, R]", _dressed(wrapper, function, renamed=name is not None))


def declared_function(
    fn: Callable[..., object],
    controller: Controller,
    *,
    name: str | None,
    injected: tuple[str, ...] = (),
    is_async: bool | None = None,
    fields: dict[str, object],
) -> Function:
    """Return a callable as a tool, declared where there is something to declare."""
    function = Function(fn, name=name, injected=injected, is_async=is_async)
    tools = controller.engine.tools
    if fields:
        policy = tools.declare(function.name, fields, arguments=function.known_arguments)
    else:
        policy = tools.policy(function.name)
        if function.known_arguments is not None:
            tools.know(function.name, function.known_arguments)
    key = policy.idempotency_key
    if key is not None:
        hidden = (key.argument,)
        function = Function(fn, name=name, injected=injected, hidden=hidden, is_async=is_async)
    if fields and "required" not in fields:
        tools.declare(function.name, {**fields, "required": function.required})
    return function


@dataclass(frozen=True, slots=True, eq=False)
class _Governed:
    """What a wrapper needs."""

    controller: Controller
    function: Function
    run: str | None
    signals: Signals
    refusals: Refusals

    @property
    def where(self) -> Where:
        return {"run": self.run} if self.run is not None else where_here(self.controller)

    @property
    def observes(self) -> bool:
        """Only watch: nothing may change for the caller."""
        return self.controller.engine.tools.known_policy(self.function.name).mode is Mode.OBSERVE

    def given(self, reply: Reply, shot: Shot) -> object:
        """Return what the caller gets."""
        if shot.value is not None and shot.value[0] is not None and reply.value is shot.value[0]:
            # It completed; a reply makes its envelope when somebody looks at it.
            return reply.value
        if isinstance(shot.error, UsageError):
            raise shot.error
        if reply.would is not None or (shot.started and self.observes):
            if shot.error is not None:
                raise shot.error
            if shot.value is not None:
                return shot.value[0]
        found = value_of(reply, shot)
        if found is not None:
            return found[0]
        text = reply.for_model()
        # What is no value is always a JSON object.
        return text if self.refusals == "text" else json.loads(text)


def _sync_wrapper(governed: _Governed) -> Callable[..., object]:
    function, controller = governed.function, governed.controller

    def wrapper(*args: object, **kwargs: object) -> object:
        try:
            bound = function.bind(args, kwargs)
        except UsageError:
            if governed.observes:
                return function.fn(*args, **kwargs)
            raise
        shot = Shot()
        execute = executor_of(function, bound, shot, governed.signals)
        try:
            reply = call_tool(
                controller,
                function.name,
                bound.arguments,
                execute,
                shot,
                governed.signals,
                governed.where,
                at_once=on_loop(),
            )
        except Passed as passed:
            raise passed.error from None
        return governed.given(reply, shot)

    return wrapper


def _async_wrapper(governed: _Governed) -> Callable[..., Awaitable[object]]:
    function, controller = governed.function, governed.controller

    async def wrapper(*args: object, **kwargs: object) -> object:
        try:
            bound: Bound = function.bind(args, kwargs)
        except UsageError:
            if governed.observes:
                return await cast("Awaitable[object]", function.fn(*args, **kwargs))
            raise
        shot = Shot()
        execute: Executor = executor_of(function, bound, shot, governed.signals)
        try:
            reply = await acall_tool(
                controller, function.name, bound.arguments, execute, shot, governed.signals, governed.where
            )
        except Passed as passed:
            raise passed.error from None
        return governed.given(reply, shot)

    return wrapper


def _dressed(wrapper: Callable[..., object], function: Function, *, renamed: bool) -> Callable[..., object]:
    """Make the wrapper look like the function to everybody who builds a tool from it.

    Annotations are given as objects: builders resolve strings in the wrapper's module, where the names are unknown.
    """
    fn = function.fn
    is_plain = inspect.isroutine(fn)
    functools.update_wrapper(wrapper, fn, updated=("__dict__",) if is_plain else ())
    if not is_plain:
        wrapper.__doc__ = _documented(fn)
    if renamed or not is_plain:
        wrapper.__name__ = wrapper.__qualname__ = function.name
    wrapper.__signature__ = function.signature  # type: ignore[attr-defined]  # what `inspect.signature` looks for
    annotations = {p.name: p.annotation for p in function.signature.parameters.values() if p.annotation is not p.empty}
    if function.signature.return_annotation is not inspect.Signature.empty:
        annotations["return"] = function.signature.return_annotation
    wrapper.__annotations__ = annotations
    setattr(wrapper, MARK, function.name)
    return wrapper


def _documented(fn: Callable[..., object]) -> str | None:
    """Return the docstring of what a partial or a callable object calls."""
    while isinstance(fn, functools.partial):
        fn = cast("Callable[..., object]", fn.func)
    if inspect.isroutine(fn):
        return fn.__doc__
    return type(fn).__call__.__doc__ or type(fn).__doc__
