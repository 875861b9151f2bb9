"""Live and recorded exceptions: allow-list, wrappers, causes, phases; no text of an exception is ever used."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from typing import Any

import pytest

from forbear.contract import Client, Raised, RaisedFacts, facts_of, phase_of, tool_policy, write_envelope
from forbear.core.view import view_text
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import Refused

ONCE = Client(single_attempt=True, follow_redirects=False)
SECRET = "PLANTED-SECRET-0001"


def of(module: str, name: str, *bases: type[Exception]) -> Any:
    """Return an exception class that says to come from a module."""
    return type(name, bases or (Exception,), {"__module__": module})


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """Return an exception with an explicit cause."""
    error.__cause__ = cause
    return error


ConnectError = of("httpx", "ConnectError")
ReadTimeout = of("httpx2", "ReadTimeout")


@pytest.mark.parametrize(
    ("client", "phase", "recovery"),
    [
        (ONCE, "connect", Recovery.RETRY_AFTER),
        (ONCE, "unknown", Recovery.RETRY_AFTER),
        (ONCE, "read", Recovery.INSPECT_OUTCOME),
        (None, "connect", Recovery.INSPECT_OUTCOME),
        (None, "before_send", Recovery.RETRY_AFTER),
        (Client(), "connect", Recovery.INSPECT_OUTCOME),
        (Client(single_attempt=False, follow_redirects=False), "connect", Recovery.INSPECT_OUTCOME),
        (Client(single_attempt=True, follow_redirects=True), "connect", Recovery.INSPECT_OUTCOME),
        (Client(single_attempt=True), "connect", Recovery.INSPECT_OUTCOME),
    ],
)
def test_not_sent_is_claimed_for_one_attempt_only(
    judge: Any, client: Client | None, phase: str, recovery: Recovery
) -> None:
    """A class of the allow-list proves "not sent" only for one attempt without redirects, or by our own marker."""
    envelope = judge(Raised(ConnectError(SECRET), phase, client), "write")
    assert envelope.recovery is recovery
    claimed = recovery is Recovery.RETRY_AFTER
    assert (envelope.executed is Executed.NO, envelope.not_accepted) == (claimed, claimed)


def test_a_read_waits_without_a_claim(judge: Any) -> None:
    """A read is looked at once more, but is not called "not sent" without proof."""
    envelope = judge(Raised(ConnectError()))
    assert (envelope.recovery, envelope.executed) == (Recovery.RETRY_AFTER, Executed.UNKNOWN)
    assert envelope.temporary
    assert not envelope.not_accepted


def test_subclasses_count_by_their_nearest_base(judge: Any) -> None:
    """A subclass of somebody's own is what its base is; an equal name from elsewhere is nothing."""
    own = of("myapp.errors", "BackendDown", ConnectError)
    assert judge(Raised(own(), "connect", ONCE), "write").recovery is Recovery.RETRY_AFTER
    lookalike = of("evil_tool", "ConnectError")
    assert judge(Raised(lookalike(), "connect", ONCE), "write").recovery is Recovery.INSPECT_OUTCOME
    prefixed = of("httpx_evil", "ConnectError")
    assert judge(Raised(prefixed(), "connect", ONCE), "write").recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("chain", "recovery"),
    [
        (("urllib3.MaxRetryError", "urllib3.NewConnectionError"), Recovery.RETRY_AFTER),
        (("urllib3.MaxRetryError", "urllib3.NameResolutionError", "socket.gaierror"), Recovery.RETRY_AFTER),
        (("urllib3.ProtocolError", "http.RemoteDisconnected"), Recovery.INSPECT_OUTCOME),
        (("urllib3.NewConnectionError", "urllib3.ReadTimeoutError"), Recovery.INSPECT_OUTCOME),
        (("urllib3.MaxRetryError",), Recovery.INSPECT_OUTCOME),
        ((), Recovery.INSPECT_OUTCOME),
        (("builtins.ValueError",), Recovery.INSPECT_OUTCOME),
    ],
)
def test_wrappers_prove_nothing_by_themselves(judge: Any, chain: tuple[str, ...], recovery: Recovery) -> None:
    """`requests.ConnectionError` is read by its causes, and one cause after sending is enough to doubt."""
    facts = RaisedFacts(
        names=("requests.ConnectionError",), phase="connect", chain=tuple((name,) for name in chain), client=ONCE
    )
    assert judge(facts, "write").recovery is recovery


