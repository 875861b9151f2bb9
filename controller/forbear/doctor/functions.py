"""Read a plain function as a tool: its name, its docstring, its signature. It is not called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from inspect import Parameter
from typing import Final, Literal, cast, get_args, get_origin

from forbear.contract.retries import retrying_library
from forbear.doctor.seen import Found, FoundTool
from forbear.runtime.function import MARK

__all__ = ["of_function", "schema_of"]

_TYPES: Final[dict[object, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_BY_NAME: Final = {one.__name__: word for one, word in _TYPES.items() if isinstance(one, type)}


def of_function(target: object) -> Found | None:
    """Return a function (or method, or partial of one) as a tool; None = it is something else."""
    core = target
    while isinstance(core, functools.partial):
        core = cast("object", core.func)
    if not (inspect.isroutine(core) or hasattr(core, "__wrapped__")) or not callable(core) or inspect.isclass(core):
        return None
    governed: object = getattr(core, MARK, None)
    name = governed if isinstance(governed, str) else getattr(core, "__name__", "")
    if not isinstance(name, str) or not name:
        return None
    inner = inspect.unwrap(core)
    tool = FoundTool(
        name=name,
        kind="function",
        description=inspect.getdoc(core) or "",
        input_schema=schema_of(cast("Callable[..., object]", target)),
        retries="" if _follows_the_rules(core) else retrying_library(core) or "",
        governed=isinstance(governed, str),
    )
    module = getattr(inner, "__module__", None)
    return Found(tools=(tool,), governed=tool.governed, modules=(module,) if isinstance(module, str) else ())


def _follows_the_rules(function: object) -> bool:
    """Say whether what repeats a function is a tenacity decorator made of `recovery()`: it repeats no refusal and no doubt."""
    if retrying_library(function) != "tenacity":
        return False
    # tenacity keeps the loop at the wrapper, and its predicate at the loop.
    predicate: object = getattr(getattr(function, "retry", None), "retry", None)
    return type(predicate).__module__.startswith("forbear_adapters.tenacity")


def schema_of(function: Callable[..., object]) -> Mapping[str, object] | None:
    """Return a JSON Schema of a function's parameters, as far as its annotations say; None = it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [one for one in parameters if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    properties = {one.name: _schema(cast("object", one.annotation)) for one in named}
    schema: dict[str, object] = {
        "properties": properties,
        "required": [one.name for one in named if one.default is one.empty],
    }
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        schema["additionalProperties"] = True
    return schema


def _schema(annotation: object) -> Mapping[str, object]:
    if isinstance(annotation, str):
        # Annotations stay text: resolving them would run the author's code.
        word = _BY_NAME.get(annotation.replace(" | None", ""))
        return {"enum": []} if annotation.startswith("Literal[") else {} if word is None else {"type": word}
    if get_origin(annotation) is Literal or (inspect.isclass(annotation) and issubclass(annotation, Enum)):
        return {"enum": [str(one) for one in get_args(annotation)]}
    word = _TYPES.get(annotation)
    return {} if word is None else {"type": word}
