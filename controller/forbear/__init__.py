"""A deterministic recovery controller for AI agents' tool calls. Public names only; they are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from forbear.errors import (
    ConfigError,
    ContractError,
    ForbearError,
    NotOperator,
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
    from forbear.runtime.execute import Next, Progress, aexecute, execute
    from forbear.runtime.explain import Explanation, Happening, Remedy
    from forbear.runtime.govern import govern, in_run
    from forbear.runtime.operator import Operator
    from forbear.runtime.overview import CallView, RunView
    from forbear.runtime.pending import Pending
    from forbear.runtime.reply import Attempt, Reply
    from forbear.runtime.runs import RunHandle
    from forbear.runtime.standalone import NextStep, RecoveryPolicy, ToDo
    from forbear.runtime.where import Where

__all__ = [
    "Answer",
    "Attempt",
    "CallView",
    "ConfigError",
    "ContractError",
    "Controller",
    "Envelope",
    "Executed",
    "Explanation",
    "ForbearError",
    "Gate",
    "Happening",
    "Limits",
    "NotOperator",
    "Next",
    "NextStep",
    "Operator",
    "Outcome",
    "Pending",
    "Progress",
    "Recovery",
    "RecoveryPolicy",
    "Refused",
    "Remedy",
    "Reply",
    "RuleVerdict",
    "RunHalted",
    "RunHandle",
    "RunView",
    "SchemaTooNew",
    "Shown",
    "StaleWrite",
    "StoreError",
    "ToDo",
    "ToolPolicy",
    "UsageError",
    "Verdict",
    "Where",
    "aexecute",
    "execute",
    "govern",
    "in_run",
    "mark",
]

# Where the names live that take long to import. `import forbear` alone opens no store and imports no library.
_HOMES: Final = {
    "Answer": "forbear.core.vocabulary",
    "Attempt": "forbear.runtime.reply",
    "CallView": "forbear.runtime.overview",
    "Controller": "forbear.runtime.controller",
    "Envelope": "forbear.core.values",
    "Executed": "forbear.core.vocabulary",
    "Explanation": "forbear.runtime.explain",
    "Gate": "forbear.core.vocabulary",
    "Happening": "forbear.runtime.explain",
    "Limits": "forbear.core.policy",
    "Next": "forbear.runtime.execute",
    "NextStep": "forbear.runtime.standalone",
    "Operator": "forbear.runtime.operator",
    "Outcome": "forbear.core.vocabulary",
    "Pending": "forbear.runtime.pending",
    "Recovery": "forbear.core.vocabulary",
    "Remedy": "forbear.runtime.explain",
    "Progress": "forbear.runtime.execute",
    "RecoveryPolicy": "forbear.runtime.standalone",
    "Reply": "forbear.runtime.reply",
    "RuleVerdict": "forbear.core.values",
    "RunHandle": "forbear.runtime.runs",
    "RunView": "forbear.runtime.overview",
    "Shown": "forbear.runtime.display",
    "ToDo": "forbear.runtime.standalone",
    "ToolPolicy": "forbear.core.policy",
    "Verdict": "forbear.core.vocabulary",
    "Where": "forbear.runtime.where",
    "aexecute": "forbear.runtime.execute",
    "execute": "forbear.runtime.execute",
    "govern": "forbear.runtime.govern",
    "in_run": "forbear.runtime.govern",
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
