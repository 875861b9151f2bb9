"""Translate between LangGraph's state and the controller's words: pure functions, no controller and no graph here."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import AnyMessage

from forbear_adapters._kit.messages import is_halted, messages_of

__all__ = ["recovery_condition"]


def recovery_condition(
    state: list[AnyMessage] | dict[str, Any] | object, messages_key: str = "messages"
) -> Literal["model", "__end__"]:
    """Route after the tools: back to the model, or to the end where the run's tool use is over.

    It stands where ``add_edge("tools", "model")`` stood: a node alone cannot end a run through a static edge. For a
    model node of another name pass a path map: ``add_conditional_edges("tools", recovery_condition, {"model": "agent",
    END: END})``.
    """
    return "__end__" if is_halted(messages_of(state, messages_key)) else "model"
