"""What is stored beside a decision: announcements, prompts, completions; and whether it is stored at once.

It follows from the decision; nothing is decided and nothing is performed here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.decision import Announce, AskHuman, Decision, Deliver, Execute, Join, PutKnown
from forbear.core.states import Action, Completed, Fresh, Run, Running, Tree
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Effect
from forbear.ports import Row
from forbear.runtime.asked import Asked
from forbear.runtime.live import LiveTree
from forbear.runtime.notes import (
    PromptFacts,
    Ready,
    completions_row,
    count_of,
    prompt_rows,
    ready_row,
)
from forbear.runtime.rows import tree_scope
from forbear.store.codec import to_us


def answered_now(asked: Asked, live: LiveTree, decision: Decision) -> tuple[tuple[str, str, str], ...]:
    """Return the announcements of a result that this very call is delivered now: it is not told a second time."""
    if not live.ready:
        return ()
    call = asked.call
    delivered = {(command.action, command.attempt) for command in decision.commands if isinstance(command, Deliver)}
    return tuple(
        (tree_scope(asked.root), "ready", ready.key)
        for ready in live.ready.values()
        if (ready.action, ready.attempt) in delivered and (ready.run, ready.call_id) == (call.run, call.call_id)
    )


def completion_rows(asked: Asked, decision: Decision, counted: Row | None) -> tuple[Row, ...]:
    """Count a completion, so that the next wanted execution gets another idempotency key.

    The row is there from the first start on, so that a person's verdict counts too where the policy is not known.
    """
    if asked.policy.idempotency_key is None and counted is None:
        return ()
    for change in decision.changes:
        if isinstance(change, Action) and change.key == asked.call.action:
            if isinstance(change.phase, Completed):
                return (completions_row(asked.root, change.key, count_of(counted) + 1),)
            if counted is None and isinstance(change.phase, Running):
                return (completions_row(asked.root, change.key, 0),)
    return ()


def new_prompt_rows(asked: Asked, live: LiveTree, decision: Decision) -> tuple[Row, ...]:
    """Remember of a new prompt how its grant is to be spent and how many came before."""
    rows: tuple[Row, ...] = ()
    for command in decision.commands:
        if isinstance(command, AskHuman):
            facts = PromptFacts(reproposes=asked.reproposes, before=live.prompts)
            rows = (*rows, *prompt_rows(asked.root, command.ticket, facts))
    return rows


def attempt_of(decision: Decision) -> int:
    """Return the attempt that a decision is about, or 0."""
    for command in decision.commands:
        if isinstance(command, (Execute, Deliver, Join)):
            return command.attempt
    return 0


def request_of(decision: Decision) -> str:
    """Return the request id of what a decision tells."""
    return decision.told.request_id if decision.told is not None else ""


def is_volatile(live: LiveTree, call: Call, decision: Decision) -> bool:
    """Say whether a decision is about a declared read that starts or succeeds, and about nothing that outlives it.

    Everything else is committed before it is answered (design section 7).
    """
    if call.effect is not Effect.READ or decision.answer not in {Answer.EXECUTED, Answer.DELIVERED}:
        return False
    if not all(isinstance(command, (Execute, Deliver, Join)) for command in decision.commands):
        return False
    before = live.actions.get(call.action)
    known_only_here = call.action in live.volatile
    if not known_only_here and before is not None and not isinstance(before.phase, (Fresh, Completed)):
        return False
    for change in decision.changes:
        match change:
            case Run() | PutKnown() | Tree():
                pass
            case Action():
                if change.key != call.action or not isinstance(change.phase, (Running, Completed)):
                    return False
                if isinstance(change.phase, Completed) and (change.phase.kept or not known_only_here):
                    return False
            case _:
                return False
    return True


# ---- what a run is told later ---------------------------------------------------------------------------------------


def announced(
    root: str, live: LiveTree, decision: Decision, now: datetime, *, skip: str = "", note: str = ""
) -> tuple[Row, ...]:
    """Return the rows of what became ready outside a call by this decision."""
    changed = {change.key: change for change in decision.changes if isinstance(change, Action)}
    rows: list[Row] = []
    for command in decision.commands:
        if not isinstance(command, Announce) or (command.action == skip and command.call is None):
            continue
        action = changed.get(command.action) or live.actions.get(command.action)
        if action is not None:
            told = replace(command.told, safe_message=note) if note else command.told
            rows.append(announcement(root, command.call or action.call, _last_attempt(action), decision, told, now))
    return tuple(rows)


def _last_attempt(action: Action) -> int:
    return action.phase.attempt if isinstance(action.phase, Completed) else action.attempts


def announcement(root: str, call: Call, attempt: int, decision: Decision, told: Envelope, now: datetime) -> Row:
    """Return the row of a result that became ready for a run."""
    ready = Ready(
        action=call.action,
        attempt=attempt,
        run=call.run,
        step=call.step,
        call_id=call.call_id,
        tool=call.tool,
        rule=decision.rule,
        answer=decision.answer or Answer.DELIVERED,
        told=told,
        ticket=decision.ticket or "",
        order=to_us(now),
        effective=call.arguments if call.edited else "",
    )
    return ready_row(root, ready)
