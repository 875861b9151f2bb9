"""A session of requests, and pools of urllib3, that record how far each request came. Nothing is judged here.

urllib3 is watched at its connections: what connects, what writes and what reads the answer's head. A tunnel through a
proxy is part of connecting.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final, cast

from forbear.contract import Exchange, Step, header_pairs
from forbear_adapters._kit.extras import Extra
from forbear_adapters.http.bridge import add_key, begin

with Extra("http"):
    import urllib3
    from requests import Response, Session
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

__all__ = ["RecordingAdapter", "pool_manager", "session", "watch"]

# The record of the request that this thread is sending.
_SENDING: ContextVar[Exchange | None] = ContextVar("forbear_sending", default=None)
# The connection that is being made in this thread: what it writes is for a proxy.
_MAKING: ContextVar[HTTPConnection | None] = ContextVar("forbear_making", default=None)


def _connect(connection: HTTPConnection, connect: Callable[[], None]) -> None:
    """Connect, with a tunnel and TLS where they belong to it."""
    exchange = _SENDING.get()
    if exchange is not None:
        exchange.reach(Step.CONNECT)
    token = _MAKING.set(connection)
    try:
        connect()
    finally:
        _MAKING.reset(token)


def _send(connection: HTTPConnection, send: Callable[[Any], None], part: Any) -> None:
    """Write a part of a request."""
    exchange = _SENDING.get()
    if exchange is not None and _MAKING.get() is not connection:
        if connection.sock is None:
            # What writes would connect by itself.
            connection.connect()
        exchange.reach(Step.WRITE)
    send(part)


def _read(getresponse: Callable[[], Any]) -> Any:
    """Read the head of the answer."""
    exchange = _SENDING.get()
    if exchange is not None:
        exchange.reach(Step.READ)
    response = getresponse()
    if exchange is not None:
        exchange.answered(response.status, header_pairs(response.headers))
    return response


class WatchedHTTPConnection(HTTPConnection):
    """A connection that says how far its request came."""

    def connect(self) -> None:
        """Connect."""
        _connect(self, super().connect)

    def send(self, data: Any) -> None:
        """Write."""
        _send(self, super().send, data)

    def getresponse(self) -> Any:
        """Read the head of the answer."""
        return _read(super().getresponse)


class WatchedHTTPSConnection(HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connect."""
        _connect(self, super().connect)

    def send(self, data: Any) -> None:
        """Write."""
        _send(self, super().send, data)

    def getresponse(self) -> Any:
        """Read the head of the answer."""
        return _read(super().getresponse)


# Position of the header fields behind method, URL and body.
_HEADERS: Final = 3


def _open(
    pool: HTTPConnectionPool, urlopen: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Send a request with a record of its own; urllib3 comes here again for each one that it repeats."""
    method = str(given[0] if given else options["method"])
    exchange = begin(method)
    if exchange is not None:
        exchange.watched = True
        named = given[_HEADERS] if len(given) > _HEADERS else options.get("headers")
        fields = urllib3.HTTPHeaderDict(pool.headers if named is None else named)
        target = str(given[1] if len(given) > 1 else options["url"])
        exchange.url = f"{pool.scheme}://{pool.host}:{pool.port}{target}"
        add_key(exchange, cast("MutableMapping[str, str]", fields), exchange.url)
        if len(given) > _HEADERS:
            given = (*given[:_HEADERS], fields, *given[_HEADERS + 1 :])
        else:
            options["headers"] = fields
    token = _SENDING.set(exchange)
    try:
        return urlopen(*given, **options)
    finally:
        _SENDING.reset(token)


class WatchedHTTPPool(HTTPConnectionPool):
    """A watched pool."""

    # The base declares it as mutable, and makes connections of it only.
    ConnectionCls = WatchedHTTPConnection  # type: ignore[mutable-override]  # pyright: ignore[reportAssignmentType]

    def urlopen(self, *given: Any, **options: Any) -> Any:
        """Send a request."""
        return _open(self, super().urlopen, given, options)


class WatchedHTTPSPool(HTTPSConnectionPool):
    """A watched pool over TLS."""

    # As above.
    ConnectionCls = WatchedHTTPSConnection  # type: ignore[mutable-override]  # pyright: ignore[reportAssignmentType]

    def urlopen(self, *given: Any, **options: Any) -> Any:
        """Send a request."""
        return _open(self, super().urlopen, given, options)


_POOLS: Final[dict[str, type[HTTPConnectionPool]]] = {"http": WatchedHTTPPool, "https": WatchedHTTPSPool}


def watch(manager: urllib3.PoolManager) -> None:
    """Watch the pools that a manager makes from now on."""
    manager.pool_classes_by_scheme = dict(_POOLS)


def pool_manager(*, timeout: float = 30.0, **options: Any) -> urllib3.PoolManager:
    """Return a manager of urllib3 that records, repeats nothing and follows no redirect.

    Args:
        timeout: Seconds for each step.
        **options: What `urllib3.PoolManager` takes (`ca_certs`, `num_pools`, …).
    """
    manager = urllib3.PoolManager(retries=False, timeout=timeout, **options)
    watch(manager)
    return manager


class RecordingAdapter(HTTPAdapter):
    """An adapter of requests that records every request of the governed call and makes one attempt.

    A redirect that its session follows is a request of its own, and recorded as one.
    """

    def __init__(self) -> None:
        super().__init__(max_retries=0)

    def init_poolmanager(self, *sizes: Any, **options: Any) -> None:
        """Make the pools."""
        super().init_poolmanager(*sizes, **options)
        watch(self.poolmanager)

    def proxy_manager_for(self, *proxy: Any, **options: Any) -> Any:
        """Make the pools behind a proxy."""
        manager = super().proxy_manager_for(*proxy, **options)
        watch(manager)
        return manager


class _Session(Session):
    """A session that follows no redirect."""

    def get_redirect_target(self, resp: Response) -> str | None:
        """Return nothing: a redirect is an answer like any other."""
        return None


def session() -> Session:
    """Return a session of requests that records, repeats nothing, follows no redirect and reads no environment."""
    made = _Session()
    made.trust_env = False
    for scheme in ("http://", "https://"):
        made.mount(scheme, RecordingAdapter())
    return made
