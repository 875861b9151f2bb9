"""Bad input is bounded: its cost is compared with reading a small JSON text in the same run, on the same machine."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forbear.contract import (
    Http,
    Process,
    Raised,
    Value,
    builtin_catalogue,
    classify,
    header_pairs,
    mcp_result,
    tool_policy,
)
from forbear.core.vocabulary import Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
# A text as a tool may well return it.
ORDINARY = json.dumps([{"id": number, "state": "open"} for number in range(2_000)])
# Measured: the worst input costs less than reading that text once; the bound leaves room for a loaded machine.
MOST = 10.0

TEN_MEGABYTES = 10 * 1024 * 1024
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
}
POLICIES = {
    "plain": tool_policy("t", effect="write"),
    "with every kind of rule": tool_policy(
        "t", effect="write", trust="remote", speaks_contract=True, safe_fields={"code": ["known"]},
        text_rules=[{"prefix": "Error: no", "outcome": "failed"}, {"equals": "no", "outcome": "empty"},
                    {"pointer": "/a/b", "value": 1, "recovery": "repair_input"}],
        status_rules=[{"status": 400, "code": "x", "recovery": "repair_input"}],
    ),
}  # fmt: skip


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
        said = classify(raw, policy=POLICIES[policy], arguments={}, now=NOW, catalogue=builtin_catalogue())
        # And what cannot be read is no success (a value without an error's form is what the tool says).
        assert said.recovery is not None or isinstance(raw, Value)

    assert seconds(judge) <= MOST * seconds(lambda: json.loads(ORDINARY))


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
