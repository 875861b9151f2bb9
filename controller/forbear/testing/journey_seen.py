"""From a reply of the product to what a vector calls a decision. One place for the mapping of answers; nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forbear.core.states import Hold
from forbear.core.values import Envelope
from forbear.core.vocabulary import COMPLETED, Answer, Recovery, Scope
from forbear.runtime.reply import Reply
from forbear.testing.journey_checks import Seen

__all__ = ["of_envelope", "of_reply"]

_STOPPED: Final = frozenset({"stop", "block"})


def of_reply(reply: Reply, *, call: str, hold: Hold | None, is_own: bool = True) -> Seen:
    """Return what was seen: the decision, its reason and its details, without what only the story knows."""
    seen = of_envelope(reply.envelope, call=call, rule=str(reply.rule), hold=hold)
    decisions, stops = _decisions(reply)
    return Seen(
        call=call,
        decisions=decisions,
        words=seen.words,
        code=seen.code,
        rule=seen.rule,
        executed=seen.executed,
        outcome=seen.outcome,
        scopes=seen.scopes,
        stops=stops,
        safe=seen.safe,
        ticket=reply.ticket or "",
        retry_at=reply.retry_at,
        reset_at=reply.envelope.reset_at,
        suppressed=reply.suppressed,
        clear_forced=reply.clear_forced,
        view=reply.for_model() if reply.attempt is None else "",
        message=(reply.envelope.safe_message or "") if reply.attempt is None else "",
        is_own=is_own,
    )


def of_envelope(envelope: Envelope, *, call: str, rule: str, hold: Hold | None) -> Seen:
    """Return the reasons and the safe part of an envelope."""
    words = {envelope.code, rule, str(envelope.outcome), envelope.reason or ""}
    if envelope.recovery is not None:
        words.add(str(envelope.recovery))
    if rule.startswith("start.held."):
        words.add(f"held:{rule.removeprefix('start.held.')}")
    if hold is not None:
        words.add(f"held:{hold.cause.name.lower()}")
        if hold.precondition is not None:
            words.add("held:precondition")
    return Seen(
        call=call,
        decisions=frozenset(),
        words=frozenset(filter(None, words)),
        code=envelope.code,
        rule=rule,
        executed=str(envelope.executed),
        outcome=str(envelope.outcome),
        scopes=_scopes(hold),
        safe=_safe(envelope),
    )


def _decisions(reply: Reply) -> tuple[frozenset[str], str]:
    match reply.answer:
        case Answer.EXECUTED | Answer.DELIVERED:
            if reply.attempt is not None:
                return frozenset({"execute"}), ""
            return _of_result(reply.envelope, joined=reply.joins is not None), ""
        case Answer.PENDING:
            if reply.attempt is not None:
                return frozenset({"execute"}), ""
            return frozenset({"wait_until"}), ""
        case Answer.NEEDS_APPROVAL:
            return frozenset({"needs_approval"}), ""
        case Answer.BLOCKED:
            unknown = reply.envelope.recovery is Recovery.INSPECT_OUTCOME
            return frozenset({"block", "inspect_only"} if unknown else {"block"}), ""
        case Answer.STOPPED:
            return _STOPPED, "action"
        case Answer.HALTED:
            return frozenset({"stop"}), "run"


def _of_result(envelope: Envelope, *, joined: bool) -> frozenset[str]:
    if joined:
        return frozenset({"deliver_completed"})
    if envelope.outcome in COMPLETED:
        if envelope.recovery is None:
            return frozenset({"deliver_completed"})
        # A part was done and the rest was not: a result, and a call that does not run again as it is.
        rest = "inspect_only" if envelope.recovery is Recovery.INSPECT_OUTCOME else "block"
        return frozenset({"deliver_completed", rest})
    if envelope.recovery is Recovery.INSPECT_OUTCOME:
        return frozenset({"inspect_only"})
    return frozenset({"block"})


def _scopes(hold: Hold | None) -> frozenset[str]:
    if hold is None:
        return frozenset()
    if hold.precondition is not None:
        return frozenset({"precondition"})
    found = {hold.scope.value}
    if hold.scope is Scope.RULE:
        found.add(f"rule:{hold.value}")
    if hold.scope is Scope.QUOTA:
        found.add(f"quota:{hold.value}")
    if hold.fields:
        # It covers only calls that leave every named field as it was.
        found.add("fields")
    return frozenset(found)


def _safe(envelope: Envelope) -> Mapping[str, object]:
    """Return what an envelope shows, by the names of the contract; declared body fields come first."""
    shown: dict[str, object] = {
        "code": envelope.code,
        "recovery": None if envelope.recovery is None else str(envelope.recovery),
        "constraint": envelope.constraint,
        "limit": envelope.limit,
        "remaining": envelope.remaining,
        "required_permission": envelope.required_permission,
        "approval_url": envelope.approval_url,
        "http_status": envelope.http_status,
        "operation": envelope.operation,
        "alternative_tools": list(envelope.alternative_tools),
        "invalid_fields": [field.name for field in envelope.invalid_fields],
        "reset_at": None if envelope.reset_at is None else envelope.reset_at.isoformat(),
        "retry_after_seconds": envelope.retry_after_seconds,
        "effects_before_failure": envelope.effects_before_failure,
    }
    if envelope.precondition is not None:
        shown["precondition"] = envelope.precondition.tool
    shown.update(dict(envelope.safe_fields))
    return shown
