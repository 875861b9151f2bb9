"""A real gRPC client and server: what details, pushback, a lost server and hidden retries mean to a governed tool."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from forbear import Controller, Reply
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration.grpc_desk import METHOD, ORDER, Desk, grpc_desk
from tests.integration.hostile import journal_texts, leaks, told

grpc: Any = pytest.importorskip("grpc", reason="needs grpcio")
aio: Any = pytest.importorskip("grpc.aio", reason="needs grpcio")
SECRET = "PLANTED-SECRET-0001"


@pytest.fixture(scope="module")
def server() -> Iterator[Desk]:
    """A real server."""
    with grpc_desk() as desk:
        yield desk


@pytest.fixture
def desk(server: Desk) -> Desk:
    """The server, which has seen nothing yet."""
    server.orders = 0
    return server


def place(desk: Desk) -> bytes:
    """Place an order with grpcio."""
    with grpc.insecure_channel(f"127.0.0.1:{desk.port}", options=(("grpc.enable_retries", 0),)) as channel:
        answer: bytes = channel.unary_unary(METHOD)(ORDER, timeout=10)
        return answer


async def aplace(desk: Desk) -> bytes:
    """Place an order with grpcio's asyncio."""
    async with aio.insecure_channel(f"127.0.0.1:{desk.port}", options=(("grpc.enable_retries", 0),)) as channel:
        answer: bytes = await channel.unary_unary(METHOD)(ORDER, timeout=10)
        return answer


def governed(desk: Desk, *, effect: str = "write", through: str = "grpc", **policy: object) -> Reply:
    """Place an order in a governed call, and search everything that anybody is told."""
    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as controller:
        controller.declare("order", effect=effect, **policy)
        arguments = {"quantity": 1}
        if through == "grpc":
            reply = controller.call("order", arguments, run="r", execute=lambda **_: place(desk), wait=False)
        else:

            async def execute(**_: object) -> bytes:
                return await aplace(desk)

            reply = asyncio.run(controller.acall("order", arguments, run="r", execute=execute, wait=False))
        assert leaks([*told(reply), *journal_texts(controller)]) == []
    assert desk.orders == 1
    return reply


def pushing(value: str) -> Callable[[bytes, Any], bytes]:
    """Return a handler that refuses, and says when it wants to be asked."""

    def answer(_order: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("grpc-retry-pushback-ms", value), ("x-debug", SECRET)))
        context.abort(grpc.StatusCode.UNAVAILABLE, SECRET)
        raise AssertionError("abort raises")

    return answer


def refusing(code: str, *details: Callable[[Any], Any]) -> Callable[[bytes, Any], bytes]:
    """Return a handler that refuses with details, as Google's own services do."""
    pb: Any = pytest.importorskip("google.rpc.error_details_pb2", reason="needs grpcio-status")
    status_pb2: Any = pytest.importorskip("google.rpc.status_pb2", reason="needs grpcio-status")
    rpc_status: Any = pytest.importorskip("grpc_status.rpc_status", reason="needs grpcio-status")

    def answer(_order: bytes, context: Any) -> bytes:
        status = status_pb2.Status(code=grpc.StatusCode[code].value[0], message=SECRET)
        for detail in details:
            status.details.add().Pack(detail(pb))
        context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("abort raises")

    return answer


def delay(pb: Any) -> Any:
    """Return a delay of half a minute."""
    info = pb.RetryInfo()
    info.retry_delay.FromTimedelta(timedelta(seconds=30.5))
    return info


def quota(pb: Any) -> Any:
    """Return a quota that is used up."""
    return pb.QuotaFailure(violations=[{"subject": f"project:{SECRET}", "description": SECRET}])


def billing(pb: Any) -> Any:
    """Return Google's own reason that time does not cure."""
    return pb.ErrorInfo(reason="BILLING_DISABLED", domain="googleapis.com", metadata={"consumer": SECRET})


def elsewhere(pb: Any) -> Any:
    """Return where there is capacity."""
    return pb.ErrorInfo(reason="STOCKOUT", domain="compute.googleapis.com", metadata={"zonesWithCapacity": "a"})


def fields(pb: Any) -> Any:
    """Return a field that was not accepted, and one that nobody knows."""
    return pb.BadRequest(field_violations=[{"field": "quantity", "description": SECRET}, {"field": SECRET}])


