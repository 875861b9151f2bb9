"""A deterministic recovery controller for AI agents' tool calls. Public names only; they are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from forbear.errors import (
    ConfigError,
    ContractError,
    ForbearError,
    Refused,
    RunHalted,
    SchemaTooNew,
    StaleWrite,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from forbear.contract.boundaries import mark
    from forbear.core.policy import Limits, ToolPolicy
    from forbear.core.values import Envelope, RuleVerdict
    from forbear.core.vocabulary import Answer, Executed, Gate, Outcome, Recovery, Verdict
    from forbear.runtime.controller import Controller
    from forbear.runtime.display import Shown
    from forbear.runtime.operator import Operator, Pending
    from forbear.runtime.reply import Attempt, Reply
    from forbear.runtime.runs import RunHandle
    from forbear.runtime.where import Where

__all__ = [
    "Answer",
    "Attempt",
    "ConfigError",
    "ContractError",
    "Controller",
    "Envelope",
    "Executed",
    "ForbearError",
    "Gate",
    "Limits",
    "Operator",
    "Outcome",
    "Pending",
    "Recovery",
    "Refused",
    "Reply",
    "RuleVerdict",
    "RunHalted",
    "RunHandle",
    "SchemaTooNew",
    "Shown",
    "StaleWrite",
    "StoreError",
    "ToolPolicy",
    "UsageError",
    "Verdict",
    "Where",
    "mark",
]

# Where the names live that take long to import. `import forbear` alone opens no store and imports no library.
_HOMES: Final = {
    "Answer": "forbear.core.vocabulary",
    "Attempt": "forbear.runtime.reply",
    "Controller": "forbear.runtime.controller",
    "Envelope": "forbear.core.values",
    "Executed": "forbear.core.vocabulary",
    "Gate": "forbear.core.vocabulary",
    "Limits": "forbear.core.policy",
    "Operator": "forbear.runtime.operator",
    "Outcome": "forbear.core.vocabulary",
    "Pending": "forbear.runtime.operator",
    "Recovery": "forbear.core.vocabulary",
    "Reply": "forbear.runtime.reply",
    "RuleVerdict": "forbear.core.values",
    "RunHandle": "forbear.runtime.runs",
    "Shown": "forbear.runtime.display",
    "ToolPolicy": "forbear.core.policy",
    "Verdict": "forbear.core.vocabulary",
    "Where": "forbear.runtime.where",
    "mark": "forbear.contract.boundaries",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'forbear' has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
