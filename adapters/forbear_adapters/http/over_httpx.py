"""Transports and clients of httpx that record how far each request came, follow no redirect and repeat nothing.

Nothing is judged here. A client made elsewhere takes `RecordingTransport(its transport)`.
"""

from __future__ import annotations

from forbear.contract import Exchange, header_pairs
from forbear_adapters._kit.extras import Extra
from forbear_adapters.http.bridge import add_key, afollow, begin, follow, refuse_retrying

with Extra("http"):
    import httpx

__all__ = ["AsyncRecordingTransport", "RecordingTransport", "async_client", "client"]


class RecordingTransport(httpx.BaseTransport):
    """Records every request of the governed call that it is sent in, and passes it on.

    Args:
        inner: What sends; default: a transport of httpx that makes one attempt.

    Raises:
        ConfigError: `inner` repeats requests.
    """

    def __init__(self, inner: httpx.BaseTransport | None = None) -> None:
        refuse_retrying(inner)
        self._inner = httpx.HTTPTransport() if inner is None else inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        exchange = begin(request.method, request.url)
        if exchange is None:
            return self._inner.handle_request(request)
        _prepare(request, exchange)
        follow(request.extensions, exchange)
        response = self._inner.handle_request(request)
        exchange.answered(response.status_code, header_pairs(response.headers))
        return response

    def close(self) -> None:
        """Close what sends."""
        self._inner.close()


class AsyncRecordingTransport(httpx.AsyncBaseTransport):
    """Does what `RecordingTransport` does, for async clients."""

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None) -> None:
        refuse_retrying(inner)
        self._inner = httpx.AsyncHTTPTransport() if inner is None else inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        exchange = begin(request.method, request.url)
        if exchange is None:
            return await self._inner.handle_async_request(request)
        _prepare(request, exchange)
        afollow(request.extensions, exchange)
        response = await self._inner.handle_async_request(request)
        exchange.answered(response.status_code, header_pairs(response.headers))
        return response

    async def aclose(self) -> None:
        """Close what sends."""
        await self._inner.aclose()


def _prepare(request: httpx.Request, exchange: Exchange) -> None:
    # Extensions may be shared by requests of one client.
    request.extensions = dict(request.extensions)
    add_key(exchange, request.headers, str(request.url))


def client(
    *,
    transport: httpx.BaseTransport | None = None,
    timeout: float = 30.0,
    headers: dict[str, str] | None = None,
    base_url: str = "",
) -> httpx.Client:
    """Return a client that records, follows no redirect and reads no proxy from the environment.

    Args:
        transport: What sends, where it is not httpx's own (a proxy, a private certificate, HTTP/2).
        timeout: Seconds for each step (connect, write, read, waiting for the pool).
        headers: Header fields of every request.
        base_url: What relative URLs are relative to.
    """
    return httpx.Client(
        transport=RecordingTransport(transport), timeout=timeout, headers=headers, base_url=base_url, trust_env=False
    )


def async_client(
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    timeout: float = 30.0,
    headers: dict[str, str] | None = None,
    base_url: str = "",
) -> httpx.AsyncClient:
    """Return an async client that records; see `client`. It is what `http_client=` of an SDK takes."""
    return httpx.AsyncClient(
        transport=AsyncRecordingTransport(transport),
        timeout=timeout,
        headers=headers,
        base_url=base_url,
        trust_env=False,
    )
