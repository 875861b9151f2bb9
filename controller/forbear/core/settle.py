"""What an answered attempt means: completed, refused, wait, repair, ask, unknown. Starts are decided in admit.py.

Every path ends the claims and probes of the attempt, moves the streaks and answers whoever waits for the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from forbear.core.admit import By, Start, ask, current_counters, leave_queues, may_run_again
from forbear.core.decision import Change, Command, Decision, DropHold, PutKnown, Snapshot, WakeAt
from forbear.core.events import Returned
from forbear.core.holds import narrow, place, tell
from forbear.core.identity import field_digest
from forbear.core.rules import Rule
from forbear.core.states import (
    Action,
    Completed,
    Fresh,
    Hold,
    Known,
    NeedsRepair,
    Parked,
    Phase,
    Running,
    Started,
    Stopped,
    Streak,
    Tree,
    Unknown,
    Waiting,
    known_key,
    precondition_key,
    step_key,
)
from forbear.core.timing import retry_at
from forbear.core.values import Call, Envelope
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

FIRST_LOOK = timedelta(seconds=1)
SAME_RESULT_GAP = timedelta(seconds=1)


@dataclass(slots=True, kw_only=True)
class Draft:
    """A decision while it is put together: the tree, the holds and the action as they will be."""

    s: Snapshot
    action: Action
    call: Call
    started: Started
    now: datetime
    tree: Tree
    holds: dict[str, Hold | None]
    changes: list[Change]
    commands: list[Command]

    def hold(self, key: str) -> Hold | None:
        """Return a hold as it stands in this draft."""
        return self.holds[key] if key in self.holds else self.s.holds.get(key)

    def put(self, hold: Hold) -> Hold:
        """Place or change a hold."""
        self.holds[hold.key] = hold
        return hold

    def drop(self, key: str) -> None:
        """End a hold."""
        if self.hold(key) is not None:
            self.holds[key] = None

    def decide(
        self,
        rule: Rule,
        phase: Phase,
        *,
        told: Envelope | None,
        answer: Answer,
        ticket: str | None = None,
        wake_at: datetime | None = None,
    ) -> Decision:
        """Return the decision: the action's next phase, and everything that was drafted."""
        # Another attempt of a repeatable action may still be open.
        opened = tuple(o for o in open_attempts(self.action) if o.attempt != self.started.attempt)
        if opened and isinstance(phase, (Completed, Fresh)):
            phase = Running(open=opened)
        changes: list[Change] = [replace(self.action, phase=phase), *self.changes]
        if self.tree is not self.s.tree:
            changes.append(self.tree)
        for key, hold in self.holds.items():
            if hold is not None:
                changes.append(hold)
            elif key in self.s.holds:
                changes.append(DropHold(key=key, scope=self.s.holds[key].scope))
        commands = list(self.commands)
        if wake_at is not None:
            commands.append(WakeAt(action=self.action.key, at=wake_at))
        return Decision(
            rule=rule,
            changes=tuple(changes),
            commands=tuple(commands),
            answer=answer,
            told=told,
            ticket=ticket,
            retry_at=wake_at if answer is Answer.PENDING else None,
        )


def open_attempts(action: Action) -> tuple[Started, ...]:
    """Return the attempts of an action that are not answered."""
    return action.phase.open if isinstance(action.phase, Running) else ()


def settle(s: Snapshot, action: Action, started: Started, event: Returned, now: datetime) -> Decision:
    """Decide what the answer of an open attempt means."""
    draft = draft_of(s, action, started, now)
    _end_waiting_halt(draft)
    recovery = _enforced(draft, event.envelope)
    _release(draft, event.envelope, recovery)
    if recovery is None:
        return _completed(draft, event)
    match recovery:
        case Recovery.DO_NOT_RETRY | Recovery.USE_ALTERNATIVE:
            return _refused(draft, event.envelope, event.ticket)
        case Recovery.RETRY_AFTER:
            return _wait(draft, event.envelope, event.ticket)
        case Recovery.REPAIR_INPUT:
            return _repair(draft, event.envelope, event.ticket)
        case Recovery.REQUEST_APPROVAL:
            return _asks(draft, event.envelope, event.ticket)
        case Recovery.INSPECT_OUTCOME:
            return unknown(draft, event.envelope, event.ticket, Rule.RETURNED_UNKNOWN)


