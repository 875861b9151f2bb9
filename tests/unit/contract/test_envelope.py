"""Dialects: aliases, derivation of what is absent, strictness, and round trips."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import read_counted, read_envelope, write_envelope
from forbear.contract.envelope import ERROR_FIELDS, is_contract
from forbear.contract.findings import found
from forbear.core.values import Envelope, InvalidField, Precondition
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import ContractError, UsageError


def error(**members: object) -> dict[str, object]:
    """Return a nested refusal with these members."""
    return {"ok": False, "error": {"code": "X_CLOSED", **members}}


@pytest.mark.parametrize(
    ("word", "recovery"),
    [*((word.value, word) for word in Recovery), ("retry_after_delay", Recovery.RETRY_AFTER),
     ("stop_and_report", Recovery.DO_NOT_RETRY)],
)  # fmt: skip
def test_words_of_both_dialects(word: str, recovery: Recovery) -> None:
    """Each word of both vocabularies is read, in both dialects."""
    assert read_envelope(error(recovery=word), strict=True).recovery is recovery
    assert read_envelope({"ok": False, "code": "X_CLOSED", "action": word}, strict=True).recovery is recovery


def test_aliases() -> None:
    """`retry_at` is `reset_at`, `field_errors` is `invalid_fields`, `message` is `safe_message`."""
    read = read_envelope(
        error(recovery="repair_input", retry_at="2026-09-01T12:00:00Z", field_errors=["qty"], message="No."),
        strict=True,
    )
    assert read.reset_at == datetime(2026, 9, 1, 12, tzinfo=UTC)
    assert read.invalid_fields == (InvalidField(name="qty"),)
    assert read.safe_message == "No."


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (["a", "/b/0"], [("a", "invalid"), ("/b/0", "invalid")]),
        ([{"name": "a", "rule": "required"}, {"field": "b", "code": "min"}], [("a", "required"), ("b", "min")]),
        ([{"pointer": "/a", "rule": "Value 'x' is bad"}], [("/a", "invalid")]),
        ({"a": "required", "b": "must not be hunter2"}, [("a", "required"), ("b", "invalid")]),
    ],
)
def test_invalid_fields_hold_names_and_rule_words_only(given: object, fields: list[tuple[str, str]]) -> None:
    """Whatever stands beside a field's name is dropped unless it is a rule word."""
    read = read_envelope(error(recovery="repair_input", invalid_fields=given), strict=True)
    assert [(one.name, one.rule) for one in read.invalid_fields] == fields


@pytest.mark.parametrize(
    ("value", "executed"),
    [
        (error(recovery="do_not_retry"), Executed.NO),
        (error(recovery="inspect_outcome"), Executed.UNKNOWN),
        (error(recovery="do_not_retry", effects_before_failure=True), Executed.UNKNOWN),
        ({**error(recovery="do_not_retry"), "outcome": "timeout"}, Executed.UNKNOWN),
        ({**error(recovery="do_not_retry"), "outcome": "cancelled"}, Executed.UNKNOWN),
        ({**error(recovery="do_not_retry"), "outcome": "timeout", "executed": "no"}, Executed.NO),
        ({"ok": True, "outcome": "success", "data": 1}, Executed.YES),
        ({"ok": True, "outcome": "pending"}, Executed.UNKNOWN),
    ],
)
def test_executed_is_derived_where_absent(value: object, executed: Executed) -> None:
    """A result that does not say whether it ran is never read as "not executed" where it may have."""
    assert read_envelope(value, strict=True).executed is executed


def test_a_class_is_derived_from_the_code() -> None:
    """Without a class the catalogue's default counts; without that, an uncertain outcome is looked at."""
    assert read_envelope({"ok": False, "error": {"code": "RATE_LIMITED"}}).recovery is Recovery.RETRY_AFTER
    assert read_envelope(error()).recovery is Recovery.DO_NOT_RETRY
    assert read_envelope({**error(), "outcome": "unknown"}).recovery is Recovery.INSPECT_OUTCOME


