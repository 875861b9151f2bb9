"""Warnings that must not break what they are about: the worker, and calls whose start was committed already.

Warnings that a caller should act on at once are plain `warnings.warn` where they arise.
"""

from __future__ import annotations

import warnings
from contextlib import suppress


def warn_beside(text: str, *, stacklevel: int = 1) -> None:
    """Warn; where the application made errors of warnings, go on without a word rather than break the work."""
    with suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
