"""Procedures that decide nothing: where a run belongs, what is known, what waits to be handed out.

Generators of effects like those in `program.py`; what they store is the runtime's own (notes.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from forbear.core.decision import PutKnown
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.states import Action, Completed, Known, Run, Unknown, known_key, step_key
from forbear.core.values import Call
from forbear.core.vocabulary import COMPLETED
from forbear.errors import StoreError
from forbear.ports import Row
from forbear.runtime.effects import Program, Save, belong, fetch, load, put_row, read_clock, read_scope, save
from forbear.runtime.notes import (
    KEYS_SCOPE,
    PromptFacts,
    Ready,
    link_row,
    prompt_of,
    result_key,
    result_row,
    run_scope,
    secret_row,
)
from forbear.runtime.policy_rows import KIND, policy_of, policy_scope
from forbear.runtime.program import MAX_RACES
from forbear.runtime.rows import run_row, tree_scope


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


def remember(root: str, call: Call, body: bytes) -> Program[bool]:
    """Keep the result of a read that completed, so that this very call is answered from the record; False = it did not."""
    key = known_key(call.run, call.step, call.call_id, call.fingerprint)
    for _ in range(MAX_RACES):
        live = yield from load(root, actions=(call.action,), known=key, call=call)
        known = live.known.get(key)
        if known is None or known.completed:
            return known is not None
        action = live.actions.get(known.action)
        if action is None or not isinstance(action.phase, Completed) or action.phase.attempt != known.attempt:
            return False
        now = yield from read_clock()
        said = PutKnown(key=key, known=replace(known, completed=True))
        result = result_row(root, known.action, known.attempt, body)
        if (yield from save(Save(live=live, now=now, event="keep", remembers=(said,), puts=(result,)))):
            return True
    raise StoreError(f"run {call.run!r} lost {MAX_RACES} races against other writers")


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


def read_in(root: str, run: str, step: str) -> Program[bool]:
    """Say whether a read of the step that a run is in succeeded the short way."""
    live = yield from load(root)
    done = [entry.done for entry in live.lane.valued.get(run, ())]
    return any(flight is not None and flight.step == step for flight in done)


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


def noted_policy(tool: str, limits: Limits) -> Program[ToolPolicy | None]:
    """Return a tool as it was last declared by anybody."""
    found = yield from read_scope(policy_scope(tool))
    row = next((row for row in found.rows if row.kind == KIND), None)
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
        rows: list[Row | None] = []
        for ready in mine:
            row = yield from _recorded(root, ready)
            rows.append(row)
        now = yield from read_clock()
        if (yield from save(Save(live=live, now=now, event="hand_out", drops=_drops(root, mine)))):
            return tuple(zip(mine, rows, strict=True))
    raise StoreError(f"the results of run {run!r} lost {MAX_RACES} races against other writers")


def hand_over(root: str, call: Call) -> Program[tuple[Ready, Row | None] | None]:
    """Return the completed result of an equal call that became ready for its run, as the answer to this call.

    It is remembered as that: the same call again, and equal ones of its step, have this answer too, and for the author's
    `repeatable = False` it counts as a success of this turn.
    """
    for _ in range(MAX_RACES):
        live = yield from load(root, actions=(call.action,))
        mine = tuple(
            ready
            for _, ready in sorted(live.ready.items())
            if ready.run == call.run and ready.action == call.action and ready.told.outcome in COMPLETED
        )
        if not mine:
            return None
        last = mine[-1]
        row = yield from _recorded(root, last)
        now = yield from read_clock()
        remembers = _answered_by(live.actions.get(call.action), last, call, live.tree.turn)
        if (
            yield from save(
                Save(live=live, now=now, event="hand_over", remembers=remembers, drops=_drops(root, mine), call=call)
            )
        ):
            return last, row
    raise StoreError(f"the results of run {call.run!r} lost {MAX_RACES} races against other writers")


def _answered_by(action: Action | None, ready: Ready, call: Call, turn: int) -> tuple[PutKnown | Action, ...]:
    """Return what is remembered of a call that a result which became ready answers."""
    told: list[PutKnown | Action] = []
    if call.call_id:
        key = known_key(call.run, call.step, call.call_id, call.fingerprint)
        told.append(PutKnown(key=key, known=Known(action=ready.action, attempt=ready.attempt, completed=True)))
    if action is not None and isinstance(action.phase, Completed) and action.phase.attempt == ready.attempt:
        here = replace(action.phase, step=step_key(call.run, call.step), turn=turn)
        told.append(replace(action, phase=here))
    return tuple(told)


def _recorded(root: str, ready: Ready) -> Program[Row | None]:
    return (yield from fetch(tree_scope(root), "result", result_key(ready.action, ready.attempt)))


def _drops(root: str, handed: tuple[Ready, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((tree_scope(root), "ready", ready.key) for ready in handed)
