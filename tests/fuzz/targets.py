"""What is fuzzed: hostile results through `Controller.call`, hostile texts through the parsers and the command line.

Each target takes generated input and raises where a promise is broken. How long it runs is the caller's choice: a short
profile belongs to the tests, a long one to `python -m tests.fuzz`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from hypothesis import strategies as st

from forbear import Controller, Refused
from forbear.cli import main
from forbear.contract import (
    Grpc,
    Http,
    McpError,
    Process,
    RaisedFacts,
    Step,
    builtin_catalogue,
    classify,
    current_trail,
    load_profile,
    mcp_result,
    profile_names,
    tool_policy,
)
from forbear.core.view import MAX_REFUSAL_BYTES
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration.hostile import CORE, SECRET, journal_texts, leaks, prompts, told

NUMBERS: Final = (
    "0", "5", "-5", "+5", "5.5", "nan", "inf", "-inf", "1e3", "1_000", "0x10", "٣٠", "\uff13\uff10", "9" * 400, "1" * 65536, "", " ",
    "5;", "5, 6", "1756728000", "1756728000000", "1756728000000000", "99999999999999999999", "PT30S", "30s", "1m0s",
    "2026-09-01T12:00:30Z", "2026-09-01T12:00", "Tue, 01 Sep 2026 12:02:00 GMT", "Tuesday, 01-Sep-26 12:02:00 GMT",
    "Tue Sep  1 12:02:00 2026", "Tue, 32 Sep 2026 12:02:00 GMT", '"a";r=0;t=5', '"a";r=0;t=-5', "limit=1, remaining=0, reset=5",
    "@1756728000", "1" + "\x00", "5\r\nX: y", CORE, SECRET,
)  # fmt: skip
NAMES: Final = (
    "Retry-After", "retry-after", "RETRY-AFTER", "retry-after-ms", "x-ms-retry-after-ms", "RateLimit", "RateLimit-Reset",
    "X-RateLimit-Reset", "X-RateLimit-Remaining", "X-Rate-Limit-Reset", "x-ratelimit-reset-after", "Date", "Age",
    "Content-Type", "x-should-retry", "stripe-should-retry", "x-amz-retry-after", "grpc-retry-pushback-ms", CORE,
)  # fmt: skip
WORDS: Final = (
    SECRET, CORE, "retry_after", "do_not_retry", "request_approval", "RATE_LIMITED", "USER_DENIED", "VAULT_LOCKED", "success",
    "refused", "application/problem+json", "rate_limit_error", "RATELIMITED", "insufficient_quota", "\u202e", "\x00", "Error:",
)  # fmt: skip
MEMBERS: Final = (
    "ok", "error", "code", "recovery", "outcome", "executed", "data", "errors", "message", "type", "reset_at", "retry_after",
    "status", "action", "safe_message", "invalid_fields", "detail", "extensions", "limit", "remaining", "meta", "reason",
    "approval_url", "alternative_tools", "precondition", "details", "@type", "retryDelay", CORE,
)  # fmt: skip

texts = st.text(max_size=40) | st.sampled_from((*NUMBERS, *WORDS))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS) | texts, inner, max_size=6),
    max_leaves=24,
)
headers = st.lists(st.tuples(st.sampled_from(NAMES) | texts, texts), max_size=8).map(tuple)
bodies = values | values.map(lambda value: json.dumps(value, default=str)) | texts | st.binary(max_size=80)
statuses = st.integers(-5, 1200) | st.sampled_from(
    (200, 202, 207, 302, 304, 400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 503)
)
https = st.builds(lambda status, headers, body, method: Http(status=status, headers=headers, body=body, method=method),
                  statuses, headers, bodies, st.sampled_from(("GET", "POST", "DELETE", CORE)))  # fmt: skip
mcps = st.builds(mcp_result, values | st.fixed_dictionaries({}, optional={
    "resultType": st.sampled_from(("complete", "input_required", "task", CORE, 7)), "isError": st.booleans() | texts,
    "content": values | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2),
    "structuredContent": values, "inputRequests": values, "requestState": texts, "status": texts,
}))  # fmt: skip
rpcs = st.builds(lambda code, data, origin: McpError(code=code, data=data, origin=origin),
                 st.integers(-33000, 10) | values, values, st.sampled_from(("server", "sdk", "unknown", CORE)))  # fmt: skip
grpcs = st.builds(lambda code, details, trailing: Grpc(code=code, details=tuple(details), trailing_metadata=trailing),
                  st.integers(-3, 30) | st.sampled_from(("UNAVAILABLE", "RESOURCE_EXHAUSTED", "OK", CORE)),
                  st.lists(values, max_size=3), headers)  # fmt: skip
programs = st.builds(
    Process,
    exit_status=st.none() | st.integers(-300, 300), signal=st.none() | st.integers(-5, 70), started=st.booleans(),
    timed_out=st.booleans(), carrier=st.none() | st.booleans(), session=st.none() | st.booleans(),
    identity_accepted=st.none() | st.booleans(), output=bodies,
)  # fmt: skip
CLASSES: Final[tuple[Callable[[str], Exception], ...]] = (
    ValueError, KeyError, TimeoutError, ConnectionResetError, RuntimeError, OSError, ConnectionRefusedError,
    lambda text: Refused("POSITION_LIMIT_REACHED", safe_message=f"{text}\n", constraint=text, approval_url=text),
    lambda text: ExceptionGroup(text or "x", [ValueError(text)]),
)  # fmt: skip


class RpcError(Exception):
    """What grpcio raises, as far as anybody looks: a code, trailing metadata, and a text that holds a secret."""

    def __init__(self, code: tuple[str, int], metadata: tuple[tuple[str, object], ...]) -> None:
        super().__init__(SECRET)
        self._code, self._metadata = code, metadata

    def code(self) -> Any:
        """Return an object like grpcio's status codes."""
        return SimpleNamespace(name=self._code[0], value=(self._code[1], self._code[0].lower()))

    def trailing_metadata(self) -> tuple[tuple[str, object], ...]:
        """Return the metadata."""
        return self._metadata

    def details(self) -> str:
        """Return the text that nobody reads."""
        return SECRET


