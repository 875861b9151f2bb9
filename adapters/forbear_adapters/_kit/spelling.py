"""One spelling for the arguments that a LangChain tool takes for the same: what its schema makes of them. No decisions.

LangChain converts arguments before the function runs: "7" is 7 where an integer is declared, a default may be written
out or left out, and what the schema does not know is dropped. A call is told apart by its arguments, so it must be told
apart by those that the function gets. Where the schema's own form is not certain, arguments stay as the model wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

from langchain_core.tools import BaseTool
from pydantic import BaseModel

__all__ = ["Schema", "argument_names", "schema_of", "spelled"]

Schema = type[BaseModel]

# What LangChain calls the parameters `*args` and `**kwargs`: there the schema does not know what it would drop.
_OPEN: Final = frozenset({"args", "kwargs", "v__args"})


def schema_of(tool: BaseTool) -> Schema | None:
    """Return the schema by which a tool's arguments are converted, or None where they are passed on as they are."""
    try:
        whole, visible = tool.args_schema, tool.tool_call_schema
    except Exception:  # noqa: BLE001 - a schema that cannot be made converts nothing
        return None
    if not _is_model(whole) or not _is_model(visible) or not _OPEN.isdisjoint(whole.model_fields):
        return None
    if set(whole.model_fields) == set(visible.model_fields):
        return whole
    # Some parameters are filled by the graph. The part that a model fills has the types, but no validators.
    found = whole.__pydantic_decorators__
    has_own = bool(found.validators or found.field_validators or found.root_validators or found.model_validators)
    return None if has_own else visible


def argument_names(tool: BaseTool) -> tuple[str, ...] | None:
    """Return the names that a call of a tool may have, those included that the graph fills; None = any, or not known."""
    try:
        schema = tool.args_schema
    except Exception:  # noqa: BLE001 - a schema that cannot be made names nothing
        return None
    if (
        not _is_model(schema)
        or not _OPEN.isdisjoint(schema.model_fields)
        or schema.model_config.get("extra") == "allow"
    ):
        return None
    aliases = (field.alias for field in schema.model_fields.values())
    return tuple(dict.fromkeys((*schema.model_fields, *(one for one in aliases if one is not None))))


def spelled(schema: Schema | None, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments as the schema spells them: converted, with its defaults, without what it does not know.

    They stay as they are where they are not valid, or where their JSON form would not give the same again.
    """
    if schema is None:
        return arguments
    try:
        taken = schema.model_validate(dict(arguments))
        fields = schema.model_fields
        names = {*taken.model_fields_set, *(name for name, field in fields.items() if field.default_factory is None)}
        found: dict[str, object] = taken.model_dump(mode="json", include=names, by_alias=True)
        again = schema.model_validate(found)
        same = all(getattr(again, name) == getattr(taken, name) for name in names)
    except Exception:  # noqa: BLE001 - what is wrong with them is the framework's to say
        return arguments
    return found if same else arguments


def _is_model(schema: object) -> TypeGuard[Schema]:
    return isinstance(schema, type) and issubclass(schema, BaseModel)
