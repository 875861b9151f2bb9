"""Refused and wait: what a result forbids, for how long, and for whom. Starts are decided in admit.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.decision import (
    Decision,
)
from forbear.core.draft import Draft, open_attempts
from forbear.core.holds import narrow, not_kept, place, tell
from forbear.core.rules import Rule
from forbear.core.start import may_run_again
from forbear.core.states import (
    Claim,
    Fresh,
    Hold,
    Stopped,
    Streak,
    Waiting,
    step_key,
)
from forbear.core.timing import retry_at
from forbear.core.values import Envelope
from forbear.core.vocabulary import (
    Answer,
    Cause,
    Effect,
    End,
    Executed,
    Recovery,
    Scope,
)


def stop(
    draft: Draft,
    told: Envelope,
    rule: Rule,
    ticket: str,
    *,
    ends_at: datetime | None = None,
    cause: Cause = Cause.EXHAUSTED,
) -> Decision:
    """Stop the action until a new turn."""
    hold = place(
        draft.call,
        scope=Scope.ACTION,
        value=draft.call.common,
        cause=cause,
        end=End.TURN,
        told=told,
        ticket=ticket,
        snapshot=draft.s,
        now=draft.now,
        step=draft.started.step,
    )
    draft.put(replace(hold, ends_at=ends_at, run=draft.started.run))
    stopped = Stopped(code=told.code, told=told, turn=draft.s.tree.turn, hold=hold.key)
    return draft.decide(rule, stopped, told=told, answer=Answer.STOPPED, ticket=hold.ticket)


def refused(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    """Hold what was refused: the constraint's declared scope, else the target, else the action."""
    s, call = draft.s, draft.call
    scope = _refusal_scope(draft, envelope)
    scope, value = narrow(call, scope, s.tree.principal)
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.REFUSAL,
        end=End.PROBE,
        told=envelope,
        ticket=ticket,
        snapshot=s,
        now=draft.now,
    )
    # A refusal that the probe found again closes at once for this turn.
    hold = replace(
        hold,
        ends_at=envelope.reset_at,
        exempt=envelope.alternative_tools if envelope.recovery is Recovery.USE_ALTERNATIVE else (),
        claim=_open_probe(draft, hold.key),
        probed=s.tree.turn,
    )
    draft.put(hold)
    exhausted = count_refusal(draft, envelope, ticket)
    stopped = Stopped(code=envelope.code, told=envelope, turn=s.tree.turn, hold=hold.key)
    rule = Rule.RETURNED_REFUSALS_EXHAUSTED if exhausted else Rule.RETURNED_REFUSED
    return draft.decide(rule, stopped, told=envelope, answer=Answer.EXECUTED, ticket=hold.ticket)


def _open_probe(draft: Draft, key: str) -> Claim | None:
    """A call that started before a probe may be refused after it: the probe still answers for the hold."""
    standing = draft.hold(key)
    return None if standing is None else standing.claim


def _refusal_scope(draft: Draft, envelope: Envelope) -> Scope:
    call = draft.call
    declared = draft.s.policy.constraints.get(envelope.constraint or "")
    if declared is not None:
        return declared
    if envelope.code == "VAULT_LOCKED" and _may_share(draft, envelope):
        return Scope.PRINCIPAL
    return Scope.ACTION if call.effect is Effect.UNDECLARED else Scope.TARGET


def _may_share(draft: Draft, envelope: Envelope) -> bool:
    """Only an owned tool, or a code or status that the policy lists, closes something for other runs."""
    policy = draft.s.policy
    if policy.trust.value == "owned":
        return True
    return envelope.code in policy.shared_codes or str(envelope.http_status or "") in policy.shared_codes


def count_refusal(draft: Draft, envelope: Envelope, ticket: str, *, wait: bool = False) -> bool:
    """Count a refusal in a row; at `max_refusals` the operation is over for this turn. Returns whether it is."""
    s, call, tree = draft.s, draft.call, draft.tree
    here = step_key(draft.started.run, draft.started.step)
    standing = next((streak for streak in tree.streaks if streak.operation == call.operation), None)
    if standing is None or standing.code != envelope.code:
        standing = Streak(operation=call.operation, code=envelope.code, count=0, step="", action=call.action)
    count = standing.count if wait or standing.step == here else standing.count + 1
    waits = standing.waits
    if wait and (waits == 0 or standing.action != call.action):
        waits += 1
    streak = replace(standing, count=count, step=standing.step if wait else here, action=call.action, waits=waits)
    others = tuple(entry for entry in tree.streaks if entry.operation != call.operation)
    draft.tree = replace(tree, streaks=(*others, streak))
    limit = s.policy.limits.max_refusals
    if limit is None:
        limit = 3 if call.effect is Effect.WRITE else 8
    if wait or count < limit:
        return False
    told = tell("REFUSALS_EXHAUSTED", request_id=envelope.request_id, call=call)
    draft.put(
        place(
            call,
            scope=Scope.OPERATION,
            value=call.operation,
            cause=Cause.EXHAUSTED,
            end=End.TURN,
            told=told,
            ticket=f"{ticket}-x",
            snapshot=s,
            now=draft.now,
        )
    )
    return True


