"""Which of two policies of one tool is looser, field by field: a partial order, as a table. Only forms are compared.

A *form* is a policy as plain JSON (`declare.policy_form`): what a store can keep. A function is its qualified name in it,
so a function whose code changed is not seen. What cannot be compared is looser: nothing here guesses. Who may make a
policy looser is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from forbear.contract.gate_order import rules_of, stays_as_strict
from forbear.core.policy import (
    MAX_REFUSALS,
    MAX_REFUSALS_WRITE,
    MAX_REPAIRS,
    MAX_REPAIRS_NAMED,
    MAX_RETRIES,
    MAX_RETRIES_TEMPORARY_READ,
    MAX_SAME_RESULTS,
    MAX_SAME_RESULTS_WRITE,
)
from forbear.core.vocabulary import Effect, Mode, Scope, Trust

__all__ = ["FIELDS", "LIMITS", "Drift", "Form", "compare", "compare_limits"]

Form = Mapping[str, object]
# Says whether the new value is at most as loose as the old one: (old, new, old form, new form).
Test = Callable[[object, object, Form, Form], bool]
_NO_END: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One field of a policy that is not what it was."""

    # A limit is ``limits.NAME``.
    field: str
    looser: bool
    # What the field must not do without becoming looser.
    rule: str


@dataclass(frozen=True, slots=True)
class Order:
    """How one field may change without becoming looser."""

    rule: str
    is_kept: Test


# ---- orders of single values ----------------------------------------------------------------------------------------


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _NO_END


def _names(value: object) -> frozenset[str]:
    return frozenset(str(one) for one in cast("list[object]", value)) if isinstance(value, list) else frozenset()


