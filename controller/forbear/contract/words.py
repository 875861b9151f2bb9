"""The words of the dialects that are read, and what they mean here. Only tables and look-ups live here."""

from __future__ import annotations

from typing import Final

from forbear.core.vocabulary import Executed, Outcome, Recovery

_RECOVERIES: Final = {
    **{word.value: word for word in Recovery},
    # The flat dialect's names (design section 2).
    "retry_after_delay": Recovery.RETRY_AFTER,
    "stop_and_report": Recovery.DO_NOT_RETRY,
}
_OUTCOMES: Final = {word.value: word for word in Outcome}
_EXECUTED: Final = {word.value: word for word in Executed}


def recovery_of(word: object) -> Recovery | None:
    """Return the class that a word names in any dialect, or None."""
    return _RECOVERIES.get(word) if isinstance(word, str) else None


def outcome_of(word: object) -> Outcome | None:
    """Return the outcome that a word names, or None."""
    return _OUTCOMES.get(word) if isinstance(word, str) else None


def executed_of(word: object) -> Executed | None:
    """Return what a word says about execution, or None."""
    return _EXECUTED.get(word) if isinstance(word, str) else None
