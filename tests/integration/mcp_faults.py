"""A remote MCP server that negotiates, and gives a fault for an answer to a tool call."""

from __future__ import annotations

import json
import re
import socket

from tests.integration.fault_server import Fault, FaultServer
from tests.integration.relay import Ending

# What the answer to a tool call begins with, for an ending that gives half of it.
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"id":' + b" " * 70


def _answered(connection: socket.socket, status: int, body: bytes = b"") -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


def negotiating(ending: Ending) -> Fault:
    """Return a server of one request a connection: it agrees to a session, and ends a tool call otherwise."""

    def fault(server: FaultServer, connection: socket.socket) -> None:
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
            _answered(connection, 405)
            return
        message = json.loads(body)
        if message["method"] == "tools/call":
            server.requests.append(head)
            ending(server, connection, ANSWER)
        elif message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "desk", "version": "1"},
            }
            _answered(connection, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
        else:
            _answered(connection, 202)

    return fault
