"""Each row of doctor's table of clients, against the real client: it repeats, doctor sees it, and the switch ends it."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pytest

from forbear.doctor.clients import CLIENTS, Module, findings_in
from tests.integration import fault_server as fs
from tests.integration.grpc_desk import grpc_desk


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One client: its source as a project has it, with a place for the switch, and one call."""

    package: str
    # The source that makes `client`; {} is where the switch goes, URL and PORT are where the server listens.
    source: str
    call: Callable[[Any], object]
    # The release that was counted; earlier ones may repeat another number of times.
    release: str
    # Arrivals of one call by default: where the answer is lost, a 503, and a 429; None = its server answers otherwise.
    lost: int
    refused: int | None
    limited: int | None
    # The switch as it is written at that place, where doctor's own words are not enough.
    switch: str = ""
    needs: tuple[str, ...] = ()


def posted(client: Any) -> object:
    """Post to a generated SDK's own endpoint."""
    return client.post("/orders", cast_to=object, body={"n": 1})


def table(client: Any) -> object:
    """Create a record."""
    return client.table("base", "table").create({"n": 1})


def setting(_client: Any) -> object:
    """Return a setting to write."""
    made: Any = importlib.import_module("azure.appconfiguration")
    return made.ConfigurationSetting(key="k", value="v")


ROWS = (
    Row(
        package="openai",
        release="openai 3.57.0",
        source="import openai\nclient = openai.OpenAI(api_key='k', base_url=URL{})",
        call=lambda client: client.chat.completions.create(model="m", messages=[]),
        lost=3,
        refused=3,
        limited=3,
    ),
    Row(
        package="anthropic",
        release="anthropic 2.14.0",
        source="from anthropic import Anthropic\nclient = Anthropic(api_key='k', base_url=URL{})",
        call=lambda client: client.messages.create(model="m", max_tokens=1, messages=[]),
        lost=3,
        refused=3,
        limited=3,
    ),
    Row(
        package="cloudflare",
        release="cloudflare 5.9.0",
        source="from cloudflare import Cloudflare\nclient = Cloudflare(api_token='k', base_url=URL{})",
        call=posted,
        lost=3,
        refused=3,
        limited=3,
    ),
    Row(
        package="boto3",
        release="boto3 1.44.8",
        source="import boto3\nfrom botocore.config import Config\nclient = boto3.client('sns', region_name='us-east-1', "
        "endpoint_url=URL, aws_access_key_id='k', aws_secret_access_key='k'{})",
        call=lambda client: client.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:t", Message="m"),
        lost=3,
        refused=3,
        limited=None,
    ),
    Row(
        package="botocore",
        release="botocore 1.44.8",
        source="import botocore.session\nfrom botocore.config import Config\nsession = botocore.session.get_session()\n"
        "client = session.create_client('sns', region_name='us-east-1', endpoint_url=URL, "
        "aws_access_key_id='k', aws_secret_access_key='k'{})",
        call=lambda client: client.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:t", Message="m"),
        lost=3,
        refused=3,
        limited=None,
        switch='config=Config(retries={"total_max_attempts": 1})',
    ),
    Row(
        package="azure",
        release="azure-appconfiguration 1.10.0",
        source="from azure.appconfiguration import AzureAppConfigurationClient\n"
        "client = AzureAppConfigurationClient.from_connection_string('Endpoint=' + URL + ';Id=k;Secret=a2s='{})",
        call=lambda client: client.set_configuration_setting(setting(client)),
        lost=4,
        refused=4,
        limited=4,
        needs=("azure.appconfiguration",),
    ),
    Row(
        package="slack_sdk",
        release="slack_sdk 3.48.0",
        source="from slack_sdk import WebClient\nclient = WebClient(token='k', base_url=URL + '/'{})",
        call=lambda client: client.chat_postMessage(channel="c", text="t"),
        lost=2,
        refused=1,
        limited=1,
    ),
    Row(
        package="pyairtable",
        release="pyairtable 3.5.1",
        source="from pyairtable import Api\nclient = Api('k', endpoint_url=URL{})",
        call=table,
        lost=6,
        refused=1,
        limited=6,
    ),
    Row(
        package="github",
        release="pygithub 2.10.0",
        source="from github import Github\nclient = Github(base_url=URL{})",
        call=lambda client: client.requester.requestJsonAndCheck("POST", "/repos/o/r/issues", input={"title": "t"}),
        lost=11,
        refused=11,
        limited=11,
    ),
    Row(
        package="notion_client",
        release="notion-client 3.1.0",
        source="from notion_client import Client\nclient = Client(auth='k', base_url=URL{})",
        call=lambda client: client.pages.create(parent={"page_id": "x"}, properties={}),
        lost=1,
        refused=1,
        limited=3,
    ),
    Row(
        package="alpaca",
        release="alpaca-py 0.44.0",
        source="from alpaca.trading.client import TradingClient\nclient = TradingClient('k', 's', url_override=URL)\n{}",
        call=lambda client: client.post("/orders", {"symbol": "A"}),
        lost=1,
        refused=1,
        limited=4,
    ),
    Row(
        package="redis",
        release="redis 8.1.0",
        source="import redis\nfrom redis.backoff import NoBackoff\nfrom redis.retry import Retry\n"
        "client = redis.Redis(port=PORT, protocol=2{})",
        call=lambda client: client.incr("place_order"),
        lost=11,
        refused=None,
        limited=None,
    ),
    Row(
        package="urllib3",
        release="urllib3 2.8.0",
        source="import urllib3\nclient = urllib3.PoolManager({})",
        call=lambda client: client.request("PUT", client.url, body=b"{}"),
        lost=4,
        refused=1,
        limited=4,
        switch="retries=False",
    ),
)


