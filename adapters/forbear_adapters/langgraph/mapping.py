"""Translate between LangGraph's state and the controller's words: pure functions, no controller and no graph here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.tool import ToolCall

from forbear_adapters._kit.messages import is_halted, messages_of

__all__ = ["calls_of", "recovery_condition"]


def recovery_condition(
    state: list[AnyMessage] | dict[str, Any] | object, messages_key: str = "messages"
) -> Literal["model", "__end__"]:
    """Route after the tools: back to the model, or to the end where the run's tool use is over.

    It stands where ``add_edge("tools", "model")`` stood: a node alone cannot end a run through a static edge. For a
    model node of another name pass a path map: ``add_conditional_edges("tools", recovery_condition, {"model": "agent",
    END: END})``.
    """
    return "__end__" if is_halted(messages_of(state, messages_key)) else "model"


def calls_of(given: object, messages_key: str) -> tuple[Sequence[ToolCall], object]:
    """Return the calls that a tool node is given, and the state that they were given with.

    A tool node takes a state with messages, a list of messages, a list of calls, or one call with its state (what
    ``Send`` carries).
    """
    if isinstance(given, list) and given and _is_call(cast("list[object]", given)[-1]):
        return cast("list[ToolCall]", given), ()
    if isinstance(given, Mapping):
        members = cast("Mapping[str, object]", given)
        if members.get("__type") == "tool_call_with_context":
            return [cast("ToolCall", members["tool_call"])], members["state"]
    messages = messages_of(given, messages_key)
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message.tool_calls, cast("object", given)
    return (), cast("object", given)


def _is_call(item: object) -> bool:
    return isinstance(item, dict) and cast("dict[str, object]", item).get("type") == "tool_call"
