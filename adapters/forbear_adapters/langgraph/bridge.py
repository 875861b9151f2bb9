"""`RecoveryToolNode`: LangGraph's `ToolNode` with a controller around every call, one pause for all approvals of a message.

The node overrides `invoke` and `ainvoke` and hands its gate to `ToolNode` as the innermost wrapper; parsing, injection of
state, store and runtime, formatting and commands stay LangGraph's. Nothing about a recovery class is decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, TypedDict, Unpack

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest

from forbear import Controller, Operator, Reply
from forbear.errors import ConfigError, RunHalted, UsageError
from forbear_adapters._kit.lines import user_line
from forbear_adapters._kit.messages import MARK, is_halted, messages_of
from forbear_adapters._kit.pause import Decision, Prompt
from forbear_adapters._kit.people import ask_about, earlier_edit, edited, may_pause, operator_of, put
from forbear_adapters._kit.ready import replacements
from forbear_adapters._kit.toolcalls import Answered, Gate, Output, Place, config_of
from forbear_adapters._kit.tools import unretried

__all__ = ["RecoveryToolNode"]

Wrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Output]], Output]
AWrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Output]]], Awaitable[Output]]


class NodeOptions(TypedDict, total=False):
    """What `ToolNode` takes as well, with its defaults."""

    name: str
    tags: list[str] | None
    # Whatever it makes of an error, the controller sees the error itself, and the model reads the controller's text.
    handle_tool_errors: bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]


class Batch:
    """The calls of one invocation of the node: what was answered, what a person has to be asked, what paused."""

    def __init__(self) -> None:
        self.place: Place | None = None
        self.state: object = ()
        self.config: Mapping[str, object] = {}
        self.pausable = False
        self.paused = False
        # Rounds in which a call waited for a person and there was nothing to ask.
        self.unasked = 0
        # In the order in which they ended; a call is found by its own mapping, which LangGraph hands over unchanged.
        self.answered: list[tuple[ToolCall, Answered]] = []
        # The requests that were answered, for what is kept where the message pauses.
        self.requests: list[ToolCallRequest] = []
        self.signals: list[tuple[ToolCall, GraphBubbleUp]] = []
        self.errors: list[Exception] = []
        # What a person wrote in the place of a call, by the call's id.
        self.edits: list[Decision] = []

    @property
    def asked(self) -> list[tuple[ToolCall, Answered]]:
        """Return the calls that wait for a person, in the order of the message."""
        asked = [one for one in self.answered if one[1].reply.answer == "needs_approval"]
        if len(asked) < 2:
            return asked
        order = () if self.place is None else self.place.step.calls
        return sorted(asked, key=lambda one: order.index(one[0]["id"]) if one[0]["id"] in order else len(order))

    @property
    def halted(self) -> Reply | None:
        """Return the answer that ended the run's tool use."""
        return next((one.reply for _, one in self.answered if one.reply.answer == "halted"), None)

    def find(self, call: ToolCall) -> Answered | None:
        """Return what was answered to this very call in an earlier round."""
        return next((one for known, one in self.answered if known is call), None)

    def reopen(self, calls: Sequence[ToolCall]) -> None:
        """Forget the answers to calls that are proposed again now."""
        self.answered = [one for one in self.answered if not any(one[0] is call for call in calls)]


_MAX_UNASKED: Final = 1

_BATCH: ContextVar[Batch | None] = ContextVar("forbear_batch", default=None)


