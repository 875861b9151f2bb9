"""gRPC statuses: pushback, RetryInfo, unknown codes; no details text is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forbear.contract import Grpc, tool_policy
from forbear.core.vocabulary import Executed, Outcome, Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
INFO = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.parametrize(
    ("code", "read", "write"),
    [
        ("OK", None, None),
        (0, None, None),
        ("CANCELLED", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        ("StatusCode.INVALID_ARGUMENT", Recovery.REPAIR_INPUT, Recovery.REPAIR_INPUT),
        (14, Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        ("DEADLINE_EXCEEDED", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        ("RESOURCE_EXHAUSTED", Recovery.RETRY_AFTER, Recovery.RETRY_AFTER),
        ("FAILED_PRECONDITION", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        ("ALREADY_EXISTS", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        ("INTERNAL", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        ("NO_SUCH_CODE", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (99, Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (-1, Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
    ],
)
def test_codes(judge: Any, code: str | int, read: Recovery | None, write: Recovery | None) -> None:
    """Each code by name or number; one that nobody knows proves nothing."""
    assert judge(Grpc(code=code)).recovery is read
    assert judge(Grpc(code=code), "write").recovery is write


@pytest.mark.parametrize(
    ("value", "recovery", "milliseconds"),
    [
        ("1500", Recovery.RETRY_AFTER, 1500),
        (" 0 ", Recovery.RETRY_AFTER, 0),
        ("-1", Recovery.DO_NOT_RETRY, None),
        ("soon", Recovery.DO_NOT_RETRY, None),
        ("", Recovery.DO_NOT_RETRY, None),
        ("1.5", Recovery.DO_NOT_RETRY, None),
        ("2147483648", Recovery.DO_NOT_RETRY, None),
        ("9" * 5000, Recovery.DO_NOT_RETRY, None),
        ("٣", Recovery.DO_NOT_RETRY, None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_pushback(judge: Any, value: str, recovery: Recovery, milliseconds: int | None) -> None:
    """A pushback that is negative or cannot be read forbids a second call (gRFC A6)."""
    for code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
        envelope = judge(Grpc(code=code, trailing_metadata=(("grpc-retry-pushback-ms", value),)))
        assert envelope.recovery is recovery
        expected = None if milliseconds is None else NOW + timedelta(milliseconds=milliseconds)
        assert envelope.reset_at == expected
    write = judge(Grpc(code="UNAVAILABLE", trailing_metadata=(("grpc-retry-pushback-ms", value),)), "write")
    assert write.recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("delay", "seconds"), [("30.5s", 30.5), ("-5s", None), ("30", None), (31, None), (None, None), ("x" * 500, None)]
)
def test_retry_info(judge: Any, delay: object, seconds: float | None) -> None:
    """RetryInfo gives the time where it can be read."""
    envelope = judge(Grpc(code="RESOURCE_EXHAUSTED", details=({"@type": INFO, "retryDelay": delay},)), "write")
    assert envelope.recovery is Recovery.RETRY_AFTER
    assert envelope.reset_at == (None if seconds is None else NOW + timedelta(seconds=seconds))


def test_details_of_any_shape(judge: Any) -> None:
    """Details that are no objects are passed over."""
    assert judge(Grpc(code="UNAVAILABLE", details=(None, 5, "text", [], {"@type": 7}))).reset_at is None


def test_alternatives_by_google(judge: Any) -> None:
    """Google's own ErrorInfo may say that the capacity is elsewhere; nobody else's may."""

    def info(domain: str) -> Grpc:
        detail = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": domain,
            "metadata": {"zonesWithCapacity": "a,b"},
        }  # fmt: skip
        return Grpc(code="UNAVAILABLE", details=(detail,))

    assert judge(info("compute.googleapis.com"), "write").recovery is Recovery.USE_ALTERNATIVE
    assert judge(info("evil.example"), "write").recovery is Recovery.INSPECT_OUTCOME


def test_declared_repeatable(judge: Any) -> None:
    """A write that is declared repeatable waits where a read would, and only there."""
    policy = tool_policy("t", effect="write", repeatable=True)
    assert judge(Grpc(code="UNAVAILABLE"), policy).recovery is Recovery.RETRY_AFTER
    assert judge(Grpc(code="INTERNAL"), policy).recovery is Recovery.INSPECT_OUTCOME


def test_what_is_said_about_execution(judge: Any) -> None:
    """Only a refusal is called "not executed"."""
    assert judge(Grpc(code="PERMISSION_DENIED"), "write").executed is Executed.NO
    assert judge(Grpc(code="INTERNAL")).executed is Executed.UNKNOWN
    assert judge(Grpc(code="UNAVAILABLE")).executed is Executed.UNKNOWN
    assert judge(Grpc(code="CANCELLED")).outcome is Outcome.CANCELLED
    assert judge(Grpc(code="DEADLINE_EXCEEDED")).outcome is Outcome.TIMEOUT
