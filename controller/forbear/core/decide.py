"""The one decision point: `decide` for events of an action, `decide_tree` for events of the tree. Pure and total.

Composition only: what a phase does is in phases/, whether a call may start is in admit.py, what a result means is in
settle.py, when a run is over is in steps.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import start_anyway
from forbear.core.bar import bar
from forbear.core.decision import Announce, Change, Command, Decision, Deliver, DropHold, Join, Snapshot
from forbear.core.draft import open_attempts
from forbear.core.events import Event, Lifted, Proposed, Returned, RunRestarted, TreeEvent, TurnBegan, Woke
from forbear.core.holds import place, tell
from forbear.core.phases.apart import stands_apart
from forbear.core.phases.approval import on_approved, on_awaiting_approval
from forbear.core.phases.completed import on_completed
from forbear.core.phases.fresh import on_fresh, on_needs_repair
from forbear.core.phases.running import on_running
from forbear.core.phases.stale import stale
from forbear.core.phases.unknown import on_unknown
from forbear.core.phases.waiting import on_parked, on_waiting
from forbear.core.rules import Rule
from forbear.core.start import By, Start, is_observed
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Halt,
    NeedsRepair,
    Parked,
    Run,
    Running,
    Stopped,
    Tree,
    Unknown,
    Waiting,
    known_key,
)
from forbear.core.steps import current, enter, leave, renewed, resumed, why_over
from forbear.core.values import Call, InvalidField
from forbear.core.vocabulary import Answer, Cause, End, Outcome, Recovery, Scope

_WAITS = (Waiting, Parked, AwaitingApproval, Approved)
_GOES_ON = (Running, Waiting, Parked, AwaitingApproval, Approved)


def decide(s: Snapshot, key: str, event: Event, now: datetime) -> Decision:
    """Decide about one event of the action `key`.

    Args:
        s: The state that the decision is made on.
        key: The action's key; for a proposal it equals `event.call.action`.
        event: What happened.
        now: The one reading of the store's clock for this decision.

    Returns:
        Rule, changes, commands and answer. Nothing was changed yet.
    """
    answered = event.call.run if isinstance(event, Proposed) else None
    return _tell_joined(s, _decide(s, key, event, now), answered)


def _decide(s: Snapshot, key: str, event: Event, now: datetime) -> Decision:
    if isinstance(event, Proposed):
        return _proposed(s, event, now)
    action = s.actions.get(key)
    if action is None:
        # Nothing is remembered about it any more.
        return stale(event)
    call = event.call if isinstance(event, Woke) else action.call
    start = Start(
        call=call,
        by=By.CONTROLLER,
        run=current(s.run(call.run), s.tree.turn),
        ticket=getattr(event, "ticket", ""),
        request_id=getattr(event, "request_id", ""),
    )
    if is_observed(s):
        return _observed(s, action, event, now, start)
    decision = _phase(s, action, event, now, start)
    if any(isinstance(command, Announce) for command in decision.commands):
        changed = {change.id for change in decision.changes if isinstance(change, Run)}
        ready = tuple(run for run in resumed(s) if run.id not in changed)
        decision = replace(decision, changes=(*decision.changes, *ready))
    return decision


def _observed(s: Snapshot, action: Action, event: Event, now: datetime, start: Start) -> Decision:
    """Let reality move the state of an observed call; nobody is asked, and nothing is scheduled or started for it."""
    if isinstance(event, Woke):
        return stale(event)
    decision = _phase(s, action, event, now, start)
    changes: list[Change] = []
    for change in decision.changes:
        if isinstance(change, Action) and isinstance(change.phase, AwaitingApproval):
            changes.append(replace(change, phase=Fresh()))
        elif isinstance(change, Tree):
            changes.append(replace(change, open_prompts=s.tree.open_prompts))
        else:
            changes.append(change)
    answer = Answer.EXECUTED if isinstance(event, Returned) else None
    return replace(decision, changes=tuple(changes), commands=(), answer=answer, would=decision.answer)


def _tell_joined(s: Snapshot, decision: Decision, answered: str | None) -> Decision:
    """Tell the runs that had joined a wait or a prompt what became of it, once it is over; each once.

    Args:
        s: The state before the decision.
        decision: The decision.
        answered: The run that gets this decision's own answer.
    """
    changes: list[Change] = []
    commands = list(decision.commands)
    for change in decision.changes:
        if not isinstance(change, Action):
            changes.append(change)
            continue
        joined = _still_told(s.actions.get(change.key), change, answered)
        if not isinstance(change.phase, _GOES_ON):
            told = next((c.told for c in commands if isinstance(c, Announce) and c.action == change.key), decision.told)
            if told is not None:
                commands.extend(Announce(action=change.key, told=told, call=call) for call in joined)
            joined = ()
        if joined != change.joined:
            change = replace(change, joined=joined)  # noqa: PLW2901
        changes.append(change)
    return replace(decision, changes=tuple(changes), commands=tuple(commands))


def _still_told(before: Action | None, after: Action, answered: str | None) -> tuple[Call, ...]:
    """Return the calls of other runs that are told later, the one that an action was about before among them."""
    waiting = after.joined
    if before is not None and isinstance(before.phase, _WAITS):
        waiting = (before.call, *waiting)
    if not waiting:
        return ()
    # Who is answered right now is told nothing more, unless that answer is to wait.
    apart_from = {after.call.run} if isinstance(after.phase, _GOES_ON) else {after.call.run, answered}
    first = {call.run: call for call in reversed(waiting) if call.run not in apart_from}
    return tuple(first[run] for run in dict.fromkeys(call.run for call in waiting) if run in first)


def _proposed(s: Snapshot, event: Proposed, now: datetime) -> Decision:
    run = enter(s.run(event.call.run), event.call, s.tree.turn)
    start = Start(call=event.call, by=By.PROPOSAL, run=run, ticket=event.ticket, request_id=event.request_id)
    if is_observed(s):
        would = _enforced(s, run, event, now, start)
        started = start_anyway(s, s.action(event.call), start, now)
        return _count(s, run, event, replace(started, would=would.answer, would_rule=would.rule), now)
    return _enforced(s, run, event, now, start)


def _enforced(s: Snapshot, run: Run, event: Proposed, now: datetime, start: Start) -> Decision:
    call = event.call
    known = s.known.get(known_key(call.run, call.step, call.call_id, call.fingerprint)) if call.call_id else None
    if known is not None:
        replayed = _known(s, known.action, known.attempt, completed=known.completed)
        if replayed is not None:
            return replayed
    if run.halted is not None:
        return _halted(run, event)
    call = stands_apart(s, call)
    start = replace(start, call=call)
    decision = _malformed(s, event, now) if call.malformed else _phase(s, s.action(call), event, now, start)
    return _count(s, run, event, decision, now)


def _known(s: Snapshot, key: str, attempt: int, *, completed: bool) -> Decision | None:
    """Answer a call that was seen before from the record, or with the attempt that is open."""
    action = s.actions.get(key)
    if completed:
        return Decision(
            rule=Rule.KNOWN_DELIVERED,
            changes=_replayed(s, action),
            commands=(Deliver(action=key, attempt=attempt),),
            answer=Answer.DELIVERED,
            told=action.phase.told if action is not None and isinstance(action.phase, Completed) else None,
        )
    if action is not None and any(started.attempt == attempt for started in open_attempts(action)):
        return Decision(rule=Rule.KNOWN_JOINED, commands=(Join(action=key, attempt=attempt),), answer=Answer.DELIVERED)
    return None


def _replayed(s: Snapshot, action: Action | None) -> tuple[Change, ...]:
    """Note that a restarted run was given its one answer, so that the next equal call is a new wish."""
    if action is None or not isinstance(action.phase, Completed) or action.phase.epoch == s.tree.epoch:
        return ()
    return (replace(action, phase=replace(action.phase, epoch=s.tree.epoch)),)


def _halted(run: Run, event: Proposed) -> Decision:
    halt = run.halted
    told = None if halt is None else replace(halt.told, request_id=event.request_id)
    return Decision(
        rule=Rule.RUN_HALTED,
        changes=(run,),
        answer=Answer.HALTED,
        told=told,
        clear_forced=event.call.forced,
        blocked_step=True,
        idle_step=True,
    )


def _malformed(s: Snapshot, event: Proposed, now: datetime) -> Decision:
    """Answer a call that cannot be used, and count its repetitions: the same again is refused like any same input."""
    told = tell(
        event.call.malformed,
        recovery=Recovery.REPAIR_INPUT,
        outcome=Outcome.INVALID,
        request_id=event.request_id,
        call=event.call,
    )
    told = replace(told, invalid_fields=tuple(InvalidField(name=name, rule="required") for name in event.call.missing))
    hold = place(
        event.call,
        scope=Scope.ACTION,
        # It covers nothing: what was cut off says nothing about a call with these arguments that was not.
        value=f"{event.call.action}~",
        cause=Cause.REPAIR,
        end=End.TURN,
        told=told,
        ticket=event.ticket,
        snapshot=s,
        now=now,
    )
    standing = s.holds.get(hold.key)
    if standing is not None:
        return bar(s, event.call, standing, Rule.INPUT_MALFORMED, event.request_id)
    return Decision(
        rule=Rule.INPUT_MALFORMED,
        changes=(hold,),
        answer=Answer.BLOCKED,
        told=told,
        blocked_step=True,
        idle_step=True,
    )


def _count(s: Snapshot, run: Run, event: Proposed, decision: Decision, now: datetime) -> Decision:
    """Count the decided call for its step; where nothing moves any more, the run's tool use is over."""
    # A proposal changes no other run.
    moved = next((change for change in decision.changes if isinstance(change, Run)), run)
    counted = leave(moved, event.call, blocked=decision.blocked_step, idle=decision.idle_step)
    reason = ""
    if decision.answer is Answer.HALTED:
        reason = "FORCED" if decision.clear_forced else "BUDGET"
    elif decision.answer is not Answer.EXECUTED:
        reason = why_over(counted, s.limits)
    changes = tuple(change for change in decision.changes if not isinstance(change, Run))
    if not reason:
        return replace(decision, changes=(*changes, counted))
    told = replace(tell("RUN_HALTED", request_id=event.request_id), reason=reason)
    halt = Halt(reason=reason, told=told, at=now, clear_forced=event.call.forced)
    return replace(
        decision,
        changes=(*changes, replace(counted, halted=halt)),
        answer=Answer.HALTED,
        clear_forced=event.call.forced,
    )


