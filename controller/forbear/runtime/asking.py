"""From a caller's arguments to a proposal: which run, which executor, what a result is. Façade work; nothing is decided."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Final, Literal

from forbear.contract import Raised, Raw
from forbear.errors import UsageError
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.lanes import Lanes
from forbear.runtime.perform import INSIDE, ended_by, raw_of
from forbear.runtime.steps import Ended, Executor, How, Signals
from forbear.runtime.where import Where

# What a caller gets where the store cannot be written: an exception, or a blocked reply.
OnBroken = Literal["raise", "block"]
ON_BROKEN: Final = ("raise", "block")

_TEXTS: Final = ("run", "parent", "principal", "step", "call_id", "source", "turn")


class Asking:
    """Makes proposals for one controller."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.lanes = Lanes(engine)
        self._warned_about_run = False

    def ask(self, tool: str, arguments: object, where: Where) -> Ask:
        """Return a proposal.

        Raises:
            UsageError: an id is no text, or there is no run id and the controller is strict.
        """
        for name in _TEXTS:
            if not isinstance(where.get(name) or "", str):
                raise UsageError(f"{name}: must be a text")
        run = where.get("run")
        if not run:
            run = self._missing_run()
        return Ask(
            tool=tool,
            arguments=arguments,
            run=run,
            parent=where.get("parent"),
            principal=where.get("principal"),
            step=where.get("step") or "",
            call_id=where.get("call_id") or "",
            source=where.get("source", ""),
            siblings=where.get("siblings", 1),
            forced=where.get("forced", False),
            truncated=where.get("truncated", False),
            turn=where.get("turn"),
            reproposes=where.get("reproposes", False),
        )

    def _missing_run(self) -> str:
        inside = INSIDE.get()
        if inside is not None and inside.owner is self.engine:
            # Calls that a tool makes by itself belong to one child run of the call that it answers.
            return f"{inside.run}/{inside.call_id or self.engine.ids.request_id()}"
        if self.engine.strict:
            raise UsageError("run: must be given (strict=True)")
        if not self._warned_about_run:
            self._warned_about_run = True
            level, line = _caller()
            warnings.warn(
                f"call without a run id at {line}: each such call is a run of its own, so that no refusal is remembered "
                "between them; pass run=…",
                RuntimeWarning,
                stacklevel=level,
            )
        return f"run_{self.engine.ids.request_id().removeprefix('act_')}"

    def executor(self, tool: str, execute: Executor | None) -> Executor:
        """Return what runs the tool.

        Raises:
            UsageError: nothing does; nothing was decided.
        """
        found = execute if execute is not None else self.engine.tools.executor(tool)
        if found is None:
            raise UsageError(f"tool {tool!r}: has no executor, pass execute=… or bind one")
        return found


def answers_broken(on_broken: str) -> bool:
    """Say whether a caller wants a reply where the store cannot be written.

    Raises:
        UsageError: it is none of the two words.
    """
    if on_broken not in ON_BROKEN:
        raise UsageError("on_broken: must be 'raise' or 'block'")
    return on_broken == "block"


def ended_of(result: object, signals: Signals) -> Ended:
    """Return how an attempt ended that a caller settles with this result."""
    raw = raw_of(result)
    if isinstance(raw, Raised):
        return ended_by(raw.error, signals) if not isinstance(raw.error, Exception) or signals else _answered(raw)
    return _answered(raw)


def _answered(raw: Raw) -> Ended:
    return Ended(how=How.ANSWERED, raw=raw)


def _caller() -> tuple[int, str]:
    """Return the stack level and the line of the nearest code outside this package."""
    package = str(Path(__file__).parent.parent)
    level = 1
    frame = inspect.currentframe()
    assert frame is not None
    frame = frame.f_back or frame
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
        level += 1
    return level, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
