"""The working set: run trees decoded from the store, kept while they are used, and the effects that programs ask for.

Stored state is the truth: a tree is read again after another writer committed (`Store.generation`, `StaleWrite`). Only
reads that nobody else needs to know of live here alone. No rule and no tool call is in this file.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from dataclasses import replace
from itertools import count
from typing import Final

from forbear.audit.evidence import LOST, EvidenceStore
from forbear.core.decision import Decision, PutKnown
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Hold,
    Known,
    Parked,
    Run,
    Tree,
    Unknown,
    Waiting,
)
from forbear.errors import StaleWrite, StoreError
from forbear.ports import Clock, Commit, Row, Store
from forbear.runtime.batch import Batch, Pending, lines_of_waiting, phases_of
from forbear.runtime.effects import Belong, Effect, Fetch, Keep, Load, PutRow, ReadClock, ReadScope, Save
from forbear.runtime.giveback import give_all_back, give_back
from forbear.runtime.live import LiveTree, Shared
from forbear.runtime.notes import Ready, count_of, ready_of, turns_of
from forbear.runtime.observing import Observing
from forbear.runtime.rows import (
    action_row,
    change_rows,
    known_id,
    known_row,
    principal_scope,
    run_row,
    stored,
    tree_row,
    tree_scope,
)

# Phases that another process may end, too.
WAITS: Final = (Waiting, Parked, AwaitingApproval, Approved, Unknown)
# Trees beyond this many are dropped from memory, the longest unused first.
MAX_TREES: Final = 1024


class WorkingSet:
    """The trees of one controller in memory, over one store."""

    def __init__(self, store: Store, clock: Clock, *, max_trees: int = MAX_TREES) -> None:
        self.store = store
        self.clock = clock
        self._max_trees = max_trees
        self._trees: dict[str, LiveTree] = {}
        self._uses = count()
        self._shared: dict[str, Shared] = {}
        self._lock = threading.Lock()
        self._generation = store.generation()
        self._epoch = 0
        # Decisions about reads that wait for the next commit of anybody.
        self.batch = Batch(store)
        # Where exception texts, header fields and bodies are kept; None = nowhere.
        self.evidence: EvidenceStore | None = None
        self._warned = False
        # Results that became ready and that nobody was called about yet.
        self.fresh_ready: deque[tuple[str, Ready]] = deque(maxlen=MAX_TREES)
        # Who is told of decisions; None = nobody.
        self.observing: Observing | None = None

    # ---- entering a tree --------------------------------------------------------------------------------------------

    def enter(self, root: str) -> LiveTree:
        """Return a tree with its lock held; the caller releases it. The tree may be new, and is not loaded yet."""
        while True:
            live = self._trees.get(root)
            if live is None:
                live = self._create(root)
            live.lock.acquire()
            if not live.evicted:
                live.used = next(self._uses)
                return live
            live.lock.release()

    def _create(self, root: str) -> LiveTree:
        with self._lock:
            found = self._trees.get(root)
            if found is not None:
                return found
            live = LiveTree(root=root, tree=Tree(root=root, principal=root), shared=Shared(principal=root))
            live.used = next(self._uses)
            self._trees[root] = live
            if len(self._trees) > self._max_trees:
                self._evict()
            return live

    def _evict(self) -> None:
        """Drop the longest unused trees that nobody is in; their read counters go with them."""
        by_use = sorted(self._trees.values(), key=lambda live: live.used)
        for old in by_use[: len(self._trees) - self._max_trees + self._max_trees // 8]:
            root = old.root
            if not old.flights and old.lock.acquire(blocking=False):
                old.evicted = True
                del self._trees[root]
                old.lock.release()
        used = {live.tree.principal for live in self._trees.values()}
        for principal in [name for name in self._shared if name not in used]:
            del self._shared[principal]

    def peek(self, root: str) -> LiveTree | None:
        """Return a tree that is in memory, without its lock."""
        return self._trees.get(root)

    def waiting_roots(self) -> list[str]:
        """Return the roots of the trees in memory in which something waits for a person or the clock."""
        return [
            live.root
            for live in list(self._trees.values())
            if any(isinstance(action.phase, WAITS) for action in list(live.actions.values()))
        ]

    # ---- effects ----------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> object:
        """Perform one effect of a program; the lock of the program's tree is held.

        Raises:
            StoreError: the store cannot be read or written.
        """
        match effect:
            case Load():
                return self._load(effect)
            case ReadClock():
                return self.clock.now()
            case Fetch():
                return self.store.fetch(effect.scope, effect.kind, effect.key)
            case Keep():
                return self._keep(effect)
            case Save():
                return self._save(effect)
            case Belong():
                self._belong(effect.live, effect.principal)
                return None
            case ReadScope():
                return self.store.load(effect.scope)
            case PutRow():
                return self._put_row(effect)

    def _load(self, effect: Load) -> LiveTree:
        live = self._trees[effect.root]
        self.refresh(live)
        give_back(live, effect.call)
        if not live.complete:
            self._fetch(live, effect)
        return live

    def is_current(self, live: LiveTree) -> bool:
        """Say whether no other process has committed since this tree was read."""
        return self.store.generation() == self._generation and self.is_fresh(live)

    def is_fresh(self, live: LiveTree) -> bool:
        """Say whether a tree was read since this process last noticed another one's commit."""
        return live.epoch == self._epoch and live.shared.epoch == self._epoch

    def refresh(self, live: LiveTree) -> None:
        """Read a tree again where another process has committed since it was read."""
        generation = self.store.generation()
        if generation != self._generation:
            self._generation = generation
            self._epoch += 1
        if live.epoch != self._epoch:
            self._read(live)
        if live.shared.epoch != self._epoch:
            self._read_shared(live.shared)

    def _read(self, live: LiveTree) -> None:
        epoch = self._epoch
        found = self.store.load(tree_scope(live.root))
        if live.loaded and found.version == live.version:
            # What was committed concerns other trees.
            live.epoch = epoch
            return
        give_all_back(live)
        first, live.loaded = not live.loaded, True
        stored_tree: Tree | None = None
        runs: dict[str, Run] = {}
        actions: dict[str, Action] = {}
        holds: dict[str, Hold] = {}
        live.turns = ()
        live.prompts = 0
        told, live.ready = live.ready, {}
        for row in found.rows:
            match row.kind:
                case "tree":
                    stored_tree = stored(row, Tree)
                case "run":
                    run = stored(row, Run)
                    runs[run.id] = run
                case "action":
                    action = stored(row, Action)
                    actions[action.key] = action
                case "hold":
                    hold = stored(row, Hold)
                    holds[hold.key] = hold
                case "turns":
                    live.turns = turns_of(row)
                case "ready":
                    ready = ready_of(row)
                    live.ready[ready.key] = ready
                case "prompts":
                    live.prompts = count_of(row)
                case _:
                    raise StoreError(f"a live row of kind {row.kind!r} is not known")
        # Memory is ahead of the store for reads; what somebody else wrote since then wins.
        if stored_tree is not None and stored_tree != live.stored_tree:
            live.tree = stored_tree
        for key, run in runs.items():
            if run != live.stored_runs.get(key):
                live.runs[key] = run
        live.volatile.difference_update(actions)
        live.actions = {key: live.actions[key] for key in live.volatile if key in live.actions} | actions
        live.known = {key: live.known[key] for key in live.volatile_known if key in live.known}
        live.holds = holds
        live.stored_tree, live.stored_runs = stored_tree, runs
        if not first:
            # What another process made ready; what the store held when this one came is in the inbox alone.
            self.fresh_ready.extend((live.root, ready) for key, ready in sorted(live.ready.items()) if key not in told)
        live.version, live.epoch = found.version, epoch
        live.complete = first and found.version == 0
        live.absent.clear()
        live.shared = self._shared_of(live.tree.principal)
        live.forget_merged()

    def _shared_of(self, principal: str) -> Shared:
        with self._lock:
            found = self._shared.get(principal)
            if found is None:
                found = self._shared[principal] = Shared(principal=principal)
            return found

    def _read_shared(self, shared: Shared) -> None:
        epoch = self._epoch
        found = self.store.load(principal_scope(shared.principal))
        holds = {hold.key: hold for hold in (stored(row, Hold) for row in found.rows if row.kind == "hold")}
        with self._lock:
            shared.version, shared.holds, shared.epoch = found.version, holds, epoch

    def _belong(self, live: LiveTree, principal: str) -> None:
        live.tree = Tree(root=live.root, principal=principal)
        live.shared = self._shared_of(principal)
        live.forget_merged()
        self.refresh(live)

    def _put_row(self, effect: PutRow) -> bool:
        row = effect.row
        try:
            self.store.commit(Commit(expected={row.scope: effect.version}, puts=(row,), journal=effect.journal))
        except StaleWrite:
            return False
        return True

    def _keep(self, effect: Keep) -> str:
        """Write a piece of evidence. Never raises: the decision that it belongs to is committed with or without it."""
        if self.evidence is None:
            return ""
        try:
            return self.evidence.keep(effect.request_id, effect.make(self.evidence.key()))
        except Exception as error:  # noqa: BLE001 - whatever it is, no decision is lost by it
            if not self._warned and not effect.quiet:
                self._warned = True
                warnings.warn(
                    f"evidence cannot be written ({type(error).__name__}): calls are decided about and journalled all the "
                    "same, and the lines say that their evidence is lost",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return LOST

    def _fetch(self, live: LiveTree, effect: Load) -> None:
        scope = tree_scope(live.root)
        for key in effect.actions:
            if key not in live.actions and key not in live.absent:
                row = self.store.fetch(scope, "action", key)
                if row is None:
                    live.absent.add(key)
                else:
                    live.actions[key] = stored(row, Action)
        if effect.known and effect.known not in live.known and effect.known not in live.absent:
            row = self.store.fetch(scope, "known", known_id(effect.known))
            if row is None:
                live.absent.add(effect.known)
            else:
                live.known[effect.known] = stored(row, Known)

    # ---- saving -----------------------------------------------------------------------------------------------------

    def _save(self, effect: Save) -> bool:
        if effect.decision is None:
            return self._commit(effect, None)
        pending = Pending(effect, effect.decision, phases_of(effect, effect.decision))
        noted = None if self.observing is None else self.observing.look(effect, pending)
        if effect.volatile:
            if pending.starts:
                self.batch.make_room()
            self._apply(effect)
            self.batch.lines.append(pending)
        elif not self._commit(effect, pending):
            return False
        if noted is not None and self.observing is not None:
            self.observing.committed(noted)
        return True

    def _commit(self, effect: Save, pending: Pending | None) -> bool:
        live = effect.live
        scope, shared_scope = tree_scope(live.root), principal_scope(live.tree.principal)
        puts: list[Row] = []
        drops: list[tuple[str, str, str]] = []
        if effect.decision is not None:
            puts, drops = change_rows(live.root, live.tree.principal, effect.decision)
        if effect.observed:
            puts = [replace(row, due_us=None) if row.due_us is not None else row for row in puts]
        puts.extend(effect.puts)
        for said in effect.remembers:
            if isinstance(said, PutKnown):
                puts.append(known_row(live.root, said.key, said.known))
            else:
                puts.append(action_row(live.root, said))
        drops.extend(effect.drops)
        if puts or drops:
            self._add_ahead(live, puts, scope)
        lines = self.batch.take()
        shared_version = live.shared.version
        change = Commit(
            expected={scope: live.version, shared_scope: shared_version, **dict.fromkeys(effect.first, 0)},
            puts=tuple(puts),
            drops=tuple(drops),
            journal=lines_of_waiting(lines if pending is None else [*lines, pending]),
        )
        try:
            self.store.commit(change)
        except StaleWrite:
            self.batch.put_back(lines)
            live.epoch = live.shared.epoch = -1
            return False
        except BaseException:
            self.batch.put_back(lines)
            # Whether it was written is not known: the store is asked before the next decision.
            live.epoch = live.shared.epoch = -1
            raise
        written = {row.scope for row in puts} | {drop[0] for drop in drops}
        if scope in written:
            live.version += 1
        self._apply(effect, shared_version + 1 if shared_scope in written else 0)
        self._note_stored(live, puts)
        if lines and self.batch.on_written is not None:
            self.batch.on_written(lines)
        return True

    def _add_ahead(self, live: LiveTree, puts: list[Row], scope: str) -> None:
        """Store what reads changed in memory with the next commit of their tree."""
        there = {(row.kind, row.key) for row in puts if row.scope == scope}
        if ("tree", live.root) not in there and live.tree != live.stored_tree:
            puts.append(tree_row(live.tree))
        for key, run in live.runs.items():
            if ("run", key) not in there and run != live.stored_runs.get(key):
                puts.append(run_row(live.root, run))

    def _note_stored(self, live: LiveTree, puts: list[Row]) -> None:
        for row in puts:
            if row.scope != tree_scope(live.root):
                continue
            if row.kind == "tree":
                live.stored_tree = live.tree
            elif row.kind == "run":
                live.stored_runs[row.key] = live.runs[row.key]
            elif row.kind == "action":
                live.volatile.discard(row.key)

    def _apply(self, effect: Save, shared_version: int = 0) -> None:
        live = effect.live
        shared = None
        if effect.decision is not None:
            shared = live.apply(effect.decision)
            if effect.volatile:
                _mark_volatile(live, effect.decision)
        for run in effect.runs:
            live.runs[run.id] = run
        for said in effect.remembers:
            if isinstance(said, PutKnown):
                live.known[said.key] = said.known
                live.volatile_known.discard(said.key)
            else:
                live.actions[said.key] = said
        with self._lock:
            # Another tree of the principal may have read this very commit back from the store already.
            if shared_version > live.shared.version:
                live.shared.version = shared_version
                live.shared.holds = live.shared.holds if shared is None else shared
        for row in effect.puts:
            if row.kind == "turns":
                live.turns = turns_of(row)
            elif row.kind == "prompts":
                live.prompts = count_of(row)
            elif row.kind == "ready":
                ready = ready_of(row)
                live.ready[ready.key] = ready
                self.fresh_ready.append((live.root, ready))
        for _, kind, key in effect.drops:
            if kind == "ready":
                live.ready.pop(key, None)


def _mark_volatile(live: LiveTree, decision: Decision) -> None:
    for change in decision.changes:
        if isinstance(change, Action):
            live.volatile.add(change.key)
        elif isinstance(change, PutKnown):
            live.volatile_known.add(change.key)
