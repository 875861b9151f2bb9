"""Connections of psycopg 3 that record whether anything was sent. Nothing is judged here.

They take the place of `psycopg.Connection` and `psycopg.AsyncConnection`, also as the `connection_class` of a pool.
"""

from __future__ import annotations

from typing import Any, Self

from forbear_adapters._kit.extras import Extra
from forbear_adapters.databases.bridge import connects, place, sends

with Extra("databases"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

__all__ = ["AsyncConnection", "Connection"]


def _named(conninfo: str, options: dict[str, Any]) -> str:
    """Return where a connection is to go; what psycopg will not understand has no place."""
    try:
        said = conninfo_to_dict(conninfo, **options)
    except psycopg.Error:
        return place("postgresql", None, 5432)
    return place("postgresql", said.get("host"), said.get("port") or 5432)


def _of(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> str:
    return place("postgresql", connection.info.host, connection.info.port)


class Connection(psycopg.Connection[Any]):
    """A connection whose use in a governed call is written down."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does."""
        connects(_named(conninfo, options))
        return super().connect(conninfo, **options)

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Do what psycopg does with every statement; it is called for nothing else."""
        sends("SQL", _of(self))
        return super().wait(*arguments, **options)


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for asyncio."""

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does."""
        connects(_named(conninfo, options))
        return await super().connect(conninfo, **options)

    async def wait(self, *arguments: Any, **options: Any) -> Any:
        """Do what psycopg does with every statement; it is called for nothing else."""
        sends("SQL", _of(self))
        return await super().wait(*arguments, **options)
