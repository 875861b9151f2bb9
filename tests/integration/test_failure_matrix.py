"""The failure matrix: a real client against real servers, twelve ways to fail, four things that hold for each.

The code and what the agent may do; the planted secret in no form; no header, body or detail of the connection; and a
record with the request id and enough to investigate.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from forbear import Controller, Operator, Refused, Reply
from forbear.audit.files import of_request
from forbear.contract import mark
from forbear.errors import StoreError
from forbear.ports import Commit, Store
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.http import over_httpx
from tests.integration import fault_server as fs
from tests.integration.hostile import CORE, SECRET, journal_texts, leaks, lines, prompts, told

PATIENT, IMPATIENT = 10.0, 0.7
HOST = "internal-gateway.example"
# What a server says, and what the connection consists of: none of it is anybody's business.
SERVER_WORDS = (
    "X-Internal-Route",
    "pod-7f9c",
    "Traceback (most recent",
    "run this command to repair",
    "session-cookie",
)
HEADERS = (
    "X-Internal-Route: pod-7f9c\r\nset-COOKIE: session-cookie=1\r\nSet-Cookie: session-cookie=2\r\n"
    f"LOCATION: https://user:{CORE}@{HOST}/signed?token={CORE}\r\nx-API-token: {CORE}\r\n"
)
BODY = json.dumps(
    {
        "error": {
            "message": f"run this command to repair {SECRET}",
            "trace": "Traceback (most recent",
            "auth": {"t": SECRET},
        }
    }
)
ARGUMENTS = {"account": "A1", "quantity": 3, "token": SECRET}


class Tool:
    """Places an order with a real client; it holds the credential in its URL, its header fields and its body."""

    def __init__(self, url: str, *, timeout: float = PATIENT) -> None:
        self.url = url
        self.timeout = timeout
        self.error: BaseException | None = None

    def __call__(self, **arguments: Any) -> object:
        try:
            mark("validated")
            mark("credential_selected")
            scheme, _, rest = self.url.partition("://")
            headers = {"Authorization": f"Bearer {CORE}", "x-api-TOKEN": CORE, "X-Api-Token": CORE}
            with over_httpx.client(timeout=self.timeout, headers=headers) as client:
                url = f"{scheme}://agent:{CORE}@{rest}/v1/orders"
                response = client.post(url, params={"key": SECRET}, json={"order": arguments, "secret": SECRET})
                response.raise_for_status()
                return response.json()
        except Exception as error:
            self.error = error
            error.add_note(f"curl -H 'Authorization: Bearer {SECRET}' {self.url}")
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What holds for one way to fail."""

    code: str
    recovery: str
    executed: str
    answers: tuple[str, ...] = ("executed",)
    # Rule that the record names last, its beginning.
    rule: str = "running.returned"
    # Boundaries that the record says were reached, and the last one that was.
    reached: str = ""
    # Class of the exception that the protected record keeps.
    exception: str = ""


class BrokenStore:
    """A store whose disk fails as soon as it is told, with a message that names everything."""

    def __init__(self, clock: ManualClock) -> None:
        self._store = open_sqlite(":memory:", clock=clock)
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, change: Commit) -> None:
        """Fail, or store."""
        if self.fails:
            raise StoreError(f"cannot write {SECRET} to {HOST}")
        self._store.commit(change)


