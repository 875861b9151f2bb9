"""Bad input is bounded: its cost is compared with reading a small JSON text in the same run, on the same machine."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from forbear.contract import (
    Http,
    McpError,
    Process,
    Raised,
    Value,
    builtin_catalogue,
    classify,
    header_pairs,
    load_profile,
    mcp_result,
    profile_names,
    tool_policy,
)
from forbear.core.vocabulary import Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
# A text as a tool may well return it.
ORDINARY = json.dumps([{"id": number, "state": "open"} for number in range(2_000)])
# Measured: the worst input costs less than reading that text once; the bound leaves room for a loaded machine.
MOST = 10.0

TEN_MEGABYTES = 10 * 1024 * 1024


def deep(levels: int) -> object:
    """Return lists in lists."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def caused(count: int) -> Exception:
    """Return an exception with so many causes, one behind the other."""
    error = OSError()
    for _ in range(count):
        behind, error = error, OSError()
        error.__cause__ = behind
    return error


def grouped(count: int, error: Exception) -> Exception:
    """Return an exception in so many groups."""
    for _ in range(count):
        error = ExceptionGroup("", [error])
    return error


class RpcError(Exception):
    """What grpcio raises, as far as anybody looks."""

    metadata: tuple[tuple[str, object], ...] = ()

    def code(self) -> Any:
        return SimpleNamespace(name="RESOURCE_EXHAUSTED", value=(8, "resource exhausted"))

    def trailing_metadata(self) -> tuple[tuple[str, object], ...]:
        return self.metadata


RpcError.__module__ = "grpc"


def rpc_error(details: bytes, more: int = 0) -> Raised:
    """Return a gRPC error with details and so many other fields."""
    error = RpcError()
    error.metadata = (*((f"x-{n}", "5") for n in range(more)), ("grpc-status-details-bin", details))
    return Raised(error)


