"""What a procedure is asked, and what it gives back, as values. Nothing is decided or performed here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from forbear.core.decision import Decision, Execute, Join, Snapshot
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action
from forbear.core.values import Call, Envelope
from forbear.ports import Row
from forbear.runtime.live import LiveTree

if TYPE_CHECKING:
    from forbear.runtime.reply import Reply

Frame = Callable[[LiveTree], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A committed decision, with what the reply needs of the state after it."""

    decision: Decision
    live: LiveTree
    now: datetime
    # The action after the decision; None = an event of the tree.
    action: Action | None = None
    # The recorded result that is to be delivered.
    recorded: Row | None = None
    # The same where memory still has the very object.
    value: tuple[object] | None = None
    # What a settled attempt said, before the core made the answer of it.
    envelope: Envelope | None = None
    # How often the action has completed (known only where an idempotency key is declared).
    completions: int = 0
    # The attempt of this process that the call joins.
    flight: Future[Reply] | None = None
    # HALTED: tools that were completed in this turn, and what still waits.
    completed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    @property
    def execute(self) -> Execute | None:
        """Return the start that this decision ordered."""
        return next((command for command in self.decision.commands if isinstance(command, Execute)), None)

    @property
    def join(self) -> Join | None:
        """Return the open attempt whose result answers this call."""
        return next((command for command in self.decision.commands if isinstance(command, Join)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is the same for every procedure about one action."""

    root: str
    call: Call
    # Makes the core's view of the tree: policy of the event's tool, limits, owner, approver.
    frame: Frame
    policy: ToolPolicy
    request_id: str = ""
    actor: str = ""
    # The framework proposes an approved call again by itself.
    reproposes: bool = False
    # What a person adds to what the run is told about this action.
    note: str = ""
