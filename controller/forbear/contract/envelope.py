"""Read and write the contract's wire forms: the nested and the flat dialect and RFC 9457 problem details.

Reading checks form only. Whether a field may be believed or shown is decided in `admit.py`; both have one allowlist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from forbear.contract.catalogue import builtin_catalogue, instant_text, is_code
from forbear.contract.error_fields import READERS, Wrong
from forbear.contract.findings import CODES, found
from forbear.contract.statuses import class_of_status
from forbear.contract.words import executed_of, outcome_of, recovery_of
from forbear.core.values import Envelope
from forbear.core.vocabulary import COMPLETED, Executed, Outcome, Recovery
from forbear.errors import ContractError, UsageError

_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,80}", re.ASCII)
_URN: Final = "urn:forbear:problem:"

_ALIASES: Final = {"retry_at": "reset_at", "field_errors": "invalid_fields", "message": "safe_message",
                   "action": "recovery"}  # fmt: skip
ERROR_FIELDS: Final = frozenset(
    "code constraint recovery limit remaining reset_at retry_after_seconds invalid_fields precondition "
    "alternative_tools required_permission approval_url http_status operation safe_message "
    "effects_before_failure".split()
)
_TOP: Final = frozenset("ok outcome executed data error meta request_id".split())
_FLAT: Final = frozenset("ok outcome executed data meta request_id retryable".split())
_PROBLEM: Final = frozenset("type title status detail instance ok outcome executed request_id retryable".split())
_FLAT_WORDS: Final = {
    Recovery.RETRY_AFTER: "retry_after_delay",
    Recovery.DO_NOT_RETRY: "stop_and_report",
}
_STATUS: Final = {
    Recovery.DO_NOT_RETRY: 403,
    Recovery.RETRY_AFTER: 429,
    Recovery.REPAIR_INPUT: 422,
    Recovery.REQUEST_APPROVAL: 403,
    Recovery.INSPECT_OUTCOME: 500,
    Recovery.USE_ALTERNATIVE: 409,
}


# A wrong value here would make the meaning another one, so it is never merely dropped.
_ESSENTIAL: Final = frozenset({"code", "recovery", "effects_before_failure"})


def is_contract(value: object) -> bool:
    """Tell whether a value claims to be in the contract's form (nested or flat)."""
    if not isinstance(value, Mapping):
        return False
    members = cast("Mapping[str, object]", value)
    ok = members.get("ok")
    error = members.get("error")
    if isinstance(ok, bool):
        if "outcome" in members and outcome_of(members["outcome"]) is not None:
            return True
        if ok:
            return False
        if isinstance(error, Mapping):
            return "code" in error or "recovery" in error
        return isinstance(members.get("code"), str)
    if isinstance(error, Mapping):
        named = cast("Mapping[str, object]", error)
        return isinstance(named.get("code"), str) and recovery_of(named.get("recovery")) is not None
    flat = "recovery" in members or "action" in members
    if flat and isinstance(members.get("code"), str):
        return recovery_of(members.get("recovery", members.get("action"))) is not None
    return False


def read_counted(value: object, *, strict: bool = False) -> tuple[Envelope, int]:
    """Return an envelope in any dialect, and how many fields were dropped.

    Args:
        value: A parsed JSON object.
        strict: Reject unknown fields and wrong types instead of dropping them.

    Raises:
        ContractError: it is not in the contract's form; the message names the field and the rule, never a value.
    """
    if not isinstance(value, Mapping):
        raise ContractError("an envelope must be an object")
    members = cast("Mapping[str, object]", value)
    if not all(isinstance(name, str) for name in cast("Mapping[object, object]", value)):
        raise ContractError("an envelope's names must be strings")
    error = members.get("error")
    if isinstance(error, Mapping) or ("outcome" in members and "code" not in members):
        if error and not isinstance(error, Mapping):
            raise ContractError("field 'error' must be an object")
        return _read(members, cast("Mapping[str, object]", error or {}), _TOP, strict=strict)
    if "type" in members or "title" in members:
        return _read_problem(members, strict=strict)
    if "code" in members or "action" in members or "recovery" in members:
        flat = {name: held for name, held in members.items() if name not in _FLAT}
        return _read(members, flat, frozenset(members), strict=strict)
    if members.get("ok") is True:
        return _read(members, {}, _TOP, strict=strict)
    raise ContractError("an envelope must have 'ok' with 'outcome' or 'error', or 'code' with 'action'")


