"""Warn once, and name the line of the user's code that it is about. No other reporting lives here."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass
from types import FrameType
from typing import Final

__all__ = ["Line", "Once", "user_line"]

# Frames of these packages are not the user's code.
_FOREIGN: Final = frozenset(
    "forbear forbear_adapters langgraph langchain langchain_core langsmith mcp agents asyncio concurrent contextlib "
    "contextvars functools threading uvloop anyio importlib".split()
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def user_line() -> Line | None:
    """Return the innermost line on this thread's stack that belongs to the user, or None where there is none."""
    # Documented by the interpreter; `inspect` reads source files to say the same.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name: object = frame.f_globals.get("__name__", "")
        if not isinstance(name, str) or name.partition(".")[0] not in _FOREIGN:
            return Line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


class Once:
    """Warnings of one object, each at most once."""

    def __init__(self, built_at: Line | None) -> None:
        self.built_at = built_at
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def warn(self, key: str, message: str) -> None:
        """Warn, with the user's line that is running now, else the line that built the object."""
        with self._lock:
            if key in self._said:
                return
            self._said.add(key)
        line = user_line() or self.built_at or Line("<unknown>", 1)
        where = f" (built at {self.built_at})" if self.built_at is not None else ""
        warnings.warn_explicit(message + where, RuntimeWarning, line.file, line.number)
