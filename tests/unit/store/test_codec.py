"""The stored form: everything comes back as it was, and nothing else is accepted."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forbear.core import states, values
from forbear.core.states import Action, Completed, Fresh, Halt, Hold, Known, Run, Running, Started, Tree, Waiting
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Cause, Effect, End, Executed, Outcome, Recovery, Scope
from forbear.errors import SchemaTooNew, StoreError
from forbear.store.codec import FORMAT, TAGS, decode, encode, from_us, to_us

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "sk-live-4242"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Hypothesis wants bounds without a zone.
FIRST, EPOCH, LAST, NAIVE = (datetime(*at) for at in ((1, 1, 3), (1970, 1, 1), (9999, 12, 29), (2026, 1, 1)))  # noqa: DTZ001
INSTANTS = st.datetimes(FIRST, LAST, timezones=st.just(UTC)) | st.datetimes(
    EPOCH, LAST, timezones=st.just(timezone(timedelta(hours=-9.5)))
)
SIMPLE: dict[object, st.SearchStrategy[object]] = {
    str: TEXTS,
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: INSTANTS,
    types.NoneType: st.none(),
}


def strategy(hint: object) -> st.SearchStrategy[object]:
    """Return values of an annotation, every field varied, also those that have a default."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([strategy(argument) for argument in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(strategy(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[strategy(argument) for argument in arguments])
    assert isinstance(hint, type)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return instances(hint)


def instances(cls: type) -> st.SearchStrategy[object]:
    """Return values of a dataclass."""
    return st.builds(cls, **{name: strategy(hint) for name, hint in typing.get_type_hints(cls).items()})


def a_call(**fields: Any) -> Call:
    """Return a call whose fields are of no interest but those that are given, of any type."""
    base: dict[str, Any] = {
        "run": "run-1",
        "step": "msg-1",
        "call_id": "call_1",
        "tool": "place_order",
        "arguments": '{"qty":5}',
        "fingerprint": "f" * 32,
        "action": "a" * 32,
        "operation": "orders.place",
        "effect": Effect.WRITE,
    }
    return Call(**{**base, **fields})


def a_run(**fields: Any) -> Run:
    """Return a run with some fields of any type."""
    return Run(**{"id": SECRET, **fields})


def an_envelope(**fields: Any) -> Envelope:
    """Return an envelope with some fields of any type."""
    return Envelope(**{"outcome": Outcome.REFUSED, "executed": Executed.NO, **fields})


def an_action(**fields: Any) -> Action:
    """Return an action with some fields of any type."""
    return Action(**{"key": "a", "call": a_call(), **fields})


def a_known(**fields: Any) -> Known:
    """Return a known call with some fields of any type."""
    return Known(**{"action": "a", "attempt": 1, **fields})


@pytest.mark.parametrize("tag", TAGS)
def test_every_class_comes_back_as_it_was(tag: str) -> None:
    """Whatever a stored value holds, decoding its stored form gives an equal value."""

    @settings(max_examples=60, deadline=None)
    @given(instances(TAGS[tag]))
    def check(value: object) -> None:
        again = decode(encode(value))
        assert again == value
        assert type(again) is type(value)
        assert encode(again) == encode(value)

    check()


def test_the_table_holds_every_class_that_is_remembered() -> None:
    """A dataclass added to the states or values without a tag is found here, and no two tags share a class."""
    remembered = {
        cls
        for module in (states, values)
        for cls in vars(module).values()
        if isinstance(cls, type) and dataclasses.is_dataclass(cls)
    }
    assert set(TAGS.values()) == remembered
    assert len(set(TAGS.values())) == len(TAGS)


