"""What a model sees: an allowlist, never empty, bounded, and it says what ends the hold where that helps."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import lint_text
from forbear.core import view as view_module
from forbear.core.values import Envelope, InvalidField, Precondition
from forbear.core.view import MAX_REFUSAL_BYTES, view, view_text
from forbear.core.vocabulary import Executed, Outcome, Recovery

REFUSED = Envelope(
    outcome=Outcome.REFUSED,
    executed=Executed.NO,
    code="DESK_FROZEN_BY_OWNER",
    recovery=Recovery.DO_NOT_RETRY,
    safe_message="This desk is frozen by its owner.",
    request_id="act_" + "0" * 32,
)


def test_a_refusal() -> None:
    """A refusal shows outcome, execution, code, class, text and request id, and nothing that holds nothing."""
    assert view(REFUSED) == {
        "ok": False,
        "outcome": "refused",
        "executed": "no",
        "error": {
            "code": "DESK_FROZEN_BY_OWNER",
            "recovery": "do_not_retry",
            "message": "This desk is frozen by its owner.",
        },
        "request_id": "act_" + "0" * 32,
    }
    assert json.loads(view_text(REFUSED)) == view(REFUSED)
    assert " " not in view_text(replace(REFUSED, safe_message="x"))


def test_completed_results() -> None:
    """A completed result says so, with the reason where it has one."""
    empty = Envelope(outcome=Outcome.EMPTY, executed=Executed.YES, reason="NO_MATCHES", request_id="act_1")
    assert view(empty) == {
        "ok": True, "outcome": "empty", "executed": "yes", "meta": {"reason": "NO_MATCHES"}, "request_id": "act_1",
    }  # fmt: skip
    lost = Envelope(
        outcome=Outcome.ALREADY_SATISFIED, executed=Executed.YES, code="RESULT_NOT_KEPT", safe_message="Done."
    )
    assert view(lost)["meta"] == {"reason": "RESULT_NOT_KEPT", "message": "Done."}
    assert view(Envelope(outcome=Outcome.SUCCESS, executed=Executed.YES)) == {
        "ok": True, "outcome": "success", "executed": "yes",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"recovery": Recovery.RETRY_AFTER, "reset_at": datetime(2026, 9, 6, tzinfo=UTC)}, ("reset_at", "2026-09-06T00:00:00Z")),
        ({"recovery": Recovery.REQUEST_APPROVAL}, ("until", "a person")),
        ({"recovery": Recovery.INSPECT_OUTCOME}, ("until", "a check or a person")),
        ({"recovery": Recovery.REPAIR_INPUT, "invalid_fields": (InvalidField(name="qty"),)}, ("until", "a changed field")),
        ({"recovery": Recovery.REPAIR_INPUT, "precondition": Precondition(tool="read", arguments="{}")},
         ("until", "the precondition")),
        ({"recovery": Recovery.REPAIR_INPUT}, ("until", None)),
        ({"recovery": Recovery.DO_NOT_RETRY}, ("until", None)),
    ],
    ids=["time", "person", "check", "field", "precondition", "bare repair", "stop"],
)  # fmt: skip
def test_what_ends_the_hold(change: dict[str, object], shown: tuple[str, str | None]) -> None:
    """A view names the time, the person, the check or the field that ends the hold."""
    error = view(replace(REFUSED, **change))["error"]  # type: ignore[arg-type]
    assert isinstance(error, dict)
    assert error.get(shown[0]) == shown[1]


def test_times_keep_their_fraction() -> None:
    """A fraction of a second is shown only where there is one, in UTC."""
    at = datetime(2026, 9, 6, 0, 0, 0, 500_000, tzinfo=UTC)
    assert '"reset_at":"2026-09-06T00:00:00.500Z"' in view_text(
        replace(REFUSED, recovery=Recovery.RETRY_AFTER, reset_at=at)
    )


@pytest.mark.parametrize("recovery", [*Recovery, None])
def test_a_view_without_a_text_has_one(recovery: Recovery | None) -> None:
    """An envelope that came without code and text still says something, and it is lint clean."""
    error = view(Envelope(outcome=Outcome.FAILED, executed=Executed.NO, recovery=recovery))["error"]
    assert isinstance(error, dict)
    assert error["code"] == "UPSTREAM_REFUSED"
    assert lint_text(error["message"]) == []


def test_every_fallback_text_is_clean() -> None:
    """No fallback text invites another attempt."""
    for text in view_module._TEXTS.values():
        assert lint_text(text) == []


def test_what_ends_a_hold_is_clean() -> None:
    """The words for what ends a hold are lint clean."""
    for words in ("a person", "a check or a person", "the precondition", "a changed field"):
        assert lint_text(words) == []


def test_values_of_a_precondition_stay_out() -> None:
    """Only the name of the call that has to come first is shown, not its arguments."""
    text = view_text(
        replace(
            REFUSED,
            recovery=Recovery.REPAIR_INPUT,
            precondition=Precondition(tool="read_note", arguments='{"path":"planted"}'),
        )
    )
    assert "read_note" in text
    assert "planted" not in text


def test_hints_for_the_core_stay_out() -> None:
    """What only the core needs is not shown."""
    text = view_text(replace(REFUSED, temporary=True, not_accepted=True))
    assert text == view_text(REFUSED)


def test_an_unfinished_result() -> None:
    """A pending result without a class is neither a refusal nor a completed one."""
    shown = view(Envelope(outcome=Outcome.PENDING, executed=Executed.UNKNOWN, code="WAITING", safe_message="It waits."))
    assert shown["ok"] is True
    assert shown["outcome"] == "pending"


texts = st.text(max_size=300)
envelopes = st.builds(
    Envelope,
    outcome=st.sampled_from(list(Outcome)),
    executed=st.sampled_from(list(Executed)),
    request_id=st.sampled_from(["", "act_" + "f" * 32]),
    code=st.sampled_from(["", "A" * 63]),
    recovery=st.sampled_from([*Recovery, None]),
    constraint=st.none() | texts,
    limit=st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    remaining=st.none() | st.integers(),
    reset_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    invalid_fields=st.lists(st.builds(InvalidField, name=texts), max_size=20).map(tuple),
    precondition=st.none() | st.builds(Precondition, tool=texts, arguments=st.just("{}")),
    alternative_tools=st.lists(texts, max_size=20).map(tuple),
    required_permission=st.none() | texts,
    approval_url=st.none() | texts,
    http_status=st.none() | st.integers(100, 599),
    operation=st.none() | texts,
    safe_message=st.none() | texts | st.text("\U0001f600\u00e4", min_size=150, max_size=200),
    effects_before_failure=st.booleans(),
    reason=st.none() | st.just("NO_MATCHES"),
    safe_fields=st.lists(st.tuples(texts, texts | st.none() | st.integers()), max_size=12).map(tuple),
)


@given(envelope=envelopes)
def test_views_are_bounded_and_keep_what_counts(envelope: Envelope) -> None:
    """Whatever an envelope holds, a refusal's view fits, is JSON, and keeps ids, code and class."""
    text = view_text(envelope)
    shown = json.loads(text)
    assert shown["outcome"] == envelope.outcome.value
    assert shown.get("request_id", "") == envelope.request_id
    if "error" in shown:
        assert len(text.encode("utf-8")) <= MAX_REFUSAL_BYTES
        assert shown["error"]["code"] == (envelope.code or "UPSTREAM_REFUSED")
        assert shown["error"].get("recovery") == envelope.recovery
        assert shown["error"]["message"]