def test_an_earlier_failure_in_the_context_is_evidence(judge: Any) -> None:
    """A tool that caught a read time-out and then failed to connect may have done the write."""
    try:
        try:
            raise ReadTimeout
        except ReadTimeout:
            raise ConnectError from None
    except ConnectError as error:
        suppressed = error
    assert judge(Raised(suppressed, "connect", ONCE), "write").recovery is Recovery.RETRY_AFTER
    unsuppressed = ConnectError()
    unsuppressed.__context__ = ReadTimeout()
    assert judge(Raised(unsuppressed, "connect", ONCE), "write").recovery is Recovery.INSPECT_OUTCOME


def test_cause_chains_end(judge: Any) -> None:
    """A chain that points to itself, or is very long, ends."""
    one, other = ReadTimeout(), ReadTimeout()
    one.__cause__, other.__cause__ = other, one
    assert judge(Raised(one), "write").recovery is Recovery.INSPECT_OUTCOME
    error: BaseException = ValueError()
    for _ in range(5000):
        error = caused(ValueError(), error)
    assert len(facts_of(Raised(error)).chain) <= 17


def test_a_certificate_is_final(judge: Any) -> None:
    """A peer that cannot be verified is not sent to and not waited for, below any client's wrapper."""
    verification = ssl.SSLCertVerificationError(1, SECRET)
    for error in (verification, caused(ConnectError(), caused(of("httpcore", "ConnectError")(), verification))):
        envelope = judge(Raised(error, "connect"), "write")
        assert (envelope.recovery, envelope.code) == (Recovery.DO_NOT_RETRY, "IDENTITY_UNVERIFIED")
        assert envelope.executed is Executed.NO
    repeated = Client(single_attempt=False, follow_redirects=False)
    assert judge(Raised(verification, "connect", repeated), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(caused(KeyError(), verification)), "write").recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("error", "read", "write"),
    [
        (Exception("x"), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (RuntimeError("ConnectTimeout: recovery=retry_after"), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (TimeoutError(), Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (ConnectionResetError(), Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (socket.gaierror(-2, "x"), Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (FileNotFoundError(2, "x"), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (OSError(113, "x"), Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (OSError(28, "x"), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (asyncio.CancelledError(), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (KeyboardInterrupt(), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (ExceptionGroup("g", [ConnectError()]), Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (ExceptionGroup("g", [ConnectError(), ValueError()]), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (of("httpx", "TooManyRedirects")(), Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (of("langchain_core.tools", "ToolException")(), Recovery.REPAIR_INPUT, Recovery.REPAIR_INPUT),
    ],
    ids=lambda value: (
        type(value).__name__ + str(getattr(value, "args", "")) if isinstance(value, BaseException) else None
    ),
)
def test_defaults(judge: Any, error: BaseException, read: Recovery, write: Recovery) -> None:
    """What nothing is known about is never repeated blindly, and a write is looked at."""
    assert judge(Raised(error), "read").recovery is read
    assert judge(Raised(error), "write").recovery is write
    assert judge(Raised(error), "undeclared").recovery is write


@pytest.mark.parametrize(
    ("module", "name"),
    [("langchain_core.tools", "ToolException"), ("fastmcp.exceptions", "ToolError"), ("pydantic_ai", "ModelRetry")],
)
def test_a_repair_signal_made_of_a_broken_connection(judge: Any, module: str, name: str) -> None:
    """`raise ToolException(…) from ReadTimeout`: the write may have happened, whatever the outer class asks for."""
    error = caused(of(module, name)(), ReadTimeout())
    assert judge(Raised(error), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(error), "undeclared").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(error), "read").recovery is Recovery.REPAIR_INPUT
    said = caused(of(module, name)(), of("httpx", "HTTPStatusError")())
    assert judge(Raised(said), "write").recovery is Recovery.REPAIR_INPUT


def test_outcomes_of_cancellation_and_timeouts(judge: Any) -> None:
    """A cancelled read is cancelled, a time-out is a time-out; neither says "not executed"."""
    cancelled = judge(Raised(asyncio.CancelledError()))
    assert (cancelled.outcome, cancelled.executed) == (Outcome.CANCELLED, Executed.UNKNOWN)
    assert judge(Raised(TimeoutError()), "write").outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("effect", ["read", "write", "undeclared"])
@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), TypeError("x"), RuntimeError("x")], ids=repr)
def test_the_tools_own_code(judge: Any, error: BaseException, effect: str) -> None:
    """Raised by the tool's own code before any boundary: the input may be repaired, nothing was executed."""
    envelope = judge(Raised(error, "in_tool"), effect)
    assert (envelope.recovery, envelope.executed) == (Recovery.REPAIR_INPUT, Executed.NO)


def test_own_code_of_a_tool_that_is_not_atomic(judge: Any) -> None:
    """Where an answered error does not mean that nothing was applied, a write is looked at."""
    policy = tool_policy("t", effect="write", atomic=False)
    assert judge(Raised(ValueError("x"), "in_tool"), policy).recovery is Recovery.INSPECT_OUTCOME


def test_a_broken_connection_behind_the_tools_own_error(judge: Any) -> None:
    """A tool that wraps a read time-out in its own error has not refused the input."""
    error = caused(ValueError("x"), ReadTimeout())
    assert judge(Raised(error, "in_tool"), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(error, "in_tool"), "read").recovery is Recovery.RETRY_AFTER
    assert judge(Raised(ReadTimeout(), "in_tool"), "write").recovery is Recovery.INSPECT_OUTCOME


def test_an_answer_that_is_not_json(judge: Any) -> None:
    """A declared write whose answer cannot be parsed may have happened; a tool without a label is not lost to that."""
    error = json.JSONDecodeError("x", "x", 0)
    assert judge(Raised(error, "in_tool"), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(error, "in_tool"), "undeclared").recovery is Recovery.REPAIR_INPUT


@pytest.mark.parametrize(
    ("error", "phase", "recovery", "code"),
    [
        (TypeError(), "build", Recovery.DO_NOT_RETRY, "TOOL_MISCONFIGURED"),
        (of("httpx", "UnsupportedProtocol")(), "build", Recovery.DO_NOT_RETRY, "TOOL_MISCONFIGURED"),
        (of("botocore.exceptions", "NoCredentialsError")(), "build", Recovery.DO_NOT_RETRY, "AUTH_FAILED"),
        (of("pydantic_core", "ValidationError", ValueError)(), "build", Recovery.REPAIR_INPUT, "INPUT_INVALID"),
        (of("pydantic_core", "ValidationError", ValueError)(), "in_tool", Recovery.REPAIR_INPUT, "INPUT_INVALID"),
        (
            of("pydantic_core", "ValidationError", ValueError)(),
            "response_body",
            Recovery.INSPECT_OUTCOME,
            "OUTCOME_UNKNOWN",
        ),
        (of("httpx", "InvalidURL")(), "unknown", Recovery.INSPECT_OUTCOME, "OUTCOME_UNKNOWN"),
    ],
    ids=["type", "protocol", "credentials", "validation", "validation in tool", "validation of answer", "late url"],
)
def test_before_sending(judge: Any, error: BaseException, phase: str, recovery: Recovery, code: str) -> None:
    """What fails while the call is built is not sent; only input validation is the model's to repair."""
    envelope = judge(Raised(error, phase), "write")
    assert (envelope.recovery, envelope.code) == (recovery, code)


@pytest.mark.parametrize(
    ("state", "read", "write"),
    [
        ("40001", Recovery.RETRY_AFTER, Recovery.RETRY_AFTER),
        ("23505", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        ("23514", Recovery.REPAIR_INPUT, Recovery.REPAIR_INPUT),
        ("42501", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        ("57P01", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        ("08007", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        ("XX000", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
    ],
)
def test_sqlstate(judge: Any, state: str, read: Recovery, write: Recovery) -> None:
    """A database's own code decides, also behind an ORM's wrapper."""
    inner = of("psycopg.errors", "Some")()
    inner.sqlstate = state
    outer = of("sqlalchemy.exc", "OperationalError")()
    outer.orig = inner
    for error in (inner, outer):
        assert judge(Raised(error, "execute")).recovery is read
        assert judge(Raised(error, "execute"), "write").recovery is write


def test_a_lost_database_connection(judge: Any) -> None:
    """COMMIT was sent and its reply was lost: the row may be there."""
    lost = of("psycopg", "OperationalError")()
    assert judge(Raised(lost, "execute"), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(lost, "connect", ONCE), "write").recovery is Recovery.RETRY_AFTER
    invalidated = of("sqlalchemy.exc", "DBAPIError")()
    invalidated.connection_invalidated = True
    assert judge(Raised(invalidated), "write").recovery is Recovery.INSPECT_OUTCOME


class Response:
    """A client's response as exceptions carry it."""

    def __init__(self) -> None:
        self.status_code = 429
        self.headers = {"Retry-After": "5", "X-Debug": SECRET}
        self._content = b'{"code": "limited"}'


def test_an_exception_with_a_status_is_judged_by_it(judge: Any) -> None:
    """HTTP evidence inside an exception counts, unless hidden attempts or redirects came before it."""
    error = of("httpx", "HTTPStatusError")(SECRET)
    error.response = Response()
    envelope = judge(Raised(error, "response"), "write")
    assert (envelope.recovery, envelope.http_status) == (Recovery.RETRY_AFTER, 429)
    assert envelope.reset_at is not None
    hidden = Client(single_attempt=False, follow_redirects=False)
    assert judge(Raised(error, "response", hidden), "write").recovery is Recovery.INSPECT_OUTCOME


def test_the_vendors_own_client_names_the_profile(judge: Any) -> None:
    """The exception of a vendor's own client is judged by that vendor's conventions."""
    error = of("openai", "RateLimitError")()
    error.status_code = 429
    error.body = {"error": {"code": "insufficient_quota"}}
    assert judge(Raised(error)).recovery is Recovery.DO_NOT_RETRY
    boto = of("botocore.exceptions", "ClientError")()
    boto.response = {
        "Error": {"Code": "ThrottlingException", "Message": SECRET},
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"x-amz-retry-after": "1500"}},
    }
    envelope = judge(Raised(boto), "write")
    assert envelope.recovery is Recovery.RETRY_AFTER
    assert envelope.reset_at is not None


def test_protocol_errors_of_clients(judge: Any) -> None:
    """Clients' exceptions for gRPC and MCP errors are judged by the protocol."""

    class Code:
        name = "INVALID_ARGUMENT"

    rpc = of("grpc", "RpcError")
    call = type("Call", (rpc,), {"__module__": "grpc._channel", "code": lambda _: Code()})
    assert judge(Raised(call()), "write").recovery is Recovery.REPAIR_INPUT
    assert judge(Raised(rpc()), "write").recovery is Recovery.INSPECT_OUTCOME
    mcp = of("mcp.shared.exceptions", "McpError")()
    mcp.error = type("E", (), {"code": -32602, "data": None})()
    assert judge(Raised(mcp), "write").recovery is Recovery.REPAIR_INPUT
    mcp.error = type("E", (), {"code": -32600, "data": None})()
    assert judge(Raised(mcp), "write").recovery is Recovery.INSPECT_OUTCOME


class Hostile(Exception):
    """An exception whose every attribute raises and whose text holds a secret."""

    def __getattribute__(self, name: str) -> object:
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise RuntimeError(SECRET)

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_hostile_exceptions(judge: Any) -> None:
    """An exception whose properties raise is judged by its class; no text of any exception gets out."""
    for error in (Hostile(), Exception(SECRET), caused(ValueError(SECRET), OSError(104, SECRET)), ConnectError(SECRET)):
        for effect in ("read", "write"):
            envelope = judge(Raised(error), effect)
            assert envelope.recovery is not None
            assert SECRET not in view_text(envelope) + str(write_envelope(envelope)) + repr(envelope)


def test_exception_rules_come_first(judge: Any) -> None:
    """The author's rule for a class decides, by its full name or that of a base."""
    policy = tool_policy(
        "t", effect="write",
        exception_rules=[{"exception": f"{Hostile.__module__}.Hostile", "recovery": "do_not_retry", "code": "DESK_FROZEN"}],
    )  # fmt: skip
    envelope = judge(Raised(Hostile()), policy)
    assert (envelope.recovery, envelope.code) == (Recovery.DO_NOT_RETRY, "DESK_FROZEN")
    assert judge(Raised(Exception()), policy).recovery is Recovery.INSPECT_OUTCOME


def test_framework_signals(judge: Any) -> None:
    """A framework's own interrupt asks for a person; it is no failure."""
    envelope = judge(Raised(of("langgraph.errors", "GraphInterrupt")()), "write")
    assert (envelope.recovery, envelope.outcome) == (Recovery.REQUEST_APPROVAL, Outcome.PENDING)


def test_refused_speaks_the_contract(judge: Any) -> None:
    """Raising `Refused` is the contract from Python; what it says is checked like any envelope."""
    policy = tool_policy("t", effect="write", constraints={"desk_status": "target"})
    envelope = judge(
        Raised(
            Refused("DESK_FROZEN_BY_OWNER", constraint="desk_status", recovery="do_not_retry", safe_message="Frozen.")
        ),
        policy,
    )
    assert (envelope.code, envelope.constraint, envelope.safe_message) == (
        "DESK_FROZEN_BY_OWNER",
        "desk_status",
        "Frozen.",
    )
    assert envelope.executed is Executed.NO
    assert judge(Raised(Refused("RATE_LIMITED")), "write").recovery is Recovery.RETRY_AFTER


def test_phase_of() -> None:
    """Only the tool's own mistakes, before any boundary, are its own code's."""
    assert phase_of(ValueError(), reached=False) == "in_tool"
    assert phase_of(ValueError(), reached=True) == "unknown"
    assert phase_of(ConnectError(), reached=False) == "unknown"
    assert phase_of(OSError(), reached=False) == "unknown"


def test_recorded_exceptions_without_a_module(judge: Any) -> None:
    """A record that names no module is read by the bare class name."""
    facts = RaisedFacts(names=(".ReadTimeout",), phase="after_send")
    assert judge(facts, "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(facts).recovery is Recovery.RETRY_AFTER
    assert judge(RaisedFacts(names=(".ConnectError",), phase="before_send"), "write").code == "NOT_SENT"
    assert judge(RaisedFacts(names=(".ValueError",), phase="in_tool"), "write").recovery is Recovery.REPAIR_INPUT
    assert judge(RaisedFacts(names=()), "write").recovery is Recovery.INSPECT_OUTCOME


def grouped(error: Exception, depth: int) -> Exception:
    """Return an exception in groups of one."""
    held: list[Exception] = [error]
    for _ in range(depth):
        held = [ExceptionGroup("unhandled errors in a TaskGroup", held)]
    return held[0]


@pytest.mark.parametrize(("depth", "code"), [(1, "NOT_SENT"), (3, "NOT_SENT"), (500, "OUTCOME_UNKNOWN")])
def test_a_group_of_one_is_what_it_holds(judge: Any, depth: int, code: str) -> None:
    """A task group around one exception proves what that exception proves; beyond a depth it proves nothing."""
    refused = ConnectionRefusedError()
    assert judge(Raised(grouped(refused, depth), "connect", ONCE, unsent=True), "write").code == code


def test_what_a_group_of_one_says(judge: Any) -> None:
    """A tool that refuses inside a task group speaks the contract all the same."""
    assert judge(Raised(grouped(Refused("POSITION_LIMIT_REACHED"), 2)), "write").code == "POSITION_LIMIT_REACHED"


def test_a_group_of_two_proves_nothing(judge: Any) -> None:
    """Where more than one thing went wrong, none of them stands for the outcome."""
    two = ExceptionGroup("two", [ConnectionRefusedError(), ValueError()])
    assert judge(Raised(two, "connect", ONCE, unsent=True), "write").recovery is Recovery.INSPECT_OUTCOME


def test_a_rule_about_groups_is_kept(judge: Any) -> None:
    """An author's rule for the group itself comes before what the group holds."""
    policy = tool_policy(
        "pay", effect="write", exception_rules=[{"exception": "builtins.ExceptionGroup", "recovery": "do_not_retry"}]
    )
    assert judge(Raised(grouped(ConnectionRefusedError(), 2)), policy).recovery is Recovery.DO_NOT_RETRY


def test_a_sqlstate_that_somebody_else_carries_repeats_no_write(judge: Any) -> None:
    """A tool's own error over a rolled back statement says nothing about the statements before it."""
    behind = of("psycopg.errors", "SerializationFailure")()
    behind.sqlstate = "40001"
    wrapped = caused(of("orders", "OrderFailed")(SECRET), behind)
    assert judge(Raised(wrapped, "unknown"), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(Raised(wrapped, "unknown"), "read").recovery is Recovery.RETRY_AFTER
    assert judge(Raised(behind, "unknown"), "write").recovery is Recovery.RETRY_AFTER


def test_an_exception_is_no_success(judge: Any) -> None:
    """Where a client could not use the answer, a status of success makes no result of it, unless the author says so."""
    facts = RaisedFacts(names=("aiohttp.ContentTypeError",), phase="response_body", status=200)
    assert judge(facts, "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(facts, "read").recovery is Recovery.RETRY_AFTER
    declared = tool_policy("t", effect="read", status_rules=[{"status": 204, "outcome": "empty"}])
    assert judge(RaisedFacts(names=("sdk.NoContent",), status=204), policy=declared).outcome is Outcome.EMPTY
