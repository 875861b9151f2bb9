"""Declarative approval rules that still ask and deny at least what earlier ones did."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from forbear.contract import tool_policy
from forbear.contract.declare import policy_form
from forbear.contract.gate_order import rules_of, stays_as_strict
from forbear.contract.gates import evaluate, read_rules
from forbear.core.vocabulary import Gate

Declared = list[dict[str, object]]
STRICTNESS = {Gate.ALLOW: 0, Gate.ASK: 1, Gate.DENY: 2}
ARGUMENTS: tuple[Mapping[str, object], ...] = tuple(
    {name: value for name, value in (("n", n), ("to", to)) if value != "absent"}
    for n in ("absent", "text", True, 0, 1, 2, 3.5, None, [1])
    for to in ("absent", "a", "b", "c", 1, True, {"x": 1})
)
TESTS: tuple[dict[str, object], ...] = (
    {},
    {"n": {"above": 0}},
    {"n": {"above": 2}},
    {"n": {"below": 1}},
    {"n": {"below": 3}},
    {"to": {"in": ["a"]}},
    {"to": {"in": ["a", "b", 1]}},
    {"to": {"not_in": ["a"]}},
    {"to": {"not_in": ["a", "b"]}},
    {"n": {"not_in": [1]}},
    {"n": {"not_in": [True]}},
    {"to": {"equals": 1}},
    {"to": {"equals": True}},
    {"to": {"equals": "a"}},
    {"to": {"present": True}},
    {"to": {"present": False}},
    {"n": {"above": 0}, "to": {"in": ["a"]}},
)


def made(random_: random.Random, names: str) -> Declared:
    """Return some rules in the order of their names."""
    return [{**_one(random_), "rule": name} for name in sorted(random_.sample(names, random_.randint(1, len(names))))]


def changed(random_: random.Random, rules: Declared) -> Declared:
    """Return the same rules with one or two of them changed, added or taken out."""
    found = [dict(one) for one in rules]
    for _ in range(random_.randint(1, 2)):
        place = random_.randrange(len(found) + 1)
        match random_.choice(["add", "when", "then", "drop"]):
            case "add":
                found.insert(place, {**_one(random_), "rule": f"x{len(found)}"})
            case "when" if place < len(found):
                found[place]["when"] = random_.choice(TESTS)
            case "then" if place < len(found):
                found[place]["then"] = random_.choice(["allow", "ask", "deny"])
            case "drop" if place < len(found):
                del found[place]
            case _:
                pass
    return found


def _one(random_: random.Random) -> dict[str, object]:
    return {"when": random_.choice(TESTS), "then": random_.choice(["allow", "ask", "deny"])}


def test_what_is_said_to_be_as_strict_is_as_strict_for_every_call() -> None:
    """Of eight thousand changes of rules, none that passes lets a call through that was asked about or denied."""
    random_ = random.Random(7)
    passed = 0
    for _ in range(8_000):
        old = made(random_, "abc")
        new = changed(random_, old)
        if not new:
            continue
        before, after = read_rules(old), read_rules(new)
        if not stays_as_strict(before, after):
            continue
        passed += 1
        for arguments in ARGUMENTS:
            one, other = evaluate(before, arguments).gate, evaluate(after, arguments).gate
            assert STRICTNESS[other] >= STRICTNESS[one], (old, new, arguments)
    # The test sees changes that pass, and not only those that change nothing.
    assert passed > 800


def rule(name: str, then: str, **when: object) -> dict[str, object]:
    """Return one rule as an author writes it."""
    return {"rule": name, "when": when, "then": then}


BIG = rule("big", "ask", amount={"above": 100})


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        ([BIG], [BIG], True),
        ([BIG], [rule("big", "ask", amount={"above": 50})], True),
        ([BIG], [rule("big", "ask", amount={"above": 200})], False),
        ([BIG], [rule("big", "deny", amount={"above": 100})], True),
        ([BIG], [rule("big", "allow", amount={"above": 100})], False),
        ([BIG], [rule("large", "ask", amount={"above": 100})], False),
        ([BIG], [BIG, rule("far", "deny", to={"equals": "abroad"})], True),
        ([BIG], [rule("far", "deny", to={"equals": "abroad"}), BIG], True),
        ([BIG], [rule("us", "allow", to={"equals": "us"}), BIG], False),
        ([BIG], [BIG, rule("us", "allow", to={"equals": "us"})], True),
        ([rule("us", "allow", to={"in": ["us", "them"]}), BIG], [rule("us", "allow", to={"in": ["us"]}), BIG], True),
        ([rule("us", "allow", to={"in": ["us"]}), BIG], [rule("us", "allow", to={"in": ["us", "them"]}), BIG], False),
        ([rule("far", "deny", to={"equals": "x"})], [BIG, rule("far", "deny", to={"equals": "x"})], False),
        ([BIG, rule("b", "ask")], [rule("b", "ask"), BIG], False),
        ([rule("b", "deny", n={"not_in": [1]})], [rule("b", "deny", n={"not_in": [True]})], False),
        ([rule("b", "deny", n={"equals": 0})], [rule("b", "deny", n={"equals": False})], False),
        ([BIG], [], False),
    ],
)  # fmt: skip
def test_changes_of_rules(old: Declared, new: Declared, stays: bool) -> None:
    """More is asked or denied: yes. Less is, or it cannot be told: no."""
    assert stays_as_strict(read_rules(old), read_rules(new) if new else ()) is stays


def test_rules_are_read_back_from_what_a_store_keeps() -> None:
    """The form of a policy holds its rules whole; a function, or rules that nobody can read, are not rules."""
    declared = [rule("big", "ask", amount={"above": 100, "below": 500}), rule("far", "deny", to={"in": ["a", 1, True]})]
    form = policy_form(tool_policy("t", approval=declared))
    assert rules_of(form["approval"]) == read_rules(declared)
    assert rules_of("never") == ()
    for other in (
        "always",
        "module:function",
        None,
        {"rules": 1},
        {"rules": [1]},
        {"rules": [{"name": "", "tests": 1}]},
    ):
        assert rules_of(other) is None
