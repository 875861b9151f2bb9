"""What an answered attempt means. Every path ends the claims and probes of the attempt.

Completed results live here; refusals and waits in refuse.py, the other classes in repair.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import (
    Decision,
    PutKnown,
    Snapshot,
)
from forbear.core.draft import (
    Draft,
    answered_by,
    doubt_key,
    draft_of,
    end_doubt,
    open_attempts,
    release,
    repeats_unknown,
    succeeded,
)
from forbear.core.events import Returned
from forbear.core.holds import place, tell
from forbear.core.policy import MAX_SAME_RESULTS, MAX_SAME_RESULTS_WRITE
from forbear.core.refuse import refused, stop, wait
from forbear.core.repair import asks, repair, unknown
from forbear.core.rules import Rule
from forbear.core.start import may_run_again
from forbear.core.states import (
    Action,
    Completed,
    Fresh,
    Known,
    Parked,
    Started,
    hold_key,
    known_key,
    precondition_key,
    step_key,
)
from forbear.core.steps import resumed
from forbear.core.timing import retry_at
from forbear.core.values import Envelope
from forbear.core.vocabulary import (
    COMPLETED,
    Answer,
    Cause,
    Effect,
    End,
    Executed,
    Outcome,
    Recovery,
    Scope,
)

SAME_RESULT_GAP = timedelta(seconds=1)


def settle(s: Snapshot, action: Action, started: Started, event: Returned, now: datetime) -> Decision:
    """Decide what the answer of an open attempt means."""
    draft = draft_of(s, action, started, now)
    draft.changes.extend(resumed(s))
    recovery = _enforced(draft, event.envelope)
    _release(draft, recovery)
    if recovery is None:
        return _completed(draft, event)
    match recovery:
        case Recovery.DO_NOT_RETRY | Recovery.USE_ALTERNATIVE:
            return refused(draft, event.envelope, event.ticket)
        case Recovery.RETRY_AFTER:
            return wait(draft, event.envelope, event.ticket)
        case Recovery.REPAIR_INPUT:
            return repair(draft, event.envelope, event.ticket)
        case Recovery.REQUEST_APPROVAL:
            return asks(draft, event.envelope, event.ticket)
        case Recovery.INSPECT_OUTCOME:
            return unknown(draft, event.envelope, event.ticket, Rule.RETURNED_UNKNOWN)


def _enforced(draft: Draft, envelope: Envelope) -> Recovery | None:
    """Return the class that is enforced: a result never makes a call retryable that may have had an effect."""
    recovery = envelope.recovery
    if recovery is None:
        if envelope.outcome in COMPLETED or envelope.outcome is Outcome.PENDING:
            return None
        # A failure without a class: the safe reading.
        recovery = Recovery.DO_NOT_RETRY
    elif envelope.outcome in COMPLETED and envelope.outcome is not Outcome.PARTIAL:
        return None
    if draft.call.effect is Effect.READ:
        uncertain = recovery is Recovery.INSPECT_OUTCOME or envelope.effects_before_failure
        return Recovery.DO_NOT_RETRY if uncertain else recovery
    if repeats_unknown(draft.action):
        # Whatever the repetition was told, only its success says what became of the first attempt.
        return Recovery.INSPECT_OUTCOME
    may_have_happened = envelope.executed is not Executed.NO and not may_run_again(draft.s, draft.call)
    return Recovery.INSPECT_OUTCOME if envelope.effects_before_failure or may_have_happened else recovery


def _release(draft: Draft, recovery: Recovery | None) -> None:
    """End or hand back the holds that the attempt claimed or probed."""
    release(draft, ended=recovery is not Recovery.RETRY_AFTER)
    for hold in answered_by(draft, draft.started.probes):
        if recovery is None:
            draft.drop(hold.key)
        else:
            # Where the refusal was not answered either way, the turn keeps its probe.
            answered = recovery in (Recovery.DO_NOT_RETRY, Recovery.USE_ALTERNATIVE)
            draft.put(replace(hold, claim=None, probed=hold.probed if answered else 0))


def _completed(draft: Draft, event: Returned) -> Decision:
    s, call, now = draft.s, draft.call, draft.now
    envelope = event.envelope
    is_write = call.effect is not Effect.READ
    if envelope.outcome is Outcome.EMPTY and s.policy.empty_means == "unknown":
        return _empty_look(draft, event)
    before = draft.tree.writes
    draft.tree = succeeded(draft.tree, call, is_write=is_write)
    _meet_preconditions(draft)
    own = draft.hold(hold_key(Scope.ACTION, call.action, Cause.TIME))
    if own is not None and own.claim is None and own.ends_at is not None and now >= own.ends_at:
        # The late answer of its retry ends what the action waited for.
        draft.drop(own.key)
    action = _count_result(draft, event, before)
    if repeats_unknown(draft.action):
        for ended in end_doubt(s, draft.action, doubt_key(call)):
            draft.drop(ended.key)
    draft.action = replace(action, key_spent=0, replays=0)
    completed = Completed(
        attempt=draft.started.attempt,
        outcome=envelope.outcome,
        turn=s.tree.turn,
        started_at=draft.started.started_at,
        request_id=envelope.request_id,
        writes=draft.tree.writes,
        step=step_key(draft.started.run, draft.started.step),
        epoch=s.tree.epoch,
        finished=event.finished,
        kept=event.kept,
        told=envelope,
    )
    if draft.started.call_id and (is_write or event.kept):
        key = known_key(draft.started.run, draft.started.step, draft.started.call_id, call.fingerprint)
        known = Known(action=call.action, attempt=draft.started.attempt, completed=True)
        draft.changes.append(PutKnown(key=key, known=known))
    rule = Rule.RETURNED_COMPLETED
    limit = s.policy.limits.max_same_results
    if limit is None:
        limit = MAX_SAME_RESULTS_WRITE if call.effect is Effect.WRITE else MAX_SAME_RESULTS
    if draft.action.same_results >= limit:
        draft.put(
            place(
                call,
                scope=Scope.ACTION,
                value=call.action,
                cause=Cause.EXHAUSTED,
                end=End.TURN,
                told=tell("NO_PROGRESS", request_id=envelope.request_id, call=call),
                ticket=event.ticket,
                snapshot=s,
                now=now,
            )
        )
        rule = Rule.RETURNED_NO_PROGRESS
    return draft.decide(rule, completed, told=envelope, answer=Answer.EXECUTED)


def _meet_preconditions(draft: Draft) -> None:
    done = precondition_key(draft.call.tool, draft.call.arguments)
    for hold in draft.s.holds.values():
        if hold.precondition == done and hold.run == draft.started.run:
            draft.drop(hold.key)


def _count_result(draft: Draft, event: Returned, writes_before: int) -> Action:
    action, now = draft.action, draft.now
    if not event.digest:
        return action
    equal = (
        action.last_result == event.digest
        and action.last_writes == writes_before
        and action.last_result_at is not None
        and now - action.last_result_at < SAME_RESULT_GAP
    )
    return replace(
        action,
        same_results=action.same_results + 1 if equal else 1,
        last_result=event.digest,
        last_result_at=now,
        last_writes=draft.tree.writes,
    )


def _empty_look(draft: Draft, event: Returned) -> Decision:
    """An empty answer may be a throttle: the controller looks again, then says that it could not search."""
    s, action, now = draft.s, draft.action, draft.now
    retry = s.policy.empty_retry
    if action.empty_looks < retry.looks:
        run_at = retry_at(now + retry.delay, now, action.key)
        told = tell(
            "EMPTY_UNCONFIRMED",
            recovery=Recovery.RETRY_AFTER,
            outcome=Outcome.PENDING,
            request_id=event.envelope.request_id,
            reset_at=now + retry.delay,
            call=draft.call,
        )
        draft.action = replace(action, empty_looks=action.empty_looks + 1)
        if len(open_attempts(action)) > 1:
            # Another look is under way: it is the second one.
            return draft.decide(Rule.RETURNED_EMPTY_LOOK, Fresh(), told=told, answer=Answer.PENDING)
        parked = Parked(ticket=event.ticket, run_at=run_at, since_at=now, turn=s.tree.turn, told=told)
        return draft.decide(
            Rule.RETURNED_EMPTY_LOOK, parked, told=told, answer=Answer.PENDING, ticket=event.ticket, wake_at=run_at
        )
    told = tell("COULD_NOT_SEARCH", outcome=Outcome.FAILED, request_id=event.envelope.request_id, call=draft.call)
    return stop(draft, told, Rule.RETURNED_EMPTY_SPENT, event.ticket)
