"""A trace configuration and a session of aiohttp that record how far each request came. Nothing is judged here.

aiohttp tells that head and body are sent just before it writes them, so that what was not told was not written. It
repeats some requests on a connection that had gone stale; each repeat has a record of its own.
"""

from __future__ import annotations

from typing import Any

from forbear.contract import Exchange, Step, header_pairs
from forbear_adapters._kit.extras import Extra
from forbear_adapters.http.bridge import add_key, begin

with Extra("http"):
    import aiohttp

__all__ = ["session", "trace_config"]


class _Place:
    """The record of the request that is being sent, and what a repeat of it needs."""

    __slots__ = ("exchange",)

    def __init__(self, **_context: object) -> None:
        self.exchange: Exchange | None = None


def _again(place: _Place) -> None:
    """Open a record of its own for a request that is sent once more inside the client."""
    held = place.exchange
    if held is not None and held.step not in (Step.POOL, Step.CONNECT):
        place.exchange = begin(held.method)
        if place.exchange is not None:
            place.exchange.watched, place.exchange.key_sent = True, held.key_sent


async def _started(_session: Any, place: _Place, request: aiohttp.TraceRequestStartParams) -> None:
    exchange = place.exchange = begin(request.method)
    if exchange is not None:
        exchange.watched = True
        add_key(exchange, request.headers, str(request.url))


async def _connects(_session: Any, place: _Place, _: Any) -> None:
    _again(place)
    if place.exchange is not None:
        place.exchange.reach(Step.CONNECT)


async def _reuses(_session: Any, place: _Place, _: Any) -> None:
    _again(place)


async def _writes(_session: Any, place: _Place, _: Any) -> None:
    if place.exchange is not None:
        place.exchange.reach(Step.WRITE)


async def _redirected(_session: Any, place: _Place, hop: aiohttp.TraceRequestRedirectParams) -> None:
    if place.exchange is not None:
        place.exchange.answered(hop.response.status, header_pairs(hop.response.headers))
        _again(place)


async def _reads(_session: Any, place: _Place, _: Any) -> None:
    if place.exchange is not None:
        place.exchange.reach(Step.RESPONSE_BODY)


async def _ended(_session: Any, place: _Place, end: aiohttp.TraceRequestEndParams) -> None:
    if place.exchange is not None:
        place.exchange.answered(end.response.status, header_pairs(end.response.headers))


def trace_config() -> aiohttp.TraceConfig[Any]:
    """Return what a session of yours takes in `trace_configs`."""
    made: aiohttp.TraceConfig[Any] = aiohttp.TraceConfig(trace_config_ctx_factory=_Place)
    made.on_request_start.append(_started)
    made.on_connection_create_start.append(_connects)
    made.on_connection_reuseconn.append(_reuses)
    made.on_request_headers_sent.append(_writes)
    made.on_request_chunk_sent.append(_writes)
    made.on_request_redirect.append(_redirected)
    made.on_response_chunk_received.append(_reads)
    made.on_request_end.append(_ended)
    return made


def session(*, timeout: float = 30.0, **options: Any) -> aiohttp.ClientSession:
    """Return a session that records; give `allow_redirects=False` with each request whose redirect must not be followed.

    Args:
        timeout: Seconds for connecting and for each read.
        **options: What `aiohttp.ClientSession` takes.
    """
    limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
    traces = [*options.pop("trace_configs", ()), trace_config()]
    return aiohttp.ClientSession(timeout=limits, trace_configs=traces, **options)
