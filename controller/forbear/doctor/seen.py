"""What the doctor saw of a project: its tools and what was noticed about them. Nothing is read or judged here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from forbear.core.policy import ToolPolicy
from forbear.runtime.controller import Controller

__all__ = ["Concern", "Finding", "Found", "FoundTool", "ToolSource", "Weight"]


class Weight(StrEnum):
    """How much a finding matters. A risk makes `forbear doctor` exit with 1."""

    RISK = "risk"
    NOTE = "note"


class Concern(StrEnum):
    """What a finding is about."""

    RETRY_INSIDE = "retry_inside"
    CLIENT_RETRIES = "client_retries"
    NO_INSPECTION = "no_inspection"
    ALIASES = "aliases"
    ERROR_TEXT = "error_text"
    FREE_TEXT = "free_text"
    NO_CHECKPOINTER = "no_checkpointer"
    SHARED_THREAD_ID = "shared_thread_id"
    NOT_GOVERNED = "not_governed"
    UNDECLARED = "undeclared"
    TWO_DEFINITIONS = "two_definitions"
    UNKNOWN_NAME = "unknown_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was noticed. Its text is ours: names and numbers of the project, never its values."""

    concern: Concern
    weight: Weight
    # A tool, a node, a middleware, or ``file:line``.
    where: str
    message: str
    # What to do; "" = the message says it.
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTool:
    """One tool as its framework describes it."""

    name: str
    # What it is: "function", "LangChain tool", "MCP tool".
    kind: str
    description: str = ""
    # JSON Schema of the arguments; None = it cannot be seen.
    input_schema: Mapping[str, object] | None = None
    # MCP hints; None = the server says nothing.
    read_only: bool | None = None
    destructive: bool | None = None
    # It belongs to somebody else's server.
    remote: bool = False
    # The library that repeats its function from inside; "" = none was seen.
    retries: str = ""
    # A controller stands around it.
    governed: bool = False
    # What its author declared; None = nothing was seen.
    policy: ToolPolicy | None = None
    # Its schema holds only what the policy itself names, and proves no name of the policy wrong.
    is_guessed: bool = False

    @property
    def properties(self) -> Mapping[str, Mapping[str, object]]:
        """Return the schema of each argument by name; empty where the schema cannot be seen."""
        found = None if self.input_schema is None else self.input_schema.get("properties")
        if not isinstance(found, Mapping):
            return {}
        members = cast("Mapping[object, object]", found)
        return {
            str(name): cast("Mapping[str, object]", one) if isinstance(one, Mapping) else {}
            for name, one in members.items()
        }

    @property
    def arguments(self) -> tuple[str, ...] | None:
        """Return the names of its arguments; None = they cannot be seen, or it takes any."""
        schema = self.input_schema
        if schema is None or self.is_guessed or not isinstance(schema.get("properties"), Mapping):
            return None
        return None if schema.get("additionalProperties") else tuple(self.properties)

    @property
    def required(self) -> tuple[str, ...]:
        """Return the names of the arguments that a call must have."""
        found = None if self.input_schema is None else self.input_schema.get("required")
        return tuple(str(one) for one in cast("list[object]", found)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a source read from one object."""

    tools: tuple[FoundTool, ...] = ()
    findings: tuple[Finding, ...] = ()
    # A controller was seen, whether or not it declares anything.
    governed: bool = False
    # Controllers inside the object; what they declare is added by the doctor.
    controllers: tuple[Controller, ...] = ()
    # Names of tools that controllers inside declare, whether or not the object has them.
    declared: tuple[str, ...] = ()
    # Where decisions are kept: "" = not seen, else "memory" or "file".
    store: str = ""
    # Names of the modules that the tools' functions are written in; their sources are read for clients and retries.
    modules: tuple[str, ...] = ()


ToolSource = Callable[[object], Found | None]
"""Reads the tools of an object without running anything of it; None = it does not know such objects."""
