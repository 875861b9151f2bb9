"""LangChain's tools and middleware for `forbear doctor`. Nothing is judged here."""

from __future__ import annotations

from typing import Any, TypeGuard

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool

from forbear.doctor import Found
from forbear_adapters._kit.sources import of_middleware, of_tool

__all__ = ["found"]


def found(target: object) -> Found | None:
    """Return a tool, or a middleware with its tools; None = it is neither."""
    if isinstance(target, BaseTool):
        return of_tool(target)
    if not _is_middleware(target):
        return None
    own = of_middleware(target, where=type(target).__name__)
    tools = [of_tool(tool) for tool in target.tools]
    return Found(
        tools=tuple(tool for one in tools for tool in one.tools),
        findings=own.findings,
        governed=own.governed,
        controllers=own.controllers,
        modules=tuple(name for one in tools for name in one.modules),
    )


def _is_middleware(target: object) -> TypeGuard[AgentMiddleware[Any, Any, Any]]:
    return isinstance(target, AgentMiddleware)
