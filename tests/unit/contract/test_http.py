"""HTTP answers: statuses, rules of the author, safe fields, redirects, effects, registered body forms, bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forbear.contract import Http, RequestFacts, header_pairs, tool_policy
from forbear.core.view import view_text
from forbear.core.vocabulary import Effect, Executed, Outcome, Recovery

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
KNOWN = (400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 425,
         426, 428, 429, 431, 451, 501, 505, 508, 511)  # fmt: skip


def http(status: int, *headers: tuple[str, str], body: object = "", **more: Any) -> Http:
    """Return an answer."""
    return Http(status=status, headers=headers, body=body, **more)


@pytest.mark.parametrize("status", sorted({*range(-1, 1000, 7), *KNOWN, 2**70}))
@pytest.mark.parametrize("effect", list(Effect))
def test_no_status_makes_a_write_permissive(judge: Any, status: int, effect: Effect) -> None:
    """A status that says nothing about execution never lets a write or an unlabelled tool run again."""
    envelope = judge(http(status), effect.value)
    if effect is not Effect.READ and status not in KNOWN and not 200 <= status <= 299:
        assert envelope.recovery in (Recovery.INSPECT_OUTCOME, Recovery.DO_NOT_RETRY)
    if envelope.recovery is Recovery.INSPECT_OUTCOME:
        assert envelope.executed is Executed.UNKNOWN
    if envelope.recovery is not None:
        assert envelope.safe_message
        assert envelope.code


def test_an_unlabelled_tool_is_judged_like_a_write(judge: Any) -> None:
    """Undeclared and write agree on every status."""
    for status in (408, 409, 429, 500, 502, 503, 504, 404, 202, 303):
        assert judge(http(status), "undeclared").recovery is judge(http(status), "write").recovery


def test_an_answer_of_an_unknown_kind_is_executed_unknown(judge: Any) -> None:
    """A read that failed without a word about execution is not called "not executed"."""
    assert judge(http(500)).executed is Executed.UNKNOWN
    assert judge(http(429)).executed is Executed.NO
    assert judge(http(504)).outcome is Outcome.TIMEOUT


def test_temporary_is_said_truthfully(judge: Any) -> None:
    """A broken service is temporary, a limit is not: they have different numbers of automatic executions."""
    assert judge(http(503)).temporary
    assert not judge(http(429)).temporary
    assert not judge(http(500), "write").temporary


@pytest.mark.parametrize(
    ("idempotent", "key", "headers", "repeated"),
    [
        (False, False, (), False),
        (False, True, (), False),
        (False, False, (("Retry-After", "5"),), False),
        (False, True, (("Retry-After", "5"),), True),
        (True, False, (), True),
        (True, True, (), True),
    ],
)
def test_503_on_a_write(
    judge: Any, headers: tuple[tuple[str, str], ...], *, idempotent: bool, key: bool, repeated: bool
) -> None:
    """A write is repeated after 503 only where the author declared that it may be, or the key and the time say so."""
    request = RequestFacts(idempotent=idempotent, idempotency_key=key)
    recovery = judge(http(503, *headers, request=request), "write").recovery
    assert recovery is (Recovery.RETRY_AFTER if repeated else Recovery.INSPECT_OUTCOME)


def test_a_declared_repeatable_write_may_be_repeated(judge: Any) -> None:
    """`repeatable = True` is the author's word that a second execution does no harm."""
    policy = tool_policy("set_state", effect="write", repeatable=True)
    assert judge(http(504), policy).recovery is Recovery.RETRY_AFTER
    assert judge(http(409), policy).recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize("status", [200, 201, 204, 400, 401, 403, 404, 422, 429, 500, 503])
def test_after_a_redirect_a_status_proves_nothing_about_a_write(judge: Any, status: int) -> None:
    """The status belongs to the second hop; the first may have done the write."""
    envelope = judge(http(status, request=RequestFacts(redirected=True, idempotent=True)), "write")
    assert (envelope.recovery, envelope.http_status) == (Recovery.INSPECT_OUTCOME, None)
    assert judge(http(status, request=RequestFacts(redirected=True))).recovery is judge(http(status)).recovery


