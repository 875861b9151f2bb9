"""The page of limits says what the code does."""

from __future__ import annotations

from tests.docs.limits_table import PAGE, table


def test_the_page_of_limits_equals_the_code() -> None:
    """A changed default, or a new limit, changes the page in the same commit."""
    assert PAGE.read_text(encoding="utf-8") == table()
