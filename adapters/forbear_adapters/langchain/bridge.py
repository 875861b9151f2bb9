"""`RecoveryMiddleware`: a controller around every tool call of a `create_agent` agent, as the layer next to the tool.

Each call is a task of its own there, so each pauses on its own. Nothing about a recovery class is decided here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime

from forbear import Controller, Operator
from forbear.errors import ConfigError, UsageError
from forbear_adapters._kit.lines import user_line
from forbear_adapters._kit.messages import MARK, messages_of
from forbear_adapters._kit.pause import Decision
from forbear_adapters._kit.people import ask_about, earlier_edit, edited, may_pause, operator_of, put
from forbear_adapters._kit.ready import replacements
from forbear_adapters._kit.runs import run_of
from forbear_adapters._kit.toolcalls import Answered, Gate, Output, Place, config_of
from forbear_adapters.langchain.mapping import forced_by, halt_notice

__all__ = ["RecoveryMiddleware"]

_KEY: Final = "messages"
# Proposals in which a call waits for a person and there is nothing to ask: somebody answered since, or it is a question
# that is answered elsewhere.
_MAX_UNASKED: Final = 1
# Messages whose tool choice is remembered.
_MAX_FORCED: Final = 1024


class RecoveryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Governs every tool call of an agent. Put it last in `middleware`, and on every sub-agent as well.

    A halted run ends before the next model call, with a last message for the person. Results that became ready take the
    place of their earlier answers before the model reads them. Approvals pause the graph; see `RecoveryToolNode` of
    `forbear_adapters.langgraph` for what an answer looks like.

    Args:
        controller: The controller that decides; several agents may share one.
        operator: Takes the answers that come in with a resume; default: one on the controller's store. Where the store
            has an operator token, pass one that has it, or answers come from elsewhere (`forbear approve`).
        tools: The agent's tools again, so that what was due before a restart is run before their first call. They are
            not added to the agent.
    """

    def __init__(
        self, controller: Controller, *, operator: Operator | None = None, tools: Sequence[BaseTool] = ()
    ) -> None:
        super().__init__()
        self._gate: Final = Gate(controller, built_at=user_line())
        for tool in tools:
            self._gate.see(tool)
        self._operator: Final = operator_of(controller, operator, self._gate.once)
        self._forced: Final[OrderedDict[str, str]] = OrderedDict()

    # ---- tool calls -------------------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Output]) -> Output:
        """Run one call through the controller; pause where a person is needed.

        Raises:
            ConfigError: another middleware lies between this one and the tool.
        """
        place = self._place(request, handler)
        paused, unasked, edits = False, 0, set[str]()
        while True:
            try:
                answered = self._gate.answer(request, handler, place)
            except GraphInterrupt as signal:
                raise _both(request, signal, paused=paused) from None
            earlier = earlier_edit(config_of(request), request.tool_call, answered.reply)
            if earlier is not None and earlier.prompt.ticket not in edits:
                edits.add(earlier.prompt.ticket)
                request = _as_edited(request, [earlier])
                continue
            if not _waits(answered, place) or unasked > _MAX_UNASKED:
                return answered.output
            prompts = ask_about(self._operator, [(request.tool_call, answered.reply)])
            if prompts:
                paused = True
                request = _as_edited(request, put(self._operator, prompts, self._gate.once))
            else:
                unasked += 1

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Output]]
    ) -> Output:
        """Do what `wrap_tool_call` does, in a task."""
        place = self._place(request, handler)
        paused, unasked, edits = False, 0, set[str]()
        while True:
            try:
                answered = await self._gate.aanswer(request, handler, place)
            except GraphInterrupt as signal:
                raise _both(request, signal, paused=paused) from None
            earlier = earlier_edit(config_of(request), request.tool_call, answered.reply)
            if earlier is not None and earlier.prompt.ticket not in edits:
                edits.add(earlier.prompt.ticket)
                request = _as_edited(request, [earlier])
                continue
            if not _waits(answered, place) or unasked > _MAX_UNASKED:
                return answered.output
            prompts = ask_about(self._operator, [(request.tool_call, answered.reply)])
            if prompts:
                paused = True
                request = _as_edited(request, put(self._operator, prompts, self._gate.once))
            else:
                unasked += 1

    def _place(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], object]) -> Place:
        if getattr(handler, "__module__", None) != "langgraph.prebuilt.tool_node":
            raise ConfigError(
                "RecoveryMiddleware: must be the last middleware of the list; a layer between it and the tool could "
                "repeat the call unseen"
            )
        config = config_of(request)
        place = self._gate.place(
            config, messages_of(request.state, _KEY), [request.tool_call], reproposes=may_pause(config)
        )
        forced = self._forced.get(place.step.name)
        return place if forced is None else place.forced_to(forced)

    # ---- model calls ------------------------------------------------------------------------------------------------

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End a halted run; otherwise put results that became ready in their places."""
        messages = cast("Sequence[AnyMessage]", state[_KEY])
        notice = halt_notice(messages)
        if notice is not None:
            said = AIMessage(notice, response_metadata={MARK: {"answer": "halted"}})
            return {"jump_to": "end", _KEY: [said]}
        run, _ = run_of(get_config(), messages, "")
        found = replacements(self._gate.controller, run, messages)
        return {_KEY: found} if found else None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do what `before_model` does."""
        return self.before_model(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Note what the model was made to call."""
        response = handler(request)
        self._note_forced(request, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Note what the model was made to call."""
        response = await handler(request)
        self._note_forced(request, response)
        return response

    def _note_forced(self, request: ModelRequest[Any], response: ModelResponse[Any]) -> None:
        forced = forced_by(request.tool_choice)
        if forced is None:
            return
        for message in response.result:
            if message.id:
                self._forced[message.id] = forced
        while len(self._forced) > _MAX_FORCED:
            self._forced.popitem(last=False)


def _waits(answered: Answered, place: Place) -> bool:
    """Say whether a call waits for a person and the graph can be paused for one."""
    return answered.reply.answer == "needs_approval" and place.reproposes


def _as_edited(request: ToolCallRequest, taken: Sequence[Decision]) -> ToolCallRequest:
    """Return the request as a person changed it, where one did."""
    said = next((one for one in taken if one.word == "edit"), None)
    if said is None:
        return request
    # The runtime is generic in the application's own types, which do not matter here.
    tools: list[BaseTool] = request.runtime.tools  # pyright: ignore[reportUnknownMemberType]
    return edited(request, said, {tool.name: tool for tool in tools})


def _both(request: ToolCallRequest, signal: GraphInterrupt, *, paused: bool) -> Exception:
    """Return what goes on where a tool paused by itself: LangGraph tells two pauses of one task apart by order only."""
    if not paused:
        return signal
    return UsageError(
        f"tool {request.tool_call['name']!r}: pauses by itself after its approval was asked for in the same task; let one "
        "of both ask"
    )