class RecoveryToolNode(ToolNode):
    """Runs the tool calls of the last AI message under a controller. Takes the place of `ToolNode`.

    A run is the thread id of the config, a turn begins with each human message, a step is one AI message. Calls that
    may run run as in `ToolNode`; a call that succeeds gives the very message that `ToolNode` would give. Calls that need
    a person are asked about together, in one `interrupt()`, after the others have run. Resume with
    ``Command(resume={ticket: {"decision": "approve", "fingerprint": ...}})``; an answer that does not name the ticket and
    the fingerprint of an open question answers nothing, and the question is asked again.

    Put `recovery_condition` behind it instead of a static edge, so that a halted run ends.

    Args:
        tools: Tools or functions, as for `ToolNode`.
        controller: The controller that decides; several nodes and graphs may share one.
        operator: Takes the answers that come in with a resume; default: one on the controller's store. Where the store
            has an operator token, pass one that has it, or answers come from elsewhere (`forbear approve`).
        tool_choice: What the model is made to call (``"any"`` or a tool's name), where it was bound with a tool choice.
        on_halt: ``"end"`` adds a last message for the person; ``"raise"`` raises `RunHalted`.
        inner_retries: A tool whose function is wrapped by a retry library is refused, or unwrapped (``"unwrap"``).
        wrap_tool_call: Your own wrapper, around ours; needs `awrap_tool_call` beside it.
        **options: Everything else that `ToolNode` takes.

    Raises:
        ConfigError: a tool retries inside, or one of the two wrappers is missing.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., object]],
        controller: Controller,
        *,
        operator: Operator | None = None,
        tool_choice: str | None = None,
        on_halt: Literal["end", "raise"] = "end",
        inner_retries: Literal["refuse", "unwrap"] = "refuse",
        messages_key: str = "messages",
        wrap_tool_call: Wrapper | None = None,
        awrap_tool_call: AWrapper | None = None,
        **options: Unpack[NodeOptions],
    ) -> None:
        if (wrap_tool_call is None) != (awrap_tool_call is None):
            raise ConfigError(
                "wrap_tool_call and awrap_tool_call: must both be given, a call must never pass one of them"
            )
        built = [tool if isinstance(tool, BaseTool) else make_tool(tool) for tool in tools]
        if inner_retries == "unwrap":
            built = [unretried(tool) for tool in built]
        self._gate: Final = Gate(controller, built_at=user_line())
        for tool in built:
            self._gate.see(tool)
        self._operator: Final = operator_of(controller, operator, self._gate.once)
        self._tool_choice: Final = tool_choice
        self._on_halt: Final = on_halt
        self._key: Final = messages_key
        # ToolNode's own annotations of the wrappers leave out lists of commands, which it takes.
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            built,
            messages_key=messages_key,
            wrap_tool_call=_outer(wrap_tool_call, self._wrapped),
            awrap_tool_call=_aouter(awrap_tool_call, self._awrapped),
            **options,
        )

    # ---- one invocation of the node ---------------------------------------------------------------------------------

    def invoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the calls of the last AI message; pause where a person is needed."""
        batch = Batch()
        token = _BATCH.set(batch)
        try:
            while True:
                output = super().invoke(input, config, **kwargs)
                if not self._goes_on(batch):
                    break
            self._answer_unparsed(batch)
        finally:
            _BATCH.reset(token)
        return self._finished(batch, output)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the calls of the last AI message, in tasks; pause where a person is needed."""
        batch = Batch()
        token = _BATCH.set(batch)
        try:
            while True:
                output = await super().ainvoke(input, config, **kwargs)
                if not self._goes_on(batch):
                    break
            await self._aanswer_unparsed(batch)
        finally:
            _BATCH.reset(token)
        return self._finished(batch, output)

    # ---- one call, inside ToolNode ----------------------------------------------------------------------------------

    def _wrapped(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Output]) -> Output:
        batch = self._batch(request)
        known = batch.find(request.tool_call)
        if known is not None:
            return known.output
        try:
            answered = self._gate.answer(self._edited(batch, request), execute, self._place(batch, request))
        except Exception as error:  # noqa: BLE001 - raised by the node, after the other calls of the message ended
            return _held_back(batch, request.tool_call, error)
        batch.answered.append((request.tool_call, answered))
        batch.requests.append(request)
        return answered.output

    async def _awrapped(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Output]]
    ) -> Output:
        batch = self._batch(request)
        known = batch.find(request.tool_call)
        if known is not None:
            return known.output
        try:
            answered = await self._gate.aanswer(self._edited(batch, request), execute, self._place(batch, request))
        except Exception as error:  # noqa: BLE001 - raised by the node, after the other calls of the message ended
            return _held_back(batch, request.tool_call, error)
        batch.answered.append((request.tool_call, answered))
        batch.requests.append(request)
        return answered.output

    def _batch(self, request: ToolCallRequest) -> Batch:
        batch = _BATCH.get()
        if batch is None:
            raise UsageError(f"tool {request.tool_call['name']!r}: was not called through the node's invoke or ainvoke")
        return batch

    def _edited(self, batch: Batch, request: ToolCallRequest) -> ToolCallRequest:
        """Return the request as a person edited it."""
        said = next((one for one in reversed(batch.edits) if one.prompt.call_id == request.tool_call["id"]), None)
        return request if said is None else edited(request, said, self.tools_by_name)

    def _place(self, batch: Batch, request: ToolCallRequest) -> Place:
        if batch.place is None:
            batch.state = request.state
            config = batch.config = config_of(request)
            batch.pausable = may_pause(config)
            batch.place = self._gate.place(
                config,
                messages_of(request.state, self._key),
                [request.tool_call],
                forced=self._tool_choice,
                reproposes=batch.pausable,
            )
        return batch.place

    # ---- pausing ----------------------------------------------------------------------------------------------------

    def _goes_on(self, batch: Batch) -> bool:
        """Raise what the calls of this round raised; say whether some are to be proposed once more, after a person."""
        if batch.errors:
            raise batch.errors[0]
        if batch.signals:
            self._keep(batch)
            raise self._signal(batch)
        if not batch.pausable:
            return False
        return self._edited_before(batch) or (bool(batch.asked) and self._ask(batch))

    def _edited_before(self, batch: Batch) -> bool:
        """Take up again what a person wrote in the place of a call before this resume."""
        found = {
            id(call): said
            for call, one in batch.answered
            if (said := earlier_edit(batch.config, call, one.reply)) is not None
            and not any(known.prompt.ticket == said.prompt.ticket for known in batch.edits)
        }
        batch.edits.extend(found.values())
        batch.reopen([call for call, _ in batch.answered if id(call) in found])
        return bool(found)

    def _signal(self, batch: Batch) -> Exception:
        """Return what goes on to LangGraph: the pause of the one tool that paused."""
        paused = [call["name"] for call, signal in batch.signals if isinstance(signal, GraphInterrupt)]
        if len(paused) > 1:
            # LangGraph hands out the answers of one task by order of arrival, so one tool would get the other's.
            return UsageError(
                f"tools {paused}: more than one tool of a message paused by itself in one task; send each call to the "
                "node on its own (Send), or let the approval rule of their policies ask"
            )
        if paused and batch.paused:
            return UsageError(
                f"tool {paused[0]!r}: pauses by itself after its approval was asked for in the same task; let one of both ask"
            )
        return batch.signals[0][1]

    def _ask(self, batch: Batch) -> bool:
        """Ask about every call that waits for a person, in one interrupt; take the answers that name what they answer.

        Returns:
            Whether the calls are to be proposed again; False = nobody can be asked about them here.
        """
        asked = batch.asked
        prompts = ask_about(self._operator, [(call, one.reply) for call, one in asked])
        if prompts:
            self._put(batch, prompts)
        else:
            # Somebody answered since; or it is a question that is answered elsewhere.
            batch.unasked += 1
            if batch.unasked > _MAX_UNASKED:
                return False
        batch.reopen([call for call, _ in asked])
        return True

    def _keep(self, batch: Batch) -> None:
        """Keep what the calls beside a pause returned: the resume proposes every call of the message again."""
        place = batch.place
        if place is None or not batch.pausable:
            return
        for request in batch.requests:
            answered = batch.find(request.tool_call)
            if answered is not None:
                self._gate.keep(answered, request, place)

    def _put(self, batch: Batch, prompts: Sequence[Prompt]) -> None:
        batch.paused = True
        self._keep(batch)
        taken = put(self._operator, prompts, self._gate.once)
        batch.edits.extend(said for said in taken if said.word == "edit")

    # ---- what the graph gets ----------------------------------------------------------------------------------------

    def _answer_unparsed(self, batch: Batch) -> None:
        """Answer the calls of the message that did not parse: a provider wants an answer to each."""
        place = batch.place
        for call in _unparsed(place):
            assert place is not None
            reply = self._gate.propose_unparsed(call, place)
            batch.answered.append((call, self._gate.told(reply, call, place)))

    async def _aanswer_unparsed(self, batch: Batch) -> None:
        place = batch.place
        for call in _unparsed(place):
            assert place is not None
            reply = await self._gate.apropose_unparsed(call, place)
            batch.answered.append((call, self._gate.told(reply, call, place)))

    def _finished(self, batch: Batch, output: Any) -> Any:
        """Add to the node's output what is not an answer to a call that LangGraph knows."""
        place = batch.place
        if place is None:
            return output
        added: list[ToolMessage | AIMessage] = []
        if place.step.unparsed:
            unparsed = {call_id for call_id, _, _ in place.step.unparsed}
            added = [one.output for call, one in batch.answered if call["id"] in unparsed]
        if _is_update(output):
            messages = messages_of(batch.state, self._key)
            added.extend(replacements(self._gate.controller, place.run, messages))
        halted = batch.halted
        if halted is not None:
            if is_halted(messages_of(batch.state, self._key), skip=place.step.name):
                self._gate.once.warn(
                    "edge",
                    "the run is halted and the model was called again: put recovery_condition behind the tool node "
                    "instead of a static edge",
                )
            if self._on_halt == "raise":
                raise RunHalted(halted.for_user())
            added.append(AIMessage(halted.for_user(), response_metadata={MARK: {"answer": "halted"}}))
        return _extended(output, added, self._key) if added else output


