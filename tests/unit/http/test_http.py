"""The parts of the HTTP hooks that need no server: keys, switches, translation. Real clients: integration/test_clients."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx
import httpx2
import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from forbear import Controller
from forbear.contract import Trail, recording
from forbear.errors import ConfigError
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.http import hidden_retries, http_result, keyed, over_httpx, over_requests, single_attempt


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is moved by hand."""
    return ManualClock()


@pytest.fixture
def controller(clock: ManualClock) -> Iterator[Controller]:
    """A controller with a write whose upstream knows its key."""
    with Controller.open(":memory:", clock=clock, ids=SequenceIds(), worker=False) as opened:
        opened.declare("pay", effect="write", idempotency_key="key")
        yield opened


class Upstream:
    """An upstream in this process: answers from a script, and keeps what reached it."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.keys: list[str | None] = []
        self.methods: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.methods.append(request.method)
        return httpx.Response(self.statuses.pop(0) if self.statuses else 200, json={"id": 1})

    def client(self) -> httpx.Client:
        """Return a client of it that records."""
        return over_httpx.client(transport=httpx.MockTransport(self))


def test_the_key_goes_with_the_request_and_not_into_the_arguments(controller: Controller) -> None:
    """The tool does not see the key, the upstream does, and a second wanted call has another one."""
    upstream = Upstream()
    got: list[dict[str, object]] = []

    def pay(**arguments: Any) -> object:
        got.append(arguments)
        with upstream.client() as client:
            client.get("https://bank.example/account")
            return client.post("https://bank.example/payments").json()

    execute = keyed(pay, argument="key")
    assert controller.call("pay", {"amount": 5}, run="r", execute=execute).ok
    assert controller.call("pay", {"amount": 6}, run="r", execute=execute).ok
    assert got == [{"amount": 5}, {"amount": 6}]
    read_key, first, _, second = upstream.keys
    assert read_key is None
    assert first is not None
    assert second is not None
    assert first != second


def test_an_unknown_write_is_repeated_once_with_the_same_key(controller: Controller, clock: ManualClock) -> None:
    """After a 500 the controller repeats by itself, and both requests carry one key."""
    upstream = Upstream(500, 200)

    def pay(**_: Any) -> object:
        with upstream.client() as client:
            return client.post("https://bank.example/payments").raise_for_status().json()

    execute = keyed(pay, argument="key")
    controller.bind("pay", execute)
    first = controller.call("pay", {"amount": 5}, run="r", execute=execute, wait=False)
    assert first.envelope.recovery == "inspect_outcome"
    clock.advance(timedelta(minutes=5))
    controller.work()
    assert len(upstream.keys) == 2
    assert upstream.keys[0] == upstream.keys[1]


def test_a_key_that_did_not_go_out_is_not_used_again() -> None:
    """Where the tool uses another client, nothing protects a repetition: it is refused before the tool is called."""
    calls: list[int] = []
    execute = keyed(lambda **_: calls.append(1), argument="key")
    with recording():
        execute(key="k1")
    with recording(), pytest.raises(ConfigError, match="did not go out"):
        execute(key="k1")
    assert calls == [1]


async def test_an_async_tool_is_keyed_too() -> None:
    """The wrapper of an async tool is async, with the same rules."""

    async def pay(**_: Any) -> object:
        return None

    execute = keyed(pay, argument="key", quoted=True)
    with recording() as trail:
        await cast("Awaitable[object]", execute(key="k1"))
        assert trail.key == ("Idempotency-Key", '"k1"')


def test_only_the_first_request_that_changes_something_carries_the_key() -> None:
    """Reads carry none, repeats of the keyed request carry it, and another write of the same call carries none."""
    upstream = Upstream()

    def tool(**_: Any) -> None:
        with upstream.client() as client:
            client.get("https://bank.example/a")
            client.post("https://bank.example/a")
            client.post("https://bank.example/a")
            client.post("https://bank.example/b")
            client.put("https://bank.example/a")

    with recording():
        keyed(tool, argument="key")(key="k1")
    assert upstream.keys == [None, "k1", "k1", None, None]


def test_a_key_of_the_tools_own_is_kept() -> None:
    """A field that the tool sets itself is not overwritten, and does not count as the controller's key."""
    upstream = Upstream()

    def tool(**_: Any) -> None:
        with upstream.client() as client:
            client.post("https://bank.example/a", headers={"idempotency-key": "own"})

    with recording() as trail:
        keyed(tool, argument="key")(key="k1")
        assert not trail.key_sent
    assert upstream.keys == ["own"]


@pytest.mark.parametrize("header", ["", "a b", "X:", "Idempotency-Key\r\nX"])
def test_a_header_field_has_a_name(header: str) -> None:
    """What could end the line or the name is no name of a field."""
    with pytest.raises(ConfigError, match="'header'"):
        keyed(lambda **_: None, argument="key", header=header)


