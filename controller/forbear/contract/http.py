"""Judge an HTTP answer by vendor-neutral rules: RFC 9110, 6585, 8470, 4918, 9457, the RateLimit draft, GraphQL.

Vendors are data in `profiles/`. Free text is never read. What a status says is a table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from forbear.contract import findings as f
from forbear.contract.admit import admitted
from forbear.contract.body import (
    UNREADABLE,
    is_empty,
    is_empty_text,
    is_mapping,
    items,
    member,
    parsed,
    text_of,
)
from forbear.contract.case import Case
from forbear.contract.findings import found, stricter, timed
from forbear.contract.hints import Ends, Fields, base_of, ends_of
from forbear.contract.raw import ABSENT, Http
from forbear.contract.rules import answered_error, by_status, by_text, codes_in, fields_in, safe_fields
from forbear.contract.statuses import STATUSES, TIMEOUTS, UNKNOWN_OUTCOME
from forbear.contract.time import Hint
from forbear.core.values import Envelope
from forbear.core.vocabulary import Executed, Outcome, Recovery

_STOP: Final = Recovery.DO_NOT_RETRY
_WAIT: Final = Recovery.RETRY_AFTER
_REPAIR: Final = Recovery.REPAIR_INPUT
_LOOK: Final = Recovery.INSPECT_OUTCOME

_PROBLEMS: Final = "assignments/http-problem-types#"


def classify_http(http: Http, case: Case) -> Envelope:
    """Return what an HTTP answer means."""
    fields = Fields(http.headers)
    base = base_of(fields, case.now)
    ends = ends_of(fields, base)
    body = parsed(http.body)
    redirected = http.request.redirected and case.writes
    # After a redirect the status belongs to the second hop; the first may have done the write.
    envelope = found(_LOOK) if redirected else _judge(http, case, fields, ends, body)
    if envelope.recovery is None:
        return envelope
    if http.effects_before_failure:
        envelope = f.after_effects(envelope, case.effect)
    return replace(
        envelope,
        http_status=http.status if 100 <= http.status <= 599 and not redirected else None,
        safe_fields=safe_fields(case, body),
    )


def _judge(http: Http, case: Case, fields: Fields, ends: Ends, body: object) -> Envelope:
    ruled = by_status(case, http.status, body)
    if ruled is None and http.status == 404 and http.protocol.lower().startswith("mcp"):
        # The session is gone (MCP, Streamable HTTP, session management): the request never reached a tool.
        return found(_WAIT, "NOT_SENT", outcome=Outcome.FAILED, temporary=True, not_accepted=True)
    if ruled is None and http.status < 500 and case.policy.text_rules:
        ruled = by_text(case, text_of(http.body), body)
    if ruled is not None:
        return timed(ruled, ends.hint())
    if case.speaks_contract and not isinstance(body, type(UNREADABLE)):
        said = admitted(body, case)
        if said is not None:
            return said if http.status < 400 else stricter(said, neutral(http, case, fields, ends, body))
    if case.profile is not None:
        return case.profile.judge(http, case, fields, ends, body)
    return neutral(http, case, fields, ends, body)


def neutral(http: Http, case: Case, fields: Fields, ends: Ends, body: object) -> Envelope:
    """Return what an answer means by its status, the neutral header fields and registered body forms."""
    status = http.status
    if 200 <= status <= 299:
        return _completed(http, case, fields, body)
    if 300 <= status <= 399:
        return _redirect(status, case)
    problem = _problem(http, case, fields, body)
    if problem is not None:
        return timed(problem, ends.hint())
    if status in UNKNOWN_OUTCOME:
        return _unanswered(http, case, ends)
    row = STATUSES.get(status)
    if row is None:
        return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
    recovery, code = row[1] if case.writes else row[0], row[2]
    if status == 404 and case.writes and http.method.upper() == "DELETE":
        # Gone, maybe by our own earlier call.
        return found(_LOOK, "NOT_FOUND")
    if status == 403 and (ends.asked is not None or ends.exhausted):
        recovery, code = _WAIT, "RATE_LIMITED"
    elif status in (413, 423) and ends.asked is not None:
        recovery, code = _WAIT, "TEMPORARY_FAILURE"
    if recovery is _WAIT:
        if code == "RATE_LIMITED":
            return timed(found(_WAIT, _body_code(case, body, _WAIT) or code), ends.hint())
        return timed(found(_WAIT, code, temporary=True, outcome=Outcome.FAILED), _explicit(ends))
    named = fields_in(case, body) if recovery is _REPAIR else ()
    return found(recovery, _body_code(case, body, recovery) or code, fields=named)


def _explicit(ends: Ends) -> Hint | None:
    """Return the end of a failure that is no quota: only what was asked for, or a quota that is used up as well."""
    if ends.asked is not None:
        return ends.asked
    return ends.resets if ends.exhausted else None


def _body_code(case: Case, body: object, recovery: Recovery) -> str:
    """Return a code of the body that the author declared safe and the catalogue knows for the same class."""
    if "code" not in case.policy.safe_fields:
        return ""
    for text in codes_in(body)[:4]:
        code = text.upper()
        entry = case.catalogue.get(code)
        if entry is not None and entry.owner == "any" and entry.recovery is recovery:
            return code
    return ""


def _unanswered(http: Http, case: Case, ends: Ends) -> Envelope:
    """Judge a status that says nothing about execution."""
    request = http.request
    # 503 with a time is refused where a second request is harmless or the upstream recognises it by its key.
    harmless = case.may_repeat or request.idempotent
    keyed = http.status == 503 and ends.asked is not None and request.idempotency_key
    outcome = Outcome.TIMEOUT if http.status in TIMEOUTS else Outcome.UNKNOWN
    return timed(f.no_answer(case.effect, may_repeat=harmless or keyed, outcome=outcome), _explicit(ends))


def _redirect(status: int, case: Case) -> Envelope:
    """Judge a redirect that was not followed."""
    if status == 304:
        return f.SUCCESS if not case.writes else found(_LOOK)
    if case.writes and status not in (307, 308):
        # 303, and by long custom 301 and 302, usually answer a write that was done.
        return found(_LOOK)
    return found(_STOP, "UPSTREAM_REFUSED")


def _problem(http: Http, case: Case, fields: Fields, body: object) -> Envelope | None:
    """Judge by a registered problem type (RFC 9457, RateLimit draft, Idempotency-Key draft); None = no such type."""
    kind = member(body, "type")
    if not isinstance(kind, str) or "problem+json" not in (fields.first("content-type") or "").lower():
        return None
    status = http.status
    if kind.lower().rstrip("/").endswith("/idempotency") and status in (400, 409, 422):
        if status == 400:
            return found(_STOP, "TOOL_MISCONFIGURED")
        return found(_LOOK, "STILL_RUNNING", outcome=Outcome.PENDING) if status == 409 else found(_LOOK)
    _, registered, name = kind.partition(_PROBLEMS)
    if not registered or not kind.startswith("https://iana.org/"):
        return None
    if name == "abnormal-usage-detected" and 400 <= status <= 499:
        return found(_STOP, "UPSTREAM_REFUSED")
    if name == "quota-exceeded" and status in (403, 429):
        return found(_WAIT, "QUOTA_EXHAUSTED")
    if name == "temporary-reduced-capacity" and status == 429:
        return found(_WAIT, "TEMPORARY_FAILURE", temporary=True)
    return None


def _completed(http: Http, case: Case, fields: Fields, body: object) -> Envelope:
    """Judge a 2xx status."""
    status = http.status
    if "problem+json" in (fields.first("content-type") or "").lower():
        # Status and body contradict each other.
        return f.unknown(case.effect)
    if status == 202:
        if case.writes:
            return found(_LOOK, "STILL_RUNNING", outcome=Outcome.PENDING, executed=Executed.UNKNOWN)
        # Accepted and not finished: that nothing is there yet does not mean that nothing matches.
        return f.SUCCESS
    if status == 207:
        if case.writes:
            return found(_LOOK, "PARTIAL_SUCCESS", outcome=Outcome.PARTIAL)
        return f.PARTIAL
    is_graphql = "graphql" in http.protocol.lower() or "graphql" in (fields.first("content-type") or "").lower()
    said = _graphql(case, body, is_certain=is_graphql)
    if said is not None:
        return said
    if case.writes:
        return f.SUCCESS
    if body is UNREADABLE:
        return f.EMPTY if is_empty_text(text_of(http.body)) else f.SUCCESS
    return f.EMPTY if is_empty(body) else f.SUCCESS


def _graphql(case: Case, body: object, *, is_certain: bool) -> Envelope | None:
    """Judge a GraphQL answer that holds errors; None = it is not one.

    `is_certain` = the caller or the media type says that it is GraphQL; otherwise its form must be exactly that.
    """
    errors = items(member(body, "errors"))
    if not errors:
        return None
    has_messages = all(isinstance(member(error, "message"), str) for error in errors)
    has_form = has_messages and is_mapping(body) and body.keys() <= {"data", "errors", "extensions"}
    if not is_certain and not has_form:
        return None
    answered = member(body, "data")
    if answered is ABSENT:
        # A request error: nothing was executed (GraphQL over HTTP).
        return found(_REPAIR, "INPUT_INVALID")
    if case.writes:
        return found(_LOOK, "PARTIAL_SUCCESS", outcome=Outcome.PARTIAL)
    if is_mapping(answered) and any(value is not None for value in answered.values()):
        return f.PARTIAL
    return answered_error(case)
