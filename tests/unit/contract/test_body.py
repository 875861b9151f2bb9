"""Looking into bodies: bounded JSON, pointers, and what counts as empty."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract.body import (
    MAX_JSON,
    MAX_SCAN,
    UNREADABLE,
    first,
    is_empty,
    is_empty_text,
    parse,
    parsed,
    point,
    text_of,
    xml_codes,
)
from forbear.contract.raw import ABSENT

EMPTY: list[object] = [
    None, "", [], (), {}, {"items": []}, {"results": [], "total": 0, "next": None}, {"orders": []},
    {"ok": True, "messages": [], "has_more": False}, {"data": []}, {"data": {"items": []}}, {"data": None},
    {"result": {"result": []}}, {"Items": [], "Count": 0},
]  # fmt: skip
FULL: list[object] = [
    0, False, " ", "x", [None], [[]], {"items": [1]}, {"a": 1}, {"id": None}, {"items": [], "orders": []},
    {"items": [], "note": "see page 2"}, {"errors": []}, {"warnings": [], "total": 0}, {"ok": True}, {"total": 0},
    {"data": {"a": 1}}, {"profile": {}}, object(), {1: []} | {2: []},
]  # fmt: skip


@pytest.mark.parametrize("value", EMPTY, ids=repr)
def test_empty(value: object) -> None:
    """Nothing, or one empty list beside counters and cursors, is an empty answer."""
    assert is_empty(value)


@pytest.mark.parametrize("value", FULL, ids=lambda value: "object" if type(value) is object else repr(value))
def test_not_empty(value: object) -> None:
    """Anything that may be an answer is not called empty; a list of errors that is empty is an answer."""
    assert not is_empty(value)


@pytest.mark.parametrize(
    ("text", "empty"),
    [("", True), (" \n", True), ("null", True), ("[]", True), ("{}", True), ('{"items": []}', True), ("none", False),
     ('{"a": 1}', False), ("{", False), ("0", False)],
)  # fmt: skip
def test_empty_text(text: str, *, empty: bool) -> None:
    """A text that is the JSON of nothing is empty."""
    assert is_empty_text(text) is empty


@pytest.mark.parametrize(
    "text",
    ["", "x", "{", "[" * 100_000, '{"a":' * 50_000, "[NaN]", "[Infinity]", "[-Infinity]", '{"a":1,"a":2}',
     "1" * 5000, '"' + "x" * MAX_JSON + '"', "[1,]", "\ud800", "{'a': 1}"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_not_json_is_unreadable(text: str) -> None:
    """No text makes parsing raise; deep, large, ambiguous and non-standard JSON is unreadable."""
    assert parse(text) is UNREADABLE


def test_parsed_takes_objects_as_they_are() -> None:
    """A body that somebody parsed before is its own value; bytes and a byte order mark are read."""
    body = {"a": 1}
    assert parsed(body) is body
    assert parsed(b'{"a": 1}') == parsed('\ufeff{"a": 1}') == body
    assert parsed(b"\xff\xfe{") is UNREADABLE
    assert parsed("null") is None
    assert parsed("5") == 5


def test_text_of_is_bounded() -> None:
    """Bytes are cut before they are decoded, and invalid UTF-8 is replaced."""
    assert len(text_of(b"a" * 10_000_000)) == MAX_SCAN
    assert parsed(b"[]" + b" " * MAX_JSON + b"}") is UNREADABLE
    assert text_of(b"\xff") == "\ufffd"
    assert text_of({"a": 1}) == ""


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("/a/b", [1]), ("/l/0", ["x"]), ("/l/*", ["x", "y"]), ("/o/*/k", [1, 2]), ("/l/9", []), ("/l/-1", []),
     ("/l/\u0660", []), ("/x~1y", [3]), ("/t~0", [4]), ("/a/b/c", []), ("/missing", []), ("", [])],
)  # fmt: skip
def test_pointers(pointer: str, found: list[object]) -> None:
    """Pointers follow RFC 6901, with ``*`` for every member."""
    value = {"a": {"b": 1}, "l": ["x", "y"], "o": {"p": {"k": 1}, "q": {"k": 2}}, "x/y": 3, "t~": 4}
    assert list(point(value, pointer)) == (found if pointer else [value])
    assert first(value, "/missing") is ABSENT


def test_xml_codes() -> None:
    """Codes are taken from XML error documents only, near the start."""
    assert xml_codes("<Error><Code>SlowDown</Code></Error>") == ("SlowDown",)
    assert xml_codes("text <Code>SlowDown</Code>") == ()
    assert xml_codes("<Error><Code>" + "x" * 200 + "</Code></Error>") == ()
    assert xml_codes("<e>" + " " * 70_000 + "<Code>Late</Code>") == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(value=json_values)
def test_json_round_trip(value: object) -> None:
    """Ordinary JSON is read as what it is, and emptiness of it never raises."""
    assert parse(json.dumps(value)) == value
    is_empty(value)
