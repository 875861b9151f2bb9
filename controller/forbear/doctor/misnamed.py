"""Find names in policies that nobody has: a tool that is not there, an argument that its tool does not take.

Such a slip changes what is held, hidden or looked for, and nothing else would say so. What a policy names is listed in
`forbear.contract.named`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forbear.contract.declare import schema_fields
from forbear.contract.limits import nearest
from forbear.contract.named import Kind, named_in
from forbear.core.policy import ToolPolicy
from forbear.doctor.seen import Concern, Finding, Found, FoundTool, Weight

__all__ = ["misnamed"]

# Types of JSON Schema whose values have no names inside.
_FLAT = frozenset({"string", "integer", "number", "boolean", "null"})


def misnamed(found: Found, policies: Mapping[str, ToolPolicy]) -> list[Finding]:
    """Return a finding for each name that is not known.

    Args:
        found: The tools, with what is declared about them.
        policies: What a policy file declares, by tool.
    """
    tools = {tool.name: tool for tool in found.tools}
    every = {**policies, **{tool.name: tool.policy for tool in found.tools if tool.policy is not None}}
    known = tuple(dict.fromkeys((*tools, *every, *found.declared)))
    findings = list(_not_there(tuple(tools), tuple(dict.fromkeys((*policies, *found.declared)))))
    for policy in every.values():
        findings += _in_policy(policy, tools, known)
    return findings


def _not_there(tools: tuple[str, ...], declared: tuple[str, ...]) -> Iterator[Finding]:
    """Find declared tools that were not found: a slip if an undeclared tool has nearly this name."""
    free = tuple(name for name in tools if name not in declared)
    for name in declared:
        if name in tools:
            continue
        near = nearest(name, free)
        yield Finding(
            concern=Concern.UNKNOWN_NAME,
            weight=Weight.RISK if near else Weight.NOTE,
            where=name,
            message="a policy declares this tool, and there is no tool of this name here",
            change=f"nearest is {near!r}, which is not declared" if near else "",
        )


def _in_policy(policy: ToolPolicy, tools: Mapping[str, FoundTool], known: tuple[str, ...]) -> Iterator[Finding]:
    own = tools.get(policy.name)
    others = tuple(name for name in known if name != policy.name)
    for one in dict.fromkeys(named_in(policy)):
        valid, of = _valid(one.kind, policy, tools, others)
        if valid is not None and one.name not in valid:
            yield _wrong(policy.name, one.says(valid, of=of))
    if own is None or own.arguments is None:
        return
    key = policy.idempotency_key
    if key is not None and key.argument not in own.arguments and (near := nearest(key.argument, own.arguments)):
        # Else a wrapper may take it off before the tool sees it (`forbear_adapters.http.keyed`).
        wrong = f"field 'idempotency_key' names the argument {key.argument!r}, which the tool does not have"
        yield _wrong(policy.name, f"{wrong}; nearest is {near!r}")
    if all(one.get("type") in _FLAT for one in own.properties.values()):
        valid = tuple(dict.fromkeys((*own.arguments, *schema_fields(own.input_schema))))
        for name in dict.fromkeys(name for rule in policy.text_rules for name in rule.fields):
            if name.removeprefix("/") not in valid:
                hint = f"; nearest is {near!r}" if (near := nearest(name, valid)) else ""
                wrong = f"field 'text_rules' names the argument {name!r}, which the tool does not have"
                yield _wrong(policy.name, f"{wrong}{hint}")


def _valid(
    kind: Kind, policy: ToolPolicy, tools: Mapping[str, FoundTool], others: tuple[str, ...]
) -> tuple[tuple[str, ...] | None, str]:
    """Return the names that are there (None = not known), and whose they are."""
    if kind is Kind.TOOL:
        return others, ""
    check = "" if policy.inspect is None else policy.inspect.tool
    name, of = (policy.name, "the tool") if kind is Kind.ARGUMENT else (check, check)
    found = tools.get(name)
    return (None if found is None else found.arguments), of


def _wrong(tool: str, message: str) -> Finding:
    return Finding(concern=Concern.UNKNOWN_NAME, weight=Weight.RISK, where=tool, message=message)
