"""Plain values: success, emptiness, polls, text rules, and the contract from an in-process tool."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import Counts, Value, poll_finished, tool_policy
from forbear.contract.findings import EMPTY, SUCCESS
from forbear.core.vocabulary import Executed, Outcome, Recovery


@pytest.mark.parametrize(
    "value", ["x", 0, False, [0], {"a": 1}, (1,), b"", object(), {"ok": True}, {"ok": True, "id": 1}, 1.5, {"action": "buy"}],
    ids=lambda value: "object" if type(value) is object else repr(value),
)  # fmt: skip
@pytest.mark.parametrize("effect", ["read", "write", "undeclared"])
def test_success_is_one_shared_value(judge: Any, value: object, effect: str) -> None:
    """A value is a success for every effect, and costs no new envelope."""
    assert judge(Value(value), effect) is SUCCESS


@pytest.mark.parametrize("effect", ["read", "write", "undeclared"])
@given(
    value=st.dictionaries(
        st.sampled_from(["ok", "outcome", "error", "recovery", "action", "code", "data", "items", "id", "meta"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.sampled_from(["", "ORDER_LIMIT", "refused", "success", "do_not_retry", "retry_after"]),
            st.just([]),
            st.fixed_dictionaries(
                {}, optional={"code": st.just("ORDER_LIMIT"), "recovery": st.sampled_from(["do_not_retry", "x"])}
            ),
        ),
    )
)
def test_the_short_way_of_a_plain_object_says_the_same(judge: Any, effect: str, value: dict[str, object]) -> None:
    """A dict is judged like any other mapping with the same members; what speaks the contract is never a success."""
    assert judge(Value(value), effect) == judge(Value(MappingProxyType(value)), effect)


def test_a_refusal_without_ok(judge: Any) -> None:
    """An error object with a code and a recovery class is the contract's, though nothing says that it is not ok."""
    refused = judge(Value({"error": {"code": "ORDER_LIMIT", "recovery": "do_not_retry"}}))
    assert (refused.code, refused.recovery) == ("ORDER_LIMIT", Recovery.DO_NOT_RETRY)


@pytest.mark.parametrize("value", [None, "", [], {}, {"items": []}], ids=repr)
def test_nothing(judge: Any, value: object) -> None:
    """A read that holds nothing is empty with a reason; a write that returns nothing succeeded."""
    envelope = judge(Value(value))
    assert envelope is EMPTY
    assert (envelope.outcome, envelope.reason, envelope.recovery) == (Outcome.EMPTY, "NO_MATCHES", None)
    assert judge(Value(value), "write") is SUCCESS


def test_nothing_of_an_unlabelled_tool(judge: Any) -> None:
    """Nobody knows what null from an unlabelled tool means; an empty list is an empty list."""
    assert judge(Value(None), "undeclared") is SUCCESS
    assert judge(Value(""), "undeclared") is SUCCESS
    assert judge(Value([]), "undeclared") is EMPTY


@pytest.mark.parametrize(
    ("status", "finished"), [("running", False), ("queued", False), ("done", True), (None, True), (7, True)]
)
def test_polls(judge: Any, status: object, *, finished: bool) -> None:
    """A listed status is not finished, any other is; an unfinished look is a completed look."""
    policy = tool_policy("job", effect="read", poll={"status_field": "state", "pending": ["running", "queued"]})
    assert poll_finished(policy, {"state": status}) is finished
    envelope = judge(Value({"state": status}), policy)
    assert (envelope.outcome, envelope.reason) == (Outcome.SUCCESS, None if finished else "PENDING")


def test_polls_by_pointer(judge: Any) -> None:
    """The status may be deeper, or missing: then the look is final; a tool without a poll has no status."""
    policy = tool_policy("job", effect="read", poll={"status_field": "/job/state", "pending": "running"})
    assert poll_finished(policy, {"job": {"state": "running"}}) is False
    assert poll_finished(policy, {}) is True
    assert poll_finished(policy, "text") is True
    assert poll_finished(tool_policy("t"), {"state": "running"}) is None


