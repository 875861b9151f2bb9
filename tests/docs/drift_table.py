"""The table of what makes a policy looser, made from the code; `python -m tests.docs.drift_table` writes it into its page."""

from __future__ import annotations

import re
from pathlib import Path

from forbear.contract.drift import FIELDS, LIMITS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"
TABLE = re.compile(
    r"(?<=<!-- looser: python -m tests\.docs\.drift_table -->\n)(.*?)(?=<!-- end of looser -->)", re.DOTALL
)


def table() -> str:
    """Return the table."""
    by_rule: dict[str, list[str]] = {}
    for name, order in (*FIELDS.items(), *((f"limits.{name}", order) for name, order in LIMITS.items())):
        by_rule.setdefault(order.rule, []).append(f"`{name}`")
    rows = (f"| {', '.join(names)} | {rule} |\n" for rule, names in by_rule.items())
    return "| field | to be no looser, it |\n|---|---|\n" + "".join(rows)


def renewed(page: str) -> str:
    """Return the page with the table that the code has now."""
    return TABLE.sub(lambda _: table(), page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
