"""`forbear classify`: one result in, its class and the reason out. What results mean is tested with the contract."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from forbear.cli import main

NOW = ["--now", "2026-09-01T12:00:00Z"]
POLICY = """
[tools.place_order]
effect = "write"
status_rules = [{ status = 409, code = "DUPLICATE", outcome = "already_satisfied" }]
text_rules = [{ prefix = "Busy", recovery = "retry_after" }]
exception_rules = [{ exception = "desk.Closed", recovery = "do_not_retry" }]
"""

TYPES = "type.googleapis.com/google.rpc."
RETRY_INFO = {"@type": f"{TYPES}RetryInfo", "retryDelay": "30s"}
BILLING = {"@type": f"{TYPES}ErrorInfo", "reason": "BILLING_DISABLED", "domain": "googleapis.com"}
BAD_REQUEST = {"@type": f"{TYPES}BadRequest", "fieldViolations": [{"field": "quantity"}]}


def classified(
    result: object, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, str | None]:
    """Run the command on a result from stdin and return what it prints as JSON."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(result)))
    assert main(["classify", "--tool", "place_order", *NOW, "--json", *arguments]) == 0
    printed: dict[str, str | None] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.parametrize(
    ("result", "cls", "decided"),
    [
        (
            {"kind": "http", "status": 409, "body": {"code": "DUPLICATE"}},
            "already_satisfied",
            "policy: status_rules[0]",
        ),
        ({"kind": "http", "status": 409, "body": {}}, "inspect_outcome", "HTTP status 409"),
        ({"kind": "http", "status": 429, "headers": [["Retry-After", "9"]]}, "retry_after", "time from retry-after"),
        ({"kind": "http", "status": 200, "body": "Busy now"}, "retry_after", "policy: text_rules[0]"),
        ({"kind": "value", "value": "Busy now"}, "retry_after", "policy: text_rules[0]"),
        ({"kind": "value", "value": "done"}, "success", "the returned value"),
        ({"kind": "exception", "module": "desk", "class": "Closed"}, "do_not_retry", "policy: exception_rules[0]"),
        ({"kind": "exception", "module": "httpx", "class": "ReadTimeout"}, "inspect_outcome", "httpx.ReadTimeout"),
        ({"kind": "exception", "module": "x", "class": "Y", "status": 401}, "do_not_retry", "HTTP status 401"),
        (
            {"kind": "exception", "module": "psycopg", "class": "Y", "sqlstate": "40001"},
            "retry_after",
            "SQLSTATE 40001",
        ),
        (
            {"kind": "exception", "module": "x", "class": "Y", "sqlstate": "40001"},
            "inspect_outcome",
            "a SQLSTATE that an exception of somebody else carries",
        ),
        ({"kind": "mcp", "result": {"isError": True, "content": []}}, "repair_input", "MCP isError"),
        ({"kind": "mcp", "error": {"code": -32602}}, "repair_input", "JSON-RPC error code, made by server"),
        ({"kind": "grpc", "code": "UNAVAILABLE"}, "inspect_outcome", "gRPC status code"),
        (
            {"kind": "grpc", "code": 8, "details": [RETRY_INFO, BILLING]},
            "do_not_retry",
            "gRPC status code and ErrorInfo",
        ),
        ({"kind": "grpc", "code": 8, "details": [RETRY_INFO]}, "retry_after", "gRPC status code and RetryInfo"),
        ({"kind": "exception", "class": "httpx.ReadTimeout"}, "inspect_outcome", "httpx.ReadTimeout (no_answer)"),
        ({"kind": "process", "exit_status": 3}, "repair_input", "exit status 3"),
        ({"kind": "process", "signal": 9}, "inspect_outcome", "signal 9"),
    ],
)
def test_what_decided_is_named(
    result: object,
    cls: str,
    decided: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The class is printed with the rule of the policy, or the fact of the protocol, that decided."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY, "utf-8")
    printed = classified(result, ["--policy", str(policy)], monkeypatch, capsys)
    assert printed["class"] == cls
    assert decided in str(printed["decided"])


def test_rejected_fields_are_named_from_the_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the call's arguments the model is told which of them was not accepted, as it would be."""
    result = {"kind": "grpc", "code": "INVALID_ARGUMENT", "details": [BAD_REQUEST]}
    printed = classified(result, ["--arguments", '{"quantity": 0}'], monkeypatch, capsys)
    assert '"invalid_fields":["quantity"]' in str(printed["model"])
    assert printed["decided"] == "gRPC status code and BadRequest"
    assert "quantity" not in str(classified(result, [], monkeypatch, capsys)["model"])


@pytest.mark.parametrize(
    ("arguments", "said"), [([], "undeclared, taken for a write"), (["--effect", "read"], "read")], ids=["none", "read"]
)
def test_what_was_declared_is_said(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person sees what the judgment started from; without a declaration that is the careful reading."""
    printed = classified({"kind": "http", "status": 503}, arguments, monkeypatch, capsys)
    assert printed["effect"] == said


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_no_text_promises_what_the_class_does_not(
    code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the server forbids a second call, the model is not told that the controller will make one."""
    result = {"kind": "grpc", "code": code, "trailing_metadata": [["grpc-retry-pushback-ms", "-1"]]}
    printed = classified(result, ["--effect", "read"], monkeypatch, capsys)
    assert printed["class"] == "do_not_retry"
    assert "controller" not in str(printed["model"])
    assert printed["decided"] == "gRPC status code and grpc-retry-pushback-ms"


def test_a_retry_is_between_two_instants(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The controller's margin and jitter are shown as the earliest and the latest instant; no retry is no instant."""
    result = {"kind": "http", "status": 429, "headers": [["Retry-After", "100"]]}
    printed = classified(result, ["--effect", "write"], monkeypatch, capsys)
    assert (printed["not_before"], printed["latest"]) == ("2026-09-01T12:01:40.250Z", "2026-09-01T12:02:00Z")
    refused = classified({"kind": "http", "status": 401}, [], monkeypatch, capsys)
    assert (refused["not_before"], refused["latest"]) == (None, None)


def test_without_json_a_line_for_each_fact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a person each fact is one line, the model's view last; nothing of the body is in it."""
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"kind": "http", "status": 403, "body": "secret\u202e"}), "utf-8")
    assert main(["classify", "--tool", "t", *NOW, str(result)]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == [
        "effect", "class", "code", "executed", "decided", "not_before", "latest", "model",
    ]  # fmt: skip
    assert "secret" not in out


def test_the_vendor_is_named_where_its_conventions_decide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A vector's own profile, or the option, is applied and named."""
    body = {"errors": [{"extensions": {"code": "RATELIMITED"}}]}
    result = {"kind": "http", "status": 400, "body": body, "profile": "linear"}
    printed = classified(result, ["--effect", "read"], monkeypatch, capsys)
    assert printed["decided"] == "HTTP status 400, by the conventions of linear"


@pytest.mark.parametrize(
    ("text", "arguments", "named"),
    [
        ("no JSON secret", [], "must be JSON"),
        ("[1]", [], "must be an object"),
        ('{"kind": "secret"}', [], "'kind'"),
        ('{"kind": "http"}', [], "'status'"),
        ('{"kind": "http", "status": "secret"}', [], "'status'"),
        ('{"kind": "exception"}', [], "'class'"),
        ('{"kind": "value", "value": 1}', ["--now", "secret"], "--now"),
        ('{"kind": "value", "value": 1}', ["--now", "2026-12-01T08:00:00"], "with its zone, such as"),
        ('{"kind": "value", "value": 1}', ["--profile", "none"], "profile"),
        ("[" * 100_000, [], "must be JSON"),
        ('{"kind": "http", "status": 429, "header": {"Retry-After": "secret"}}', [], "'headers'"),
        ('{"kind": "value", "value": 1}', ["--arguments", "[1]"], "--arguments"),
        ('{"kind": "value", "value": 1}', ["--arguments", "{"], "--arguments"),
    ],
)
def test_broken_input_is_one_line_without_its_values(
    text: str,
    arguments: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What cannot be read is exit code 2 and one line that names the member, never its value."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["classify", "--tool", "t", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert named in line
    assert "secret" not in line


def test_every_vector_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every committed signal has a reason, and the class is the vector's."""
    path = Path(__file__).parents[1] / "golden" / "signals.jsonl"
    for line in path.read_text("utf-8").splitlines():
        vector = json.loads(line)
        monkeypatch.setattr("sys.stdin", io.StringIO(line))
        assert main(["classify", "--tool", "t", "--effect", vector["effect"], "--now", vector["now"], "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["decided"]
        if not speaks_the_contract(vector):
            word = "success" if vector["expected"]["recovery"] == "none" else vector["expected"]["recovery"]
            assert printed["class"] in (word, "partial", "already_satisfied"), vector["id"]


def speaks_the_contract(vector: dict[str, dict[str, object]]) -> bool:
    """Tell whether a vector comes from a tool that is registered as speaking the contract."""
    return "structuredContent" in json.dumps(vector["input"])
