"""Recorded decisions stay what they are: a change of any of them is made on purpose, with its new vector beside it."""

from __future__ import annotations

import pytest

from forbear.core.rules import Rule
from tests.model.golden import DIGEST, again, read
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


def test_the_whole_enumeration_is_the_recorded_one() -> None:
    """The explorations take the same decisions as when the digest was written (`python -m tests.model --write-golden`)."""
    assert gate().digest == DIGEST.read_text(encoding="utf-8").strip()
