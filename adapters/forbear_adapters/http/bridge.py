"""What the clients' hooks have in common: open a request's record, follow its steps, add the key. No client is imported.

The steps of httpx and httpx2 come from their `trace` extension; those of the others from their own hooks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final, cast

from forbear.contract import Exchange, Step, current_trail
from forbear.errors import ConfigError

__all__ = ["INNER_RETRIES", "Follower", "add_key", "afollow", "begin", "follow", "refuse_retrying"]

# Packages whose transports repeat requests inside, so that what wraps them sees one request where several were sent.
INNER_RETRIES: Final = frozenset({"httpx_retries", "httpx_retry", "aiohttp_retry", "requests_retry", "tenacity"})

# Events of httpcore's trace extension, and the step that each one proves.
_EVENTS: Final = {
    "connect_tcp.started": Step.CONNECT,
    "connect_unix_socket.started": Step.CONNECT,
    "setup_socks5_connection.started": Step.CONNECT,
    "start_tls.started": Step.CONNECT,
    "send_request_headers.started": Step.WRITE,
    "send_request_body.complete": Step.READ,
    "receive_response_body.started": Step.RESPONSE_BODY,
}


def begin(method: str, url: object = "") -> Exchange | None:
    """Open the record of a request; None = this code runs in no governed call."""
    trail = current_trail()
    return None if trail is None else trail.begin(method, str(url))


def add_key(exchange: Exchange, headers: MutableMapping[str, str], target: str) -> None:
    """Add the idempotency key to a request that is to carry it, unless it has one."""
    key = exchange.trail.key_for(exchange.method, target)
    if key is None:
        return
    name, value = key
    if name not in headers:
        headers[name] = value
    exchange.key_sent = headers[name] == value


class Follower:
    """Turns trace events of one request into steps of its record."""

    __slots__ = ("_exchange", "_tunnels")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        # A proxy is being asked for a tunnel: nothing of the request itself has left.
        self._tunnels = False

    def see(self, event: str, facts: Mapping[str, object]) -> None:
        """Take notice of an event."""
        if (request := facts.get("request")) is not None:
            self._tunnels = getattr(request, "method", b"") == b"CONNECT"
        self._exchange.watched = True
        step = _EVENTS.get(event.partition(".")[2])
        if step is not None and (step is Step.CONNECT or not self._tunnels):
            self._exchange.reach(step)


Trace = Callable[[str, Mapping[str, object]], object]


def follow(extensions: MutableMapping[str, object], exchange: Exchange) -> None:
    """Follow a request's steps; what followed them already goes on doing so (one that is async stays async)."""
    follower, before = Follower(exchange), extensions.get("trace")

    def trace(event: str, facts: Mapping[str, object]) -> None:
        follower.see(event, facts)
        if before is not None:
            cast("Trace", before)(event, facts)

    extensions["trace"] = trace


def afollow(extensions: MutableMapping[str, object], exchange: Exchange) -> None:
    """Do what `follow` does for an async client."""
    follower, before = Follower(exchange), extensions.get("trace")

    async def trace(event: str, facts: Mapping[str, object]) -> None:
        follower.see(event, facts)
        if before is not None:
            await cast("Callable[[str, Mapping[str, object]], Awaitable[object]]", before)(event, facts)

    extensions["trace"] = trace


def refuse_retrying(inner: object) -> None:
    """Refuse a transport that repeats requests inside.

    Raises:
        ConfigError: it comes from a library of retries; it goes around ours, or away.
    """
    package = type(inner).__module__.partition(".")[0]
    if package in INNER_RETRIES:
        raise ConfigError(f"transport of {package!r} repeats requests inside: put it around this one, or take it off")
