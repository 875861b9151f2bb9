"""What a tool's author mistypes in `Refused` is an error where it is written, never a wait or a stop of another kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forbear import Refused
from forbear.errors import UsageError

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("code", "fields", "says"),
    [
        ("bad code", {}, "UPPER_SNAKE"),
        ("FROZEN", {"recovery": "retry"}, "recovery"),
        ("LIMIT", {"recovery": "retry_after", "reset_at": NAIVE}, "timezone-aware"),
        ("LIMIT", {"recovery": "retry_after", "reset_at": "2026-12-01T00:00:00"}, "with a zone"),
        ("LIMIT", {"recovery": "retry_after", "reset_at": "tomorrow"}, "with a zone"),
        ("LIMIT", {"recovery": "retry_after", "reset_at": 5}, "aware datetime"),
    ],
    ids=["code", "recovery", "naive", "no zone", "no time", "number"],
)
def test_a_mistyped_refusal_is_an_error_that_names_field_and_rule(
    code: str, fields: dict[str, object], says: str
) -> None:
    """A time that cannot be read is not five seconds, and a class that is none is not an unknown outcome."""
    with pytest.raises(UsageError, match=says):
        Refused(code, **fields)


def test_a_well_formed_refusal_is_kept_as_it_is() -> None:
    """Both dialects' words and both forms of an instant are taken."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert Refused("LIMIT_REACHED", recovery="retry_after", reset_at=at).fields["reset_at"] is at
    assert Refused("LIMIT", recovery="retry_after_delay", reset_at="2026-01-01T00:00:00Z").code == "LIMIT"
