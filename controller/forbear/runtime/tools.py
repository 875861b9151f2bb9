"""The tools of one controller: what was declared about each, and how the controller can run it itself.

Policies are built and checked by `forbear.contract`; nothing is decided here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, cast

from forbear.contract import tool_policy
from forbear.contract.declare import policy_digest
from forbear.contract.limits import limits_from, nearest
from forbear.contract.named import Kind, named_in, unknown_arguments
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.vocabulary import Effect, Mode
from forbear.errors import ConfigError, UsageError
from forbear.runtime.steps import Executor

# Runs whose own functions are kept under one name; the calls of older ones wait until they are proposed.
MAX_RUNS: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One declared tool."""

    policy: ToolPolicy


class Toolbox:
    """Declared tools by name."""

    def __init__(self, limits: Limits, *, mode: Mode, strict: bool) -> None:
        # What a tool inherits: the controller's budgets count all calls of a run and are not each tool's own.
        self._limits = replace(limits, max_calls_per_turn=None, max_calls_per_run=None)
        self._mode = mode
        self._strict = strict
        self._tools: dict[str, Tool] = {}
        self._undeclared: dict[str, ToolPolicy] = {}
        self._executors: dict[str, Executor] = {}
        # Argument names that tools have by their own signature or schema, where an adapter or `govern` said so.
        self._arguments: dict[str, tuple[str, ...]] = {}
        # Tools whose policy named nothing unknown when they were first called.
        self._checked: set[str] = set()
        # Names that stand for another function in every run, and what they stand for; the newest runs are kept.
        self._of_runs: dict[str, dict[str, Executor]] = {}
        # Called after a declaration, and after something was bound.
        self.on_declared: Callable[[], None] = _nobody
        self.on_bound: Callable[[], None] = _nobody
        # Names of tools that look for the outcome of an unknown write.
        self.checks: frozenset[str] = frozenset()

    def declare(
        self, name: str, fields: Mapping[str, object], *, arguments: tuple[str, ...] | None = None
    ) -> ToolPolicy:
        """Declare one tool; a second declaration replaces the first.

        Args:
            name: The tool's name.
            fields: What is declared.
            arguments: The argument names that it has, where they are known now.

        Raises:
            ConfigError: a field is unknown or wrong, or names an argument that the tool does not have; nothing was
                declared.
        """
        policy = self._build(name, fields)
        _check_arguments(policy, self.arguments(name) if arguments is None else arguments)
        if arguments is not None:
            self._arguments[name] = arguments
        self._put(policy)
        return policy

    def adopt(self, policy: ToolPolicy) -> ToolPolicy:
        """Declare one tool by a policy that was built already; it inherits the controller's limits if it has none.

        Raises:
            ConfigError: it names an argument that the tool does not have; nothing was declared.
        """
        self.check(policy)
        inherited = replace(policy, limits=self._limits) if policy.limits == Limits() else policy
        policy = self._as_used(policy, inherited)
        self._put(policy)
        return policy

    def check(self, policy: ToolPolicy) -> None:
        """Check that a policy names no argument that its tool, as far as it is known, does not have.

        Raises:
            ConfigError: it does; the message names field and argument.
        """
        _check_arguments(policy, self.arguments(policy.name))

    def _put(self, policy: ToolPolicy) -> None:
        self._tools[policy.name] = Tool(policy=policy)
        # A check that others name may be this one.
        self._checked.clear()
        self._note_checks()

    def _note_checks(self) -> None:
        self.checks = frozenset(
            tool.policy.inspect.tool for tool in self._tools.values() if tool.policy.inspect is not None
        )
        self.on_declared()

    def policies(self) -> list[ToolPolicy]:
        """Return what was declared about every tool."""
        return [tool.policy for tool in self._tools.values()]

    def bind(self, name: str, executor: Executor) -> None:
        """Say how the controller runs a tool itself; it is called with keyword arguments.

        Raises:
            ConfigError: its policy names an argument that the executor does not take; nothing was bound.
            UsageError: the executor cannot be called.
        """
        # The author's code may be untyped.
        if not callable(executor):
            raise UsageError(f"executor of tool {name!r}: must be callable")
        found, taken = self._tools.get(name), taken_by(executor)
        if found is not None:
            _check_arguments(found.policy, taken)
        if taken is not None:
            # It takes the place of another function; one that takes anything may run what is known already.
            self._arguments.pop(name, None)
        self._executors[name] = executor
        self.on_bound()

    def know(self, name: str, arguments: tuple[str, ...]) -> None:
        """Note which arguments a tool has by its own signature or schema.

        Raises:
            ConfigError: its policy names another one; nothing was noted.
        """
        found = self._tools.get(name)
        if found is not None:
            _check_arguments(found.policy, arguments)
        self._arguments[name] = arguments

    def arguments(self, name: str) -> tuple[str, ...] | None:
        """Return the argument names that a tool has by its own signature or schema; None = not known, or any."""
        known = self._arguments.get(name)
        if known is not None:
            return known
        executor = self._executors.get(name)
        return None if executor is None else taken_by(executor)

    def check_first_call(self, name: str) -> None:
        """Check what can only be checked once every tool is declared: the check that looks for a lost write.

        Raises:
            ConfigError: `inspect` names a tool that is not declared as a read, or an argument that it does not have.
        """
        if name in self._checked:
            return
        found = self._tools.get(name)
        if found is not None and found.policy.inspect is not None and found.policy.mode is not Mode.OBSERVE:
            self._check_inspection(found.policy)
        self._checked.add(name)

    def _check_inspection(self, policy: ToolPolicy) -> None:
        assert policy.inspect is not None
        tool = policy.inspect.tool
        where = f"tool {policy.name!r}: field 'inspect' names the tool {tool!r}"
        if tool not in self._tools:
            near = nearest(tool, tuple(self._tools))
            hint = f"; nearest is {near!r}" if near and near != policy.name else ""
            raise ConfigError(f"{where}, which is not declared{hint}")
        if not self.is_read(tool):
            raise ConfigError(f"{where}, which must be declared effect = 'read'")
        arguments = self.arguments(tool)
        for one in named_in(policy):
            if one.kind is Kind.CHECK_ARGUMENT and arguments is not None and one.name not in arguments:
                raise ConfigError(f"tool {policy.name!r}: {one.says(arguments, of=f'tool {tool!r}')}")

    def bind_in(self, name: str, executors: Mapping[str, Executor]) -> None:
        """Say how the controller runs a tool in some runs, where its name stands for something else in others."""
        self._executors.pop(name, None)
        held = self._of_runs.setdefault(name, {})
        for run, executor in executors.items():
            held.pop(run, None)
            held[run] = executor
        while len(held) > MAX_RUNS:
            del held[next(iter(held))]
        self.on_bound()

    def varies(self, name: str) -> bool:
        """Say whether a name stands for another function in every run."""
        return name in self._of_runs and name not in self._executors

    def policy(self, name: str) -> ToolPolicy:
        """Return what was declared about a tool; one that was never declared is undeclared, and governed.

        Raises:
            UsageError: the controller is strict and the tool was never declared.
        """
        found = self._tools.get(name)
        if found is not None:
            return found.policy
        if self._strict:
            raise UsageError(f"tool {name!r}: must be declared (strict=True)")
        return self.known_policy(name)

    def known_policy(self, name: str) -> ToolPolicy:
        """Return what was declared about a tool that a stored call names, also where the controller is strict."""
        found = self._tools.get(name)
        if found is not None:
            return found.policy
        policy = self._undeclared.get(name)
        if policy is None:
            policy = self._undeclared[name] = self._build(name, {})
        return policy

    def _build(self, name: str, fields: Mapping[str, object]) -> ToolPolicy:
        own = fields.get("limits", {})
        if isinstance(own, Mapping):
            own = limits_from(cast("Mapping[str, object]", own), self._limits)
        policy = tool_policy(name, **{**fields, "limits": own})
        return self._as_used(policy, policy)

    def _as_used(self, declared: ToolPolicy, used: ToolPolicy) -> ToolPolicy:
        """Return a policy as it is used here; what differs from the declared one is in its digest."""
        if self._mode is Mode.OBSERVE:
            used = replace(used, mode=Mode.OBSERVE)
        return used if used == declared else replace(used, digest=policy_digest(used, {"declared": declared.digest}))

    def remember(self, policy: ToolPolicy) -> None:
        """Know a tool that this process does not declare by what another one declared."""
        if policy.name not in self._tools:
            self._undeclared[policy.name] = policy

    def is_declared(self, name: str) -> bool:
        """Say whether a tool was declared."""
        return name in self._tools

    def executor(self, name: str, run: str = "") -> Executor | None:
        """Return how the controller runs a tool itself for a run, or None."""
        return self._executors.get(name) or self._of_runs.get(name, {}).get(run)

    def _any_executor(self, name: str) -> Executor | None:
        """Return a function that stands for a name in some run: they have one signature."""
        return self._executors.get(name) or next(iter(self._of_runs.get(name, {}).values()), None)

    def knows(self, name: str) -> bool:
        """Say whether a tool was declared or bound."""
        return name in self._tools or name in self._executors or name in self._of_runs

    def takes_nothing(self, name: str) -> bool:
        """Say whether a tool is known to take no arguments at all."""
        executor = self._any_executor(name)
        if executor is None or self.policy(name).input_fields or self.policy(name).required:
            return False
        with suppress(TypeError, ValueError):
            return not inspect.signature(executor).parameters
        return False

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the argument names of a tool, as far as they are known."""
        policy = self.policy(name)
        if policy.input_fields:
            return policy.input_fields
        executor = self._any_executor(name)
        names = () if executor is None else _by_keyword(executor)
        if names:
            return names
        if policy.required:
            return policy.required
        target = policy.target
        return () if target is None or callable(target) else tuple(argument for _, argument in target)

    def is_read(self, name: str) -> bool:
        """Say whether a tool was declared a read."""
        found = self._tools.get(name)
        return found is not None and found.policy.effect is Effect.READ


def _parameters(executor: Executor) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []
    with suppress(TypeError, ValueError):
        found = list(inspect.signature(executor).parameters.values())
    return found


def _by_keyword(executor: Executor) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(one.name for one in _parameters(executor) if one.kind in kinds)


def taken_by(executor: Executor) -> tuple[str, ...] | None:
    """Return the arguments that an executor takes; None = any, or it does not say."""
    found = _parameters(executor)
    is_open = not found or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found)
    return None if is_open else _by_keyword(executor)


def _check_arguments(policy: ToolPolicy, arguments: tuple[str, ...] | None) -> None:
    if arguments is None or policy.mode is Mode.OBSERVE:
        return
    for one in unknown_arguments(policy, arguments):
        raise ConfigError(f"tool {policy.name!r}: {one.says(arguments)}")


def _nobody() -> None:
    """Call nobody."""


def name_of(fn: Callable[..., object]) -> str:
    """Return the name under which a function is declared.

    Raises:
        UsageError: it has none.
    """
    name = getattr(fn, "__name__", "") or getattr(fn, "name", "")
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise UsageError("tool: a function without a name needs name=…")
    return name
