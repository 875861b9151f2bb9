"""What codes say where no controller stands behind them: no record, no later run, nothing that is remembered or held.

Only texts are here. They go through the same lint as the catalogue's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from forbear.contract.catalogue import Catalogue
from forbear.core.vocabulary import Recovery

__all__ = ["ALONE", "WITHOUT_A_CODE", "standalone_catalogue"]

# The built-in texts that promise something of a controller or its store.
ALONE: Final[Mapping[str, str]] = {
    "RATE_LIMITED": "The service limits how often this may be called.",
    "TEMPORARY_FAILURE": "The service failed for the moment.",
    "NOT_SENT": "The service could not be reached and nothing was sent.",
    "WAITING": "This call has to wait and did not run.",
    "RETRY_EXHAUSTED": "This call failed as often as it may be executed.",
    "RETRY_TOO_FAR": "The limit on this call does not end within 31 days.",
    "NO_RESET_GIVEN": "The service limits this call and named no end.",
    "OUTCOME_UNKNOWN": "The action may have been carried out. Only a read-only check can tell.",
    "PARTIAL_SUCCESS": "Only a part of this action was applied. A check or a person has to say what is missing.",
    "DUPLICATE_IN_FLIGHT": "The same call is running.",
    "USER_DENIED": "A person declined this action and it did not run.",
    "PROMPTS_EXHAUSTED": "Too many approval questions were declined. It did not run.",
    "CHECKER_UNAVAILABLE": "The rule that decides about this call could not be evaluated. The call did not run.",
    "UPSTREAM_REFUSED": "The service refused this call.",
    "INTERNAL_ERROR": "The tool failed inside. An operator has to look at it.",
    "BUDGET_EXHAUSTED": "The budget of calls is used up.",
    "NO_PROGRESS": "Equal calls gave equal results.",
    "CONTROLLER_BROKEN": "It could not be decided about this call, so it did not run. An operator has to look at it.",
    "REFUSALS_EXHAUSTED": "This operation was refused several times in a row.",
    "REPAIRS_EXHAUSTED": "Several inputs in a row were not accepted.",
    "EMPTY_UNCONFIRMED": "The answer was empty and may be incomplete.",
    "POLL_INTERVAL": "This was looked at a moment ago.",
}
# The same for results that name a class and no code.
WITHOUT_A_CODE: Final[Mapping[Recovery, str]] = {
    Recovery.DO_NOT_RETRY: "This call was refused.",
    Recovery.RETRY_AFTER: "This call has to wait.",
    Recovery.INSPECT_OUTCOME: "The action may have been carried out. Only a read-only check can tell.",
}
# Beginnings of details that are left out: they say what a controller will do.
_LATER: Final = ("The controller", "It runs")


def standalone_catalogue(catalogue: Catalogue) -> Catalogue:
    """Return a catalogue whose texts are true without a controller; a project's own codes keep theirs."""
    changed = {
        code: replace(
            entry,
            text=ALONE[code],
            details=tuple(one for one in entry.details if not one.startswith(_LATER)),
        )
        for code, entry in catalogue.entries.items()
        if code in ALONE
    }
    return Catalogue({**catalogue.entries, **changed})
