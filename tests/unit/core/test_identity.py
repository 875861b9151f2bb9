"""Canonical form, digests and fields: equal means the same JSON, and nothing is folded."""

from __future__ import annotations

import json
from collections import OrderedDict, UserDict
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.core.identity import (
    ABSENT,
    MAX_DEPTH,
    action_key,
    apart_key,
    canonical,
    digest,
    field_digest,
    fingerprint,
    target_key,
)
from forbear.errors import UsageError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=4)


def typed(value: object) -> object:
    """Return a value in which 1, 1.0 and True are three different things."""
    if isinstance(value, dict):
        return {key: typed(member) for key, member in value.items()}
    if isinstance(value, list):
        return [typed(member) for member in value]
    return (type(value).__name__, repr(value))


@given(ARGUMENTS, ARGUMENTS)
def test_the_canonical_form_is_the_same_exactly_for_the_same_arguments(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """Two calls have one canonical form only where every value and type of them is the same."""
    assert (canonical(one) == canonical(other)) == (typed(one) == typed(other))


@given(ARGUMENTS)
def test_the_canonical_form_is_read_back(arguments: dict[str, object]) -> None:
    """The frozen bytes are JSON and stand for exactly the arguments."""
    assert typed(json.loads(canonical(arguments))) == typed(arguments)


@given(ARGUMENTS)
def test_the_order_of_keys_means_nothing(arguments: dict[str, object]) -> None:
    """A model that writes the same fields in another order makes the same call."""
    turned = dict(reversed(list(arguments.items())))
    assert canonical(turned) == canonical(arguments)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), (1, "1"), (None, "null"), ("a", "A"), ("é", "e\u0301")]
)
def test_nothing_is_folded(one: object, other: object) -> None:
    """Numbers, booleans, text and unlike spellings stay different."""
    assert canonical({"x": one}) != canonical({"x": other})
    assert fingerprint("t", "", canonical({"x": one})) != fingerprint("t", "", canonical({"x": other}))


def test_other_mappings_and_sequences_have_the_form_of_their_content() -> None:
    """Frameworks hand over read-only mappings and tuples; they mean what they hold."""
    plain = {"a": {"b": [1, 2]}}
    assert canonical(MappingProxyType({"a": UserDict(b=(1, 2))})) == canonical(plain)
    assert canonical(OrderedDict(a=OrderedDict(b=[1, 2]))) == canonical(plain)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_has_no_form(value: float) -> None:
    """JSON has no such number; the message names the field."""
    with pytest.raises(UsageError, match="'a/x' is not JSON: a number must be finite"):
        canonical({"a": {"x": value}})


def test_what_is_not_json_is_named_by_its_path_and_never_by_its_value() -> None:
    """The message may reach a log: it holds the path and the type."""
    with pytest.raises(UsageError, match=r"argument 'a/1' is not JSON: object has no canonical form"):
        canonical({"a": [1, object()]})
    with pytest.raises(UsageError, match=r"argument 'a' is not JSON: object keys must be strings"):
        canonical({"a": {1: 2}})


def test_nesting_is_bounded() -> None:
    """Arguments that are nested to exhaust a stack are an error, and those at the bound are not."""
    deep: object = 1
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert canonical({"x": deep})
    with pytest.raises(UsageError, match="nested deeper"):
        canonical({"x": [deep]})


def test_a_number_of_too_many_digits_is_an_error() -> None:
    """Python refuses to write integers of thousands of digits; that is the caller's error, not a crash."""
    with pytest.raises(UsageError, match="too many digits"):
        canonical({"x": 10**5000})


@given(st.lists(st.text()), st.lists(st.text()))
def test_parts_of_a_digest_do_not_run_into_each_other(one: list[str], other: list[str]) -> None:
    """("ab", "c") and ("a", "bc") are different things."""
    assert (digest(*one) == digest(*other)) == (one == other)
    assert len(digest(*one)) == 32


def test_a_lone_surrogate_has_a_digest() -> None:
    """A model can write text that has no UTF-8 form."""
    assert digest("\ud800") != digest("\ud801")


def test_source_and_tool_are_part_of_the_fingerprint() -> None:
    """The same words to another server's tool are another call."""
    made = {
        fingerprint("t", "", "{}"),
        fingerprint("t", "s", "{}"),
        fingerprint("u", "", "{}"),
        fingerprint("t", "", "[]"),
    }
    assert len(made) == 4


