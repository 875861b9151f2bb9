"""Steps 5 to 9 of one decision: holds, budgets, the author's rule, and the start. Every start passes here.

Who starts (a proposal, a timer, a grant) differs only in what it may pass and in what becomes of the call when it may
not run: a proposal is answered, a timer's or a person's start is parked or stopped (bar.py).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.bar import bar, leave_queues, park, stop_waiting, wait_for
from forbear.core.decision import (
    AskHuman,
    Change,
    Command,
    Decision,
    Execute,
    PutKnown,
    Snapshot,
    WakeAt,
)
from forbear.core.holds import Cover, covering, narrow, place, tell, without
from forbear.core.rules import Rule
from forbear.core.start import By, Start, current_counters
from forbear.core.states import (
    Action,
    AwaitingApproval,
    Claim,
    Hold,
    Known,
    Running,
    Started,
    Stopped,
    known_key,
)
from forbear.core.steps import count_start, starts_of
from forbear.core.values import Call
from forbear.core.vocabulary import (
    Answer,
    Cause,
    End,
    Gate,
    Outcome,
    Recovery,
    Scope,
)

HELD: dict[Cause, Rule] = {
    Cause.DENIAL: Rule.HELD_DENIAL,
    Cause.UNKNOWN: Rule.HELD_UNKNOWN,
    Cause.REFUSAL: Rule.HELD_REFUSAL,
    Cause.EXHAUSTED: Rule.HELD_EXHAUSTED,
    Cause.REPAIR: Rule.HELD_REPAIR,
    Cause.BUDGET: Rule.HELD_BUDGET,
    Cause.TIME: Rule.HELD_TIME_TOO_FAR,
}


def admit(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Decide whether a call runs now: by holds, then budgets, then the author's rule."""
    cover = covering(s, start.call, now, passes=start.passes)
    if cover.barring:
        return _bar(s, action, start, cover.barring[0], now)
    if cover.waiting:
        return wait_for(s, action, start, cover.waiting[0], now)
    spent = _spent_budget(s, start)
    if spent is not None:
        return _place_and_bar(s, action, start, spent, Rule.BUDGET_SPENT, now)
    grant = start.grant
    if grant is not None and now < grant.expires_at and grant.policy == s.policy.digest:
        return _execute(s, action, start, cover, now)
    start = replace(start, grant=None)
    match start.call.verdict.gate:
        case Gate.ALLOW:
            return _execute(s, action, start, cover, now)
        case Gate.DENY:
            return _deny(s, action, start, now)
        case Gate.ASK:
            return ask(s, action, start, now, rule=start.call.verdict.rule)
        case Gate.UNAVAILABLE:
            return _check_later(s, action, start, now)


def _bar(s: Snapshot, action: Action, start: Start, hold: Hold, now: datetime) -> Decision:
    """Answer a call that a hold covers; the second blocked step under it is a stop."""
    if start.by is not By.PROPOSAL:
        return stop_waiting(s, action, start, hold)
    return bar(s, start.call, hold, HELD[hold.cause], start.request_id)


def _spent_budget(s: Snapshot, start: Start) -> tuple[Scope, str, End] | None:
    run, call = start.run, start.call
    whole, own = s.limits, s.policy.limits
    if whole.max_calls_per_run is not None and run.calls_in_run >= whole.max_calls_per_run:
        return Scope.RUN, run.id, End.RUN
    if whole.max_calls_per_turn is not None and run.calls_in_turn >= whole.max_calls_per_turn:
        return Scope.TURN, run.id, End.TURN
    in_turn, in_run = starts_of(run, call.operation)
    if own.max_calls_per_run is not None and in_run >= own.max_calls_per_run:
        return Scope.OPERATION, call.operation, End.RUN
    if own.max_calls_per_turn is not None and in_turn >= own.max_calls_per_turn:
        return Scope.OPERATION, call.operation, End.TURN
    return None


