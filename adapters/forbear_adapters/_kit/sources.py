"""LangChain tools, tool nodes' wrappers and middleware as the doctor sees them. Nothing of them is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Final, cast

from langchain_core.tools import BaseTool, StructuredTool, Tool
from pydantic import BaseModel

from forbear.contract.retries import retrying_library
from forbear.doctor import Concern, Finding, Found, FoundTool, Weight
from forbear_adapters._kit.toolcalls import Gate

__all__ = ["gate_of", "objects_behind", "of_middleware", "of_tool"]

# Middleware of LangChain that repeats tool calls, by class name.
_REPEATING: Final = frozenset({"ToolRetryMiddleware"})
_MAX_OBJECTS: Final = 256


def of_tool(tool: BaseTool) -> Found:
    """Return one LangChain tool."""
    functions = _functions(tool)
    libraries = [library for one in functions if (library := retrying_library(one)) is not None]
    hints = cast("Mapping[str, object]", tool.metadata or {})
    modules = [cast("object", getattr(_innermost(one), "__module__", None)) for one in functions]
    names = tuple(dict.fromkeys(one for one in modules if isinstance(one, str)))
    found = FoundTool(
        name=tool.name,
        kind="LangChain tool",
        description=tool.description,
        input_schema=_schema(tool),
        read_only=_flag(hints, "readOnlyHint"),
        destructive=_flag(hints, "destructiveHint"),
        remote=any(name.partition(".")[0] == "langchain_mcp_adapters" for name in names),
        retries=libraries[0] if libraries else "",
    )
    return Found(tools=(found,), modules=names)


def _flag(hints: Mapping[str, object], name: str) -> bool | None:
    value = hints.get(name)
    return value if isinstance(value, bool) else None


def _functions(tool: BaseTool) -> list[object]:
    if isinstance(tool, (StructuredTool, Tool)):
        return [one for one in (tool.func, tool.coroutine) if one is not None]
    # Where the author of a subclass writes what it does.
    return [cast("object", getattr(type(tool), name)) for name in ("_run", "_arun")]


def _innermost(function: object) -> object:
    for _ in range(32):
        inner = cast("object", getattr(function, "__wrapped__", None))
        if inner is None:
            break
        function = inner
    return function


def _schema(tool: BaseTool) -> Mapping[str, object] | None:
    """Return the JSON Schema that a model gets; None = LangChain cannot make one."""
    try:
        schema = tool.tool_call_schema
        if isinstance(schema, dict):
            return cast("dict[str, object]", schema)
        return schema.model_json_schema() if issubclass(schema, BaseModel) else None
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it cannot be seen
        return None


# ---- what lies around a tool ----------------------------------------------------------------------------------------


def objects_behind(wrapper: object) -> Iterator[object]:
    """Yield the objects whose methods a wrapper of tool calls calls, as far as its closures show."""
    queue, seen = [wrapper], set[int]()
    while queue and len(seen) < _MAX_OBJECTS:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        owner = cast("object", getattr(current, "__self__", None))
        if owner is not None and callable(current):
            yield owner
        queue += [cast("object", getattr(current, name, None)) for name in ("__wrapped__", "__func__", "func")]
        if isinstance(current, FunctionType):
            queue += _cells(current)


def _cells(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            held = cast("object", cell.cell_contents)
        except ValueError:
            continue
        if callable(held):
            yield held
        elif isinstance(held, (list, tuple)):
            yield from (one for one in cast("list[object]", held) if callable(one))


def gate_of(holder: object) -> Gate | None:
    """Return the gate of one of our nodes or middleware, or None."""
    gate = cast("object", getattr(holder, "_gate", None))
    return gate if isinstance(gate, Gate) else None


def of_middleware(holder: object, *, where: str) -> Found:
    """Return what a middleware means for the tools under it."""
    gate = gate_of(holder)
    if gate is not None:
        return Found(governed=True, controllers=(gate.controller,))
    name = type(holder).__name__
    if name not in _REPEATING:
        return Found()
    times = cast("object", getattr(holder, "max_retries", None))
    most = f"up to {times + 1} times" if isinstance(times, int) else "several times"
    finding = Finding(
        concern=Concern.RETRY_INSIDE,
        weight=Weight.RISK,
        where=where,
        message=f"{name} runs a failing tool {most}, writes included",
        change="take it out; the controller retries where that is safe",
    )
    return Found(findings=(finding,))