def test_a_keyed_tool_without_a_key_is_not_called() -> None:
    """A policy without `idempotency_key` is noticed before anything is sent."""
    with pytest.raises(ConfigError, match="idempotency_key"):
        keyed(lambda **_: pytest.fail("called"), argument="key")(amount=1)


# ---- switches -------------------------------------------------------------------------------------------------------


def test_a_client_that_repeats_is_named_with_its_switch() -> None:
    """What repeats is reported with the option that stops it, and stopped where that can be done from outside."""
    manager = urllib3.PoolManager()
    assert "retries=False" in hidden_retries(manager)
    assert hidden_retries(single_attempt(manager)) == ""
    session = requests.Session()
    assert hidden_retries(session) == ""
    session.mount("https://", HTTPAdapter(max_retries=3))
    with pytest.raises(ConfigError, match="max_retries=0"):
        single_attempt(session)
    assert hidden_retries(over_requests.session()) == ""


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_a_generated_sdk_is_copied_without_retries(package: str) -> None:
    """The client itself is left as it was; the copy makes one attempt."""
    module = pytest.importorskip(package)
    client = {"openai": "OpenAI", "anthropic": "Anthropic"}[package]
    made = getattr(module, client)(api_key="k")
    quiet = single_attempt(made)
    assert (made.max_retries, quiet.max_retries) == (2, 0)
    assert "max_retries=0" in hidden_retries(made)
    made.close()


def test_large_clients_are_known_where_they_are_installed() -> None:
    """redis, slack_sdk and stripe are recognised by what they hold."""
    redis = pytest.importorskip("redis")
    assert "NoBackoff" in hidden_retries(redis.Redis())
    quiet = importlib.import_module("redis.retry").Retry(importlib.import_module("redis.backoff").NoBackoff(), 0)
    assert hidden_retries(redis.Redis(retry=quiet)) == ""
    slack = pytest.importorskip("slack_sdk").WebClient()
    assert hidden_retries(slack)
    assert hidden_retries(single_attempt(slack)) == ""
    stripe = pytest.importorskip("stripe")
    assert hidden_retries(stripe.StripeClient("sk_test_x")) == ""
    with pytest.raises(ConfigError, match="max_network_retries=0"):
        single_attempt(stripe.StripeClient("sk_test_x", max_network_retries=2))


def test_an_unknown_client_is_left_alone() -> None:
    """Of a client that is in no table nothing is claimed."""
    client = SimpleNamespace(max_retries=5)
    assert hidden_retries(client) == ""
    assert single_attempt(client) is client


def test_a_transport_that_repeats_inside_is_refused() -> None:
    """A retrying transport under the recording one would hide its requests."""

    class Retrying(httpx.BaseTransport):
        __module__ = "httpx_retries.transport"

    with pytest.raises(ConfigError, match="httpx_retries"):
        over_httpx.RecordingTransport(Retrying())


# ---- translation ----------------------------------------------------------------------------------------------------


def responses() -> list[object]:
    """Return one answer in the forms of four clients."""
    old = requests.Response()
    old.status_code, old._content = 429, b'{"a":1}'
    old.headers["Retry-After"] = "30"
    return [
        httpx.Response(429, headers={"Retry-After": "30"}, content=b'{"a":1}'),
        httpx2.Response(429, headers={"Retry-After": "30"}, content=b'{"a":1}'),
        old,
        urllib3.HTTPResponse(body=b'{"a":1}', status=429, headers={"Retry-After": "30"}, preload_content=True),
    ]


@pytest.mark.parametrize("response", responses(), ids=lambda response: type(response).__module__)
def test_a_response_becomes_a_raw_result(response: object) -> None:
    """Status, header fields and a body that was read are taken from every client alike."""
    raw = http_result(response)
    assert (raw.status, raw.body) == (429, b'{"a":1}')
    assert ("retry-after", "30") in [(name.lower(), value) for name, value in raw.headers]


def test_a_body_that_was_not_read_stays_unread() -> None:
    """A stream is not consumed behind the tool's back."""
    response = httpx.Response(200, stream=httpx.ByteStream(b"x"))
    assert http_result(response).body == ""
    assert http_result(response, body=b"x").body == b"x"


def test_what_is_no_response_is_an_error() -> None:
    """Something without a status is a mistake of the caller."""
    with pytest.raises(TypeError, match="status"):
        http_result({"status": 200}.keys())


def test_a_transport_without_steps_proves_nothing() -> None:
    """A transport that does not report its steps leaves it open whether anything was sent."""

    def fails(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("x")

    transport = httpx.MockTransport(fails)
    with recording() as trail, over_httpx.client(transport=transport) as client, pytest.raises(httpx.ReadTimeout):
        client.post("https://bank.example/")
    assert [one.watched for one in trail.exchanges] == [False]
    assert trail.left


def test_outside_a_call_requests_are_sent_unchanged() -> None:
    """Without a governed call nothing is recorded and nothing is added."""
    upstream = Upstream()
    with upstream.client() as client:
        assert client.post("https://bank.example/").status_code == 200
    assert upstream.keys == [None]
    assert Trail().exchanges == []
