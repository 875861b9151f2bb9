"""Real clients against a server that misbehaves: for each the class is right, and the server counted one arrival."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import trustme

from forbear import Controller, Reply
from forbear.contract import Trail, current_trail
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration import fault_server as fs
from tests.integration.http_clients import BODY, CLIENTS, Client

# Long enough for a loaded machine to connect, short enough to wait out.
PATIENT, IMPATIENT = 10.0, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: what the server does, what it may count, and the class for a write and for a read."""

    fault: fs.Fault | None
    write: str
    read: str
    code: str = ""
    connections: int = 1
    requests: int = 1
    tls: bool = False
    timeout: float = PATIENT


UNKNOWN, RETRY, STOP = "inspect_outcome", "retry_after", "do_not_retry"
CASES = {
    "refuses": Case(fault=None, write=RETRY, read=RETRY, code="NOT_SENT", connections=0, requests=0),
    "accepts and closes": Case(fault=fs.closes, write=UNKNOWN, read=RETRY, requests=0),
    "reads and closes": Case(fault=fs.reads_and_closes, write=UNKNOWN, read=RETRY),
    "resets": Case(fault=fs.resets, write=UNKNOWN, read=RETRY),
    "reads and never answers": Case(fault=fs.never_answers, write=UNKNOWN, read=RETRY, timeout=IMPATIENT),
    "cuts the head": Case(fault=fs.cuts_head, write=UNKNOWN, read=RETRY),
    "cuts the body": Case(fault=fs.cuts_body, write=UNKNOWN, read=RETRY),
    "wrong certificate": Case(fault=fs.closes, write=STOP, read=STOP, code="IDENTITY_UNVERIFIED", requests=0, tls=True),
    "TLS handshake hangs": Case(
        fault=fs.hangs, write=RETRY, read=RETRY, code="NOT_SENT", requests=0, timeout=IMPATIENT
    ),
    "500": Case(fault=fs.answers(500), write=UNKNOWN, read=RETRY),
    "redirect": Case(fault=fs.answers(302, "Location: http://127.0.0.1:9/\r\n"), write=UNKNOWN, read=STOP),
    "429": Case(fault=fs.answers(429, "Retry-After: 30\r\n", "{}"), write=RETRY, read=RETRY, code="RATE_LIMITED"),
}


@pytest.fixture(scope="module")
def certificate() -> ssl.SSLContext:
    """A certificate whose issuer nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def controller() -> Iterator[Controller]:
    """A controller with one write and one read."""
    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as opened:
        opened.declare("place_order", effect="write")
        opened.declare("read_order", effect="read")
        yield opened


def called(controller: Controller, client: Client, tool: str, url: str, timeout: float) -> tuple[Reply, Trail]:
    """Call a tool that uses a client, and return the answer and what was written down."""
    trails: list[Trail | None] = []

    def execute(**arguments: Any) -> object:
        try:
            assert client.send is not None
            return client.send(url, timeout=timeout)
        finally:
            trails.append(current_trail())

    async def aexecute(**arguments: Any) -> object:
        try:
            assert client.asend is not None
            return await client.asend(url, timeout=timeout)
        finally:
            trails.append(current_trail())

    if client.asend is not None:
        reply = asyncio.run(controller.acall(tool, BODY, run="r", execute=aexecute, wait=False))
    else:
        reply = controller.call(tool, BODY, run="r", execute=execute, wait=False)
    (trail,) = trails
    assert trail is not None
    return reply, trail


def expected(case: Case, name: str, client: Client) -> Case:
    """Return what this client can tell of a fault."""
    if client.is_watched:
        return case
    if name == "TLS handshake hangs":
        # Its class says that an answer was awaited, and nobody watched: not known is not "not sent".
        return replace(case, write=UNKNOWN, code="")
    if name in ("429", "redirect"):
        # It answers "cannot be parsed" for an answer without its own body.
        return replace(case, write=UNKNOWN, read=RETRY, code="")
    return case


# What has to be waited out is waited out once: the write shows it.
SHOWN = [
    (name, effect)
    for name in CASES
    for effect in ("write", "read")
    if effect == "write" or CASES[name].timeout is PATIENT
]


@pytest.mark.parametrize(("name", "effect"), SHOWN)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_fault_has_its_class_and_one_arrival(
    client: Client, name: str, effect: str, controller: Controller, certificate: ssl.SSLContext
) -> None:
    """Whatever the server does, the class is right for the effect, and nothing arrived a second time."""
    if not client.is_installed:
        pytest.skip(f"needs {', '.join(client.packages)}")
    case = expected(CASES[name], name, client)
    tool = "place_order" if effect == "write" else "read_order"
    if case.fault is None:
        reply, trail = called(controller, client, tool, f"http://127.0.0.1:{fs.closed_port()}", case.timeout)
        counted = (0, 0)
    else:
        with fs.serving(case.fault, tls=certificate if case.tls else None) as server:
            url = server.url if name != "TLS handshake hangs" else server.url.replace("http:", "https:")
            reply, trail = called(controller, client, tool, url, case.timeout)
        counted = (server.connections, len(server.requests))
    envelope = reply.envelope
    assert envelope.recovery == (case.write if effect == "write" else case.read)
    assert counted == (case.connections, case.requests)
    assert len(trail.exchanges) == 1
    if case.code:
        assert envelope.code == case.code
    if case.code == "NOT_SENT":
        assert envelope.executed == "no"
        assert "request_sent" not in trail.reached
    if case.code == "RATE_LIMITED":
        assert envelope.reset_at is not None
        assert envelope.reset_at - ManualClock().now() == timedelta(seconds=30)
    if case.write == UNKNOWN and effect == "write":
        assert envelope.executed == "unknown"


def test_a_request_that_an_sdk_repeats_behind_the_tool_proves_nothing(controller: Controller) -> None:
    """The server did the write and went away; the SDK's last attempt was refused, and the outcome is unknown."""
    openai = pytest.importorskip("openai")
    from forbear_adapters.http import hidden_retries, over_httpx2

    def done_and_gone(server: fs.FaultServer, connection: Any) -> None:
        server.read(connection)
        server.stop_listening()

    with fs.serving(done_and_gone) as server, over_httpx2.client(timeout=PATIENT) as http:
        client = openai.OpenAI(api_key="k", base_url=server.url, http_client=http, max_retries=1)
        assert "max_retries=0" in hidden_retries(client)
        reply = controller.call(
            "place_order",
            BODY,
            run="r",
            execute=lambda **_: client.chat.completions.create(model="m", messages=[]),
            wait=False,
        )
    assert len(server.requests) == 1
    assert reply.envelope.recovery == "inspect_outcome"


