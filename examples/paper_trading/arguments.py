"""Reading a tool call's arguments the lenient way real services do: spaces, letter case and number types do not matter.

Which is exactly why a reworded call is the same call for the desk, and another one for anybody who compares bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from examples.paper_trading.world import JsonObject


class Unusable(Exception):
    """An argument is missing or no value of its kind; carries the name only."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def text_of(arguments: JsonObject, field: str) -> str:
    """Return a required text, without the spaces around it.

    Raises:
        Unusable: It is absent, empty or not text.
    """
    value = arguments.get(field)
    if not isinstance(value, str) or not value.strip():
        raise Unusable(field)
    return value.strip()


def optional_text(arguments: JsonObject, field: str) -> str | None:
    """Return a text, or None where it is absent or empty."""
    value = arguments.get(field)
    return value.strip() or None if isinstance(value, str) else None


def symbol_of(arguments: JsonObject, field: str = "symbol") -> str:
    """Return an instrument's symbol in capitals."""
    return text_of(arguments, field).upper()


def whole_of(arguments: JsonObject, field: str, default: int | None = None) -> int:
    """Return a whole number given as a number or as its digits.

    Raises:
        Unusable: It is absent without a default, or no whole number.
    """
    value = arguments.get(field)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unusable(field)
    try:
        number = float(value)
    except ValueError:
        raise Unusable(field) from None
    if not number.is_integer():
        raise Unusable(field)
    return int(number)


def renamed(arguments: JsonObject, names: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of an alias under the names of the tool it stands for."""
    return {names.get(name, name): value for name, value in arguments.items()}
