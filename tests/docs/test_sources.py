"""Code of the examples that a page shows is the code of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.sources import BLOCK, renewed

TOP = Path(__file__).parents[2]
PAGES = sorted(path for path in (TOP / "docs").rglob("*.md") if "<!-- source: " in path.read_text("utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_pieces_of_the_examples_are_shown_as_they_are(path: Path) -> None:
    """A changed piece changes the page in the same commit; `python -m tests.docs.sources PAGE` writes it."""
    page = path.read_text("utf-8")
    assert len(BLOCK.findall(page)) == page.count("<!-- source: ") == page.count("\n```py\n")
    assert renewed(page) == page


def test_there_are_such_pages() -> None:
    """The test above cannot pass by finding nothing."""
    assert PAGES
