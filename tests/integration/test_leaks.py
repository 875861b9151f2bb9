"""Nothing leaks: hostile results of tools, searched for in everything that a call shows, end to end."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from forbear import Controller, Refused
from forbear.contract import Grpc, Http, McpError, Process, Raised, RaisedFacts, Value, header_pairs, mcp_result
from forbear.runtime.steps import Ended, How
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration.hostile import CORE, FORMS, SECRET, Watch, journal_texts, leaks, prompts, told

MEGABYTE = 1024 * 1024


def raised(error: BaseException, *notes: str, cause: BaseException | None = None) -> Callable[..., object]:
    """Return a tool that raises."""

    def tool(**_: Any) -> object:
        for note in notes:
            error.add_note(note)
        raise error from cause

    return tool


def chained(**_: Any) -> object:
    """Raise with a cause, a context and a group, each of which holds the secret."""
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as inner:
            raise ConnectionError(f"https://user:{SECRET}@host/?q={quote(SECRET)}") from inner
    except ConnectionError:
        raise ExceptionGroup(SECRET, [ValueError(SECRET), OSError(5, SECRET, SECRET)])  # noqa: B904 - the context is the point


class Odd(Exception):
    """An exception whose every face shows the secret, and whose attributes are hostile."""

    def __init__(self) -> None:
        super().__init__(SECRET)
        self.status_code = 418
        self.headers = {CORE: SECRET}
        self.body = {"error": {"code": CORE, "message": SECRET}}

    def __str__(self) -> str:
        return SECRET

    __repr__ = __str__

    @property
    def response(self) -> object:
        """Fail."""
        raise RuntimeError(SECRET)


def http(status: int, body: object = "", *, headers: Any = ()) -> Callable[..., object]:
    """Return a tool that hands over an answer."""
    return lambda **_: Http(status=status, headers=header_pairs(headers), body=body, method="POST")


def deep(levels: int) -> object:
    """Return a list in a list in a list with the secret at its bottom."""
    value: object = SECRET
    for _ in range(levels):
        value = [value]
    return value


HEADERS = [
    ("AUTHORIZATION", f"Bearer {SECRET}"), ("authorization", SECRET), ("Retry-After", SECRET), ("rEtRy-AfTeR", CORE),
    ("X-Api-Token", CORE), ("Location", f"https://u:{CORE}@h/?t={quote(SECRET, safe='')}"), (CORE, CORE),
    ("RateLimit", f'"{CORE}";r=0;t=5'), ("Set-Cookie", CORE), ("Set-Cookie", SECRET), ("Content-Type", CORE),
    ("WWW-Authenticate", f'Bearer error="{CORE}"'), ("Date", CORE),
]  # fmt: skip
NESTED = {
    "error": {
        "code": CORE, "type": CORE, "message": SECRET, "param": CORE, "field": CORE,
        "errors": [{"pointer": f"/{CORE}", "field": CORE, "code": CORE, "detail": {"deep": [SECRET, {CORE: SECRET}]}}],
        "b64": base64.b64encode(SECRET.encode()).decode(), "pct": quote(SECRET, safe=""),
    },
    "errors": [{"field": CORE, "code": CORE}],
    "detail": SECRET, "title": CORE, "instance": CORE, "type": f"https://{CORE}/",
}  # fmt: skip
CONTRACT = {
    "ok": False,
    "outcome": "refused",
    "error": {
        "code": "DAILY_ORDER_LIMIT_REACHED", "recovery": "do_not_retry", "constraint": CORE, "operation": CORE,
        "safe_message": SECRET, "required_permission": CORE, "approval_url": f"https://u:{CORE}@evil.example/{CORE}",
        "alternative_tools": [CORE], "precondition": {"tool": CORE, "args": {CORE: SECRET}},
        "invalid_fields": [{"name": CORE, "rule": CORE}], CORE: SECRET,
    },
    "request_id": CORE, "meta": {"reason": CORE.upper(), CORE: SECRET}, CORE: SECRET,
}  # fmt: skip

TOOLS: dict[str, Callable[..., object]] = {
    "userinfo in a URL": raised(ConnectionError(f"https://user:{SECRET}@host:8443/path?key={SECRET}#{SECRET}")),
    "percent-encoded": raised(TimeoutError(f"GET /?sig={quote(SECRET, safe='')}")),
    "base64": raised(RuntimeError(base64.b64encode(f"user:{SECRET}".encode()).decode())),
    "prefix and suffix": raised(ValueError(f"{SECRET[:12]}...{SECRET[-12:]}")),
    "notes": raised(ValueError("x"), SECRET, f"Bearer {SECRET}"),
    "causes": chained,
    "an odd exception": raised(Odd()),
    "a key that is missing": raised(KeyError(SECRET)),
    "a file that is missing": raised(FileNotFoundError(2, SECRET, f"/home/{CORE}/.ssh/id")),
    "a command line": raised(
        subprocess.CalledProcessError(255, ["ssh", "-i", SECRET, f"{CORE}@host"], output=SECRET, stderr=SECRET)
    ),
    "a command's time": raised(subprocess.TimeoutExpired(f"TOKEN={SECRET} deploy", 5, output=SECRET, stderr=SECRET)),
    "bidi and zero-width": raised(ValueError("\u202e" + SECRET + "\u2066\u200b\ufeff" + CORE)),
    "a megabyte of message": raised(ValueError(SECRET * (MEGABYTE // len(SECRET)))),
    "not UTF-8": raised(UnicodeDecodeError("utf-8", SECRET.encode() + b"\xff", 0, 1, SECRET)),
    "header fields, 401": http(401, SECRET, headers=HEADERS),
    "header fields, 429": http(429, NESTED, headers=HEADERS),
    "header fields, 503": http(503, json.dumps(NESTED), headers=HEADERS),
    "nested JSON, 422": http(422, NESTED),
    "nested JSON, 409": http(409, json.dumps(NESTED).encode()),
    "problem details": http(403, json.dumps(NESTED), headers=[("content-type", "application/problem+json")]),
    "GraphQL": http(200, {"data": None, "errors": [{"message": SECRET, "extensions": {"code": CORE}, "path": [CORE]}]}),
    "HTML": http(502, f"<html><script>{SECRET}</script>{CORE}</html>"),
    "a megabyte of body": http(400, (SECRET * (MEGABYTE // len(SECRET))).encode()),
    "deep nesting": http(400, {"error": deep(900)}),
    "deep JSON": http(400, "[" * 100_000 + json.dumps(SECRET)),
    "the contract, everything planted": lambda **_: CONTRACT,
    "the contract, flat": lambda **_: {"ok": False, "code": "X_Y", "action": "stop_and_report", "message": SECRET},
    "the contract over HTTP": http(403, CONTRACT),
    "Refused, everything planted": raised(
        Refused("POSITION_LIMIT_REACHED", **{k: v for k, v in CONTRACT["error"].items() if k not in ("code", CORE)})  # type: ignore[attr-defined]  # a mapping
    ),
    "Refused, a secret for a code": raised(Refused(CORE.upper(), safe_message=f"x {CORE}")),
    "MCP, isError": lambda **_: mcp_result({"isError": True, "content": [{"type": "text", "text": SECRET}]}),
    "MCP, structured": lambda **_: mcp_result({"isError": True, "content": [], "structuredContent": CONTRACT}),
    "MCP, input required": lambda **_: mcp_result(
        {"resultType": "input_required", "inputRequests": {CORE: {"method": CORE, "params": SECRET}}}
    ),
    "JSON-RPC error": lambda **_: McpError(code=-32042, data={"url": SECRET, CORE: [SECRET]}),
    "gRPC": lambda **_: Grpc(
        code="RESOURCE_EXHAUSTED",
        details=({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": CORE, "metadata": {CORE: SECRET}},),
        trailing_metadata=((CORE, SECRET), ("grpc-retry-pushback-ms", SECRET)),
    ),
}


@pytest.fixture
def watch() -> Watch:
    """What telemetry takes away."""
    return Watch()


@pytest.fixture
def controller(watch: Watch) -> Iterator[Controller]:
    """A controller whose calls are short."""
    with Controller.open(
        ":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False, observer=watch.observers
    ) as opened:
        yield opened


POLICIES: dict[str, dict[str, object]] = {
    "read": {"effect": "read"},
    "write": {"effect": "write", "secret": ["token"]},
    "undeclared": {},
    "remote": {"effect": "write", "trust": "remote"},
    "remote that speaks the contract": {"effect": "write", "trust": "remote", "speaks_contract": True},
    "not atomic": {"effect": "write", "atomic": False},
    "asks": {"effect": "write", "approval": "always", "secret": ["token"]},
}


# What an owned tool calls its own refusal is its author's word.
OF_REMOTE_ONLY = {"Refused, a secret for a code"}
# To a tool that does not speak the contract its words are a result like any other, which passes unchanged.
OF_SPEAKERS_ONLY = {"the contract, everything planted", "the contract, flat"}
CASES = [
    (name, policy)
    for name in TOOLS
    for policy in POLICIES
    if not (name in OF_REMOTE_ONLY and "trust" not in POLICIES[policy])
    and not (name in OF_SPEAKERS_ONLY and policy == "remote")
]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_a_planted_secret_is_nowhere(
    name: str,
    policy: str,
    controller: Controller,
    watch: Watch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No view, prompt, log, warning, journal line or inbox shows a secret that a failing tool held, in any form."""
    caplog.set_level(logging.DEBUG)
    controller.declare("t", **POLICIES[policy])
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for step in ("s1", "s2"):
            # The second proposal is answered from what the first one left behind.
            arguments = {"token": SECRET} if "secret" in POLICIES[policy] else {"n": 1}
            reply = controller.call("t", arguments, run="r", step=step, execute=TOOLS[name], wait=False)
            assert not reply.ok
            texts += told(reply)
        handle = controller.run("r")
        for ready in handle.inbox():
            texts += told(ready)
        texts += [repr(handle), *prompts(controller), *journal_texts(controller)]
    controller.close()
    left = watch.texts(caplog.records)
    assert len(left) > 2, "telemetry says nothing"
    texts += [str(one.message) for one in warned] + [record.getMessage() for record in caplog.records]
    printed = capsys.readouterr()
    assert leaks([*texts, *left, printed.out, printed.err]) == []
    assert all(len(text.encode()) < 4096 for text in texts)


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_search_finds_every_form(form: str) -> None:
    """A leak in any form would be found: a search that finds nothing proves nothing."""
    assert leaks([f"before {form} after"]) != []