def test_ignored_fields_do_not_change_the_action() -> None:
    """A memo does not make another action; every other field does, and so does the operation."""
    base = action_key("pay", {"to": "x", "memo": "a"}, ("memo",))
    assert base == action_key("pay", {"to": "x", "memo": "b"}, ("memo",))
    assert base == action_key("pay", {"to": "x"}, ())
    assert base != action_key("pay", {"to": "y", "memo": "a"}, ("memo",))
    assert base != action_key("sell", {"to": "x", "memo": "a"}, ("memo",))
    assert action_key("pay", {"to": "x", "memo": "a"}, ()) != action_key("pay", {"to": "x", "memo": "b"}, ())


def test_a_call_that_is_asked_about_on_its_own_has_a_key_of_its_own() -> None:
    """Run, step and call id keep such calls apart."""
    made = {
        apart_key("a", "r", "s", "c"),
        apart_key("a", "q", "s", "c"),
        apart_key("a", "r", "t", "c"),
        apart_key("b", "r", "s", "c"),
    }
    assert len(made) == 4


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_target_that_is_not_scalar_is_none(value: object) -> None:
    """Such a call is covered by every target hold of its operation."""
    assert target_key("pay", {"to": value}) is None


@pytest.mark.parametrize("value", ["x", 1, 1.5, True, "", 0, False])
def test_a_scalar_target_has_a_digest(value: object) -> None:
    """Also one that Python counts as false."""
    assert target_key("pay", {"to": value}) is not None
    assert target_key("pay", {"to": value}) != target_key("sell", {"to": value})
    assert target_key("pay", {"to": value, "from": "y"}) != target_key("pay", {"to": value})


def test_a_field_is_found_by_name_at_any_depth() -> None:
    """An answer that names `size` means every `size` of the call."""
    flat = field_digest('{"size":1}', "size")
    assert flat == field_digest('{"order":{"size":1}}', "size") == field_digest('{"orders":[{"size":1}]}', "size")
    assert flat != field_digest('{"size":1.0}', "size")
    assert flat != field_digest('{"a":{"size":1},"size":1}', "size")
    assert field_digest('{"size":{"size":1}}', "size") != field_digest('{"size":{"size":2}}', "size")
    assert field_digest('{"other":1}', "size") == ABSENT


def test_a_field_is_found_by_its_pointer() -> None:
    """A JSON pointer (RFC 6901) names one place: members, array indices, escaped signs."""
    text = '{"a/b":{"c~d":[10,20]},"x":null,"y":[[7]]}'
    assert field_digest(text, "/a~1b/c~0d/1") == digest("field", "[20]")
    assert field_digest(text, "/x") == digest("field", "[null]")
    assert field_digest(text, "/y/0/0") == digest("field", "[7]")
    for missing in ("/a~1b/c~0d/2", "/a~1b/c~0d/-1", "/a~1b/c~0d/x", "/a~1b/c~0d/\u0661", "/x/y", "/nothing"):
        assert field_digest(text, missing) == ABSENT


def test_digests_are_the_same_in_every_release() -> None:
    """They are stored: another one for the same call would forget what was refused, and what was done."""
    assert fingerprint("order", "", '{"desk":"a"}') == "ea6a464783f9a1c8e8874ac4ae106dfb"
    assert action_key("trade", {"desk": "a"}, ()) == "6795e960f942c1013ab7c456b3796e97"
    assert target_key("trade", {"desk": "a"}) == "a2a7706ffdc173ce0ac079efeae34ccb"
    assert apart_key("x", "run", "step", "call") == "5a2fb79f65774fc704795ae526770b6f"
    assert field_digest('{"desk":"a"}', "desk") == "9a240d8b76441fa98d2d43ee1430c9eb"


def test_a_pointer_does_not_point_into_a_text() -> None:
    """A text has no members, whatever the pointer says."""
    assert field_digest('{"a":"xyz"}', "/a/0") == ABSENT


def test_the_canonical_form_is_ascii() -> None:
    """It is stored, and passes through whatever reads bytes."""
    assert canonical({"\u00e4": "\u00f6"}) == '{"\\u00e4":"\\u00f6"}'
