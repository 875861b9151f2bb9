"""What a tool's author mistypes in `Refused` is an error where it is written, never a wait or a stop of another kind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forbear import Refused
from forbear.contract.envelope import ERROR_FIELDS
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
        ("RATE_LIMITED", {"recover": "do_not_retry"}, "'recover' is not known; nearest is 'recovery'"),
        ("RATE_LIMITED", {"retry_after_second": 900}, "nearest is 'retry_after_seconds'"),
        ("RATE_LIMITED", {"because": "full"}, "field 'because' is not known"),
        ("RATE_LIMITED", {"retry_after_seconds": "900"}, "number of seconds"),
        ("RATE_LIMITED", {"retry_after_seconds": -1}, "number of seconds"),
        ("RATE_LIMITED", {"retry_after_seconds": float("nan")}, "number of seconds"),
        ("RATE_LIMITED", {"retry_after_seconds": True}, "number of seconds"),
    ],
    ids=[
        "code",
        "recovery",
        "naive",
        "no zone",
        "no time",
        "number",
        "misspelt",
        "singular",
        "made up",
        "text",
        "negative",
        "no number",
        "flag",
    ],
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


def test_refused_takes_every_field_of_the_contract() -> None:
    """What a result may say in the contract's form can be said from Python, under each of its names."""
    for name in {*ERROR_FIELDS, "action", "retry_at", "field_errors", "message", "outcome", "executed"} - {"code"}:
        assert name in Refused("LIMIT", **{name: None}).fields
