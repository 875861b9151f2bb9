"""Connections of redis-py that record whether anything was sent, and how often. Nothing is judged here.

What a connection says to greet the server (HELLO, AUTH, SELECT) is part of connecting.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from forbear_adapters._kit.extras import Extra
from forbear_adapters.databases.bridge import connects, place, sends

with Extra("databases"):
    import redis
    from redis import asyncio as aioredis

__all__ = ["watch"]

C = TypeVar("C", bound=redis.Redis | aioredis.Redis)

# How deep a connection is in greeting; the mark of a class of ours too.
_GREETS: Final = "forbear_greets"


def watch(client: C) -> C:
    """Record every connection and command of a client in governed calls; return the client.

    Its own retries are counted one by one; switch them off with `retry=Retry(NoBackoff(), 0)`.
    """
    pool: Any = client.connection_pool
    if not hasattr(pool.connection_class, _GREETS):
        pool.connection_class = _watched(pool.connection_class)
    return client


def _place(connection: Any) -> str:
    return place("redis", getattr(connection, "host", None), getattr(connection, "port", 0))


@contextmanager
def _greeting(connection: Any) -> Generator[None]:
    """Take what is sent in this block for part of connecting."""
    setattr(connection, _GREETS, getattr(connection, _GREETS) + 1)
    try:
        yield
    finally:
        setattr(connection, _GREETS, getattr(connection, _GREETS) - 1)


async def _agreeting(connection: Any, greets: Awaitable[object]) -> object:
    with _greeting(connection):
        return await greets


def _watched(base: Any) -> type:
    """Return a connection class, sync or async, whose connecting and sending are written down."""

    def connect(self: Any) -> object:
        connects(_place(self))
        # The one method of every release that opens a socket.
        done: object = base._connect(self)  # noqa: SLF001
        return done

    def greets(name: str) -> Any:
        def greet(self: Any, *arguments: object, **options: object) -> object:
            with _greeting(self):
                done: object = getattr(base, name)(self, *arguments, **options)
            return _agreeting(self, done) if inspect.isawaitable(done) else done

        return greet

    def send_packed_command(self: Any, *arguments: object, **options: object) -> object:
        if not getattr(self, _GREETS):
            sends("COMMAND", _place(self))
        done: object = base.send_packed_command(self, *arguments, **options)
        return done

    # Releases of redis-py differ in which of these greets.
    greeting = {name: greets(name) for name in ("on_connect", "on_connect_check_health") if hasattr(base, name)}
    own = {"_connect": connect, "send_packed_command": send_packed_command, _GREETS: 0, **greeting}
    return type(f"Watched{base.__name__}", (base,), own)
