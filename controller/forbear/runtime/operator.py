"""`Operator`: what a person sees of a store and answers. It decides and commits like everybody, and executes nothing.

It works in the agent's process and in any other process on the same store; there it knows of a tool what the agent's
process last noted (names, no functions).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from forbear.contract import lint_text
from forbear.core.events import Denied, Edited, Event, Granted, Inspected, Lifted, Revised
from forbear.core.identity import canonical
from forbear.core.policy import ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Action, AwaitingApproval, Hold, Unknown
from forbear.core.vocabulary import Verdict
from forbear.errors import StoreError, UsageError
from forbear.ports import Clock, Ids, Row
from forbear.runtime.calls import frozen_arguments, rebuilt
from forbear.runtime.controller import Controller
from forbear.runtime.display import MAX_SHOWN, Shown, shown
from forbear.runtime.drift import allow_policy
from forbear.runtime.engine import Engine
from forbear.runtime.lookups import prompt_facts
from forbear.runtime.overview import RunView, run_view_flow
from forbear.runtime.pending import KINDS, POLICY, Pending, is_listed, pending_flow, policy_flow
from forbear.runtime.perform import run_flow
from forbear.runtime.places import place_flow
from forbear.runtime.program import tell, tell_tree
from forbear.runtime.reply import Reply
from forbear.runtime.rows import stored
from forbear.runtime.steps import Flow, transact
from forbear.runtime.token import check_token, has_token, may_answer, new_token, random_key, set_token
from forbear.store.sqlite import MEMORY

T = TypeVar("T")

STALE: Final = frozenset({Rule.ANSWER_STALE, Rule.VERDICT_STALE, Rule.LIFTED_NOTHING})


def _must_exist(at: str | os.PathLike[str]) -> None:
    """Reject the path of a store that is not there; what a URL names, its package knows."""
    path = os.fspath(at)
    if "://" not in path and path != MEMORY and not os.path.exists(path):  # noqa: PTH110 - a text stays a text
        raise StoreError(f"store {path!r}: is not there; a controller or 'forbear init' makes it")


class _EventOf(Protocol):
    """Makes the answer's event for the action that was asked about."""

    def __call__(self, action: Action, actor: str, *, again: bool) -> Event: ...