# Format 1, byte by byte: rows on users' disks look like this. Never change a line; add new ones.
FORMAT_1: list[tuple[object, str]] = [
    (Fresh(), '[1,"fresh",{}]'),
    (Known(action="a1", attempt=2), '[1,"known",{"action":"a1","attempt":2}]'),
    (Run(id="run-1", operations=(("op", 1, 2),)), '[1,"run",{"id":"run-1","operations":[["op",1,2]]}]'),
    (
        Tree(root="run-1", principal="acme", turn=2, turn_at=NOW + timedelta(microseconds=1)),
        '[1,"tree",{"root":"run-1","principal":"acme","turn":2,"turn_at":1767225600000001}]',
    ),
    (
        Action(
            key="a1",
            call=a_call(),
            attempts=1,
            phase=Running(
                open=(Started(attempt=1, run="run-1", step="msg-1", call_id="c1", started_at=NOW, owner="own_1"),)
            ),
        ),
        (
            '[1,"action",{"key":"a1","call":{"run":"run-1","step":"msg-1","call_id":"call_1","tool":"place_order",'
            '"arguments":"{\\"qty\\":5}","fingerprint":"ffffffffffffffffffffffffffffffff",'
            '"action":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","operation":"orders.place","effect":"write"},'
            '"phase":["running",{"open":[{"attempt":1,"run":"run-1","step":"msg-1","call_id":"c1",'
            '"started_at":1767225600000000,"owner":"own_1"}]}],"attempts":1}]'
        ),
    ),
    (
        Hold(
            key="quota:q:7",
            scope=Scope.QUOTA,
            value="q",
            cause=Cause.TIME,
            end=End.TIME,
            code="RATE_LIMITED",
            told=Envelope(
                outcome=Outcome.REFUSED,
                executed=Executed.NO,
                recovery=Recovery.RETRY_AFTER,
                limit=2.5,
                remaining=0,
                safe_fields=(("n", 1), ("s", "x"), ("b", True), ("z", None)),
            ),
            ticket="tkt_1",
            operation="orders.place",
            tool="place_order",
            action="a1",
            run="run-1",
            step="msg-1",
            turn=1,
            placed_at=NOW,
        ),
        (
            '[1,"hold",{"key":"quota:q:7","scope":"quota","value":"q","cause":7,"end":"time","code":"RATE_LIMITED",'
            '"told":{"outcome":"refused","executed":"no","recovery":"retry_after","limit":2.5,"remaining":0,'
            '"safe_fields":[["n",1],["s","x"],["b",true],["z",null]]},"ticket":"tkt_1","operation":"orders.place",'
            '"tool":"place_order","action":"a1","run":"run-1","step":"msg-1","turn":1,"placed_at":1767225600000000}]'
        ),
    ),
]


@pytest.mark.parametrize(("value", "stored"), FORMAT_1, ids=[type(value).__name__ for value, _ in FORMAT_1])
def test_the_stored_form_of_this_format_never_changes(value: object, stored: str) -> None:
    """Rows that an earlier release wrote are read, and fields at their default take no space."""
    assert encode(value).decode() == stored
    assert decode(stored.encode()) == value


def test_a_field_at_its_default_may_be_written_out() -> None:
    """A release whose default differs writes the value, and it is read."""
    assert decode(b'[1,"run",{"id":"r","turn":0,"parent":null}]') == Run(id="r")


WRONG: list[object] = [None, True, 7, 1.5, "word", [], ["word"], {}, {"word": 1}, [["word"]]]