def _place_and_bar(
    s: Snapshot, action: Action, start: Start, where: tuple[Scope, str, End], rule: Rule, now: datetime
) -> Decision:
    scope, value, end = where
    told = tell("BUDGET_EXHAUSTED", request_id=start.request_id, call=start.call)
    hold = place(
        start.call,
        scope=scope,
        value=value,
        cause=Cause.BUDGET,
        end=end,
        told=told,
        ticket=start.ticket,
        snapshot=s,
        now=now,
        # Nothing was told before this step: the refusal begins with it, and it counts.
        step="",
    )
    if start.by is not By.PROPOSAL:
        stopped = stop_waiting(s, action, start, hold)
        return replace(stopped, rule=rule, changes=(hold, *stopped.changes))
    return bar(s, start.call, hold, rule, start.request_id)


def _deny(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    scope, value = narrow(start.call, Scope.RULE, s.tree.principal)
    told = tell("POLICY_DENIED", outcome=Outcome.DENIED, request_id=start.request_id, call=start.call)
    hold = place(
        start.call,
        scope=scope,
        value=value,
        cause=Cause.DENIAL,
        end=End.RUN,
        told=told,
        ticket=start.ticket,
        snapshot=s,
        now=now,
        step="",
    )
    hold = replace(hold, gated_only=True)
    stopped = Stopped(code=told.code, told=told, turn=s.tree.turn, hold=hold.key)
    changed = replace(action, call=start.call, phase=stopped)
    if start.by is not By.PROPOSAL:
        waited = stop_waiting(s, action, start, hold)
        return replace(waited, rule=Rule.POLICY_DENIED, changes=(hold, *waited.changes))
    return bar(s, start.call, hold, Rule.POLICY_DENIED, start.request_id, (changed,))


def ask(
    s: Snapshot,
    action: Action,
    start: Start,
    now: datetime,
    *,
    rule: str,
    after_attempt: int = 0,
    code: str = "APPROVAL_REQUIRED",
) -> Decision:
    """Ask a person about exactly this call; prompts are bounded, and nobody is asked where nobody can answer."""
    limits = s.policy.limits
    if not s.has_approver:
        return _no_prompt(s, action, start, now, "NO_APPROVER", Rule.APPROVAL_NO_APPROVER)
    # Noes count since the last yes; a human message opens one more question, not all of them.
    if s.tree.noes >= limits.max_prompts and s.tree.noes_in_turn > 0:
        return _no_prompt(s, action, start, now, "PROMPTS_EXHAUSTED", Rule.APPROVAL_PROMPTS_SPENT)
    if len(s.tree.open_prompts) >= limits.max_open_prompts:
        later = now + limits.default_wait
        return park(s, action, start, later, now, code, Rule.APPROVAL_PROMPTS_FULL)
    told = tell(
        code,
        recovery=Recovery.REQUEST_APPROVAL,
        outcome=Outcome.PENDING,
        request_id=start.request_id,
        call=start.call,
    )
    expires_at = now + limits.approval_ttl
    phase = AwaitingApproval(
        ticket=start.ticket,
        rule=rule,
        fingerprint=start.call.fingerprint,
        run=start.call.run,
        asked_at=now,
        expires_at=expires_at,
        told=told,
        after_attempt=after_attempt,
    )
    return Decision(
        rule=Rule.APPROVAL_ASKED,
        changes=(
            replace(action, call=start.call, phase=phase),
            replace(s.tree, open_prompts=(*s.tree.open_prompts, start.ticket)),
            *leave_queues(s, action),
        ),
        commands=(AskHuman(action=action.key, ticket=start.ticket), WakeAt(action=action.key, at=expires_at)),
        answer=Answer.NEEDS_APPROVAL,
        told=told,
        ticket=start.ticket,
    )


def _no_prompt(s: Snapshot, action: Action, start: Start, now: datetime, code: str, rule: Rule) -> Decision:
    told = tell(code, request_id=start.request_id, call=start.call)
    hold = place(
        start.call,
        scope=Scope.ACTION,
        value=action.key,
        cause=Cause.EXHAUSTED,
        end=End.TURN,
        told=told,
        ticket=start.ticket,
        snapshot=s,
        now=now,
        step="",
    )
    stopped = Stopped(code=code, told=told, turn=s.tree.turn, hold=hold.key)
    if start.by is not By.PROPOSAL:
        waited = stop_waiting(s, action, start, hold)
        return replace(waited, rule=rule, changes=(hold, *waited.changes))
    changed = replace(action, call=start.call, phase=stopped)
    return bar(s, start.call, hold, rule, start.request_id, (changed,))


def _check_later(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Park a call whose checker is down; after `checker_retry` tries it is asked about or blocked, never run."""
    limits = s.policy.limits
    checks = action.checks if action.turn == s.tree.turn else 0
    counted = replace(current_counters(action, s.tree.turn), checks=checks + 1)
    if checks < limits.checker_retry:
        return park(s, counted, start, now + limits.default_wait, now, "CHECKER_UNAVAILABLE", Rule.CHECKER_PARKED)
    if limits.on_checker_down == "ask":
        # No verdict was given: the person is told that nobody else decided.
        return ask(s, counted, start, now, rule=start.call.verdict.rule, code="CHECKER_UNAVAILABLE")
    return _no_prompt(s, counted, start, now, "CHECKER_UNAVAILABLE", Rule.CHECKER_DOWN)


def _execute(s: Snapshot, action: Action, start: Start, cover: Cover, now: datetime) -> Decision:
    attempt = action.attempts + 1
    claim = Claim(tree=s.tree.root, action=action.key, attempt=attempt)
    opened = Started(
        attempt=attempt,
        run=start.call.run,
        step=start.call.step,
        call_id=start.call.call_id,
        started_at=now,
        owner=s.owner,
        claims=tuple(hold.key for hold in cover.claims),
        probes=tuple(hold.key for hold in cover.probes),
        grant=start.grant,
    )
    standing = action.phase.open if isinstance(action.phase, Running) else ()
    current = current_counters(action, s.tree.turn)
    # The start that answers for the action's own wait is its retry, unless a person said yes to it since.
    answers_wait = any(
        hold.action == action.key and hold.run in s.runs and hold.turn == s.tree.turn for hold in cover.claims
    )
    if start.by is By.RETRY or (answers_wait and start.grant is None):
        current = replace(current, retries=current.retries + 1)
    started = replace(
        current,
        call=start.call,
        phase=Running(open=(*standing, opened)),
        attempts=attempt,
    )
    changes: list[Change] = [started, count_start(start.run, start.call.operation)]
    taken = {hold.key for hold in cover.claims}
    changes.extend(replace(hold, claim=claim, parked=without(hold, s.tree.root, action.key)) for hold in cover.claims)
    changes.extend(replace(hold, claim=claim, probed=s.tree.turn) for hold in cover.probes)
    changes.extend(hold for hold in leave_queues(s, action) if hold.key not in taken)
    if start.call.call_id:
        changes.append(PutKnown(key=_known(start.call), known=Known(action=action.key, attempt=attempt)))
    commands: tuple[Command, ...] = (Execute(action=action.key, call=start.call, attempt=attempt),)
    return Decision(
        rule=_start_rule(start, cover),
        changes=tuple(changes),
        commands=commands,
        answer=Answer.EXECUTED,
    )


def _known(call: Call) -> str:
    return known_key(call.run, call.step, call.call_id, call.fingerprint)


def _start_rule(start: Start, cover: Cover) -> Rule:
    if start.grant is not None:
        return Rule.EXECUTED_ON_GRANT
    if cover.probes:
        return Rule.EXECUTED_AS_PROBE
    return Rule.EXECUTED_AS_RETRY if start.by is By.RETRY else Rule.EXECUTED


def start_anyway(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Start an observed call whatever was decided about it; nothing is claimed or probed by it."""
    nothing = Cover(barring=(), waiting=(), claims=(), probes=())
    return replace(_execute(s, action, start, nothing, now), rule=Rule.OBSERVED)