def test_a_class_counts_without_a_readable_code() -> None:
    """A code in a foreign form is dropped where the class says what to do, and gets the class's own code."""
    envelope, dropped = read_counted({"ok": False, "error": {"code": "E-42: no", "recovery": "do_not_retry"}})
    assert (envelope.recovery, envelope.code, dropped) == (Recovery.DO_NOT_RETRY, "UPSTREAM_REFUSED", 1)
    with pytest.raises(ContractError):
        read_envelope({"ok": False, "error": {"code": "E-42: no", "recovery": "do_not_retry"}}, strict=True)


def test_retryable_is_never_trusted() -> None:
    """`retryable` does not loosen what the action says."""
    flat = {"ok": False, "code": "AUTH_FAILED", "action": "stop_and_report", "retryable": True}
    assert read_envelope(flat, strict=True).recovery is Recovery.DO_NOT_RETRY
    assert read_envelope({"ok": False, "code": "ODD", "retryable": True}).recovery is Recovery.DO_NOT_RETRY


@pytest.mark.parametrize(
    "value",
    [
        {**error(recovery="do_not_retry"), "trace": "x"},
        error(recovery="do_not_retry", headers={}),
        error(recovery="do_not_retry", limit="25"),
        error(recovery="do_not_retry", reset_at="2026-09-01T12:00:00"),
        error(recovery="do_not_retry", retry_after_seconds=-1),
        error(recovery="do_not_retry", http_status=42),
        {"ok": False, "code": "X_CLOSED", "action": "do_not_retry", "body": "…"},
    ],
)
def test_strict_rejects_what_lenient_drops_and_counts(value: dict[str, Any]) -> None:
    """An unknown field or a wrong type is an error in strict mode, else dropped and counted once."""
    with pytest.raises(ContractError):
        read_envelope(value, strict=True)
    envelope, dropped = read_counted(value)
    assert (envelope.recovery, dropped) == (Recovery.DO_NOT_RETRY, 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "ok",
        {},
        {"ok": False},
        {1: 2},
        {"ok": "no", "error": {"code": "X"}},
        {"ok": True, "outcome": "refused"},
        {"ok": True, "error": {"code": "X_CLOSED", "recovery": "do_not_retry"}},
        {"ok": False, "outcome": "success", "error": {"code": "X_CLOSED"}},
        {"ok": False, "outcome": "meh", "error": {"code": "X_CLOSED"}},
        {"ok": False, "executed": "maybe", "error": {"code": "X_CLOSED"}},
        {"ok": False, "error": {"code": "X", "recovery": "retry_forever"}},
        {"ok": False, "error": {"code": "no code at all"}},
        {"ok": False, "error": {"code": "X", "effects_before_failure": "yes"}},
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_what_would_change_the_meaning_is_never_dropped(value: object, *, strict: bool) -> None:
    """A word that nobody defined, or a contradiction, is an error in both modes."""
    with pytest.raises(ContractError):
        read_envelope(value, strict=strict)


def test_errors_name_field_and_rule_but_no_value() -> None:
    """A message of the reader holds no value of the text that it read."""
    with pytest.raises(ContractError, match="'limit' must be a number") as raised:
        read_envelope(error(recovery="do_not_retry", limit="planted-secret"), strict=True)
    assert "planted-secret" not in str(raised.value)


def test_foreign_problem_details() -> None:
    """A problem of an unknown type is read by its status as a write would take it; its prose is not read."""
    envelope, dropped = read_counted(
        {"type": "https://api.example/probs/out-of-credit", "title": "No", "detail": "call +1 555", "status": 403,
         "balance": 30}
    )  # fmt: skip
    assert (envelope.recovery, envelope.http_status, dropped) == (Recovery.DO_NOT_RETRY, 403, 1)
    assert envelope.safe_message is None
    assert read_envelope({"type": "about:blank", "status": 503}).recovery is Recovery.INSPECT_OUTCOME
    assert read_envelope({"title": "?"}).recovery is Recovery.INSPECT_OUTCOME


names = st.text("abcdefghijklmnop_/0", min_size=1, max_size=20)
refusals = st.builds(
    Envelope,
    outcome=st.sampled_from([Outcome.REFUSED, Outcome.INVALID, Outcome.UNKNOWN, Outcome.TIMEOUT, Outcome.PARTIAL]),
    executed=st.sampled_from(list(Executed)),
    request_id=st.sampled_from(["", "act_0123456789abcdef"]),
    code=st.sampled_from(["RATE_LIMITED", "DESK_FROZEN_BY_OWNER"]),
    recovery=st.sampled_from(list(Recovery)),
    constraint=st.none() | names,
    limit=st.none() | st.integers(0, 10**9) | st.floats(0, 1e9),
    remaining=st.none() | st.integers(0, 10**9),
    reset_at=st.none()
    | st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
    retry_after_seconds=st.none() | st.integers(0, 10**6),
    invalid_fields=st.lists(st.builds(InvalidField, name=names, rule=st.sampled_from(["invalid", "required"]))).map(
        lambda fields: tuple(fields[:16])
    ),
    precondition=st.none() | st.just(Precondition(tool="read_note", arguments='{"path":"a"}')),
    alternative_tools=st.lists(names, max_size=4).map(tuple),
    required_permission=st.none() | names,
    approval_url=st.none() | st.just("https://a.example/x"),
    http_status=st.none() | st.integers(100, 599),
    operation=st.none() | names,
    safe_message=st.none() | st.text(min_size=1, max_size=100),
    effects_before_failure=st.booleans(),
)


@given(envelope=refusals, dialect=st.sampled_from(["nested", "flat", "problem"]))
def test_round_trip(envelope: Envelope, dialect: str) -> None:
    """Every field of the contract survives writing, JSON and strict reading in every dialect."""
    text = json.dumps(write_envelope(envelope, dialect=dialect))
    assert read_envelope(json.loads(text), strict=True) == envelope


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.EMPTY, Outcome.PARTIAL, Outcome.ALREADY_SATISFIED])
@pytest.mark.parametrize("dialect", ["nested", "flat"])
def test_completed_results_carry_their_value(outcome: Outcome, dialect: str) -> None:
    """A completed result is written with the tool's own value and has no error."""
    written = write_envelope(Envelope(outcome=outcome, executed=Executed.YES, reason="NO_MATCHES"), [1], dialect)
    assert (written["ok"], written["data"], written["meta"]) == (True, [1], {"reason": "NO_MATCHES"})
    assert "error" not in written
    assert read_envelope(written, strict=True).outcome is outcome


