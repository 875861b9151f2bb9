"""forbear: a deterministic recovery controller for AI agents' tool calls. Public names only; nothing is imported early.

`import forbear` stays cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forbear.core.vocabulary import Answer as Answer
    from forbear.errors import Refused as Refused
    from forbear.errors import RunHalted as RunHalted
    from forbear.runtime.controller import Controller as Controller
    from forbear.runtime.execute import Next as Next
    from forbear.runtime.execute import Progress as Progress
    from forbear.runtime.execute import aexecute as aexecute
    from forbear.runtime.execute import execute as execute
    from forbear.runtime.govern import govern as govern
    from forbear.runtime.govern import in_run as in_run
    from forbear.runtime.reply import Attempt as Attempt
    from forbear.runtime.reply import Reply as Reply
    from forbear.runtime.standalone import NextStep as NextStep
    from forbear.runtime.standalone import RecoveryPolicy as RecoveryPolicy
    from forbear.runtime.standalone import ToDo as ToDo

_HOMES: Final = {
    "Answer": "forbear.core.vocabulary",
    "Attempt": "forbear.runtime.reply",
    "Controller": "forbear.runtime.controller",
    "Next": "forbear.runtime.execute",
    "NextStep": "forbear.runtime.standalone",
    "Progress": "forbear.runtime.execute",
    "RecoveryPolicy": "forbear.runtime.standalone",
    "Refused": "forbear.errors",
    "Reply": "forbear.runtime.reply",
    "RunHalted": "forbear.errors",
    "ToDo": "forbear.runtime.standalone",
    "aexecute": "forbear.runtime.execute",
    "execute": "forbear.runtime.execute",
    "govern": "forbear.runtime.govern",
    "in_run": "forbear.runtime.govern",
}

__all__ = [
    "Answer",
    "Attempt",
    "Controller",
    "Next",
    "NextStep",
    "Progress",
    "RecoveryPolicy",
    "Refused",
    "Reply",
    "RunHalted",
    "ToDo",
    "aexecute",
    "execute",
    "govern",
    "in_run",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'forbear' has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
