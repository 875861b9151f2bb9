"""Policy drift: where a store has an operator token, a policy that is looser than the noted one needs it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forbear import Controller, NotOperator, Operator, Refused, govern
from forbear.contract import ask
from forbear.contract.drift import FIELDS, LIMITS
from forbear.core.policy import Limits, ToolPolicy
from forbear.errors import UsageError
from forbear.ports import Commit
from forbear.runtime.policy_rows import OF_RUNS
from forbear.testing.clock import ManualClock

Opener = Callable[..., Controller]
Fields = Mapping[str, object]
Script = Callable[..., Any]


def by_desk(arguments: Mapping[str, object]) -> object:
    """Return a target or a quota."""
    return arguments.get("desk")


def gate(arguments: Mapping[str, object]) -> object:
    """Ask about everything."""
    return ask("large")


def other_gate(arguments: Mapping[str, object]) -> object:
    """Ask about everything, by another function."""
    return ask("large")


def rules(above: int) -> list[dict[str, object]]:
    """Return declarative rules: ask above an amount."""
    return [{"rule": "large", "when": {"amount": {"above": above}}, "then": "ask"}]


def denies(flag: object) -> list[dict[str, object]]:
    """Return declarative rules: deny what has a flag."""
    return [{"rule": "flagged", "when": {"flag": {"equals": flag}}, "then": "deny"}]


READ: Fields = {"effect": "read"}
WRITE: Fields = {"effect": "write"}
POLL = {"status_field": "status", "pending": ["working"], "min_interval": 2}
TEXT = [{"prefix": "no", "recovery": "do_not_retry"}]
# field -> (strict, loose): going from the first to the second is looser; in UNORDERED the other way is, too.
ORDERED: Mapping[str, tuple[Fields, Fields]] = {
    "effect": (WRITE, READ),
    "repeatable": ({**WRITE, "repeatable": False}, WRITE),
    "operation": ({**WRITE, "operation": "orders.place"}, WRITE),
    "ignore": ({**WRITE, "ignore": ["note"]}, WRITE),
    "quota": ({**WRITE, "quota": "orders"}, WRITE),
    "constraints": ({**WRITE, "constraints": {"size": "operation"}}, {**WRITE, "constraints": {"size": "action"}}),
    "approval": ({**WRITE, "approval": "always"}, WRITE),
    "inspect": (WRITE, {**WRITE, "inspect": "find"}),
    "idempotency_key": (
        {**WRITE, "idempotency_key": {"argument": "key", "valid_for": 60}},
        {**WRITE, "idempotency_key": "key"},
    ),
    "poll": ({**READ, "poll": POLL}, {**READ, "poll": {**POLL, "min_interval": 1}}),
    "empty_retry": (
        {**READ, "empty_means": "unknown", "empty_retry": {"looks": 1}},
        {**READ, "empty_means": "unknown", "empty_retry": {"looks": 2}},
    ),
    "required": ({**WRITE, "required": ["desk"]}, WRITE),
    "alternatives": (WRITE, {**WRITE, "alternatives": ["other"]}),
    "preconditions": (WRITE, {**WRITE, "preconditions": ["login"]}),
    "permissions": (WRITE, {**WRITE, "permissions": ["trade"]}),
    "approval_hosts": (WRITE, {**WRITE, "approval_hosts": ["desk.example"]}),
    "error_text": (WRITE, {**WRITE, "error_text": "shown"}),
    "safe_fields": ({**WRITE, "safe_fields": {"state": ["open"]}}, {**WRITE, "safe_fields": {"state": "text"}}),
    "shared_codes": ({**WRITE, "shared_codes": ["429"]}, WRITE),
    "atomic": ({**WRITE, "atomic": False}, WRITE),
    "trust": ({**WRITE, "trust": "remote", "speaks_contract": True}, WRITE),
    "secret": ({**WRITE, "secret": ["card"]}, WRITE),
    "mode": (WRITE, {**WRITE, "mode": "observe"}),
    "input_fields": ({**WRITE, "input_fields": ["desk"]}, {**WRITE, "input_fields": ["desk", "amount"]}),
}
UNORDERED: Mapping[str, tuple[Fields, Fields]] = {
    "target": ({**WRITE, "target": "desk"}, {**WRITE, "target": by_desk}),
    "empty_means": (READ, {**READ, "empty_means": "unknown"}),
    "text_rules": (WRITE, {**WRITE, "text_rules": TEXT}),
    "status_rules": (WRITE, {**WRITE, "status_rules": [{"status": 409, "recovery": "do_not_retry"}]}),
    "exception_rules": (WRITE, {**WRITE, "exception_rules": [{"exception": "a.B", "recovery": "do_not_retry"}]}),
    "speaks_contract": (WRITE, {**WRITE, "speaks_contract": False}),
}
# limit -> (strict, loose)
BOUNDS: Mapping[str, tuple[object, object]] = {
    "default_wait": (10, 5),
    "on_unknown_reset": ("stop", "wait"),
    "max_wait": (3600, 7200),
    "max_unattended": (60, 120),
    "max_parked": (1, 5),
    "inline_wait": (1, 5),
    "max_retries": (0, 1),
    "max_repairs": (1, 3),
    "max_refusals": (1, 3),
    "max_blocked_before_stop": (0, 1),
    "max_blocked_steps": (2, 5),
    "max_idle_steps": (2, 10),
    "max_blocked_per_turn": (2, 30),
    "max_calls_per_turn": (10, None),
    "max_calls_per_run": (10, 20),
    "max_same_results": (5, None),
    "replay_completed": (1, 0),
    "checker_retry": (0, 1),
    "on_checker_down": ("block", "ask"),
    "approval_ttl": (60, 3600),
    "grant_ttl": (60, 300),
    "max_prompts": (1, 5),
    "max_open_prompts": (1, 10),
    "inspect_attempts": (1, 3),
    "settle": (60, 10),
    "max_shared_hold": (7200, 3600),
    "timeout": (10, None),
}


class Shop:
    """One store on a disk that is opened again and again, with a token."""

    def __init__(self, opened: Opener, path: Path) -> None:
        self._opened, self.path = opened, path
        self.token = ""

    def start(self, policy: Fields | None, *, token: str | None = None, **options: Any) -> Controller:
        """Open the store in a new process's place, with one tool declared like this."""
        controller = self._opened(self.path, token=token, **options)
        if policy is not None:
            if "inspect" in policy:
                # A check has to be there before its write is called.
                controller.declare("find", effect="read")
            controller.declare("trade", **policy)
        return controller

    def lock(self) -> None:
        """Give the store a token."""
        self.token = Operator(self._opened(self.path)).make_token()


