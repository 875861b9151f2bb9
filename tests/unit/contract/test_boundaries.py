"""What an execution reached: marks and exchanges become evidence for an exception, and never more than was seen."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from forbear import Controller
from forbear.contract import (
    Boundary,
    Client,
    McpError,
    Raised,
    Step,
    Trail,
    builtin_catalogue,
    classify,
    current_trail,
    mark,
    recording,
    tool_policy,
    witnessed,
)
from forbear.core.vocabulary import Recovery
from forbear.errors import UsageError
from forbear.testing.clock import ManualClock, SequenceIds

UNKNOWN, RETRY, STOP, REPAIR = (
    Recovery.INSPECT_OUTCOME,
    Recovery.RETRY_AFTER,
    Recovery.DO_NOT_RETRY,
    Recovery.REPAIR_INPUT,
)


def test_outside_a_call_nothing_is_written_down() -> None:
    """A mark without a governed call is no error and leaves nothing behind."""
    mark("request_sent")
    assert current_trail() is None


def test_a_misspelt_boundary_is_an_error() -> None:
    """A boundary that does not exist is named, inside and outside of a call."""
    with pytest.raises(UsageError, match="connection_started"):
        mark("conection_started")


def test_boundaries_are_kept_in_the_order_in_which_they_were_reached() -> None:
    """Each boundary is listed once, where it was reached first."""
    with recording() as trail:
        for name in ("validated", "connection_started", "validated", "request_sent"):
            mark(name)
    assert trail.reached == ("validated", "connection_started", "request_sent")
    assert current_trail() is None


def test_a_step_never_goes_back() -> None:
    """What was sent stays sent, whatever a later event says."""
    exchange = Trail().begin("post")
    for step in (Step.WRITE, Step.CONNECT, Step.POOL):
        exchange.reach(step)
    assert exchange.step is Step.WRITE
    assert exchange.trail.reached == (Boundary.REQUEST_SENT,)
    assert not exchange.is_unsent


def seen(trail: Trail, error: Exception, phase: str = "unknown") -> Raised:
    """Return an exception with what a trail says."""
    return witnessed(Raised(error, phase), trail)


def test_an_empty_trail_changes_nothing() -> None:
    """Where nobody saw anything, what was known stays as it was."""
    raised = Raised(error := ValueError(), "in_tool")
    assert seen(Trail(), error, "in_tool") == raised
    assert witnessed(raised) is raised


def test_a_mark_that_bytes_left_takes_the_innocence_of_the_tools_own_code(judge: Any) -> None:
    """After `request_sent` a mistake of the tool's own code leaves a write unknown; a read stays repairable."""
    trail = Trail()
    trail.mark(Boundary.VALIDATED)
    assert judge(seen(trail, ValueError(), "in_tool"), "write").recovery is REPAIR
    trail.mark(Boundary.REQUEST_SENT)
    assert judge(seen(trail, ValueError(), "in_tool"), "write").recovery is UNKNOWN
    assert judge(seen(trail, ValueError(), "in_tool")).recovery is REPAIR


def test_what_somebody_knows_already_is_kept() -> None:
    """A client or a phase that was given by hand is not overwritten."""
    trail = Trail()
    trail.begin("POST").reach(Step.WRITE)
    for raised in (Raised(TimeoutError(), "connect"), Raised(TimeoutError(), "unknown", Client(single_attempt=True))):
        assert witnessed(raised, trail) is raised


def test_only_a_watched_exchange_proves_that_nothing_left(judge: Any) -> None:
    """Not having seen a byte leave proves something only where every byte would have been seen."""
    trail = Trail()
    exchange = trail.begin("POST")
    exchange.reach(Step.CONNECT)
    assert judge(seen(trail, TimeoutError()), "write").recovery is UNKNOWN
    exchange.watched = True
    assert judge(seen(trail, TimeoutError()), "write").code == "NOT_SENT"


def test_an_earlier_request_that_was_sent_forbids_the_claim(judge: Any) -> None:
    """A later request that never left says nothing about an earlier one that did."""
    trail = Trail()
    first = trail.begin("POST")
    first.watched = True
    first.reach(Step.WRITE)
    trail.begin("POST").watched = True
    assert trail.client().single_attempt is False
    assert judge(seen(trail, TimeoutError()), "write").recovery is UNKNOWN


