"""Connections of redis-py that record whether anything was sent, and how often. Nothing is judged here.

What a connection says to greet the server (HELLO, AUTH, SELECT) is part of connecting.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from forbear_adapters._kit.extras import Extra
from forbear_adapters.databases.bridge import connects, place, sends

with Extra("databases"):
    import redis
    from redis import asyncio as aioredis

__all__ = ["watch"]

C = TypeVar("C", bound=redis.Redis | aioredis.Redis)


def watch(client: C) -> C:
    """Record every connection and command of a client in governed calls; return the client.

    Its own retries are counted one by one; switch them off with `retry=Retry(NoBackoff(), 0)`.
    """
    pool: Any = client.connection_pool
    mixin = _AsyncWatched if isinstance(client, aioredis.Redis) else _Watched
    base: type = pool.connection_class
    if not issubclass(base, (_Watched, _AsyncWatched)):
        pool.connection_class = type(f"Watched{base.__name__}", (mixin, base), {})
    return client


def _place(connection: Any) -> str:
    return place("redis", getattr(connection, "host", None), getattr(connection, "port", 0))


@contextmanager
def _greeting(connection: _Watched | _AsyncWatched) -> Generator[None]:
    """Take what is sent in this block for part of connecting; releases of redis-py differ in which method greets."""
    connection.greets += 1
    try:
        yield
    finally:
        connection.greets -= 1


class _Watched:
    """Put before a connection class: its connecting and sending are written down."""

    greets = 0

    def _connect(self) -> Any:
        connects(_place(self))
        return super()._connect()  # type: ignore[misc]

    def on_connect(self) -> None:
        with _greeting(self):
            super().on_connect()  # type: ignore[misc]

    def on_connect_check_health(self, *arguments: Any, **options: Any) -> None:
        with _greeting(self):
            super().on_connect_check_health(*arguments, **options)  # type: ignore[misc]

    def send_packed_command(self, *arguments: Any, **options: Any) -> None:
        if not self.greets:
            sends("COMMAND", _place(self))
        super().send_packed_command(*arguments, **options)  # type: ignore[misc]


class _AsyncWatched:
    """The same for asyncio."""

    greets = 0

    async def _connect(self) -> Any:
        connects(_place(self))
        return await super()._connect()  # type: ignore[misc]

    async def on_connect(self) -> None:
        with _greeting(self):
            await super().on_connect()  # type: ignore[misc]

    async def on_connect_check_health(self, *arguments: Any, **options: Any) -> None:
        with _greeting(self):
            await super().on_connect_check_health(*arguments, **options)  # type: ignore[misc]

    async def send_packed_command(self, *arguments: Any, **options: Any) -> None:
        if not self.greets:
            sends("COMMAND", _place(self))
        await super().send_packed_command(*arguments, **options)  # type: ignore[misc]
