"""Build tool policies from what an author writes: Python values, a mapping, or TOML. All give the same frozen value.

Wrong declarations are errors here, at build, and never surprises at a call. TOML never names Python to import.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Final, cast

from forbear.contract.catalogue import is_code
from forbear.contract.gates import compile_rules
from forbear.contract.limits import duration, limits_from, misspelt
from forbear.contract.words import outcome_of, recovery_of
from forbear.core.identity import canonical
from forbear.core.identity import digest as digest_of
from forbear.core.policy import (
    EmptyRetry,
    ExceptionRule,
    IdempotencyKey,
    Inspection,
    Limits,
    Poll,
    StatusRule,
    TextRule,
    ToolPolicy,
)
from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Effect, Gate, Mode, Scope, Trust
from forbear.errors import ConfigError, UsageError

_POLICY_FIELDS: Final = tuple(
    one.name for one in fields_of(ToolPolicy) if one.name not in ("name", "digest")
)
# Beside the policy's own fields: the tool's input schema pins field names; the definition goes into the digest.
_EXTRA: Final = ("input_schema", "definition")
FIELDS: Final = (*_POLICY_FIELDS, *_EXTRA)
_MAX_NAME: Final = 128
_KINDS: Final = ("text", "number", "boolean")


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > _MAX_NAME or not value.isprintable():
        raise ConfigError(f"field {field!r} must be a printable name of 1 to {_MAX_NAME} characters")
    return value


def _names(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_name(field, value),)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise ConfigError(f"field {field!r} must be a name or a list of names")
    names = tuple(_name(field, one) for one in cast("Sequence[object]", value))
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
        pairs = tuple((_name(field, canon), _name(field, argument)) for canon, argument in members.items())
    else:
        pairs = tuple((name, name) for name in _names(field, value))
    if not pairs:
        raise ConfigError(f"field {field!r} must name at least one argument")
    return pairs


def _quota(field: str, value: object) -> object:
    return value if value is None or callable(value) else _name(field, value)


def _constraints(field: str, value: object) -> Mapping[str, Scope]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"field {field!r} must map constraint names to a scope")
    members = cast("Mapping[str, object]", value)
    return {_name(field, name): cast("Scope", _word(field, scope, Scope)) for name, scope in members.items()}


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
            rule = _name("rule", named)
        for gate in Gate:
            if said is gate or said == gate.value:
                return RuleVerdict(gate=gate, rule=rule if gate is not Gate.ALLOW else "")
        raise ConfigError("an approval function must return allow, ask or deny")


def allow() -> RuleVerdict:
    """Return the verdict that lets a call run."""
    return RuleVerdict()


def ask(rule: str) -> RuleVerdict:
    """Return the verdict that a person has to approve a call."""
    return RuleVerdict(gate=Gate.ASK, rule=_name("rule", rule))


def deny(rule: str) -> RuleVerdict:
    """Return the verdict that a call may not run."""
    return RuleVerdict(gate=Gate.DENY, rule=_name("rule", rule))


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
        return Inspection(tool=_name(field, value))
    members = _table(field, value, ("tool", "arguments", "applied_if"))
    arguments = members.get("arguments", {})
    if not isinstance(arguments, Mapping):
        arguments = {name: name for name in _names(field, arguments)}
    applied = members.get("applied_if")
    if isinstance(applied, Mapping):
        test = _table("applied_if", applied, ("field", "equals", "at_or_after"))
        if "field" not in test or len(test) != 2 or test.get("at_or_after", "start") != "start":
            raise ConfigError("field 'applied_if' must hold 'field' and either 'equals' or at_or_after = 'start'")
        applied = {key: _name("applied_if", one) for key, one in test.items()}
    elif applied is not None and applied != "non_empty" and not callable(applied):
        raise ConfigError("field 'applied_if' must be 'non_empty', a table, or a function")
    return Inspection(
        tool=_name(field, members.get("tool")),
        arguments={
            _name(field, key): _name(field, one) for key, one in cast("Mapping[str, object]", arguments).items()
        },
        applied_if=cast("str | None", applied),
    )


def _key(field: str, value: object) -> IdempotencyKey | None:
    if value is None or isinstance(value, IdempotencyKey):
        return value
    if isinstance(value, str):
        return IdempotencyKey(argument=_name(field, value))
    members = _table(field, value, ("argument", "valid_for"))
    key = IdempotencyKey(argument=_name(field, members.get("argument")))
    return replace(key, valid_for=duration("valid_for", members["valid_for"])) if "valid_for" in members else key


def _poll(field: str, value: object) -> Poll | None:
    if value is None or isinstance(value, Poll):
        return value
    members = _table(field, value, ("status_field", "pending", "min_interval"))
    pending = _names("pending", members.get("pending", ()))
    if not pending:
        raise ConfigError("field 'pending' must name at least one status")
    poll = Poll(status_field=_name("status_field", members.get("status_field")), pending=pending)
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
            _table(field, one, ("tool", "args")).get("tool") if isinstance(one, Mapping) else one
            for one in cast("Sequence[object]", value)
        ]
        return _names(field, named)
    return _names(field, value)


def _meaning(field: str, members: dict[str, object], code: str) -> dict[str, object]:
    """Check the recovery, outcome and code of a recognition rule."""
    recovery, outcome = members.get("recovery"), members.get("outcome")
    read: dict[str, object] = {"recovery": recovery_of(recovery), "outcome": outcome_of(outcome)}
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
                **cast("dict[str, str | None]", given),  # type: ignore[arg-type]  # three optional strings
                value=cast("str | None", members.get("value")),
                fields=_names("fields", members.get("fields", ())),
                **_meaning(field, members, "code"),  # type: ignore[arg-type]  # checked words
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
                code=None if code is None else _name(field, str(code)),
                only_if_equal=_names("only_if_equal", members.get("only_if_equal", ())),
                **_meaning(field, members, "as_code"),  # type: ignore[arg-type]  # checked words
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
                exception=_name(field, members.get("exception")),
                **_meaning(field, members, "code"),  # type: ignore[arg-type]  # checked words
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
            read[_name(field, name)] = kind
        else:
            read[_name(field, name)] = _names(field, kind)
    return read


def _limits(field: str, value: object) -> Limits:
    if isinstance(value, Limits):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"field {field!r} must be limits(...) or a table")
    return limits_from(cast("Mapping[str, object]", value))


_READERS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "effect": lambda field, value: _word(field, value, Effect),
    "repeatable": _flag,
    "operation": lambda field, value: "" if value == "" else _name(field, value),
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


def tool_policy(name: str, **fields: object) -> ToolPolicy:
    """Return the policy of one tool (design section 3).

    Args:
        name: The tool's name.
        **fields: Fields of `ToolPolicy` in any convenient form, and `input_schema` (a JSON Schema whose property names
            may be shown) and `definition` (anything in JSON that should change the digest).

    Raises:
        ConfigError: a field is unknown, has a wrong form, or contradicts another; the message names field and rule.
    """
    tool = _name("name", name)
    values: dict[str, object] = {}
    for field, value in fields.items():
        if field not in FIELDS:
            raise misspelt(f"tool {tool!r}: field", field, FIELDS)
        if field not in _EXTRA:
            try:
                values[field] = _READERS[field](field, value)
            except ConfigError as error:
                raise ConfigError(f"tool {tool!r}: {error}") from None
    schema = fields.get("input_schema")
    if schema is not None and "input_fields" not in values:
        values["input_fields"] = schema_fields(schema)
    if values.get("effect") is Effect.READ and "repeatable" not in values:
        values["repeatable"] = True
    # Every value was read for its own field above.
    policy = ToolPolicy(name=tool, **values)  # type: ignore[arg-type]
    _check(policy, fields)
    return replace(policy, digest=policy_digest(policy, {key: fields.get(key) for key in _EXTRA}))


def schema_fields(schema: object) -> tuple[str, ...]:
    """Return the property names of a JSON Schema, at any depth, in order of appearance; bounded."""
    names: dict[str, None] = {}
    queue: list[object] = [schema]
    while queue and len(names) < 256:
        current = queue.pop(0)
        if isinstance(current, Mapping):
            members = cast("Mapping[str, object]", current)
            properties = members.get("properties")
            if isinstance(properties, Mapping):
                names.update(dict.fromkeys(str(key)[:_MAX_NAME] for key in cast("Mapping[str, object]", properties)))
            queue.extend(members.values())
        elif isinstance(current, list):
            queue.extend(cast("list[object]", current))
        if len(queue) > 4096:
            break
    return tuple(names)


def _check(policy: ToolPolicy, given: Mapping[str, object]) -> None:
    """Reject declarations that contradict each other."""
    name, read, write = policy.name, policy.effect is Effect.READ, policy.effect is Effect.WRITE
    arguments = {argument for _, argument in policy.target} if isinstance(policy.target, tuple) else set[str]()
    contradictions = (
        (read and policy.inspect is not None, "'inspect' is for writes; effect is 'read'"),
        (read and policy.idempotency_key is not None, "'idempotency_key' is for writes; effect is 'read'"),
        (read and not policy.atomic, "'atomic' is for writes; effect is 'read'"),
        (write and policy.poll is not None, "'poll' is a look at something; effect is 'write'"),
        (write and policy.empty_means == "unknown", "'empty_means' is for reads; effect is 'write'"),
        (policy.poll is not None and policy.repeatable is False, "'poll' needs looks; 'repeatable' is false"),
        ("empty_retry" in given and policy.empty_means != "unknown", "'empty_retry' needs empty_means = 'unknown'"),
        (policy.inspect is not None and policy.inspect.tool == name, "'inspect' must name another tool"),
        (name in policy.alternatives, "'alternatives' must name other tools"),
        (name in policy.preconditions, "'preconditions' must name other tools"),
        (bool(arguments & set(policy.ignore)), "'ignore' names an argument of 'target'"),
        (bool(set(policy.required) & set(policy.ignore)), "'ignore' names a required argument"),
        (bool(policy.approval_hosts) and policy.trust is Trust.REMOTE, "'approval_hosts' is for owned tools"),
        (policy.error_text == "shown" and policy.trust is Trust.REMOTE, "error_text = 'shown' is for owned tools"),
    )
    for wrong, rule in contradictions:
        if wrong:
            raise ConfigError(f"tool {name!r}: {rule}")


def _plain(value: object) -> object:
    """Return a policy's value as JSON for its digest; a function is its qualified name."""
    if isinstance(value, Enum):
        return cast("object", value.value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, ApprovalFunction):
        return _plain(value.function)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields_of(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[object]", value)]
    return f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value).__qualname__)}"


