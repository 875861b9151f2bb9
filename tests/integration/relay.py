"""Faults between a real client and a real server: the bytes go through until a marked request arrived, then one goes wrong.

The request has arrived and is carried out in every one of them: what goes wrong is the answer.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Final

from tests.integration import fault_server as fs

# What happens to the answer: it is given the server, the client's connection and the answer's first bytes.
Ending = Callable[[fs.FaultServer, socket.socket, bytes], None]

_SOON: Final = 10.0
_SSL_REQUEST: Final = struct.pack("!ii", 8, 80877103)


def _closes(_server: fs.FaultServer, _connection: socket.socket, _answer: bytes) -> None:
    """Close without the answer."""


def _resets(_server: fs.FaultServer, connection: socket.socket, _answer: bytes) -> None:
    """Reset without the answer."""
    fs.reset(connection)


def _holds(server: fs.FaultServer, connection: socket.socket, _answer: bytes) -> None:
    """Keep the connection and the answer."""
    server.held.append(connection)


def _cuts(_server: fs.FaultServer, connection: socket.socket, answer: bytes) -> None:
    """Give half of the answer."""
    connection.sendall(answer[: len(answer) // 2])


ENDINGS: Final[dict[str, Ending]] = {
    "reads and closes": _closes,
    "resets": _resets,
    "reads and never answers": _holds,
    "cuts the answer": _cuts,
}


def relaying(port: int, marker: bytes, ending: Ending, *, done: threading.Event | None = None) -> fs.Fault:
    """Return a fault that stands between a client and the server on a port.

    Args:
        port: Where the real server listens.
        marker: What a request holds that counts.
        ending: What happens to the answer of such a request.
        done: Set by the real server when it carries the request out, where bytes of its own may come before the answer.
    """

    def fault(server: fs.FaultServer, connection: socket.socket) -> None:
        is_marked = False
        with socket.create_connection(("127.0.0.1", port), _SOON) as behind:
            while True:
                # One thread for both ways: a reset needs a socket that nobody reads.
                ready, _, _ = select.select([connection, behind], [], [], _SOON)
                if connection in ready:
                    request = connection.recv(65536)
                    if marker in request:
                        is_marked = True
                        server.requests.append(marker)
                    behind.sendall(request)
                    if not request:
                        return
                if behind in ready:
                    answer = behind.recv(65536)
                    if is_marked and (done is None or done.wait(_SOON)):
                        ending(server, connection, answer)
                        return
                    connection.sendall(answer)
                    if not answer:
                        return
                if not ready:
                    return

    return fault


def postgres_tls(certificate: ssl.SSLContext) -> fs.Fault:
    """Return a Postgres that agrees to TLS and shows a certificate."""

    def fault(_server: fs.FaultServer, connection: socket.socket) -> None:
        if connection.recv(len(_SSL_REQUEST)) == _SSL_REQUEST:
            connection.sendall(b"S")
            certificate.wrap_socket(connection, server_side=True).recv(1)

    return fault
