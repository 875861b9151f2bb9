"""How much a model sees of a refusal: every field that may be shown, how many of a list, and what goes first."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forbear.core.values import Envelope, InvalidField, Precondition
from forbear.core.view import MAX_REFUSAL_BYTES, view, view_text
from forbear.core.vocabulary import Executed, Outcome, Recovery

PLAIN = Envelope(outcome=Outcome.REFUSED, executed=Executed.NO, code="LIMIT_REACHED", safe_message="Over the limit.")


def error_of(envelope: Envelope) -> dict[str, object]:
    """Return the error that a view shows."""
    error = view(envelope)["error"]
    assert isinstance(error, dict)
    return error


def size(envelope: Envelope) -> int:
    """Return the bytes of a view."""
    return len(view_text(envelope).encode("utf-8"))


def filled(envelope: Envelope, missing: int = 0) -> Envelope:
    """Return an envelope whose view has exactly as many bytes as may be shown (`missing` fewer), by a longer text."""
    room = MAX_REFUSAL_BYTES - size(replace(envelope, safe_message="m")) - missing
    return replace(envelope, safe_message="m" * (1 + room))


def test_every_field_that_may_be_shown_is_shown() -> None:
    """What an operator let through reaches the model under its own name."""
    whole = replace(
        PLAIN,
        recovery=Recovery.REPAIR_INPUT,
        constraint="daily",
        limit=25,
        remaining=0,
        invalid_fields=(InvalidField(name="qty"),),
        precondition=Precondition(tool="quote", arguments="{}"),
        alternative_tools=("other",),
        required_permission="trade",
        approval_url="https://a.invalid",
        http_status=409,
        operation="trade",
        effects_before_failure=True,
        safe_fields=(("open", 3),),
    )
    assert error_of(whole) == {
        "code": "LIMIT_REACHED",
        "recovery": "repair_input",
        "message": "Over the limit.",
        "until": "the precondition",
        "invalid_fields": ["qty"],
        "precondition": "quote",
        "alternative_tools": ["other"],
        "constraint": "daily",
        "limit": 25,
        "remaining": 0,
        "required_permission": "trade",
        "approval_url": "https://a.invalid",
        "http_status": 409,
        "operation": "trade",
        "effects_before_failure": True,
        "fields": {"open": 3},
    }


def test_a_list_shows_eight_members() -> None:
    """Longer lists are cut, whatever room there is."""
    names = tuple(f"n{number}" for number in range(9))
    many = replace(
        PLAIN,
        alternative_tools=names,
        invalid_fields=tuple(InvalidField(name=name) for name in names),
        safe_fields=tuple((name, 1) for name in names),
    )
    error = error_of(many)
    for shown in ("alternative_tools", "invalid_fields", "fields"):
        members = error[shown]
        assert isinstance(members, (list, dict))
        assert list(members) == list(names[:8])
    done = Envelope(outcome=Outcome.SUCCESS, executed=Executed.YES, safe_fields=many.safe_fields)
    assert view(done)["meta"] == {"fields": dict.fromkeys(names[:8], 1)}


@pytest.mark.parametrize(("length", "is_shown"), [(256, True), (257, False)])
def test_a_word_that_is_too_long_is_left_out_whole(length: int, is_shown: bool) -> None:
    """Nobody can act on half a permission's name."""
    assert ("constraint" in error_of(replace(PLAIN, constraint="c" * length))) is is_shown


def test_a_view_that_just_fits_is_left_as_it_is() -> None:
    """The bound is reached, and nothing goes."""
    full = filled(replace(PLAIN, alternative_tools=("a", "b"), invalid_fields=(InvalidField(name="f"),)))
    assert size(full) == MAX_REFUSAL_BYTES
    error = error_of(full)
    assert (error["alternative_tools"], error["invalid_fields"]) == (["a", "b"], ["f"])
    assert error["message"] == full.safe_message


def test_one_byte_too_many_costs_one_member_of_a_list() -> None:
    """Fields go before alternatives and alternatives before the fields to repair, the last member first."""
    full = filled(
        replace(
            PLAIN,
            alternative_tools=("a", "b"),
            invalid_fields=(InvalidField(name="f"), InvalidField(name="g")),
            safe_fields=(("x", 1), ("y", 2)),
        ),
        -1,
    )
    error = error_of(full)
    assert error["fields"] == {"x": 1}
    assert (error["alternative_tools"], error["invalid_fields"]) == (["a", "b"], ["f", "g"])
    # A member of `fields` has 6 bytes, the rest of it 17, a member of `alternative_tools` 4.
    for excess, alternatives in (
        (6, ["a", "b"]),
        (7, ["a", "b"]),
        (23, ["a", "b"]),
        (24, ["a"]),
        (27, ["a"]),
        (28, None),
    ):
        error = error_of(replace(full, safe_message=str(full.safe_message) + "m" * (excess - 1)))
        assert ("fields" in error, error.get("alternative_tools")) == (excess == 6, alternatives)
        assert error["invalid_fields"] == ["f", "g"]


