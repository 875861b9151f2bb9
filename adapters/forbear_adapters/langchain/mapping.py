"""Translate what a model request of `create_agent` says into the controller's words: pure functions, no agent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from forbear_adapters._kit.messages import mark_of

__all__ = ["forced_by", "halt_notice"]


def forced_by(tool_choice: object) -> str | None:
    """Return what a tool choice makes the model call: a tool's name, "any", or None where it is free."""
    if isinstance(tool_choice, str):
        return None if tool_choice in ("auto", "none", "") else tool_choice
    if isinstance(tool_choice, bool):
        return "any" if tool_choice else None
    if not isinstance(tool_choice, Mapping):
        return None
    members = cast("Mapping[str, object]", tool_choice)
    function = members.get("function")
    inner = cast("Mapping[str, object]", function).get("name") if isinstance(function, Mapping) else None
    name = inner or members.get("name")
    if isinstance(name, str):
        return name
    return forced_by(members.get("type"))


def halt_notice(messages: Sequence[AnyMessage]) -> str | None:
    """Return what the person is told where the answers to the last calls end the run's tool use, else None."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            marked = mark_of(message)
            if marked.get("answer") == "halted":
                return str(marked.get("for_user") or "The agent stopped using tools.")
        elif isinstance(message, AIMessage) and message.tool_calls:
            return None
        else:
            return None
    return None
