"""LangChain tools as the controller meets them: no retries inside, and how one is run outside of a graph.

What a result means is not decided here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, cast

from langchain_core.tools import BaseTool, StructuredTool, Tool

from forbear.contract import Raw
from forbear.contract.retries import retrying_library, without_retries
from forbear.errors import ConfigError
from forbear_adapters._kit.capture import Probe, Shot, not_answered, raw_of, visible_arguments

__all__ = ["Alone", "needs_graph", "refuse_retries", "unretried"]

# Runs that are remembered of one tool.
_MAX_RUNS: Final = 1024
# Parameters that LangChain fills itself.
_NEVER_INJECTED: Final = frozenset({"config", "run_manager", "callbacks", "self"})


def refuse_retries(tool: BaseTool) -> None:
    """Check that a tool does not repeat itself.

    Raises:
        ConfigError: its function is wrapped by a retry library.
    """
    for function in _functions(tool):
        library = retrying_library(function)
        if library is not None:
            raise ConfigError(
                f"tool {tool.name!r}: retries inside ({library}), which multiplies attempts; take the decorator off, or "
                'pass inner_retries="unwrap"'
            )


def unretried(tool: BaseTool) -> BaseTool:
    """Return a tool whose function is called once: the retrying layer is taken off in a copy.

    Raises:
        ConfigError: another decorator lies on top of the retry, and would be lost with it.
    """
    if not isinstance(tool, (StructuredTool, Tool)):
        return tool
    changes: dict[str, object] = {}
    for name, function in (("func", tool.func), ("coroutine", tool.coroutine)):
        if function is None or retrying_library(function) is None:
            continue
        inner = without_retries(cast("Callable[..., object]", function))
        if inner is None:
            raise ConfigError(f"tool {tool.name!r}: a decorator lies on top of its retry; take the retry off by hand")
        changes[name] = inner
    return tool.model_copy(update=changes) if changes else tool


def _functions(tool: BaseTool) -> list[Callable[..., object]]:
    if isinstance(tool, (StructuredTool, Tool)):
        found = (tool.func, tool.coroutine)
        return [cast("Callable[..., object]", function) for function in found if function is not None]
    return [tool.invoke, tool.ainvoke]


def needs_graph(tool: BaseTool) -> bool:
    """Say whether a tool's function has parameters that neither the model nor LangChain fills."""
    visible = visible_arguments(tool)
    if visible is None or not isinstance(tool, (StructuredTool, Tool)):
        return True
    for function in _functions(tool):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.name in visible or parameter.name in _NEVER_INJECTED:
                continue
            if parameter.default is parameter.empty or _is_injected(parameter.annotation):
                return True
    return False


def _is_injected(annotation: object) -> bool:
    """Say whether an annotation (or its text) is one of those that a tool node fills."""
    said = annotation if isinstance(annotation, str) else repr(annotation)
    return "Injected" in said or "ToolRuntime" in said


class Alone:
    """How the controller runs a tool outside the graph, and the runs that have proposed it (the newest ones)."""

    def __init__(self, tool: BaseTool, copy: BaseTool) -> None:
        self.tool = tool
        self._copy = copy
        self._has_sync = not isinstance(tool, (StructuredTool, Tool)) or tool.func is not None
        self.runs: dict[str, None] = {}

    def __call__(self, **arguments: object) -> Raw | Awaitable[Raw]:
        """Run the tool with the arguments that were decided about."""
        call: dict[str, object] = {"type": "tool_call", "name": self.tool.name, "args": arguments, "id": "forbear"}
        if not self._has_sync or (_on_loop() and _has_async(self.tool)):
            return _aexecute(self.tool, self._copy, call)
        shot = Shot()
        try:
            shot.message = Probe(self._copy, shot).invoke(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
            return not_answered(error, shot, self.tool)
        return raw_of(shot, self.tool)

    def is_of(self, run: str) -> None:
        """Note that a run proposed the tool."""
        if run not in self.runs:
            self.runs[run] = None
            while len(self.runs) > _MAX_RUNS:
                del self.runs[next(iter(self.runs))]

    def does_as(self, other: Alone) -> bool:
        """Say whether two tools run the same functions."""
        if isinstance(self.tool, (StructuredTool, Tool)) and isinstance(other.tool, (StructuredTool, Tool)):
            return _functions(self.tool) == _functions(other.tool)
        return self.tool is other.tool


async def _aexecute(tool: BaseTool, copy: BaseTool, call: dict[str, object]) -> Raw:
    shot = Shot()
    try:
        shot.message = await Probe(copy, shot).ainvoke(call)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
        return not_answered(error, shot, tool)
    return raw_of(shot, tool)


def _has_async(tool: BaseTool) -> bool:
    return not isinstance(tool, (StructuredTool, Tool)) or tool.coroutine is not None


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
