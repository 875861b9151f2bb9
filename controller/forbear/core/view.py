"""What a model may see of an envelope: the only way from a result to a model, an allowlist, bounded.

No text is judged here; texts passed `forbear.contract` before. Nothing else may serialise an envelope for a model.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final, cast

from forbear.core.values import Envelope
from forbear.core.vocabulary import COMPLETED, Outcome, Recovery

# UTF-8 bytes of the compact JSON of a refusal.
MAX_REFUSAL_BYTES: Final = 480
_MAX_LIST: Final = 8
_MAX_STRING: Final = 256

# Where an envelope came without a text; lint clean by test.
_TEXTS: Final = {
    Recovery.DO_NOT_RETRY: "This call was refused and stays closed.",
    Recovery.RETRY_AFTER: "This call has to wait. The controller takes care of it.",
    Recovery.REPAIR_INPUT: "The input was not accepted.",
    Recovery.REQUEST_APPROVAL: "A person has to approve exactly this call before it runs.",
    Recovery.INSPECT_OUTCOME: "The action may have been carried out. It is held until its outcome is known.",
    Recovery.USE_ALTERNATIVE: "This is not available here. Only listed alternatives may be called.",
    None: "This call was not executed.",
}


def instant_text(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC; a fraction only where there is one, up to the next millisecond."""
    utc = instant.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds" if utc.microsecond else "seconds").replace("+00:00", "Z")


def view(envelope: Envelope) -> dict[str, object]:
    """Return the part of an envelope that a model may see; never empty, a refusal at most `MAX_REFUSAL_BYTES`."""
    if envelope.recovery is None and envelope.outcome in COMPLETED:
        return _completed(envelope)
    return _bounded(_refusal(envelope))


def view_text(envelope: Envelope) -> str:
    """Return the view as compact JSON."""
    return _encode(view(envelope))


def _encode(shown: dict[str, object]) -> str:
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate has no UTF-8 form.
    return text.encode("utf-8", "replace").decode("utf-8")


def _size(shown: dict[str, object]) -> int:
    return len(_encode(shown).encode("utf-8"))


def _completed(envelope: Envelope) -> dict[str, object]:
    shown: dict[str, object] = {
        "ok": True,
        "outcome": envelope.outcome.value,
        "executed": envelope.executed.value,
    }
    meta: dict[str, object] = {}
    reason = envelope.reason or envelope.code
    if reason:
        meta["reason"] = reason
    if envelope.safe_message:
        meta["message"] = envelope.safe_message
    if envelope.safe_fields:
        meta["fields"] = dict(envelope.safe_fields[:_MAX_LIST])
    if meta:
        shown["meta"] = meta
    if envelope.request_id:
        shown["request_id"] = envelope.request_id
    return shown


def _until(envelope: Envelope) -> str | None:
    """Return what ends the hold, where saying so helps and no time is named."""
    match envelope.recovery:
        case Recovery.REQUEST_APPROVAL:
            return "a person"
        case Recovery.INSPECT_OUTCOME:
            return "a check or a person"
        case Recovery.REPAIR_INPUT if envelope.precondition is not None:
            return "the precondition"
        case Recovery.REPAIR_INPUT if envelope.invalid_fields:
            return "a changed field"
        case _:
            return None


def _refusal(envelope: Envelope) -> dict[str, object]:
    error: dict[str, object] = {"code": envelope.code or "UPSTREAM_REFUSED"}
    if envelope.recovery is not None:
        error["recovery"] = envelope.recovery.value
    error["message"] = envelope.safe_message or _TEXTS[envelope.recovery]
    if envelope.reset_at is not None:
        error["reset_at"] = instant_text(envelope.reset_at)
    elif (until := _until(envelope)) is not None:
        error["until"] = until
    if envelope.invalid_fields:
        error["invalid_fields"] = [one.name for one in envelope.invalid_fields[:_MAX_LIST]]
    if envelope.precondition is not None:
        error["precondition"] = envelope.precondition.tool
    if envelope.alternative_tools:
        error["alternative_tools"] = list(envelope.alternative_tools[:_MAX_LIST])
    optional: tuple[tuple[str, object], ...] = (
        ("constraint", envelope.constraint),
        ("limit", envelope.limit),
        ("remaining", envelope.remaining),
        ("required_permission", envelope.required_permission),
        ("approval_url", envelope.approval_url),
        ("http_status", envelope.http_status),
        ("operation", envelope.operation),
    )
    error.update(
        (name, value)
        for name, value in optional
        if value is not None and (not isinstance(value, str) or len(value) <= _MAX_STRING)
    )
    if envelope.effects_before_failure:
        error["effects_before_failure"] = True
    if envelope.safe_fields:
        error["fields"] = dict(envelope.safe_fields[:_MAX_LIST])
    shown: dict[str, object] = {
        "ok": envelope.outcome is Outcome.PENDING and envelope.recovery is None,
        "outcome": envelope.outcome.value,
        "executed": envelope.executed.value,
        "error": error,
    }
    if envelope.request_id:
        shown["request_id"] = envelope.request_id
    return shown


# What goes first when a view is too large: lists, then the message, then single words. Never ids, code, recovery.
_LISTS: Final = ("fields", "alternative_tools", "invalid_fields")
_WORDS: Final = ("operation", "http_status", "remaining", "limit", "constraint", "required_permission", "approval_url",
                 "precondition")  # fmt: skip


def _bounded(shown: dict[str, object]) -> dict[str, object]:
    """Trim a refusal until it fits."""
    error = cast("dict[str, object]", shown["error"])
    excess = _size(shown) - MAX_REFUSAL_BYTES
    for name in _LISTS:
        while excess > 0 and name in error:
            held = cast("list[object] | dict[str, object]", error[name])
            if len(held) <= 1:
                del error[name]
            elif isinstance(held, list):
                held.pop()
            else:
                held.popitem()
            excess = _size(shown) - MAX_REFUSAL_BYTES
    message = str(error["message"])
    while excess > 0 and len(message) > 40:
        message = message[: max(40, len(message) - max(1, excess // 4))]
        error["message"] = message.rstrip() + "\u2026"
        excess = _size(shown) - MAX_REFUSAL_BYTES
    for name in _WORDS:
        if excess > 0 and name in error:
            del error[name]
            excess = _size(shown) - MAX_REFUSAL_BYTES
    return shown
