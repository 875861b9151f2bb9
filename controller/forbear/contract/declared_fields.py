"""Read the fields of a tool policy in the forms that authors write them: one reader per field.

Contradictions between fields are found in `declare.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Any, Final, cast

from forbear.contract.body import is_mapping
from forbear.contract.catalogue import is_code
from forbear.contract.gates import compile_rules
from forbear.contract.limits import duration, limits_from, misspelt
from forbear.contract.words import outcome_of, recovery_of
from forbear.core.policy import (
    EmptyRetry,
    ExceptionRule,
    IdempotencyKey,
    Inspection,
    Limits,
    Poll,
    StatusRule,
    TextRule,
)
from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Effect, Gate, Mode, Scope, Trust
from forbear.errors import ConfigError

MAX_NAME: Final = 128
_KINDS: Final = ("text", "number", "boolean")


def read_name(field: str, value: object) -> str:
    """Return a printable name.

    Raises:
        ConfigError: it is not one.
    """
    if not isinstance(value, str) or not value or len(value) > MAX_NAME or not value.isprintable():
        raise ConfigError(f"field {field!r} must be a printable name of 1 to {MAX_NAME} characters")
    return value


def _names(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (read_name(field, value),)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise ConfigError(f"field {field!r} must be a name or a list of names")
    names = tuple(read_name(field, one) for one in cast("Sequence[object]", value))
    if len(set(names)) != len(names):
        raise ConfigError(f"field {field!r} names something twice")
    return names


def _word(field: str, value: object, words: type[Enum]) -> Enum:
    for one in words:
        if value is one or value == one.value:
            return one
    raise ConfigError(f"field {field!r} must be one of {', '.join(str(one.value) for one in words)}")


def _choice(*words: str) -> Callable[[str, object], str]:
    def read(field: str, value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ConfigError(f"field {field!r} must be one of {', '.join(words)}")

    return read


def _flag(field: str, value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ConfigError(f"field {field!r} must be true or false")


def _sure(field: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigError(f"field {field!r} must be true or false")


def _table(field: str, value: object, allowed: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"field {field!r} must be a table")
    members = dict(cast("Mapping[str, object]", value))
    for key in members:
        if key not in allowed:
            raise misspelt(f"field {field!r}: key", str(key), allowed)
    return members


def _target(field: str, value: object) -> object:
    if value is None or callable(value):
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        pairs = tuple((read_name(field, canon), read_name(field, argument)) for canon, argument in members.items())
    else:
        pairs = tuple((name, name) for name in _names(field, value))
    if not pairs:
        raise ConfigError(f"field {field!r} must name at least one argument")
    return pairs


def _quota(field: str, value: object) -> object:
    return value if value is None or callable(value) else read_name(field, value)


def _constraints(field: str, value: object) -> Mapping[str, Scope]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"field {field!r} must map constraint names to a scope")
    members = cast("Mapping[str, object]", value)
    return {read_name(field, name): cast("Scope", _word(field, scope, Scope)) for name, scope in members.items()}


class ApprovalFunction:
    """An author's function, whose answer may be a verdict, a gate, its word, or (word, rule)."""

    __slots__ = ("function", "name")

    def __init__(self, function: Callable[[Mapping[str, object]], object]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", "rule"))[:64]

    def __call__(self, arguments: Mapping[str, object]) -> RuleVerdict:
        """Return the verdict; an answer that is none is an error of the checker, never a yes."""
        said = self.function(arguments)
        if isinstance(said, RuleVerdict):
            return said
        rule = self.name
        if isinstance(said, tuple) and len(cast("tuple[object, ...]", said)) == 2:
            said, named = cast("tuple[object, object]", said)
            rule = read_name("rule", named)
        for gate in Gate:
            if said is gate or said == gate.value:
                return RuleVerdict(gate=gate, rule=rule if gate is not Gate.ALLOW else "")
        raise ConfigError("an approval function must return allow, ask or deny")


def allow() -> RuleVerdict:
    """Return the verdict that lets a call run."""
    return RuleVerdict()


def ask(rule: str) -> RuleVerdict:
    """Return the verdict that a person has to approve a call."""
    return RuleVerdict(gate=Gate.ASK, rule=read_name("rule", rule))


def deny(rule: str) -> RuleVerdict:
    """Return the verdict that a call may not run."""
    return RuleVerdict(gate=Gate.DENY, rule=read_name("rule", rule))


def _approval(field: str, value: object) -> object:
    if value in ("never", "always"):
        return value
    if isinstance(value, str):
        raise ConfigError(f"field {field!r} must be 'never', 'always', a function, or a list of rules")
    if callable(value):
        return value if isinstance(value, ApprovalFunction) else ApprovalFunction(value)
    return compile_rules(value)


def _inspect(field: str, value: object) -> Inspection | None:
    if value is None or isinstance(value, Inspection):
        return value
    if isinstance(value, str):
        return Inspection(tool=read_name(field, value))
    members = _table(field, value, ("tool", "arguments", "applied_if"))
    arguments = members.get("arguments", {})
    if not isinstance(arguments, Mapping):
        arguments = {name: name for name in _names(field, arguments)}
    applied = members.get("applied_if")
    if is_mapping(applied):
        test = _table("applied_if", applied, ("field", "equals", "at_or_after"))
        if "field" not in test or len(test) != 2 or test.get("at_or_after", "start") != "start":
            raise ConfigError("field 'applied_if' must hold 'field' and either 'equals' or at_or_after = 'start'")
        applied = {key: read_name("applied_if", one) for key, one in test.items()}
    elif applied is not None and applied != "non_empty" and not callable(applied):
        raise ConfigError("field 'applied_if' must be 'non_empty', a table, or a function")
    return Inspection(
        tool=read_name(field, members.get("tool")),
        arguments={
            read_name(field, key): read_name(field, one) for key, one in cast("Mapping[str, object]", arguments).items()
        },
        applied_if=cast("str | None", applied),
    )


def _key(field: str, value: object) -> IdempotencyKey | None:
    if value is None or isinstance(value, IdempotencyKey):
        return value
    if isinstance(value, str):
        return IdempotencyKey(argument=read_name(field, value))
    members = _table(field, value, ("argument", "valid_for"))
    key = IdempotencyKey(argument=read_name(field, members.get("argument")))
    return replace(key, valid_for=duration("valid_for", members["valid_for"])) if "valid_for" in members else key


def _poll(field: str, value: object) -> Poll | None:
    if value is None or isinstance(value, Poll):
        return value
    members = _table(field, value, ("status_field", "pending", "min_interval"))
    pending = _names("pending", members.get("pending", ()))
    if not pending:
        raise ConfigError("field 'pending' must name at least one status")
    poll = Poll(status_field=read_name("status_field", members.get("status_field")), pending=pending)
    if "min_interval" in members:
        poll = replace(poll, min_interval=duration("min_interval", members["min_interval"]))
    return poll


def _empty_retry(field: str, value: object) -> EmptyRetry:
    if isinstance(value, EmptyRetry):
        return value
    members = _table(field, value, ("delay", "looks"))
    looks = members.get("looks", 1)
    if isinstance(looks, bool) or not isinstance(looks, int) or not 0 <= looks <= 10:
        raise ConfigError("field 'looks' must be a whole number between 0 and 10")
    delay = duration("delay", members["delay"]) if "delay" in members else EmptyRetry().delay
    return EmptyRetry(delay=delay, looks=looks)


def _preconditions(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        named: list[object] = [
            _table(field, one, ("tool", "args")).get("tool") if is_mapping(one) else one
            for one in cast("Sequence[object]", value)
        ]
        return _names(field, named)
    return _names(field, value)


def _meaning(field: str, members: dict[str, object], code: str) -> dict[str, Any]:
    """Check the recovery, outcome and code of a recognition rule."""
    recovery, outcome = members.get("recovery"), members.get("outcome")
    read: dict[str, Any] = {"recovery": recovery_of(recovery), "outcome": outcome_of(outcome)}
    if (recovery is not None and read["recovery"] is None) or (outcome is not None and read["outcome"] is None):
        raise ConfigError(f"field {field!r}: 'recovery' and 'outcome' must be words of the contract")
    if recovery is None and outcome is None:
        raise ConfigError(f"field {field!r}: a rule must say 'recovery' or 'outcome'")
    given = members.get(code, "")
    if given and not is_code(given):
        raise ConfigError(f"field {field!r}: {code!r} must be UPPER_SNAKE")
    read[code] = given
    return read


def _list(field: str, value: object) -> list[object]:
    if isinstance(value, Mapping) or is_dataclass(value):
        return [cast("object", value)]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"field {field!r} must be a list of rules")
    return list(cast("Sequence[object]", value))


def _text_rules(field: str, value: object) -> tuple[TextRule, ...]:
    rules: list[TextRule] = []
    keys = ("prefix", "equals", "pointer", "value", "recovery", "outcome", "code", "fields")
    for one in _list(field, value):
        rule = one
        if not isinstance(rule, TextRule):
            members = _table(field, one, keys)
            given = {key: members.get(key) for key in ("prefix", "equals", "pointer")}
            if any(held is not None and not isinstance(held, str) for held in given.values()):
                raise ConfigError(f"field {field!r}: 'prefix', 'equals' and 'pointer' must be strings")
            rule = TextRule(
                prefix=cast("str | None", given["prefix"]),
                equals=cast("str | None", given["equals"]),
                pointer=cast("str | None", given["pointer"]),
                value=cast("str | None", members.get("value")),
                fields=_names("fields", members.get("fields", ())),
                **_meaning(field, members, "code"),
            )
        matchers = [one for one in (rule.prefix, rule.equals, rule.pointer) if one is not None]
        if len(matchers) != 1 or (rule.prefix == "" or (rule.pointer is not None and rule.pointer[:1] != "/")):
            raise ConfigError(f"field {field!r}: a rule must have exactly one of 'prefix', 'equals', 'pointer' (/a/b)")
        rules.append(rule)
    return tuple(rules)


def _status_rules(field: str, value: object) -> tuple[StatusRule, ...]:
    rules: list[StatusRule] = []
    for one in _list(field, value):
        rule = one
        if not isinstance(rule, StatusRule):
            members = _table(field, one, ("status", "code", "recovery", "outcome", "as_code", "only_if_equal"))
            status, code = members.get("status"), members.get("code")
            if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599:
                raise ConfigError(f"field {field!r}: 'status' must be a number of 100 to 599")
            rule = StatusRule(
                status=status,
                code=None if code is None else read_name(field, str(code)),
                only_if_equal=_names("only_if_equal", members.get("only_if_equal", ())),
                **_meaning(field, members, "as_code"),
            )
        rules.append(rule)
    return tuple(rules)


def _exception_rules(field: str, value: object) -> tuple[ExceptionRule, ...]:
    rules: list[ExceptionRule] = []
    for one in _list(field, value):
        rule = one
        if not isinstance(rule, ExceptionRule):
            members = _table(field, one, ("exception", "recovery", "outcome", "code"))
            rule = ExceptionRule(
                exception=read_name(field, members.get("exception")),
                **_meaning(field, members, "code"),
            )
        if "." not in rule.exception:
            raise ConfigError(f"field {field!r}: 'exception' must be a full name such as 'package.module.Class'")
        rules.append(rule)
    return tuple(rules)


def _safe_fields(field: str, value: object) -> Mapping[str, str | tuple[str, ...]]:
    if isinstance(value, str) or not isinstance(value, Mapping):
        return dict.fromkeys(_names(field, value), "text")
    read: dict[str, str | tuple[str, ...]] = {}
    for name, kind in cast("Mapping[str, object]", value).items():
        if isinstance(kind, str):
            if kind not in _KINDS:
                raise ConfigError(f"field {field!r}: {name!r} must be {', '.join(_KINDS)}, or a list of values")
            read[read_name(field, name)] = kind
        else:
            read[read_name(field, name)] = _names(field, kind)
    return read


def _limits(field: str, value: object) -> Limits:
    if isinstance(value, Limits):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"field {field!r} must be limits(...) or a table")
    return limits_from(cast("Mapping[str, object]", value))


READERS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "effect": lambda field, value: _word(field, value, Effect),
    "repeatable": _flag,
    "operation": lambda field, value: "" if value == "" else read_name(field, value),
    "target": _target,
    "ignore": _names,
    "quota": _quota,
    "constraints": _constraints,
    "approval": _approval,
    "inspect": _inspect,
    "idempotency_key": _key,
    "poll": _poll,
    "empty_means": _choice("none", "unknown"),
    "empty_retry": _empty_retry,
    "required": _names,
    "alternatives": _names,
    "preconditions": _preconditions,
    "permissions": _names,
    "approval_hosts": _names,
    "error_text": _choice("hidden", "shown"),
    "text_rules": _text_rules,
    "status_rules": _status_rules,
    "exception_rules": _exception_rules,
    "safe_fields": _safe_fields,
    "shared_codes": _names,
    "speaks_contract": _flag,
    "atomic": _sure,
    "trust": lambda field, value: _word(field, value, Trust),
    "secret": _names,
    "mode": lambda field, value: _word(field, value, Mode),
    "input_fields": _names,
    "limits": _limits,
}
