"""Put results that became ready later in the place of the answers that said so: by message id, in the graph's messages.

Results are handed out by the controller, once each. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forbear import Controller, Reply
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from forbear_adapters._kit.messages import mark_of, message_id, messages_of
from forbear_adapters._kit.toolcalls import answer_message

__all__ = ["adeliver_ready", "deliver_ready", "replacements"]

_LATER = frozenset({"pending", "needs_approval", "blocked", "stopped"})


def replacements(controller: Controller, run: str, messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Return the messages that take the place of earlier answers of this run, where their results are ready now."""
    waiting = {
        message.id: message
        for message in messages
        if isinstance(message, ToolMessage) and mark_of(message).get("answer") in _LATER
    }
    if not waiting:
        return []
    found: list[ToolMessage] = []
    for reply in controller.run(run).inbox():
        earlier = waiting.get(message_id(reply.step, reply.call_id))
        if earlier is not None:
            found.append(_in_place_of(earlier, reply))
    return found


def _in_place_of(earlier: ToolMessage, reply: Reply) -> ToolMessage:
    call = ToolCall(name=earlier.name or reply.tool, args={}, id=earlier.tool_call_id)
    message = answer_message(reply, call, step=reply.step)
    if not isinstance(message, ToolMessage):
        # A command cannot be carried out any more: its graph step is over.
        message = ToolMessage(reply.for_model(), name=call["name"], tool_call_id=earlier.tool_call_id)
    return message.model_copy(update={"id": earlier.id})


def deliver_ready(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    controller: Controller,
    *,
    messages_key: str = "messages",
    as_node: str = "tools",
) -> int:
    """Put results that became ready into the messages of an idle thread; call it before the next invocation.

    Returns:
        How many messages were replaced.
    """
    messages = messages_of(graph.get_state(config).values, messages_key)
    found = replacements(controller, _run(config), messages)
    if found:
        graph.update_state(config, {messages_key: found}, as_node=as_node)
    return len(found)


async def adeliver_ready(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    controller: Controller,
    *,
    messages_key: str = "messages",
    as_node: str = "tools",
) -> int:
    """Do what `deliver_ready` does, with an async checkpointer."""
    state = await graph.aget_state(config)
    found = replacements(controller, _run(config), messages_of(state.values, messages_key))
    if found:
        await graph.aupdate_state(config, {messages_key: found}, as_node=as_node)
    return len(found)


def _run(config: RunnableConfig) -> str:
    return str(config.get("configurable", {})["thread_id"])
