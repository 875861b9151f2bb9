"""Text of others never reaches telemetry: secrets are planted wherever one can be, and looked for everywhere."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import baggage, context

from forbear import Operator, Refused
from forbear.contract import Http, Mcp, Raised
from forbear.observe import LoggingObserver, Notice

SECRET = "sk-live-51HxSECRETx51H"
UPPER = "SK_LIVE_51HXSECRET"


def noted_error(kind: type[Exception] = ValueError) -> Exception:
    """Return an exception with the secret in text, arguments, notes, cause, context, attributes and locals."""
    hidden = SECRET
    try:
        try:
            raise KeyError(hidden)
        except KeyError as first:
            raise kind(f"token {hidden}", {"authorization": hidden}) from first
    except kind as error:
        error.add_note(f"note {hidden}")
        error.__dict__["response"] = {"body": hidden}
        return error


def raising(**_arguments: object) -> object:
    """Raise an exception that holds the secret."""
    raise noted_error()


def refusing(**_arguments: object) -> object:
    """Refuse in words of its own."""
    raise Refused(UPPER, recovery="do_not_retry", safe_message=f"use {SECRET}", constraint=SECRET) from noted_error()


def connecting(**_arguments: object) -> object:
    """Lose the connection."""
    raise noted_error(ConnectionError)


def answering(**_arguments: object) -> object:
    """Answer with an HTTP refusal."""
    body = f'{{"error": {{"code": "{UPPER}", "message": "{SECRET}"}}}}'
    return Http(status=403, headers=(("WWW-Authenticate", SECRET), ("Retry-After", SECRET)), body=body)


def mcp(**_arguments: object) -> object:
    """Answer with an MCP error."""
    return Mcp(is_error=True, content=({"type": "text", "text": SECRET},), structured={"x": SECRET}, status=SECRET)


def returning(**_arguments: object) -> object:
    """Return an envelope with the secret in its fields."""
    return {"ok": False, "token": SECRET, "error": {"code": UPPER, "recovery": "do_not_retry", "safe_message": SECRET}}


TOOLS: dict[str, Callable[..., object]] = {
    "raising": raising,
    "refusing": refusing,
    "connecting": connecting,
    "answering": answering,
    "mcp": mcp,
    "returning": returning,
}


def exported(telemetry: Any, caplog: pytest.LogCaptureFixture) -> str:
    """Return everything that left: spans, metrics, log records with all their attributes."""
    spans = [
        (span.name, dict(span.attributes), span.events, span.status.description, span.links, span.resource.attributes)
        for span in telemetry.finished()
    ]
    logs = [(record.__dict__, record.getMessage()) for record in caplog.records]
    assert spans
    assert logs
    return repr(
        (
            spans,
            [[(e.name, dict(e.attributes)) for e in s.events] for s in telemetry.finished()],
            telemetry.points(),
            logs,
        )
    )


@pytest.mark.parametrize("effect", ["read", "write", None])
@pytest.mark.parametrize("kind", TOOLS)
def test_what_tools_say_is_not_told(
    opened: Any,
    telemetry: Any,
    recorder: Any,
    clock: Any,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    effect: str | None,
) -> None:
    """Exceptions with notes, causes and locals, headers, bodies, codes, arguments, results and baggage stay out of it."""
    hooked: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *found: hooked.append(found))
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    monkeypatch.setattr(sys, "unraisablehook", hooked.append)
    caplog.set_level(logging.DEBUG)
    controller = opened(LoggingObserver(), telemetry.observer(), recorder, limits={"timeout": timedelta(seconds=5)})
    fields = {} if effect is None else {"effect": effect}
    controller.declare("tool", secret=("token",), **fields)
    token = context.attach(baggage.set_baggage("key", SECRET))
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for n in range(4):
                arguments = {"token": SECRET, "n": 0, SECRET: SECRET}
                where = {"run": "r", "step": f"s{n}", "call_id": f"c {SECRET}"}
                controller.call("tool", arguments, execute=TOOLS[kind], wait=False, **where)
                reply = controller.propose("tool", {**arguments, "n": n}, run="r2", step=f"s{n}")
                if reply.attempt is not None:
                    controller.settle(reply.attempt, _result(TOOLS[kind]))
            controller.call("tool", f'{{"token": "{SECRET}', execute=TOOLS[kind], run="r", step="bad")
            controller.call(SECRET, {}, execute=TOOLS[kind], run="r", step="made up")
            controller.run("r").usage(SECRET, tokens=1)
            clock.advance(timedelta(minutes=5))
            controller.close()
    finally:
        context.detach(token)
    printed = capfd.readouterr()
    everything = exported(telemetry, caplog) + printed.out + printed.err + "".join(str(one.message) for one in warned)
    for word in (SECRET, UPPER, "51H"):
        assert word not in everything
    assert hooked == []
    # A notice carries the ids of its step and call, which are the framework's, for observers to join by.
    closed = repr([_without_ids(notice) for notice in recorder.notices])
    assert "51H" not in closed


def _result(tool: Callable[..., object]) -> object:
    try:
        return tool()
    except Exception as error:  # noqa: BLE001 - the caller of the two halves hands over what was raised
        return Raised(error)


def _without_ids(notice: Notice) -> dict[str, object]:
    ids = {"request_id", "run", "root", "step", "call_id", "action"}
    return {name: getattr(notice, name) for name in Notice.__slots__ if name not in ids}


def test_what_leaves_a_call_is_not_recorded_on_its_span(opened: Any, telemetry: Any) -> None:
    """An interrupt, a cancellation and a signal of the framework pass through; their text is on no span."""
    controller = opened(telemetry.observer())
    controller.declare("tool", effect="write")

    class Interrupt(Exception):
        pass

    def leave(kind: type[BaseException]) -> Callable[..., object]:
        def tool(**_arguments: object) -> object:
            raise kind(SECRET)

        return tool

    for n, kind in enumerate((KeyboardInterrupt, SystemExit, asyncio.CancelledError, Interrupt)):
        with pytest.raises(kind):
            controller.call("tool", {"n": n}, run=f"r{n}", execute=leave(kind), signals=(Interrupt,))
    spans = telemetry.finished()
    assert len(spans) == 4
    assert SECRET not in repr([(s.name, dict(s.attributes), s.events, s.status.description) for s in spans])
    assert [s.attributes.get("error.type") for s in spans] == ["_OTHER", "_OTHER", "_OTHER", None]


def test_what_persons_write_is_not_told(
    opened: Any, telemetry: Any, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Names and notes of operators, and arguments that they wrote, are for the record, not for telemetry."""
    caplog.set_level(logging.DEBUG)
    controller = opened(LoggingObserver(), telemetry.observer(), recorder)
    controller.declare("pay", effect="write", approval="always")
    controller.bind("pay", lambda n: n)
    operator = Operator(controller, actor=f"Ada {SECRET}")
    for n in range(2):
        controller.call("pay", {"n": n}, run=f"r{n}", step="s")
    first, second = operator.pending()
    operator.revise(first.ticket, first.fingerprint, note=f"not with {SECRET}")
    operator.edit(second.ticket, second.fingerprint, {"n": SECRET})
    controller.work()
    assert SECRET not in exported(telemetry, caplog)
    assert SECRET not in repr(recorder.notices)
