"""The failure matrix: a real client against real servers, twelve ways to fail, four things that hold for each.

The code and what the agent may do; the planted secret in no form; no header, body or detail of the connection; and a
record with the request id and enough to investigate.
"""

from __future__ import annotations

import base64
import json
import logging
import pkgutil
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from forbear import Controller, Operator, Refused, Reply
from forbear.audit.evidence import evidence_path
from forbear.audit.files import of_request
from forbear.contract import mark
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import StoreError
from forbear.ports import Commit, Store
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.http import over_httpx
from tests.integration import fault_server as fs
from tests.integration.hostile import CORE, SECRET, Watch, journal_texts, leaks, prompts, told

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
    # Answer to the same call in the next step: none of them lets the tool run a second time.
    again: tuple[str, ...] = ("blocked", "stopped")
    # Boundaries that the record says were reached, and the last one that was.
    reached: str = ""
    # Class of the exception that the protected record keeps.
    exception: str = ""


class BrokenStore:
    """A store whose disk fails as soon as it is told, with a message that names everything."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self._store = open_sqlite(path, clock=clock)
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
        self.broken_path = path.with_name("broken.db")
        self.store = BrokenStore(self.broken_path, clock)
        self.watch = Watch()
        self.controller = Controller.open(
            path, clock=clock, ids=SequenceIds(), worker=False, observer=self.watch.observers
        )
        self.broken = Controller.open(
            store=cast("Store", self.store),
            clock=clock,
            ids=SequenceIds(),
            worker=False,
            observer=self.watch.observers,
            evidence=evidence_path(self.broken_path),
        )
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

    def again(self, *, broken: bool) -> Reply:
        """Propose the same call in the next step, with a tool that must not run."""

        def forbidden(**_: Any) -> object:
            raise AssertionError("the tool ran a second time")

        if broken:
            return self.broken.call(
                "place_order", ARGUMENTS, run="r1", step="s2", execute=forbidden, wait=False, on_broken="block"
            )
        return self.controller.call("place_order", ARGUMENTS, run="r1", step="s2", execute=forbidden, wait=False)

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
            again=("pending",),
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
            again=("pending",),
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
            again=("pending",),
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
        Row(
            code="CONTROLLER_BROKEN",
            recovery=STOP,
            executed="no",
            answers=("blocked",),
            rule="",
            exception="StoreError",
        ),
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


def keeps_the_promises(
    name: str, world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the four promises of one way to fail."""
    caplog.set_level(logging.DEBUG)
    fail, row = MATRIX[name]
    reply = fail(world)
    envelope = reply.envelope
    ours = name == "the controller itself"

    # 1. Code and action: what the reply says, what the model reads, and what it may do next.
    assert (envelope.code, envelope.recovery, envelope.executed) == (row.code, row.recovery, row.executed)
    assert reply.answer in row.answers
    read = json.loads(reply.for_model())
    assert (read["error"]["code"], read["error"]["recovery"]) == (row.code, row.recovery)
    if row.code == "RATE_LIMITED":
        assert envelope.reset_at == ManualClock().now() + timedelta(seconds=60)
    second = world.again(broken=ours)
    assert second.answer in row.again

    # 2. and 3. The secret, the server's words and the connection's details, in what anybody is told.
    world.controller.close()
    printed = capsys.readouterr()
    left = world.watch.texts(caplog.records)
    assert any("forbear.code" in text or row.code in text for text in left) or ours, "telemetry says nothing"
    texts = [*told(reply), *told(second), *prompts_of(world), *left, printed.out, printed.err]
    details = (*SERVER_WORDS, *world.urls, HOST, "/v1/orders", "Bearer", "getaddrinfo", "[Errno", "SSL:", "_ssl.c")
    assert leaks(texts, details) == []

    # 4. The record has the id, and says what happened.
    assert envelope.request_id.startswith("act_")
    entries, loose = of_request(world.broken_path if ours else world.path, envelope.request_id)
    if ours:
        # The journal cannot be written: what is known stands beside it, under the id that the agent was told.
        assert entries == []
        (piece,) = loose
        assert (piece["event"], piece["code"], piece["tool"], piece["run"], piece["step"]) == (
            "controller_failed", row.code, "place_order", "r1", "s1",
        )  # fmt: skip
        assert piece["arguments_digest"]
        (said,) = cast("list[dict[str, str]]", piece["exceptions"])
        assert said["class"].rpartition(".")[2] == row.exception
        return
    assert entries, "the request id finds nothing"
    last, facts = entries[-1].line.line, entries[-1].facts
    assert (last.run, last.tool, facts["code"]) == ("r1", "place_order", row.code)
    assert last.rule.startswith(row.rule)
    assert {"event", "before", "after", "policy", "fingerprint"} <= facts.keys()
    reached = cast("list[str]", facts.get("boundaries", []))
    assert (reached[-1] if reached else "") == row.reached
    if row.reached:
        # The protected record beside it, which only operators read, names what was raised and where it went.
        (piece,) = [entry.evidence for entry in entries if entry.evidence is not None]
        exceptions = cast("list[dict[str, str]]", piece["exceptions"])
        assert exceptions[0]["class"].rpartition(".")[2] == row.exception
        assert exceptions[0]["text"]
        if row.reached != "validated":
            (request,) = cast("list[dict[str, str]]", piece["requests"])
            assert request["method"] == "POST"
            assert request["destination"].partition("://")[2] in (
                HOST,
                *(url.partition("://")[2] for url in world.urls),
            )
            assert request["path_template"]


