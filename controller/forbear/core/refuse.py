"""Refused and wait: what a result forbids, for how long, and for whom. Starts are decided in admit.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import (
    Decision,
)
from forbear.core.draft import Draft, open_attempts
from forbear.core.holds import SHARED, narrow, not_kept, place, tell, without
from forbear.core.policy import MAX_REFUSALS, MAX_REFUSALS_WRITE, MAX_RETRIES, MAX_RETRIES_TEMPORARY_READ
from forbear.core.rules import Rule
from forbear.core.start import is_observed, may_run_again
from forbear.core.states import (
    FRAMEWORK,
    Claim,
    Fresh,
    Hold,
    Stopped,
    Streak,
    Waiting,
    action_of,
    place_key,
    step_key,
)
from forbear.core.timing import fraction, not_before, retry_at
from forbear.core.values import Envelope, Grant
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
        # One code's end and exemptions say nothing about another's.
        mark=envelope.code,
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
    named = envelope.constraint
    declared = None if named is None else draft.s.policy.constraints.get(named)
    if declared is not None and (declared not in SHARED or _may_share(draft, envelope)):
        return declared
    if envelope.code == "VAULT_LOCKED" and _may_share(draft, envelope):
        return Scope.PRINCIPAL
    return Scope.ACTION if call.effect is Effect.UNDECLARED else Scope.TARGET


def _may_share(draft: Draft, envelope: Envelope) -> bool:
    """Only an owned tool, or a code or status that the policy lists, closes something for other runs."""
    policy = draft.s.policy
    if policy.trust.value == "owned":
        return True
    return envelope.code in policy.shared_codes or str(envelope.http_status) in policy.shared_codes


def count_refusal(draft: Draft, envelope: Envelope, ticket: str, *, wait: bool = False) -> bool:
    """Count a refusal in a row; at `max_refusals` the operation is over for this turn. Returns whether it is."""
    s, call, tree = draft.s, draft.call, draft.tree
    if is_observed(s):
        return False
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
        limit = MAX_REFUSALS_WRITE if call.effect is Effect.WRITE else MAX_REFUSALS
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
        told = _as_stop(envelope, "NO_RESET_GIVEN", None)
        return stop(draft, told, Rule.RETURNED_WAIT_NO_RESET, ticket)
    reset = envelope.reset_at if envelope.reset_at is not None else now + limits.default_wait
    at = retry_at(reset, now, action.key)
    hold = _close_until(draft, envelope, reset, at, ticket)
    # Another answer may have named an end that is good for this one as well: then after those who wait for it already.
    at = max(at, _after_others(hold, s.tree.root, action.key))
    if at - now > limits.max_wait:
        told = _as_stop(envelope, "WAIT_EXCEEDS_LIMIT", reset)
        count_refusal(draft, envelope, ticket)
        return stop(draft, told, Rule.RETURNED_WAIT_TOO_FAR, ticket, ends_at=at)
    allowed = limits.max_retries
    if allowed is None:
        is_temporary_read = envelope.temporary and call.effect is Effect.READ and may_run_again(s, call)
        allowed = MAX_RETRIES_TEMPORARY_READ if is_temporary_read else MAX_RETRIES
    if envelope.executed is not Executed.NO and not may_run_again(s, call):
        # It may have run, and the author said that a second time does harm (a read that bills).
        allowed = 0
    if action.retries >= allowed:
        told = _as_stop(envelope, "RETRY_EXHAUSTED", envelope.reset_at)
        count_refusal(draft, envelope, ticket)
        return stop(draft, told, Rule.RETURNED_RETRY_EXHAUSTED, ticket)
    if len(open_attempts(action)) > 1:
        # The same call is still under way: there is no phase to wait in, and the next start is the retry.
        return draft.decide(Rule.RETURNED_WAIT_NO_SLOT, Fresh(), told=not_kept(envelope, at), answer=Answer.PENDING)
    if hold.scope is Scope.OPERATION and call.effect is not Effect.READ:
        # The second different call that one code refused keeps no retry of its own: its next start is the retry.
        return draft.decide(Rule.RETURNED_WAIT_NO_SLOT, Fresh(), told=not_kept(envelope, at), answer=Answer.PENDING)
    draft.put(replace(hold, parked=(*hold.parked, place_key(hold, s.tree.root, call.action))))
    waiting = Waiting(
        ticket=ticket,
        retry_at=at,
        since_at=now,
        turn=s.tree.turn,
        told=envelope,
        hold=hold.key,
        grant=_given_back(draft.started.grant, envelope),
        not_accepted=envelope.not_accepted,
    )
    return draft.decide(Rule.RETURNED_WAIT, waiting, told=envelope, answer=Answer.PENDING, ticket=ticket, wake_at=at)


def _given_back(grant: Grant | None, envelope: Envelope) -> Grant | None:
    """A yes is spent by an execution that may have had an effect; the framework's own answer was about one start."""
    if grant is None or grant.rule == FRAMEWORK or envelope.executed is not Executed.NO:
        return None
    return grant