def read_envelope(value: object, *, strict: bool = False) -> Envelope:
    """Return an envelope in any dialect; see `read_counted`.

    Raises:
        ContractError: it is not in the contract's form.
    """
    return read_counted(value, strict=strict)[0]


def _names_class(error: Mapping[str, object]) -> bool:
    return recovery_of(error.get("recovery", error.get("action"))) is not None


def _read_fields(error: Mapping[str, object], *, strict: bool) -> tuple[dict[str, Any], int]:
    read: dict[str, Any] = {}
    dropped = 0
    for given, value in error.items():
        name = _ALIASES.get(given, given)
        reader = READERS.get(name)
        if reader is None:
            if strict:
                raise ContractError(f"field {given[:64]!r} is not a field of the contract")
            dropped += 1
            continue
        if value is None:
            continue
        try:
            read[name] = reader(value)
        except Wrong as wrong:
            # A class says what to do also where its code cannot be read.
            needed = name in _ESSENTIAL and not (name == "code" and _names_class(error))
            if strict or needed:
                raise ContractError(f"field {given!r} {wrong}") from None
            dropped += 1
    return read, dropped


def _read(
    top: Mapping[str, object], error: Mapping[str, object], allowed: frozenset[str], *, strict: bool
) -> tuple[Envelope, int]:
    dropped = 0
    for name in top:
        if name not in allowed:
            if strict:
                raise ContractError(f"field {name[:64]!r} is not a field of the contract")
            dropped += 1
    fields, more = _read_fields(error, strict=strict)
    ok = top.get("ok")
    if ok is not None and not isinstance(ok, bool):
        raise ContractError("field 'ok' must be true or false")
    outcome = outcome_of(top.get("outcome"))
    if outcome is None and top.get("outcome") is not None:
        raise ContractError("field 'outcome' must be one of the outcomes")
    executed = executed_of(top.get("executed"))
    if executed is None and top.get("executed") is not None:
        raise ContractError("field 'executed' must be no, yes or unknown")
    envelope = _assemble(outcome, executed, fields, ok=ok)
    request_id = top.get("request_id")
    if isinstance(request_id, str) and _ID.fullmatch(request_id):
        envelope = replace(envelope, request_id=request_id)
    reason = cast("Mapping[str, object]", top["meta"]).get("reason") if isinstance(top.get("meta"), Mapping) else None
    if is_code(reason):
        envelope = replace(envelope, reason=cast("str", reason))
    return envelope, dropped + more


def _assemble(
    outcome: Outcome | None, executed: Executed | None, fields: dict[str, Any], *, ok: bool | None
) -> Envelope:
    """Fill what is absent: never in the more permissive way."""
    code = cast("str", fields.pop("code", ""))
    recovery = cast("Recovery | None", fields.pop("recovery", None))
    if ok is None:
        ok = outcome in COMPLETED if outcome is not None else False
    if ok and (recovery is not None or code or outcome not in {None, *COMPLETED, Outcome.PENDING}):
        raise ContractError("field 'ok' is true although the result is a refusal")
    if not ok and outcome in COMPLETED and outcome is not Outcome.PARTIAL:
        raise ContractError("field 'ok' is false although the outcome is a completed one")
    if ok:
        # A pending result that names no class is not finished.
        done = Envelope(outcome=outcome or Outcome.SUCCESS, executed=executed or Executed.YES)
        return replace(done, executed=executed or Executed.UNKNOWN) if outcome is Outcome.PENDING else done
    if recovery is None:
        recovery = builtin_catalogue().recovery(code) if code else None
    if recovery is None:
        uncertain = outcome in (Outcome.UNKNOWN, Outcome.TIMEOUT, Outcome.PARTIAL, Outcome.PENDING)
        recovery = Recovery.INSPECT_OUTCOME if uncertain else Recovery.DO_NOT_RETRY
    base = found(recovery, code or CODES[recovery], outcome=outcome)
    if executed is None:
        executed = _derived(base, effects=fields.get("effects_before_failure") is True)
    return replace(base, executed=executed, **fields)


def _derived(envelope: Envelope, *, effects: bool) -> Executed:
    uncertain = (Outcome.UNKNOWN, Outcome.TIMEOUT, Outcome.PARTIAL, Outcome.PENDING, Outcome.CANCELLED, Outcome.FAILED)
    if effects or envelope.recovery is Recovery.INSPECT_OUTCOME or envelope.outcome in uncertain:
        return Executed.UNKNOWN
    return Executed.NO


