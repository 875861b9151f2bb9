"""From JSON back to what an annotation asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from forbear.contract.rebuild import NotOfType, rebuild


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(alias="Size")


@dataclass
class Leg:
    symbol: str


class Foreign:
    """Nothing that pydantic knows."""


class Unhashable:
    __hash__: Any = None

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("5", int, 5),
        (5, object, 5),
        ("x", "OnlyForCheckers", "x"),
        ("x", Unhashable(), "x"),
        ("x", 3, "x"),
        ({"Size": 1}, Strict, Strict(Size=1)),
        ({"size": 1}, Strict, Strict(Size=1)),
        ([{"symbol": "A"}], list[Leg], [Leg("A")]),
        ("2026-01-01T00:00:00Z", datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (None, int | None, None),
    ],
)
def test_a_value_becomes_what_the_annotation_asks_for(value: object, annotation: object, expected: object) -> None:
    """Known types are built, by name or alias; where an annotation says nothing usable the value stays."""
    made = rebuild(value, annotation)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("many", int),
        ("hold", Literal["buy", "sell"]),
        (0, Annotated[int, Field(gt=0)]),
        ({"size": 1, "more": 2}, Strict),
        ({}, Foreign),
    ],
)
def test_a_value_that_does_not_fit_says_nothing_about_itself(value: object, annotation: object) -> None:
    """The error carries neither the value nor the library's text."""
    with pytest.raises(NotOfType) as raised:
        rebuild(value, annotation)
    assert str(raised.value) == ""
    assert raised.value.__suppress_context__