def _table(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _fixed(_old: object, _new: object, _was: Form, _now: Form) -> bool:
    return False


def _at_most(old: object, new: object, _was: Form, _now: Form) -> bool:
    return _number(new) <= _number(old)


def _at_least(old: object, new: object, _was: Form, _now: Form) -> bool:
    return _number(new) >= _number(old)


def _keeps(old: object, new: object, _was: Form, _now: Form) -> bool:
    return _names(old) <= _names(new)


def _adds_none(old: object, new: object, _was: Form, _now: Form) -> bool:
    return _names(new) <= _names(old)


def _is_set(old: object, _new: object, _was: Form, _now: Form) -> bool:
    return old is None


def _is_taken(_old: object, new: object, _was: Form, _now: Form) -> bool:
    return new is None


def _ranked(*loosest_first: object) -> Test:
    def is_kept(old: object, new: object, _was: Form, _now: Form) -> bool:
        known = old in loosest_first and new in loosest_first
        return known and loosest_first.index(new) >= loosest_first.index(old)

    return is_kept


# ---- fields with an order of their own ------------------------------------------------------------------------------


def _own_name(old: object, _new: object, was: Form, _now: Form) -> bool:
    """A tool may join a family from a name of its own: more is covered. It may not leave one."""
    return old == was.get("name")


# What each scope is inside of; a scope that is not named is compared with nothing but itself.
_WIDER: Final[Mapping[str, frozenset[str]]] = {
    Scope.ACTION: frozenset({Scope.TARGET, Scope.OPERATION, Scope.PRINCIPAL}),
    Scope.TARGET: frozenset({Scope.OPERATION, Scope.PRINCIPAL}),
    Scope.OPERATION: frozenset({Scope.PRINCIPAL}),
    Scope.RUN: frozenset({Scope.PRINCIPAL}),
}


def _reach(old: object, new: object, _was: Form, _now: Form) -> bool:
    """A refusal that names a constraint may reach further than before; one that is not listed reaches its target."""
    before, after = _table(old), _table(new)
    for name in before.keys() | after.keys():
        one, other = str(before.get(name, Scope.TARGET)), str(after.get(name, Scope.TARGET))
        if one != other and other not in _WIDER.get(one, frozenset()):
            return False
    return True


def _approval(old: object, new: object, _was: Form, _now: Form) -> bool:
    if old == "never" or new == "always":
        return True
    rules, later = rules_of(old), rules_of(new)
    return rules is not None and later is not None and stays_as_strict(rules, later)


def _key(old: object, new: object, _was: Form, _now: Form) -> bool:
    """A key lets an unknown write be repeated once: it may be taken away, or be trusted for a shorter time."""
    if new is None:
        return True
    one, other = _table(old), _table(new)
    return one.get("argument") == other.get("argument") and _number(other.get("valid_for")) <= _number(
        one.get("valid_for", 0)
    )


def _poll(old: object, new: object, _was: Form, _now: Form) -> bool:
    """Looks may become fewer: longer apart, or with fewer values that mean "not finished"."""
    if old is None:
        return True
    one, other = _table(old), _table(new)
    return (
        new is not None
        and one.get("status_field") == other.get("status_field")
        and _names(other.get("pending")) <= _names(one.get("pending"))
        and _number(other.get("min_interval", 0)) >= _number(one.get("min_interval", 0))
    )


def _second_looks(old: object, new: object, _was: Form, _now: Form) -> bool:
    one, other = _table(old), _table(new)
    return _number(other.get("looks")) <= _number(one.get("looks")) and _number(other.get("delay", 0)) >= _number(
        one.get("delay", 0)
    )


def _safe_fields(old: object, new: object, _was: Form, _now: Form) -> bool:
    """A body field may be shown in fewer forms, or not at all."""
    before = _table(old)
    for name, kind in _table(new).items():
        held = before.get(name)
        values = _names(kind)
        if kind != held and not (values and (held == "text" or values <= _names(held))):
            return False
    return True


def _input_fields(old: object, new: object, _was: Form, _now: Form) -> bool:
    """Names may be fewer; without any, the names of the call's own arguments are shown, which is another set."""
    return bool(_names(new)) and _names(new) <= _names(old)


# ---- limits whose default depends on the tool -----------------------------------------------------------------------


def _retries(old: object, new: object, was: Form, now: Form) -> bool:
    """Without a number: one retry, two for temporary failures of repeatable reads."""
    return all(_retries_of(new, now, temporary=kind) <= _retries_of(old, was, temporary=kind) for kind in (True, False))


def _retries_of(value: object, form: Form, *, temporary: bool) -> float:
    if value is not None:
        return _number(value)
    is_repeatable_read = form.get("effect") == Effect.READ and form.get("repeatable") is True
    return MAX_RETRIES_TEMPORARY_READ if temporary and is_repeatable_read else MAX_RETRIES


def _repairs(old: object, new: object, _was: Form, _now: Form) -> bool:
    """Without a number: fewer where the answers name fields."""

    def bounds(value: object) -> tuple[float, float]:
        return (MAX_REPAIRS_NAMED, MAX_REPAIRS) if value is None else (_number(value), _number(value))

    return all(after <= before for before, after in zip(bounds(old), bounds(new), strict=True))


def _by_effect(write: int, other: int) -> Test:
    def is_kept(old: object, new: object, was: Form, now: Form) -> bool:
        def bound(value: object, form: Form) -> float:
            usual = write if form.get("effect") == Effect.WRITE else other
            return usual if value is None else _number(value)

        return bound(new, now) <= bound(old, was)

    return is_kept


def _replays(old: object, new: object, _was: Form, _now: Form) -> bool:
    """0 = an equal read is executed anew, as often as it is asked for."""
    return (_number(new) or _NO_END) <= (_number(old) or _NO_END)


_RAISED: Final = Order("must not be raised", _at_most)
_LOWERED: Final = Order("must not be lowered", _at_least)
_LOSE: Final = Order("must not lose a name", _keeps)
_GAIN: Final = Order("must not gain a name", _adds_none)
_CHANGE: Final = Order("must not change", _fixed)

LIMITS: Final[Mapping[str, Order]] = {
    "default_wait": _LOWERED,
    "on_unknown_reset": Order("must not go from 'stop' to 'wait'", _ranked("wait", "stop")),
    "max_wait": _RAISED,
    "max_unattended": _RAISED,
    "max_parked": _RAISED,
    "inline_wait": _RAISED,
    "max_retries": Order("must not be raised", _retries),
    "max_repairs": Order("must not be raised", _repairs),
    "max_refusals": Order("must not be raised", _by_effect(MAX_REFUSALS_WRITE, MAX_REFUSALS)),
    "max_blocked_before_stop": _RAISED,
    "max_blocked_steps": _RAISED,
    "max_idle_steps": _RAISED,
    "max_blocked_per_turn": _RAISED,
    "max_calls_per_turn": _RAISED,
    "max_calls_per_run": _RAISED,
    "max_same_results": Order("must not be raised", _by_effect(MAX_SAME_RESULTS_WRITE, MAX_SAME_RESULTS)),
    "replay_completed": Order("must not be raised, nor be 0", _replays),
    "checker_retry": _RAISED,
    "on_checker_down": Order("must not go from 'block' to 'ask'", _ranked("ask", "block")),
    "approval_ttl": _RAISED,
    "grant_ttl": _RAISED,
    "max_prompts": _RAISED,
    "max_open_prompts": _RAISED,
    "inspect_attempts": _RAISED,
    "settle": _LOWERED,
    "max_shared_hold": _LOWERED,
    "timeout": Order("must not be raised or taken away", _at_most),
}

FIELDS: Final[Mapping[str, Order]] = {
    "effect": Order(
        "must not go from 'write' to undeclared or 'read'", _ranked(Effect.READ, Effect.UNDECLARED, Effect.WRITE)
    ),
    "repeatable": Order("must not go from false towards true", _ranked(True, None, False)),
    "operation": Order("must not leave its family", _own_name),
    "target": _CHANGE,
    "ignore": _LOSE,
    "quota": Order("must not be taken away or changed", _is_set),
    "constraints": Order("must not reach less far", _reach),
    "approval": Order("must not let pass what a person or the rule had to judge", _approval),
    "inspect": Order("must not be set or changed: it lets a write be done again", _is_taken),
    "idempotency_key": Order("must not be set, changed or trusted for longer: it lets a write be done again", _key),
    "poll": Order("must not be taken away, or look more often", _poll),
    "empty_means": _CHANGE,
    "empty_retry": Order("must not look more often or sooner", _second_looks),
    "required": _LOSE,
    "alternatives": _GAIN,
    "preconditions": _GAIN,
    "permissions": _GAIN,
    "approval_hosts": _GAIN,
    "error_text": Order("must not go from 'hidden' to 'shown'", _ranked("shown", "hidden")),
    "text_rules": _CHANGE,
    "status_rules": _CHANGE,
    "exception_rules": _CHANGE,
    "safe_fields": Order("must not show more", _safe_fields),
    "shared_codes": _LOSE,
    "speaks_contract": _CHANGE,
    "atomic": Order("must not go from false to true", _ranked(True, False)),
    "trust": Order("must not go from 'remote' to 'owned'", _ranked(Trust.OWNED, Trust.REMOTE)),
    "secret": _LOSE,
    "mode": Order("must not go from 'enforce' to 'observe'", _ranked(Mode.OBSERVE, Mode.ENFORCE)),
    "input_fields": Order("must not gain a name", _input_fields),
}
_UNKNOWN: Final = Order("is not known to this release", _fixed)
# Members of a form that are compared elsewhere, or say which tool it is.
_ASIDE: Final = ("name", "digest", "limits")


def compare(old: Form, new: Form, usual: Form) -> tuple[Drift, ...]:
    """Return the fields in which a policy differs from an earlier one of the same tool, and which of them are looser.

    Args:
        old: The earlier policy's form.
        new: The later policy's form.
        usual: The form of a policy that declares nothing; it stands for what a form of another release lacks.
    """
    was, now = {**usual, **_meant(old)}, {**usual, **_meant(new)}
    names = [name for name in dict.fromkeys((*FIELDS, *was, *now)) if name not in _ASIDE]
    return (
        *(
            _drift(name, FIELDS.get(name, _UNKNOWN), was.get(name), now.get(name), was, now)
            for name in names
            if not _is_same(was.get(name), now.get(name))
        ),
        *compare_limits(was, now, usual),
    )


def compare_limits(old: Form, new: Form, usual: Form) -> tuple[Drift, ...]:
    """Return what differs in the ``limits`` of two forms; what their defaults depend on is in the forms."""
    base = _table(usual.get("limits"))
    before, after = {**base, **_table(old.get("limits"))}, {**base, **_table(new.get("limits"))}
    return tuple(
        _drift(f"limits.{name}", LIMITS.get(name, _UNKNOWN), before.get(name), after.get(name), old, new)
        for name in dict.fromkeys((*LIMITS, *before, *after))
        if not _is_same(before.get(name), after.get(name))
    )


def _is_same(old: object, new: object) -> bool:
    """Say whether two values of forms are equal as JSON: Python's equality takes true for 1, at any depth."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        before, after = cast("Form", old), cast("Form", new)
        return before.keys() == after.keys() and all(_is_same(value, after[name]) for name, value in before.items())
    if isinstance(old, list) and isinstance(new, list):
        first, second = cast("list[object]", old), cast("list[object]", new)
        return len(first) == len(second) and all(map(_is_same, first, second))
    return isinstance(old, bool) == isinstance(new, bool) and old == new


def _drift(field: str, order: Order, old: object, new: object, was: Form, now: Form) -> Drift:
    return Drift(field=field, looser=not order.is_kept(old, new, was, now), rule=order.rule)


def _meant(form: Form) -> Form:
    """Return a form with what a default stands for written out."""
    speaks, trust = form.get("speaks_contract"), form.get("trust", Trust.OWNED)
    operation = form.get("operation") or form.get("name")
    return {**form, "operation": operation, "speaks_contract": trust == Trust.OWNED if speaks is None else speaks}