def _enforced(draft: Draft, envelope: Envelope) -> Recovery | None:
    """Return the class that is enforced: a result never makes a call retryable that may have had an effect."""
    recovery = envelope.recovery
    if envelope.outcome in COMPLETED or recovery is None:
        return None
    is_read = draft.call.effect is Effect.READ
    if is_read and recovery is Recovery.INSPECT_OUTCOME:
        return Recovery.DO_NOT_RETRY
    if envelope.effects_before_failure:
        return Recovery.DO_NOT_RETRY if is_read else Recovery.INSPECT_OUTCOME
    if recovery in (Recovery.RETRY_AFTER, Recovery.REQUEST_APPROVAL) and envelope.executed is not Executed.NO:
        if not may_run_again(draft.s, draft.call):
            return Recovery.INSPECT_OUTCOME
    return recovery


def _end_waiting_halt(draft: Draft) -> None:
    for run in draft.s.runs.values():
        if run.halted is not None and run.halted.reason == "WAITING":
            draft.changes.append(replace(run, halted=None, idle_steps=0))


def _release(draft: Draft, envelope: Envelope, recovery: Recovery | None) -> None:
    """End or hand back the holds that the attempt claimed or probed."""
    release(draft, ended=recovery is not Recovery.RETRY_AFTER)
    for key in draft.started.probes:
        hold = draft.hold(key)
        if hold is None:
            continue
        if recovery is None:
            draft.drop(key)
        elif recovery in (Recovery.DO_NOT_RETRY, Recovery.USE_ALTERNATIVE):
            draft.put(replace(hold, claim=None))
        else:
            # The refusal was not answered either way: the turn keeps its probe.
            draft.put(replace(hold, claim=None, probed=0))


def release(draft: Draft, *, ended: bool) -> None:
    """End the time holds that the attempt claimed, or hand their claim to the next call."""
    for key in draft.started.claims:
        hold = draft.hold(key)
        if hold is None or hold.claim is None:
            continue
        if ended:
            draft.drop(key)
        else:
            draft.put(replace(hold, claim=None))


# ---- completed ------------------------------------------------------------------------------------------------------


def _completed(draft: Draft, event: Returned) -> Decision:
    s, call, now = draft.s, draft.call, draft.now
    envelope = event.envelope
    is_write = call.effect is not Effect.READ
    if envelope.outcome is Outcome.EMPTY and s.policy.empty_means == "unknown":
        return _empty_look(draft, event)
    before = draft.tree.writes
    _count_success(draft, is_write=is_write)
    _meet_preconditions(draft)
    action = _count_result(draft, event, before)
    draft.action = replace(action, key_spent=0)
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
        limit = 10 if call.effect is Effect.WRITE else 30
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


def _count_success(draft: Draft, *, is_write: bool) -> None:
    tree, call = draft.tree, draft.call
    key = call.target or call.operation
    repairs = () if is_write else tuple(entry for entry in tree.repairs if entry[0] not in (key, call.operation))
    streaks = tuple(streak for streak in tree.streaks if streak.operation != call.operation)
    tree = replace(tree, streaks=streaks, repairs=repairs)
    if is_write:
        tree = replace(tree, writes=tree.writes + 1)
        if call.target_declared and call.target is not None:
            others = tuple(entry for entry in tree.target_writes if entry[0] != call.target)
            tree = replace(tree, target_writes=(*others, (call.target, call.action, tree.writes)))
    if tree != draft.tree:
        draft.tree = tree


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
        parked = Parked(ticket=event.ticket, run_at=run_at, since_at=now, turn=s.tree.turn, told=told)
        return draft.decide(
            Rule.RETURNED_EMPTY_LOOK, parked, told=told, answer=Answer.PENDING, ticket=event.ticket, wake_at=run_at
        )
    told = tell("COULD_NOT_SEARCH", outcome=Outcome.FAILED, request_id=event.envelope.request_id, call=draft.call)
    return _stop(draft, told, Rule.RETURNED_EMPTY_SPENT, event.ticket)


# ---- refused --------------------------------------------------------------------------------------------------------


