"""Repair, ask, unknown: a result that needs another input, a person, or the truth before anything runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from forbear.core.admit import ask
from forbear.core.decision import (
    Decision,
)
from forbear.core.draft import Draft, doubt_scope, open_attempts
from forbear.core.holds import narrow, place, tell
from forbear.core.identity import digest, field_digest
from forbear.core.policy import MAX_REPAIRS, MAX_REPAIRS_NAMED
from forbear.core.refuse import count_refusal, refused
from forbear.core.rules import Rule
from forbear.core.start import By, Start
from forbear.core.states import (
    Hold,
    NeedsRepair,
    Unknown,
    precondition_key,
    step_key,
)
from forbear.core.values import Envelope
from forbear.core.vocabulary import (
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


def repair(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    """Keep the same input from running again; the named fields, or something it depends on, must change."""
    s, call = draft.s, draft.call
    names = tuple(field.name for field in envelope.invalid_fields)
    exhausted = _count_repair(draft, envelope, named=bool(names), ticket=ticket)
    hold = draft.put(_keep(draft, envelope, Scope.ACTION, call.common, ticket))
    if names and call.target is not None and call.effect is not Effect.UNDECLARED:
        # Reworded calls on the same target repair nothing while they leave every named field as it was.
        fields = tuple((name, field_digest(call.arguments, name)) for name in names)
        mark = digest(*(part for field in fields for part in field))
        kept = _keep(draft, envelope, Scope.TARGET, call.target, f"{ticket}-t", mark)
        draft.put(replace(kept, fields=fields))
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


def _keep(draft: Draft, envelope: Envelope, scope: Scope, value: str, ticket: str, mark: str = "") -> Hold:
    before = envelope.precondition
    hold = place(
        draft.call,
        scope=scope,
        value=value,
        cause=Cause.REPAIR,
        end=End.REPAIR,
        told=envelope,
        ticket=ticket,
        snapshot=draft.s,
        now=draft.now,
        mark=mark,
    )
    return replace(hold, precondition=None if before is None else precondition_key(before.tool, before.arguments))


def _count_repair(draft: Draft, envelope: Envelope, *, named: bool, ticket: str) -> bool:
    s, call, tree = draft.s, draft.call, draft.tree
    scope = Scope.TARGET if call.target is not None and call.effect is not Effect.UNDECLARED else Scope.OPERATION
    scope, value = narrow(call, scope, s.tree.principal)
    here = step_key(draft.started.run, draft.started.step)
    count, last = next(((n, step) for name, n, step in tree.repairs if name == value), (0, None))
    count = count if last == here else count + 1
    others = tuple(entry for entry in tree.repairs if entry[0] != value)
    draft.tree = replace(tree, repairs=(*others, (value, count, here)))
    limit = s.policy.limits.max_repairs
    if limit is None:
        limit = MAX_REPAIRS_NAMED if named else MAX_REPAIRS
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


def asks(draft: Draft, envelope: Envelope, ticket: str) -> Decision:
    """A tool asks for approval: a person is asked once per turn about this call; a second time is a refusal."""
    is_full = len(draft.s.tree.open_prompts) >= draft.s.policy.limits.max_open_prompts
    if draft.action.asked_by_tool >= 1 or is_full or len(open_attempts(draft.action)) > 1:
        # A kept call would start again without the yes that its tool asked for.
        return refused(draft, envelope, ticket)
    draft.action = replace(draft.action, asked_by_tool=draft.action.asked_by_tool + 1)
    start = Start(
        call=draft.call,
        by=By.CONTROLLER,
        run=draft.s.run(draft.started.run),
        ticket=ticket,
        request_id=envelope.request_id,
    )
    rule = f"tool:{envelope.constraint or envelope.code}"
    asked = ask(draft.s, draft.action, start, draft.now, rule=rule, after_attempt=draft.started.attempt)
    told = replace(envelope, outcome=Outcome.PENDING) if asked.answer is Answer.NEEDS_APPROVAL else asked.told
    return replace(
        asked,
        rule=Rule.RETURNED_ASKS if asked.answer is Answer.NEEDS_APPROVAL else asked.rule,
        changes=(*draft.changes, *draft.held(), *asked.changes),
        told=told,
    )


def unknown(draft: Draft, envelope: Envelope, ticket: str, rule: Rule) -> Decision:
    """Hold everything that could repeat a write which may have happened, and look for the truth."""
    s, call, now = draft.s, draft.call, draft.now
    if envelope.recovery is not Recovery.INSPECT_OUTCOME:
        # It promised something else (a retry, a question); what is told is what is done now.
        envelope = replace(envelope, code="", safe_message=None, reset_at=None, retry_after_seconds=None)
    told = replace(
        envelope,
        outcome=Outcome.UNKNOWN,
        executed=Executed.UNKNOWN if envelope.executed is not Executed.YES else Executed.YES,
        code=envelope.code or "OUTCOME_UNKNOWN",
        recovery=Recovery.INSPECT_OUTCOME,
        operation=call.operation,
    )
    hold = draft.put(hold_unknown(draft, told, ticket))
    count_refusal(draft, told, ticket)
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
    return draft.decide(rule, phase, told=told, answer=Answer.EXECUTED, ticket=hold.ticket, wake_at=inspect_at)


def hold_unknown(draft: Draft, told: Envelope, ticket: str) -> Hold:
    """Return the hold of an unknown write: its target, else its operation's writes; undeclared: the action."""
    call = draft.call
    scope, value = doubt_scope(call)
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
