"""One governed call of a LangGraph `ToolNode`, as a pair of wrappers around the framework's own execution.

What the controller answers is written as the message that the framework expects. A call that succeeds gives the very
message (or command) that the framework made. Nothing is decided here, and nothing pauses here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest

from forbear import Controller, Reply
from forbear.contract import Raised, Raw
from forbear.errors import ConfigError
from forbear_adapters._kit.capture import Probe, Shot, raw_of, visible_arguments, watched
from forbear_adapters._kit.lines import Line, Once
from forbear_adapters._kit.messages import MARK, Step, content_of, message_id, step_of
from forbear_adapters._kit.retries import retrying_library, without_retries
from forbear_adapters._kit.runs import inside, run_of, thread_of

__all__ = ["AExecute", "Answered", "Execute", "Gate", "Output", "Place", "unretried"]

# A ToolMessage, a Command, or a list of both: whatever the framework's own execution returns.
Output = Any
Execute = Callable[[ToolCallRequest], Output]
AExecute = Callable[[ToolCallRequest], Awaitable[Output]]
# Words with which a framework makes a model call some tool, whichever it is.
_FORCES_ANY: Final = frozenset({"any", "required"})
_MAX_WATCHED: Final = 512
_NEVER_INJECTED: Final = frozenset({"config", "run_manager", "callbacks", "self"})


class _Passed(GraphBubbleUp):
    """Carries an exception that is not a tool's answer through the controller."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _is_invalid_resume(error: BaseException) -> bool:
    """Say whether a person's answer did not fit the question of a tool: that concerns the person, not the model."""
    try:
        from langgraph.errors import is_invalid_resume
    except ImportError:  # pragma: no cover - releases before 1.2.20 do not mark such errors
        return False
    return is_invalid_resume(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the calls of one message belong."""

    run: str
    thread: str | None
    step: Step
    # "any", a tool's name, or None: what the model was made to call.
    forced: str | None = None
    # A pause can be resumed, and then the graph proposes its calls again; otherwise the controller starts them itself.
    reproposes: bool = False

    def forced_to(self, choice: str) -> Place:
        """Return the same place, with what the model was made to call."""
        return replace(self, forced=choice)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """The controller's reply to one call, and what the framework gets for it."""

    reply: Reply
    output: Output


class Gate:
    """Puts a controller between a tool node and its tools. Holds no state of any call."""

    def __init__(self, controller: Controller, *, built_at: Line | None) -> None:
        self.controller = controller
        self.once = Once(built_at)
        # Tools that were looked at, with their watched copies; the tool is kept so that its id stays its own.
        self._watched: dict[int, tuple[BaseTool, BaseTool]] = {}

    # ---- where a call belongs ---------------------------------------------------------------------------------------

    def place(
        self,
        config: Mapping[str, object],
        messages: Sequence[AnyMessage],
        calls: Sequence[ToolCall],
        *,
        forced: str | None = None,
        reproposes: bool = False,
    ) -> Place:
        """Return where the calls of one message belong; a config without a thread id is warned about once."""
        step = step_of(messages, calls)
        run, named = run_of(config, messages, step.name)
        if not named:
            self.once.warn(
                "thread",
                'no thread id: what was refused is forgotten after this invocation; pass {"configurable": '
                '{"thread_id": ...}}',
            )
        return Place(run=run, thread=thread_of(config), step=step, forced=forced, reproposes=reproposes)

    # ---- one call ---------------------------------------------------------------------------------------------------

    def answer(self, request: ToolCallRequest, execute: Execute, place: Place) -> Answered:
        """Run one call through the controller.

        Raises:
            GraphBubbleUp: the tool paused the graph; passed through untouched.
        """
        shots: list[Shot] = []
        tool = None if request.tool is None else self.see(request.tool)

        def run(**arguments: object) -> Raw:
            shot = Shot()
            shots.append(shot)
            with inside(place.thread, place.run, request.tool_call["id"] or ""):
                try:
                    shot.message = execute(_prepared(request, tool, arguments, shot))
                except Exception as error:
                    return _not_answered(error, shot, request.tool)
            return raw_of(shot, request.tool)

        try:
            reply = self.controller.call(
                request.tool_call["name"],
                request.tool_call["args"],
                execute=run,
                **_placed(request.tool_call, place),
            )
        except _Passed as passed:
            raise passed.error from None
        return self.told(reply, request.tool_call, place, shot=shots[-1] if shots else None, tool=request.tool)

    async def aanswer(self, request: ToolCallRequest, execute: AExecute, place: Place) -> Answered:
        """Run one call through the controller, in a task.

        Raises:
            GraphBubbleUp: the tool paused the graph; passed through untouched.
        """
        shots: list[Shot] = []
        tool = None if request.tool is None else self.see(request.tool)

        async def run(**arguments: object) -> Raw:
            shot = Shot()
            shots.append(shot)
            with inside(place.thread, place.run, request.tool_call["id"] or ""):
                try:
                    shot.message = await execute(_prepared(request, tool, arguments, shot))
                except Exception as error:
                    return _not_answered(error, shot, request.tool)
            return raw_of(shot, request.tool)

        try:
            reply = await self.controller.acall(
                request.tool_call["name"],
                request.tool_call["args"],
                execute=run,
                **_placed(request.tool_call, place),
            )
        except _Passed as passed:
            raise passed.error from None
        return self.told(reply, request.tool_call, place, shot=shots[-1] if shots else None, tool=request.tool)

    def propose_unparsed(self, call: ToolCall, place: Place) -> Reply:
        """Have a call decided about whose arguments did not parse; its text is what it proposes."""
        return self.controller.propose(call["name"], call["args"][""], **_where(call, place), on_broken="block")

    async def apropose_unparsed(self, call: ToolCall, place: Place) -> Reply:
        """Do what `propose_unparsed` does, in a task."""
        return await self.controller.apropose(call["name"], call["args"][""], **_where(call, place), on_broken="block")

    def told(
        self, reply: Reply, call: ToolCall, place: Place, *, shot: Shot | None = None, tool: BaseTool | None = None
    ) -> Answered:
        """Return a reply with the message that answers the call."""
        if shot is not None and (reply.ok or reply.would is not None):
            return Answered(reply, shot.message)
        return Answered(reply, answer_message(reply, call, step=place.step.name, tool=tool))

    # ---- tools ------------------------------------------------------------------------------------------------------

    def see(self, tool: BaseTool) -> BaseTool:
        """Return the watched copy of a tool, and let the controller run the tool by itself: a retry, a parked call.

        A tool that needs the graph's state, store or runtime runs only inside the graph, so it is proposed again there.

        Raises:
            ConfigError: the tool retries inside.
        """
        found = self._watched.get(id(tool))
        if found is None:
            refuse_retries(tool)
            if len(self._watched) >= _MAX_WATCHED:
                self._watched.clear()
            found = self._watched[id(tool)] = (tool, watched(tool))
            if not _needs_graph(tool):
                self.controller.bind(tool.name, _alone(tool, found[1]))
        return found[1]


def _placed(call: ToolCall, place: Place) -> dict[str, Any]:
    return {**_where(call, place), "signals": (GraphBubbleUp,), "on_broken": "block"}


def _where(call: ToolCall, place: Place) -> dict[str, Any]:
    call_id, step = call["id"] or "", place.step
    return {
        "run": place.run,
        "step": step.name,
        "call_id": call_id,
        "siblings": step.siblings,
        "truncated": call_id in step.truncated,
        "forced": place.forced is not None and place.forced in (*_FORCES_ANY, call["name"]),
        "turn": step.turn,
        "reproposes": place.reproposes,
    }


def _prepared(
    request: ToolCallRequest, tool: BaseTool | None, arguments: Mapping[str, object], shot: Shot
) -> ToolCallRequest:
    """Return the request that is executed: exactly the arguments that were decided about, on the watched tool."""
    call = request.tool_call
    if arguments != call["args"]:
        call = cast("ToolCall", {**call, "args": dict(arguments)})
    if tool is None:
        return request.override(tool_call=call)
    return request.override(tool_call=call, tool=cast("BaseTool", Probe(tool, shot)))


def _not_answered(error: Exception, shot: Shot, tool: BaseTool | None) -> Raw:
    """Return what an exception that left the framework's execution means; the framework's own signals go on."""
    if isinstance(error, GraphBubbleUp):
        raise error
    if _is_invalid_resume(error):
        raise _Passed(error)
    if shot.error is not None:
        return raw_of(shot, tool)
    if shot.value is not None or shot.message is not None:
        # The tool ran; what it returned was not usable for the framework.
        return Raised(error)
    # The call could not be built (no store, no such state field): no byte has left.
    return Raised(error, phase="build")


def answer_message(reply: Reply, call: ToolCall, *, step: str, tool: BaseTool | None = None) -> Output:
    """Return the message that answers a call: a recorded result like a fresh one, all else as the controller's text."""
    call_id = call["id"] or ""
    if reply.ok and reply.value is not None:
        value = reply.value
        if not isinstance(value, (str, int, float, bool, list, dict, tuple)):
            # The very command that the tool returned in this process.
            return value
        if isinstance(value, list) and value and not _is_data(cast("list[object]", value)):
            return cast("list[object]", value)
        artifact = {"structured_content": value} if _is_structured(tool, value) else None
        return ToolMessage(content_of(value), name=call["name"], tool_call_id=call_id, artifact=artifact)
    marked: dict[str, object] = {"answer": str(reply.answer), "request_id": reply.request_id}
    if reply.ticket is not None:
        marked["ticket"] = reply.ticket
    if reply.answer == "halted":
        marked["for_user"] = reply.for_user()
    return ToolMessage(
        reply.for_model(),
        id=message_id(step, call_id),
        name=call["name"],
        tool_call_id=call_id,
        status="success" if reply.ok else "error",
        response_metadata={MARK: marked},
    )


def _is_data(items: list[object]) -> bool:
    return all(isinstance(item, (str, int, float, bool, list, dict, type(None))) for item in items)


def _is_structured(tool: BaseTool | None, value: object) -> bool:
    return tool is not None and tool.response_format == "content_and_artifact" and isinstance(value, dict)


# ---- tools ----------------------------------------------------------------------------------------------------------


def refuse_retries(tool: BaseTool) -> None:
    """Check that a tool does not repeat itself.

    Raises:
        ConfigError: its function is wrapped by a retry library.
    """
    for function in _functions(tool):
        library = retrying_library(function)
        if library is not None:
            raise ConfigError(
                f"tool {tool.name!r}: retries inside ({library}), which multiplies attempts; take the decorator off, or "
                'pass inner_retries="unwrap"'
            )


def unretried(tool: BaseTool) -> BaseTool:
    """Return a tool whose function is called once: the retrying layer is taken off in a copy.

    Raises:
        ConfigError: another decorator lies on top of the retry, and would be lost with it.
    """
    if not isinstance(tool, (StructuredTool, Tool)):
        return tool
    changes: dict[str, object] = {}
    for name, function in (("func", tool.func), ("coroutine", tool.coroutine)):
        if function is None or retrying_library(function) is None:
            continue
        inner = without_retries(cast("Callable[..., object]", function))
        if inner is None:
            raise ConfigError(f"tool {tool.name!r}: a decorator lies on top of its retry; take the retry off by hand")
        changes[name] = inner
    return tool.model_copy(update=changes) if changes else tool


def _functions(tool: BaseTool) -> list[Callable[..., object]]:
    if isinstance(tool, (StructuredTool, Tool)):
        found = (tool.func, tool.coroutine)
        return [cast("Callable[..., object]", function) for function in found if function is not None]
    return [tool.invoke, tool.ainvoke]


def _needs_graph(tool: BaseTool) -> bool:
    """Say whether a tool's function has parameters that neither the model nor LangChain fills."""
    visible = visible_arguments(tool)
    if visible is None or not isinstance(tool, (StructuredTool, Tool)):
        return True
    for function in _functions(tool):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.name not in visible and parameter.name not in _NEVER_INJECTED:
                return True
    return False


def _alone(tool: BaseTool, copy: BaseTool) -> Callable[..., object]:
    """Return how the controller runs a tool outside the graph."""
    has_sync = not isinstance(tool, (StructuredTool, Tool)) or tool.func is not None

    def execute(**arguments: object) -> Raw | Awaitable[Raw]:
        call = {"type": "tool_call", "name": tool.name, "args": arguments, "id": "forbear"}
        if not has_sync or (_on_loop() and _has_async(tool)):
            return _aexecute(tool, copy, call)
        shot = Shot()
        try:
            shot.message = Probe(copy, shot).invoke(call)
        except Exception as error:
            return _not_answered(error, shot, tool)
        return raw_of(shot, tool)

    return execute


async def _aexecute(tool: BaseTool, copy: BaseTool, call: dict[str, object]) -> Raw:
    shot = Shot()
    try:
        shot.message = await Probe(copy, shot).ainvoke(call)
    except Exception as error:
        return _not_answered(error, shot, tool)
    return raw_of(shot, tool)


def _has_async(tool: BaseTool) -> bool:
    return not isinstance(tool, (StructuredTool, Tool)) or tool.coroutine is not None


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
