"""`forbear classify` is shown to anybody: it says what decided, and nothing of what a result held, whatever it held."""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from typing import Any
from urllib.parse import quote

import pytest

from forbear.cli import main
from tests.integration.hostile import CORE, SECRET, leaks
from tests.integration.test_leaks import CONTRACT, HEADERS, NESTED, deep

ERRNO = {"errno": 111, "client": {"single_attempt": True, "follow_redirects": False}}
NAMED = f"{CORE}.errors"
RESULTS: dict[str, object] = {
    "401, header fields": {"kind": "http", "status": 401, "headers": HEADERS, "body": SECRET},
    "429, every time field": {
        "kind": "http",
        "status": 429,
        "headers": [
            [name, value]
            for name in ("Retry-After", "RETRY-after-MS", "RateLimit", "x-ratelimit-RESET", "Date", "Age", CORE)
            for value in (SECRET, CORE, f"5;{CORE}", quote(SECRET, safe=""))
        ],
        "body": NESTED,
    },
    "429, fields with names of their own": {
        "kind": "http", "status": 429, "headers": [[f"x-ratelimit-{CORE}", "5"]], "body": {"retry_after": 5},
        "profile": "discord",
    },
    "a long SQLSTATE": {"kind": "exception", "module": "psycopg", "class": "Error", "sqlstate": CORE},
    "422, keys and values": {"kind": "http", "status": 422, "body": json.dumps(NESTED)},
    "a method": {"kind": "http", "status": 418, "method": CORE, "body": ""},
    "a protocol": {"kind": "http", "status": 404, "protocol": CORE, "body": SECRET},
    "the contract": {"kind": "http", "status": 403, "body": CONTRACT},
    "the contract as a value": {"kind": "value", "value": CONTRACT},
    "Base64": {"kind": "http", "status": 500, "body": base64.b64encode(SECRET.encode()).decode()},
    "deep": {"kind": "http", "status": 400, "body": deep(150)},
    "an exception": {
        "kind": "exception", "module": NAMED, "class": CORE, "phase": "connect", "message": SECRET, "sqlstate": CORE[:5],
        "chain": [f"{NAMED}.{CORE}", "httpx.ReadTimeout", SECRET], "raised_by": CORE, "headers": HEADERS, "body": SECRET,
        **ERRNO,
    },
    "an exception with a status": {
        "kind": "exception", "module": "openai", "class": CORE, "status": 429, "headers": HEADERS, "body": NESTED,
    },
    "a phase": {"kind": "exception", "module": "httpx", "class": "ReadTimeout", "phase": CORE},
    "MCP": {"kind": "mcp", "result": {"isError": True, "content": [{"type": "text", "text": SECRET}], CORE: SECRET}},
    "MCP, an odd kind": {"kind": "mcp", "result": {"resultType": CORE, "status": CORE, "content": []}},
    "MCP, input": {
        "kind": "mcp",
        "result": {"resultType": "input_required", "requestState": SECRET, "inputRequests": {CORE: {"method": CORE}}},
    },
    "JSON-RPC": {"kind": "mcp", "error": {"code": -32042, "message": SECRET, "data": {CORE: SECRET}}, "origin": CORE},
    "gRPC": {
        "kind": "grpc", "code": CORE, "details": [{"@type": CORE, "reason": CORE, "metadata": {CORE: SECRET}}],
        "trailing_metadata": [[CORE, SECRET], ["grpc-retry-pushback-ms", CORE]],
    },
    "a program": {"kind": "process", "exit_status": 3, "output": SECRET},
    "a kind": {"kind": CORE, "status": 5},
    "a member of the wrong type": {"kind": "http", "status": SECRET, "body": SECRET},
    "header fields of the wrong type": {"kind": "http", "status": 500, "headers": {CORE: [SECRET, {CORE: 1}]}},
    "a chain of the wrong type": {"kind": "exception", "module": "m", "class": "C", "chain": {CORE: SECRET}},
    "an error of the wrong type": {"kind": "mcp", "error": SECRET},
    "nothing": {CORE: SECRET},
    "a text": SECRET,
}  # fmt: skip


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("name", RESULTS)
def test_nothing_of_a_result_is_printed(
    name: str,
    effect: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the command prints, where it can judge and where it cannot, holds no form of a planted secret."""
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(RESULTS[name])))
        code = main(["classify", "--tool", "t", "--effect", effect, "--now", "2026-09-01T12:00:00Z", *options])
        printed = capsys.readouterr()
        assert code in (0, 2)
        assert printed.out or printed.err
        assert leaks([printed.out, printed.err]) == []


@pytest.mark.parametrize(
    "text",
    [
        SECRET, f'{{"kind": "http", "status": 429, "{CORE}": NaN', '{"kind": "http", "status": 1e999}', "[" * 200_000,
        '{"kind": "http", "status": ' + "9" * 5_000 + "}", f'"{CORE}"', "\x00", "",
        '{"kind": "http", "status": 500, "body": "' + CORE * 500_000 + '"}',
        '{"kind": "http", "status": 500, "headers": [' + ",".join(f'["{CORE}","{CORE}"]' for _ in range(10_000)) + "]}",
        '{"kind": "http", "status": 429, "headers": [["Retry-After", "' + CORE * 4_000 + '"]]}',
        '{"kind": "http", "status": 500, "body": "\\ud800' + CORE + '"}',
    ],
    ids=range(12),
)  # fmt: skip
def test_a_result_that_is_hostile_as_a_whole(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text that is no JSON, too deep or too large is a short message or a judgment; never a traceback, never a leak."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    started = time.process_time()
    code = main(["classify", "--tool", "t", "--effect", "write", "--now", "2026-09-01T12:00:00Z"])
    printed = capsys.readouterr()
    assert code in (0, 2)
    assert "Traceback" not in printed.err
    assert leaks([printed.out, printed.err]) == []
    # Reading ten megabytes of JSON is most of it.
    assert time.process_time() - started < 10


def test_bytes_that_are_no_text_are_a_message(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not UTF-8 is named as such, without its bytes."""
    file = tmp_path / "r.json"
    file.write_bytes(b'{"kind": "http", "body": "' + CORE.encode() + b'\xff\xfe"}')
    assert main(["classify", "--tool", "t", "--effect", "read", str(file)]) == 2
    printed = capsys.readouterr()
    assert leaks([printed.out, printed.err]) == []
