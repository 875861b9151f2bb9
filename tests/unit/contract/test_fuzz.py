"""Bad input is bounded: it never raises, never takes long, never makes anything more permissive, never leaks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forbear.contract import (
    Http,
    McpError,
    Raised,
    RaisedFacts,
    Value,
    builtin_catalogue,
    classify,
    lint_text,
    load_profile,
    mcp_result,
    profile_names,
    tool_policy,
)
from forbear.contract.raw import Grpc
from forbear.core.values import Envelope
from forbear.core.view import MAX_REFUSAL_BYTES, view_text
from forbear.core.vocabulary import Executed, Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
SECRET = "PLANTED-SECRET-0001"
POLICIES = [
    tool_policy("t", effect="read"),
    tool_policy("t", effect="write"),
    tool_policy("t"),
    tool_policy("t", effect="write", trust="remote", speaks_contract=True, text_rules=[{"pointer": "/a", "value": 1,
                "recovery": "repair_input"}], status_rules=[{"status": 409, "code": "x", "recovery": "repair_input"}],
                safe_fields={"code": ["known"], "n": "number"}),
]  # fmt: skip
PROFILES = [None, *(load_profile(name) for name in profile_names())]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=30)
    | st.sampled_from([SECRET, "retry_after", "RATE_LIMITED", "success", "true"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["ok", "error", "code", "recovery", "outcome", "executed", "data", "errors", "message", "type",
                         "reset_at", "retry_after", "status", "action", "safe_message", "invalid_fields", "a"])
        | st.text(max_size=8),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip
names = st.sampled_from(
    ["Retry-After", "retry-after-ms", "RateLimit", "X-RateLimit-Reset", "X-RateLimit-Remaining", "Date", "Age",
     "Content-Type", "x-should-retry", "cf-mitigated", "x-amz-retry-after", "idempotent-replayed"]
)  # fmt: skip
field_values = (
    st.text(max_size=60)
    | st.sampled_from(["0", "5", "nan", "inf", "1_000", "٣٠", "9" * 400, '"a";r=0;t=5', "Tue, 01 Sep 2026 12:02:00 GMT",
                       "application/problem+json", "application/json", "false", "true", SECRET])
)  # fmt: skip
statuses = st.integers(-5, 1200) | st.sampled_from([200, 202, 207, 304, 400, 401, 403, 404, 409, 422, 429, 500, 503])


def check(envelope: Envelope, *, effect: str) -> None:
    """Assert what holds for every envelope that leaves the contract."""
    text = view_text(envelope)
    assert text.strip()
    assert SECRET not in text
    assert SECRET not in repr(envelope)
    if envelope.recovery is not None:
        assert len(text.encode()) <= MAX_REFUSAL_BYTES
        assert envelope.safe_message is not None
        assert lint_text(envelope.safe_message) == []
        assert envelope.code
    if envelope.recovery is Recovery.INSPECT_OUTCOME:
        assert envelope.executed is not Executed.NO
    if effect != "read" and envelope.recovery is Recovery.RETRY_AFTER:
        assert envelope.executed is Executed.NO
    if envelope.reset_at is not None:
        assert envelope.recovery is Recovery.RETRY_AFTER
        assert envelope.reset_at >= NOW


def judge(raw: Any, index: int, profile: int = 0) -> Envelope:
    """Return what a raw result means under one of the policies and profiles."""
    return classify(
        raw, policy=POLICIES[index], arguments={"code": 1}, now=NOW, catalogue=builtin_catalogue(),
        profile=PROFILES[profile % len(PROFILES)],
    )  # fmt: skip


policies = st.integers(0, len(POLICIES) - 1)


@settings(max_examples=400)
@given(
    status=statuses,
    headers=st.lists(st.tuples(names | st.text(max_size=10), field_values), max_size=6).map(tuple),
    body=json_values | json_values.map(json.dumps) | st.text(max_size=60) | st.binary(max_size=60),
    index=policies,
    profile=st.integers(0, 100),
)
def test_http(status: int, headers: Any, body: object, index: int, profile: int) -> None:
    """Any status, header fields and body under any profile give a sound envelope."""
    check(judge(Http(status=status, headers=headers, body=body), index, profile), effect=POLICIES[index].effect)


@settings(max_examples=200)
@given(value=json_values, index=policies)
def test_values(value: object, index: int) -> None:
    """Any value of a tool gives a sound envelope."""
    check(judge(Value(value), index), effect=POLICIES[index].effect)


@settings(max_examples=200)
@given(
    result=json_values
    | st.fixed_dictionaries(
        {},
        optional={
            "resultType": st.sampled_from(["complete", "input_required", "task", "weird", 7]),
            "isError": st.booleans() | st.none() | st.text(max_size=3),
            "content": json_values,
            "structuredContent": json_values,
            "inputRequests": json_values,
            "requestState": st.text(max_size=5),
            "status": st.text(max_size=9) | st.sampled_from(["working", "failed"]),
        },
    ),
    index=policies,
)
def test_mcp(result: object, index: int) -> None:
    """Any MCP result gives a sound envelope."""
    check(judge(mcp_result(result), index), effect=POLICIES[index].effect)


@given(code=st.integers() | json_values, origin=st.text(max_size=6), listed=st.booleans(), index=policies)
def test_mcp_errors(code: object, origin: str, index: int, *, listed: bool) -> None:
    """Any JSON-RPC error gives a sound envelope."""
    check(judge(McpError(code=code, origin=origin, tool_listed=listed), index), effect=POLICIES[index].effect)


@given(
    code=st.integers() | st.text(max_size=20) | st.sampled_from(["UNAVAILABLE", "RESOURCE_EXHAUSTED", "OK"]),
    details=st.lists(json_values, max_size=3).map(tuple),
    trailing=st.lists(st.tuples(st.just("grpc-retry-pushback-ms") | st.text(max_size=4), field_values), max_size=3).map(
        tuple
    ),
    index=policies,
)
def test_grpc(code: Any, details: Any, trailing: Any, index: int) -> None:
    """Any gRPC status gives a sound envelope."""
    check(judge(Grpc(code=code, details=details, trailing_metadata=trailing), index), effect=POLICIES[index].effect)


class_names = st.sampled_from(
    ["httpx.ConnectError", "httpx.ReadTimeout", "requests.ConnectionError", "ssl.SSLCertVerificationError",
     "builtins.ValueError", "builtins.TimeoutError", ".ConnectError", "evil.ConnectError", "psycopg.OperationalError", ""]
) | st.text(max_size=12)  # fmt: skip


@settings(max_examples=300)
@given(
    own=st.lists(class_names, max_size=3).map(tuple),
    chain=st.lists(st.lists(class_names, max_size=2).map(tuple), max_size=3).map(tuple),
    phase=st.sampled_from(["build", "pool", "connect", "read", "execute", "in_tool", "before_send", "unknown"])
    | st.text(max_size=5),
    status=st.none() | statuses,
    state=st.none() | st.text(max_size=6),
    index=policies,
)
def test_exceptions(own: Any, chain: Any, phase: str, status: int | None, state: str | None, index: int) -> None:
    """Any recorded exception gives a sound envelope."""
    facts = RaisedFacts(names=own, chain=chain, phase=phase, status=status, sqlstate=state)
    check(judge(facts, index), effect=POLICIES[index].effect)


LARGE: dict[str, Any] = {
    "10 MB text": Http(status=500, body="A" * 10_000_000),
    "10 MB bytes": Http(status=400, body=b"\xff" * 10_000_000),
    "10 MB JSON": Http(status=200, body='{"ok":' + "1" * 10_000_000),
    "10 MB list": Http(status=200, body="[" + "1," * 5_000_000 + "1]"),
    "deep JSON": Http(status=400, body="[" * 200_000 + "]" * 200_000),
    "64 KB digits": Http(status=429, headers=(("Retry-After", "9" * 65536),)),
    "64 KB commas": Http(status=429, headers=(("Retry-After", "," * 65536), ("X-RateLimit-Reset", "1," * 32768))),
    "64 KB list": Http(status=429, headers=(("RateLimit", '"a";r=0;t=5,' * 5500),)),
    "8 KB list": Http(status=429, headers=(("RateLimit", '"a";r=0;t=5,' * 680),)),
    "10,000 headers": Http(status=429, headers=(("Retry-After", "5"),) * 10_000),
    "10,000 names": Http(status=429, headers=tuple((f"X-RateLimit-Reset-{n}", "5") for n in range(10_000))),
    "long XML": Http(status=503, body="<Error>" + "<Code>x" * 100_000),
    "many errors": Http(status=422, body={"errors": [{"field": "x"}] * 100_000}),
    "many codes": Http(status=409, body={"errors": [{"code": "x"}] * 100_000}),
    "long code": Http(status=403, body={"code": "A" * 1_000_000, "message": "b" * 1_000_000}),
    "wide object": Value({f"k{n}": [] for n in range(100_000)}),
    "long text": Value("Error:" + "x" * 10_000_000),
    "long contract": Value({"ok": False, "error": {"code": "A" * 10**6, "recovery": "x" * 10**6}}),
    "many fields": Value(
        {"ok": False, "error": {"code": "A", "recovery": "repair_input", "invalid_fields": ["x"] * 10**5}}
    ),
    "long chain": RaisedFacts(names=("httpx.ReadTimeout",), chain=(("httpx.ReadTimeout",),) * 10_000),
    "long message": Raised(ValueError("x" * 10_000_000), "in_tool"),
}


# What an ordinary answer costs to read, beside which the others are measured.
ORDINARY = json.dumps([{"id": number, "state": "open"} for number in range(2_000)])


@pytest.mark.parametrize("name", sorted(LARGE))
@pytest.mark.parametrize("index", range(len(POLICIES)))
def test_large_input_is_cut(name: str, index: int) -> None:
    """No size of body, header, chain or value takes more than a few ordinary texts do, under any profile."""
    for profile in range(len(PROFILES)) if isinstance(LARGE[name], Http) else (0,):

        def work(profile: int = profile) -> None:
            check(judge(LARGE[name], index, profile), effect=POLICIES[index].effect)

        # Measured: below ten of them; the bound leaves room for a loaded machine.
        assert least(work) < 100 * least(lambda: json.loads(ORDINARY))


def least(work: Callable[[], object]) -> float:
    """Return the least of several measurements of the processor's time, in seconds."""
    taken: list[float] = []
    for _ in range(3):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)
