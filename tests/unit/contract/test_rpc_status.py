"""The google.rpc.Status of trailing metadata: read as a library reads it, in bounds, and never trusted further."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import Raised, tool_policy
from forbear.contract import rpc_status as rs
from forbear.core.vocabulary import Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
TYPES = "type.googleapis.com/google.rpc."
CODES = {"INVALID_ARGUMENT": 3, "RESOURCE_EXHAUSTED": 8, "UNAVAILABLE": 14, "PERMISSION_DENIED": 7}


def varint(number: int) -> bytes:
    """Encode an integer."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes | str) -> bytes:
    """Encode one field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    held = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(held)) + held


def packed(kind: str, held: bytes) -> bytes:
    """Encode a detail."""
    return field(1, TYPES + kind) + field(2, held)


def status(code: int, *details: bytes) -> bytes:
    """Encode a Status."""
    return field(1, code) + field(2, "PLANTED-SECRET-0001") + b"".join(field(3, detail) for detail in details)


def retry_info(seconds: int, nanos: int = 0) -> bytes:
    """Encode a RetryInfo."""
    return packed("RetryInfo", field(1, field(1, seconds) + field(2, nanos)))


def error_info(reason: str, domain: str, **metadata: str) -> bytes:
    """Encode an ErrorInfo."""
    entries = b"".join(field(3, field(1, name) + field(2, value)) for name, value in metadata.items())
    return packed("ErrorInfo", field(1, reason) + field(2, domain) + entries)


def bad_request(*names: str) -> bytes:
    """Encode a BadRequest."""
    violations = (field(1, name) + field(2, "PLANTED-SECRET-0001") for name in names)
    return packed("BadRequest", b"".join(field(1, one) for one in violations))


class Code:
    """What grpcio's status codes look like."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value = (CODES[name], name.lower())


def error(name: str, held: object, *more: tuple[str, object]) -> Raised:
    """Return an exception as grpcio raises it."""

    class RpcError(Exception):
        """The base that grpcio's own exceptions have."""

        def code(self) -> Code:
            return Code(name)

        def trailing_metadata(self) -> tuple[tuple[str, object], ...]:
            return ((rs.DETAILS, held), *more)

        def details(self) -> str:
            raise AssertionError("the text of details is never read")

    RpcError.__module__ = "grpc"
    return Raised(RpcError())


def test_the_time_of_a_live_error(judge: Any) -> None:
    """RetryInfo in the metadata of a live error gives the time, to the nanosecond, rounded up."""
    quota = packed("QuotaFailure", field(1, field(1, "project:1")))
    said = judge(error("RESOURCE_EXHAUSTED", status(8, retry_info(30, 500_000_000), quota)), "write")
    assert (said.recovery, said.reset_at) == (Recovery.RETRY_AFTER, NOW + timedelta(seconds=30.5))


def test_a_time_that_is_too_far(judge: Any) -> None:
    """A delay of many years makes the refusal final, as it does in JSON."""
    said = judge(error("RESOURCE_EXHAUSTED", status(8, retry_info(99_999_999_999))))
    assert (said.recovery, said.code) == (Recovery.DO_NOT_RETRY, "RETRY_TOO_FAR")


@pytest.mark.parametrize("delay", [(-5, 0), (5, -1), (5, 1_000_000_000), (2**62, 0)])
def test_a_delay_that_is_none(judge: Any, delay: tuple[int, int]) -> None:
    """A negative or impossible duration is no time: the wait is the default's."""
    said = judge(error("RESOURCE_EXHAUSTED", status(8, retry_info(*delay))))
    assert (said.recovery, said.reset_at) == (Recovery.RETRY_AFTER, None)


def test_fields_of_a_bad_request(judge: Any) -> None:
    """Names of fields are told where the tool's input knows them; no other text of the server gets out."""
    policy = tool_policy("t", effect="write", input_fields=["quantity", "side"])
    held = status(3, bad_request("quantity", "order.side", "PLANTED-SECRET-0001", "quantity"))
    said = judge(error("INVALID_ARGUMENT", held), policy)
    assert [one.name for one in said.invalid_fields] == ["quantity"]
    assert said.recovery is Recovery.REPAIR_INPUT
    assert "PLANTED" not in repr(said)


