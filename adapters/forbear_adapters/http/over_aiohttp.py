"""A trace configuration and a session of aiohttp that record how far each request came. Nothing is judged here.

aiohttp tells that head and body are sent just before it writes them, so that what was not told was not written. It
repeats some requests on a connection that had gone stale; each repeat has a record of its own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from forbear.contract import Exchange, Step, header_pairs
from forbear_adapters._kit.extras import Extra
from forbear_adapters.http.bridge import add_key, begin
from forbear_adapters.http.clients import single_attempt

with Extra("http"):
    import aiohttp

__all__ = ["session", "trace_config"]


def _held(place: SimpleNamespace) -> Exchange | None:
    """Return the record of the request that aiohttp keeps this place for."""
    return cast("Exchange | None", getattr(place, "exchange", None))


def _again(place: SimpleNamespace) -> None:
    """Open a record of its own for a request that is sent once more inside the client."""
    held = _held(place)
    if held is not None and held.step not in (Step.POOL, Step.CONNECT):
        repeat = place.exchange = held.trail.begin(held.method, held.url)
        repeat.watched, repeat.key_sent = True, held.key_sent


async def _started(_session: Any, place: SimpleNamespace, request: aiohttp.TraceRequestStartParams) -> None:
    exchange = place.exchange = begin(request.method, request.url)
    if exchange is not None:
        exchange.watched = True
        add_key(exchange, request.headers, str(request.url))


async def _connects(_session: Any, place: SimpleNamespace, _: Any) -> None:
    _again(place)
    if (exchange := _held(place)) is not None:
        exchange.reach(Step.CONNECT)


async def _reuses(_session: Any, place: SimpleNamespace, _: Any) -> None:
    _again(place)


async def _writes(_session: Any, place: SimpleNamespace, _: Any) -> None:
    if (exchange := _held(place)) is not None:
        exchange.reach(Step.WRITE)


async def _redirected(_session: Any, place: SimpleNamespace, hop: aiohttp.TraceRequestRedirectParams) -> None:
    if (exchange := _held(place)) is not None:
        exchange.answered(hop.response.status, header_pairs(hop.response.headers))
        _again(place)


async def _reads(_session: Any, place: SimpleNamespace, _: Any) -> None:
    if (exchange := _held(place)) is not None:
        exchange.reach(Step.RESPONSE_BODY)


async def _ended(_session: Any, place: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    if (exchange := _held(place)) is not None:
        exchange.answered(end.response.status, header_pairs(end.response.headers))


def trace_config() -> aiohttp.TraceConfig:
    """Return what a session of yours takes in `trace_configs`."""
    made = aiohttp.TraceConfig()
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
    """Return a session that records; give `allow_redirects=False` with a request whose redirect must not be followed.

    Args:
        timeout: Seconds for connecting and for each read.
        **options: What `aiohttp.ClientSession` takes.
    """
    limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
    traces = [*options.pop("trace_configs", ()), trace_config()]
    return single_attempt(aiohttp.ClientSession(timeout=limits, trace_configs=traces, **options))
