"""The page of rules is what the code says."""

from __future__ import annotations

from tests.docs.rules_table import PAGE, table


def test_the_page_of_rules_is_made_from_the_code() -> None:
    """Every rule has its row with its sentence; a change of either is a change of the page."""
    assert PAGE.read_text("utf-8") == table()
