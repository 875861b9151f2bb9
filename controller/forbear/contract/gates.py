"""Compile declarative approval rules into the function of the arguments that the policy holds. No prompt is made here.

A rule reads: ``{rule = "large", when = {amount = {above = 100}}, then = "ask"}``. The first rule that matches decides;
where none does, the call is allowed. What a rule cannot compare (a missing or non-numeric value) matches: unclear input
is never the way around a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from forbear.contract.body import first
from forbear.contract.raw import ABSENT
from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Gate
from forbear.errors import ConfigError

_TESTS: Final = ("above", "below", "in", "equals", "not_in", "present")
_THEN: Final = {"allow": Gate.ALLOW, "ask": Gate.ASK, "deny": Gate.DENY}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of one argument."""

    field: str
    test: str
    value: object


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: every test must hold."""

    name: str
    then: Gate
    tests: tuple[Comparison, ...]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _same(one: object, other: object) -> bool:
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def _holds(test: Comparison, arguments: Mapping[str, object], *, unclear: bool) -> bool:
    pointer = test.field if test.field.startswith("/") else f"/{test.field}"
    value = first(arguments, pointer)
    if test.test == "present":
        return (value is not ABSENT) is test.value
    if value is ABSENT:
        return unclear
    if test.test in ("above", "below"):
        if not _is_number(value):
            return unclear
        number, bound = cast("float", value), cast("float", test.value)
        return number > bound if test.test == "above" else number < bound
    if isinstance(value, (Mapping, list, tuple)):
        return unclear
    if test.test == "equals":
        return _same(value, test.value)
    listed = any(_same(value, one) for one in cast("tuple[object, ...]", test.value))
    return listed if test.test == "in" else not listed


def evaluate(rules: tuple[Rule, ...], arguments: Mapping[str, object]) -> RuleVerdict:
    """Return what the first matching rule says about a call."""
    for rule in rules:
        # A rule that would open the way needs clear input; one that closes it does not.
        unclear = rule.then is not Gate.ALLOW
        if all(_holds(test, arguments, unclear=unclear) for test in rule.tests):
            return RuleVerdict(gate=rule.then, rule=rule.name)
    return RuleVerdict()


def _test(rule: str, field: str, name: str, value: object) -> Comparison:
    if name not in _TESTS:
        raise ConfigError(f"approval rule {rule!r}: 'when' knows {', '.join(_TESTS)}, not {name!r}")
    if name in ("above", "below") and not _is_number(value):
        raise ConfigError(f"approval rule {rule!r}: {name!r} of field {field!r} must be a number")
    if name == "present" and not isinstance(value, bool):
        raise ConfigError(f"approval rule {rule!r}: 'present' of field {field!r} must be true or false")
    if name in ("in", "not_in"):
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            raise ConfigError(f"approval rule {rule!r}: {name!r} of field {field!r} must be a list")
        return Comparison(field, name, tuple(cast("Sequence[object]", value)))
    if name == "equals" and isinstance(value, (Mapping, list)):
        raise ConfigError(f"approval rule {rule!r}: 'equals' of field {field!r} must be a scalar")
    return Comparison(field, name, value)


def read_rules(declared: object) -> tuple[Rule, ...]:
    """Return the rules of a declaration.

    Raises:
        ConfigError: the message names rule, field and what is expected.
    """
    if isinstance(declared, Mapping):
        declared = [cast("object", declared)]
    if isinstance(declared, str) or not isinstance(declared, Sequence) or not declared:
        raise ConfigError("field 'approval' must be 'never', 'always', a function, or a list of rules")
    rules: list[Rule] = []
    for position, one in enumerate(cast("Sequence[object]", declared)):
        if not isinstance(one, Mapping):
            raise ConfigError(f"approval rule {position} must be a table with 'when' and 'then'")
        members = cast("Mapping[str, object]", one)
        unknown = [key for key in members if key not in ("rule", "when", "then")]
        if unknown:
            raise ConfigError(f"approval rule {position}: {unknown[0]!r} must be 'rule', 'when' or 'then'")
        name = members.get("rule", "")
        if not isinstance(name, str) or not name or len(name) > 64 or not name.isprintable():
            raise ConfigError(f"approval rule {position} must have a name in 'rule' of at most 64 characters")
        then = members.get("then", "ask")
        if not isinstance(then, str) or then not in _THEN:
            raise ConfigError(f"approval rule {name!r}: 'then' must be allow, ask or deny")
        when = members.get("when", {})
        if not isinstance(when, Mapping):
            raise ConfigError(f"approval rule {name!r}: 'when' must be a table of fields")
        tests: list[Comparison] = []
        for field, comparisons in cast("Mapping[str, object]", when).items():
            if not isinstance(comparisons, Mapping) or not comparisons:
                raise ConfigError(
                    f"approval rule {name!r}: argument {field!r} must be compared, such as {{ above = 100 }},"
                    f" by one of {', '.join(_TESTS)}"
                )
            tests.extend(
                _test(name, field, test, value) for test, value in cast("Mapping[str, object]", comparisons).items()
            )
        rules.append(Rule(name, _THEN[then], tuple(tests)))
    return tuple(rules)


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """Rules as the function that `ToolPolicy.approval` holds; equal rules are equal values."""

    rules: tuple[Rule, ...]

    def __call__(self, arguments: Mapping[str, object]) -> RuleVerdict:
        """Return the verdict about a call's arguments."""
        return evaluate(self.rules, arguments)


def compile_rules(declared: object) -> Callable[[Mapping[str, object]], RuleVerdict]:
    """Return declarative rules as a function of the arguments.

    Raises:
        ConfigError: a rule is wrong.
    """
    return CompiledRules(read_rules(declared))
