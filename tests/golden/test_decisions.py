"""Recorded decisions stay what they are: a change of any of them is made on purpose, with its new vector beside it."""

from __future__ import annotations

import pytest

from forbear.core.rules import Rule
from tests.model.cases import CASES
from tests.model.golden import again, digests, read
from tests.model.plain import JSON, to_plain
from tests.model.survey import gate

VECTORS = read()


@pytest.mark.parametrize("vector", VECTORS, ids=[str(vector["id"]) for vector in VECTORS])
def test_a_recorded_decision_is_made_again(vector: dict[str, JSON]) -> None:
    """The same snapshot, event and instant give the same rule, changes and commands."""
    assert to_plain(again(vector)) == vector["decision"]


def test_every_rule_has_a_vector() -> None:
    """A rule that no vector shows may change unseen."""
    shown = {str(vector["id"]).split(".", 2)[2] for vector in VECTORS}
    assert {rule.value for rule in Rule} - shown == set()


@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_the_enumeration_of_a_case_is_the_recorded_one(case: str) -> None:
    """An exploration takes the same decisions, in order, as when they were recorded (`python -m tests.model --write-golden`)."""
    assert gate().digests[case] == digests()[case]


def test_no_case_is_recorded_that_is_gone() -> None:
    """Each digest is that of a case which is explored."""
    assert list(digests()) == [case.name for case in CASES]
