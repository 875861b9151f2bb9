"""Import an optional dependency, or say how to install it. Nothing else is imported or checked here."""

from __future__ import annotations

from types import TracebackType
from typing import Final

__all__ = ["Extra"]

# The packages that an extra brings, by import name; anything else that is missing is a fault of its own.
_BROUGHT: Final[dict[str, frozenset[str]]] = {
    "langgraph": frozenset({"langgraph", "langchain_core"}),
    "langchain": frozenset({"langchain", "langgraph", "langchain_core"}),
    "mcp": frozenset({"mcp", "mcp_types"}),
    "http": frozenset({"httpx", "httpx2", "requests", "urllib3", "aiohttp"}),
    "databases": frozenset({"psycopg", "sqlalchemy", "redis"}),
}


class Extra:
    """A `with` block of imports that need an extra: a missing package is reported with the exact install command.

    Example:
        >>> with Extra("langgraph"):
        ...     import json
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        """Begin the imports."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Name the install command where a package of this extra is missing; let every other error pass."""
        if not isinstance(error, ModuleNotFoundError) or error.name is None:
            return
        package = error.name.partition(".")[0]
        if package in _BROUGHT.get(self.name, frozenset({self.name})):
            raise ModuleNotFoundError(
                f'forbear_adapters.{self.name} needs the package {package!r}: pip install "forbear[{self.name}]"',
                name=error.name,
            ) from error