@pytest.mark.parametrize(("status", "single"), [(401, True), (429, True), (200, False), (500, False), (302, False)])
def test_an_earlier_request_that_was_refused_does_not(status: int, single: bool) -> None:
    """An answer that says that nothing was begun (401 before a new token) leaves the later request the first one."""
    trail = Trail()
    trail.begin("POST").answered(status, ())
    trail.begin("POST")
    assert trail.client().single_attempt is single
    assert trail.client().follow_redirects is (status == 302)


def test_too_many_requests_to_remember_prove_nothing() -> None:
    """Beyond the limit requests still count, and the last one is what is known."""
    trail = Trail()
    for _ in range(100):
        trail.begin("GET").watched = True
    assert len(trail.exchanges) == 64
    assert trail.client().single_attempt is False


def test_an_answer_that_a_client_hides_is_read(judge: Any) -> None:
    """Status and header fields below an exception without evidence count; the exception's own evidence comes first."""
    trail = Trail()
    trail.begin("POST").answered(429, (("Retry-After", "30"),))
    hidden = judge(seen(trail, RuntimeError()), "write")
    assert (hidden.recovery, hidden.code, hidden.reset_at is not None) == (RETRY, "RATE_LIMITED", True)

    class Shown(Exception):
        status_code = 401

    assert judge(seen(trail, Shown()), "write").code == "AUTH_FAILED"


class MCPError(Exception):
    """The MCP client's error, by name."""

    __module__ = "mcp.shared.exceptions"

    def __init__(self, code: int) -> None:
        super().__init__("Server returned an error response")
        self.error = McpError(code=code)


@pytest.mark.parametrize(("code", "recovery"), [(-32603, RETRY), (-32602, REPAIR)])
def test_the_mcp_clients_own_error_does_not_hide_a_status(judge: Any, code: int, recovery: Recovery) -> None:
    """-32603 is what the client makes of any status; an error that the server itself sent keeps its own code."""
    trail = Trail()
    trail.begin("POST").answered(429, (("Retry-After", "30"),))
    assert judge(seen(trail, MCPError(code)), "write").recovery is recovery


def test_threads_and_tasks_of_a_call_write_into_its_one_trail() -> None:
    """What a tool does in other threads and tasks is part of its execution; another call has another trail."""
    reached: list[tuple[str, ...]] = []

    def execute(**_: Any) -> object:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(mark, "connection_started"))
        thread.start()
        thread.join()

        async def sends() -> None:
            mark("request_sent")

        async def both() -> None:
            await asyncio.create_task(sends())

        asyncio.run(both())
        trail = current_trail()
        assert trail is not None
        reached.append(trail.reached)
        raise ValueError

    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as controller:
        controller.declare("t", effect="write")
        first = controller.call("t", {"n": 1}, run="r", execute=execute, wait=False)
        second = controller.call("t", {"n": 2}, run="r2", execute=lambda **_: mark("validated"), wait=False)
    assert reached == [("connection_started", "request_sent")]
    assert first.envelope.recovery is UNKNOWN
    assert second.ok


def test_a_read_on_the_short_way_has_a_trail_too() -> None:
    """Reads that succeed take a shorter way; what they reach is written down all the same."""
    trails: list[Trail | None] = []

    def execute(**_: Any) -> object:
        mark("response_received")
        trails.append(current_trail())
        return [1]

    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as controller:
        controller.declare("t", effect="read")
        for step in ("s1", "s2", "s3"):
            assert controller.call("t", {"n": step}, run="r", step=step, execute=execute).ok
    assert [trail.reached for trail in trails if trail is not None] == [("response_received",)] * 3
    assert len({id(trail) for trail in trails}) == 3


def test_a_certificate_that_httpcore_hides_is_found() -> None:
    """An exception that another one keeps among its arguments is evidence, whether or not it is shown as a cause."""
    import ssl

    class ConnectError(Exception):
        __module__ = "httpx"

    error = ConnectError(ssl.SSLCertVerificationError(1, "text"))
    from datetime import UTC, datetime

    envelope = classify(
        Raised(error),
        policy=tool_policy("t", effect="write"),
        arguments={},
        now=datetime(2026, 9, 1, tzinfo=UTC),
        catalogue=builtin_catalogue(),
    )
    assert envelope.code == "IDENTITY_UNVERIFIED"
