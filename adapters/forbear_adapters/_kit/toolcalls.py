"""One governed call of a LangGraph `ToolNode`, as a pair of wrappers around the framework's own execution.

What the controller answers is written as the message that the framework expects. A call that succeeds gives the very
message (or command) that the framework made. Nothing is decided here, and nothing pauses here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest

from forbear import Controller, Reply
from forbear.contract import Raw
from forbear.errors import StoreError
from forbear_adapters._kit.capture import Passed, Probe, Shot, not_answered, raw_of, watched
from forbear_adapters._kit.lines import Line, Once
from forbear_adapters._kit.messages import MARK, Step, content_of, message_id, step_of
from forbear_adapters._kit.runs import inside, run_of, thread_of
from forbear_adapters._kit.spelling import Schema, argument_names, schema_of, spelled
from forbear_adapters._kit.tools import Alone, needs_graph, refuse_retries

__all__ = ["AExecute", "Answered", "Execute", "Gate", "Output", "Place", "answer_message", "config_of"]

# A ToolMessage, a Command, or a list of both: whatever the framework's own execution returns.
Output = Any
Execute = Callable[[ToolCallRequest], Output]
AExecute = Callable[[ToolCallRequest], Awaitable[Output]]
# Words with which a framework makes a model call some tool, whichever it is.
_FORCES_ANY: Final = frozenset({"any", "required"})
_DATA: Final = (str, int, float, bool, list, dict, type(None))
_MAX_WATCHED: Final = 512


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
        self._watched: dict[int, tuple[BaseTool, BaseTool, Schema | None]] = {}
        # How the controller runs them by itself, by the id of the tool.
        self._alone: dict[int, Alone] = {}

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
        if request.tool is not None:
            self._propose_in(request.tool, place.run)

        def run(**arguments: object) -> Raw:
            shot = Shot()
            shots.append(shot)
            with inside(place.thread, place.run, request.tool_call["id"] or ""):
                try:
                    shot.message = execute(_prepared(request, tool, arguments, shot))
                except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
                    return not_answered(error, shot, request.tool)
            return raw_of(shot, request.tool)

        try:
            reply = self.controller.call(
                request.tool_call["name"],
                self._spelled(request),
                execute=run,
                **_placed(request.tool_call, place),
            )
        except Passed as passed:
            raise passed.error from None
        return self.told(reply, request.tool_call, place, shot=shots[-1] if shots else None, tool=request.tool)

    async def aanswer(self, request: ToolCallRequest, execute: AExecute, place: Place) -> Answered:
        """Run one call through the controller, in a task.

        Raises:
            GraphBubbleUp: the tool paused the graph; passed through untouched.
        """
        shots: list[Shot] = []
        tool = None if request.tool is None else self.see(request.tool)
        if request.tool is not None:
            self._propose_in(request.tool, place.run)

        async def run(**arguments: object) -> Raw:
            shot = Shot()
            shots.append(shot)
            with inside(place.thread, place.run, request.tool_call["id"] or ""):
                try:
                    shot.message = await execute(_prepared(request, tool, arguments, shot))
                except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
                    return not_answered(error, shot, request.tool)
            return raw_of(shot, request.tool)

        try:
            reply = await self.controller.acall(
                request.tool_call["name"],
                self._spelled(request),
                execute=run,
                **_placed(request.tool_call, place),
            )
        except Passed as passed:
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
        """Return a reply with the message that answers the call.

        Raises:
            Exception: the tool is only observed, and this is what leaves the framework without us.
        """
        if shot is not None and (reply.ok or self._is_observed(call["name"])):
            if shot.raised is not None:
                raise shot.raised
            return Answered(reply, shot.message)
        return Answered(reply, answer_message(reply, call, step=place.step.name, tool=tool))

    def keep(self, answered: Answered, request: ToolCallRequest, place: Place) -> None:
        """Keep what a call returned for the resume of a paused message, where the record gives the very same message.

        What is not kept (an artifact, a command, a large result) runs again there, if it is a read.
        """
        reply, output = answered.reply, answered.output
        if not reply.ok or not isinstance(output, ToolMessage) or output.artifact is not None:
            return
        again: object = answer_message(reply, request.tool_call, step=place.step.name, tool=request.tool)
        if not isinstance(again, ToolMessage) or (again.content, again.status) != (output.content, output.status):
            return
        # A store that cannot be written is told about by the next decision; the read then runs again.
        with suppress(StoreError):
            self.controller.keep(
                request.tool_call["name"], self._spelled(request), reply.value, **_where(request.tool_call, place)
            )

    def _is_observed(self, tool: str) -> bool:
        """Say whether a tool is only observed: then nothing that its caller gets may differ."""
        return self.controller.engine.tools.known_policy(tool).mode == "observe"

    # ---- tools ------------------------------------------------------------------------------------------------------

    def see(self, tool: BaseTool) -> BaseTool:
        """Return the watched copy of a tool, and let the controller run the tool by itself: a retry, a parked call.

        A tool that needs the graph's state, store or runtime runs only inside the graph, so it is proposed again there.

        Raises:
            ConfigError: the tool retries inside, or its policy names an argument that it does not have.
        """
        found = self._watched.get(id(tool))
        if found is None:
            refuse_retries(tool)
            names = argument_names(tool)
            if names is not None:
                self.controller.engine.tools.know(tool.name, names)
            if len(self._watched) >= _MAX_WATCHED:
                self._watched.clear()
                self._alone.clear()
            found = self._watched[id(tool)] = (tool, watched(tool), schema_of(tool))
            if not needs_graph(tool):
                self._bind(Alone(tool, found[1]))
        return found[1]

    def _bind(self, mine: Alone) -> None:
        """Let the controller run a tool by itself.

        Where another node has another tool under its name (a closure over a user's credentials), each runs for the runs
        that have proposed it, and no other.
        """
        tools, name = self.controller.engine.tools, mine.tool.name
        self._alone[id(mine.tool)] = mine
        held = tools.executor(name)
        if tools.varies(name):
            return
        if isinstance(held, Alone) and not held.does_as(mine):
            tools.bind_in(name, dict.fromkeys(held.runs, held))
            return
        if isinstance(held, Alone):
            mine.runs = held.runs
        self.controller.bind(name, mine)

    def _propose_in(self, tool: BaseTool, run: str) -> None:
        """Note which run proposes a tool, for the case that its name stands for another one elsewhere."""
        mine = self._alone.get(id(tool))
        if mine is None:
            return
        mine.is_of(run)
        tools = self.controller.engine.tools
        if tools.varies(tool.name) and tools.executor(tool.name, run) is not mine:
            tools.bind_in(tool.name, {run: mine})

    def _spelled(self, request: ToolCallRequest) -> Mapping[str, object]:
        """Return the arguments that the tool's function would get: by them a call is told apart."""
        arguments: Mapping[str, object] = request.tool_call["args"]
        if request.tool is None:
            return arguments
        self.see(request.tool)
        return spelled(self._watched[id(request.tool)][2], arguments)


def config_of(request: ToolCallRequest) -> Mapping[str, object]:
    """Return the config that a call runs under."""
    # The runtime is generic in the application's own types, which do not matter here.
    return cast("Mapping[str, object]", request.runtime.config)  # pyright: ignore[reportUnknownMemberType]


def _placed(call: ToolCall, place: Place) -> dict[str, Any]:
    return {**_where(call, place), "signals": (GraphBubbleUp,), "on_broken": "block"}


def _where(call: ToolCall, place: Place) -> dict[str, Any]:
    call_id, step = call["id"] or "", place.step
    return {
        "run": place.run,
        "step": step.name,
        "call_id": call_id,
        "siblings": len(step.calls),
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
    probe = None if tool is None else cast("BaseTool", Probe(tool, shot))
    # What `override` does, without its cost.
    return ToolCallRequest(
        call,
        probe,
        cast("object", request.state),
        request.runtime,  # pyright: ignore[reportUnknownMemberType]
    )


def answer_message(reply: Reply, call: ToolCall, *, step: str, tool: BaseTool | None = None) -> Output:
    """Return the message that answers a call: a recorded result like a fresh one, all else as the controller's text."""
    call_id = call["id"] or ""
    if reply.ok and reply.value is not None:
        value: object = reply.value
        if not _is_data(value):
            # The very command (or commands) that the tool returned in this process.
            return value
        artifact = {"structured_content": value} if _is_structured(tool, value) else None
        # LangChain's own annotation of content is narrower than what its tools produce.
        content = cast("str | list[str | dict[Any, Any]]", content_of(value))
        return ToolMessage(content, name=call["name"], tool_call_id=call_id, artifact=artifact)
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


def _is_data(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, _DATA) for item in cast("Sequence[object]", value))
    return isinstance(value, _DATA)


def _is_structured(tool: BaseTool | None, value: object) -> bool:
    return tool is not None and tool.response_format == "content_and_artifact" and isinstance(value, dict)
