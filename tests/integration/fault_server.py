"""A loopback server that misbehaves as told, and counts what reached it: connections, and requests whose head it read."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

# One step of a misbehaviour; it is given the server and a connection, and closes it unless it says otherwise.
Fault = Callable[["FaultServer", socket.socket], None]

_SOON: Final = 10.0


class FaultServer:
    """Listens on a free loopback port until closed; every connection gets the same fault."""

    def __init__(self, fault: Fault, *, tls: ssl.SSLContext | None = None) -> None:
        self.fault = fault
        self.tls = tls
        self.connections = 0
        self.requests: list[bytes] = []
        self.held: list[socket.socket] = []
        self._gate = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._gate:
                self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_SOON)
        served = connection
        # A client that goes away is the client's business.
        with suppress(OSError):
            if self.tls is not None:
                served = self.tls.wrap_socket(connection, server_side=True)
            self.fault(self, served)
        if served not in self.held:
            with suppress(OSError):
                served.close()

    def read(self, connection: socket.socket) -> bytes:
        """Read one whole request and count it."""
        seen = b""
        while b"\r\n\r\n" not in seen:
            more = connection.recv(65536)
            if not more:
                raise ConnectionError("the client went away")
            seen += more
        head, _, body = seen.partition(b"\r\n\r\n")
        with self._gate:
            self.requests.append(head)
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += connection.recv(65536)
        return head

    def stop_listening(self) -> None:
        """Refuse further connections."""
        # Wakes the accepting thread, which close alone does not.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self.stop_listening()
        for connection in self.held:
            with suppress(OSError):
                connection.close()
        for thread in self._threads:
            thread.join(_SOON)


@contextmanager
def serving(fault: Fault, *, tls: ssl.SSLContext | None = None) -> Iterator[FaultServer]:
    """Run a server in this block."""
    server = FaultServer(fault, tls=tls)
    try:
        yield server
    finally:
        server.close()


def closed_port() -> int:
    """Return a loopback port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


# ---- faults ---------------------------------------------------------------------------------------------------------


def closes(_server: FaultServer, _connection: socket.socket) -> None:
    """Accept and close, unread."""


def reset(connection: socket.socket) -> None:
    """Close with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def resets(server: FaultServer, connection: socket.socket) -> None:
    """Read the request and reset the connection."""
    server.read(connection)
    reset(connection)


def reads_and_closes(server: FaultServer, connection: socket.socket) -> None:
    """Read the request and close without an answer."""
    server.read(connection)


def never_answers(server: FaultServer, connection: socket.socket) -> None:
    """Read the request and keep the connection open."""
    server.held.append(connection)
    server.read(connection)


def hangs(server: FaultServer, connection: socket.socket) -> None:
    """Keep the connection open and read nothing: a TLS handshake never ends."""
    server.held.append(connection)


def cuts_head(server: FaultServer, connection: socket.socket) -> None:
    """Answer with half a head."""
    server.read(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: applic")


def cuts_body(server: FaultServer, connection: socket.socket) -> None:
    """Answer with half a body."""
    server.read(connection)
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"id":')


def answers(status: int, headers: str = "", body: str = "") -> Fault:
    """Return a fault that is none: the same answer to everything."""
    encoded = body.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(encoded)}\r\nConnection: close\r\n{headers}\r\n"

    def fault(server: FaultServer, connection: socket.socket) -> None:
        server.read(connection)
        connection.sendall(head.encode() + encoded)

    return fault
