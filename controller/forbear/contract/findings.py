"""Build envelopes for what was found in a raw result. What a signal means is decided elsewhere; no text is made here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from forbear.contract.time import Hint
from forbear.core.values import Envelope, InvalidField
from forbear.core.vocabulary import Effect, Executed, Outcome, Recovery

NO_MATCHES: Final = "NO_MATCHES"

SUCCESS: Final = Envelope(outcome=Outcome.SUCCESS, executed=Executed.YES)
EMPTY: Final = Envelope(outcome=Outcome.EMPTY, executed=Executed.YES, reason=NO_MATCHES)
PARTIAL: Final = Envelope(outcome=Outcome.PARTIAL, executed=Executed.YES)
ALREADY: Final = Envelope(outcome=Outcome.ALREADY_SATISFIED, executed=Executed.YES)

# What a refusal of each class is called where nothing more exact is known.
_OUTCOMES: Final = {
    Recovery.DO_NOT_RETRY: Outcome.REFUSED,
    Recovery.RETRY_AFTER: Outcome.REFUSED,
    Recovery.REPAIR_INPUT: Outcome.INVALID,
    Recovery.REQUEST_APPROVAL: Outcome.REFUSED,
    Recovery.INSPECT_OUTCOME: Outcome.UNKNOWN,
    Recovery.USE_ALTERNATIVE: Outcome.REFUSED,
}
# The code of each class where nothing more exact is known.
CODES: Final = {
    Recovery.DO_NOT_RETRY: "UPSTREAM_REFUSED",
    Recovery.RETRY_AFTER: "TEMPORARY_FAILURE",
    Recovery.REPAIR_INPUT: "INPUT_INVALID",
    Recovery.REQUEST_APPROVAL: "APPROVAL_REQUIRED",
    Recovery.INSPECT_OUTCOME: "OUTCOME_UNKNOWN",
    Recovery.USE_ALTERNATIVE: "TOOL_UNAVAILABLE",
}


def is_write(effect: Effect) -> bool:
    """Tell whether an effect must be treated like a write."""
    return effect is not Effect.READ


def found(
    recovery: Recovery,
    code: str = "",
    *,
    executed: Executed | None = None,
    outcome: Outcome | None = None,
    http_status: int | None = None,
    fields: tuple[str, ...] = (),
    temporary: bool = False,
    not_accepted: bool = False,
    reason: str | None = None,
) -> Envelope:
    """Return the envelope of a refusal: by default nothing was executed, except where the outcome is unknown."""
    if executed is None:
        executed = Executed.UNKNOWN if recovery is Recovery.INSPECT_OUTCOME else Executed.NO
    return Envelope(
        outcome=outcome or _OUTCOMES[recovery],
        executed=executed,
        code=code or CODES[recovery],
        recovery=recovery,
        http_status=http_status,
        invalid_fields=tuple(InvalidField(name=name) for name in fields),
        temporary=temporary,
        not_accepted=not_accepted,
        reason=reason,
    )


def unknown(effect: Effect, *, code: str = "", outcome: Outcome = Outcome.UNKNOWN) -> Envelope:
    """Return what an unexplained failure means: a write may have happened; a read is not looked at again blindly."""
    if is_write(effect):
        return found(Recovery.INSPECT_OUTCOME, code or "OUTCOME_UNKNOWN", outcome=outcome)
    return found(Recovery.DO_NOT_RETRY, code or "INTERNAL_ERROR", executed=Executed.UNKNOWN, outcome=Outcome.FAILED)


def no_answer(effect: Effect, *, may_repeat: bool = False, outcome: Outcome = Outcome.UNKNOWN) -> Envelope:
    """Return what a missing or unreadable answer means: a read is tried once more, a write may have happened."""
    if is_write(effect) and not may_repeat:
        return found(Recovery.INSPECT_OUTCOME, outcome=outcome)
    return found(
        Recovery.RETRY_AFTER,
        executed=Executed.UNKNOWN,
        outcome=Outcome.TIMEOUT if outcome is Outcome.TIMEOUT else Outcome.FAILED,
        temporary=True,
    )


def timed(envelope: Envelope, hint: Hint | None) -> Envelope:
    """Give a `retry_after` its named end; an end that is too far ahead makes it final. Other classes keep no time."""
    if envelope.recovery is not Recovery.RETRY_AFTER or hint is None:
        return envelope
    if hint.at is None:
        return replace(
            envelope, recovery=Recovery.DO_NOT_RETRY, code="RETRY_TOO_FAR", outcome=Outcome.REFUSED, temporary=False
        )
    return replace(envelope, reset_at=hint.at)


# From the most to the least favourable reading of one result.
_FAVOUR: Final = (
    None,
    Recovery.RETRY_AFTER,
    Recovery.USE_ALTERNATIVE,
    Recovery.REPAIR_INPUT,
    Recovery.REQUEST_APPROVAL,
    Recovery.DO_NOT_RETRY,
    Recovery.INSPECT_OUTCOME,
)


def stricter(one: Envelope, other: Envelope) -> Envelope:
    """Return the less favourable of two readings of the same result; the first where they are equal."""
    return one if _FAVOUR.index(one.recovery) >= _FAVOUR.index(other.recovery) else other


def after_effects(envelope: Envelope, effect: Effect) -> Envelope:
    """Return what a refusal means when something was applied before it: nothing makes the call repeatable."""
    if envelope.recovery is None:
        return envelope
    marked = replace(envelope, effects_before_failure=True, executed=Executed.UNKNOWN, not_accepted=False)
    if envelope.recovery in (Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME):
        return marked
    recovery = Recovery.INSPECT_OUTCOME if is_write(effect) else Recovery.DO_NOT_RETRY
    # The code and the time promised a retry that does not come.
    return replace(
        marked,
        recovery=recovery,
        code="PARTIAL_SUCCESS" if is_write(effect) else CODES[recovery],
        outcome=Outcome.PARTIAL,
        reset_at=None,
        retry_after_seconds=None,
        safe_message=None,
        temporary=False,
    )