def test_delete_that_finds_nothing_is_looked_at(judge: Any) -> None:
    """404 to a DELETE may be the own earlier call."""
    assert judge(http(404, method="delete"), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(http(404, method="PATCH"), "write").recovery is Recovery.REPAIR_INPUT


@pytest.mark.parametrize(
    ("headers", "recovery"),
    [
        ((), Recovery.DO_NOT_RETRY),
        ((("Retry-After", "60"),), Recovery.RETRY_AFTER),
        ((("Retry-After", "soon"),), Recovery.DO_NOT_RETRY),
        ((("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")), Recovery.RETRY_AFTER),
        ((("x-ratelimit-remaining", "5"), ("x-ratelimit-reset", "60")), Recovery.DO_NOT_RETRY),
        ((("RateLimit", '"a";r=0;t=60'),), Recovery.RETRY_AFTER),
    ],
)
def test_403_is_a_limit_only_with_a_sign_of_one(judge: Any, headers: Any, recovery: Recovery) -> None:
    """A 403 is final unless a time or an exhausted quota stands beside it."""
    envelope = judge(http(403, *headers), "write")
    assert envelope.recovery is recovery
    if recovery is Recovery.RETRY_AFTER:
        assert (envelope.reset_at, envelope.executed) == (NOW + timedelta(seconds=60), Executed.NO)


def test_413_and_423_with_a_time_are_temporary(judge: Any) -> None:
    """RFC 9110 15.5.14: Retry-After marks a 413 as temporary; a lock with a named end ends."""
    for status in (413, 423):
        assert judge(http(status, ("Retry-After", "5")), "write").reset_at == NOW + timedelta(seconds=5)
        assert judge(http(status), "write").reset_at is None


def test_rate_headers_of_a_failure_count_only_when_used_up(judge: Any) -> None:
    """A quota's reset delays the second look at a failed read only where the quota is said to be used up."""
    reset = ("X-RateLimit-Reset", "60")
    assert judge(http(500, reset)).reset_at is None
    assert judge(http(500, reset, ("X-RateLimit-Remaining", "0"))).reset_at == NOW + timedelta(seconds=60)


def test_too_far_is_final(judge: Any) -> None:
    """An end more than 31 days ahead is not scheduled."""
    envelope = judge(http(429, ("Retry-After", "2678401")))
    assert (envelope.recovery, envelope.code, envelope.reset_at) == (Recovery.DO_NOT_RETRY, "RETRY_TOO_FAR", None)


# ---- rules of the author ---------------------------------------------------------------------------------------------

MEMBER = tool_policy(
    "add_to_list",
    effect="write",
    status_rules=[
        {"status": 422, "code": "already_member", "outcome": "already_satisfied"},
        {"status": 409, "code": "exists", "outcome": "already_satisfied", "only_if_equal": ["title", "owner"]},
        {"status": 409, "code": "merge_conflict", "recovery": "repair_input", "as_code": "MERGE_CONFLICT"},
        {"status": 418, "recovery": "retry_after"},
    ],
)
OURS = {"title": "T", "owner": "u1"}


@pytest.mark.parametrize(
    ("status", "body", "outcome", "recovery", "code"),
    [
        (422, {"code": "already_member"}, Outcome.ALREADY_SATISFIED, None, ""),
        (422, {"code": "other"}, Outcome.INVALID, Recovery.REPAIR_INPUT, "INPUT_INVALID"),
        (409, {"code": "exists", **OURS}, Outcome.ALREADY_SATISFIED, None, ""),
        (409, {"code": "exists", "title": "T", "owner": "u2"}, Outcome.INVALID, Recovery.REPAIR_INPUT, "CONFLICT"),
        (409, {"code": "exists", "title": "T"}, Outcome.INVALID, Recovery.REPAIR_INPUT, "CONFLICT"),
        (409, {"error": {"code": "merge_conflict"}}, Outcome.INVALID, Recovery.REPAIR_INPUT, "MERGE_CONFLICT"),
        (409, {"code": "unheard"}, Outcome.UNKNOWN, Recovery.INSPECT_OUTCOME, "CONFLICT"),
        (418, "", Outcome.REFUSED, Recovery.RETRY_AFTER, "TEMPORARY_FAILURE"),
    ],
)
def test_status_rules(
    judge: Any, status: int, body: object, outcome: Outcome, recovery: Recovery | None, code: str
) -> None:
    """A rule that names status and code decides; where its body fields differ from the arguments it is a conflict."""
    envelope = judge(http(status, body=body), MEMBER, OURS)
    assert (envelope.outcome, envelope.recovery, envelope.code) == (outcome, recovery, code)


def test_a_conflict_compares_types(judge: Any) -> None:
    """1, 1.0, true and "1" are four values: none of them is another one's confirmation."""
    policy = tool_policy(
        "t", effect="write",
        status_rules=[{"status": 409, "outcome": "already_satisfied", "only_if_equal": ["n"]}],
    )  # fmt: skip
    for theirs in (1.0, True, "1", None):
        assert judge(http(409, body={"n": theirs}), policy, {"n": 1}).code == "CONFLICT"
    assert judge(http(409, body={"n": 1}), policy, {"n": 1}).outcome is Outcome.ALREADY_SATISFIED
    assert judge(http(409, body={}), policy, {}).code == "CONFLICT"


def test_a_rules_wait_keeps_its_time(judge: Any) -> None:
    """A status that the author calls a limit gets the time that the answer names."""
    assert judge(http(418, ("Retry-After", "9")), MEMBER).reset_at == NOW + timedelta(seconds=9)


def test_safe_fields_pass_by_type(judge: Any) -> None:
    """Declared body fields pass by type or by value, and nothing else of the body does."""
    policy = tool_policy(
        "add_comment",
        effect="write",
        safe_fields={"code": ["insufficient_scope"], "required": "text", "left": "number", "final": "boolean"},
    )
    body = {
        "code": "insufficient_scope", "required": "comments:write", "left": 3, "final": True, "token": "planted-1",
        "message": "planted-2",
    }  # fmt: skip
    envelope = judge(http(403, body=body), policy)
    assert dict(envelope.safe_fields) == {
        "code": "insufficient_scope", "required": "comments:write", "left": 3, "final": True,
    }  # fmt: skip
    assert "planted" not in view_text(envelope)
    wrong = {"code": "planted", "required": "see https://x.example", "left": "3", "final": 1}
    assert judge(http(403, body=wrong), policy).safe_fields == ()
    assert judge(http(403, body={"required": "x" * 65}), policy).safe_fields == ()


def test_a_declared_code_refines_within_its_class(judge: Any) -> None:
    """A body code that the catalogue knows names the refusal, but never changes its class."""
    policy = tool_policy("t", effect="read", safe_fields=["code"])
    assert judge(http(429, body={"code": "quota_exhausted"}), policy).code == "QUOTA_EXHAUSTED"
    assert judge(http(429, body={"code": "access_denied"}), policy).code == "RATE_LIMITED"
    assert judge(http(429, body={"code": "waiting"}), policy).code == "RATE_LIMITED"
    assert judge(http(429, body={"code": "quota_exhausted"})).code == "RATE_LIMITED"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"errors": [{"field": "qty", "code": "min"}]}, ["qty"]),
        ({"errors": [{"pointer": "#/qty"}, {"pointer": "/lines/0/sku"}]}, ["qty", "/lines/0/sku"]),
        ({"error": {"param": "qty"}}, ["qty"]),
        ({"detail": [{"loc": ["body", "qty"], "msg": "no"}]}, ["qty"]),
        ({"errors": [{"field": "planted-secret"}, {"pointer": "/planted/x"}]}, []),
        ({"errors": [{"field": ["qty"]}]}, ["qty"]),
        ({"errors": "qty"}, []),
    ],
)
def test_field_names_pass_where_the_input_knows_them(judge: Any, body: object, fields: list[str]) -> None:
    """A named field passes only where the call or the pinned schema has it."""
    envelope = judge(http(422, body=body), "write", {"qty": 0, "lines": [{"sku": "a"}]})
    assert [field.name for field in envelope.invalid_fields] == fields