def policy_digest(policy: ToolPolicy, extra: Mapping[str, object] | None = None) -> str:
    """Return the digest of a policy and of what else defines the tool; bound into grants and holds."""
    plain = cast("dict[str, object]", _plain(replace(policy, digest="")))
    try:
        return digest_of("policy", canonical(plain), canonical(cast("dict[str, object]", _plain(dict(extra or {})))))
    except UsageError as error:
        raise ConfigError(f"tool {policy.name!r}: 'definition' and 'input_schema' must be JSON") from error


def policies_from_mapping(document: Mapping[str, object]) -> dict[str, ToolPolicy]:
    """Return the policies of a document ``{version, limits, tools: {name: fields}}``.

    Raises:
        ConfigError: a key or a policy is wrong.
    """
    allowed = ("version", "limits", "tools")
    for key in document:
        if key not in allowed:
            raise misspelt("policy file: key", str(key), allowed)
    if document.get("version", 1) != 1:
        raise ConfigError("policy file: 'version' must be 1")
    shared, tools = document.get("limits", {}), document.get("tools", {})
    if not isinstance(shared, Mapping) or not isinstance(tools, Mapping):
        raise ConfigError("policy file: 'limits' and 'tools' must be tables")
    base = limits_from(cast("Mapping[str, object]", shared))
    policies: dict[str, ToolPolicy] = {}
    for name, fields in cast("Mapping[str, object]", tools).items():
        if not isinstance(fields, Mapping):
            raise ConfigError(f"tool {str(name)[:64]!r} must be a table")
        members = dict(cast("Mapping[str, object]", fields))
        own = members.get("limits", {})
        members["limits"] = limits_from(cast("Mapping[str, object]", own), base) if isinstance(own, Mapping) else own
        policies[name] = tool_policy(name, **members)
    return policies