RULES = tool_policy(
    "t",
    effect="write",
    text_rules=[
        {"prefix": "Error:", "recovery": "repair_input", "fields": ["width"]},
        {"equals": "no rows", "outcome": "empty"},
        {"pointer": "/status", "value": "denied", "recovery": "do_not_retry", "code": "DESK_FROZEN"},
        {"pointer": "/n", "value": 1, "outcome": "already_satisfied"},
        {"prefix": "queued", "outcome": "pending"},
        {"prefix": "half", "outcome": "partial"},
        {"prefix": "maybe", "outcome": "unknown"},
        {"prefix": "failed", "outcome": "failed", "code": "RATE_LIMITED"},
    ],
)


@pytest.mark.parametrize(
    ("value", "outcome", "recovery"),
    [
        ("Error: no width", Outcome.INVALID, Recovery.REPAIR_INPUT),
        ("An Error: no width", Outcome.SUCCESS, None),
        ("no rows", Outcome.EMPTY, None),
        ("no rows.", Outcome.SUCCESS, None),
        ({"status": "denied"}, Outcome.REFUSED, Recovery.DO_NOT_RETRY),
        ('{"status": "denied"}', Outcome.REFUSED, Recovery.DO_NOT_RETRY),
        ({"status": "ok"}, Outcome.SUCCESS, None),
        ({"n": 1}, Outcome.ALREADY_SATISFIED, None),
        ({"n": True}, Outcome.SUCCESS, None),
        ({"n": 1.0}, Outcome.SUCCESS, None),
        ("queued", Outcome.PENDING, Recovery.INSPECT_OUTCOME),
        ("half done", Outcome.PARTIAL, None),
        ("maybe", Outcome.UNKNOWN, Recovery.INSPECT_OUTCOME),
        ("failed", Outcome.FAILED, Recovery.RETRY_AFTER),
        ("", Outcome.SUCCESS, None),
        (5, Outcome.SUCCESS, None),
        (" " * 10_000 + "Error:", Outcome.SUCCESS, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_text_rules(judge: Any, value: object, outcome: Outcome, recovery: Recovery | None) -> None:
    """Prefix, equality and pointer rules recognise results, by type and value, and nothing in between."""
    envelope = judge(Value(value), RULES)
    assert (envelope.outcome, envelope.recovery) == (outcome, recovery)


def test_rule_for_an_unknown_outcome_of_a_read(judge: Any) -> None:
    """A read whose outcome is called unknown is looked at once more."""
    policy = tool_policy("t", effect="read", text_rules=[{"prefix": "maybe", "outcome": "unknown"}])
    assert judge(Value("maybe"), policy).recovery is Recovery.RETRY_AFTER


def test_the_contract_from_an_in_process_tool(judge: Any) -> None:
    """An owned tool's envelope is obeyed; with `speaks_contract = False` it is data."""
    value = {"ok": False, "error": {"code": "DESK_FROZEN", "recovery": "do_not_retry"}}
    assert judge(Value(value), "write").code == "DESK_FROZEN"
    assert judge(Value(value), tool_policy("t", speaks_contract=False)) is SUCCESS
    assert judge(Value(value), tool_policy("t", trust="remote")) is SUCCESS
    done = {"ok": True, "outcome": "already_satisfied", "data": None}
    assert judge(Value(done), "write").outcome is Outcome.ALREADY_SATISFIED


def test_unknown_words_in_an_envelope(judge: Any) -> None:
    """A class that nobody defined is never the most permissive one, and is counted."""
    counts = Counts()
    value = {"ok": False, "error": {"code": "X", "recovery": "retry_forever"}}
    envelope = judge(Value(value), "write", counts=counts)
    assert (envelope.recovery, envelope.executed) == (Recovery.INSPECT_OUTCOME, Executed.UNKNOWN)
    assert judge(Value(value), counts=counts).recovery is Recovery.DO_NOT_RETRY
    assert counts.unreadable_envelopes == 2
