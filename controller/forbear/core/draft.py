"""A decision while it is put together: what an attempt's answer changes, collected and then returned at once.

No rule lives here; settle.py, refuse.py and repair.py fill drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

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
    AwaitingApproval,
    Claim,
    Hold,
    Phase,
    Running,
    Started,
    Tree,
    Unknown,
    hold_key,
)
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Cause, Effect, Scope

# Targets of a turn whose last writer is remembered. A forgotten one counts as written by nobody else: its completed
# call is delivered from the record rather than run twice.
MAX_TARGETS = 64


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
        """End a hold that stood before this decision."""
        self.holds[key] = None

    def held(self) -> list[Change]:
        """Return the holds that are placed, changed or ended."""
        return [
            hold if hold is not None else DropHold(key=key, scope=self.s.holds[key].scope)
            for key, hold in self.holds.items()
        ]

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
        if isinstance(phase, (Unknown, AwaitingApproval)):
            # Nothing runs on behind a doubt or a question; a result that arrives still belongs to its caller.
            for other in opened:
                hand_back(replace(self, started=other), used=True)
        elif opened:
            phase = Running(open=opened)
        changes: list[Change] = [replace(self.action, phase=phase), *self.changes]
        if self.tree is not self.s.tree:
            changes.append(self.tree)
        changes.extend(self.held())
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
    for hold in answered_by(draft, draft.started.claims):
        if ended:
            draft.drop(hold.key)
        else:
            draft.put(replace(hold, claim=None))


def hand_back(draft: Draft, *, used: bool) -> None:
    """Give up every hold that the attempt answers for; a probe that was not `used` may be made again in this turn."""
    release(draft, ended=False)
    for hold in answered_by(draft, draft.started.probes):
        draft.put(replace(hold, claim=None, probed=hold.probed if used else 0))


def succeeded(tree: Tree, call: Call, *, is_write: bool) -> Tree:
    """Return the tree after a call completed: what counted failures in a row starts again."""
    ended = (call.target, call.operation)
    repairs = () if is_write else tuple(entry for entry in tree.repairs if entry[0] not in ended)
    streaks = tuple(streak for streak in tree.streaks if streak.operation != call.operation)
    if not is_write:
        same = (streaks, repairs) == (tree.streaks, tree.repairs)
        return tree if same else replace(tree, streaks=streaks, repairs=repairs)
    writes = tree.writes + 1
    target_writes = tree.target_writes
    if call.target is not None:
        others = tuple(entry for entry in target_writes if entry[0] != call.target)
        target_writes = (*others[-MAX_TARGETS:], (call.target, call.action, writes))
    return replace(tree, streaks=streaks, repairs=repairs, writes=writes, target_writes=target_writes)


def repeats_unknown(action: Action) -> bool:
    """Return whether what is open is the one repetition of an unknown write with the same idempotency key."""
    return action.key_spent != 0


def end_doubt(s: Snapshot, action: Action, key: str) -> tuple[DropHold, ...]:
    """End the hold of an unknown write whose truth is known, unless another one of the tree stands under it."""
    hold = s.holds.get(key)
    if hold is None or any(_doubts(other, hold) for other in s.actions.values() if other.key != action.key):
        return ()
    return (DropHold(key=hold.key, scope=hold.scope),)


def _doubts(action: Action, hold: Hold) -> bool:
    if isinstance(action.phase, Unknown):
        return action.phase.hold == hold.key
    return repeats_unknown(action) and doubt_key(action.call) == hold.key


def doubt_key(call: Call) -> str:
    """Return the key of the hold of an unknown write."""
    scope, value = doubt_scope(call)
    return hold_key(scope, value, Cause.UNKNOWN)


def doubt_scope(call: Call) -> tuple[Scope, str]:
    """Return what an unknown write covers: its target, else its operation's writes; undeclared: the action."""
    if call.effect is Effect.UNDECLARED:
        return Scope.ACTION, call.common
    return (Scope.TARGET, call.target) if call.target is not None else (Scope.OPERATION, call.operation)


def answered_by(draft: Draft, keys: tuple[str, ...]) -> list[Hold]:
    """Return those of the holds that this attempt still answers for (one may have ended and been placed anew since)."""
    mine = Claim(tree=draft.s.tree.root, action=draft.action.key, attempt=draft.started.attempt)
    held = [draft.hold(key) for key in keys]
    return [hold for hold in held if hold is not None and hold.claim == mine]


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