INPUTS: dict[str, Any] = {
    "10 MB of text": Http(status=500, body="A" * TEN_MEGABYTES),
    "10 MB of bytes that are no UTF-8": Http(status=400, body=b"\xff\xfe" * (TEN_MEGABYTES // 2)),
    "10 MB of half a JSON": Http(status=400, body='{"error":{"code":"' + "x" * TEN_MEGABYTES),
    "10 MB of nesting": Http(status=422, body="[" * TEN_MEGABYTES),
    "64 KB in a field": Http(status=429, headers=(("Retry-After", "9" * 65_536), ("RateLimit", '"a";r=0,' * 8_192))),
    "64 KB of a date": Http(status=429, headers=(("Retry-After", "Tue, " * 13_000), ("Date", "Tue, " * 13_000))),
    "10,000 fields": Http(status=503, headers=tuple((f"X-RateLimit-Reset-{n}", "5") for n in range(10_000))),
    "10,000 fields that tell nothing": Http(status=503, headers=tuple((f"X-Pad-{n}", "5") for n in range(10_000))),
    "10,000 times one field": Http(status=429, headers=(("retry-AFTER", "5"),) * 10_000),
    "10 MB of a value": Value("Error: " + "x" * TEN_MEGABYTES),
    "10 MB of MCP text": mcp_result({"isError": True, "content": [{"type": "text", "text": "{" * TEN_MEGABYTES}]}),
    "10,000 blocks of MCP": mcp_result({"isError": True, "content": [{"type": "text", "text": "x"}] * 10_000}),
    "10 MB that a program printed": Process(exit_status=1, output=b"\x00" * TEN_MEGABYTES),
    "10 MB of an exception's message": Raised(ValueError("x" * TEN_MEGABYTES), "in_tool"),
    "10 MB of a message that is shown": Raised(ValueError("error:\n" * (TEN_MEGABYTES // 7)), "in_tool"),
    "10 MB in one word of a contract": Value(
        {"ok": False, "error": {"code": "A" * TEN_MEGABYTES, "recovery": "retry_after"}}
    ),
    "a wide object": Value({f"k{n}": [] for n in range(100_000)}),
    "a deep object": Value(deep(100_000)),
    "10 MB of an error's data": McpError(code=-32000, data={"x": "y" * TEN_MEGABYTES}),
    "10 MB of gRPC details": rpc_error(b"\x08\x08" + b"\x1a\xff\xff\xff\x04" + b"x" * TEN_MEGABYTES),
    "64 KB of gRPC details": rpc_error(b"\x08\x08" + b"\x1a\x02\x0a\x00" * 16_000),
    "10,000 fields of gRPC metadata": rpc_error(b"", more=10_000),
    "10,000 causes": Raised(caused(10_000)),
    "10,000 groups": Raised(grouped(10_000, OSError())),
    "10,000 exceptions in a group": Raised(ExceptionGroup("", [OSError(n) for n in range(10_000)])),
}
POLICIES = {
    "plain": tool_policy("t", effect="write"),
    "whose errors are shown": tool_policy("t", effect="write", error_text="shown", secret=["token"]),
    "with every kind of rule": tool_policy(
        "t", effect="write", trust="remote", speaks_contract=True, safe_fields={"code": ["known"]},
        text_rules=[{"prefix": "Error: no", "outcome": "failed"}, {"equals": "no", "outcome": "empty"},
                    {"pointer": "/a/b", "value": 1, "recovery": "repair_input"}],
        status_rules=[{"status": 400, "code": "x", "recovery": "repair_input"}],
    ),
}  # fmt: skip


PROFILES = (None, *profile_names())


def seconds(work: Any) -> float:
    """Return the least of several measurements of the processor's time."""
    taken: list[float] = []
    for _ in range(5):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", INPUTS)
def test_no_input_costs_more_than_a_few_ordinary_ones(name: str, policy: str) -> None:
    """Whatever its size, a result is judged in a small multiple of the time that reading an ordinary text takes."""
    raw = INPUTS[name]

    def judge() -> None:
        said = classify(
            raw, policy=POLICIES[policy], arguments={"token": "x" * 64}, now=NOW, catalogue=builtin_catalogue()
        )
        # And what cannot be read is no success (a value without an error's form is what the tool says).
        assert said.recovery is not None or isinstance(raw, Value)

    assert seconds(judge) <= MOST * seconds(lambda: json.loads(ORDINARY))


@pytest.mark.parametrize("profile", profile_names())
def test_no_vendors_conventions_cost_more(profile: str) -> None:
    """The same holds for every answer under every vendor's conventions."""
    conventions, ordinary = load_profile(profile), seconds(lambda: json.loads(ORDINARY))
    for name, raw in INPUTS.items():
        if not isinstance(raw, Http):
            continue

        def judge(raw: Http = raw) -> None:
            classify(
                raw, policy=POLICIES["plain"], arguments={}, now=NOW, catalogue=builtin_catalogue(), profile=conventions
            )

        assert (name, seconds(judge) <= MOST * ordinary) == (name, True)


# What a field is broken into, and what the same answer says without the field.
BROKEN = {
    "not UTF-8": b"\xff\xfe{",
    "half a JSON": '{"error":{"code":"',
    "a number that is none": '{"retry_after": NaN, "error": {"code": "rate_limited"}}',
    "twice": '{"error": {"code": "a"}, "error": {"code": "rate_limited"}}',
    "deep": "[" * 200_000,
    "large": "x" * TEN_MEGABYTES,
}
PERMISSIVE = (None, Recovery.RETRY_AFTER, Recovery.USE_ALTERNATIVE, Recovery.REPAIR_INPUT, Recovery.REQUEST_APPROVAL,
              Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME)  # fmt: skip


@pytest.mark.parametrize("body", BROKEN)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 412, 422, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_broken_body_is_never_more_permissive_than_none(body: str, status: int, effect: str) -> None:
    """Whatever a body is broken into, the answer means what its status means, or something stricter, for any vendor."""
    policy = tool_policy("t", effect=effect)
    for profile in PROFILES:
        conventions = None if profile is None else load_profile(profile)

        def judged(text: object, conventions: Any = conventions) -> int:
            said = classify(
                Http(status=status, body=text), policy=policy, arguments={}, now=NOW, catalogue=builtin_catalogue(),
                profile=conventions,
            )  # fmt: skip
            return PERMISSIVE.index(said.recovery)

        assert (profile, judged(BROKEN[body]) >= judged("")) == (profile, True)


@pytest.mark.parametrize(
    "value",
    [
        "nan",
        "inf",
        "-inf",
        "1e3",
        "1_000",
        "0x10",
        "٣٠",
        "\uff13\uff10",
        "+5",
        "-5",
        "9" * 65_536,
        "5\x00",
        "",
        "5;6",
        "½",
    ],
)
def test_what_is_no_number_is_never_a_time(value: str) -> None:
    """A time that is outside of the grammar does not exist: the wait is the default's, or the refusal is final."""
    for field in ("Retry-After", "retry-after-ms", "X-RateLimit-Reset", "RateLimit"):
        raw = Http(status=429, headers=((field, value),))
        said = classify(raw, policy=POLICIES["plain"], arguments={}, now=NOW, catalogue=builtin_catalogue())
        assert said.reset_at is None
        assert said.recovery in (Recovery.RETRY_AFTER, Recovery.DO_NOT_RETRY)


@pytest.mark.parametrize("raw", [False, True], ids=["pairs", "as received"])
def test_a_time_behind_thousands_of_fields_counts(raw: bool) -> None:
    """Padding makes nothing more permissive: what is asked for is found behind it."""
    fields = [*((f"X-Pad-{n}", "1") for n in range(9_998)), ("Retry-AFTER", "600"), ("Date", "x")]
    headers = header_pairs(fields) if raw else tuple(fields)
    http = Http(status=429, headers=headers)
    said = classify(http, policy=POLICIES["plain"], arguments={}, now=NOW, catalogue=builtin_catalogue())
    assert said.reset_at == NOW + timedelta(seconds=600)
