"""Exceptions of real HTTP clients against a real socket: what they prove is what the table says that they prove."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from forbear.contract import Client, Raised, builtin_catalogue, classify, tool_policy
from forbear.core.values import Envelope
from forbear.core.vocabulary import Executed, Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
ONCE = Client(single_attempt=True, follow_redirects=False)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _read_request(peer: socket.socket) -> None:
    text = b""
    while b"\r\n\r\nbody" not in text:
        got = peer.recv(65536)
        if not got:
            return
        text += got


def close(peer: socket.socket) -> None:
    """Close after the whole request."""


def reset(peer: socket.socket) -> None:
    """Reset the connection after the whole request."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def cut(peer: socket.socket) -> None:
    """Answer with a body that ends too early."""
    peer.sendall(RESPONSE + b"Content-Length: 100\r\n\r\n{")


def garbage(peer: socket.socket) -> None:
    """Answer with something that is not HTTP."""
    peer.sendall(b"SMTP 220 hello\r\n\r\n")


def hang(peer: socket.socket) -> None:
    """Never answer; the client gives up first."""
    peer.recv(1)


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one request on loopback and answer it in a way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(10)
                try:
                    _read_request(peer)
                    answer(peer)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/pay?key=PLANTED-SECRET-0001"
        listener.close()
        thread.join(10)


def refused() -> str:
    """Return an address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/pay?key=PLANTED-SECRET-0001"


def post_httpx(module: str) -> Callable[[str], None]:
    """Return a POST by one of the two httpx hierarchies."""
    httpx: Any = pytest.importorskip(module, reason=f"{module} is not installed")

    def post(url: str) -> None:
        with httpx.Client(timeout=0.3, follow_redirects=False, trust_env=False) as client:
            client.post(url, content=b"body").raise_for_status()

    return post


def post_requests(_: str) -> Callable[[str], None]:
    """Return a POST by requests."""
    requests: Any = pytest.importorskip("requests", reason="requests is not installed")

    def post(url: str) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.post(url, data=b"body", timeout=0.3, allow_redirects=False).raise_for_status()

    return post


def post_urllib(_: str) -> Callable[[str], None]:
    """Return a POST by the standard library."""

    def post(url: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(url, data=b"body"), timeout=0.3) as response:  # noqa: S310
                response.read()
        except urllib.error.HTTPError as error:
            # It is the response as well, and keeps its socket.
            error.close()
            raise

    return post


CLIENTS = {"httpx": post_httpx, "httpx2": post_httpx, "requests": post_requests, "urllib": post_urllib}


def judged(
    error: BaseException, phase: str = "unknown", client: Client | None = ONCE, effect: str = "write"
) -> Envelope:
    """Return what a client's exception means."""
    return classify(
        Raised(error, phase, client),
        policy=tool_policy("pay", effect=effect),
        arguments={},
        now=NOW,
        catalogue=builtin_catalogue(),
    )


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("answer", [close, reset, cut, garbage, hang])
def test_after_the_request_was_read(name: str, answer: Callable[[socket.socket], None]) -> None:
    """The server read the whole request: a write is looked at and a read is tried once more, whatever is raised."""
    post = CLIENTS[name](name)
    with server(answer) as url, pytest.raises(Exception) as raised:  # noqa: PT011  # each client raises its own
        post(url)
    written = judged(raised.value)
    assert (written.recovery, written.executed) == (Recovery.INSPECT_OUTCOME, Executed.UNKNOWN)
    assert judged(raised.value, effect="read").recovery is Recovery.RETRY_AFTER
    assert "PLANTED-SECRET-0001" not in repr(written)


@pytest.mark.parametrize("name", CLIENTS)
def test_refused(name: str) -> None:
    """Nobody listens: "not sent" is claimed for one attempt at connect, and never without knowing the client."""
    post = CLIENTS[name](name)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each client raises its own
        post(refused())
    known = judged(raised.value, "connect")
    assert (known.recovery, known.executed, known.not_accepted) == (Recovery.RETRY_AFTER, Executed.NO, True)
    assert judged(raised.value, "connect", None).recovery is Recovery.INSPECT_OUTCOME
    assert judged(raised.value, "connect", Client(single_attempt=True)).recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize("name", CLIENTS)
def test_an_address_of_a_wrong_form(name: str) -> None:
    """A scheme that the client does not speak is the tool's fault, not the model's."""
    post = CLIENTS[name](name)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each client raises its own
        post("nope://127.0.0.1/")
    assert judged(raised.value, "build").recovery is Recovery.DO_NOT_RETRY


def answer_429(peer: socket.socket) -> None:
    """Refuse with a time."""
    peer.sendall(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("name", CLIENTS)
def test_status_inside_an_exception(name: str) -> None:
    """The status and the time inside a client's exception count."""
    post = CLIENTS[name](name)
    with server(answer_429) as url, pytest.raises(Exception) as raised:  # noqa: PT011  # each client raises its own
        post(url)
    envelope = judged(raised.value, "response")
    assert (envelope.recovery, envelope.http_status) == (Recovery.RETRY_AFTER, 429)
    assert envelope.reset_at is not None
    assert (envelope.reset_at - NOW).total_seconds() == 30
