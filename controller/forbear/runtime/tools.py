"""The tools of one controller: what was declared about each, and how the controller can run it itself.

Policies are built and checked by `forbear.contract`; nothing is decided here.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from forbear.contract.declare import tool_policy
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.vocabulary import Effect, Mode
from forbear.errors import ConfigError, UsageError
from forbear.runtime.steps import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One declared tool."""

    policy: ToolPolicy
    executor: Executor | None = None


class Toolbox:
    """Declared tools by name."""

    def __init__(self, limits: Limits, *, mode: Mode, strict: bool) -> None:
        self._limits = limits
        self._mode = mode
        self._strict = strict
        self._tools: dict[str, Tool] = {}
        self._undeclared: dict[str, ToolPolicy] = {}
        self._executors: dict[str, Executor] = {}
        # Names of tools that look for the outcome of an unknown write.
        self.checks: frozenset[str] = frozenset()

    def declare(self, name: str, fields: Mapping[str, object]) -> ToolPolicy:
        """Declare one tool; a second declaration replaces the first.

        Raises:
            ConfigError: a field is unknown or wrong; nothing was declared.
        """
        policy = self._build(name, fields)
        self._tools[name] = Tool(policy=policy)
        self.checks = frozenset(
            tool.policy.inspect.tool for tool in self._tools.values() if tool.policy.inspect is not None
        )
        return policy

    def bind(self, name: str, executor: Executor) -> None:
        """Say how the controller runs a tool itself; it is called with keyword arguments.

        Raises:
            UsageError: the executor cannot be called.
        """
        # The author's code may be untyped.
        if not callable(executor):  # pyright: ignore[reportUnnecessaryComparison]
            raise UsageError(f"executor of tool {name!r}: must be callable")
        self._executors[name] = executor

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
        policy = tool_policy(name, fields, limits=self._limits)
        return replace(policy, mode=Mode.OBSERVE) if self._mode is Mode.OBSERVE else policy

    def is_declared(self, name: str) -> bool:
        """Say whether a tool was declared."""
        return name in self._tools

    def executor(self, name: str) -> Executor | None:
        """Return how the controller runs a tool itself, or None."""
        return self._executors.get(name)

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the argument names of a tool, as far as they are known."""
        policy = self.policy(name)
        if policy.input_fields:
            return policy.input_fields
        executor = self._executors.get(name)
        if executor is not None:
            try:
                found = inspect.signature(executor).parameters.values()
            except (TypeError, ValueError):
                found = ()
            kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            names = tuple(parameter.name for parameter in found if parameter.kind in kinds)
            if names:
                return names
        if policy.required:
            return policy.required
        if isinstance(policy.target, tuple):
            return tuple(argument for _, argument in policy.target)
        return ()

    def is_read(self, name: str) -> bool:
        """Say whether a tool was declared a read."""
        found = self._tools.get(name)
        return found is not None and found.policy.effect is Effect.READ


def read_policies(path: str | Path) -> dict[str, dict[str, object]]:
    """Return the tools of a policy file in TOML: a table `tools` with one table a tool.

    Raises:
        ConfigError: the file is not TOML or has another shape.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ConfigError("a policy file must be TOML in UTF-8") from None
    except OSError:
        raise ConfigError("the policy file must be readable") from None
    tools = document.get("tools")
    if not isinstance(tools, dict) or document.keys() != {"tools"}:
        raise ConfigError("a policy file must hold the table 'tools' and nothing else")
    for name, fields in cast("dict[str, object]", tools).items():
        if not isinstance(fields, dict):
            raise ConfigError(f"tool {name!r}: must be a table")
    return cast("dict[str, dict[str, object]]", tools)


def name_of(fn: Callable[..., object]) -> str:
    """Return the name under which a function is declared.

    Raises:
        UsageError: it has none.
    """
    name = getattr(fn, "__name__", "") or getattr(fn, "name", "")
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise UsageError("tool: a function without a name needs name=…")
    return name