class Operator:
    """A person's side of one store.

    Args:
        at: The controller of this process, or the path or URL of a store.
        actor: Name under which answers are recorded.
        token: The operator token of the store. Where the store has one (`forbear init`), every answer needs it, from
            outside the agent's reach; where it has none, the embedding application is the operator.
        clock: The time, where `at` is a path; a test passes its own.
        ids: Request ids and tickets, likewise.

    Raises:
        NotOperator: a token was passed and it is not that of the store.
        StoreError: the store cannot be opened, or there is none at this path: an empty one would show that nothing waits.
    """

    def __init__(
        self,
        at: Controller | str | os.PathLike[str],
        *,
        actor: str = "operator",
        token: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._own: Controller | None = None
        if not isinstance(at, Controller):
            _must_exist(at)
            at = self._own = Controller.open(at, clock=clock, ids=ids, worker=False)
        self._engine: Engine = at.engine
        self._actor = actor
        self._token = token
        if token is not None:
            try:
                self._do(self._check(actor))
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the store where this object opened it."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, flow: Flow[T]) -> T:
        return run_flow(flow, self._engine)

    # ---- the token --------------------------------------------------------------------------------------------------

    @property
    def has_token(self) -> bool:
        """Say whether the store has an operator token."""
        return self._do(transact(has_token(), None))

    @property
    def may_answer(self) -> bool:
        """Say whether this object may answer: it was given the store's token, or the store has none."""
        return self._do(transact(may_answer(self._token), None))

    def make_token(self, *, replace: bool = False) -> str:
        """Give the store an operator token and return it, this once: only a keyed digest of it is stored.

        Args:
            replace: The store has a token (the one that this object was given) and gets another one.

        Raises:
            NotOperator: the store has a token and this object was not given it; nothing was changed.
            UsageError: the store has a token and no other one is wanted, or none to replace; nothing was changed.
        """
        ids = self._engine.ids
        token, key = new_token(ids), random_key(ids)
        self._do(transact(set_token(token, key, old=self._token, replaces=replace), None))
        self._token = token
        return token

    def _check(self, actor: str) -> Flow[None]:
        yield from transact(check_token(self._token, actor=actor), None)

    # ---- what waits -------------------------------------------------------------------------------------------------

    def pending(self, *, whole: bool = False, limit: int | None = None) -> tuple[Pending, ...]:
        """Return what waits, oldest first: prompts, waits, unknown outcomes, holds.

        Args:
            whole: Show every argument to its end, however long it is.
            limit: The oldest so many calls and the oldest so many holds at most, of a store in which much waits; None =
                everything.

        Raises:
            UsageError: `limit` is less than 1.
        """
        if limit is not None and limit < 1:
            raise UsageError("limit: must be 1 or more")
        store = self._engine.store
        rows = (
            store.tickets()
            if limit is None
            else [row for kind in sorted(KINDS) for row in store.tickets(kind, limit=limit)]
        )
        shown = tuple(self._pending(row, whole=whole) for row in rows if is_listed(row))
        return shown if limit is None else tuple(sorted(shown, key=lambda one: one.since_at))

    def find(self, ticket: str, *, whole: bool = True) -> tuple[Pending, ...]:
        """Return what waits under a ticket, or under the tickets that begin with this text.

        An action and the hold that it placed carry one ticket.

        Args:
            ticket: The ticket or its beginning.
            whole: Show every argument to its end.
        """
        rows = [row for row in self._engine.store.tickets(beginning=ticket) if row.kind in KINDS]
        exact = [row for row in rows if row.ticket == ticket]
        return tuple(self._pending(row, whole=whole) for row in exact or rows)

    def _pending(self, row: Row, *, whole: bool) -> Pending:
        return self._do(pending_flow(self._engine, row, None if whole else MAX_SHOWN))

    def run(self, run: str) -> RunView:
        """Return one run: its place, turn, halt, calls, and what waits in it and in its children.

        Raises:
            UsageError: the store does not know the run.
        """
        return self._do(run_view_flow(self._engine, run))

    # ---- answers ----------------------------------------------------------------------------------------------------

    def approve(
        self, ticket: str, fingerprint: str, *, actor: str | None = None, reproposes: bool | None = None
    ) -> Reply:
        """Say yes to exactly the call with this fingerprint; one start may spend it.

        Args:
            ticket: The prompt.
            fingerprint: The call that was shown.
            actor: Who answers, for the record.
            reproposes: The framework proposes the call again by itself; default: as it said when it proposed.

        Raises:
            NotOperator: the store has an operator token, and this object was not given it; nothing was changed.
            UsageError: the ticket is unknown, answered or expired, or is about another call; nothing was changed.
            StoreError: the store cannot be written; nothing was changed.
        """

        def event(action: Action, actor: str, *, again: bool) -> Event:
            return Granted(
                ticket=ticket,
                fingerprint=fingerprint,
                actor=actor,
                reproposes=again if reproposes is None else reproposes,
                request_id=self._engine.ids.request_id(),
            )

        return self._do(self._answer(ticket, fingerprint, actor, event))

    def deny(self, ticket: str, fingerprint: str, *, actor: str | None = None) -> Reply:
        """Say no; what the rule covers is not asked again before a person lifts it. Raises like `approve`."""

        def event(action: Action, actor: str, *, again: bool) -> Event:
            return Denied(ticket=ticket, fingerprint=fingerprint, actor=actor, request_id=self._engine.ids.request_id())

        return self._do(self._answer(ticket, fingerprint, actor, event))

    def revise(self, ticket: str, fingerprint: str, *, note: str = "", actor: str | None = None) -> Reply:
        """Ask for changes: another call may be asked about. The note is told to the run in the place of the usual text.

        Raises like `approve`, and for a note that a model must not see: several lines, a URL, invisible characters, more
        than 200 characters, an invitation to repeat the call.
        """
        findings = lint_text(note) if note else []
        if findings:
            raise UsageError(f"note: is {findings[0]}")

        def event(action: Action, actor: str, *, again: bool) -> Event:
            return Revised(
                ticket=ticket, fingerprint=fingerprint, actor=actor, request_id=self._engine.ids.request_id()
            )

        return self._do(self._answer(ticket, fingerprint, actor, event, note=note))

    def edit(
        self,
        ticket: str,
        fingerprint: str,
        arguments: Mapping[str, object],
        *,
        tool: str | None = None,
        actor: str | None = None,
        reproposes: bool | None = None,
    ) -> Reply:
        """Change the call: the edited one runs instead; edited into another tool it is asked about again.

        Raises like `approve`, and for arguments without a JSON form.
        """

        def event(action: Action, actor: str, *, again: bool) -> Event:
            policy = self._engine.tools.known_policy(tool or action.call.tool)
            return Edited(
                ticket=ticket,
                fingerprint=fingerprint,
                actor=actor,
                call=rebuilt(action.call, policy, arguments),
                reproposes=again if reproposes is None else reproposes,
                new_ticket=self._engine.ids.ticket(),
                request_id=self._engine.ids.request_id(),
            )

        return self._do(self._answer(ticket, fingerprint, actor, event, tool=tool))

    def change(
        self,
        ticket: str,
        fingerprint: str,
        changes: Mapping[str, object],
        *,
        drop: Collection[str] = (),
        tool: str | None = None,
        actor: str | None = None,
    ) -> Reply:
        """Edit single arguments of the call; the others stay as they are, also those that are hidden.

        Raises like `edit`, and where the call has no argument that is to be dropped.
        """
        # That this is still the call with the fingerprint is checked where the answer is committed.
        return self.edit(ticket, fingerprint, self._changed(ticket, changes, drop), tool=tool, actor=actor)

    def preview(self, ticket: str, changes: Mapping[str, object], *, drop: Collection[str] = ()) -> tuple[Shown, ...]:
        """Return the arguments of the call as they would be after `change`, as an approver sees them.

        Raises:
            UsageError: the ticket is not that of an open prompt, a change has no JSON form, or an argument that is to be
                dropped is not there.
        """
        arguments = canonical(self._changed(ticket, changes, drop))
        secret = self._do(policy_flow(self._engine, self._prompted(ticket)[1].call.tool)).secret
        return shown(arguments, secret, limit=None)

    def _changed(self, ticket: str, changes: Mapping[str, object], drop: Collection[str]) -> dict[str, object]:
        arguments = frozen_arguments(self._prompted(ticket)[1].call)
        for name in drop:
            if name not in arguments:
                raise UsageError(f"drop: the call has no argument {name!r}")
            del arguments[name]
        return {**arguments, **changes}

    def resolve(self, ticket: str, verdict: Verdict | str, *, actor: str | None = None) -> Reply:
        """Say what became of an unknown write: ``applied``, ``not_applied`` or ``cannot_tell``.

        Raises:
            NotOperator: the store has an operator token, and this object was not given it; nothing was changed.
            UsageError: the ticket is not that of an unknown outcome, or the verdict is no verdict; nothing was changed.
        """
        try:
            said = Verdict(verdict)
        except ValueError:
            raise UsageError(f"verdict: must be one of {', '.join(Verdict)}") from None
        return self._do(self._resolve(ticket, said, actor or self._actor))

    def lift(self, ticket: str = "", *, run: str = "", actor: str | None = None) -> None:
        """End a hold by its ticket, or the halt of a run.

        Raises:
            NotOperator: the store has an operator token, and this object was not given it; nothing was changed.
            UsageError: there is nothing to lift; nothing was changed.
        """
        if bool(ticket) == bool(run):
            raise UsageError("lift: must name a ticket or a run")
        self._do(self._lift(ticket, run, actor or self._actor))

    def allow(self, ticket: str, fingerprint: str, *, actor: str | None = None) -> tuple[str, ...]:
        """Let a looser policy take the place of the one that the store has, and return the fields that changed.

        Raises:
            NotOperator: the store has an operator token, and this object was not given it; nothing was changed.
            UsageError: the ticket is not that of a policy that waits, or another policy waits there; nothing was changed.
            StoreError: the store cannot be written; nothing was changed.
        """
        return self._do(self._allow(ticket, fingerprint, actor or self._actor))

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _find(self, ticket: str, kind: str) -> Row | None:
        row = self._engine.store.by_ticket(ticket)
        if row is None or row.kind == kind:
            return row
        # A hold and the action that placed it carry one ticket.
        found = self._engine.store.tickets(kind, beginning=ticket)
        return next((one for one in found if one.ticket == ticket), None)

    def _prompted(self, ticket: str) -> tuple[str, Action, AwaitingApproval]:
        """Return an open prompt: the root of its tree, its action and its phase."""
        row = self._find(ticket, "action")
        action = None if row is None else stored(row, Action)
        if row is None or action is None or not isinstance(action.phase, AwaitingApproval):
            raise UsageError(f"ticket {ticket!r}: is not that of an open prompt (unknown, or answered already)")
        return row.scope.removeprefix("tree:"), action, action.phase

    def _answer(
        self,
        ticket: str,
        fingerprint: str,
        actor: str | None,
        event: _EventOf,
        *,
        tool: str | None = None,
        note: str = "",
    ) -> Flow[Reply]:
        engine = self._engine
        yield from self._check(actor or self._actor)
        root, action, phase = self._prompted(ticket)
        if phase.by_framework:
            raise UsageError(f"ticket {ticket!r}: is answered through the framework that asked")
        if phase.fingerprint != fingerprint:
            raise UsageError("fingerprint: must be that of the call that the prompt shows")
        if engine.clock.now() >= phase.expires_at:
            raise UsageError(f"ticket {ticket!r}: the prompt has expired")
        policy = yield from policy_flow(engine, action.call.tool)
        if tool is not None:
            yield from policy_flow(engine, tool)
        facts = yield from transact(prompt_facts(root, ticket), None)
        said = event(action, actor or self._actor, again=facts.reproposes)
        asked = engine.asked(
            root,
            action.call,
            policy,
            actor=actor or self._actor,
            reproposes=facts.reproposes,
            note=note,
        )
        decided = yield from transact(tell(asked, said), root)
        if decided.decision.rule in STALE:
            raise UsageError(f"ticket {ticket!r}: was answered by somebody else")
        return engine.answer(decided, asked)

    def _allow(self, ticket: str, fingerprint: str, actor: str) -> Flow[tuple[str, ...]]:
        yield from self._check(actor)
        row = self._find(ticket, POLICY)
        if row is None or row.kind != POLICY:
            raise UsageError(f"ticket {ticket!r}: is not that of a policy that waits (unknown, or over already)")
        changes = yield from transact(allow_policy(row.key, ticket, fingerprint, actor=actor), None)
        return tuple(one.field for one in changes)

    def _resolve(self, ticket: str, verdict: Verdict, actor: str) -> Flow[Reply]:
        engine = self._engine
        yield from self._check(actor)
        row = self._find(ticket, "action")
        action = None if row is None else stored(row, Action)
        if row is None or action is None or not isinstance(action.phase, Unknown):
            raise UsageError(f"ticket {ticket!r}: is not that of an unknown outcome (unknown, or resolved already)")
        root = row.scope.removeprefix("tree:")
        policy = yield from policy_flow(engine, action.call.tool)
        request_id = engine.ids.request_id()
        asked = engine.asked(root, action.call, policy, request_id=request_id, actor=actor)
        event = Inspected(verdict=verdict, source="person", actor=actor, request_id=request_id)
        decided = yield from transact(tell(asked, event), root)
        if decided.decision.rule in STALE:
            raise UsageError(f"ticket {ticket!r}: was resolved by somebody else")
        return engine.answer(decided, asked)

    def _lift(self, ticket: str, run: str, actor: str) -> Flow[None]:
        engine = self._engine
        yield from self._check(actor)
        hold: str | None = None
        if ticket:
            row = self._find(ticket, "hold")
            if row is None or row.kind != "hold":
                raise UsageError(f"ticket {ticket!r}: is not that of a hold (unknown, or ended already)")
            held = stored(row, Hold)
            hold, run = held.key, held.run
        root = yield from place_flow(engine, run, None, None)
        event = Lifted(hold=hold, run=None if ticket else run, actor=actor)
        frame = engine.frame(ToolPolicy(name=""))
        decided = yield from transact(tell_tree(root, frame, lambda _now: event, run=run, actor=actor), root)
        if decided is None or decided.decision.rule in STALE:
            if ticket:
                raise UsageError(f"ticket {ticket!r}: there is nothing to lift")
            raise UsageError(
                f"run {run!r}: there is nothing to lift: it is not halted, and a hold is lifted by its ticket"
            )
