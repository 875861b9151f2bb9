"""An observer that writes decisions to the standard library's logging. Nothing of others' text, no argument, no result.

Handlers and formats are the application's; no handler is installed here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from forbear.observe.notice import Notice, Reads, Severity

__all__ = ["LOGGER", "LoggingObserver"]

LOGGER: Final = "forbear"
_LEVELS: Final[Mapping[Severity, int]] = {
    Severity.DEBUG: logging.DEBUG,
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
}
# What a record carries beside its message, each as an attribute `forbear_…`.
FIELDS: Final = (
    "rule",
    "cause",
    "before",
    "after",
    "tool",
    "operation",
    "answer",
    "outcome",
    "executed",
    "recovery",
    "code",
    "attempt",
    "would",
    "request_id",
    "run",
)
_SHOWN: Final = ("rule", "tool", "answer", "code", "recovery", "attempt", "would", "request_id")


class LoggingObserver:
    """Writes one record a decision: a handled refusal as a warning, the last one as an error, successes as debug.

    Args:
        logger: The logger; default: the one named ``forbear``.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logging.getLogger(LOGGER) if logger is None else logger
        # How often a tool answered with a code that the catalogue does not hold, by tool.
        self.unknown_codes: Counter[str] = Counter()

    def observe(self, notice: Notice) -> None:
        """Write one decision."""
        if not notice.code_is_known:
            self.unknown_codes[notice.tool] += 1
        level = _LEVELS[notice.severity]
        if not self._logger.isEnabledFor(level):
            return
        found = {name: getattr(notice, name) for name in FIELDS}
        extra = {f"forbear_{name}": value for name, value in found.items() if value}
        if not notice.code_is_known:
            extra["forbear_unknown_codes"] = self.unknown_codes[notice.tool]
        shown = " ".join(f"{name}={found[name]}" for name in _SHOWN if found[name])
        self._logger.log(level, "%s %s", notice.event, shown, extra=extra)

    def observe_reads(self, reads: Sequence[Reads]) -> None:
        """Write how many reads succeeded, where somebody wants to know that much."""
        if not self._logger.isEnabledFor(logging.DEBUG):
            return
        for one in reads:
            extra = {"forbear_tool": one.tool, "forbear_operation": one.operation, "forbear_count": one.count}
            self._logger.debug("forbear.completed tool=%s count=%d", one.tool, one.count, extra=extra)
