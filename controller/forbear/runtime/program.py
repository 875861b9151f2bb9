"""The procedures, written once as generators of effects: load, read the clock, decide, save, and again after a lost race.

Nothing is performed here: no lock, no connection, no tool, no await. What is decided is the core's; what is stored
follows from the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from forbear.core.decide import decide, decide_tree
from forbear.core.decision import Announce, AskHuman, Decision, Deliver, Execute, Join, PutKnown, Snapshot
from forbear.core.events import Edited, Event, Inspected, Proposed, Returned, TreeEvent
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Action, Completed, Fresh, Run, Running, Tree, Unknown, known_key
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import COMPLETED, Answer, Effect, Mode
from forbear.errors import StoreError
from forbear.ports import JournalLine, Row
from forbear.runtime.effects import Program, Save, belong, fetch, keep, load, put_row, read_clock, read_scope, save
from forbear.runtime.live import LiveTree
from forbear.runtime.notes import (
    KEYS_SCOPE,
    MAX_TURNS,
    PromptFacts,
    Ready,
    completions_row,
    count_of,
    link_row,
    policy_of,
    policy_row,
    policy_scope,
    prompt_of,
    prompt_rows,
    ready_row,
    result_key,
    result_row,
    run_scope,
    secret_row,
    turns_row,
)
from forbear.runtime.rows import run_row, tree_scope
from forbear.store.codec import to_us

if TYPE_CHECKING:
    from forbear.runtime.reply import Reply

# So often a decision is made again after somebody else committed first.
MAX_RACES: Final = 64

Frame = Callable[[LiveTree], Snapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A committed decision, with what the reply needs of the state after it."""

    decision: Decision
    live: LiveTree
    now: datetime
    # The action after the decision; None = an event of the tree.
    action: Action | None = None
    # The recorded result that is to be delivered.
    recorded: Row | None = None
    # The same where memory still has the very object.
    value: tuple[object] | None = None
    # What a settled attempt said, before the core made the answer of it.
    envelope: Envelope | None = None
    # How often the action has completed (known only where an idempotency key is declared).
    completions: int = 0
    # The attempt of this process that the call joins.
    flight: Future[Reply] | None = None
    # HALTED: tools that were completed in this turn, and what still waits.
    completed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    @property
    def execute(self) -> Execute | None:
        """Return the start that this decision ordered."""
        return next((command for command in self.decision.commands if isinstance(command, Execute)), None)

    @property
    def join(self) -> Join | None:
        """Return the open attempt whose result answers this call."""
        return next((command for command in self.decision.commands if isinstance(command, Join)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is the same for every procedure about one action."""

    root: str
    call: Call
    # Makes the core's view of the tree: policy of the event's tool, limits, owner, approver.
    frame: Frame
    policy: ToolPolicy
    request_id: str = ""
    actor: str = ""
    # The framework proposes an approved call again by itself.
    reproposes: bool = False
    # What a person adds to what the run is told about this action.
    note: str = ""


Extra = Callable[[LiveTree, Decision, datetime], tuple[Row, ...]]


class Leaves(Protocol):
    """What the end of an attempt leaves behind beside its decision."""

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Return the boundaries that the execution reached."""
        ...

    def piece(self, live: LiveTree, event: Event, now: datetime) -> Callable[[bytes], bytes] | None:
        """Return what makes a piece of evidence with the key of argument digests; None = there is nothing to keep."""
        ...


def _nothing(_live: LiveTree, _decision: Decision, _now: datetime) -> tuple[Row, ...]:
    return ()


def _decided(
    asked: Asked,
    event_at: Callable[[LiveTree, datetime], Event],
    *,
    attempt: int = 0,
    known: str = "",
    other: str = "",
    extra: Extra = _nothing,
    leaves: Leaves | None = None,
) -> Program[Decided]:
    call = asked.call
    actions = (call.action, other) if other else (call.action,)
    evidence = ""
    for _ in range(MAX_RACES):
        live = yield from load(asked.root, actions=actions, known=known, call=call)
        now = yield from read_clock()
        event = event_at(live, now)
        decision = decide(asked.frame(live), call.action, event, now)
        counted = None
        if asked.policy.idempotency_key is not None or isinstance(event, Inspected):
            counted = yield from fetch(tree_scope(asked.root), "completions", call.action)
        drops = _answered_now(asked, live, decision)
        if leaves is not None and not evidence and (piece := leaves.piece(live, event, now)) is not None:
            evidence = yield from keep(asked.request_id, piece)
        saved = yield from save(
            Save(
                live=live,
                decision=decision,
                now=now,
                event=type(event).__name__,
                call=call,
                attempt=attempt or _attempt_of(decision),
                policy=asked.policy.digest,
                request_id=asked.request_id or _request_of(decision),
                actor=asked.actor,
                observed=asked.policy.mode is Mode.OBSERVE,
                evidence=evidence,
                boundaries=() if leaves is None else leaves.boundaries,
                puts=(
                    *extra(live, decision, now),
                    *_completion(asked, decision, counted),
                    *_prompts(asked, live, decision),
                ),
                drops=drops,
                volatile=not drops and _is_volatile(live, call, decision),
            )
        )
        if saved:
            decided = yield from _with_result(asked, live, decision, now)
            return decided if counted is None else replace(decided, completions=count_of(counted))
    raise StoreError(f"the decision about tool {call.tool!r} lost {MAX_RACES} races against other writers")


def _with_result(asked: Asked, live: LiveTree, decision: Decision, now: datetime) -> Program[Decided]:
    """Read the recorded result that the decision delivers."""
    recorded = None
    value = None
    deliver = next((command for command in decision.commands if isinstance(command, Deliver)), None)
    if deliver is not None:
        key = result_key(deliver.action, deliver.attempt)
        value = live.value(key)
        if value is None:
            recorded = yield from fetch(tree_scope(asked.root), "result", key)
    action = live.actions.get(asked.call.action)
    join = next((command for command in decision.commands if isinstance(command, Join)), None)
    flight = None if join is None else live.flights.get((join.action, join.attempt))
    completed, pending = live.summary() if decision.answer is Answer.HALTED else ((), ())
    return Decided(
        decision=decision,
        live=live,
        now=now,
        action=action,
        recorded=recorded,
        value=value,
        flight=None if flight is None else flight.join(),
        completed=completed,
        pending=pending,
    )


def _answered_now(asked: Asked, live: LiveTree, decision: Decision) -> tuple[tuple[str, str, str], ...]:
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


def _completion(asked: Asked, decision: Decision, counted: Row | None) -> tuple[Row, ...]:
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


def _prompts(asked: Asked, live: LiveTree, decision: Decision) -> tuple[Row, ...]:
    """Remember of a new prompt how its grant is to be spent and how many came before."""
    rows: tuple[Row, ...] = ()
    for command in decision.commands:
        if isinstance(command, AskHuman):
            facts = PromptFacts(reproposes=asked.reproposes, before=live.prompts)
            rows = (*rows, *prompt_rows(asked.root, command.ticket, facts))
    return rows


def _attempt_of(decision: Decision) -> int:
    for command in decision.commands:
        if isinstance(command, (Execute, Deliver, Join)):
            return command.attempt
    return 0


def _request_of(decision: Decision) -> str:
    return decision.told.request_id if decision.told is not None else ""


def _is_volatile(live: LiveTree, call: Call, decision: Decision) -> bool:
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


# ---- procedures -----------------------------------------------------------------------------------------------------


def propose(asked: Asked, *, ticket: str) -> Program[Decided]:
    """Decide about a proposed call."""
    call = asked.call

    def event(_live: LiveTree, _now: datetime) -> Event:
        return Proposed(call=call, reproposes=asked.reproposes, ticket=ticket, request_id=asked.request_id)

    return (
        yield from _decided(
            asked, event, known=known_key(call.run, call.step, call.call_id, call.fingerprint) if call.call_id else ""
        )
    )


def settle(
    asked: Asked,
    attempt: int,
    *,
    judge: Callable[[datetime], Returned],
    result: bytes | None,
    value: tuple[object] | None,
    announce: bool,
    leaves: Leaves | None = None,
) -> Program[Decided]:
    """Judge what an attempt returned, decide, and keep the result and the announcement in the same commit."""
    judged: list[Returned] = []

    def event(_live: LiveTree, now: datetime) -> Event:
        judged[:] = [judge(now)]
        return judged[0]

    def extra(live: LiveTree, decision: Decision, now: datetime) -> tuple[Row, ...]:
        # Whoever waits for this attempt gets its answer from here; after the call was told "unknown", nobody waits.
        told_here = announce or decision.rule is not Rule.RETURNED_LATE
        rows = _announced(asked.root, live, decision, now, skip=asked.call.action if told_here else "")
        if result is not None and judged[0].kept and _completes(decision, asked.call.action, attempt):
            rows = (*rows, result_row(asked.root, asked.call.action, attempt, result))
        if announce and decision.answer in _FINAL and decision.told is not None:
            rows = (*rows, _ready_row(asked.root, asked.call, attempt, decision, decision.told, now))
        return rows

    decided = yield from _decided(asked, event, attempt=attempt, extra=extra, leaves=leaves)
    envelope = judged[0].envelope
    if value is not None and envelope.outcome in COMPLETED and decided.decision.answer is Answer.EXECUTED:
        decided.live.remember_value(asked.call.run, asked.call.step, result_key(asked.call.action, attempt), value[0])
    return replace(decided, envelope=envelope)


# Answers after which the run need not wait any more for this call.
_FINAL: Final = frozenset({Answer.EXECUTED, Answer.DELIVERED, Answer.BLOCKED, Answer.STOPPED, Answer.HALTED})


def _completes(decision: Decision, action: str, attempt: int) -> bool:
    for change in decision.changes:
        if isinstance(change, Action) and change.key == action:
            phase = change.phase
            return not isinstance(phase, Completed) or phase.attempt == attempt
    return False


def tell(
    asked: Asked, event: Event, *, attempt: int = 0, here: bool = False, leaves: Leaves | None = None
) -> Program[Decided]:
    """Feed an event that carries everything it needs: wake, answers of a person, verdicts, loss, cancellation.

    `here` = a caller gets the answer about this action, so the run is not told it again later.
    """

    def event_at(_live: LiveTree, _now: datetime) -> Event:
        return event

    def extra(live: LiveTree, decision: Decision, now: datetime) -> tuple[Row, ...]:
        skip = asked.call.action if here else ""
        return _announced(asked.root, live, decision, now, skip=skip, note=asked.note)

    # An edit touches the action that the person wrote, too.
    other = event.call.action if isinstance(event, Edited) else ""
    return (yield from _decided(asked, event_at, attempt=attempt, other=other, extra=extra, leaves=leaves))


def tell_tree(
    root: str,
    frame: Frame,
    event_at: Callable[[datetime], TreeEvent],
    *,
    run: str = "",
    turn: str = "",
    actor: str = "",
) -> Program[Decided | None]:
    """Feed an event of the tree. `turn` is the digest of an opaque turn id; one that was seen before changes nothing."""
    for _ in range(MAX_RACES):
        live = yield from load(root)
        if turn and turn in live.turns:
            return None
        now = yield from read_clock()
        event = event_at(now)
        decision = decide_tree(frame(live), event, now)
        puts = _announced(root, live, decision, now)
        if turn:
            puts = (*puts, turns_row(root, (*live.turns, turn)[-MAX_TURNS:]))
        effect = Save(
            live=live,
            decision=decision,
            now=now,
            event=type(event).__name__,
            run=run or root,
            request_id=_request_of(decision),
            actor=actor,
            puts=puts,
        )
        if (yield from save(effect)):
            return Decided(decision=decision, live=live, now=now)
    raise StoreError(f"a decision about run {run or root!r} lost {MAX_RACES} races against other writers")


def adopt(root: str, run: str, parent: str) -> Program[bool]:
    """Make a run the child of a run of this tree, once; False = it belongs to another tree already."""
    for _ in range(MAX_RACES):
        live = yield from load(root)
        if run in live.runs:
            return True
        link = yield from fetch(run_scope(run), "link", run)
        if link is not None:
            return link.body.decode() == root
        now = yield from read_clock()
        child = Run(id=run, parent=parent)
        puts = (run_row(root, child), link_row(run, root))
        if (
            yield from save(Save(live=live, now=now, event="adopt", runs=(child,), puts=puts, first=(run_scope(run),)))
        ):
            return True
    raise StoreError(f"run {run!r} lost {MAX_RACES} races against other writers")


def look(root: str, key: str) -> Program[Action | None]:
    """Return an action as it is now."""
    live = yield from load(root, actions=(key,))
    return live.actions.get(key)


def actions_of(root: str) -> Program[tuple[Action, ...]]:
    """Return the actions of a tree that are in memory: everything that is open, waiting or held."""
    live = yield from load(root)
    return tuple(live.actions.values())


def parent_of(root: str, run: str) -> Program[str | None]:
    """Return the parent of a run of the tree, or None."""
    live = yield from load(root)
    found = live.runs.get(run)
    return None if found is None else found.parent


def is_halted(root: str, run: str) -> Program[bool]:
    """Say whether a run's tool use is over."""
    live = yield from load(root)
    found = live.runs.get(run)
    return found is not None and found.halted is not None


def unknowns(root: str) -> Program[tuple[Action, ...]]:
    """Return the actions of a tree that may have happened."""
    live = yield from load(root)
    return tuple(action for action in live.actions.values() if isinstance(action.phase, Unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run was found in the store."""

    # Root of the tree that it was entered into; None = none.
    link: str | None
    # It has a tree of its own.
    is_root: bool


def find_root(run: str) -> Program[Place]:
    """Return what the store knows about where a run belongs."""
    link = yield from fetch(run_scope(run), "link", run)
    if link is not None:
        return Place(link=link.body.decode(), is_root=False)
    tree = yield from fetch(tree_scope(run), "tree", run)
    return Place(link=None, is_root=tree is not None)


def own(root: str, principal: str) -> Program[bool]:
    """Let a new tree draw from this principal; False = it draws from another one."""
    live = yield from load(root)
    if live.tree.principal == principal:
        return True
    if live.version or live.runs:
        return False
    yield from belong(live, principal)
    return True


def keep_secret(new: bytes) -> Program[bytes]:
    """Return the store's key of idempotency keys; `new` becomes it where there is none."""
    row = yield from fetch(KEYS_SCOPE, "secret", "idempotency")
    # The loser of a race reads the winner's.
    if row is None and not (yield from put_row(secret_row(new))):
        row = yield from fetch(KEYS_SCOPE, "secret", "idempotency")
    return new if row is None else row.body


POLICY_NEW: Final = "policy.noted"
POLICY_CHANGED: Final = "policy.changed"


def note_policy(policy: ToolPolicy) -> Program[None]:
    """Remember what was declared about a tool; a policy with another digest than last time is journalled."""
    scope = policy_scope(policy.name)
    for _ in range(MAX_RACES):
        found = yield from read_scope(scope)
        new = policy_row(policy)
        old = next((row for row in found.rows if row.kind == "policy"), None)
        if old is not None and old.body == new.body:
            return
        now = yield from read_clock()
        line = JournalLine(
            at_us=to_us(now),
            scope=scope,
            run="",
            rule=POLICY_NEW if old is None else POLICY_CHANGED,
            tool=policy.name,
            action="",
            request_id="",
            body=new.body,
        )
        if (yield from put_row(new, version=found.version, journal=(line,))):
            return


def noted_policy(tool: str, limits: Limits) -> Program[ToolPolicy | None]:
    """Return a tool as it was last declared by anybody."""
    found = yield from read_scope(policy_scope(tool))
    row = next((row for row in found.rows if row.kind == "policy"), None)
    return None if row is None else policy_of(row, limits)


def prompt_facts(root: str, ticket: str) -> Program[PromptFacts]:
    """Return what is remembered of a prompt."""
    return prompt_of((yield from fetch(tree_scope(root), "prompt", ticket)))


def hand_out(root: str, run: str) -> Program[tuple[tuple[Ready, Row | None], ...]]:
    """Return the results that became ready for a run, each once, with what was recorded of them."""
    for _ in range(MAX_RACES):
        live = yield from load(root)
        mine = tuple(ready for _, ready in sorted(live.ready.items()) if ready.run == run)
        if not mine:
            return ()
        found: list[tuple[Ready, Row | None]] = []
        for ready in mine:
            row = yield from fetch(tree_scope(root), "result", result_key(ready.action, ready.attempt))
            found.append((ready, row))
        now = yield from read_clock()
        drops = tuple((tree_scope(root), "ready", ready.key) for ready in mine)
        if (yield from save(Save(live=live, now=now, event="hand_out", drops=drops))):
            return tuple(found)
    raise StoreError(f"the results of run {run!r} lost {MAX_RACES} races against other writers")


# ---- what a run is told later ---------------------------------------------------------------------------------------


def _announced(
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
            rows.append(_ready_row(root, command.call or action.call, _last_attempt(action), decision, told, now))
    return tuple(rows)


def _last_attempt(action: Action) -> int:
    return action.phase.attempt if isinstance(action.phase, Completed) else action.attempts


def _ready_row(root: str, call: Call, attempt: int, decision: Decision, told: Envelope, now: datetime) -> Row:
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