Following = Callable[[str], object]


def httpx_following(url: str) -> object:
    """Post with httpx, which follows redirects."""
    import httpx

    from forbear_adapters.http import over_httpx

    with httpx.Client(transport=over_httpx.RecordingTransport(), follow_redirects=True) as client:
        return client.post(url).json()


def httpx2_following(url: str) -> object:
    """Post with httpx2, which follows redirects."""
    import httpx2

    from forbear_adapters.http import over_httpx2

    with httpx2.Client(transport=over_httpx2.RecordingTransport(), follow_redirects=True) as client:
        return client.post(url).json()


def requests_following(url: str) -> object:
    """Post with requests, which follows redirects."""
    import requests

    from forbear_adapters.http import over_requests

    with requests.Session() as session:
        session.mount("http://", over_requests.RecordingAdapter())
        return session.post(url, timeout=PATIENT).json()


def urllib3_following(url: str) -> object:
    """Post with urllib3, which follows redirects."""
    import urllib3

    from forbear_adapters.http import over_requests

    with urllib3.PoolManager() as pools:
        over_requests.watch(pools)
        return pools.request("POST", url, retries=urllib3.Retry(1, connect=0)).json()


def aiohttp_following(url: str) -> object:
    """Post with aiohttp, which follows redirects."""
    from forbear_adapters.http import over_aiohttp

    async def send() -> object:
        async with over_aiohttp.session() as session, session.post(url) as response:
            return await response.json()

    return asyncio.run(send())


FOLLOWING = {
    "httpx": httpx_following,
    "httpx2": httpx2_following,
    "requests": requests_following,
    "urllib3": urllib3_following,
    "aiohttp": aiohttp_following,
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_followed_redirect_proves_nothing_about_the_first_hop(name: str, controller: Controller) -> None:
    """The first hop may have done the write, whatever became of the second one, which nobody listened to."""
    pytest.importorskip(name)
    redirect = fs.answers(302, f"Location: http://127.0.0.1:{fs.closed_port()}/\r\n")
    with fs.serving(redirect) as server:
        reply = controller.call(
            "place_order", BODY, run="r", execute=lambda **_: FOLLOWING[name](server.url), wait=False
        )
    assert len(server.requests) == 1
    assert reply.envelope.recovery == "inspect_outcome"
    assert reply.envelope.http_status is None
