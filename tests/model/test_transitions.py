"""The page of transitions is what the code does."""

from __future__ import annotations

from forbear.core.rules import Rule
from tests.model.meanings import MEANINGS
from tests.model.survey import gate
from tests.model.transitions import FILE, render


def test_the_page_is_what_the_explorations_saw() -> None:
    """docs/transitions.md is generated (`python -m tests.model --write-docs`) and never edited."""
    assert FILE.read_text(encoding="utf-8") == render(gate())


def test_every_rule_has_a_meaning() -> None:
    """Whoever reads a journal finds each rule explained in one line."""
    assert set(MEANINGS) == set(Rule)
