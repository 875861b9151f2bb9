"""What a decision needs to know beforehand: where a run belongs, its turn, dead attempts of its tree, keys, policies.

Flows like those in `flows.py`; nothing is decided about a call here.
"""

from __future__ import annotations

from typing import Final

from forbear.core.events import Lost, TurnBegan
from forbear.core.identity import digest
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, Running
from forbear.errors import UsageError
from forbear.ports import Row
from forbear.runtime.drift import note_policy
from forbear.runtime.ends import end_flow
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.lookups import actions_of, adopt, find_root, keep_secret, look, own
from forbear.runtime.perform import INSIDE
from forbear.runtime.program import tell, tell_tree
from forbear.runtime.rows import stored
from forbear.runtime.steps import (
    Flow,
    transact,
)

MAX_ROOTS: Final = 100_000


# ---- where a run belongs --------------------------------------------------------------------------------------------


def place_flow(engine: Engine, run: str, parent: str | None, principal: str | None) -> Flow[str]:
    """Return the root of a run's tree; the first sight of a child run enters it there.

    Raises:
        UsageError: the run belongs to another tree, or its tree draws from another principal.
    """
    root = engine.roots.get(run)
    if root is None:
        root = yield from _find_root(engine, run, parent)
        if len(engine.roots) >= MAX_ROOTS:
            engine.roots.clear()
        engine.roots[run] = root
    elif parent is not None and (parent == run or (yield from place_flow(engine, parent, None, None)) != root):
        raise UsageError(f"run {run!r}: belongs to the tree of {root!r}, its parent must be one of that tree")
    if principal is not None and root == run and not (yield from transact(own(root, principal), root)):
        raise UsageError(f"run {run!r}: draws from another principal already")
    return root


def _find_root(engine: Engine, run: str, parent: str | None) -> Flow[str]:
    inside = INSIDE.get()
    outer = inside if inside is not None and inside.owner is engine and inside.run != run else None
    found = yield from transact(find_root(run), None)
    if parent is None and outer is None:
        return found.link or run
    if found.link is not None:
        if parent is not None and (yield from place_flow(engine, parent, None, None)) != found.link:
            raise UsageError(f"run {run!r}: belongs to the tree of {found.link!r}")
        return found.link
    if parent is None:
        assert outer is not None
        if found.is_root:
            # It was a run of its own before it was started from inside a call, and stays one.
            return run
        parent, root = outer.run, outer.root
    elif parent == run:
        raise UsageError(f"run {run!r}: cannot be its own parent")
    else:
        if found.is_root:
            raise UsageError(f"run {run!r}: was started without a parent and cannot get one")
        root = yield from place_flow(engine, parent, None, None)
    if not (yield from transact(adopt(root, run, parent), root)):
        raise UsageError(f"run {run!r}: belongs to another tree")
    return root


def turn_flow(engine: Engine, root: str, turn: str | None) -> Flow[bool]:
    """Begin a turn of the root run; an opaque id that was seen before begins nothing."""
    mark = "" if turn is None else digest("turn", turn)
    live = engine.world.peek(root)
    if mark and live is not None and mark in live.turns:
        return False
    frame = engine.frame(ToolPolicy(name=""))
    program = tell_tree(root, frame, lambda now: TurnBegan(at=now), turn=mark)
    began = (yield from transact(program, root)) is not None
    live = engine.world.peek(root)
    if live is not None and turn is not None:
        live.lane.turn_began(turn)
    return began


def recover_flow(engine: Engine, root: str) -> Flow[None]:
    """Take notice of the tree's attempts whose process died, and settle what the store could not take before."""
    for row in engine.lost_of(root):
        yield from _lost_flow(engine, root, row)
        engine.noticed(root, row)
    while engine.unsettled:
        attempt, ended = engine.unsettled.popleft()
        yield from end_flow(engine, attempt, ended)


def _lost_flow(engine: Engine, root: str, row: Row) -> Flow[None]:
    """Take notice of one action whose process died; a caller beside this one may have done so meanwhile."""
    lost = stored(row, Action)
    action = yield from transact(look(root, lost.key), root)
    if action is None or not isinstance(action.phase, Running):
        return
    policy = engine.tools.known_policy(action.call.tool)
    for started in action.phase.open:
        if started.owner != row.owner:
            continue
        request_id = engine.ids.request_id()
        asked = engine.asked(root, action.call, policy, request_id=request_id)
        event = Lost(attempt=started.attempt, ticket=engine.ids.ticket(), request_id=request_id)
        engine.answer((yield from transact(tell(asked, event, attempt=started.attempt), root)), asked)


# ---- propose --------------------------------------------------------------------------------------------------------


def ready_flow(engine: Engine, ask: Ask, policy: ToolPolicy) -> Flow[str]:
    """Know what a decision needs to know beforehand: the run's place, dead attempts of its tree, the noted policy."""
    root = yield from place_flow(engine, ask.run, ask.parent, ask.principal)
    yield from recover_flow(engine, root)
    yield from note_flow(engine, policy)
    return root


def note_flow(engine: Engine, policy: ToolPolicy) -> Flow[None]:
    """Let the store know what is declared about a tool, once; nothing of the tool starts before.

    Raises:
        NotOperator: the policy is looser than what the store has, which needs the operator token of the store.
    """
    if engine.noted.get(policy.name) != policy.digest:
        program = note_policy(policy, engine.limits, token=engine.token, ids=engine.ids)
        yield from transact(program, None)
        engine.noted[policy.name] = policy.digest


def prepare_flow(engine: Engine, ask: Ask, policy: ToolPolicy) -> Flow[None]:
    """Make a run and its tree known here, so that its next reads need not look anything up."""
    root = yield from ready_flow(engine, ask, policy)
    if ask.turn is not None and ask.run == root:
        yield from turn_flow(engine, root, ask.turn)
    yield from transact(actions_of(root), root)


def secret_flow(engine: Engine) -> Flow[None]:
    """Load the key of idempotency keys, or make it; it is the same for every process on the store."""
    if not engine.has_secret():
        new = (engine.ids.request_id() + engine.ids.ticket()).encode()
        engine.use_secret((yield from transact(keep_secret(new), None)))
