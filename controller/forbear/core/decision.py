"""Decisions: rule, changes, commands and answer. Applying them is `Snapshot.after`; making them is `decide`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Action, Hold, Known, Run, Tree
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Scope

# ---- commands (imperative) ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Run the frozen arguments of `call` as attempt `attempt`, after this decision was committed."""

    action: str
    call: Call
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Feed `Woke` to the action at or after `at`."""

    action: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHuman:
    """Show the prompt of this action to an approver."""

    action: str
    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Run the declared read-only check of this action and feed `Inspected`."""

    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Answer with the recorded result of this attempt."""

    action: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Answer with the result of an attempt that is open now."""

    action: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """A result of this action became ready outside a call: tell the run (inbox, on_ready)."""

    action: str
    told: Envelope
    # Whose run is told; None = that of the action's own call.
    call: Call | None = None


Command = Execute | WakeAt | AskHuman | Inspect | Deliver | Join | Announce

# ---- changes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DropHold:
    """The hold with this key ended."""

    key: str
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKnown:
    """Remember that this call was answered by this attempt (0 = not started)."""

    key: str
    known: Known


Change = Tree | Run | Action | Hold | DropHold | PutKnown


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided about one event: the rule, what changes, what is to be done and what is answered."""

    rule: Rule
    changes: tuple[Change, ...] = ()
    commands: tuple[Command, ...] = ()
    # None where nobody is waiting for an answer to this event.
    answer: Answer | None = None
    told: Envelope | None = None
    ticket: str | None = None
    # PENDING: when the controller will act at the earliest.
    retry_at: datetime | None = None
    # Not the first answer of this execution.
    suppressed: bool = False
    # HALTED: a forced tool choice must be cleared.
    clear_forced: bool = False
    # OBSERVE: what would have been answered.
    would: Answer | None = None
    would_rule: Rule | None = None
    # How a proposal counts for its step: blocked under a refusal that was delivered before; nothing new happened.
    blocked_step: bool = False
    idle_step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that one decision may look at. Mappings are read-only by convention; `after` copies."""

    tree: Tree
    runs: Mapping[str, Run]
    actions: Mapping[str, Action]
    # Holds of the tree and of its principal, by key.
    holds: Mapping[str, Hold]
    known: Mapping[str, Known]
    policy: ToolPolicy
    # The controller's limits; `policy.limits` are the tool's.
    limits: Limits = field(default_factory=Limits)
    # Identity of the deciding process.
    owner: str = ""
    # Somebody can answer prompts.
    has_approver: bool = True

    def action(self, call: Call) -> Action:
        """Return the action of a call, fresh if it was never seen."""
        found = self.actions.get(call.action)
        return found if found is not None else Action(key=call.action, call=call)

    def run(self, run: str) -> Run:
        """Return a run of the tree, new if it was never seen."""
        found = self.runs.get(run)
        return found if found is not None else Run(id=run)

    def after(self, decision: Decision) -> Snapshot:
        """Return the snapshot with the decision's changes applied."""
        tree = self.tree
        runs, actions, holds, known = dict(self.runs), dict(self.actions), dict(self.holds), dict(self.known)
        for change in decision.changes:
            match change:
                case Tree():
                    tree = change
                case Run():
                    runs[change.id] = change
                case Action():
                    actions[change.key] = change
                case Hold():
                    holds[change.key] = change
                case DropHold():
                    holds.pop(change.key, None)
                case PutKnown():
                    known[change.key] = change.known
        return Snapshot(
            tree=tree,
            runs=runs,
            actions=actions,
            holds=holds,
            known=known,
            policy=self.policy,
            limits=self.limits,
            owner=self.owner,
            has_approver=self.has_approver,
        )
