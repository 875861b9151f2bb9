"""Every JSON example of the two seed documents is read as it stands; the protected record is a record and no envelope."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from forbear.contract import read_envelope, write_envelope
from forbear.contract.record import read_record
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import ContractError, UsageError

DAILY_LIMIT: dict[str, Any] = {
    "ok": False,
    "outcome": "refused",
    "data": None,
    "error": {
        "code": "DAILY_ORDER_LIMIT_REACHED",
        "constraint": "daily_order_limit",
        "recovery": "retry_after",
        "limit": 25,
        "remaining": 0,
        "reset_at": "2026-09-06T00:00:00Z",
        "safe_message": "The daily paper-trading order limit has been reached.",
    },
    "request_id": "req_8f2d1",
}
FROZEN: dict[str, Any] = {
    "ok": False,
    "outcome": "refused",
    "data": None,
    "error": {
        "code": "DESK_FROZEN_BY_OWNER",
        "constraint": "desk_status",
        "recovery": "do_not_retry",
        "safe_message": "This desk is frozen by its owner and cannot be changed by this agent.",
    },
    "request_id": "req_2b91a",
}
EMPTY: dict[str, Any] = {
    "ok": True,
    "outcome": "empty",
    "data": {"items": []},
    "meta": {"reason": "NO_MATCHES"},
    "request_id": "req_5c7aa",
}
AUTH_FAILED: dict[str, Any] = {
    "ok": False,
    "code": "AUTH_FAILED",
    "message": "The remote service rejected the stored credential.",
    "action": "stop_and_report",
    "retryable": False,
    "request_id": "act_7f3c2a91",
    "http_status": 401,
}
OUTCOME_UNKNOWN: dict[str, Any] = {
    "ok": False,
    "code": "OUTCOME_UNKNOWN",
    "message": "The connection ended after the request started. The remote action may have completed.",
    "action": "inspect_outcome",
    "retryable": False,
    "request_id": "act_9b18d4e0",
    "operation": "create_deployment",
}
RECORD: dict[str, Any] = {
    "request_id": "act_9b18d4e0",
    "event": "http_call_failed",
    "credential_record": "cred_42",
    "destination": "api.internal.example",
    "method": "POST",
    "path_template": "/deployments",
    "bytes_sent": True,
    "response_received": False,
    "exception_class": "ReadTimeout",
    "result_code": "OUTCOME_UNKNOWN",
}
EXAMPLES = (DAILY_LIMIT, FROZEN, EMPTY, AUTH_FAILED, OUTCOME_UNKNOWN)


@pytest.mark.parametrize("example", EXAMPLES, ids=["daily limit", "frozen", "empty", "auth", "unknown"])
def test_examples_are_read_strictly(example: dict[str, Any]) -> None:
    """Strict reading, which drops nothing, accepts every envelope of the seeds."""
    assert read_envelope(example, strict=True).request_id == example["request_id"]


def test_nested_refusal() -> None:
    """The nested example keeps code, class, constraint, numbers, time and text; nothing was executed."""
    envelope = read_envelope(DAILY_LIMIT, strict=True)
    assert envelope.outcome is Outcome.REFUSED
    assert envelope.executed is Executed.NO
    assert envelope.code == "DAILY_ORDER_LIMIT_REACHED"
    assert envelope.recovery is Recovery.RETRY_AFTER
    assert envelope.constraint == "daily_order_limit"
    assert (envelope.limit, envelope.remaining) == (25, 0)
    assert envelope.reset_at == datetime(2026, 9, 6, tzinfo=UTC)
    assert envelope.safe_message == DAILY_LIMIT["error"]["safe_message"]


def test_frozen_and_empty() -> None:
    """A freeze is final; an empty answer is completed and says why it is empty."""
    frozen = read_envelope(FROZEN, strict=True)
    assert (frozen.recovery, frozen.executed) == (Recovery.DO_NOT_RETRY, Executed.NO)
    empty = read_envelope(EMPTY, strict=True)
    assert (empty.outcome, empty.recovery, empty.reason) == (Outcome.EMPTY, None, "NO_MATCHES")


def test_flat_refusals() -> None:
    """The flat dialect's action is the class; an unknown outcome is not called "not executed"."""
    auth = read_envelope(AUTH_FAILED, strict=True)
    assert (auth.code, auth.recovery, auth.http_status) == ("AUTH_FAILED", Recovery.DO_NOT_RETRY, 401)
    assert auth.executed is Executed.NO
    unknown = read_envelope(OUTCOME_UNKNOWN, strict=True)
    assert (unknown.recovery, unknown.executed) == (Recovery.INSPECT_OUTCOME, Executed.UNKNOWN)
    assert unknown.operation == "create_deployment"


@pytest.mark.parametrize("strict", [True, False])
def test_the_protected_record_is_no_envelope(*, strict: bool) -> None:
    """The envelope rejects a protected record in both modes."""
    with pytest.raises(ContractError):
        read_envelope(RECORD, strict=strict)


def test_the_protected_record_is_a_record() -> None:
    """The record model reads the seeds' record and rejects an envelope, a wrong type and an unknown field."""
    record = read_record(RECORD)
    assert (record.bytes_sent, record.response_received, record.exception_class) == (True, False, "ReadTimeout")
    for wrong in (AUTH_FAILED, {**RECORD, "bytes_sent": "yes"}, {**RECORD, "authorization": "planted-secret"}):
        with pytest.raises(ContractError) as raised:
            read_record(wrong)
        assert "planted-secret" not in str(raised.value)


@pytest.mark.parametrize("example", EXAMPLES, ids=["daily limit", "frozen", "empty", "auth", "unknown"])
@pytest.mark.parametrize("dialect", ["nested", "flat", "problem"])
def test_examples_survive_every_dialect(example: dict[str, Any], dialect: str) -> None:
    """Written in any dialect and read strictly, an example is the same envelope."""
    envelope = read_envelope(example, strict=True)
    if dialect == "problem" and envelope.recovery is None:
        with pytest.raises(UsageError):
            write_envelope(envelope, dialect=dialect)
        return
    assert read_envelope(write_envelope(envelope, dialect=dialect), strict=True) == envelope
