"""Steps 5 to 9 of one decision: holds, budgets, the author's rule, and the start. Every start passes here.

Who starts (a proposal, a timer, a grant) differs only in what it may pass and in what becomes of the call when it may
not run: a proposal is answered, a timer's or a person's start is parked or stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from forbear.core.decision import (
    Announce,
    AskHuman,
    Change,
    Command,
    Decision,
    Execute,
    PutKnown,
    Snapshot,
    WakeAt,
)
from forbear.core.holds import Cover, covering, narrow, place, tell
from forbear.core.rules import Rule
from forbear.core.states import (
    Action,
    AwaitingApproval,
    Claim,
    Hold,
    Known,
    Parked,
    Run,
    Running,
    Started,
    Stopped,
    Waiting,
    known_key,
    step_key,
)
from forbear.core.steps import count_start, starts_of
from forbear.core.timing import MARGIN, fraction
from forbear.core.values import Call, Envelope, Grant
from forbear.core.vocabulary import Answer, Cause, Effect, End, Executed, Gate, Mode, Outcome, Recovery, Scope

HELD: dict[Cause, Rule] = {
    Cause.DENIAL: Rule.HELD_DENIAL,
    Cause.UNKNOWN: Rule.HELD_UNKNOWN,
    Cause.REFUSAL: Rule.HELD_REFUSAL,
    Cause.EXHAUSTED: Rule.HELD_EXHAUSTED,
    Cause.REPAIR: Rule.HELD_REPAIR,
    Cause.BUDGET: Rule.HELD_BUDGET,
    Cause.TIME: Rule.HELD_TIME_TOO_FAR,
}


class By(StrEnum):
    """Who starts a call."""

    PROPOSAL = "proposal"
    # The claimed retry of a waiting call.
    RETRY = "retry"
    # A parked call whose time has come.
    PARKED = "parked"
    # The controller spends a grant.
    GRANT = "grant"
    # The one repetition of an unknown write with the same idempotency key.
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One attempt to start a call at one moment."""

    call: Call
    by: By
    # The run as it stands in this decision (its step already opened, for a proposal).
    run: Run
    ticket: str
    request_id: str
    grant: Grant | None = None
    passes: frozenset[str] = frozenset()


