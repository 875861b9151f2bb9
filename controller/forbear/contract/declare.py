"""Build tool policies from what an author writes: Python values, a mapping, or TOML. All give the same frozen value.

Wrong declarations are errors here, at build, and never surprises at a call. TOML never names Python to import.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

from forbear.contract.declared_fields import MAX_NAME, READERS, read_name
from forbear.contract.declared_fields import ApprovalFunction as ApprovalFunction
from forbear.contract.limits import limits_from, misspelt
from forbear.core.identity import canonical
from forbear.core.identity import digest as digest_of
from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import Effect, Trust
from forbear.errors import ConfigError, UsageError

_POLICY_FIELDS: Final = tuple(one.name for one in fields_of(ToolPolicy) if one.name not in ("name", "digest"))
# Beside the policy's own fields: the tool's input schema pins field names; the definition goes into the digest.
_EXTRA: Final = ("input_schema", "definition")
FIELDS: Final = (*_POLICY_FIELDS, *_EXTRA)


def tool_policy(name: str, **fields: object) -> ToolPolicy:
    """Return the policy of one tool (design section 3).

    Args:
        name: The tool's name.
        **fields: Fields of `ToolPolicy` in any convenient form, and `input_schema` (a JSON Schema whose property names
            may be shown) and `definition` (anything in JSON that should change the digest).

    Raises:
        ConfigError: a field is unknown, has a wrong form, or contradicts another; the message names field and rule.
    """
    tool = read_name("name", name)
    values: dict[str, Any] = {}
    for field, value in fields.items():
        if field not in FIELDS:
            raise misspelt(f"tool {tool!r}: field", field, FIELDS)
        if field not in _EXTRA:
            try:
                values[field] = READERS[field](field, value)
            except ConfigError as error:
                raise ConfigError(f"tool {tool!r}: {error}") from None
    schema = fields.get("input_schema")
    if schema is not None and "input_fields" not in values:
        values["input_fields"] = schema_fields(schema)
    if values.get("effect") is Effect.READ and "repeatable" not in values:
        values["repeatable"] = True
    policy = ToolPolicy(name=tool, **values)
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
                names.update(dict.fromkeys(str(key)[:MAX_NAME] for key in cast("Mapping[str, object]", properties)))
            queue.extend(members.values())
        elif isinstance(current, list):
            queue.extend(cast("list[object]", current))
        if len(queue) > 4096:
            break
    return tuple(names)


def _check(policy: ToolPolicy, given: Mapping[str, object]) -> None:
    """Reject declarations that contradict each other."""
    name, read, write = policy.name, policy.effect is Effect.READ, policy.effect is Effect.WRITE
    target = policy.target
    pairs = () if target is None or callable(target) else target
    arguments = {argument for _, argument in pairs}
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


def policy_form(policy: ToolPolicy) -> dict[str, object]:
    """Return a policy as plain JSON, without its digest: what a store keeps to compare later policies with."""
    return cast("dict[str, object]", _plain(replace(policy, digest="")))


def policy_digest(policy: ToolPolicy, extra: Mapping[str, object] | None = None) -> str:
    """Return the digest of a policy and of what else defines the tool; bound into grants and holds."""
    try:
        return digest_of(
            "policy", canonical(policy_form(policy)), canonical(cast("dict[str, object]", _plain(dict(extra or {}))))
        )
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
            raise misspelt("key", str(key), allowed)
    if document.get("version", 1) != 1:
        raise ConfigError("key 'version' must be 1")
    shared, tools = document.get("limits", {}), document.get("tools", {})
    if not isinstance(shared, Mapping) or not isinstance(tools, Mapping):
        raise ConfigError("keys 'limits' and 'tools' must be tables")
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
        ConfigError: it cannot be read, is not TOML, or a policy is wrong; the message names the file.
    """
    name = source.name if isinstance(source, Path) else "(text)"
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        document = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"policy file {name!r}: is not there") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"policy file {name!r}: cannot be read as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        # Its own message holds a position and the rule, and no more of the text than one character.
        raise ConfigError(f"policy file {name!r}: is not TOML ({error})") from error
    try:
        return policies_from_mapping(document)
    except ConfigError as error:
        raise ConfigError(f"policy file {name!r}: {error}") from None


def from_mcp_annotations(annotations: Mapping[str, object], *, policy: ToolPolicy, trusted: bool = False) -> ToolPolicy:
    """Return a policy tightened by a server's hints; they loosen only where the operator trusts the server.

    Hints are untrusted by the protocol: absent or false means "a destructive write"; a claim of harmlessness is data.
    """
    changes: dict[str, Any] = {}
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
    tightened = replace(policy, **changes)
    _check(tightened, {})
    return replace(tightened, digest=policy_digest(tightened))
