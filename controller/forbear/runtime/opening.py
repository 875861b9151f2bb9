"""Finding the parts of a controller: store by path or URL, catalogue, and checks of what an application passes in."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, cast

from forbear.contract import Catalogue, builtin_catalogue, limits, load_catalogue
from forbear.core.policy import Limits
from forbear.core.vocabulary import Mode
from forbear.errors import ConfigError, StoreError, UsageError
from forbear.ports import Clock, Store
from forbear.store.sqlite import open_sqlite

STORES: Final = "forbear.stores"


def open_store(path: str | os.PathLike[str] | None, clock: Clock) -> Store:
    """Open a store: None = the user's own file, a path, ``":memory:"``, or the URL of a store that is installed.

    Raises:
        StoreError: it cannot be opened.
        UsageError: nobody knows the URL's scheme; the message says what to install.
    """
    if isinstance(path, str) and "://" in path:
        scheme = path.split("://", 1)[0]
        found = entry_points(group=STORES, name=scheme)
        if not found:
            raise UsageError(f"no store for {scheme!r} URLs is installed: pip install 'forbear[{scheme}]'")
        opener = cast("Callable[..., Store]", next(iter(found)).load())
        return opener(path, clock=clock)
    return open_sqlite(path, clock=clock)


def read_catalogue(given: Catalogue | str | os.PathLike[str] | None) -> Catalogue:
    """Return a catalogue: the built-in one, one with a project's file, or one that was loaded already."""
    if given is None:
        return builtin_catalogue()
    return given if isinstance(given, Catalogue) else load_catalogue(Path(given))


def read_limits(given: Limits | dict[str, object] | None) -> Limits:
    """Return the controller's limits.

    Raises:
        ConfigError: a name is unknown or a value is wrong.
    """
    if isinstance(given, Limits):
        return given
    return Limits() if given is None else limits(**given)


def read_mode(given: str) -> Mode:
    """Return a mode by its word."""
    try:
        return Mode(given)
    except ValueError:
        raise ConfigError("mode: must be 'enforce' or 'observe'") from None


def check_clock(clock: Clock) -> None:
    """Check that a clock gives aware instants.

    Raises:
        UsageError: it gives naive ones.
    """
    if clock.now().tzinfo is None:
        raise UsageError("clock: now() must be timezone-aware")


def threads_for(store: Store) -> ThreadPoolExecutor | None:
    """Return threads for a store that says that its calls may block an event loop."""
    if not getattr(store, "blocks", False):
        return None
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="forbear-store")


__all__ = ["StoreError", "check_clock", "open_store", "read_catalogue", "read_limits", "read_mode"]
