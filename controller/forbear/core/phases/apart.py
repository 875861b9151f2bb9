"""Equal calls of several runs that need a yes each: which of them is asked about on its own, and what the others' doing means.

A grant belongs to the run that asked first; neither it nor the execution on it answers the others. What a person's answer
changes is in answers.py, when a yes is spent in approval.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.decision import Announce, AskHuman, Change, Command, Decision, Deliver, Snapshot, WakeAt
from forbear.core.events import Event, Proposed, Woke
from forbear.core.holds import tell
from forbear.core.identity import apart_key
from forbear.core.rules import Rule
from forbear.core.start import Start, is_declared_once, may_run_again
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Parked,
    Running,
    Tree,
    Unknown,
    Waiting,
)
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Executed, Gate

_OPEN = (Running, Waiting, Parked, AwaitingApproval, Approved, Unknown)


def apart(call: Call) -> Call:
    """Return a call that is asked about on its own, apart from equal calls of other runs."""
    key = apart_key(call.common, call.run, call.step, call.call_id)
    return replace(call, action=key, base=call.common)


def stands_apart(s: Snapshot, call: Call) -> Call:
    """Return a call that needs a yes of its own, where an equal call of another run has the yes that was given."""
    if call.verdict.gate is not Gate.ASK:
        return call
    standing = s.action(call)
    phase = standing.phase
    was_done = isinstance(phase, Completed) and is_declared_once(s) and phase.turn == s.tree.turn
    for action in s.actions.values():
        if action.call.base != call.action or action.call.run != call.run or not isinstance(action.phase, _OPEN):
            continue
        if was_done:
            # It was done in this turn: every run is told so, whatever it was asked about.
            return call
        return replace(call, action=action.key, base=call.action)
    if isinstance(phase, Approved) and standing.call.run != call.run:
        return apart(call)
    if isinstance(phase, Running) and all(o.run != call.run and o.grant is not None for o in phase.open):
        return apart(call)
    return call


def ask_apart(
    s: Snapshot, action: Action, state: AwaitingApproval, tree: Tree, now: datetime
) -> tuple[tuple[Change, ...], tuple[Command, ...], Tree]:
    """Ask on their own about the calls of other runs that had joined a prompt which was answered yes for one run."""
    changes: list[Change] = []
    commands: list[Command] = []
    for number, call in enumerate(action.joined, start=1):
        own = apart(call)
        key = own.action
        standing = s.action(own)
        if isinstance(standing.phase, _OPEN) or len(tree.open_prompts) >= s.policy.limits.max_open_prompts:
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


def done_elsewhere(
    s: Snapshot, action: Action, state: Approved, event: Event, now: datetime, start: Start
) -> Decision | None:
    """Decide about a yes where the equal call of another run, with a yes of its own, is in flight or was done.

    It does not matter which of them was asked about first. None = neither.
    """
    if not isinstance(event, (Proposed, Woke)) or now >= state.grant.expires_at:
        return None
    others = [other for other in s.actions.values() if other.call.common == action.call.common]
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
