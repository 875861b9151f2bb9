"""Real clients against servers that misbehave: for each the class is right, and the server counted one arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from forbear import Controller
from forbear.contract import current_trail
from forbear.testing.clock import ManualClock, SequenceIds
from tests.docs.clients_table import PAGE, cell, cell_of, is_measured_with
from tests.integration import fault_server as fs
from tests.integration.faults import CASES, LOOK, PATIENT, SUBJECTS, Backends, Speaks, Subject, backends, measured
from tests.integration.http_clients import BODY


@pytest.fixture(scope="module")
def behind() -> Iterator[Backends]:
    """The real servers behind the faults."""
    with backends() as made:
        yield made


@pytest.fixture
def controller() -> Iterator[Controller]:
    """A controller with one write and one read."""
    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as opened:
        opened.declare("place_order", effect="write")
        opened.declare("read_order", effect="read")
        yield opened


# What has to be waited out is waited out once: the write shows it.
SHOWN = [
    pytest.param(subject, name, effect, id=f"{subject.name}-{name}-{effect}")
    for subject in SUBJECTS
    for name in subject.cases
    for effect in ("write", "read")
    if effect == "write" or CASES[name].timeout is PATIENT
]


@pytest.mark.parametrize(("subject", "name", "effect"), SHOWN)
def test_a_fault_has_its_class_and_one_arrival(subject: Subject, name: str, effect: str, behind: Backends) -> None:
    """Whatever the server does, the class is right for the effect, and nothing arrived a second time."""
    missing = behind.missing(subject)
    if missing:
        pytest.skip(missing)
    case = subject.expected(name)
    got = measured(subject, name, effect, behind)
    envelope = got.reply.envelope
    assert envelope.recovery == (case.write if effect == "write" else case.read)
    assert got.arrivals == case.arrivals
    if got.carried_out is not None:
        # The real server did it, once, whatever the client was told.
        assert got.carried_out == 1
    if subject.speaks is Speaks.HTTP:
        assert got.connections == case.connections
    if subject.client.is_watched and subject.speaks is not Speaks.MCP:
        assert len(got.trail.exchanges) == 1
    if case.code:
        assert envelope.code == case.code
    if case.code == "NOT_SENT":
        assert envelope.executed == "no"
        assert "request_sent" not in got.trail.reached
    if case.code == "RATE_LIMITED":
        assert envelope.reset_at is not None
        assert envelope.reset_at - ManualClock().now() == timedelta(seconds=30)
    if case.write == LOOK and effect == "write":
        assert envelope.executed == "unknown"
    if effect == "write":
        page = PAGE.read_text("utf-8")
        said, measures = cell_of(page, subject, name), cell(got)
        if not is_measured_with(page, subject):
            # Another release may break off a moment earlier or later; what it means stays the same.
            said, measures = (" ".join(one.split(" · ")[::2]) for one in (said, measures))
        assert measures == said


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


@pytest.mark.parametrize(("through", "arrived"), [("session", 1), ("trace_config", 2)])
def test_a_put_of_aiohttp(through: str, arrived: int, controller: Controller) -> None:
    """Our session sends a PUT once; one that only records counts what aiohttp repeats, and nothing is claimed."""
    aiohttp = pytest.importorskip("aiohttp")
    from forbear_adapters.http import hidden_retries, over_aiohttp

    trails: list[Any] = []

    async def put(**_: object) -> object:
        ours = over_aiohttp.session(timeout=PATIENT)
        bare = aiohttp.ClientSession(trace_configs=[over_aiohttp.trace_config()])
        async with ours, bare:
            assert hidden_retries(ours) == ""
            assert "_retry_connection" in hidden_retries(bare)
            trails.append(current_trail())
            async with (ours if through == "session" else bare).put(server.url, data=b"{}") as response:
                return await response.read()

    with fs.serving(fs.reads_and_closes) as server:
        reply = asyncio.run(controller.acall("place_order", BODY, run="r", execute=put, wait=False))
    assert len(server.requests) == arrived
    assert len(trails[0].exchanges) == arrived
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
