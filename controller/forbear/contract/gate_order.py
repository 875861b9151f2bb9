"""Whether declarative approval rules still ask and deny at least what earlier ones did. What rules mean is in `gates.py`.

The first rule that matches decides, so a rule in front of another one can soften it. The test below is sufficient, not
necessary: where it says yes, every call gets a verdict at least as strict as before (allow < ask < deny); where it says
no, somebody has to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from forbear.contract.gates import Comparison, Rule, read_rules
from forbear.core.vocabulary import Gate
from forbear.errors import ConfigError

__all__ = ["rules_of", "stays_as_strict"]

_STRICTNESS: Final = {Gate.ALLOW: 0, Gate.ASK: 1, Gate.DENY: 2}


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def rules_of(form: object) -> tuple[Rule, ...] | None:
    """Return the rules of an approval's form; None = it is a function, or no rules that this release can read."""
    if form == "never":
        return ()
    held = _members(form).get("rules")
    if not isinstance(held, list):
        return None
    try:
        return read_rules([_declared(one) for one in cast("list[object]", held)])
    except ConfigError:
        return None


def _declared(form: object) -> object:
    """Return one rule's form as its author would write it."""
    members = _members(form)
    when: dict[str, dict[str, object]] = {}
    tests = members.get("tests")
    for one in cast("list[object]", tests) if isinstance(tests, list) else []:
        test = _members(one)
        when.setdefault(str(test.get("field")), {})[str(test.get("test"))] = test.get("value")
    return {"rule": members.get("name"), "then": members.get("then"), "when": when}


def stays_as_strict(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> bool:
    """Say whether every call gets a verdict at least as strict as before.

    The old rules must all be there, by name and in their order. One that asks or denies may match more; one that allows
    may match less; none may become softer. A rule that is new, or matches more, must not stand in front of a rule that
    is stricter than itself.
    """
    names = [rule.name for rule in old]
    if len({*names}) != len(names) or [rule.name for rule in new if rule.name in names] != names:
        return False
    before = {rule.name: rule for rule in old}
    for place, rule in enumerate(new):
        was = before.get(rule.name)
        if was is not None and _STRICTNESS[rule.then] < _STRICTNESS[was.then]:
            return False
        is_same = was is not None and was.then is rule.then and _written(was.tests) == _written(rule.tests)
        if is_same:
            continue
        if rule.then is Gate.ALLOW:
            # It may be the last word, which is what would be said anyway, or match less than it did.
            if was is None and place < len(new) - 1:
                return False
            if was is not None and not _matches_all_of(was.tests, rule.tests):
                return False
            continue
        if was is not None and not _matches_all_of(rule.tests, was.tests):
            return False
        if any(_STRICTNESS[later.then] > _STRICTNESS[rule.then] for later in new[place + 1 :]):
            return False
    return True


def _matches_all_of(wide: tuple[Comparison, ...], narrow: tuple[Comparison, ...]) -> bool:
    """Say whether tests hold for every call for which others hold: each is implied by one of the others."""
    return all(any(_implies(one, test) for one in narrow) for test in wide)


def _implies(one: Comparison, other: Comparison) -> bool:
    if one.field != other.field or one.test != other.test:
        return False
    if _written((one,)) == _written((other,)):
        return True
    match one.test:
        case "above":
            return cast("float", one.value) >= cast("float", other.value)
        case "below":
            return cast("float", one.value) <= cast("float", other.value)
        case "in":
            return _held(one) <= _held(other)
        case "not_in":
            return _held(one) >= _held(other)
        case _:
            return False


def _written(tests: tuple[Comparison, ...]) -> list[tuple[str, str, str]]:
    """Return tests by how they are written: Python's equality takes true for 1."""
    return [(one.field, one.test, repr(one.value)) for one in tests]


def _held(test: Comparison) -> frozenset[str]:
    """Return the values of a list, each by how it is written: true is not 1."""
    return frozenset(repr(value) for value in cast("tuple[object, ...]", test.value))