class World:
    """One controller with one write, and servers to call."""

    def __init__(self, path: Path, certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = ManualClock()
        self.monkeypatch = monkeypatch
        self.certificate = certificate
        self.path = path
        self.store = BrokenStore(clock)
        self.controller = Controller.open(path, clock=clock, ids=SequenceIds(), worker=False)
        self.broken = Controller.open(store=cast("Store", self.store), clock=clock, ids=SequenceIds(), worker=False)
        self.declare()
        self.tool: Callable[..., object] | None = None
        self.urls: list[str] = []

    def declare(self, **fields: object) -> None:
        """Declare the tool."""
        for controller in (self.controller, self.broken):
            controller.declare("place_order", effect="write", secret=["token"], **fields)

    def call(self, execute: Callable[..., object]) -> Reply:
        """Propose the call."""
        self.tool = execute
        return self.controller.call("place_order", ARGUMENTS, run="r1", step="s1", execute=execute, wait=False)

    def served(self, fault: fs.Fault, *, tls: bool = False, timeout: float = PATIENT, scheme: str = "") -> Reply:
        """Call the tool against a server."""
        with fs.serving(fault, tls=self.certificate if tls else None) as server:
            self.urls = [server.url, f":{server.port}", "127.0.0.1"]
            return self.call(Tool(server.url.replace("http:", scheme) if scheme else server.url, timeout=timeout))


def validation(world: World) -> Reply:
    """The input is rejected before a credential is selected."""

    def validates(**arguments: Any) -> object:
        mark("validated")
        raise Refused("INPUT_INVALID", invalid_fields=["token"], safe_message=f"bad token {SECRET}") from ValueError(
            SECRET
        )

    return world.call(validates)


def locked_vault(world: World) -> Reply:
    """The credential store is locked."""

    def locked(**arguments: Any) -> object:
        mark("validated")
        raise Refused("VAULT_LOCKED", safe_message=f"unlock vault://{HOST}/{SECRET}")

    return world.call(locked)


def declined(world: World) -> Reply:
    """A person says no."""
    world.declare(approval="always")
    asked = world.call(Tool("http://127.0.0.1:9"))
    assert asked.answer == "needs_approval"
    assert not leaks([*told(asked), *prompts(world.controller)])
    operator = Operator(world.controller)
    (pending,) = operator.pending()
    return operator.deny(pending.ticket, pending.fingerprint)


def dns_failure(world: World) -> Reply:
    """The host's name has no address."""
    real = socket.getaddrinfo

    def unknown(host: Any, *rest: Any, **options: Any) -> Any:
        if host == HOST:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {HOST}")
        return real(host, *rest, **options)

    world.monkeypatch.setattr(socket, "getaddrinfo", unknown)
    return world.call(Tool(f"http://{HOST}"))


def controller_broken(world: World) -> Reply:
    """The controller itself fails: its store cannot be written."""
    world.store.fails = True
    return world.broken.call(
        "place_order", ARGUMENTS, run="r1", step="s1", execute=Tool("http://127.0.0.1:9"), wait=False, on_broken="block"
    )


UNKNOWN, RETRY, STOP, REPAIR = "inspect_outcome", "retry_after", "do_not_retry", "repair_input"
MATRIX: dict[str, tuple[Callable[[World], Reply], Row]] = {
    "validation before credentials": (
        validation,
        Row(code="INPUT_INVALID", recovery=REPAIR, executed="no", reached="validated", exception="Refused"),
    ),
    "locked vault": (
        locked_vault,
        Row(code="VAULT_LOCKED", recovery=STOP, executed="no", reached="validated", exception="Refused"),
    ),
    "declined consent": (
        declined,
        Row(code="USER_DENIED", recovery=STOP, executed="no", answers=("blocked", "stopped"), rule=""),
    ),
    "remote 401": (
        lambda world: world.served(fs.answers(401, HEADERS, BODY)),
        Row(code="AUTH_FAILED", recovery=STOP, executed="no", reached="response_received", exception="HTTPStatusError"),
    ),
    "remote 403": (
        lambda world: world.served(fs.answers(403, HEADERS, BODY)),
        Row(
            code="ACCESS_DENIED", recovery=STOP, executed="no", reached="response_received", exception="HTTPStatusError"
        ),
    ),
    "rate limit": (
        lambda world: world.served(fs.answers(429, f"retry-AFTER: 60\r\n{HEADERS}", BODY)),
        Row(
            code="RATE_LIMITED",
            recovery=RETRY,
            executed="no",
            answers=("pending",),
            reached="response_received",
            exception="HTTPStatusError",
        ),
    ),
    "DNS failure": (
        dns_failure,
        Row(
            code="NOT_SENT",
            recovery=RETRY,
            executed="no",
            answers=("pending",),
            reached="connection_started",
            exception="ConnectError",
        ),
    ),
    "TLS failure": (
        lambda world: world.served(fs.closes, tls=True),
        Row(
            code="IDENTITY_UNVERIFIED",
            recovery=STOP,
            executed="no",
            reached="connection_started",
            exception="ConnectError",
        ),
    ),
    "timeout before bytes": (
        lambda world: world.served(fs.hangs, timeout=IMPATIENT, scheme="https:"),
        Row(
            code="NOT_SENT",
            recovery=RETRY,
            executed="no",
            answers=("pending",),
            reached="connection_started",
            exception="ConnectTimeout",
        ),
    ),
    "timeout after bytes": (
        lambda world: world.served(fs.never_answers, timeout=IMPATIENT),
        Row(
            code="OUTCOME_UNKNOWN",
            recovery=UNKNOWN,
            executed="unknown",
            reached="request_sent",
            exception="ReadTimeout",
        ),
    ),
    "malformed upstream JSON": (
        lambda world: world.served(fs.answers(200, f"Content-Type: application/json\r\n{HEADERS}", BODY[:-2])),
        Row(
            code="OUTCOME_UNKNOWN",
            recovery=UNKNOWN,
            executed="unknown",
            reached="response_received",
            exception="JSONDecodeError",
        ),
    ),
    "the controller itself": (
        controller_broken,
        Row(code="CONTROLLER_BROKEN", recovery=STOP, executed="no", answers=("blocked",), rule=""),
    ),
}


@pytest.fixture(scope="module")
def certificate() -> ssl.SSLContext:
    """A certificate whose issuer nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def world(tmp_path: Path, certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A controller of its own, on a file."""
    made = World(tmp_path / "desk.db", certificate, monkeypatch)
    yield made
    made.store.fails = False
    made.controller.close()
    made.broken.close()


@pytest.mark.parametrize("name", MATRIX)
def test_every_way_to_fail_keeps_the_four_promises(
    name: str, world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code and action are right, the secret is in no form anywhere, no raw detail passes, and the record knows the id."""
    caplog.set_level(logging.DEBUG, logger="forbear")
    fail, row = MATRIX[name]
    reply = fail(world)
    envelope = reply.envelope

    # 1. Code and action.
    assert (envelope.code, envelope.recovery, envelope.executed) == (row.code, row.recovery, row.executed)
    assert reply.answer in row.answers
    if row.code == "RATE_LIMITED":
        assert envelope.reset_at == ManualClock().now() + timedelta(seconds=60)

    # 2. and 3. The secret, the server's words and the connection's details, in what anybody is told.
    texts = [*told(reply), *prompts(world.controller)]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("forbear")]
    printed = capsys.readouterr()
    texts += [*ours, printed.out, printed.err, *journal_texts(world.controller)]
    details = (*SERVER_WORDS, *world.urls, HOST, "/v1/orders", "Bearer", "getaddrinfo", "[Errno", "SSL:", "_ssl.c")
    assert leaks(texts, details) == []

    # 4. The record has the id, and says what happened.
    assert envelope.request_id.startswith("act_")
    if name != "the controller itself":
        recorded = lines(world.controller, envelope.request_id)
        assert recorded, "the request id finds nothing"
        last = recorded[-1]
        facts = json.loads(last.body)
        assert last.run == "r1"
        assert last.tool == "place_order"
        assert last.rule.startswith(row.rule)
        assert facts["code"] == row.code
        assert {"event", "before", "after", "policy", "fingerprint"} <= facts.keys()
        reached = facts.get("boundaries", [])
        assert (reached[-1] if reached else "") == row.reached
        if row.reached:
            # The protected record beside it, which only operators read, names what was raised and where it went.
            entries, _ = of_request(world.path, envelope.request_id)
            evidence = [entry.evidence for entry in entries if entry.evidence is not None]
            (piece,) = evidence
            exceptions = cast("list[dict[str, str]]", piece["exceptions"])
            assert exceptions[0]["class"].rpartition(".")[2] == row.exception
            if row.reached != "validated":
                (request,) = cast("list[dict[str, str]]", piece["requests"])
                assert request["method"] == "POST"
                assert request["destination"]


def test_a_broken_controller_raises_without_a_word_of_others(world: World) -> None:
    """Where the caller asks for exceptions, the tool does not run, and no agent's text is made of the exception."""
    world.store.fails = True
    tool = Tool("http://127.0.0.1:9")
    with pytest.raises(StoreError):
        world.broken.call("place_order", ARGUMENTS, run="r1", step="s1", execute=tool, wait=False)
    assert tool.error is None


def test_nothing_is_sent_when_a_person_declined(world: World) -> None:
    """A declined call reaches no server, and proposing it again reaches none either."""
    with fs.serving(fs.answers(200, "", "{}")) as server:
        world.declare(approval="always")
        tool = Tool(server.url)
        world.call(tool)
        operator = Operator(world.controller)
        (pending,) = operator.pending()
        operator.deny(pending.ticket, pending.fingerprint)
        again = world.controller.call("place_order", ARGUMENTS, run="r1", step="s2", execute=tool, wait=False)
    assert server.connections == 0
    assert again.envelope.code == "USER_DENIED"