def _outer(wrapper: Wrapper | None, gate: Wrapper) -> Wrapper:
    """Return the gate, with the application's own wrapper around it."""
    if wrapper is None:
        return gate
    return lambda request, execute: wrapper(request, lambda inner: gate(inner, execute))


def _aouter(wrapper: AWrapper | None, gate: AWrapper) -> AWrapper:
    if wrapper is None:
        return gate
    return lambda request, execute: wrapper(request, lambda inner: gate(inner, execute))


def _held_back(batch: Batch, call: ToolCall, error: Exception) -> ToolMessage:
    """Keep what a call raised until all calls of the message have ended; the returned message is never used."""
    if isinstance(error, GraphBubbleUp):
        batch.signals.append((call, error))
    else:
        batch.errors.append(error)
    return ToolMessage("", name=call["name"], tool_call_id=call["id"] or "", status="error")


def _unparsed(place: Place | None) -> list[ToolCall]:
    if place is None:
        return []
    return [ToolCall(name=name, args={"": text}, id=call_id) for call_id, name, text in place.step.unparsed]


def _extended(output: Any, added: Sequence[ToolMessage | AIMessage], key: str) -> Any:
    """Return a tool node's output with messages added, in whichever of its three forms it is."""
    if _is_update(output):
        return {**output, key: [*output[key], *added]}
    if all(isinstance(one, ToolMessage) for one in output):
        return [*output, *added]
    return [*output, {key: list(added)}]


def _is_update(output: Any) -> bool:
    return isinstance(output, dict)
