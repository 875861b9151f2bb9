"""What a policy names by name: arguments of its own tool, other tools, and their arguments; and which of them are not there.

A name that nobody has is a slip of the pen that changes what is held, hidden or looked for. Who knows the tools (the
controller, `forbear doctor`) asks here; nothing is raised and nothing is read from outside here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from forbear.contract.gates import CompiledRules
from forbear.contract.limits import nearest
from forbear.core.policy import ToolPolicy

__all__ = ["Kind", "Named", "named_in", "unknown_arguments"]


class Kind(StrEnum):
    """What a name in a policy stands for."""

    ARGUMENT = "argument"
    # An argument of the tool that `inspect` names.
    CHECK_ARGUMENT = "check_argument"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One name in a policy."""

    kind: Kind
    # The policy's field, and the part of it: "target", "inspect.arguments", "approval (rule large)".
    field: str
    name: str

    def says(self, valid: tuple[str, ...], *, of: str = "the tool") -> str:
        """Return what is wrong with it, with the nearest name that is known."""
        near = nearest(self.name, valid)
        hint = f"; nearest is {near!r}" if near else ""
        if self.kind is Kind.TOOL:
            return f"field {self.field!r} names the tool {self.name[:64]!r}, which is not known{hint}"
        return f"field {self.field!r} names the argument {self.name[:64]!r}, which {of} does not have{hint}"


def named_in(policy: ToolPolicy) -> Iterator[Named]:
    """Yield every name of an argument or a tool in a policy."""
    target = policy.target
    pairs = () if target is None or callable(target) else target
    own = {
        "target": tuple(argument for _, argument in pairs),
        "ignore": policy.ignore,
        "required": policy.required,
        "secret": policy.secret,
    }
    for field, names in own.items():
        yield from (Named(kind=Kind.ARGUMENT, field=field, name=name) for name in names)
    if isinstance(policy.approval, CompiledRules):
        for rule in policy.approval.rules:
            for test in rule.tests:
                yield Named(kind=Kind.ARGUMENT, field=f"approval (rule {rule.name})", name=_top(test.field))
    for status in policy.status_rules:
        yield from (Named(kind=Kind.ARGUMENT, field="status_rules", name=name) for name in status.only_if_equal)
    if policy.inspect is not None:
        yield from _of_inspection(policy)
    for field, tools in (("alternatives", policy.alternatives), ("preconditions", policy.preconditions)):
        yield from (Named(kind=Kind.TOOL, field=field, name=name) for name in tools)


def _of_inspection(policy: ToolPolicy) -> Iterator[Named]:
    assert policy.inspect is not None
    yield Named(kind=Kind.TOOL, field="inspect", name=policy.inspect.tool)
    for theirs, mine in policy.inspect.arguments.items():
        yield Named(kind=Kind.CHECK_ARGUMENT, field="inspect", name=theirs)
        yield Named(kind=Kind.ARGUMENT, field="inspect", name=mine)
    applied = policy.inspect.applied_if
    if applied is not None and not isinstance(applied, str) and not callable(applied) and "equals" in applied:
        yield Named(kind=Kind.ARGUMENT, field="inspect", name=applied["equals"])


def _top(field: str) -> str:
    """Return the argument that a rule's field is in: a name, or the first part of a JSON pointer."""
    return field.removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")


def unknown_arguments(policy: ToolPolicy, arguments: tuple[str, ...]) -> list[Named]:
    """Return the names of own arguments that a tool with these arguments does not have, each once.

    The argument of `idempotency_key` is not among them: a wrapper may take it off before the tool sees it.
    """
    found = (one for one in named_in(policy) if one.kind is Kind.ARGUMENT and one.name not in arguments)
    return list(dict.fromkeys(found))
