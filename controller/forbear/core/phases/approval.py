"""AwaitingApproval and Approved: a person is asked about exactly one call, and a yes is spent once.

What an answer changes is in answers.py, and what equal calls of several runs mean for each other in apart.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.admit import admit
from forbear.core.decision import Announce, Decision, Snapshot, WakeAt
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
from forbear.core.holds import covering, tell
from forbear.core.phases.answers import answered, with_tree, without_prompt
from forbear.core.phases.apart import done_elsewhere
from forbear.core.phases.stale import stale
from forbear.core.phases.waiting import cancel
from forbear.core.rules import Rule
from forbear.core.start import By, Start, joined_by
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Fresh,
)
from forbear.core.values import Grant
from forbear.core.vocabulary import Answer, Outcome, Recovery


def on_awaiting_approval(
    s: Snapshot, action: Action, state: AwaitingApproval, event: Event, now: datetime, start: Start
) -> Decision:
    """Ask once about one call; join equal calls; take the first answer that names ticket and fingerprint."""
    match event:
        case Proposed():
            return _proposed(s, action, state, start, now)
        case Granted() | Denied() | Revised() | Edited():
            return answered(s, action, state, event, now) if _answers(state, event, now) else stale(event)
        case Woke():
            if now < state.expires_at:
                return Decision(
                    rule=Rule.APPROVAL_WOKE_EARLY, commands=(WakeAt(action=action.key, at=state.expires_at),)
                )
            return _expired(s, action, state, start)
        case Cancelled():
            return with_tree(cancel(s, action, event, now), without_prompt(s.tree, state.ticket), s.tree)
        case Returned() | Interrupted() | Lost() | Inspected() | Reconnected():
            return stale(event)


def on_approved(s: Snapshot, action: Action, state: Approved, event: Event, now: datetime, start: Start) -> Decision:
    """Spend a grant on exactly the call that it was given for, before it expires."""
    common = done_elsewhere(s, action, state, event, now, start)
    if common is not None:
        return common
    match event:
        case Proposed():
            if now >= state.grant.expires_at:
                return _as_fresh(s, action, start, now)
            if start.call.fingerprint != state.fingerprint or start.call.run != action.call.run:
                return _other_call(state, start)
            return admit(s, action, replace(start, by=By.CONTROLLER, grant=state.grant), now)
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
            return admit(s, action, replace(start, grant=state.grant), now)
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


def _answers(state: AwaitingApproval, event: Granted | Denied | Revised | Edited, now: datetime) -> bool:
    """Return whether an answer is about this prompt, about exactly this call, and in time."""
    return (
        event.ticket == state.ticket
        and event.fingerprint == state.fingerprint
        and now < state.expires_at
        and not state.by_framework
    )


def _proposed(s: Snapshot, action: Action, state: AwaitingApproval, start: Start, now: datetime) -> Decision:
    if state.by_framework and start.call.fingerprint == state.fingerprint:
        grant = Grant(ticket=state.ticket, rule=state.rule, expires_at=state.expires_at, policy=s.policy.digest)
        return admit(s, action, replace(start, grant=grant), now)
    if now >= state.expires_at:
        tree = without_prompt(s.tree, state.ticket)
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
    if any(isinstance(change, Action) for change in decision.changes):
        return replace(decision, commands=commands)
    return replace(decision, changes=(fresh, *decision.changes), commands=commands)


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


def _expired(s: Snapshot, action: Action, state: AwaitingApproval, start: Start) -> Decision:
    told = tell("APPROVAL_EXPIRED", outcome=Outcome.CANCELLED, request_id=start.request_id, call=action.call)
    decision = Decision(
        rule=Rule.APPROVAL_EXPIRED,
        changes=(replace(action, phase=Fresh()),),
        commands=(Announce(action=action.key, told=told),),
        told=told,
        ticket=state.ticket,
    )
    return with_tree(decision, without_prompt(s.tree, state.ticket), s.tree)
