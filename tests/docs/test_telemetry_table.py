"""The reference of telemetry says what the code does."""

from __future__ import annotations

from tests.docs.telemetry_table import PAGE, page


def test_the_reference_of_telemetry_equals_the_code() -> None:
    """A changed metric, attribute or event changes the page in the same commit."""
    assert PAGE.read_text(encoding="utf-8") == page()