def test_capacity_elsewhere(judge: Any) -> None:
    """Google's own ErrorInfo may say where capacity is."""
    held = status(14, error_info("ZONE_RESOURCE_POOL_EXHAUSTED", "compute.googleapis.com", zonesWithCapacity="a,b"))
    assert judge(error("UNAVAILABLE", held), "write").recovery is Recovery.USE_ALTERNATIVE


@pytest.mark.parametrize(
    ("domain", "recovery", "code"),
    [
        ("googleapis.com", Recovery.DO_NOT_RETRY, "ACCESS_DENIED"),
        ("evilgoogleapis.com", Recovery.RETRY_AFTER, "RATE_LIMITED"),
        ("billing.example", Recovery.RETRY_AFTER, "RATE_LIMITED"),
    ],
)
def test_a_permanent_reason_outranks_a_time(judge: Any, domain: str, recovery: Recovery, code: str) -> None:
    """A reason that time does not cure is final although a delay stands beside it, if it is Google's own."""
    said = judge(error("RESOURCE_EXHAUSTED", status(8, retry_info(5), error_info("BILLING_DISABLED", domain))))
    assert (said.recovery, said.code) == (recovery, code)


def test_a_key_that_is_not_accepted_is_not_the_inputs_fault(judge: Any) -> None:
    """INVALID_ARGUMENT with Google's API_KEY_INVALID is no input that a model could repair."""
    held = status(3, error_info("API_KEY_INVALID", "googleapis.com"))
    said = judge(error("INVALID_ARGUMENT", held), "write")
    assert (said.recovery, said.code) == (Recovery.DO_NOT_RETRY, "AUTH_FAILED")


def test_a_permanent_reason_never_says_that_nothing_happened(judge: Any) -> None:
    """Where the code leaves the outcome of a write open, no reason closes it."""
    held = status(14, error_info("SERVICE_DISABLED", "googleapis.com"))
    assert judge(error("UNAVAILABLE", held), "write").recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize("text", ["1500", b"1500"], ids=["text", "bytes"])
def test_pushback_beside_details(judge: Any, text: object) -> None:
    """The later of pushback and RetryInfo counts; a pushback that forbids wins over both."""
    held = status(14, retry_info(1))
    said = judge(error("UNAVAILABLE", held, ("grpc-retry-pushback-ms", text)))
    assert said.reset_at == NOW + timedelta(milliseconds=1500)
    said = judge(error("UNAVAILABLE", held, ("grpc-retry-pushback-ms", "-1")))
    assert said.recovery is Recovery.DO_NOT_RETRY


GOOD = status(8, retry_info(30))
SAYS_NOTHING: dict[str, object] = {
    "another code": status(14, retry_info(30)),
    "cut": GOOD[:-1],
    "cut in a length": GOOD[:1] + b"\x80",
    "a number of eleven bytes": field(1, 8) + b"\x18" + b"\xff" * 10 + b"\x01",
    "a group": GOOD + b"\x23\x24",
    "field zero": GOOD + b"\x02\x00",
    "a length beyond the end": GOOD + b"\x1a\xff\xff\xff\xff\x0f",
    "too many fields": GOOD + field(9, 0) * rs.MAX_FIELDS,
    "too large": GOOD + field(9, b"x" * rs.MAX_STATUS),
    "text": GOOD.decode("latin-1"),
    "nothing": b"",
    "None": None,
}


@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_what_is_no_status_of_this_call_says_nothing(judge: Any, name: str) -> None:
    """A malformed, oversized or foreign Status leaves the decision to the code alone."""
    said = judge(error("RESOURCE_EXHAUSTED", SAYS_NOTHING[name]))
    assert (said.recovery, said.reset_at) == (Recovery.RETRY_AFTER, None)


def test_two_statuses_say_nothing(judge: Any) -> None:
    """Two Status messages on one call contradict each other."""
    assert judge(error("RESOURCE_EXHAUSTED", GOOD, (rs.DETAILS, GOOD))).reset_at is None


def test_fields_that_do_not_decide_are_passed_over(judge: Any) -> None:
    """Fields that a later version adds, of any width, change nothing."""
    more = b"\x49" + b"\x00" * 8 + b"\x55" + b"\x00" * 4 + field(99, "x")
    later = packed("RetryInfo", field(1, field(1, 30)) + more)
    unknown = packed("DebugInfo", field(2, "PLANTED-SECRET-0001"))
    said = judge(error("RESOURCE_EXHAUSTED", status(8, unknown, later) + more))
    assert said.reset_at == NOW + timedelta(seconds=30)


