"""LangGraph's tool nodes and graphs for `forbear doctor`. Graphs are walked, never invoked; nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

from langchain_core.runnables import RunnableSequence
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import RetryPolicy

from forbear.doctor import Concern, Finding, Found, Weight
from forbear_adapters._kit.sources import gate_of, objects_behind, of_middleware, of_tool

__all__ = ["found"]

_MAX_DEPTH: Final = 4

# The parameters of a graph (its state, its context) do not matter here, and are the project's own.
AnyGraph = StateGraph[Any, Any, Any, Any]
AnyPregel = Pregel[Any, Any, Any, Any]


def found(target: object) -> Found | None:
    """Return the tools of a tool, a `ToolNode`, a graph or a compiled graph; None = it is none of them."""
    if isinstance(target, BaseTool):
        return of_tool(target)
    if isinstance(target, ToolNode):
        return _together(list(_of_node("tools", target)))
    if _is_compiled(target):
        return _together([*_of_graph(target, 0), Found(findings=tuple(_of_compiled(target)))])
    if _is_graph(target):
        return _together(list(_of_builder(target, 0)))
    return None


def _is_compiled(target: object) -> TypeGuard[AnyPregel]:
    return isinstance(target, Pregel)


def _is_graph(target: object) -> TypeGuard[AnyGraph]:
    return isinstance(target, StateGraph)


def _together(parts: Sequence[Found]) -> Found:
    return Found(
        tools=tuple(tool for part in parts for tool in part.tools),
        findings=tuple(dict.fromkeys(finding for part in parts for finding in part.findings)),
        governed=any(part.governed for part in parts),
        controllers=tuple(one for part in parts for one in part.controllers),
        modules=tuple(name for part in parts for name in part.modules),
    )


def _of_node(name: str, node: ToolNode) -> Iterator[Found]:
    for tool in node.tools_by_name.values():
        yield of_tool(tool)
    gate = gate_of(node)
    if gate is not None:
        yield Found(governed=True, controllers=(gate.controller,))
    for wrapper in ("_wrap_tool_call", "_awrap_tool_call"):
        for holder in objects_behind(cast("object", getattr(node, wrapper, None))):
            yield of_middleware(holder, where=f"node {name!r}")


def _of_graph(graph: AnyPregel, depth: int) -> Iterator[Found]:
    builder = cast("object", getattr(graph, "builder", None))
    if _is_graph(builder):
        yield from _of_builder(builder, depth)
        return
    for name, node in graph.nodes.items():
        yield from _of_runnable(name, node.bound, node.retry_policy, depth)


def _of_builder(builder: AnyGraph, depth: int) -> Iterator[Found]:
    for name, node in builder.nodes.items():
        yield from _of_runnable(name, node.runnable, node.retry_policy, depth)


def _of_runnable(name: str, runnable: object, policy: object, depth: int) -> Iterator[Found]:
    steps = cast("list[object]", runnable.steps) if isinstance(runnable, RunnableSequence) else [runnable]
    nodes = [one for one in steps if isinstance(one, ToolNode)]
    for step in steps:
        if isinstance(step, ToolNode):
            yield from _of_node(name, step)
        elif _is_compiled(step) and depth < _MAX_DEPTH:
            yield from _of_graph(step, depth + 1)
    yield Found(findings=tuple(_retried(f"node {name!r}", policy, has_tools=bool(nodes))))


def _retried(where: str, policy: object, *, has_tools: bool) -> Iterator[Finding]:
    policies = [policy] if isinstance(policy, RetryPolicy) else list(cast("Sequence[object]", policy or ()))
    most = max((one.max_attempts for one in policies if isinstance(one, RetryPolicy)), default=1)
    if most > 1:
        holds = "runs all of its tool calls" if has_tools else "runs again, with whatever tools its code calls,"
        yield Finding(
            concern=Concern.RETRY_INSIDE,
            weight=Weight.RISK if has_tools else Weight.NOTE,
            where=where,
            message=f"a RetryPolicy {holds} up to {most} times",
            change="take it off the node; `forbear_adapters.tenacity.retry_on` where it has to stay",
        )


def _of_compiled(graph: AnyPregel) -> Iterator[Finding]:
    yield from _retried("the graph", graph.retry_policy, has_tools=True)
    config = cast("Mapping[str, object]", graph.config or {})
    configurable = cast("Mapping[str, object]", config.get("configurable") or {})
    if configurable.get("thread_id") is not None:
        yield Finding(
            concern=Concern.SHARED_THREAD_ID,
            weight=Weight.RISK,
            where="the graph",
            message="a thread id is fixed in its config: all conversations are one run, with one set of refusals",
            change="pass the thread id with each invocation",
        )
    if cast("object", getattr(graph, "checkpointer", None)) is None:
        yield Finding(
            concern=Concern.NO_CHECKPOINTER,
            weight=Weight.RISK,
            where="the graph",
            message="no checkpointer: it cannot pause for an approval, and a restart forgets where it was",
            change="compile(checkpointer=…), and a thread_id with each invocation",
        )
