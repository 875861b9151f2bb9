"""Finding the parts of a controller: store by path or URL, catalogue, and checks of what an application passes in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, metadata
from pathlib import Path
from typing import Final, cast

from forbear.audit.evidence import EvidenceStore, evidence_path
from forbear.contract import Catalogue, builtin_catalogue, limits, load_catalogue
from forbear.core.policy import Limits
from forbear.core.vocabulary import Mode
from forbear.errors import ConfigError, StoreError, UsageError
from forbear.ports import Clock, Ids, Store
from forbear.store.sqlite import MEMORY, SqliteStore, open_sqlite

STORES: Final = "forbear.stores"
# What an application may say about itself; it is recorded and decides nothing.
LABELS: Final = ("service", "version", "region", "risk")
MAX_LABEL: Final = 64


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
            raise UsageError(f"path: no store for {scheme!r} URLs is installed{_how_to_install(scheme)}")
        opener = cast("Callable[..., Store]", next(iter(found)).load())
        return opener(path, clock=clock)
    return open_sqlite(path, clock=clock)


def _how_to_install(scheme: str) -> str:
    """Return the command that installs a store, where this release has an extra for it."""
    try:
        extras = metadata("forbear").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        extras = []
    return f": pip install 'forbear[{scheme}]'" if scheme in extras else f"; a package adds one under {STORES!r}"


def evidence_for(
    store: Store, given: str | os.PathLike[str] | None, clock: Clock, ids: Ids, *, keeps: bool, at_once: bool
) -> EvidenceStore | None:
    """Return where a store's evidence is kept: beside its file, or where the caller says; None = nowhere.

    It is opened at once where an application asks for that, else before the first piece is kept (a command that only
    looks makes no file). A store that is neither a file nor in memory here keeps none unless a place is given.

    Raises:
        UsageError: a place is given and no evidence is to be kept.
    """
    if not keeps:
        if given is not None:
            raise UsageError("evidence: must not be given where keep_evidence is False")
        return None
    place: str | os.PathLike[str] | None = given
    if place is None and isinstance(store, SqliteStore):
        place = MEMORY if store.path is None else evidence_path(store.path)
    if place is None:
        return None

    def new_key() -> bytes:
        return (ids.request_id() + ids.ticket()).encode()

    evidence = EvidenceStore(partial(open_store, place, clock), new_key)
    if at_once and place != MEMORY:
        evidence.prepare()
    return evidence


def read_labels(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return an application's labels.

    Raises:
        ConfigError: a name is not one of `LABELS`, or a value is no short printable text.
    """
    labels = dict(given or {})
    for name, value in labels.items():
        if name not in LABELS:
            raise ConfigError(f"labels: {name!r} must be one of {', '.join(LABELS)}")
        if not (0 < len(value) <= MAX_LABEL and value.isprintable() and value.isascii()):
            raise ConfigError(f"labels: {name!r} must be printable ASCII of at most {MAX_LABEL} characters")
    return labels


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


__all__ = [
    "StoreError",
    "check_clock",
    "evidence_for",
    "open_store",
    "read_catalogue",
    "read_labels",
    "read_limits",
    "read_mode",
    "threads_for",
]