@pytest.fixture
def shop(opened: Opener, tmp_path: Path) -> Shop:
    """Return a shop whose store has no token yet."""
    return Shop(opened, tmp_path / "shop.db")


def lines(controller: Controller) -> list[tuple[str, dict[str, object]]]:
    """Return the journal's lines about policies: rule and body."""
    found = (line for _, line in controller.store.journal(limit=1000) if line.rule.startswith("policy."))
    return [(line.rule, json.loads(line.body)) for line in found]


# ---- every field ----------------------------------------------------------------------------------------------------


def test_every_field_and_limit_has_an_order_and_an_example() -> None:
    """A new field of a policy, or a new limit, cannot be forgotten: without an order it would be looser, always."""
    assert FIELDS.keys() == {one.name for one in fields_of(ToolPolicy)} - {"name", "digest", "limits"}
    assert LIMITS.keys() == {one.name for one in fields_of(Limits)}
    assert ORDERED.keys() | UNORDERED.keys() == FIELDS.keys()
    assert BOUNDS.keys() == LIMITS.keys()


def _as_limit(name: str, value: object) -> Fields:
    return {**WRITE, "limits": {name: value}}


CASES = [
    *((name, strict, loose, True) for name, (strict, loose) in ORDERED.items()),
    *((name, one, other, False) for name, (one, other) in UNORDERED.items()),
    *(
        (f"limits.{name}", _as_limit(name, strict), _as_limit(name, loose), True)
        for name, (strict, loose) in BOUNDS.items()
    ),
]