def fits(value: object, hint: object) -> bool:
    """Say whether a value is what an annotation says, without the codec's help."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return any(fits(value, argument) for argument in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return isinstance(value, tuple) and all(fits(item, arguments[0]) for item in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(arguments) and all(map(fits, value, arguments))
    return type(value) is hint


def sample(hint: object) -> object:
    """Return some value of an annotation."""
    simple: dict[object, object] = {str: "x", int: 2, bool: True, float: 0.5, datetime: NOW, types.NoneType: None}
    if hint in simple:
        return simple[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType} or (origin is tuple and arguments[-1] is Ellipsis):
        return sample(arguments[0]) if origin is not tuple else (sample(arguments[0]),)
    if origin is tuple:
        return tuple(map(sample, arguments))
    assert isinstance(hint, type)
    if issubclass(hint, Enum):
        return next(iter(hint))
    return hint(**{name: sample(inner) for name, inner in typing.get_type_hints(hint).items()})


@pytest.mark.parametrize("tag", TAGS)
def test_a_decoded_field_is_always_what_its_annotation_says(tag: str) -> None:
    """JSON of another kind than a field's is an error that names the field, in every field of every class."""
    stored = json.loads(encode(sample(TAGS[tag])))[2]
    for field, hint in typing.get_type_hints(TAGS[tag]).items():
        refused = 0
        messages: list[str] = []
        for wrong in WRONG:
            try:
                value = decode(json.dumps([FORMAT, tag, {**stored, field: wrong}]).encode())
            except StoreError as error:
                refused += 1
                messages.append(str(error))
            else:
                assert fits(getattr(value, field), hint)
        # The most generous field takes the five scalars.
        assert refused >= 5
        for text in messages:
            assert "word" not in text
            assert repr(field) in text or "unknown field" in text or "missing" in text


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'[1,"run",{"id":"\xff"}]',
    "not a list": b'{"format":1}',
    "too short": b'[1,"run"]',
    "too long": b'[1,"run",{"id":"r"},0]',
    "something behind it": b'[1,"run",{"id":"r"}] ',
    "no format": b'["run",{"id":"r"}]',
    "format of another type": b'[true,"run",{"id":"r"}]',
    "format 0": b'[0,"run",{"id":"r"}]',
    "unknown tag": b'[1,"os.system",{"id":"r"}]',
    "tag that is not a text": b'[1,["run"],{"id":"r"}]',
    "class name as a tag": b'[1,"Run",{"id":"r"}]',
    "unknown field": b'[1,"run",{"id":"r","extra":1}]',
    "special name as a field": b'[1,"run",{"id":"r","__class__":"x"}]',
    "field twice": b'[1,"run",{"id":"r","id":"s"}]',
    "missing field": b'[1,"known",{"action":"a"}]',
    "fields as a list": b'[1,"run",["r"]]',
    "fields as pairs": b'[1,"run",[["id","r"]]]',
    "boolean for a number": b'[1,"known",{"action":"a","attempt":true}]',
    "float for a number": b'[1,"known",{"action":"a","attempt":1.0}]',
    "NaN": b'[1,"envelope",{"outcome":"refused","executed":"no","limit":NaN}]',
    "infinity": b'[1,"envelope",{"outcome":"refused","executed":"no","limit":1e999}]',
    "enum value of another enum": b'[1,"envelope",{"outcome":"no","executed":"no"}]',
    "enum name": b'[1,"envelope",{"outcome":"REFUSED","executed":"no"}]',
    "boolean for a numbered enum": b'[1,"hold",{"cause":true}]',
    "phase without a tag": b'[1,"action",{"phase":{}}]',
    "phase that is no phase": b'[1,"action",{"phase":["run",{"id":"r"}]}]',
    "tuple of another length": b'[1,"run",{"id":"r","operations":[["op",1]]}]',
    "instant out of range": b'[1,"tree",{"root":"r","principal":"p","turn_at":999999999999999999999}]',
    "integer beyond Python's limit": b'[1,"known",{"action":"a","attempt":' + b"9" * 5000 + b"}]",
    "deep nesting": b'[1,"run",' + b"[" * 100_000 + b"]" * 100_000 + b"]",
}


@pytest.mark.parametrize("stored", BROKEN.values(), ids=BROKEN.keys())
def test_bytes_that_are_not_a_stored_value_are_refused(stored: bytes) -> None:
    """Every way in which stored bytes can be wrong is a StoreError, never a guess and never another exception."""
    with pytest.raises(StoreError):
        decode(stored)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "key", "phase", "call", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=40) | st.tuples(st.sampled_from(list(TAGS)), JSON).map(lambda t: json.dumps([1, *t]).encode())
)
def test_no_bytes_make_it_do_anything_else(stored: bytes) -> None:
    """Decoding gives a value of the table or a StoreError, whatever the bytes are."""
    try:
        value = decode(stored)
    except StoreError:
        return
    assert type(value) in TAGS.values()


def test_nothing_is_imported_because_of_stored_bytes() -> None:
    """A stored name of a module or a function stays a text."""
    before = set(sys.modules)
    with pytest.raises(StoreError):
        decode(b'[1,"antigravity.geohash",{"id":"this"}]')
    assert decode(b'[1,"run",{"id":"antigravity"}]') == Run(id="antigravity")
    assert "antigravity" not in set(sys.modules) - before


def test_a_newer_format_is_refused_by_its_own_error() -> None:
    """An older release says that a newer one wrote the row, instead of calling it broken."""
    with pytest.raises(SchemaTooNew):
        decode(f'[{FORMAT + 1},"run",{{"id":"r"}}]'.encode())
    with pytest.raises(SchemaTooNew):
        decode(f"[{FORMAT + 1}]".encode())


