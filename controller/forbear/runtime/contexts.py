"""Parameters that frameworks fill themselves (a context, a call id): recognised by the names of their annotations' classes.

They are no part of a call: some are different in every call, some hold a whole application. No framework is imported.
"""

from __future__ import annotations

import types
from typing import Annotated, Final, Union, cast, get_args, get_origin

__all__ = ["is_context"]

# Top-level package and class, of the annotation or one of its bases.
CONTEXTS: Final = frozenset(
    {
        "agent_framework.FunctionInvocationContext",
        "agents.RunContextWrapper",
        "agno.Agent",
        "agno.RunContext",
        "agno.Team",
        "autogen_core.CancellationToken",
        "fastmcp.Context",
        "google.ReadonlyContext",
        "langchain_core.InjectedToolArg",
        "langchain_core._DirectlyInjectedToolArg",
        "mcp.Context",
        "pydantic_ai.RunContext",
        "semantic_kernel.Kernel",
        "semantic_kernel.KernelArguments",
        "strands.ToolContext",
        "workflows.Context",
    }
)


def is_context(annotation: object) -> bool:
    """Say whether a framework fills parameters with this annotation."""
    origin = get_origin(annotation)
    if origin is Annotated:
        # The class may stand for itself or be an instance (LangChain's InjectedToolArg).
        value, *marks = cast("tuple[object, ...]", get_args(annotation))
        return is_context(value) or any(_is_named(mark if isinstance(mark, type) else type(mark)) for mark in marks)
    if origin is Union or origin is types.UnionType:
        return any(is_context(member) for member in cast("tuple[object, ...]", get_args(annotation)))
    return _is_named(annotation if origin is None else origin)


def _is_named(kind: object) -> bool:
    if not isinstance(kind, type):
        return False
    return any(f"{base.__module__.partition('.')[0]}.{base.__name__}" in CONTEXTS for base in kind.__mro__)