def test_a_text_is_cut_by_what_is_too_much_and_keeps_its_beginning() -> None:
    """The text loses its end, never more than it must by much, and says that it did."""
    full = filled(PLAIN, -4)
    message = str(error_of(full)["message"])
    assert message.endswith("\u2026")
    assert size(full) <= MAX_REFUSAL_BYTES
    assert len(str(full.safe_message)) - 12 < len(message) < len(str(full.safe_message))


@pytest.mark.parametrize("excess", [1, 2, 100])
def test_a_text_is_cut_to_the_byte(excess: int) -> None:
    """What is too much costs the text its end, and the view is as long as it may be."""
    shown = view_text(filled(PLAIN, -excess))
    assert len(shown.encode("utf-8")) == MAX_REFUSAL_BYTES
    assert "m\u2026" in shown


def test_a_text_keeps_forty_characters_and_then_single_words_go() -> None:
    """Words that say least go first, and no more of them than must; code, class and ids stay."""
    long = replace(
        PLAIN,
        recovery=Recovery.DO_NOT_RETRY,
        safe_message="m" * 60,
        request_id="act_" + "0" * 32,
        operation="o" * 30,
        http_status=409,
        constraint="c" * 60,
        required_permission="p" * 60,
        approval_url="u" * 60,
        limit=1,
        remaining=1,
    )
    error = error_of(long)
    assert error["message"] == "m" * 40 + "\u2026"
    order = ["operation", "http_status", "remaining", "limit", "constraint", "required_permission", "approval_url"]
    for wide in range(60, 250, 4):
        whole = replace(long, approval_url="u" * wide)
        error = error_of(whole)
        gone = [name for name in order if name not in error]
        assert gone == order[: len(gone)]
        last = f'"{gone[-1]}":{json.dumps(getattr(whole, gone[-1]))},'
        assert MAX_REFUSAL_BYTES - len(last) < size(whole) <= MAX_REFUSAL_BYTES


def test_what_ends_the_hold_and_what_comes_first_go_last() -> None:
    """A model that is told nothing else is told what has to be done."""
    wide = replace(
        PLAIN,
        recovery=Recovery.REPAIR_INPUT,
        precondition=Precondition(tool="t" * 256, arguments="{}"),
        approval_url="u" * 40,
        safe_message="m" * 60,
    )
    error = error_of(wide)
    assert ("approval_url" in error, "precondition" in error, error["until"]) == (False, True, "the precondition")
    wider = error_of(replace(wide, precondition=Precondition(tool="t" * 400, arguments="{}")))
    assert ("precondition" in wider, wider["until"]) == (False, "the precondition")


@pytest.mark.parametrize("recovery", [*Recovery, None])
def test_a_text_of_ours_is_a_sentence(recovery: Recovery | None) -> None:
    """Where a result came without a text, the model reads one."""
    message = str(error_of(Envelope(outcome=Outcome.FAILED, executed=Executed.NO, recovery=recovery))["message"])
    assert message.endswith(".")
    assert len(message.split()) > 3


def test_a_lone_surrogate_and_other_letters_are_shown_as_text() -> None:
    """Letters are themselves; what has no form in UTF-8 becomes a question mark."""
    text = view_text(replace(PLAIN, safe_message="Größe \ud800"))
    assert "Größe ?" in text


def test_an_instant_of_another_zone_is_shown_in_utc() -> None:
    """A whole second has no fraction."""
    at = datetime.fromisoformat("2026-09-06T02:00:00+02:00")
    assert error_of(replace(PLAIN, reset_at=at))["reset_at"] == "2026-09-06T00:00:00Z"
    assert at.astimezone(UTC).isoformat() == "2026-09-06T00:00:00+00:00"


@pytest.mark.parametrize(
    ("outcome", "recovery", "is_ok"),
    [
        (Outcome.PENDING, None, True),
        (Outcome.PENDING, Recovery.RETRY_AFTER, False),
        (Outcome.FAILED, None, False),
        (Outcome.PARTIAL, Recovery.INSPECT_OUTCOME, False),
        (Outcome.PARTIAL, None, True),
    ],
)
def test_only_what_is_done_or_under_way_is_ok(outcome: Outcome, recovery: Recovery | None, is_ok: bool) -> None:
    """A part of the work with something left to do is no success."""
    shown = view(replace(PLAIN, outcome=outcome, recovery=recovery))
    assert shown["ok"] is is_ok
    assert ("error" in shown) is (recovery is not None or outcome in (Outcome.FAILED, Outcome.PENDING))


def test_a_number_that_is_no_number_is_never_written() -> None:
    """JSON has none, and a model would read a word."""
    with pytest.raises(ValueError, match="JSON"):
        view_text(replace(PLAIN, limit=float("nan")))