def prompts_of(world: World) -> list[str]:
    """Return what persons are shown, and the journal, of a controller on the same file."""
    with Controller.open(world.path, clock=ManualClock(), ids=SequenceIds(start=5000), worker=False) as looking:
        return [*prompts(looking), *journal_texts(looking)]


@pytest.mark.parametrize("name", MATRIX)
def test_every_way_to_fail_keeps_the_four_promises(
    name: str, world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code and action are right, the secret is in no form anywhere, no raw detail passes, and the record knows the id."""
    keeps_the_promises(name, world, caplog, capsys)


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


# ---- that the promises would be seen to break ------------------------------------------------------------------------


def spoil(monkeypatch: pytest.MonkeyPatch, where: str, change: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """Let a function give something else: `change` is given its result and its positional arguments."""
    module, _, name = where.rpartition(".")
    holder: Any = pkgutil.resolve_name(module)
    whole = getattr(holder, name)

    def spoilt(*given: Any, **named: Any) -> Any:
        return change(whole(*given, **named), given)

    monkeypatch.setattr(holder, name, spoilt)


SPOILT: dict[str, tuple[str, str, Callable[[Any, tuple[Any, ...]], Any]]] = {
    "another code": (
        "remote 403",
        "forbear.contract.classify.classify_exception",
        lambda said, given: replace(said, code="AUTH_FAILED"),
    ),
    "a refusal becomes a wait": (
        "remote 401",
        "forbear.contract.classify.classify_exception",
        lambda said, given: replace(said, recovery=Recovery.RETRY_AFTER),
    ),
    "an unknown write counts as not sent": (
        "timeout after bytes",
        "forbear.contract.classify.classify_exception",
        lambda said, given: replace(
            said, recovery=Recovery.DO_NOT_RETRY, executed=Executed.NO, outcome=Outcome.REFUSED
        ),
    ),
    "the text of an exception in the message": (
        "DNS failure",
        "forbear.contract.classify._finished",
        lambda said, given: replace(said, safe_message=f"{HOST} has no address"),
    ),
    "a secret in Base64 in the message": (
        "remote 401",
        "forbear.contract.classify._finished",
        lambda said, given: replace(said, safe_message=base64.b64encode(f"k:{CORE}".encode()).decode()),
    ),
    "the server's address in a log": (
        "rate limit",
        "logging.LogRecord.getMessage",
        lambda text, given: f"{text} to 127.0.0.1",
    ),
    "no evidence": ("remote 403", "forbear.runtime.leaving.piece_of", lambda piece, given: b"{}"),
    "evidence without the destination": (
        "timeout after bytes",
        "forbear.audit.record.destination_of",
        lambda said, given: "",
    ),
    "no record of the controller's failure": (
        "the controller itself",
        "forbear.runtime.broken.piece_of",
        lambda piece, given: b"{}",
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_broken_promise_would_be_seen(
    fault: str,
    world: World,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a fault planted in the product, the check of the matrix fails: it is no check of nothing."""
    name, where, change = SPOILT[fault]
    spoil(monkeypatch, where, change)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        keeps_the_promises(name, world, caplog, capsys)