def _phase(s: Snapshot, action: Action, event: Event, now: datetime, start: Start) -> Decision:
    state = action.phase
    match state:
        case Fresh() | Stopped():
            return on_fresh(s, action, event, now, start)
        case Running():
            return on_running(s, action, state, event, now, start)
        case Waiting():
            return on_waiting(s, action, state, event, now, start)
        case Parked():
            return on_parked(s, action, state, event, now, start)
        case AwaitingApproval():
            return on_awaiting_approval(s, action, state, event, now, start)
        case Approved():
            return on_approved(s, action, state, event, now, start)
        case Unknown():
            return on_unknown(s, action, state, event, now, start)
        case NeedsRepair():
            return on_needs_repair(s, action, state, event, now, start)
        case Completed():
            return on_completed(s, action, state, event, now, start)


# ---- the tree -------------------------------------------------------------------------------------------------------


def decide_tree(s: Snapshot, event: TreeEvent, now: datetime) -> Decision:
    """Decide about a human message, a restart of a run, or an operator's lift."""
    match event:
        case TurnBegan():
            return _tell_joined(s, _turn(s, event), None)
        case RunRestarted():
            return Decision(
                rule=Rule.RUN_RESTARTED, changes=(replace(s.tree, epoch=s.tree.epoch + 1, restarted=s.tree.turn),)
            )
        case Lifted():
            return _lift(s, event)