def _stop(
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
        value=draft.call.action,
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


def _refused(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
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
        claim=None,
        probed=s.tree.turn,
    )
    draft.put(hold)
    exhausted = _count_refusal(draft, envelope, ticket)
    stopped = Stopped(code=envelope.code, told=envelope, turn=s.tree.turn, hold=hold.key)
    rule = Rule.RETURNED_REFUSALS_EXHAUSTED if exhausted else Rule.RETURNED_REFUSED
    return draft.decide(rule, stopped, told=envelope, answer=Answer.EXECUTED, ticket=hold.ticket)


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


def _count_refusal(draft: Draft, envelope: Envelope, ticket: str, *, wait: bool = False) -> bool:
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


# ---- retry_after ----------------------------------------------------------------------------------------------------


def _wait(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    s, action, call, now = draft.s, draft.action, draft.call, draft.now
    limits = s.policy.limits
    if envelope.reset_at is None and limits.on_unknown_reset == "stop":
        told = replace(envelope, code="NO_RESET_GIVEN", recovery=Recovery.DO_NOT_RETRY, temporary=False)
        return _stop(draft, told, Rule.RETURNED_WAIT_NO_RESET, ticket)
    reset = envelope.reset_at if envelope.reset_at is not None else now + limits.default_wait
    at = retry_at(reset, now, action.key)
    shared = _close_until(draft, envelope, at, ticket)
    too_far = at - now > limits.max_wait
    if too_far:
        told = replace(envelope, code="WAIT_EXCEEDS_LIMIT", recovery=Recovery.DO_NOT_RETRY, reset_at=reset)
        _count_refusal(draft, envelope, ticket)
        return _stop(draft, told, Rule.RETURNED_WAIT_TOO_FAR, ticket, ends_at=at)
    allowed = limits.max_retries
    if allowed is None:
        allowed = 2 if envelope.temporary and call.effect is Effect.READ and may_run_again(s, call) else 1
    if action.retries >= allowed:
        told = replace(
            envelope, code="RETRY_EXHAUSTED", recovery=Recovery.DO_NOT_RETRY, reset_at=envelope.reset_at
        )
        _count_refusal(draft, envelope, ticket)
        return _stop(draft, told, Rule.RETURNED_RETRY_EXHAUSTED, ticket)
    if shared is not None and shared.scope is Scope.OPERATION and call.effect is not Effect.READ:
        # The second different call that one code refused keeps no retry of its own.
        return draft.decide(Rule.RETURNED_WAIT_NO_SLOT, Fresh(), told=envelope, answer=Answer.PENDING)
    waiting = Waiting(
        ticket=ticket,
        retry_at=at,
        since_at=now,
        turn=s.tree.turn,
        told=envelope,
        hold=None if shared is None else shared.key,
        grant=draft.started.grant,
        not_accepted=envelope.not_accepted,
    )
    return draft.decide(
        Rule.RETURNED_WAIT, waiting, told=envelope, answer=Answer.PENDING, ticket=ticket, wake_at=at
    )


def _close_until(draft: Draft, envelope: Envelope, at: datetime, ticket: str) -> Hold | None:
    """Close the quota, else the target, else (second different call) the operation; an end moves later only."""
    s, call = draft.s, draft.call
    _count_refusal(draft, envelope, ticket, wait=True)
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
    parked = hold.parked if call.action in hold.parked else (*hold.parked, call.action)
    return draft.put(replace(hold, ends_at=ends_at, claim=None if standing is None else standing.claim, parked=parked))


# ---- repair_input ---------------------------------------------------------------------------------------------------


def _repair(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    s, call = draft.s, draft.call
    names = tuple(field.name for field in envelope.invalid_fields)
    exhausted = _count_repair(draft, envelope, named=bool(names), ticket=ticket)
    scope = Scope.TARGET if names and call.effect is not Effect.UNDECLARED else Scope.ACTION
    scope, value = narrow(call, scope, s.tree.principal)
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.REPAIR,
        end=End.REPAIR,
        told=envelope,
        ticket=ticket,
        snapshot=s,
        now=draft.now,
    )
    fields = tuple((name, field_digest(call.arguments, name)) for name in names) if scope is Scope.TARGET else ()
    before = envelope.precondition
    hold = draft.put(
        replace(
            hold,
            fields=fields,
            precondition=None if before is None else precondition_key(before.tool, before.arguments),
        )
    )
    draft.action = replace(draft.action, repairs=draft.action.repairs + 1)
    phase = NeedsRepair(
        attempt=draft.started.attempt,
        turn=s.tree.turn,
        told=envelope,
        fields=names,
        writes=draft.tree.writes,
        hold=hold.key,
    )
    rule = Rule.RETURNED_REPAIRS_EXHAUSTED if exhausted else Rule.RETURNED_REPAIR
    return draft.decide(rule, phase, told=envelope, answer=Answer.EXECUTED, ticket=hold.ticket)


def _count_repair(draft: Draft, envelope: Envelope, *, named: bool, ticket: str) -> bool:
    s, call, tree = draft.s, draft.call, draft.tree
    scope = Scope.TARGET if call.target is not None and call.effect is not Effect.UNDECLARED else Scope.OPERATION
    scope, value = narrow(call, scope, s.tree.principal)
    here = step_key(draft.started.run, draft.started.step)
    count, last = next(((n, step) for name, n, step in tree.repairs if name == value), (0, ""))
    count = count if last == here else count + 1
    others = tuple(entry for entry in tree.repairs if entry[0] != value)
    draft.tree = replace(tree, repairs=(*others, (value, count, here)))
    limit = s.policy.limits.max_repairs
    if limit is None:
        limit = 3 if named else 8
    if count < limit:
        return False
    told = tell("REPAIRS_EXHAUSTED", request_id=envelope.request_id, call=call)
    draft.put(
        place(
            call,
            scope=scope,
            value=value,
            cause=Cause.EXHAUSTED,
            end=End.TURN,
            told=told,
            ticket=f"{ticket}-x",
            snapshot=s,
            now=draft.now,
        )
    )
    return True


# ---- request_approval, inspect_outcome ------------------------------------------------------------------------------


def _asks(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    """A tool asks for approval: a person is asked once per turn about this call; a second time is a refusal."""
    if draft.action.asked_by_tool >= 1:
        return _refused(draft, envelope, ticket)
    draft.action = replace(draft.action, asked_by_tool=draft.action.asked_by_tool + 1)
    start = Start(
        call=draft.call,
        by=By.GRANT,
        run=draft.s.run(draft.started.run),
        ticket=ticket,
        request_id=envelope.request_id,
    )
    rule = f"tool:{envelope.constraint or envelope.code}"
    asked = ask(draft.s, draft.action, start, draft.now, rule=rule, after_attempt=draft.started.attempt)
    told = replace(envelope, outcome=Outcome.PENDING) if asked.answer is Answer.NEEDS_APPROVAL else asked.told
    extra = draft.decide(Rule.RETURNED_ASKS, Fresh(), told=None, answer=Answer.NEEDS_APPROVAL)
    kept = tuple(change for change in extra.changes if not isinstance(change, (Action, Tree)))
    return replace(
        asked,
        rule=Rule.RETURNED_ASKS if asked.answer is Answer.NEEDS_APPROVAL else asked.rule,
        changes=(*kept, *asked.changes),
        told=told,
    )


def unknown(draft: Draft, envelope: Envelope, ticket: str, rule: Rule) -> Decision:
    """Hold everything that could repeat a write which may have happened, and look for the truth."""
    s, call, now = draft.s, draft.call, draft.now
    told = replace(
        envelope,
        outcome=Outcome.UNKNOWN,
        executed=Executed.UNKNOWN if envelope.executed is not Executed.YES else Executed.YES,
        code=envelope.code or "OUTCOME_UNKNOWN",
        recovery=Recovery.INSPECT_OUTCOME,
        operation=call.operation,
    )
    hold = draft.put(hold_unknown(draft, told, ticket))
    _count_refusal(draft, told, ticket)
    looks = s.policy.limits.inspect_attempts
    may_look = looks > 0 and (s.policy.inspect is not None or s.policy.idempotency_key is not None)
    inspect_at = now + FIRST_LOOK if may_look else None
    phase = Unknown(
        attempt=draft.started.attempt,
        ticket=hold.ticket,
        started_at=draft.started.started_at,
        told=told,
        hold=hold.key,
        inspect_at=inspect_at,
    )
    decision = draft.decide(
        rule, phase, told=told, answer=Answer.EXECUTED, ticket=hold.ticket, wake_at=inspect_at
    )
    return replace(decision, changes=(*decision.changes, *_left(draft, decision)))


def hold_unknown(draft: Draft, told: Envelope, ticket: str) -> Hold:
    """Return the hold of an unknown write: its target, else its operation's writes; undeclared: the action."""
    call = draft.call
    if call.effect is Effect.UNDECLARED:
        scope = Scope.ACTION
    else:
        scope = Scope.TARGET if call.target is not None else Scope.OPERATION
    scope, value = narrow(call, scope, draft.s.tree.principal)
    hold = place(
        call,
        scope=scope,
        value=value,
        cause=Cause.UNKNOWN,
        end=End.VERDICT,
        told=told,
        ticket=ticket,
        snapshot=draft.s,
        now=draft.now,
    )
    return replace(hold, writes_only=True)


def _left(draft: Draft, decision: Decision) -> tuple[Change, ...]:
    changed = {change.key for change in decision.changes if isinstance(change, (Hold, DropHold))}
    queues = leave_queues(draft.s, draft.action)
    return tuple(change for change in queues if isinstance(change, Hold) and change.key not in changed)


def draft_of(s: Snapshot, action: Action, started: Started, now: datetime) -> Draft:
    """Return an empty draft about one attempt (for attempts that end without an answer)."""
    return Draft(
        s=s,
        action=current_counters(action, s.tree.turn),
        call=action.call,
        started=started,
        now=now,
        tree=s.tree,
        holds={},
        changes=[],
        commands=[],
    )


__all__ = ["Draft", "draft_of", "open_attempts", "release", "settle", "unknown"]