def test_text_rules_apply_below_500(judge: Any) -> None:
    """A text rule reads an answered result, not the page of a broken gateway."""
    policy = tool_policy("t", effect="write", text_rules=[{"prefix": "Busy", "recovery": "retry_after"}])
    assert judge(http(200, body="Busy, come back"), policy).recovery is Recovery.RETRY_AFTER
    assert judge(http(502, body="Busy, come back"), policy).recovery is Recovery.INSPECT_OUTCOME


def test_effects_before_failure_forbid_repeating(judge: Any) -> None:
    """Where something was applied before the failure, nothing in the answer makes the call repeatable."""
    for status, headers in ((429, (("Retry-After", "5"),)), (422, ()), (500, ())):
        envelope = judge(http(status, *headers, effects_before_failure=True), "write")
        assert envelope.recovery is Recovery.INSPECT_OUTCOME
        assert envelope.effects_before_failure
        assert envelope.reset_at is None
    assert judge(http(429, effects_before_failure=True)).recovery is Recovery.DO_NOT_RETRY
    assert judge(http(403, effects_before_failure=True), "write").executed is Executed.UNKNOWN


# ---- completed answers and registered forms --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "effect", "outcome"),
    [
        (200, '{"a":1}', "read", Outcome.SUCCESS),
        (200, "[]", "read", Outcome.EMPTY),
        (200, "[]", "write", Outcome.SUCCESS),
        (200, "", "read", Outcome.EMPTY),
        (204, "", "write", Outcome.SUCCESS),
        (200, "<html>", "read", Outcome.SUCCESS),
        (202, "", "read", Outcome.SUCCESS),
        (202, "", "write", Outcome.PENDING),
        (207, "", "read", Outcome.PARTIAL),
        (207, "", "write", Outcome.PARTIAL),
        (304, "", "read", Outcome.SUCCESS),
    ],
)
def test_completed(judge: Any, status: int, body: str, effect: str, outcome: Outcome) -> None:
    """A 2xx is completed, empty, partial or unfinished; only the last two of a write are looked at."""
    envelope = judge(http(status, body=body), effect)
    assert envelope.outcome is outcome
    looked_at = effect == "write" and status in (202, 207)
    assert envelope.recovery is (Recovery.INSPECT_OUTCOME if looked_at else None)


