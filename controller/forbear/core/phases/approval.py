"""AwaitingApproval and Approved: a person answers about exactly one call, and a yes is spent once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.bar import leave_queues
from forbear.core.decision import Announce, AskHuman, Change, Command, Decision, Deliver, DropHold, Snapshot, WakeAt
from forbear.core.events import (
    Cancelled,
    Denied,
    Edited,
    Event,
    Granted,
    Inspected,
    Interrupted,
    Lost,
    Proposed,
    Reconnected,
    Returned,
    Revised,
    Woke,
)
from forbear.core.holds import covering, matches, narrow, place, tell
from forbear.core.identity import apart_key
from forbear.core.phases.stale import stale
from forbear.core.phases.waiting import cancel
from forbear.core.rules import Rule
from forbear.core.start import By, Start, is_declared_once, joined_by, may_run_again
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Hold,
    NeedsRepair,
    Running,
    Stopped,
    Tree,
    Unknown,
    hold_key,
)
from forbear.core.values import Call, Grant
from forbear.core.vocabulary import Answer, Cause, Effect, End, Executed, Outcome, Recovery, Scope


def on_awaiting_approval(
    s: Snapshot, action: Action, state: AwaitingApproval, event: Event, now: datetime, start: Start
) -> Decision:
    """Ask once about one call; join equal calls; take the first answer that names ticket and fingerprint."""
    match event:
        case Proposed():
            return _proposed(s, action, state, start, now)
        case Granted():
            if not _answers(state, event, now):
                return stale(event)
            return _granted(s, action, state, event, now)
        case Denied():
            if not _answers(state, event, now):
                return stale(event)
            return _denied(s, action, state, event, now)
        case Revised():
            if not _answers(state, event, now):
                return stale(event)
            return _revised(s, action, state, event, now)
        case Edited():
            if not _answers(state, event, now):
                return stale(event)
            return _edited(s, action, state, event, now)
        case Woke():
            if now < state.expires_at:
                return Decision(
                    rule=Rule.APPROVAL_WOKE_EARLY, commands=(WakeAt(action=action.key, at=state.expires_at),)
                )
            return _expired(s, action, state, start)
        case Cancelled():
            decision = cancel(s, action, event, now)
            return replace(decision, changes=(*decision.changes, *_closed(s.tree, state)))
        case Returned() | Interrupted() | Lost() | Inspected() | Reconnected():
            return stale(event)


def on_approved(s: Snapshot, action: Action, state: Approved, event: Event, now: datetime, start: Start) -> Decision:
    """Spend a grant on exactly the call that it was given for, before it expires."""
    common = _common(s, action, state, event, now, start)
    if common is not None:
        return common
    match event:
        case Proposed():
            if now >= state.grant.expires_at:
                return _as_fresh(s, action, start, now)
            if start.call.fingerprint != state.fingerprint or start.call.run != action.call.run:
                return _other_call(state, start)
            return admit(s, action, replace(start, by=By.GRANT, grant=state.grant), now)
        case Woke():
            if now >= state.grant.expires_at:
                told = tell(
                    "APPROVAL_EXPIRED", outcome=Outcome.CANCELLED, request_id=start.request_id, call=action.call
                )
                return Decision(
                    rule=Rule.GRANT_EXPIRED,
                    changes=(replace(action, phase=Fresh()),),
                    commands=(Announce(action=action.key, told=told),),
                    told=told,
                )
            if state.run_at is None or now < state.run_at:
                at = state.grant.expires_at if state.run_at is None else state.run_at
                return Decision(rule=Rule.GRANT_WOKE_EARLY, commands=(WakeAt(action=action.key, at=at),))
            return admit(s, action, replace(start, by=By.GRANT, grant=state.grant), now)
        case Cancelled():
            return cancel(s, action, event, now)
        case (
            Returned()
            | Interrupted()
            | Lost()
            | Granted()
            | Denied()
            | Revised()
            | Edited()
            | Inspected()
            | Reconnected()
        ):
            return stale(event)


def _common(s: Snapshot, action: Action, state: Approved, event: Event, now: datetime, start: Start) -> Decision | None:
    """Decide about a yes where the equal call of another run, with a yes of its own, is in flight or was done.

    It does not matter which of them was asked about first. None = neither.
    """
    if not isinstance(event, (Proposed, Woke)) or now >= state.grant.expires_at:
        return None
    others = [
        other for other in s.actions.values() if other.call.common == action.call.common and other.key != action.key
    ]
    if any(isinstance(other.phase, Running) for other in others) and not may_run_again(s, action.call):
        if isinstance(event, Proposed):
            told = tell("DUPLICATE_IN_FLIGHT", executed=Executed.UNKNOWN, request_id=start.request_id, call=start.call)
            return Decision(
                rule=Rule.RUNNING_DUPLICATE, answer=Answer.BLOCKED, told=told, blocked_step=True, idle_step=True
            )
        later = min(now + s.policy.limits.default_wait, state.grant.expires_at)
        waits = replace(action, phase=replace(state, run_at=None if state.run_at is None else later))
        return Decision(rule=Rule.GRANT_WOKE_EARLY, changes=(waits,), commands=(WakeAt(action=action.key, at=later),))
    for other in others:
        done = other.phase
        if isinstance(done, Completed) and is_declared_once(s) and done.turn == s.tree.turn and done.told is not None:
            return _done_meanwhile(action, other, done, event)
    return None


def _done_meanwhile(action: Action, other: Action, done: Completed, event: Proposed | Woke) -> Decision:
    """It was done in this turn: this run is given the result, and its yes starts nothing."""
    spent = replace(action, phase=Fresh())
    if isinstance(event, Proposed):
        return Decision(
            rule=Rule.COMPLETED_SHARED,
            changes=(spent,),
            commands=(Deliver(action=other.key, attempt=done.attempt),),
            answer=Answer.DELIVERED,
            told=done.told,
            suppressed=True,
            idle_step=True,
        )
    told = done.told
    assert told is not None
    call = replace(action.call, action=other.key, base="")
    return Decision(
        rule=Rule.COMPLETED_SHARED,
        changes=(spent,),
        commands=(Announce(action=other.key, told=told, call=call),),
    )


def _answers(state: AwaitingApproval, event: Granted | Denied | Revised | Edited, now: datetime) -> bool:
    """Return whether an answer is about this prompt, about exactly this call, and in time."""
    return (
        event.ticket == state.ticket
        and event.fingerprint == state.fingerprint
        and now < state.expires_at
        and not state.by_framework
    )


def _closed(tree: Tree, state: AwaitingApproval) -> tuple[Change, ...]:
    if state.ticket not in tree.open_prompts:
        return ()
    return (replace(tree, open_prompts=tuple(t for t in tree.open_prompts if t != state.ticket)),)


def _proposed(s: Snapshot, action: Action, state: AwaitingApproval, start: Start, now: datetime) -> Decision:
    if state.by_framework and start.call.fingerprint == state.fingerprint:
        grant = Grant(ticket=state.ticket, rule=state.rule, expires_at=state.expires_at, policy=s.policy.digest)
        return admit(s, action, replace(start, grant=grant), now)
    if now >= state.expires_at:
        closed = _closed(s.tree, state)
        tree = next((change for change in closed if isinstance(change, Tree)), s.tree)
        return with_tree(_as_fresh(replace(s, tree=tree), action, start, now), tree, s.tree)
    if covering(s, start.call, now).barring:
        # Something stronger came to cover it: the open prompt stays answerable, the call is told why it is held.
        return admit(s, action, start, now)
    return Decision(
        rule=Rule.APPROVAL_JOINED,
        changes=joined_by(action, start.call),
        answer=Answer.NEEDS_APPROVAL,
        told=state.told,
        ticket=state.ticket,
        suppressed=True,
        idle_step=True,
    )


def _as_fresh(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Decide about a call whose question or yes expired, as if it were new; what expired is over in any case."""
    fresh = replace(action, phase=Fresh(), joined=())
    decision = admit(s, fresh, start, now)
    told = tell("APPROVAL_EXPIRED", outcome=Outcome.CANCELLED, call=action.call)
    others = (call for call in (action.call, *action.joined) if call.run != start.call.run)
    commands = (*decision.commands, *(Announce(action=action.key, told=told, call=call) for call in others))
    if any(isinstance(change, Action) and change.key == action.key for change in decision.changes):
        return replace(decision, commands=commands)
    return replace(decision, changes=(fresh, *decision.changes), commands=commands)


