"""The MCP client hides every HTTP status behind one error; with our HTTP client under it the controller sees the answer."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest

from forbear import Controller, Reply
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.http import over_httpx2
from tests.integration.fault_server import Fault, FaultServer, serving

pytest.importorskip("mcp")


def mcp_server(status: int, headers: str = "") -> Fault:
    """Return a server that negotiates and answers every tool call with a status."""

    def fault(server: FaultServer, connection: socket.socket) -> None:
        while True:
            seen = b""
            while b"\r\n\r\n" not in seen:
                more = connection.recv(65536)
                if not more:
                    return
                seen += more
            head, _, body = seen.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            while length is not None and len(body) < int(length[1]):
                body += connection.recv(65536)
            if not head.startswith(b"POST"):
                # No stream of its own, and no session to end.
                connection.sendall(b"HTTP/1.1 405 X\r\nContent-Length: 0\r\n\r\n")
                continue
            message = json.loads(body)
            if message["method"] == "initialize":
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "desk", "version": "1"},
                }
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
                    + answer
                )
            elif message["method"] == "tools/call":
                server.requests.append(body)
                connection.sendall(f"HTTP/1.1 {status} X\r\n{headers}Content-Length: 0\r\n\r\n".encode())
            else:
                connection.sendall(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")

    return fault


@pytest.fixture
def controller() -> Iterator[Controller]:
    """A controller with a remote write."""
    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as opened:
        opened.declare("place_order", effect="write", trust="remote")
        yield opened


async def called(controller: Controller, fault: Fault) -> tuple[Reply, int]:
    """Call the tool of a server and return the answer, and how many calls arrived."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    with serving(fault) as server:
        async with (
            over_httpx2.async_client() as http,
            streamable_http_client(f"{server.url}/mcp", http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()

            async def execute(**arguments: object) -> object:
                return await session.call_tool("place_order", dict(arguments))

            reply = await controller.acall("place_order", {"n": 1}, run="r", execute=execute, wait=False)
    return reply, len(server.requests)


@pytest.mark.parametrize(
    ("status", "headers", "recovery", "code"),
    [
        (401, "", "do_not_retry", "AUTH_FAILED"),
        (403, "", "do_not_retry", "ACCESS_DENIED"),
        (429, "Retry-After: 30\r\n", "retry_after", "RATE_LIMITED"),
        (500, "", "inspect_outcome", "OUTCOME_UNKNOWN"),
        (503, "Retry-After: 30\r\n", "inspect_outcome", "OUTCOME_UNKNOWN"),
    ],
)
async def test_the_status_below_the_mcp_client_is_read(
    status: int, headers: str, recovery: str, code: str, controller: Controller
) -> None:
    """Every status means for a remote MCP tool what it means elsewhere, with its Retry-After, after one arrival."""
    reply, arrived = await called(controller, mcp_server(status, headers))
    assert (reply.envelope.recovery, reply.envelope.code) == (recovery, code)
    assert arrived == 1
    if status == 429:
        assert reply.envelope.reset_at is not None
