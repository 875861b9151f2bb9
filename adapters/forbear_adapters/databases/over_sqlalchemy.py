"""Listeners on an engine of SQLAlchemy that record whether anything was sent, whatever the driver. Nothing is judged here."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakSet

from forbear_adapters._kit.extras import Extra
from forbear_adapters.databases.bridge import connects, place, sends

with Extra("databases"):
    from sqlalchemy import Engine, event

__all__ = ["watch"]

# Engines that have the listeners: twice, every statement would be two requests of its execution.
_WATCHED: Final[WeakSet[Engine]] = WeakSet()


def watch(engine: Any) -> Any:
    """Record every connection, statement and commit of an engine in governed calls, once each; return the engine.

    Args:
        engine: An engine; an async one is followed through its sync engine.
    """
    sync: Engine = getattr(engine, "sync_engine", engine)
    if sync in _WATCHED:
        return engine
    _WATCHED.add(sync)
    url = place(sync.url.get_backend_name(), sync.url.host, sync.url.port)

    def connecting(*_: object) -> None:
        connects(url)

    def sending(*_: object) -> None:
        sends("SQL", url)

    event.listen(sync, "do_connect", connecting)
    for moment in ("before_cursor_execute", "commit", "prepare_twophase", "commit_twophase"):
        event.listen(sync, moment, sending)
    return engine
