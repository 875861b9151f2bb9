"""The page of the policy names every field that there is, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from forbear.contract.declare import FIELDS
from tests.docs.drift_table import TABLE, renewed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"
# Told beside other fields, or given by adapters rather than by people.
BESIDE = {"empty_retry", "input_schema", "definition"}


def test_the_page_names_exactly_the_fields_of_a_policy() -> None:
    """A new field gets a row in the same commit."""
    fields = PAGE.read_text(encoding="utf-8").partition("## Approval rules")[0]
    rows = [line for line in fields.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named | BESIDE == set(FIELDS)


def test_the_table_of_what_is_looser_is_made_from_the_code() -> None:
    """A changed order of a field changes the page in the same commit; `python -m tests.docs.drift_table` writes it."""
    page = PAGE.read_text(encoding="utf-8")
    assert len(TABLE.findall(page)) == 1
    assert renewed(page) == page