def _read_problem(members: Mapping[str, object], *, strict: bool) -> tuple[Envelope, int]:
    """Read RFC 9457 problem details; `title` and `detail` are for people and are not read."""
    extensions = {name: value for name, value in members.items() if name not in _PROBLEM}
    kind = members.get("type")
    if "code" not in extensions and isinstance(kind, str) and kind.startswith(_URN):
        extensions["code"] = kind.removeprefix(_URN)
    status = members.get("status")
    if not extensions.keys() & {"http_status", "code"} and isinstance(status, int):
        # Of our own problems `status` is made up from the class.
        extensions["http_status"] = status
    if "recovery" not in extensions and "action" not in extensions and "code" not in extensions:
        extensions["recovery"] = _by_status(status)
    top = {name: members[name] for name in ("ok", "outcome", "executed", "request_id") if name in members}
    instance = members.get("instance")
    if "request_id" not in top and isinstance(instance, str):
        top["request_id"] = instance
    return _read({"ok": False, **top}, extensions, frozenset({*top, "ok"}), strict=strict)


def _by_status(status: object) -> str:
    """Return the class of a problem whose type is not known: as a write would have to take it."""
    number = status if isinstance(status, int) and not isinstance(status, bool) else 500
    return class_of_status(number).value


def error_members(envelope: Envelope) -> dict[str, object]:
    """Return the contract's `error` object of an envelope: only fields that hold something."""
    members: dict[str, object] = {"code": envelope.code}
    for name in ("constraint", "limit", "remaining", "retry_after_seconds", "required_permission", "approval_url",
                 "http_status", "operation", "safe_message"):  # fmt: skip
        value = getattr(envelope, name)
        if value is not None:
            members[name] = value
    if envelope.recovery is not None:
        members["recovery"] = envelope.recovery.value
    if envelope.reset_at is not None:
        members["reset_at"] = instant_text(envelope.reset_at)
    if envelope.invalid_fields:
        members["invalid_fields"] = [{"name": one.name, "rule": one.rule} for one in envelope.invalid_fields]
    if envelope.precondition is not None:
        members["precondition"] = {
            "tool": envelope.precondition.tool,
            "args": json.loads(envelope.precondition.arguments),
        }
    if envelope.alternative_tools:
        members["alternative_tools"] = list(envelope.alternative_tools)
    if envelope.effects_before_failure:
        members["effects_before_failure"] = True
    return members


def write_envelope(envelope: Envelope, data: object = None, dialect: str = "nested") -> dict[str, object]:
    """Return an envelope in one of the dialects.

    Args:
        envelope: What to write.
        data: The tool's own value, for a completed result.
        dialect: "nested", "flat" or "problem" (RFC 9457; refusals only).

    Raises:
        UsageError: the dialect is unknown, or has no form for this envelope.
    """
    ok = envelope.recovery is None and envelope.outcome in {*COMPLETED, Outcome.PENDING}
    head: dict[str, object] = {
        "ok": ok,
        "outcome": envelope.outcome.value,
        "executed": envelope.executed.value,
    }
    if dialect == "nested":
        head["data"] = data if ok else None
        if not ok:
            head["error"] = error_members(envelope)
        if envelope.reason is not None:
            head["meta"] = {"reason": envelope.reason}
    elif dialect == "flat":
        if ok:
            head["data"] = data
        else:
            members = error_members(envelope)
            members.pop("recovery", None)
            head["message"] = members.pop("safe_message", "")
            recovery = envelope.recovery or Recovery.DO_NOT_RETRY
            head["action"] = _FLAT_WORDS.get(recovery, recovery.value)
            head["retryable"] = recovery is Recovery.RETRY_AFTER
            head.update(members)
            if not head["message"]:
                del head["message"]
        if envelope.reason is not None:
            head["meta"] = {"reason": envelope.reason}
    elif dialect == "problem":
        if ok:
            raise UsageError("dialect 'problem' has no form for a completed result")
        recovery = envelope.recovery or Recovery.DO_NOT_RETRY
        members = error_members(envelope)
        message = members.pop("safe_message", None)
        status = members.pop("http_status", None)
        head = {
            "type": _URN + envelope.code,
            "title": envelope.code.replace("_", " ").capitalize(),
            "status": status if status is not None else _STATUS[recovery],
            **({"detail": message, "safe_message": message} if message else {}),
            **head,
            **members,
        }
        if status is not None:
            head["http_status"] = status
    else:
        raise UsageError(f"dialect {dialect!r} must be 'nested', 'flat' or 'problem'")
    if envelope.request_id:
        head["request_id"] = envelope.request_id
        if dialect == "problem":
            head["instance"] = envelope.request_id
    return head