def _as_stop(envelope: Envelope, code: str, reset: datetime | None) -> Envelope:
    """Return what a wait became when it ended in a stop; the text of the old code goes with it."""
    return replace(envelope, code=code, recovery=Recovery.DO_NOT_RETRY, reset_at=reset, safe_message=None)


def _after_others(hold: Hold, root: str, key: str) -> datetime:
    """Return when a call can come that is the last of those who wait for a hold."""
    assert hold.ends_at is not None
    place = len(without(hold, root, key))
    return hold.ends_at + timedelta(seconds=0.2 * place + 0.1 * fraction(key)) if place else hold.ends_at


def _close_until(draft: Draft, envelope: Envelope, reset: datetime, at: datetime, ticket: str) -> Hold:
    """Close the quota, else the target, else the action (second different call: the operation); an end moves later only."""
    call = draft.call
    count_refusal(draft, envelope, ticket, wait=True)
    is_second = any(entry.operation == call.operation and entry.waits >= 2 for entry in draft.tree.streaks)
    scope = Scope.ACTION
    lonely = envelope.temporary and envelope.reset_at is None
    if not lonely:
        if call.quota is not None and _may_share(draft, envelope):
            scope = Scope.QUOTA
        elif call.target is not None and call.effect is not Effect.UNDECLARED:
            scope = Scope.TARGET
    if scope is Scope.ACTION and is_second and call.effect is not Effect.UNDECLARED:
        scope = Scope.OPERATION
    return _put_time(draft, scope, envelope, reset, at, ticket)


def _put_time(draft: Draft, scope: Scope, envelope: Envelope, reset: datetime, at: datetime, ticket: str) -> Hold:
    """Return the hold with its end: a later reset moves it, another call's jitter for the same reset does not."""
    s, call, now = draft.s, draft.call, draft.now
    scope, value = narrow(call, scope, s.tree.principal)
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.TIME,
        end=End.TIME,
        told=envelope,
        ticket=f"{ticket}-h",
        snapshot=s,
        now=now,
    )
    standing = draft.hold(hold.key)
    claim = None if standing is None else standing.claim
    ends_at = None if standing is None else standing.ends_at
    if standing is None and scope is Scope.OPERATION:
        # Whoever of the operation waits already, alone so far, goes first, and at its own time.
        early = _waiting_alone(draft)
        hold = replace(hold, parked=tuple(action for _, action in early))
        ends_at = early[0][0] if early else None
    if ends_at is None or ends_at < not_before(reset, now):
        # Whoever was there first stays first: the end is the one that its own retry would have.
        first = next(iter(without(hold, s.tree.root, call.action)), None)
        ends_at = at if first is None else retry_at(reset, now, action_of(first))
    return draft.put(replace(hold, ends_at=ends_at, claim=claim))


def _waiting_alone(draft: Draft) -> list[tuple[datetime, str]]:
    """Return the other calls of the operation that wait for their retry, the first one first."""
    most = draft.s.policy.limits.max_parked
    waiting = [
        (other.phase.retry_at, other.key)
        for other in draft.s.actions.values()
        if isinstance(other.phase, Waiting) and other.call.operation == draft.call.operation
    ]
    return sorted(waiting)[: most - 1]