NO_STORED_FORM: dict[str, object] = {
    "object": object(),
    "mapping": {"id": "r"},
    "text": "text",
    "class": Run,
    "naive instant": Tree(root="r", principal="p", turn_at=NAIVE),
    "text for a number": a_run(turn=SECRET),
    "float for a number": a_run(turn=1.5),
    "boolean for a number": a_run(turn=True),
    "number for a text": a_run(step=3),
    "number for a boolean": a_run(all_blocked=0.5),
    "text for an object": a_run(halted=SECRET),
    "list for a tuple": a_run(operations=[(SECRET, 1, 2)]),
    "short tuple": a_run(operations=((SECRET, 1),)),
    "bytes": a_known(action=b"bytes"),
    "lone surrogate": a_known(action="lone surrogate \ud800"),
    "endless integer": a_known(attempt=10**5000),
    "no such member": an_action(call=a_call(effect=SECRET)),
    "no phase": an_action(phase=Run(id=SECRET)),
    "text for a phase": an_action(phase=SECRET),
    "NaN": an_envelope(limit=float("nan")),
    "infinity": an_envelope(limit=float("inf")),
    "text for a limit": an_envelope(limit=SECRET),
    "text for an instant": an_envelope(reset_at=SECRET),
    "list for an enum": an_envelope(outcome=[]),
    "mapping for a scalar": an_envelope(safe_fields=(("a", {}),)),
}


@pytest.mark.parametrize("value", NO_STORED_FORM.values(), ids=NO_STORED_FORM.keys())
def test_a_value_that_has_no_stored_form_is_refused(value: object) -> None:
    """A wrong type, a naive instant or a number without JSON form never reaches a row, nor a message."""
    with pytest.raises(StoreError) as raised:
        encode(value)
    assert SECRET not in str(raised.value)


def test_a_subclass_is_not_stored_as_its_parent() -> None:
    """What would come back as something else is refused."""

    class Special(Run):
        pass

    with pytest.raises(StoreError):
        encode(Special(id="r"))


def test_errors_of_stored_bytes_never_repeat_them() -> None:
    """A message names the tag, the field and the rule: no value, and no name that only the bytes know."""
    for stored in (
        f'[1,"{SECRET}",{{}}]',
        f'[1,"run",{{"{SECRET}":1}}]',
        f'[1,"run",{{"id":"r","turn":"{SECRET}"}}]',
        f'[1,"action",{{"phase":["{SECRET}",{{}}]}}]',
        f'["{SECRET}","run",{{}}]',
    ):
        with pytest.raises(StoreError) as raised:
            decode(stored.encode())
        assert SECRET not in str(raised.value)
        assert raised.value.__cause__ is None


def test_an_instant_is_stored_in_microseconds_of_utc() -> None:
    """Another time zone is the same instant, before the epoch too."""
    assert to_us(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert to_us(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
    assert to_us(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_us(datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) == 1_767_225_600_000_001
    assert from_us(1_767_225_600_000_001) == datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert from_us(-1).tzinfo is UTC


@given(INSTANTS)
def test_an_instant_comes_back_exactly(at: object) -> None:
    """No microsecond is lost, so a stored wait is never shorter than the decided one."""
    assert isinstance(at, datetime)
    assert from_us(to_us(at)) == at


def test_instants_without_a_zone_or_beyond_the_calendar_are_refused() -> None:
    """A naive time has no place in a store, and a number that is no date is not one."""
    with pytest.raises(StoreError):
        to_us(NAIVE)
    for us in (2**63, -(2**63), 10**30):
        with pytest.raises(StoreError):
            from_us(us)


def test_a_halted_run_and_a_kept_result_come_back() -> None:
    """Nested optional values are read as their classes."""
    told = Envelope(outcome=Outcome.REFUSED, executed=Executed.NO, code="NO_PROGRESS", effects_before_failure=True)
    run = Run(id="r", halted=Halt(reason="BLOCKED", told=told, at=NOW))
    assert decode(encode(run)) == run
    done = Completed(
        attempt=1,
        outcome=Outcome.EMPTY,
        turn=1,
        started_at=NOW,
        request_id="act_1",
        writes=0,
        finished=False,
        told=told,
    )
    waiting = Waiting(ticket="tkt_1", retry_at=NOW, since_at=NOW, turn=1, told=told, not_accepted=True)
    for phase in (done, waiting):
        action = Action(key="a", call=a_call(forced=True, missing=("qty",)), phase=phase, last_result_at=NOW)
        assert decode(encode(action)) == action