def with_tree(decision: Decision, tree: Tree, before: Tree) -> Decision:
    """Return the decision with the tree's change in it, unless it changes the tree by itself."""
    if tree is before or any(isinstance(change, Tree) for change in decision.changes):
        return decision
    return replace(decision, changes=(*decision.changes, tree))


def _other_call(state: Approved, start: Start) -> Decision:
    """The same action in other words (ignored fields differ) or of another run: the yes belongs to what was asked."""
    told = tell(
        "APPROVAL_REQUIRED",
        recovery=Recovery.REQUEST_APPROVAL,
        outcome=Outcome.PENDING,
        request_id=start.request_id,
        call=start.call,
    )
    return Decision(
        rule=Rule.APPROVAL_OTHER_CALL,
        answer=Answer.NEEDS_APPROVAL,
        told=told,
        ticket=state.grant.ticket,
        idle_step=True,
    )


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
    asked, commands, tree = _ask_apart(s, action, state, _after_yes(s, action.call, state), now)
    return Decision(
        rule=Rule.GRANTED,
        changes=(replace(action, phase=phase, joined=()), tree, *_lifted(s, action.call), *asked),
        commands=(WakeAt(action=action.key, at=wake_at), *commands),
        ticket=state.ticket,
    )


def apart(call: Call) -> Call:
    """Return a call that is asked about on its own, apart from equal calls of other runs."""
    key = apart_key(call.common, call.run, call.step, call.call_id)
    return replace(call, action=key, base=call.common)