@pytest.mark.parametrize(("field", "strict", "loose", "is_ordered"), CASES, ids=[case[0] for case in CASES])
def test_a_looser_field_needs_the_token(
    shop: Shop, field: str, strict: Fields, loose: Fields, is_ordered: bool, scripted: Script
) -> None:
    """With a token in the store a looser field is refused by name, nothing runs, and the token opens the way."""
    shop.start(strict).check_policies()
    shop.lock()
    tool = scripted(1)
    refused = shop.start(loose)
    with pytest.raises(NotOperator, match=f"tool 'trade': .*field '{field}' must not"):
        refused.call("trade", {"desk": "a"}, run="r", execute=tool)
    assert tool.count == 0
    shop.start(strict).check_policies()
    allowed = shop.start(loose, token=shop.token)
    allowed.check_policies()
    assert lines(allowed)[-1][0] == "policy.loosened"
    assert field in str(lines(allowed)[-1][1]["looser"])
    back = shop.start(strict)
    if is_ordered:
        back.check_policies()
        assert lines(back)[-1][0] == "policy.changed"
        assert lines(back)[-1][1]["looser"] == []
    else:
        with pytest.raises(NotOperator, match=field):
            back.check_policies()


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        ({"approval": rules(100)}, {"approval": rules(50)}, True),
        ({"approval": rules(100)}, {"approval": rules(1000)}, False),
        ({"approval": rules(100)}, {"approval": "always"}, True),
        ({"approval": rules(100)}, {"approval": "never"}, False),
        ({"approval": "never"}, {"approval": rules(100)}, True),
        ({"approval": "always"}, {"approval": rules(0)}, False),
        ({"approval": denies(1)}, {"approval": denies(True)}, False),
        ({"approval": gate}, {"approval": gate}, True),
        ({"approval": gate}, {"approval": other_gate}, False),
        ({"approval": gate}, {"approval": rules(0)}, False),
        ({"constraints": {}}, {"constraints": {"size": "operation"}}, True),
        ({"constraints": {}}, {"constraints": {"size": "action"}}, False),
        ({"constraints": {"size": "operation"}}, {"constraints": {"size": "principal"}}, True),
        ({"constraints": {"size": "operation"}}, {"constraints": {"size": "run"}}, False),
        ({"idempotency_key": "key"}, {}, True),
        ({}, {"idempotency_key": "key"}, False),
        ({"inspect": "find"}, {"inspect": "search"}, False),
        ({"operation": "trade"}, {}, True),
        ({"operation": "orders"}, {"operation": "trades"}, False),
        ({"quota": "a"}, {"quota": "b"}, False),
        ({"safe_fields": {"state": "text"}}, {"safe_fields": {}}, True),
        ({"safe_fields": {}}, {"safe_fields": {"state": "text"}}, False),
        ({"input_fields": ["desk"]}, {}, False),
        ({"trust": "owned"}, {"trust": "remote", "speaks_contract": True}, True),
        ({"trust": "owned"}, {"trust": "remote"}, False),
        ({"limits": {"max_retries": 1}}, {}, True),
        ({"limits": {"max_retries": 2}}, {}, True),
        ({}, {"limits": {"max_retries": 2}}, False),
        ({"limits": {"max_repairs": 5}}, {}, False),
        ({}, {"limits": {"max_repairs": 5}}, False),
        ({"limits": {"max_refusals": 2}}, {}, False),
        ({"limits": {"max_same_results": 10}}, {}, True),
        ({"definition": {"description": "a"}}, {"definition": {"description": "b"}}, True),
    ],
)  # fmt: skip
def test_what_is_tighter_is_taken_and_what_cannot_be_compared_is_not(
    shop: Shop, old: Fields, new: Fields, is_taken: bool
) -> None:
    """Every field has its own order; what is in no order counts as looser."""
    shop.start({**WRITE, **old}).check_policies()
    shop.lock()
    again = shop.start({**WRITE, **new})
    if is_taken:
        again.check_policies()
    else:
        with pytest.raises(NotOperator):
            again.check_policies()


