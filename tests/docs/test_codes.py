"""The page of codes says what the catalogue says. What a code means is tested with the catalogue."""

from __future__ import annotations

from pathlib import Path

from forbear.contract.catalogue_files import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "codes.md"


def test_the_page_of_codes_is_the_rendered_catalogue() -> None:
    """`docs/reference/codes.md` is `forbear catalog render`; run that again after a change of the catalogue."""
    assert PAGE.read_text("utf-8") == render()
