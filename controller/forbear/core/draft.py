"""A decision while it is put together: what an attempt's answer changes, collected and then returned at once.

No rule lives here; settle.py, refuse.py and repair.py fill drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from forbear.core.bar import leave_queues
from forbear.core.decision import (
    Change,
    Command,
    Decision,
    DropHold,
    Snapshot,
    WakeAt,
)
from forbear.core.rules import Rule
from forbear.core.start import current_counters
from forbear.core.states import (
    Action,
    Completed,
    Fresh,
    Hold,
    Phase,
    Running,
    Started,
    Tree,
)
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import (
    Answer,
)


@dataclass(slots=True, kw_only=True)
class Draft:
    """A decision while it is put together: the tree, the holds and the action as they will be."""

    s: Snapshot
    action: Action
    call: Call
    started: Started
    now: datetime
    tree: Tree
    holds: dict[str, Hold | None]
    changes: list[Change]
    commands: list[Command]

    def hold(self, key: str) -> Hold | None:
        """Return a hold as it stands in this draft."""
        return self.holds[key] if key in self.holds else self.s.holds.get(key)

    def put(self, hold: Hold) -> Hold:
        """Place or change a hold."""
        self.holds[hold.key] = hold
        return hold

    def drop(self, key: str) -> None:
        """End a hold."""
        if self.hold(key) is not None:
            self.holds[key] = None

    def decide(
        self,
        rule: Rule,
        phase: Phase,
        *,
        told: Envelope | None,
        answer: Answer,
        ticket: str | None = None,
        wake_at: datetime | None = None,
    ) -> Decision:
        """Return the decision: the action's next phase, and everything that was drafted."""
        # Another attempt of a repeatable action may still be open.
        opened = tuple(o for o in open_attempts(self.action) if o.attempt != self.started.attempt)
        if opened and isinstance(phase, (Completed, Fresh)):
            phase = Running(open=opened)
        changes: list[Change] = [replace(self.action, phase=phase), *self.changes]
        if self.tree is not self.s.tree:
            changes.append(self.tree)
        for key, hold in self.holds.items():
            if hold is not None:
                changes.append(hold)
            elif key in self.s.holds:
                changes.append(DropHold(key=key, scope=self.s.holds[key].scope))
        commands = list(self.commands)
        if wake_at is not None:
            commands.append(WakeAt(action=self.action.key, at=wake_at))
        return Decision(
            rule=rule,
            changes=tuple(changes),
            commands=tuple(commands),
            answer=answer,
            told=told,
            ticket=ticket,
            retry_at=wake_at if answer is Answer.PENDING else None,
        )


def open_attempts(action: Action) -> tuple[Started, ...]:
    """Return the attempts of an action that are not answered."""
    return action.phase.open if isinstance(action.phase, Running) else ()


def release(draft: Draft, *, ended: bool) -> None:
    """End the time holds that the attempt claimed, or hand their claim to the next call."""
    for key in draft.started.claims:
        hold = draft.hold(key)
        if hold is None or hold.claim is None:
            continue
        if ended:
            draft.drop(key)
        else:
            draft.put(replace(hold, claim=None))


def left_queues(draft: Draft, decision: Decision) -> tuple[Change, ...]:
    """Return the queues that the action leaves, except those that the decision changes anyway."""
    changed = {change.key for change in decision.changes if isinstance(change, (Hold, DropHold))}
    queues = leave_queues(draft.s, draft.action)
    return tuple(hold for hold in queues if hold.key not in changed)


def draft_of(s: Snapshot, action: Action, started: Started, now: datetime) -> Draft:
    """Return an empty draft about one attempt (for attempts that end without an answer)."""
    return Draft(
        s=s,
        action=current_counters(action, s.tree.turn),
        call=action.call,
        started=started,
        now=now,
        tree=s.tree,
        holds={},
        changes=[],
        commands=[],
    )