def admit(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Decide whether a call runs now: by holds, then budgets, then the author's rule."""
    cover = covering(s, start.call, now, passes=start.passes)
    if cover.barring:
        return _bar(s, action, start, cover.barring[0], now)
    if cover.waiting:
        return _wait(s, action, start, cover.waiting[0], now)
    spent = _spent_budget(s, start)
    if spent is not None:
        return _place_and_bar(s, action, start, spent, Rule.BUDGET_SPENT, now)
    grant = start.grant
    if grant is not None and now < grant.expires_at:
        return _execute(s, action, start, cover, now)
    match start.call.verdict.gate:
        case Gate.ALLOW:
            return _execute(s, action, start, cover, now)
        case Gate.DENY:
            return _deny(s, action, start, now)
        case Gate.ASK:
            return ask(s, action, start, now, rule=start.call.verdict.rule)
        case Gate.UNAVAILABLE:
            return _check_later(s, action, start, now)


# ---- holds ----------------------------------------------------------------------------------------------------------


def _bar(s: Snapshot, action: Action, start: Start, hold: Hold, now: datetime) -> Decision:
    """Answer a call that a hold covers; the second blocked step under it is a stop."""
    if start.by is not By.PROPOSAL:
        return _stop_waiting(s, action, start, hold)
    return bar(s, start.call, hold, HELD[hold.cause], start.request_id)


def bar(
    s: Snapshot, call: Call, hold: Hold, rule: Rule, request_id: str, changes: tuple[Change, ...] = ()
) -> Decision:
    """Answer a proposal under a hold and count its step once, if the refusal had been told before that step."""
    here = step_key(call.run, call.step)
    told_before = step_key(hold.run, hold.step) != here
    if told_before and hold.last_step != here:
        hold = replace(hold, blocked=hold.blocked + 1, last_step=here)
        changes = (*changes, hold)
    over = hold.blocked > s.policy.limits.max_blocked_before_stop
    answer = Answer.STOPPED if over else Answer.BLOCKED
    if over and (hold.scope in (Scope.RUN, Scope.TURN) or call.forced):
        answer = Answer.HALTED
    return Decision(
        rule=rule,
        changes=changes,
        answer=answer,
        told=replace(hold.told, request_id=request_id or hold.told.request_id),
        ticket=hold.ticket,
        clear_forced=answer is Answer.HALTED and call.forced,
        blocked_step=told_before,
        idle_step=True,
    )


def _stop_waiting(s: Snapshot, action: Action, start: Start, hold: Hold) -> Decision:
    """Stop a call that waited: another hold came to cover it, and a grant is void."""
    stopped = Stopped(code=hold.code, told=hold.told, turn=s.tree.turn, hold=hold.key)
    return Decision(
        rule=Rule.WOKE_STOPPED,
        changes=(replace(action, phase=stopped), *leave_queues(s, action)),
        commands=(Announce(action=action.key, told=hold.told),),
        answer=Answer.STOPPED,
        told=hold.told,
        ticket=hold.ticket,
    )


def leave_queues(s: Snapshot, action: Action) -> tuple[Change, ...]:
    """Return the holds without this action among the calls that wait for them."""
    return tuple(
        replace(hold, parked=tuple(key for key in hold.parked if key != action.key))
        for hold in s.holds.values()
        if action.key in hold.parked
    )


def _wait(s: Snapshot, action: Action, start: Start, hold: Hold, now: datetime) -> Decision:
    """Park a call under a time hold, or tell it to be proposed later where there is no slot."""
    ends_at = hold.ends_at or now
    # Calls leave a hold one by one: the claimed retry first, the others behind it.
    place_in_line = len(hold.parked) + 1
    run_at = max(ends_at, now) + MARGIN + timedelta(seconds=place_in_line * (0.25 + fraction(action.key)))
    told = replace(hold.told, outcome=Outcome.PENDING, executed=Executed.NO, reset_at=ends_at)
    if start.by is not By.PROPOSAL:
        standing = action.phase
        parked: Parked | Waiting
        if isinstance(standing, Waiting):
            # It stays the one retry of a call that already ran.
            parked = replace(standing, retry_at=run_at, hold=hold.key, told=told)
        else:
            parked = _parked(s, action, start, run_at, told, hold.key, now)
        waits = replace(hold, parked=_joined(hold.parked, action.key))
        return Decision(
            rule=Rule.WOKE_REPARKED,
            changes=(replace(action, phase=parked), waits),
            commands=(WakeAt(action=action.key, at=run_at),),
            answer=Answer.PENDING,
            told=told,
            ticket=parked.ticket,
            retry_at=run_at,
        )
    has_slot = len(hold.parked) < s.policy.limits.max_parked
    if not has_slot or not _may_park(s, start.call):
        return Decision(
            rule=Rule.HELD_TIME_NO_SLOT,
            answer=Answer.PENDING,
            told=replace(told, request_id=start.request_id),
            retry_at=ends_at,
            idle_step=step_key(hold.run, hold.step) != step_key(start.call.run, start.call.step),
        )
    kept = _parked(s, action, start, run_at, replace(told, request_id=start.request_id), hold.key, now)
    return Decision(
        rule=Rule.HELD_TIME_PARKED,
        changes=(
            replace(action, call=start.call, phase=kept),
            replace(hold, parked=_joined(hold.parked, action.key)),
        ),
        commands=(WakeAt(action=action.key, at=run_at),),
        answer=Answer.PENDING,
        told=kept.told,
        ticket=kept.ticket,
        retry_at=run_at,
    )


def _may_park(s: Snapshot, call: Call) -> bool:
    """Reads wait freely; a declared write only where no other call waits on its target."""
    match call.effect:
        case Effect.READ:
            return True
        case Effect.UNDECLARED:
            return False
        case Effect.WRITE:
            return not any(
                isinstance(other.phase, (Waiting, Parked)) and other.call.target == call.target
                for other in s.actions.values()
                if other.key != call.action and other.call.operation == call.operation
            )


def _joined(parked: tuple[str, ...], key: str) -> tuple[str, ...]:
    return parked if key in parked else (*parked, key)


def _parked(
    s: Snapshot, action: Action, start: Start, run_at: datetime, told: Envelope, hold: str | None, now: datetime
) -> Parked:
    standing = action.phase
    ticket, since_at, turn = start.ticket, now, s.tree.turn
    if isinstance(standing, (Waiting, Parked)):
        ticket, since_at, turn = standing.ticket, standing.since_at, standing.turn
    return Parked(ticket=ticket, run_at=run_at, since_at=since_at, turn=turn, told=told, hold=hold, grant=start.grant)


def park(
    s: Snapshot, action: Action, start: Start, run_at: datetime, now: datetime, code: str, rule: Rule
) -> Decision:
    """Keep a call for later for a reason other than a hold (poll interval, checker, open prompts)."""
    told = tell(
        code,
        recovery=Recovery.RETRY_AFTER,
        outcome=Outcome.PENDING,
        request_id=start.request_id,
        reset_at=run_at,
    )
    parked = _parked(s, action, start, run_at, told, None, now)
    return Decision(
        rule=rule,
        changes=(replace(action, call=start.call, phase=parked),),
        commands=(WakeAt(action=action.key, at=run_at),),
        answer=Answer.PENDING,
        told=told,
        ticket=parked.ticket,
        retry_at=run_at,
    )


# ---- budgets --------------------------------------------------------------------------------------------------------


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
        stopped = _stop_waiting(s, action, start, hold)
        return replace(stopped, rule=rule, changes=(hold, *stopped.changes))
    return bar(s, start.call, hold, rule, start.request_id)


# ---- the author's rule ----------------------------------------------------------------------------------------------


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
        waited = _stop_waiting(s, action, start, hold)
        return replace(waited, rule=Rule.POLICY_DENIED, changes=(hold, *waited.changes))
    return bar(s, start.call, hold, Rule.POLICY_DENIED, start.request_id, (changed,))


def ask(s: Snapshot, action: Action, start: Start, now: datetime, *, rule: str, after_attempt: int = 0) -> Decision:
    """Ask a person about exactly this call; prompts are bounded, and nobody is asked where nobody can answer."""
    limits = s.policy.limits
    if not s.has_approver:
        return _no_prompt(s, action, start, now, "NO_APPROVER", Rule.APPROVAL_NO_APPROVER)
    if s.tree.noes >= limits.max_prompts:
        return _no_prompt(s, action, start, now, "PROMPTS_EXHAUSTED", Rule.APPROVAL_PROMPTS_SPENT)
    if len(s.tree.open_prompts) >= limits.max_open_prompts:
        later = now + limits.default_wait
        return park(s, action, start, later, now, "APPROVAL_REQUIRED", Rule.APPROVAL_PROMPTS_FULL)
    told = tell(
        "APPROVAL_REQUIRED",
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
        waited = _stop_waiting(s, action, start, hold)
        return replace(waited, rule=rule, changes=(hold, *waited.changes))
    changed = replace(action, call=start.call, phase=stopped)
    return bar(s, start.call, hold, rule, start.request_id, (changed,))


def _check_later(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Park a call whose checker is down; after `checker_retry` tries it is asked about or blocked, never run."""
    limits = s.policy.limits
    checks = action.checks if action.turn == s.tree.turn else 0
    counted = replace(current_counters(action, s.tree.turn), checks=checks + 1)
    if checks < limits.checker_retry:
        return park(
            s, counted, start, now + limits.default_wait, now, "CHECKER_UNAVAILABLE", Rule.CHECKER_PARKED
        )
    if limits.on_checker_down == "ask":
        return ask(s, counted, start, now, rule=start.call.verdict.rule)
    return _no_prompt(s, counted, start, now, "CHECKER_UNAVAILABLE", Rule.CHECKER_DOWN)


# ---- the start ------------------------------------------------------------------------------------------------------


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
    if start.by is By.RETRY:
        current = replace(current, retries=current.retries + 1)
    started = replace(current, call=start.call, phase=Running(open=(*standing, opened)), attempts=attempt)
    changes: list[Change] = [started, count_start(start.run, start.call.operation)]
    taken = {hold.key for hold in (*cover.claims, *cover.probes)}
    for hold in cover.claims:
        left = tuple(key for key in hold.parked if key != action.key)
        changes.append(replace(hold, claim=claim, parked=left))
    for hold in cover.probes:
        changes.append(replace(hold, claim=claim, probed=s.tree.turn))
    for change in leave_queues(s, action):
        if isinstance(change, Hold) and change.key not in taken:
            changes.append(change)
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


def current_counters(action: Action, turn: int) -> Action:
    """Return the action with the counters of an older turn set back."""
    if action.turn == turn:
        return action
    return replace(
        action,
        turn=turn,
        retries=0,
        checks=0,
        repairs=0,
        replays=0,
        same_results=0,
        empty_looks=0,
        asked_by_tool=0,
    )


def start_anyway(s: Snapshot, action: Action, start: Start, now: datetime) -> Decision:
    """Start an observed call whatever was decided about it; nothing is claimed or probed by it."""
    nothing = Cover(barring=(), waiting=(), claims=(), probes=())
    return replace(_execute(s, action, start, nothing, now), rule=Rule.OBSERVED)


def is_observed(s: Snapshot) -> bool:
    """Return whether the event's tool is only observed."""
    return s.policy.mode is Mode.OBSERVE


def may_run_again(s: Snapshot, call: Call) -> bool:
    """Return whether the author said that the same call twice does no harm (declared reads by default)."""
    if s.policy.repeatable is not None:
        return s.policy.repeatable
    return call.effect is Effect.READ


def is_declared_once(s: Snapshot) -> bool:
    """Return whether an equal call after a success, in one turn, is delivered from the record."""
    return s.policy.repeatable is False
