"""What a person's answer changes: granted, denied, changes requested, edited. Who is asked, and when a yes is spent, is in approval.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.bar import leave_queues
from forbear.core.decision import Announce, AskHuman, Change, Command, Decision, DropHold, Snapshot, WakeAt
from forbear.core.events import Denied, Edited, Granted, Revised
from forbear.core.holds import matches, narrow, place, tell
from forbear.core.phases.apart import ask_apart
from forbear.core.rules import Rule
from forbear.core.start import is_declared_once
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Hold,
    NeedsRepair,
    Running,
    Stopped,
    Tree,
    Unknown,
    hold_key,
)
from forbear.core.values import Call, Grant
from forbear.core.vocabulary import Answer, Cause, Effect, End, Outcome, Recovery, Scope


def answered(
    s: Snapshot,
    action: Action,
    state: AwaitingApproval,
    event: Granted | Denied | Revised | Edited,
    now: datetime,
) -> Decision:
    """Decide what an answer that fits the open question changes."""
    match event:
        case Granted():
            return _granted(s, action, state, event, now)
        case Denied():
            return _denied(s, action, state, event, now)
        case Revised():
            return _revised(s, action, state, event, now)
        case Edited():
            return _edited(s, action, state, event, now)


def without_prompt(tree: Tree, ticket: str) -> Tree:
    """Return the tree without an open question, where it was one of the tree's."""
    if ticket not in tree.open_prompts:
        return tree
    return replace(tree, open_prompts=tuple(prompt for prompt in tree.open_prompts if prompt != ticket))


def with_tree(decision: Decision, tree: Tree, before: Tree) -> Decision:
    """Return the decision with the tree's change in it, unless it changes the tree by itself."""
    if tree is before or any(isinstance(change, Tree) for change in decision.changes):
        return decision
    return replace(decision, changes=(*decision.changes, tree))


def _grant(s: Snapshot, state: AwaitingApproval, actor: str, now: datetime) -> Grant:
    return Grant(
        ticket=state.ticket,
        rule=state.rule,
        expires_at=now + s.policy.limits.grant_ttl,
        actor=actor,
        policy=s.policy.digest,
    )


def _granted(s: Snapshot, action: Action, state: AwaitingApproval, event: Granted, now: datetime) -> Decision:
    grant = _grant(s, state, event.actor, now)
    run_at = None if event.reproposes else now
    phase = Approved(grant=grant, fingerprint=state.fingerprint, run_at=run_at)
    wake_at = grant.expires_at if run_at is None else run_at
    asked, commands, tree = ask_apart(s, action, state, _after_yes(s, action.call, state), now)
    return Decision(
        rule=Rule.GRANTED,
        changes=(replace(action, phase=phase, joined=()), tree, *_lifted(s, action.call), *asked),
        commands=(WakeAt(action=action.key, at=wake_at), *commands),
        ticket=state.ticket,
    )


def _after_yes(s: Snapshot, call: Call, state: AwaitingApproval) -> Tree:
    return replace(
        without_prompt(s.tree, state.ticket),
        noes=0,
        denials=tuple(entry for entry in s.tree.denials if entry[0] != call.operation),
    )


def _lifted(s: Snapshot, call: Call) -> tuple[Change, ...]:
    """A yes that is given after a no, to a call that the no covers, ends that no."""
    return tuple(
        DropHold(key=hold.key, scope=hold.scope)
        for hold in s.holds.values()
        if hold.cause is Cause.DENIAL and matches(hold, call, s)
    )


def _denied(s: Snapshot, action: Action, state: AwaitingApproval, event: Denied, now: datetime) -> Decision:
    call = action.call
    told = tell("USER_DENIED", outcome=Outcome.DENIED, request_id=event.request_id, call=call)
    scope, value = _denial_scope(s, call, state)
    standing = s.holds.get(hold_key(scope, value, Cause.DENIAL))
    # A no stands beside what the policy denied by that rule, and beside a no about another call: each has its own end.
    beside = scope is Scope.RULE and standing is not None
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.DENIAL,
        end=End.PERSON,
        told=told,
        ticket=state.ticket,
        snapshot=s,
        now=now,
        mark=action.key if beside else "",
    )
    hold = replace(hold, gated_only=scope is Scope.RULE)
    counted = next((count for name, count in s.tree.denials if name == call.operation), 0) + 1
    tree = replace(
        without_prompt(s.tree, state.ticket),
        noes=s.tree.noes + 1,
        noes_in_turn=s.tree.noes_in_turn + 1,
        denials=(*(entry for entry in s.tree.denials if entry[0] != call.operation), (call.operation, counted)),
    )
    stopped = Stopped(code=told.code, told=told, turn=s.tree.turn, hold=hold.key)
    changes: list[Change] = [replace(action, phase=stopped), tree, hold]
    if counted >= 2 and scope is Scope.ACTION:
        changes.append(_quiet(s, call, state, now))
    return Decision(
        rule=Rule.DENIED,
        changes=tuple(changes),
        commands=(Announce(action=action.key, told=told),),
        answer=Answer.BLOCKED,
        told=told,
        ticket=state.ticket,
    )


def _denial_scope(s: Snapshot, call: Call, state: AwaitingApproval) -> tuple[Scope, str]:
    """A no covers the rule that asked; for "always" (and for a tool that asked) the target, else the action."""
    if state.rule and state.rule != "always" and not state.rule.startswith("tool:"):
        return Scope.RULE, state.rule
    scope = Scope.ACTION if call.effect is Effect.UNDECLARED else Scope.TARGET
    return narrow(call, scope, s.tree.principal)