def test_a_read_without_a_number_of_retries_has_two_for_temporary_failures(shop: Shop) -> None:
    """A limit without a value is compared by what it stands for with this effect."""
    shop.start({**READ, "limits": {"max_retries": 1}}).check_policies()
    shop.lock()
    with pytest.raises(NotOperator, match=r"limits\.max_retries"):
        shop.start(READ).check_policies()


# ---- whole stories --------------------------------------------------------------------------------------------------


def test_without_a_token_nobody_is_in_the_way(shop: Shop, scripted: Script) -> None:
    """A store without a token takes a looser policy, and the change is in the record with its field."""
    shop.start({**WRITE, "approval": "always"}).check_policies()
    again = shop.start(WRITE)
    assert again.call("trade", {"desk": "a"}, run="r", execute=scripted(1)).value == 1
    assert [rule for rule, _ in lines(again)] == ["policy.noted", "policy.changed"]
    assert lines(again)[-1][1]["looser"] == ["approval"]


def test_a_store_in_memory_is_nobodys_way(opened: Opener, scripted: Script) -> None:
    """A tool may be declared anew, looser, in a store that nobody locked."""
    controller = opened()
    controller.declare("trade", effect="write", approval="always")
    controller.check_policies()
    controller.declare("trade", effect="read")
    assert controller.call("trade", {}, run="r", execute=scripted(1)).value == 1


def test_other_tools_and_new_tools_are_not_refused(shop: Shop, scripted: Script) -> None:
    """Only the looser tool is refused; one that the store does not know is noted."""
    shop.start({**WRITE, "approval": "always"}).check_policies()
    shop.lock()
    again = shop.start(WRITE)
    again.declare("look", effect="read")
    assert again.call("look", {}, run="r", execute=scripted(1)).value == 1
    with pytest.raises(NotOperator):
        again.call("trade", {}, run="r", execute=scripted(1))


def test_to_say_nothing_about_a_tool_is_looser(shop: Shop, scripted: Script) -> None:
    """A start that leaves a declaration out does not get around it."""
    shop.start({**WRITE, "approval": "always"}).check_policies()
    shop.lock()
    tool = scripted(1)
    with pytest.raises(NotOperator, match="'approval'"):
        shop.start(None).call("trade", {}, run="r", execute=tool)
    assert tool.count == 0


def test_every_way_in_is_closed(shop: Shop, scripted: Script) -> None:
    """`propose`, and a governed function, raise it too: no model is told, and nothing runs."""
    shop.start({**WRITE, "approval": "always"}).check_policies()
    shop.lock()
    again = shop.start(None)
    with pytest.raises(NotOperator):
        again.propose("trade", {}, run="r")
    tool = scripted(1)

    def trade(desk: str) -> object:
        return tool(desk=desk)

    governed = govern(trade, again, run="r", effect="write", approval="never")
    with pytest.raises(NotOperator):
        governed("a")
    assert tool.count == 0


def test_a_read_does_not_slip_through_the_short_way(shop: Shop, scripted: Script) -> None:
    """Reads that are declared need no commit of their own, and are checked all the same, at every call."""
    shop.start({**READ, "approval": "always"}).check_policies()
    shop.lock()
    again, tool = shop.start(READ), scripted(1)
    for _ in range(3):
        with pytest.raises(NotOperator):
            again.call("trade", {}, run="r", execute=tool)
    assert tool.count == 0
    assert [rule for rule, _ in lines(again)] == ["policy.noted", "policy.refused"]