RpcError.__module__ = "grpc"
# A Status of RESOURCE_EXHAUSTED with a RetryInfo and a BadRequest whose texts are secrets, to be cut and changed.
_STATUS: Final = (
    b"\x08\x08\x12\x13" + SECRET.encode().ljust(19)[:19] + b"\x1a\x30\x0a\x28type.googleapis.com/google.rpc.RetryInfo"
    b"\x12\x04\x0a\x02\x08\x1e"
)
_changed = st.builds(
    lambda at, byte, end: (_STATUS[:at] + bytes([byte]) + _STATUS[at + 1 :])[:end],
    st.integers(0, len(_STATUS) - 1), st.integers(0, 255), st.integers(0, len(_STATUS)),
)  # fmt: skip
rpc_errors = st.builds(
    RpcError,
    st.sampled_from((("RESOURCE_EXHAUSTED", 8), ("UNAVAILABLE", 14), ("INVALID_ARGUMENT", 3), (CORE, 99))),
    st.lists(
        st.tuples(st.just("grpc-status-details-bin"), st.just(_STATUS) | _changed | st.binary(max_size=60) | texts)
        | st.tuples(st.just("grpc-retry-pushback-ms"), texts), max_size=3,
    ).map(tuple),
)  # fmt: skip
errors = rpc_errors | st.builds(lambda make, text: make(text), st.sampled_from(CLASSES), texts)
raws = https | mcps | rpcs | grpcs | programs | errors

EFFECTS: Final = ("read", "write", None)
effects = st.sampled_from(EFFECTS)
steps = st.lists(st.tuples(st.sampled_from(tuple(Step)), st.booleans(), st.none() | statuses, headers), max_size=4)


def call(raw: Any, effect: str | None, trust: str, speaks: bool | None, reached: Any, secret: bool) -> None:
    """A call answers whatever a tool does: no exception, no leak, a bounded view, never a repeatable unknown write."""
    raises = isinstance(raw, Exception)

    def execute(**_: object) -> object:
        trail = current_trail()
        assert trail is not None
        for step, watched, status, fields in reached:
            exchange = trail.begin("POST")
            exchange.watched = watched
            exchange.reach(step)
            if status is not None:
                exchange.answered(status, fields)
        if raises:
            raise raw
        return raw

    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as controller:
        fields: dict[str, object] = {"trust": trust, "speaks_contract": speaks, "secret": ["token"]}
        if effect is not None:
            fields["effect"] = effect
        controller.declare("t", **fields)
        arguments = {"token": SECRET} if secret else {"n": 1}
        reply = controller.call("t", arguments, run="r", step="s1", execute=execute, wait=False)
        again = controller.call("t", arguments, run="r", step="s2", execute=execute, wait=False)
        shown = [*prompts(controller), *journal_texts(controller)]
        for answer in (reply, again):
            if answer.ok:
                # A completed value passes as it is, whatever is in it.
                continue
            shown += told(answer)
            assert answer.for_model().strip()
            if answer.envelope.recovery is not None:
                assert len(answer.for_model().encode()) <= MAX_REFUSAL_BYTES
        assert leaks(shown) == []
        envelope = reply.envelope
        if envelope.recovery == "retry_after" and effect != "read":
            assert envelope.executed == "no"
        if envelope.recovery == "inspect_outcome":
            assert envelope.executed != "no"
        if reply.retry_at is not None:
            assert reply.retry_at >= ManualClock().now() + timedelta(seconds=1)
        if raises:
            assert not reply.ok