@contextmanager
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let clients pause for no time between their repeats."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _seconds: None)
        if importlib.util.find_spec("redis") is not None:
            patch.setattr(importlib.import_module("redis.retry"), "sleep", lambda _seconds: None)
        yield


def made(source: str, server: fs.FaultServer) -> Any:
    """Run a source and return its client."""
    names: dict[str, Any] = {"URL": server.url, "PORT": server.port}
    with warnings.catch_warnings():
        # What a client imports is its own business.
        warnings.simplefilter("ignore")
        exec(compile(source, "desk.py", "exec"), names)  # noqa: S102 - the source that doctor reads is the one that runs
    client = names["client"]
    if type(client).__module__.startswith("urllib3"):
        client.url = server.url
    return client


def reads_redis_and_closes(server: fs.FaultServer, connection: Any) -> None:
    """Take a command of Redis and close without an answer; greetings are answered."""
    while command := connection.recv(65536):
        if b"place_order" in command:
            server.requests.append(command)
            return
        connection.sendall(b"+OK\r\n" * command.count(b"*"))


def arrivals(row: Row, source: str, fault: fs.Fault, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many requests one call sent."""
    with fs.serving(fault) as server, quick(monkeypatch):
        client = made(source, server)
        with contextlib.suppress(Exception):
            row.call(client)
        for name in ("close", "clear"):
            end = getattr(client, name, None)
            if callable(end):
                end()
                break
        return len(server.requests)


def risks(source: str) -> list[str]:
    """Return the changes that doctor asks for."""
    found = findings_in([Module("desk", "desk.py", ast.parse(source))])
    return [one.change for one in found if one.weight == "risk"]


LIMITED = '{"object":"error","status":429,"code":"rate_limited","message":"m"}'
FAULTS = {
    "lost": fs.reads_and_closes,
    "refused": fs.answers(503),
    "limited": fs.answers(429, "Retry-After: 1\r\nContent-Type: application/json\r\n", LIMITED),
}


def counted(release: str) -> bool:
    """Tell whether the installed release is the one that was counted, or a later one."""
    package, _, least = release.partition(" ")

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".") if part.isdigit()]

    return numbers(version(package)) >= numbers(least)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.package)
def test_a_row_is_true(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the real client repeats, doctor names the switch, and with the switch one request arrives."""
    for package in row.needs or (row.package,):
        pytest.importorskip(package, reason=f"needs {package}")
    change = CLIENTS[row.package].switch
    written = row.switch or change
    # An argument among others, the only one, or a line of its own.
    place = {"(": written, "\n": written}.get(row.source.partition("{}")[0][-1], f", {written}")
    plain, switched = row.source.format(""), row.source.format(place)
    assert risks(plain) == [change]
    assert risks(switched) == []
    repeated, is_counted = False, counted(row.release)
    for name, fault in FAULTS.items():
        expected: int | None = getattr(row, name)
        if expected is None:
            continue
        said = reads_redis_and_closes if row.package == "redis" else fault
        got = arrivals(row, plain, said, monkeypatch)
        assert (name, got if is_counted else got > 1) == (name, expected if is_counted else expected > 1)
        assert (name, arrivals(row, switched, said, monkeypatch)) == (name, 1)
        repeated = repeated or expected > 1
    assert repeated


AIOHTTP = """
import aiohttp

async def put(url):
    async with aiohttp.ClientSession() as session:
        {}
        async with session.put(url, data=b"{{}}") as response:
            await response.read()
"""


@pytest.mark.parametrize(("switch", "arrived"), [("", 2), ("session._retry_connection = False", 1)])
def test_what_aiohttp_repeats(switch: str, arrived: int) -> None:
    """Aiohttp sends a PUT once more where the answer is lost; doctor sees it, and the switch ends it."""
    pytest.importorskip("aiohttp")
    source = AIOHTTP.format(switch)
    assert risks(source) == ([] if switch else ["session._retry_connection = False"])
    names: dict[str, Any] = {}
    exec(compile(source, "desk.py", "exec"), names)  # noqa: S102 - as above
    with (
        fs.serving(fs.reads_and_closes) as server,
        pytest.raises(importlib.import_module("aiohttp").ServerDisconnectedError),
    ):
        asyncio.run(names["put"](server.url))
    assert len(server.requests) == arrived


GRPC = """
import grpc

CONFIG = '{{"methodConfig": [{{"name": [{{}}], "retryPolicy": {{"maxAttempts": 3, "initialBackoff": "0.01s", \
"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}}}]}}'

def place(port):
    options = [("grpc.service_config", CONFIG){}]
    with grpc.insecure_channel(f"127.0.0.1:{{port}}", options=options) as channel:
        return channel.unary_unary("/desk.Desk/PlaceOrder")(b"place_order", timeout=10)
"""


@pytest.mark.parametrize(("switch", "arrived"), [("", 3), (', ("grpc.enable_retries", 0)', 1)])
def test_a_service_config_of_grpc(switch: str, arrived: int) -> None:
    """A retryPolicy makes a handler run three times; doctor sees it, and its switch ends it."""
    grpc: Any = pytest.importorskip("grpc", reason="needs grpcio")
    source = GRPC.format(switch)
    assert risks(source) == ([] if switch else ['options=[("grpc.enable_retries", 0)]'])
    names: dict[str, Any] = {}
    exec(compile(source, "desk.py", "exec"), names)  # noqa: S102 - as above

    def refuses(_order: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "")
        raise AssertionError("abort raises")

    with grpc_desk() as desk:
        desk.answer = refuses
        with pytest.raises(grpc.RpcError):
            names["place"](desk.port)
        assert desk.orders == arrived


MCP = """
from mcp import Client

async def call(url):
    async with Client(url, mode="2026-07-28") as client:
        return await {}call_tool("place_order", {{}}{})
"""


def asks_for_nothing(server: fs.FaultServer, connection: Any) -> None:
    """Answer every tool call with input_required and nothing to put in."""
    while True:
        seen = b""
        while b"\r\n\r\n" not in seen:
            more = connection.recv(65536)
            if not more:
                return
            seen += more
        head, _, body = seen.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
        while len(body) < length:
            body += connection.recv(65536)
        message = json.loads(body) if body else {}
        result: dict[str, Any] = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
        if message.get("method") == "tools/call":
            server.requests.append(head)
            result = {"resultType": "input_required", "requestState": "s"}
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
        )


@pytest.mark.parametrize(
    ("at", "switch", "arrived"), [("client.", "", 11), ("client.session.", ", allow_input_required=True", 1)]
)
def test_a_client_of_mcp_that_loops(at: str, switch: str, arrived: int) -> None:
    """The high-level client repeats a call that asks for nothing; doctor sees it, and its switch ends it."""
    pytest.importorskip("mcp")
    source = MCP.format(at, switch)
    change = CLIENTS["mcp"].switch
    assert risks(source) == ([] if switch else [change])
    names: dict[str, Any] = {}
    exec(compile(source, "desk.py", "exec"), names)  # noqa: S102 - as above
    # It gives up with an error of its own.
    with fs.serving(asks_for_nothing) as server, contextlib.suppress(Exception):
        asyncio.run(names["call"](f"{server.url}/mcp"))
    assert len(server.requests) == arrived