def _turn(s: Snapshot, event: TurnBegan) -> Decision:
    """End what ends with a turn; open prompts are void, and their calls are told so."""
    commands: list[Command] = []
    changes: list[Change] = [
        DropHold(key=hold.key, scope=hold.scope) for hold in s.holds.values() if hold.end in (End.TURN, End.REPAIR)
    ]
    changes.extend(replace(run, halted=None) for run in s.runs.values() if run.halted is not None)
    for action in s.actions.values():
        if isinstance(action.phase, AwaitingApproval):
            told = tell("APPROVAL_CLOSED", outcome=Outcome.CANCELLED, call=action.call)
            changes.append(replace(action, phase=Fresh()))
            commands.append(Announce(action=action.key, told=told))
    tree = replace(
        s.tree,
        turn=s.tree.turn + 1,
        turn_at=event.at,
        target_writes=(),
        streaks=(),
        repairs=(),
        denials=(),
        noes_in_turn=0,
        open_prompts=(),
    )
    return Decision(rule=Rule.TURN_BEGAN, changes=(*changes, tree), commands=tuple(commands))


def _lift(s: Snapshot, event: Lifted) -> Decision:
    changes: list[Change] = []
    tree: Tree = s.tree
    runs: dict[str, Run] = {}
    changes.extend(
        # An operator took it on himself: what comes late changes nothing any more.
        replace(action, phase=Fresh(), key_spent=0)
        for action in s.actions.values()
        if isinstance(action.phase, Unknown) and action.phase.hold == event.hold
    )
    for hold in s.holds.values():
        if hold.key == event.hold:
            changes.append(DropHold(key=hold.key, scope=hold.scope))
            spent = s.actions.get(hold.action)
            if hold.cause is Cause.EXHAUSTED and spent is not None and spent.retries:
                changes.append(replace(spent, retries=0))
            if hold.cause is Cause.BUDGET and hold.run in s.runs:
                # Without this the next call would meet the same count, and the same hold.
                runs[hold.run] = renewed(runs.get(hold.run, s.runs[hold.run]), hold)
            if hold.cause is Cause.DENIAL:
                tree = replace(
                    tree, noes=0, denials=tuple(entry for entry in tree.denials if entry[0] != hold.operation)
                )
            tree = replace(
                tree,
                streaks=tuple(streak for streak in tree.streaks if streak.operation != hold.operation),
                repairs=tuple(entry for entry in tree.repairs if entry[0] != hold.value),
            )
    for run in s.runs.values():
        if run.id == event.run and run.halted is not None:
            one = runs.get(run.id, run)
            runs[run.id] = replace(one, halted=None, blocked_steps=0, idle_steps=0, blocked_in_turn=0)
    changes.extend(runs.values())
    if not changes:
        return Decision(rule=Rule.LIFTED_NOTHING)
    if tree is not s.tree:
        changes.append(tree)
    return Decision(rule=Rule.LIFTED, changes=tuple(changes))
