"""See what a LangChain tool really returned or raised, below the formatting and the error handlers around it.

The copy of a tool that is made here differs from it in one thing: its function notes what comes out. What a result
means is not decided here.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from langgraph import errors as graph_errors
from langgraph.errors import GraphBubbleUp
from pydantic import ValidationError

from forbear import Refused
from forbear.contract import Mcp, Raised, Raw, Value, is_contract

__all__ = ["Passed", "Probe", "Shot", "not_answered", "raw_of", "visible_arguments", "watched"]

# Characters of a text that may be an envelope.
_MAX_SPOKEN: Final = 4096
_PLAIN: Final = (str, int, float, bool, type(None), dict, list)


class Shot:
    """What came out of one execution: below LangChain (`value` or `error`), and above it (`message`)."""

    __slots__ = ("error", "message", "raised", "value")

    def __init__(self) -> None:
        self.value: tuple[object] | None = None
        # (the exception, whether the tool's own function raised it)
        self.error: tuple[Exception, bool] | None = None
        self.message: object = None
        # What left the framework's execution instead of a message.
        self.raised: Exception | None = None


F = TypeVar("F", bound=Callable[..., object])

_SHOT: ContextVar[Shot | None] = ContextVar("forbear_shot", default=None)


def watched(tool: BaseTool) -> BaseTool:
    """Return a tool whose function notes what it returns or raises; the tool itself where it has no plain function."""
    if not isinstance(tool, (StructuredTool, Tool)):
        return tool
    changes: dict[str, object] = {}
    if tool.func is not None:
        changes["func"] = _noting(cast("Callable[..., object]", tool.func))
    if tool.coroutine is not None:
        changes["coroutine"] = _anoting(cast("Callable[..., Awaitable[object]]", tool.coroutine))
    return tool.model_copy(update=changes)


def _noting(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def noted(*args: object, **kwargs: object) -> object:
        shot = _SHOT.get()
        if shot is None:
            return function(*args, **kwargs)
        try:
            value = function(*args, **kwargs)
        except GraphBubbleUp:
            raise
        except Exception as error:
            shot.error = (error, True)
            raise
        shot.value = (value,)
        return value

    return _signed(noted, function)


def _anoting(function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    @functools.wraps(function)
    async def noted(*args: object, **kwargs: object) -> object:
        shot = _SHOT.get()
        try:
            value = await function(*args, **kwargs)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if shot is not None:
                shot.error = (error, True)
            raise
        if shot is not None:
            shot.value = (value,)
        return value

    return _signed(noted, function)


def _signed(noted: F, function: Callable[..., object]) -> F:
    """Return a wrapper that says its signature at once: LangChain asks for it at every call."""
    with suppress(ValueError, TypeError):
        # Not every function has one; LangChain then looks for itself.
        noted.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return noted


class Probe:
    """Stands for a tool during one execution: the same tool, and the shot learns what it raised."""

    __slots__ = ("_shot", "_tool")

    def __init__(self, tool: BaseTool, shot: Shot) -> None:
        self._tool = tool
        self._shot = shot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def invoke(self, call: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the tool once."""
        token = _SHOT.set(self._shot)
        try:
            return self._tool.invoke(call, config, **kwargs)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if self._shot.error is None:
                self._shot.error = (error, False)
            raise
        finally:
            _SHOT.reset(token)

    async def ainvoke(self, call: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the tool once."""
        token = _SHOT.set(self._shot)
        try:
            return await self._tool.ainvoke(call, config, **kwargs)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if self._shot.error is None:
                self._shot.error = (error, False)
            raise
        finally:
            _SHOT.reset(token)


def _is_invalid_resume(error: BaseException) -> bool:
    """Say whether a person's answer did not fit the question of a tool: that concerns the person, not the model."""
    # The first releases of 1.2 do not mark such errors.
    marked = getattr(graph_errors, "is_invalid_resume", None)
    return marked is not None and bool(marked(error))


class Passed(GraphBubbleUp):
    """Carries an exception that is not a tool's answer through the controller."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def not_answered(error: Exception, shot: Shot, tool: BaseTool | None) -> Raw:
    """Return what an exception that left the framework's execution means; the framework's own signals go on."""
    shot.raised = error
    if isinstance(error, GraphBubbleUp):
        raise error
    if _is_invalid_resume(error):
        raise Passed(error)
    if shot.error is not None:
        return raw_of(shot, tool)
    if shot.value is not None or shot.message is not None:
        # The tool ran to its end; the framework could not use what it returned.
        return Raised(error, phase="after_send")
    # The call could not be built (no store, no such state field): no byte has left.
    return Raised(error, phase="build")


def raw_of(shot: Shot, tool: BaseTool | None) -> Raw:
    """Return what an execution gave back, for the controller to judge.

    Raises:
        Exception: what the tool raised, whether or not a handler around it made a message of it.
        Refused: the arguments did not match the tool's schema; names and rule words only.
    """
    if shot.error is not None:
        error, in_function = shot.error
        if isinstance(error, ValidationError) and not in_function:
            raise _invalid(error, tool) from error
        if isinstance(error, ToolException) and in_function:
            # LangChain's word for "the tool answered with an error"; tools loaded from an MCP server answer so.
            return Mcp(is_error=True, content=_blocks(str(error)))
        raise error
    message = shot.message
    if isinstance(message, ToolMessage):
        if message.status == "error":
            return Mcp(is_error=True, content=_blocks(message.content))
        structured = _structured(message.artifact)
        if structured is not None:
            return structured
        value: object = message.content
        if shot.value is not None and not _has_artifact(tool):
            (returned,) = shot.value
            if isinstance(returned, _PLAIN):
                value = cast("object", returned)
        return Value(_spoken(value))
    # A Command, or a list of commands and messages: passed on as it is.
    return Value(message)


def _spoken(value: object) -> object:
    """Return the object where a text is the JSON of an envelope: many tools return text only."""
    if not isinstance(value, str) or len(value) > _MAX_SPOKEN or not value.lstrip().startswith("{"):
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if is_contract(parsed) else value


def _has_artifact(tool: BaseTool | None) -> bool:
    return tool is not None and tool.response_format == "content_and_artifact"


def _blocks(content: object) -> tuple[object, ...]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return tuple(cast("Sequence[object]", content)) if isinstance(content, (list, tuple)) else ()


def _structured(artifact: object) -> Raw | None:
    """Return the structured content that an MCP tool's artifact carries."""
    if artifact is not None and isinstance(artifact, Mapping) and "structured_content" in artifact:
        return Value(cast("Mapping[str, object]", artifact)["structured_content"])
    return None


def _invalid(error: ValidationError, tool: BaseTool | None) -> Refused:
    """Say which of the model's arguments the schema refused, by name and rule word; injected ones are not its business."""
    visible = visible_arguments(tool)
    fields: dict[str, str] = {}
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        name = str(one["loc"][0]) if one["loc"] else ""
        if name and (visible is None or name in visible):
            fields.setdefault(name, "required" if one["type"] == "missing" else "invalid")
    named = [{"name": name, "rule": rule} for name, rule in fields.items()]
    return Refused("INPUT_INVALID", recovery="repair_input", executed="no", invalid_fields=named)


def visible_arguments(tool: BaseTool | None) -> frozenset[str] | None:
    """Return the names of the arguments that the model sees, or None where they are not known."""
    if tool is None:
        return None
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        properties = schema.get("properties")
        return frozenset(cast("Mapping[str, object]", properties)) if isinstance(properties, Mapping) else None
    fields = getattr(schema, "model_fields", None)
    return frozenset(cast("Mapping[str, object]", fields)) if isinstance(fields, Mapping) else None