RAW = [
    Value(SECRET), Raised(ValueError(SECRET), seen=Http(status=500, headers=((CORE, SECRET),), body=SECRET)),
    RaisedFacts(names=("m.C",), headers=((CORE, SECRET),), body=SECRET, status=500),
    Http(status=403, headers=header_pairs(HEADERS), body=NESTED),
    mcp_result({"content": [SECRET], "structuredContent": NESTED, "resultType": CORE, "inputRequests": {CORE: SECRET},
                "requestState": SECRET, "status": CORE}),
    McpError(code=CORE, data={CORE: SECRET}),
    Grpc(code="UNKNOWN", details=(SECRET,), trailing_metadata=((CORE, SECRET),)),
    Process(exit_status=1, output=SECRET), Refused("A_B", safe_message=SECRET),
    Ended(how=How.LEFT, error=KeyboardInterrupt(SECRET)), Ended(how=How.ANSWERED, raw=Raised(ValueError(SECRET))),
]  # fmt: skip


@pytest.mark.parametrize("value", RAW, ids=range(len(RAW)))
def test_a_repr_shows_no_text_of_others(value: object) -> None:
    """What stands in a log or in a crash report's variables is the kind of a result, and nothing that it holds."""
    assert leaks([repr(value), str(value), f"{value}", repr([value]), repr({"x": value})]) == []