def _ask_apart(
    s: Snapshot, action: Action, state: AwaitingApproval, tree: Tree, now: datetime
) -> tuple[tuple[Change, ...], tuple[Command, ...], Tree]:
    """Ask on their own about the calls of other runs that had joined a prompt which was answered yes for one run."""
    changes: list[Change] = []
    commands: list[Command] = []
    for number, call in enumerate(action.joined, start=1):
        own = apart(call)
        key = own.action
        standing = s.action(own)
        is_open = isinstance(standing.phase, (Running, Unknown, AwaitingApproval, Approved))
        if is_open or len(tree.open_prompts) >= s.policy.limits.max_open_prompts:
            # It is asked about when its run proposes it.
            continue
        ticket = f"{state.ticket}-{number}"
        expires_at = now + s.policy.limits.approval_ttl
        phase = replace(
            state,
            ticket=ticket,
            run=call.run,
            fingerprint=call.fingerprint,
            asked_at=now,
            expires_at=expires_at,
        )
        changes.append(replace(standing, call=own, phase=phase))
        commands.extend((AskHuman(action=key, ticket=ticket), WakeAt(action=key, at=expires_at)))
        tree = replace(tree, open_prompts=(*tree.open_prompts, ticket))
    return tuple(changes), tuple(commands), tree


def _after_yes(s: Snapshot, call: Call, state: AwaitingApproval) -> Tree:
    return replace(
        s.tree,
        noes=0,
        open_prompts=tuple(ticket for ticket in s.tree.open_prompts if ticket != state.ticket),
        denials=tuple(entry for entry in s.tree.denials if entry[0] != call.operation),
    )


def _lifted(s: Snapshot, call: Call) -> tuple[Change, ...]:
    """A yes that is given after a no, to a call that the no covers, ends that no."""
    return tuple(
        DropHold(key=hold.key, scope=hold.scope)
        for hold in s.holds.values()
        if hold.cause is Cause.DENIAL and hold.end is not End.RUN and matches(hold, call, s)
    )


def _denied(s: Snapshot, action: Action, state: AwaitingApproval, event: Denied, now: datetime) -> Decision:
    call = action.call
    told = tell("USER_DENIED", outcome=Outcome.DENIED, request_id=event.request_id, call=call)
    scope, value = _denial_scope(s, call, state)
    standing = s.holds.get(hold_key(scope, value, Cause.DENIAL))
    # A no stands beside what the policy denied by that rule, and beside a no about another call: each has its own end.
    beside = (
        scope is Scope.RULE
        and standing is not None
        and (standing.action != action.key or standing.end is not End.PERSON)
    )
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
        s.tree,
        noes=s.tree.noes + 1,
        noes_in_turn=s.tree.noes_in_turn + 1,
        open_prompts=tuple(ticket for ticket in s.tree.open_prompts if ticket != state.ticket),
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
    return Decision(
        rule=Rule.REVISED,
        changes=(replace(action, phase=phase), hold, *_closed(s.tree, state)),
        commands=(Announce(action=action.key, told=told),),
        answer=Answer.BLOCKED,
        told=told,
        ticket=state.ticket,
    )


def _edited(s: Snapshot, action: Action, state: AwaitingApproval, event: Edited, now: datetime) -> Decision:
    """What the person wrote runs; what the model proposed does not, until a new turn."""
    other = s.action(event.call)
    tree = _after_yes(s, action.call, state)
    if other.key != action.key and isinstance(other.phase, AwaitingApproval):
        # What was asked about the other call is answered by the edit.
        tree = replace(tree, open_prompts=tuple(ticket for ticket in tree.open_prompts if ticket != other.phase.ticket))
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


def _expired(s: Snapshot, action: Action, state: AwaitingApproval, start: Start) -> Decision:
    told = tell("APPROVAL_EXPIRED", outcome=Outcome.CANCELLED, request_id=start.request_id, call=action.call)
    return Decision(
        rule=Rule.APPROVAL_EXPIRED,
        changes=(replace(action, phase=Fresh()), *_closed(s.tree, state)),
        commands=(Announce(action=action.key, told=told),),
        told=told,
        ticket=state.ticket,
    )
