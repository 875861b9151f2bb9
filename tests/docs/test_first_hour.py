"""The page of the first hour shows what the commands print."""

from __future__ import annotations

from tests.docs.first_hour import COMMAND, PAGE, renewed


def test_the_outputs_on_the_page_are_real() -> None:
    """Every command on the page prints what the page shows; `python -m tests.docs.first_hour` renews it."""
    page = PAGE.read_text("utf-8")
    assert len(COMMAND.findall(page)) >= 3
    assert renewed(page) == page