def policies_from_toml(source: Path | str) -> dict[str, ToolPolicy]:
    """Return the policies of a TOML file (a `Path`) or of a TOML text (a `str`). Nothing in it is imported or called.

    Raises:
        ConfigError: it cannot be read, is not TOML, or a policy is wrong.
    """
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("policy file: cannot be read as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("policy file: is not TOML") from error
    return policies_from_mapping(document)


def from_mcp_annotations(
    annotations: Mapping[str, object], *, policy: ToolPolicy, trusted: bool = False
) -> ToolPolicy:
    """Return a policy tightened by a server's hints; they loosen only where the operator trusts the server.

    Hints are untrusted by the protocol: absent or false means "a destructive write"; a claim of harmlessness is data.
    """
    changes: dict[str, object] = {}
    if annotations.get("readOnlyHint") is False and policy.effect is Effect.READ:
        changes.update(effect=Effect.UNDECLARED, repeatable=None)
    if annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True:
        changes["effect"] = Effect.WRITE if policy.effect is Effect.UNDECLARED else changes.get("effect", policy.effect)
    if annotations.get("idempotentHint") is False and policy.effect is not Effect.READ and policy.repeatable is True:
        changes["repeatable"] = None
    if trusted and policy.effect is Effect.UNDECLARED and annotations.get("readOnlyHint") is True:
        changes.update(effect=Effect.READ, repeatable=True if policy.repeatable is None else policy.repeatable)
    elif trusted and annotations.get("idempotentHint") is True and policy.repeatable is None:
        changes["repeatable"] = True
    if not changes:
        return policy
    # The values are of the fields' own types.
    tightened = replace(policy, **changes)  # type: ignore[arg-type]
    _check(tightened, {})
    return replace(tightened, digest=policy_digest(tightened))
