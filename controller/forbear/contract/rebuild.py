"""Turn JSON back into the Python value that a function's annotation asks for, with pydantic. No policy lives here.

Only values are built; nothing is called but validators of the annotated types, and no text of an error gets out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NewType, cast, get_origin

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

__all__ = ["NotOfType", "rebuild"]

_LOOSE: Final = ConfigDict(arbitrary_types_allowed=True)


class NotOfType(Exception):
    """A JSON value does not fit an annotation; says nothing about the value."""


@lru_cache(maxsize=1024)
def _adapter(annotation: object) -> TypeAdapter[object] | None:
    """Return what builds values of a type, or None where pydantic cannot say what the type is."""
    for config in (None, _LOOSE):
        try:
            return TypeAdapter(cast("type[object]", annotation), config=config)
        except (PydanticUserError, PydanticSchemaGenerationError):
            # A model has its own configuration (PydanticUserError), a foreign class needs the loose one.
            continue
        except (TypeError, NameError):
            return None
    return None


def _is_type(annotation: object) -> bool:
    """Say whether an annotation is a type or a construction of types, and not a note for somebody else."""
    is_made = get_origin(annotation) is not None or isinstance(annotation, NewType)
    # The `type` statement of Python 3.12.
    return is_made or isinstance(annotation, type) or type(annotation).__name__ == "TypeAliasType"


def rebuild(value: object, annotation: object) -> object:
    """Return a JSON value as what `annotation` asks for; the value itself where the annotation says nothing usable.

    Raises:
        NotOfType: the value does not fit.
    """
    if annotation is object or not _is_type(annotation):
        return value
    try:
        adapter = _adapter(annotation)
    except TypeError:
        # An annotation that cannot be hashed.
        return value
    if adapter is None:
        return value
    try:
        return adapter.validate_python(value, by_alias=True, by_name=True)
    except ValidationError:
        raise NotOfType from None