@pytest.mark.parametrize(
    ("body", "effect", "recovery", "outcome"),
    [
        ('{"errors":[{"message":"x"}]}', "write", Recovery.REPAIR_INPUT, Outcome.INVALID),
        ('{"data":{"a":1},"errors":[{"message":"x"}]}', "read", None, Outcome.PARTIAL),
        ('{"data":{"a":1},"errors":[{"message":"x"}]}', "write", Recovery.INSPECT_OUTCOME, Outcome.PARTIAL),
        ('{"data":null,"errors":[{"message":"x"}]}', "read", Recovery.REPAIR_INPUT, Outcome.FAILED),
        ('{"data":null,"errors":[{"message":"x"}]}', "write", Recovery.INSPECT_OUTCOME, Outcome.PARTIAL),
        ('{"errors":[],"data":{"a":1}}', "read", None, Outcome.SUCCESS),
        ('{"errors":[{"message":"x"}],"id":7}', "write", None, Outcome.SUCCESS),
        ('{"errors":["x"]}', "write", None, Outcome.SUCCESS),
    ],
)
def test_graphql(judge: Any, body: str, effect: str, recovery: Recovery | None, outcome: Outcome) -> None:
    """GraphQL errors inside 200: a request error ran nothing, a mutation with errors is looked at."""
    envelope = judge(http(200, ("Content-Type", "application/json"), body=body), effect)
    assert (envelope.recovery, envelope.outcome) == (recovery, outcome)


def test_status_and_problem_disagree(judge: Any) -> None:
    """A problem document under 200 is not a success, and a problem's own status does not soften the real one."""
    problem = ("Content-Type", "application/problem+json")
    assert judge(http(200, problem, body='{"type":"about:blank"}'), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(http(200, problem, body='{"type":"about:blank"}')).recovery is Recovery.DO_NOT_RETRY
    assert judge(http(500, problem, body='{"type":"about:blank","status":429}'), "write").recovery is (
        Recovery.INSPECT_OUTCOME
    )


def test_registered_problem_types_need_their_media_type(judge: Any) -> None:
    """A registered type decides only in a problem document and only at the statuses that it is registered for."""
    body = '{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}'
    assert judge(http(429, ("Content-Type", "application/json"), body=body)).recovery is Recovery.RETRY_AFTER
    problem = ("Content-Type", "application/problem+json; charset=utf-8")
    assert judge(http(429, problem, body=body)).recovery is Recovery.DO_NOT_RETRY
    assert judge(http(503, problem, body=body), "write").recovery is Recovery.INSPECT_OUTCOME


def test_the_contract_in_a_body(judge: Any) -> None:
    """A tool that speaks the contract over HTTP is obeyed, but a worse status wins; another one's words are data."""
    body = {"ok": False, "error": {"code": "QUOTA_EXHAUSTED", "recovery": "retry_after"}}
    speaking = tool_policy("t", effect="write", trust="remote", speaks_contract=True)
    assert judge(http(200, body=body), speaking).code == "QUOTA_EXHAUSTED"
    assert judge(http(500, body=body), speaking).recovery is Recovery.INSPECT_OUTCOME
    assert judge(http(403, body=body), speaking).recovery is Recovery.DO_NOT_RETRY
    for silent in (tool_policy("t", effect="write", trust="remote"), tool_policy("t", effect="write")):
        # A protocol's answer is not the value of an in-process function, whoever owns the tool.
        assert judge(http(200, body=body), silent).recovery is None


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "5"}, [("Retry-After", "5")], [(b"Retry-After", b"5")], (["Retry-After", 5],)],
    ids=["mapping", "pairs", "bytes", "number"],
)
def test_header_pairs_take_what_clients_have(judge: Any, headers: object) -> None:
    """Header fields in the forms of common clients are read alike."""
    assert judge(http(429, *header_pairs(headers))).reset_at == NOW + timedelta(seconds=5)


@pytest.mark.parametrize("headers", [None, 5, "Retry-After: 5", [1, ("a",), ("b", object())], object()])
def test_header_pairs_never_raise(headers: object) -> None:
    """What is no header field is left out."""
    assert header_pairs(headers) == ()
