"""Put results that became ready later in the place of the answers that said so: by message id, in the graph's messages.

Results are handed out by the controller, once each. Nothing is executed here.
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph  # pyright: ignore[reportMissingTypeStubs]

from forbear import Controller
from forbear_adapters._kit.messages import messages_of
from forbear_adapters._kit.ready import replacements

__all__ = ["adeliver_ready", "deliver_ready"]


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