def _quiet(s: Snapshot, call: Call, state: AwaitingApproval, now: datetime) -> Hold:
    """After two noes in a row the operation asks nobody until the next human message."""
    hold = place(
        call,
        scope=Scope.OPERATION,
        value=call.operation,
        cause=Cause.DENIAL,
        end=End.TURN,
        told=tell("USER_DENIED", outcome=Outcome.DENIED, call=call),
        ticket=f"{state.ticket}-x",
        snapshot=s,
        now=now,
    )
    return replace(hold, gated_only=True)


def _revised(s: Snapshot, action: Action, state: AwaitingApproval, event: Revised, now: datetime) -> Decision:
    """Changes were asked for: this call does not come back in this turn, another one may be asked about."""
    told = tell(
        "CHANGES_REQUESTED",
        recovery=Recovery.REPAIR_INPUT,
        outcome=Outcome.DENIED,
        request_id=event.request_id,
        call=action.call,
    )
    hold = place(
        action.call,
        scope=Scope.ACTION,
        value=action.key,
        cause=Cause.REPAIR,
        end=End.TURN,
        told=told,
        ticket=state.ticket,
        snapshot=s,
        now=now,
    )
    phase = NeedsRepair(attempt=0, turn=s.tree.turn, told=told, writes=s.tree.writes, hold=hold.key)
    decision = Decision(
        rule=Rule.REVISED,
        changes=(replace(action, phase=phase), hold),
        commands=(Announce(action=action.key, told=told),),
        answer=Answer.BLOCKED,
        told=told,
        ticket=state.ticket,
    )
    return with_tree(decision, without_prompt(s.tree, state.ticket), s.tree)


def _edited(s: Snapshot, action: Action, state: AwaitingApproval, event: Edited, now: datetime) -> Decision:
    """What the person wrote runs; what the model proposed does not, until a new turn."""
    other = s.action(event.call)
    tree = _after_yes(s, action.call, state)
    if isinstance(other.phase, AwaitingApproval):
        # What was asked about the other call is answered by the edit.
        tree = without_prompt(tree, other.phase.ticket)
    grant = _grant(s, state, event.actor, now)
    run_at = None if event.reproposes else now
    approved = Approved(grant=grant, fingerprint=event.call.fingerprint, run_at=run_at)
    wake: tuple[Command, ...] = (WakeAt(action=event.call.action, at=grant.expires_at if run_at is None else run_at),)
    if event.call.action == action.key:
        changed = replace(action, call=event.call, phase=approved)
        changes = (changed, tree, *_lifted(s, event.call))
        return Decision(rule=Rule.EDITED, changes=changes, commands=wake, ticket=state.ticket)
    told = tell("SUPERSEDED", outcome=Outcome.CANCELLED, request_id=event.request_id, call=action.call)
    hold = place(
        action.call,
        scope=Scope.ACTION,
        value=action.key,
        cause=Cause.EXHAUSTED,
        end=End.TURN,
        told=told,
        ticket=f"{state.ticket}-x",
        snapshot=s,
        now=now,
    )
    stopped = replace(action, phase=Stopped(code=told.code, told=told, turn=s.tree.turn, hold=hold.key))
    is_done = isinstance(other.phase, Completed) and is_declared_once(s) and other.phase.turn == s.tree.turn
    if isinstance(other.phase, (Running, Unknown)) or is_done:
        return Decision(
            rule=Rule.EDITED_HELD,
            changes=(stopped, hold, tree),
            commands=(Announce(action=action.key, told=told),),
            told=told,
            ticket=state.ticket,
        )
    if event.call.tool != action.call.tool:
        return _asks_other(s, state, event, now, (stopped, hold), tree)
    edited = replace(other, call=event.call, phase=approved)
    return Decision(
        rule=Rule.EDITED,
        changes=(stopped, hold, edited, tree, *leave_queues(s, other), *_lifted(s, event.call)),
        commands=wake,
        ticket=state.ticket,
    )


def _asks_other(
    s: Snapshot,
    state: AwaitingApproval,
    event: Edited,
    now: datetime,
    changes: tuple[Change, ...],
    tree: Tree,
) -> Decision:
    """An edit into another tool is another question."""
    expires_at = now + s.policy.limits.approval_ttl
    told = tell(
        "APPROVAL_REQUIRED",
        recovery=Recovery.REQUEST_APPROVAL,
        outcome=Outcome.PENDING,
        request_id=event.request_id,
        call=event.call,
    )
    phase = AwaitingApproval(
        ticket=event.new_ticket,
        rule=event.call.verdict.rule or "always",
        fingerprint=event.call.fingerprint,
        run=event.call.run,
        asked_at=now,
        expires_at=expires_at,
        told=told,
    )
    asked = replace(s.action(event.call), call=event.call, phase=phase)
    return Decision(
        rule=Rule.EDITED_ASKS,
        changes=(
            *changes,
            asked,
            *leave_queues(s, asked),
            replace(tree, open_prompts=(*tree.open_prompts, event.new_ticket)),
        ),
        commands=(
            AskHuman(action=event.call.action, ticket=event.new_ticket),
            WakeAt(action=event.call.action, at=expires_at),
        ),
        answer=Answer.NEEDS_APPROVAL,
        told=told,
        ticket=event.new_ticket,
    )