def test_wrong_dialects() -> None:
    """A dialect that does not exist, or has no form for a result, is a misuse."""
    with pytest.raises(UsageError):
        write_envelope(found(Recovery.DO_NOT_RETRY), dialect="xml")
    with pytest.raises(UsageError):
        write_envelope(Envelope(outcome=Outcome.SUCCESS, executed=Executed.YES), dialect="problem")


@pytest.mark.parametrize(
    ("value", "claims"),
    [
        ({"ok": True}, False),
        ({"ok": True, "id": 7}, False),
        ({"ok": True, "outcome": "win"}, False),
        ({"ok": False, "error": "no such order"}, False),
        ({"action": "buy", "code": "X"}, False),
        ({"ok": True, "outcome": "empty"}, True),
        ({"ok": False, "error": {"code": "X", "recovery": "?"}}, True),
        ({"code": "READ_FIRST", "recovery": "repair_input"}, True),
        ({"error": {"code": "READ_FIRST", "recovery": "repair_input"}}, True),
        ({"ok": False, "error": {"recovery": "repair_input"}}, True),
        ({"error": {"code": "E1", "message": "no"}}, False),
        ({"error": {"code": "E1", "recovery": "two weeks"}}, False),
        ([], False),
        (None, False),
    ],
)
def test_only_the_contracts_form_claims_to_be_the_contract(value: object, *, claims: bool) -> None:
    """A tool's ordinary value with similar words stays a value."""
    assert is_contract(value) is claims


def test_the_allowlist_is_the_envelopes() -> None:
    """Every field of the contract's error object is a field of the envelope."""
    assert set(Envelope.__slots__) >= ERROR_FIELDS


@pytest.mark.parametrize("error", ["ORDER_LIMIT", ["ORDER_LIMIT"], 7, True])
def test_an_error_that_is_no_object_is_no_envelope(error: object) -> None:
    """An outcome beside an error of another type is an unreadable envelope, not an exception of another kind."""
    with pytest.raises(ContractError, match="'error' must be an object"):
        read_envelope({"ok": False, "outcome": "refused", "error": error})
    assert read_envelope({"ok": True, "outcome": "success", "error": ""}).outcome is Outcome.SUCCESS
