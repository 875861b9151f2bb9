"""Telemetry: what observers are told, and the two that come with forbear. Names are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forbear.observe.logging import LoggingObserver
    from forbear.observe.notice import (
        OTHER,
        CallTracer,
        Event,
        Lift,
        Notice,
        Observer,
        ReadObserver,
        Reads,
        Seen,
        Severity,
        Unrecorded,
        Usage,
        UsageObserver,
    )
    from forbear.observe.otel import OpenTelemetryObserver

__all__ = [
    "OTHER",
    "CallTracer",
    "Event",
    "Lift",
    "LoggingObserver",
    "Notice",
    "Observer",
    "OpenTelemetryObserver",
    "ReadObserver",
    "Reads",
    "Seen",
    "Severity",
    "Unrecorded",
    "Usage",
    "UsageObserver",
]

_HOMES: Final = {"LoggingObserver": "logging", "OpenTelemetryObserver": "otel"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'forbear.observe' has no attribute {name!r}")
    found: object = getattr(import_module(f"forbear.observe.{_HOMES.get(name, 'notice')}"), name)
    globals()[name] = found
    return found