def debug(pb: Any) -> Any:
    """Return what no client should ever see."""
    return pb.DebugInfo(detail=SECRET, stack_entries=[SECRET])


@pytest.mark.parametrize("through", ["grpc", "grpc-async"])
def test_retry_info_of_a_live_error(desk: Desk, through: str) -> None:
    """The delay in the details of a real error is the time, through either client."""
    desk.answer = refusing("RESOURCE_EXHAUSTED", debug, quota, delay)
    envelope = governed(desk, through=through).envelope
    assert (envelope.recovery, envelope.code) == ("retry_after", "RATE_LIMITED")
    assert envelope.reset_at == ManualClock().now() + timedelta(seconds=30.5)


def test_a_permanent_reason_of_a_live_error(desk: Desk) -> None:
    """Google's own reason ends it although a delay stands beside it."""
    desk.answer = refusing("RESOURCE_EXHAUSTED", delay, billing)
    envelope = governed(desk).envelope
    assert (envelope.recovery, envelope.code, envelope.reset_at) == ("do_not_retry", "ACCESS_DENIED", None)


def test_capacity_elsewhere_of_a_live_error(desk: Desk) -> None:
    """Where Google says that capacity is elsewhere, the refused call stays refused."""
    desk.answer = refusing("UNAVAILABLE", elsewhere)
    assert governed(desk).envelope.recovery == "use_alternative"


def test_fields_of_a_live_error(desk: Desk) -> None:
    """Names of fields that the call has are told to the model, and nothing else of what the server said."""
    desk.answer = refusing("INVALID_ARGUMENT", fields)
    reply = governed(desk)
    assert reply.envelope.recovery == "repair_input"
    assert json.loads(reply.for_model())["error"]["invalid_fields"] == ["quantity"]


@pytest.mark.parametrize(
    ("pushback", "recovery", "seconds"),
    [("1500", "retry_after", 1.5), ("-1", "do_not_retry", None), ("soon", "do_not_retry", None)],
)
def test_pushback_of_a_live_error(desk: Desk, pushback: str, recovery: str, seconds: float | None) -> None:
    """The server's pushback decides for a read, also where it forbids."""
    desk.answer = pushing(pushback)
    envelope = governed(desk, effect="read").envelope
    assert envelope.recovery == recovery
    assert envelope.reset_at == (None if seconds is None else ManualClock().now() + timedelta(seconds=seconds))


@pytest.mark.parametrize("through", ["grpc", "grpc-async"])
def test_a_handler_that_raises(desk: Desk, through: str) -> None:
    """Grpcio puts the text of the server's exception into the status: it gets nowhere, and the write is unknown."""

    def raises(_order: bytes, _context: Any) -> bytes:
        raise ValueError(SECRET)

    desk.answer = raises
    envelope = governed(desk, through=through).envelope
    assert (envelope.recovery, envelope.executed) == ("inspect_outcome", "unknown")


def test_its_own_text_is_never_shown(desk: Desk) -> None:
    """A server's text is no tool's own, whatever the tool declares."""
    desk.answer = refusing("INVALID_ARGUMENT", fields)
    assert SECRET not in governed(desk, error_text="shown").for_model()


def test_retries_that_a_service_config_asks_for(desk: Desk) -> None:
    """With a retry policy in the channel the handler runs three times behind one call, and the write is unknown."""
    desk.answer = refusing("UNAVAILABLE")
    policy = {
        "maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }  # fmt: skip
    config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})

    def work(**_: object) -> object:
        with grpc.insecure_channel(f"127.0.0.1:{desk.port}", options=(("grpc.service_config", config),)) as channel:
            return channel.unary_unary(METHOD)(ORDER, timeout=10)

    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("order", effect="write")
        reply = controller.call("order", {"quantity": 1}, run="r", execute=work, wait=False)
    assert desk.orders == 3
    assert reply.envelope.recovery == "inspect_outcome"


def test_a_server_that_stops_meanwhile() -> None:
    """A server that goes away while it carries an order out leaves the outcome open."""
    with grpc_desk() as desk:

        def stops(_order: bytes, context: Any) -> bytes:
            over = threading.Event()
            context.add_callback(over.set)
            desk.stop()
            # The call is ended by the server's stop, not by an answer.
            over.wait(10)
            return b"done"

        desk.answer = stops
        reply = governed(desk)
    assert (reply.envelope.recovery, reply.envelope.executed) == ("inspect_outcome", "unknown")