POLICY: Final = tool_policy("t", effect="write")
PROFILES: Final = (None, *(load_profile(name) for name in profile_names()))


def noise(status: int, fields: Any, body: Any, more: Any, profile: int) -> None:
    """Garbage beside a refusal never makes it a success, and never makes an unknown write repeatable."""
    now = ManualClock().now()

    def judged(given: Any) -> Any:
        return classify(
            Http(status=status, headers=given, body=body, method="POST"), policy=POLICY, arguments={}, now=now,
            catalogue=builtin_catalogue(), profile=PROFILES[profile % len(PROFILES)],
        )  # fmt: skip

    plain, noisy = judged(fields), judged((*fields, *more))
    if status >= 400:
        assert noisy.recovery is not None or plain.recovery is None
    if noisy.reset_at is not None:
        assert noisy.reset_at >= now


def facts(own: Any, chain: Any, phase: str, status: int | None, fields: Any, body: Any, unsent: bool) -> None:
    """A recorded exception is never a success, and "not sent" is only said of what is a transport's own failure."""
    said = classify(
        RaisedFacts(names=tuple(own), chain=tuple((one,) for one in chain), phase=phase, status=status, headers=fields,
                    body=body, unsent=unsent),
        policy=POLICY, arguments={}, now=ManualClock().now(), catalogue=builtin_catalogue(),
    )  # fmt: skip
    assert said.recovery is not None or (status is not None and status < 400)
    if said.code == "NOT_SENT":
        assert phase in {"pool", "connect", "before_send", "unknown", "build"}


def command_line(text: str) -> None:
    """`forbear classify` reads anything: an answer or one line of misuse, never a traceback, never a value of the input."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "stdin", io.StringIO(text)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(["classify", "--tool", "t", "--effect", "write", "--now", "2026-09-01T12:00:00Z", "--json"])
    assert code in (0, 2)
    assert leaks([err.getvalue()]) == []
    if code == 2:
        assert len(err.getvalue().splitlines()) == 1


names = st.sampled_from(
    ("httpx.ConnectError", "httpx.ReadTimeout", "requests.ConnectionError", "requests.SSLError", "ssl.SSLCertVerificationError",
     "urllib3.MaxRetryError", "urllib3.NewConnectionError", "builtins.ValueError", "builtins.TimeoutError", "paramiko.SSHException",
     "psycopg.OperationalError", "openai.APIConnectionError", "asyncio.CancelledError", "evil.ConnectError", ".ConnectError", "")
)  # fmt: skip
inputs = st.one_of(
    st.text(max_size=80),
    values.map(lambda value: json.dumps(value, default=str)),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(("http", "exception", "mcp", "grpc", "process", "value", "x"))},
        optional={
            "status": statuses | values, "headers": values, "body": values, "class": texts, "module": texts, "chain": values,
            "phase": texts, "client": values, "result": values, "error": values, "code": values, "details": values,
            "trailing_metadata": values, "exit_status": values, "signal": values, "value": values,
            "profile": st.sampled_from(("stripe", "openai", "none")),
            "request": values, "errno": values, "sqlstate": values,
        },
    ).map(lambda signal: json.dumps(signal, default=str)),
)  # fmt: skip

TARGETS: Final[dict[str, tuple[Callable[..., None], dict[str, st.SearchStrategy[Any]]]]] = {
    "call": (call, {"raw": raws, "effect": effects, "trust": st.sampled_from(("owned", "remote")),
                    "speaks": st.none() | st.booleans(), "reached": steps, "secret": st.booleans()}),
    "noise": (noise, {"status": statuses, "fields": headers, "body": bodies, "more": headers, "profile": st.integers(0, 99)}),
    "facts": (facts, {"own": st.lists(names | texts, max_size=3), "chain": st.lists(names | texts, max_size=3),
                      "phase": st.sampled_from(("build", "pool", "connect", "write", "read", "response", "in_tool", "before_send",
                                                "unknown", "x")),
                      "status": st.none() | statuses, "fields": headers, "body": bodies, "unsent": st.booleans()}),
    "command line": (command_line, {"text": inputs}),
}  # fmt: skip
