"""A session of requests, and pools of urllib3, that record how far each request came. Nothing is judged here.

urllib3 is watched at its connections: what connects, what writes and what reads the answer's head. A tunnel through a
proxy is part of connecting.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Final

from forbear.contract import Exchange, Step, header_pairs
from forbear_adapters._kit.extras import Extra
from forbear_adapters.http.bridge import add_key, begin

with Extra("http"):
    import urllib3
    from requests import Session
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

__all__ = ["RecordingAdapter", "pool_manager", "session", "watch"]

# The record of the request that this thread is sending.
_SENDING: ContextVar[Exchange | None] = ContextVar("forbear_sending", default=None)


class _Watched:
    """The watched steps of a connection, on top of urllib3's own."""

    sock: Any
    auto_open: int
    _connects = False

    def connect(self) -> None:
        """Connect, with a tunnel and TLS where they belong to it."""
        exchange = _SENDING.get()
        if exchange is not None:
            exchange.reach(Step.CONNECT)
        self._connects = True
        try:
            super().connect()  # type: ignore[misc]
        finally:
            self._connects = False

    def send(self, data: Any) -> None:
        """Write; what is written while connecting is for a proxy."""
        exchange = _SENDING.get()
        if exchange is not None and not self._connects:
            if self.sock is None and self.auto_open:
                self.connect()
            exchange.reach(Step.WRITE)
        super().send(data)  # type: ignore[misc]

    def getresponse(self) -> Any:
        """Read the head of the answer."""
        exchange = _SENDING.get()
        if exchange is not None:
            exchange.reach(Step.READ)
        response: Any = super().getresponse()  # type: ignore[misc]
        if exchange is not None:
            exchange.answered(response.status, header_pairs(response.headers))
        return response


class WatchedHTTPConnection(_Watched, HTTPConnection):
    """A connection that says how far its request came."""


class WatchedHTTPSConnection(_Watched, HTTPSConnection):
    """The same over TLS."""


class _WatchedPool:
    """A pool that opens a record for each request that it sends, also for those that it repeats by itself."""

    def urlopen(
        self, method: str, url: str, body: Any = None, headers: MutableMapping[str, str] | None = None, *rest: Any,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Send a request."""
        exchange = begin(method)
        if exchange is not None:
            exchange.watched = True
            headers = urllib3.HTTPHeaderDict(self.headers if headers is None else headers)  # type: ignore[attr-defined]
            add_key(exchange, headers, f"{self!s}{url}")
        token = _SENDING.set(exchange)
        try:
            return super().urlopen(method, url, body, headers, *rest, **options)  # type: ignore[misc]
        finally:
            _SENDING.reset(token)


class WatchedHTTPPool(_WatchedPool, HTTPConnectionPool):
    """A watched pool."""

    ConnectionCls = WatchedHTTPConnection


class WatchedHTTPSPool(_WatchedPool, HTTPSConnectionPool):
    """A watched pool over TLS."""

    ConnectionCls = WatchedHTTPSConnection


_POOLS: Final = {"http": WatchedHTTPPool, "https": WatchedHTTPSPool}


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

    A redirect that the session follows is a request of its own, and recorded as one.
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
    """A session that follows a redirect only where the caller asks for it."""

    def request(self, method: Any, url: Any, *rest: Any, **options: Any) -> Any:
        """Send a request."""
        if len(rest) < _ALLOW_REDIRECTS:
            options.setdefault("allow_redirects", False)
        return super().request(method, url, *rest, **options)

    def get(self, url: Any, **options: Any) -> Any:
        """Send a GET."""
        return self.request("GET", url, **options)


# Position of `allow_redirects` behind method and URL.
_ALLOW_REDIRECTS: Final = 8


def session() -> Session:
    """Return a session of requests that records, repeats nothing and follows no redirect unless asked to."""
    made = _Session()
    made.trust_env = False
    for scheme in ("http://", "https://"):
        made.mount(scheme, RecordingAdapter())
    return made
