"""Judge a gRPC status (gRFC A6, AIP-193, AIP-194). Details text is never read: it may hold a server's exception."""

from __future__ import annotations

import re
from typing import Final

from forbear.contract import findings as f
from forbear.contract.body import items, member
from forbear.contract.case import Case
from forbear.contract.findings import found, timed
from forbear.contract.profiles import load_profile
from forbear.contract.raw import Grpc
from forbear.contract.rules import field_name, known_fields
from forbear.contract.time import Base, Hint, later, proto_duration_ms
from forbear.core.values import Envelope
from forbear.core.vocabulary import Executed, Outcome, Recovery

_STOP: Final = Recovery.DO_NOT_RETRY
_WAIT: Final = Recovery.RETRY_AFTER
_REPAIR: Final = Recovery.REPAIR_INPUT
_LOOK: Final = Recovery.INSPECT_OUTCOME

_NAMES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
# code -> (class for a read, class for a write, code).
_CODES: Final[dict[str, tuple[Recovery, Recovery, str]]] = {
    "CANCELLED": (_STOP, _LOOK, "CANCELLED"),
    "UNKNOWN": (_STOP, _LOOK, "INTERNAL_ERROR"),
    "INVALID_ARGUMENT": (_REPAIR, _REPAIR, "INPUT_INVALID"),
    "DEADLINE_EXCEEDED": (_WAIT, _LOOK, "TEMPORARY_FAILURE"),
    "NOT_FOUND": (_REPAIR, _REPAIR, "NOT_FOUND"),
    "ALREADY_EXISTS": (_STOP, _LOOK, "CONFLICT"),
    "PERMISSION_DENIED": (_STOP, _STOP, "ACCESS_DENIED"),
    "RESOURCE_EXHAUSTED": (_WAIT, _WAIT, "RATE_LIMITED"),
    "FAILED_PRECONDITION": (_STOP, _STOP, "UPSTREAM_REFUSED"),
    "ABORTED": (_WAIT, _LOOK, "CONFLICT"),
    "OUT_OF_RANGE": (_REPAIR, _REPAIR, "INPUT_INVALID"),
    "UNIMPLEMENTED": (_STOP, _STOP, "UPSTREAM_REFUSED"),
    "INTERNAL": (_STOP, _LOOK, "INTERNAL_ERROR"),
    "UNAVAILABLE": (_WAIT, _LOOK, "TEMPORARY_FAILURE"),
    "DATA_LOSS": (_STOP, _LOOK, "INTERNAL_ERROR"),
    "UNAUTHENTICATED": (_STOP, _STOP, "AUTH_FAILED"),
}
_PUSHBACK: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_INT32: Final = 2**31


def _name(code: str | int) -> str:
    if isinstance(code, int):
        return _NAMES[code] if 0 <= code < len(_NAMES) else ""
    return code.removeprefix("StatusCode.").upper()


def _details(grpc: Grpc, kind: str) -> list[object]:
    return [detail for detail in grpc.details[:32] if str(member(detail, "@type")).endswith(f"google.rpc.{kind}")]


def classify_grpc(grpc: Grpc, case: Case) -> Envelope:
    """Return what a gRPC status means."""
    name = _name(grpc.code)
    if name == "OK":
        return f.SUCCESS
    row = _CODES.get(name)
    if row is None:
        return f.unknown(case.effect)
    said = _by_code(grpc, case, name, row)
    # What never changes outranks any time, and never loosens anything.
    permanent = _permanent(grpc)
    return said if permanent is None else f.stricter(permanent, said)


def _by_code(grpc: Grpc, case: Case, name: str, row: tuple[Recovery, Recovery, str]) -> Envelope:
    recovery, code = row[1] if case.writes else row[0], row[2]
    if case.writes and recovery is _LOOK and case.may_repeat and row[0] is _WAIT:
        recovery = _WAIT
    if name in ("RESOURCE_EXHAUSTED", "UNAVAILABLE") and _names_alternatives(grpc):
        return found(Recovery.USE_ALTERNATIVE, "TOOL_UNAVAILABLE")
    if recovery is _WAIT:
        hint, vetoed = _pushback(grpc, case)
        if vetoed:
            return found(_STOP, executed=Executed.NO if name == "RESOURCE_EXHAUSTED" else Executed.UNKNOWN)
        if name == "RESOURCE_EXHAUSTED":
            return timed(found(_WAIT, code), hint)
        outcome = Outcome.TIMEOUT if name == "DEADLINE_EXCEEDED" else Outcome.FAILED
        return timed(found(_WAIT, code, executed=Executed.UNKNOWN, outcome=outcome, temporary=True), hint)
    if recovery is _LOOK:
        return found(_LOOK, "CONFLICT" if code == "CONFLICT" else "OUTCOME_UNKNOWN")
    if name == "CANCELLED":
        return found(_STOP, code, outcome=Outcome.CANCELLED, executed=Executed.UNKNOWN)
    failed = code == "INTERNAL_ERROR"
    return found(
        recovery,
        code,
        outcome=Outcome.FAILED if failed else None,
        executed=Executed.UNKNOWN if failed else Executed.NO,
        fields=_bad_fields(grpc, case) if recovery is _REPAIR else (),
    )


def _bad_fields(grpc: Grpc, case: Case) -> tuple[str, ...]:
    """Return the fields that a BadRequest names and the tool's input knows."""
    names = known_fields(case)
    violations = [one for bad in _details(grpc, "BadRequest") for one in items(member(bad, "fieldViolations"))]
    shown = [field_name(case, str(member(one, "field")), names) for one in violations[:32]]
    return tuple(dict.fromkeys(name for name in shown if name is not None))[:8]


def _google(grpc: Grpc) -> list[object]:
    """Return the ErrorInfo details whose domain is Google's own; nobody else's reasons are known."""
    infos = [(info, str(member(info, "domain"))) for info in _details(grpc, "ErrorInfo")]
    return [info for info, domain in infos if f".{domain}".endswith(".googleapis.com")]


def _permanent(grpc: Grpc) -> Envelope | None:
    """Return what one of Google's reasons says for good, by the rules of its profile that hold at every status."""
    reasons = {str(member(info, "reason")) for info in _google(grpc)}
    if not reasons:
        return None
    for rule in load_profile("google").rules:
        if rule.codes & reasons and not rule.status and rule.read is rule.write is _STOP:
            return found(_STOP, rule.code)
    return None


def _pushback(grpc: Grpc, case: Case) -> tuple[Hint | None, bool]:
    """Return when the server wants to be asked, and whether it forbids it.

    The opposite of Retry-After: a pushback that is negative or cannot be read means "do not" (gRFC A6).
    """
    base = Base(case.now)
    hints: list[Hint | None] = []
    for name, value in grpc.trailing_metadata:
        if name.lower() != "grpc-retry-pushback-ms":
            continue
        text = value.strip(" \t")
        if _PUSHBACK.fullmatch(text) is None or int(text) >= _INT32:
            return None, True
        hints.append(base.after(int(text)))
    for detail in _details(grpc, "RetryInfo"):
        milliseconds = proto_duration_ms(member(detail, "retryDelay"))
        if milliseconds is not None:
            hints.append(base.after(milliseconds))
    return later(*hints), False


def _names_alternatives(grpc: Grpc) -> bool:
    """Tell whether Google's own ErrorInfo says that the capacity exists elsewhere (AIP-193 metadata)."""
    return any(
        isinstance(member(member(info, "metadata"), name), str)
        for info in _google(grpc)
        for name in ("zonesWithCapacity", "availableRegions")
    )