def test_what_is_due_waits_for_the_operator(shop: Shop, clock: ManualClock, scripted: Script) -> None:
    """A retry that was scheduled under the old policy is not made under a looser one; when it is allowed, it is."""
    first = shop.start({**WRITE, "approval": [{"rule": "big", "when": {"amount": {"above": 5}}}]})
    later = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
    first.call("trade", {"amount": 1}, run="r", execute=scripted(later))
    shop.lock()
    clock.advance(120)
    again, tool = shop.start(WRITE), scripted(1)
    again.bind("trade", tool)
    with pytest.warns(RuntimeWarning, match="what is due does not run: tool 'trade': field 'approval'"):
        assert again.work() == []
    assert tool.count == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again.work() == []
    with Operator(shop.path, token=shop.token, clock=clock) as operator:
        (waits,) = (one for one in operator.pending() if one.kind == "policy")
        operator.allow(waits.ticket, waits.fingerprint)
    assert [reply.value for reply in again.work()] == [1]


def test_a_tool_that_is_not_declared_here_runs_under_what_the_store_has(
    shop: Shop, clock: ManualClock, scripted: Script
) -> None:
    """A worker that only binds a tool does not make its policy looser: the rule of the other process still asks."""
    first = shop.start({**WRITE, "approval": rules(5)})
    later = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
    first.call("trade", {"amount": 1}, run="r", execute=scripted(later))
    clock.advance(120)
    worker, tool = shop.start(None), scripted(1)
    worker.bind("trade", tool)
    worker.work()
    assert tool.count == 0
    assert [one.kind for one in Operator(worker).pending() if one.tool == "trade"] == ["approval"]


def test_observe_mode_is_looser(shop: Shop, scripted: Script) -> None:
    """Switching a whole controller to watching needs the token."""
    shop.start(WRITE).check_policies()
    shop.lock()
    with pytest.raises(NotOperator, match="'mode'"):
        shop.start(WRITE, mode="observe").call("trade", {}, run="r", execute=scripted(1))


@pytest.mark.parametrize("name", OF_RUNS)
def test_what_bounds_a_run_beside_the_tools_is_compared_too(shop: Shop, name: str) -> None:
    """The controller's own limits count, also where the tool has limits of its own."""
    own = {**WRITE, "limits": {"max_blocked_steps": 1, "max_idle_steps": 1, "max_blocked_per_turn": 1}}
    shop.start(own, limits={name: 3}).check_policies()
    shop.lock()
    shop.start(own, limits={name: 2}).check_policies()
    with pytest.raises(NotOperator, match=rf"'controller\.limits\.{name}' must not be raised"):
        shop.start(own, limits={name: 4}).check_policies()


def test_inherited_limits_are_the_tools_own(shop: Shop) -> None:
    """A limit of the controller that a tool inherits is compared for the tool, also where a file declared it."""
    path = shop.path.with_name("policy.toml")
    path.write_text('[tools.trade]\neffect = "write"\n', "utf-8")
    shop.start(None, limits={"max_retries": 1}).declare_from(path)
    first = shop.start(None, limits={"max_retries": 1})
    first.declare_from(path)
    first.check_policies()
    shop.lock()
    again = shop.start(None, limits={"max_retries": 2})
    again.declare_from(path)
    with pytest.raises(NotOperator, match=r"limits\.max_retries"):
        again.check_policies()


# ---- the operator ---------------------------------------------------------------------------------------------------