def test_no_metadata_at_all() -> None:
    """Whatever a client keeps as metadata, reading it raises nothing."""
    for metadata in (None, 5, "text", b"bytes", [], [5], [("a",)], [(rs.DETAILS, 5)], iter([(rs.DETAILS, GOOD)] * 3)):
        assert rs.details_of(metadata, 8) == ()
    assert rs.details_of([(rs.DETAILS, GOOD)], None) == ()


def test_texts_that_are_long_or_broken_are_none() -> None:
    """A name that is no UTF-8, or long, is not a name."""
    held = packed("ErrorInfo", field(1, b"\xff") + field(2, "x" * (rs.MAX_TEXT + 1)))
    ((detail),) = rs.status_details(status(8, held), 8)
    assert (detail["reason"], detail["domain"]) == ("", "")


@given(held=st.binary(max_size=400), code=st.integers(-(2**31), 2**31))
def test_any_bytes(held: bytes, code: int) -> None:
    """No bytes raise anything, or become more than bounded JSON."""
    assert len(json.dumps(rs.status_details(held, code))) < 20_000
    assert rs.status_details(field(1, 8) + field(3, held), 8) is not None


@given(at=st.integers(0, 300), byte=st.integers(0, 255))
def test_one_changed_byte(at: int, byte: int) -> None:
    """A message with one changed byte is read without an error, and nothing of its texts that do not decide gets out."""
    details = (retry_info(30, 5), error_info("A", "b.c", key="PLANTED-SECRET-0001"), bad_request("x"))
    held = bytearray(status(8, *details))
    held[at % len(held)] = byte
    assert "PLANTED" not in json.dumps(rs.status_details(bytes(held), 8))


def test_the_largest_status_is_read_within_bounds() -> None:
    """The largest and most nested Status costs a bounded number of steps."""
    full = packed("BadRequest", b"".join(field(1, field(1, "f" * 100)) for _ in range(200)))
    held = status(8, *[full] * 200)[: rs.MAX_STATUS]
    assert len(rs.status_details(status(8, *[packed("BadRequest", field(1, field(1, "f")) * 32)] * 200), 8)) <= 32
    assert rs.status_details(held, 8) == ()


names = st.text(max_size=40)


@given(
    code=st.sampled_from([3, 8, 14]),
    seconds=st.integers(0, rs._MAX_SECONDS),
    nanos=st.integers(0, 999_999_999),
    reason=names,
    domain=names,
    metadata=st.dictionaries(names, names, max_size=4),
    fields=st.lists(names, max_size=5),
)
def test_as_the_library_reads_it(
    code: int, seconds: int, nanos: int, reason: str, domain: str, metadata: dict[str, str], fields: list[str]
) -> None:
    """What Google's own library writes, this reads as that library says it in JSON."""
    details_pb2: Any = pytest.importorskip("google.rpc.error_details_pb2", reason="needs grpcio-status")
    status_pb2: Any = pytest.importorskip("google.rpc.status_pb2", reason="needs grpcio-status")
    info = details_pb2.RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    bad = details_pb2.BadRequest(field_violations=[{"field": name, "description": "d"} for name in fields])
    why = details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)
    quota = details_pb2.QuotaFailure(violations=[{"subject": "s"}])
    built = status_pb2.Status(code=code, message="m")
    for one in (info, bad, why, quota):
        built.details.add().Pack(one)
    delay, violations, error_read, failures = rs.status_details(built.SerializeToString(), code)
    assert delay["retryDelay"] == f"{seconds}.{nanos:09}s"
    assert (error_read["reason"], error_read["domain"]) == (reason, domain)
    assert error_read["metadata"] == {name: "" for name in metadata if name}
    assert violations["fieldViolations"] == [{"field": name} for name in fields if name]
    assert failures["violations"] == [{}]


@pytest.mark.parametrize("before", [0, 300, 9_000])
def test_a_pushback_behind_other_fields_still_forbids(judge: Any, before: int) -> None:
    """No number of other fields hides that the server forbids a second call."""
    others = [(f"x-{number}", "5") for number in range(before)]
    said = judge(error("UNAVAILABLE", b"", *others, ("grpc-retry-pushback-ms", "-1")))
    assert said.recovery is Recovery.DO_NOT_RETRY
