"""Real clients that speak something else than plain HTTP, as tools: each sends one order. Nothing is asserted here.

They take the address as a URL; `https` asks for TLS with certificates of the usual authorities.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import ssl
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from tests.integration.grpc_desk import METHOD, ORDER

INSERT = "INSERT INTO orders (name) VALUES ('place_order') RETURNING name"
# The least that libpq and psycopg take for a time-out of connecting.
LEAST = 2


def _address(url: str) -> tuple[int, bool]:
    parts = urlsplit(url)
    assert parts.port is not None
    return parts.port, parts.scheme == "https"


# ---- the standard library -------------------------------------------------------------------------------------------


def over_urllib(url: str, *, timeout: float) -> object:
    """Post an order with urllib."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(f"{url}/orders", data=b"{}"), timeout=timeout) as response:  # noqa: S310
            return json.load(response)
    except urllib.error.HTTPError as error:
        # It is the response as well, and keeps its socket.
        error.close()
        raise


async def over_asyncio(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Post an order with asyncio's streams, in a protocol of the tool's own."""
    port, tls = _address(url)
    async with asyncio.timeout(timeout):
        context = ssl.create_default_context() if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            writer.write(b"POST /orders HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            return await reader.readexactly(length)
        finally:
            writer.close()


# ---- MCP ------------------------------------------------------------------------------------------------------------


async def over_mcp(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Call a remote tool over MCP, in a session of its own."""
    mcp: Any = importlib.import_module("mcp")
    http_transport: Any = importlib.import_module("mcp.client.streamable_http")
    from forbear_adapters.http import over_httpx2

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(over_httpx2.async_client(timeout=timeout))
        opened = http_transport.streamable_http_client(f"{url}/mcp", http_client=http)
        reads, writes, *_ = await stack.enter_async_context(opened)
        session = await stack.enter_async_context(mcp.ClientSession(reads, writes))
        await session.initialize()
        return await session.call_tool("place_order", {"n": 1})


# ---- gRPC -----------------------------------------------------------------------------------------------------------

# What a service config could ask for is switched off.
_ONCE = (("grpc.enable_retries", 0),)


def over_grpc(url: str, *, timeout: float) -> object:
    """Place an order with grpcio."""
    grpc: Any = importlib.import_module("grpc")
    port, tls = _address(url)
    target = f"127.0.0.1:{port}"
    if tls:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(), options=_ONCE)
    else:
        channel = grpc.insecure_channel(target, options=_ONCE)
    with channel:
        return channel.unary_unary(METHOD)(ORDER, timeout=timeout)


async def over_async_grpc(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Place an order with grpcio's asyncio."""
    grpc: Any = importlib.import_module("grpc")
    aio: Any = importlib.import_module("grpc.aio")
    port, tls = _address(url)
    target = f"127.0.0.1:{port}"
    if tls:
        channel = aio.secure_channel(target, grpc.ssl_channel_credentials(), options=_ONCE)
    else:
        channel = aio.insecure_channel(target, options=_ONCE)
    async with channel:
        return await channel.unary_unary(METHOD)(ORDER, timeout=timeout)


# ---- Postgres -------------------------------------------------------------------------------------------------------


def _authorities() -> str:
    certifi: Any = importlib.import_module("certifi")
    where: str = certifi.where()
    return where


def _options(*, tls: bool) -> dict[str, Any]:
    trust = {"sslmode": "verify-full", "sslrootcert": _authorities()} if tls else {"sslmode": "disable"}
    return {"connect_timeout": LEAST, **trust}


def over_psycopg(url: str, *, timeout: float) -> object:
    """Insert an order with psycopg. It has no time-out of its own for an answer: the policy's limit ends the call."""
    from forbear_adapters.databases import over_psycopg

    port, tls = _address(url)
    with over_psycopg.Connection.connect(
        host="127.0.0.1", port=port, user="desk", dbname="postgres", autocommit=True, **_options(tls=tls)
    ) as connection:
        return connection.execute(INSERT).fetchone()


async def over_async_psycopg(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Insert an order with async psycopg."""
    from forbear_adapters.databases import over_psycopg

    port, tls = _address(url)
    connecting = over_psycopg.AsyncConnection.connect(
        host="127.0.0.1", port=port, user="desk", dbname="postgres", autocommit=True, **_options(tls=tls)
    )
    async with await connecting as connection, asyncio.timeout(timeout):
        return await (await connection.execute(INSERT)).fetchone()


def over_sqlalchemy(url: str, *, timeout: float) -> object:
    """Insert an order with SQLAlchemy over psycopg."""
    sqlalchemy: Any = importlib.import_module("sqlalchemy")
    from forbear_adapters.databases import over_sqlalchemy

    port, tls = _address(url)
    place = f"postgresql+psycopg://desk@127.0.0.1:{port}/postgres"
    engine = over_sqlalchemy.watch(sqlalchemy.create_engine(place, connect_args=_options(tls=tls)))
    try:
        with engine.connect() as connection:
            return connection.execution_options(isolation_level="AUTOCOMMIT").execute(sqlalchemy.text(INSERT)).scalar()
    finally:
        engine.dispose()


# ---- Redis ----------------------------------------------------------------------------------------------------------


def _redis_options(*, timeout: float, tls: bool) -> dict[str, Any]:
    backoff: Any = importlib.import_module("redis.backoff")
    trust = {"ssl": True, "ssl_ca_certs": _authorities()} if tls else {}
    return {"socket_timeout": timeout, "socket_connect_timeout": timeout, **trust, "_off": backoff.NoBackoff()}


def over_redis(url: str, *, timeout: float) -> object:
    """Count an order with redis."""
    redis: Any = importlib.import_module("redis")
    retry: Any = importlib.import_module("redis.retry")
    from forbear_adapters.databases import over_redis

    port, tls = _address(url)
    options = _redis_options(timeout=timeout, tls=tls)
    once = retry.Retry(options.pop("_off"), 0)
    with over_redis.watch(redis.Redis(host="127.0.0.1", port=port, retry=once, **options)) as client:
        return client.incr("place_order")


async def over_async_redis(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Count an order with redis's asyncio."""
    aioredis: Any = importlib.import_module("redis.asyncio")
    retry: Any = importlib.import_module("redis.asyncio.retry")
    from forbear_adapters.databases import over_redis

    port, tls = _address(url)
    options = _redis_options(timeout=timeout, tls=tls)
    once = retry.Retry(options.pop("_off"), 0)
    async with over_redis.watch(aioredis.Redis(host="127.0.0.1", port=port, retry=once, **options)) as client:
        return await client.incr("place_order")