def refused_policy(shop: Shop) -> Controller:
    """Leave a refused policy behind and return the controller that has it."""
    shop.start({**WRITE, "approval": "always", "limits": {"grant_ttl": 60}}).check_policies()
    shop.lock()
    again = shop.start({**WRITE, "limits": {"grant_ttl": 120}})
    with pytest.raises(NotOperator, match=r"'approval'.*'limits\.grant_ttl'"):
        again.check_policies()
    return again


def test_a_refused_policy_waits_and_is_allowed_by_its_ticket(shop: Shop, scripted: Script) -> None:
    """An operator sees the looser fields with their new values, allows exactly that policy, and calls go on."""
    again = refused_policy(shop)
    with Operator(again, actor="sam", token=shop.token) as operator:
        (waits,) = operator.pending()
        assert (waits.kind, waits.tool) == ("policy", "trade")
        assert "field 'approval' must not" in waits.message
        assert [(one.name, one.text) for one in waits.arguments] == [
            ("approval", "never"),
            ("limits.grant_ttl", "120.0"),
        ]
        assert operator.allow(waits.ticket, waits.fingerprint) == ("approval", "limits.grant_ttl")
        assert operator.pending() == ()
    assert again.call("trade", {}, run="r", execute=scripted(1)).value == 1
    rule, body = lines(again)[-1]
    assert (rule, body["actor"], body["looser"]) == ("policy.loosened", "sam", ["approval", "limits.grant_ttl"])


def test_a_policy_is_not_allowed_without_the_token(shop: Shop) -> None:
    """Whoever lacks the token, means another policy or has a dead ticket changes nothing."""
    again = refused_policy(shop)
    (waits,) = Operator(again).pending()
    with pytest.raises(NotOperator):
        Operator(again).allow(waits.ticket, waits.fingerprint)
    operator = Operator(again, token=shop.token)
    with pytest.raises(UsageError, match="fingerprint"):
        operator.allow(waits.ticket, "0" * 32)
    with pytest.raises(UsageError, match="policy that waits"):
        operator.allow("tkt_" + "0" * 32, waits.fingerprint)
    operator.allow(waits.ticket, waits.fingerprint)
    with pytest.raises(UsageError, match="policy that waits"):
        operator.allow(waits.ticket, waits.fingerprint)


def test_a_refused_policy_that_is_given_up_waits_no_more(shop: Shop) -> None:
    """When the strict policy is back and changed, nothing waits; a repeated refusal is journalled once."""
    again = refused_policy(shop)
    with pytest.raises(NotOperator):
        again.check_policies()
    assert [rule for rule, _ in lines(again)] == ["policy.noted", "policy.refused"]
    tighter = shop.start({**WRITE, "approval": "always", "limits": {"grant_ttl": 30}})
    tighter.check_policies()
    assert Operator(tighter).pending() == ()


def test_a_wrong_token_opens_nothing(shop: Shop) -> None:
    """A controller with another token than the store's is not made, and the attempt is journalled."""
    shop.start(WRITE).check_policies()
    shop.lock()
    with pytest.raises(NotOperator):
        shop.start(WRITE, token="fbo_" + "0" * 64)
    with Controller.open(shop.path, worker=False) as controller:
        assert "operator.refused" in [line.rule for _, line in controller.store.journal(limit=100)]


def test_a_store_of_an_earlier_release_is_compared_with_nothing(shop: Shop) -> None:
    """What was kept without its fields counts as tighter than anything but itself."""
    first = shop.start({**WRITE, "approval": "always"})
    first.check_policies()
    (row,) = first.store.load("policy:trade").rows
    body = json.loads(row.body)
    del body["form"], body["runs"]
    shop.lock()

    version = first.store.load("policy:trade").version
    first.store.commit(Commit(expected={"policy:trade": version}, puts=(replace(row, body=json.dumps(body).encode()),)))
    with pytest.raises(NotOperator, match="field 'policy' was kept in a form that cannot be compared"):
        shop.start({**WRITE, "approval": "always", "secret": ["card"]}).check_policies()
