"""Messages that take the place of earlier answers because their results are ready. They are handed out once; none is sent.

Nothing is executed here, and no graph is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from forbear import Controller, Reply
from forbear.errors import StoreError
from forbear_adapters._kit.messages import mark_of, message_id
from forbear_adapters._kit.toolcalls import answer_message

__all__ = ["replacements"]

# Answers after which something may still become of the call.
_LATER: Final = frozenset({"pending", "needs_approval", "blocked", "stopped", "executed"})


def replacements(controller: Controller, run: str, messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Return the messages that take the place of earlier answers of this run, where their results are ready now."""
    waiting = {
        message.id: message
        for message in messages
        if isinstance(message, ToolMessage) and message.status == "error" and mark_of(message).get("answer") in _LATER
    }
    if not waiting:
        return []
    found: list[ToolMessage] = []
    try:
        ready = controller.run(run).inbox()
    except StoreError:
        # They stay where they are until the store can be read; the calls of this run answer for themselves.
        return []
    for reply in ready:
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