def test_trimming_takes_lists_before_the_message() -> None:
    """A view that is too large loses its lists first, then the end of its text, never its reset."""
    full = replace(
        REFUSED,
        recovery=Recovery.RETRY_AFTER,
        reset_at=datetime(2026, 9, 6, tzinfo=UTC),
        safe_message="m" * 200,
        alternative_tools=tuple("tool_" + "x" * 30 + str(n) for n in range(8)),
        invalid_fields=tuple(InvalidField(name="f" * 30 + str(n)) for n in range(8)),
    )
    error = view(full)["error"]
    assert isinstance(error, dict)
    assert error["message"] == "m" * 200
    assert "reset_at" in error
    assert "alternative_tools" not in error
    assert len(error["invalid_fields"]) < 8
    wide = view(replace(full, safe_message="\U0001f600" * 200))["error"]
    assert isinstance(wide, dict)
    assert wide["message"].endswith("\u2026")
    assert "invalid_fields" not in wide
    assert "reset_at" in wide


def test_every_field_is_shown_or_left_out_on_purpose() -> None:
    """A new field of the envelope does not reach a model before somebody decides that it may."""
    shown = {
        "outcome", "executed", "request_id", "code", "recovery", "constraint", "limit", "remaining", "reset_at",
        "invalid_fields", "precondition", "alternative_tools", "required_permission", "approval_url", "http_status",
        "operation", "safe_message", "effects_before_failure", "reason", "safe_fields",
    }  # fmt: skip
    hidden = {"retry_after_seconds", "temporary", "not_accepted"}
    assert {field.name for field in fields(Envelope)} == shown | hidden