def wait(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    """Schedule the one retry at the named time, or stop where there is none, none left, or it is too far away."""
    s, action, call, now = draft.s, draft.action, draft.call, draft.now
    limits = s.policy.limits
    if envelope.reset_at is None and limits.on_unknown_reset == "stop":
        told = replace(envelope, code="NO_RESET_GIVEN", recovery=Recovery.DO_NOT_RETRY, temporary=False)
        return stop(draft, told, Rule.RETURNED_WAIT_NO_RESET, ticket)
    reset = envelope.reset_at if envelope.reset_at is not None else now + limits.default_wait
    at = retry_at(reset, now, action.key)
    shared = _close_until(draft, envelope, at, ticket)
    if shared is not None and shared.ends_at is not None:
        # Another answer named a later end for what this call shares with others.
        at = max(at, shared.ends_at)
    if at - now > limits.max_wait:
        _close_action(draft, shared, envelope, at, ticket)
        told = replace(envelope, code="WAIT_EXCEEDS_LIMIT", recovery=Recovery.DO_NOT_RETRY, reset_at=reset)
        count_refusal(draft, envelope, ticket)
        return stop(draft, told, Rule.RETURNED_WAIT_TOO_FAR, ticket, ends_at=at)
    allowed = limits.max_retries
    if allowed is None:
        allowed = 2 if envelope.temporary and call.effect is Effect.READ and may_run_again(s, call) else 1
    if action.retries >= allowed:
        _close_action(draft, shared, envelope, at, ticket)
        told = replace(envelope, code="RETRY_EXHAUSTED", recovery=Recovery.DO_NOT_RETRY, reset_at=envelope.reset_at)
        count_refusal(draft, envelope, ticket)
        return stop(draft, told, Rule.RETURNED_RETRY_EXHAUSTED, ticket)
    if len(open_attempts(action)) > 1:
        # The same call is still under way: there is no one phase to wait in, and the next start is the retry.
        _close_action(draft, shared, envelope, at, ticket)
        draft.action = replace(action, retries=action.retries + 1)
        return draft.decide(Rule.RETURNED_WAIT_NO_SLOT, Fresh(), told=not_kept(envelope, at), answer=Answer.PENDING)
    if shared is not None and shared.scope is Scope.OPERATION and call.effect is not Effect.READ:
        # The second different call that one code refused keeps no retry of its own: the next start is its retry.
        draft.action = replace(action, retries=action.retries + 1)
        return draft.decide(Rule.RETURNED_WAIT_NO_SLOT, Fresh(), told=not_kept(envelope, at), answer=Answer.PENDING)
    if shared is not None and call.action not in shared.parked:
        draft.put(replace(shared, parked=(*shared.parked, call.action)))
    waiting = Waiting(
        ticket=ticket,
        retry_at=at,
        since_at=now,
        turn=s.tree.turn,
        told=envelope,
        hold=None if shared is None else shared.key,
        # A yes is spent by an execution that may have had an effect.
        grant=draft.started.grant if envelope.executed is Executed.NO else None,
        not_accepted=envelope.not_accepted,
    )
    return draft.decide(Rule.RETURNED_WAIT, waiting, told=envelope, answer=Answer.PENDING, ticket=ticket, wake_at=at)


def _close_until(draft: Draft, envelope: Envelope, at: datetime, ticket: str) -> Hold | None:
    """Close the quota, else the target, else (second different call) the operation; an end moves later only."""
    call = draft.call
    count_refusal(draft, envelope, ticket, wait=True)
    streak = next(entry for entry in draft.tree.streaks if entry.operation == call.operation)
    scope = Scope.ACTION
    lonely = envelope.temporary and envelope.reset_at is None
    if not lonely:
        if call.quota is not None and _may_share(draft, envelope):
            scope = Scope.QUOTA
        elif call.target is not None and call.effect is not Effect.UNDECLARED:
            scope = Scope.TARGET
    if scope is Scope.ACTION and streak.waits >= 2 and call.effect is not Effect.UNDECLARED:
        scope = Scope.OPERATION
    if scope is Scope.ACTION:
        return None
    return _put_time(draft, scope, envelope, at, ticket)


def _close_action(draft: Draft, shared: Hold | None, envelope: Envelope, at: datetime, ticket: str) -> None:
    """Close the exact call until its time where no hold and no phase remembers it: a new turn does not start it early."""
    if shared is None:
        _put_time(draft, Scope.ACTION, envelope, at, ticket)


def _put_time(draft: Draft, scope: Scope, envelope: Envelope, at: datetime, ticket: str) -> Hold:
    s, call = draft.s, draft.call
    scope, value = narrow(call, scope, s.tree.principal)
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.TIME,
        end=End.TIME,
        told=envelope,
        ticket=ticket,
        snapshot=s,
        now=draft.now,
    )
    standing = draft.hold(hold.key)
    ends_at = at if standing is None or standing.ends_at is None else max(standing.ends_at, at)
    claim = None if standing is None else standing.claim
    return draft.put(replace(hold, ends_at=ends_at, claim=claim))
