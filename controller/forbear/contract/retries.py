"""Find retries inside a tool: a retry in the function times a retry outside is more calls than either allows.

Only wrappers of known retry libraries can be seen: a decorator that keeps no `__wrapped__` and a client that repeats
requests by itself (an HTTP transport, an SDK's `max_retries`) cannot. No function is called or imported here, and what to
do about a retry is decided by whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

__all__ = ["LIBRARIES", "retrying_library", "without_retries"]

# Libraries whose wrappers repeat the wrapped function, by top-level package of the wrapper's own module.
LIBRARIES: Final = frozenset({"tenacity", "stamina", "backoff", "retrying", "retry", "retry2", "opnieuw", "riprova"})
_MAX_LAYERS: Final = 32


def _layers(function: object) -> Iterator[object]:
    """Yield a function and what it wraps, outermost first."""
    current: object | None = function
    for _ in range(_MAX_LAYERS):
        if current is None:
            return
        yield current
        current = cast("object | None", getattr(current, "__wrapped__", None))


def _library(layer: object) -> str | None:
    """Return the retry library that this very layer comes from, or None.

    `functools.wraps` copies names and attributes to outer layers, but not the globals that a wrapper runs in.
    """
    held = cast("object", getattr(layer, "__globals__", None))
    module = cast("dict[str, object]", held).get("__name__") if isinstance(held, dict) else type(layer).__module__
    package = module.partition(".")[0] if isinstance(module, str) else ""
    return package if package in LIBRARIES else None


def retrying_library(function: object) -> str | None:
    """Return the name of the library that repeats this function from inside, or None where none is seen."""
    return next((name for name in map(_library, _layers(function)) if name is not None), None)


def without_retries(function: Callable[..., object]) -> Callable[..., object] | None:
    """Return the function under the retrying layers, or None where another decorator lies on top of them.

    A decorator on top (of a cache, of a tracer) would be lost with them; then the author has to take the retry off.
    """
    if _library(function) is None:
        return function if retrying_library(function) is None else None
    inner = next((layer for layer in _layers(function) if _library(layer) is None), None)
    if inner is None or not callable(inner) or retrying_library(inner) is not None:
        return None
    return inner
