"""`Operator`: what a person sees of a store and answers. It decides and commits like everybody, and executes nothing.

It works in the agent's process and in any other process on the same store; there it knows of a tool what the agent's
process last noted (names, no functions).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from forbear.contract import lint_text
from forbear.core.events import Denied, Edited, Event, Granted, Inspected, Lifted, Revised
from forbear.core.policy import ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import Action, Approved, AwaitingApproval, Hold, Parked, Unknown, Waiting
from forbear.core.vocabulary import Verdict
from forbear.errors import UsageError
from forbear.ports import Clock, Ids, Row
from forbear.runtime.calls import rebuilt
from forbear.runtime.controller import Controller
from forbear.runtime.display import Shown, shown
from forbear.runtime.engine import Engine
from forbear.runtime.lookups import find_root, noted_policy, parent_of, prompt_facts
from forbear.runtime.perform import run_flow
from forbear.runtime.places import place_flow
from forbear.runtime.program import tell, tell_tree
from forbear.runtime.reply import Reply
from forbear.runtime.rows import stored
from forbear.runtime.steps import Flow, transact

T = TypeVar("T")

STALE: Final = frozenset({Rule.ANSWER_STALE, Rule.VERDICT_STALE, Rule.LIFTED_NOTHING})


_KINDS: Final = frozenset({"action", "hold"})
_MAX_PATH: Final = 32


class _EventOf(Protocol):
    """Makes the answer's event for the action that was asked about."""

    def __call__(self, action: Action, actor: str, *, again: bool) -> Event: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One thing that waits for a person or the clock."""

    # approval, granted, wait, unknown or hold.
    kind: str
    ticket: str
    tool: str
    source: str
    run: str
    # Runs from the root to the one that asked.
    path: tuple[str, ...]
    # Rule that asked (approval), cause of the hold, or "".
    rule: str
    code: str
    # What the run was told, in one line.
    message: str
    # Digest of exactly this call; an answer must carry it.
    fingerprint: str
    arguments: tuple[Shown, ...]
    since_at: datetime
    # When it expires, runs, or is looked at; None = it waits for a person.
    due_at: datetime | None = None
    # HOLD: what it covers.
    scope: str = ""
    # Prompts that were shown for this run tree before.
    prompts_before: int = 0


class Operator:
    """A person's side of one store.

    Args:
        at: The controller of this process, or the path or URL of a store.
        actor: Name under which answers are recorded.
        clock: The time, where `at` is a path; a test passes its own.
        ids: Request ids and tickets, likewise.

    Raises:
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        at: Controller | str | os.PathLike[str],
        *,
        actor: str = "operator",
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._own: Controller | None = None
        if not isinstance(at, Controller):
            at = self._own = Controller.open(at, clock=clock, ids=ids, worker=False)
        self._engine: Engine = at.engine
        self._actor = actor

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

    # ---- what waits -------------------------------------------------------------------------------------------------

    def pending(self) -> tuple[Pending, ...]:
        """Return everything that waits, oldest first: prompts, waits, unknown outcomes, holds."""
        return tuple(self._do(self._pending(row)) for row in self._engine.store.tickets() if row.kind in _KINDS)

    def _pending(self, row: Row) -> Flow[Pending]:
        if row.kind == "hold":
            return (yield from self._held(stored(row, Hold)))
        action = stored(row, Action)
        root = row.scope.removeprefix("tree:")
        call, phase = action.call, action.phase
        policy = yield from self._policy(call.tool)
        before = 0
        rule, due_at, since_at, told = "", None, None, None
        if isinstance(phase, AwaitingApproval):
            kind, rule, told = "approval", phase.rule, phase.told
            since_at, due_at = phase.asked_at, phase.expires_at
            before = (yield from transact(prompt_facts(root, phase.ticket), None)).before
        elif isinstance(phase, (Waiting, Parked)):
            kind, told, since_at = "wait", phase.told, phase.since_at
            due_at = phase.retry_at if isinstance(phase, Waiting) else phase.run_at
        elif isinstance(phase, Unknown):
            kind, told, since_at, due_at = "unknown", phase.told, phase.started_at, phase.inspect_at
        else:
            assert isinstance(phase, Approved)
            kind, rule, due_at = "granted", phase.grant.rule, phase.run_at or phase.grant.expires_at
            since_at = due_at
        envelope = None if told is None else self._engine.envelope(told, "")
        return Pending(
            kind=kind,
            ticket=row.ticket or "",
            tool=call.tool,
            source=call.source,
            run=call.run,
            path=(yield from self._path(root, call.run)),
            rule=rule,
            code="" if envelope is None else envelope.code,
            message="" if envelope is None else envelope.safe_message or "",
            fingerprint=call.fingerprint,
            arguments=shown(call.arguments, policy.secret),
            since_at=since_at,
            due_at=due_at,
            prompts_before=before,
        )

    def _held(self, hold: Hold) -> Flow[Pending]:
        envelope = self._engine.envelope(hold.told, "")
        root = (yield from transact(find_root(hold.run), None)).link or hold.run
        return Pending(
            kind="hold",
            ticket=hold.ticket,
            tool=hold.tool,
            source="",
            run=hold.run,
            path=(yield from self._path(root, hold.run)),
            rule=hold.cause.name.lower(),
            code=hold.code,
            message=envelope.safe_message or "",
            fingerprint="",
            arguments=(),
            since_at=hold.placed_at,
            due_at=hold.ends_at,
            scope=hold.scope.value,
        )

    def _path(self, root: str, run: str) -> Flow[tuple[str, ...]]:
        path = [run]
        while path[0] != root and len(path) < _MAX_PATH:
            parent = yield from transact(parent_of(root, path[0]), root)
            path.insert(0, parent or root)
        return tuple(path)

    def _policy(self, tool: str) -> Flow[ToolPolicy]:
        """Return what is known about a tool: declared here, else as the agent's process noted it last."""
        tools = self._engine.tools
        if not tools.is_declared(tool):
            noted = yield from transact(noted_policy(tool, self._engine.limits), None)
            if noted is not None:
                tools.remember(noted)
        return tools.known_policy(tool)

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

    def resolve(self, ticket: str, verdict: Verdict | str, *, actor: str | None = None) -> Reply:
        """Say what became of an unknown write: ``applied``, ``not_applied`` or ``cannot_tell``.

        Raises:
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
            UsageError: there is nothing to lift; nothing was changed.
        """
        if bool(ticket) == bool(run):
            raise UsageError("lift: must name a ticket or a run")
        self._do(self._lift(ticket, run, actor or self._actor))

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _find(self, ticket: str, kind: str) -> Row | None:
        row = self._engine.store.by_ticket(ticket)
        if row is None or row.kind == kind:
            return row
        # A hold and the action that placed it carry one ticket.
        return next((one for one in self._engine.store.tickets(kind) if one.ticket == ticket), None)

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
        row = self._find(ticket, "action")
        action = None if row is None else stored(row, Action)
        if row is None or action is None or not isinstance(action.phase, AwaitingApproval):
            raise UsageError(f"ticket {ticket!r}: is not that of an open prompt (unknown, or answered already)")
        phase = action.phase
        if phase.by_framework:
            raise UsageError(f"ticket {ticket!r}: is answered through the framework that asked")
        if phase.fingerprint != fingerprint:
            raise UsageError("fingerprint: must be that of the call that the prompt shows")
        if engine.clock.now() >= phase.expires_at:
            raise UsageError(f"ticket {ticket!r}: the prompt has expired")
        root = row.scope.removeprefix("tree:")
        policy = yield from self._policy(action.call.tool)
        if tool is not None:
            yield from self._policy(tool)
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

    def _resolve(self, ticket: str, verdict: Verdict, actor: str) -> Flow[Reply]:
        engine = self._engine
        row = self._find(ticket, "action")
        action = None if row is None else stored(row, Action)
        if row is None or action is None or not isinstance(action.phase, Unknown):
            raise UsageError(f"ticket {ticket!r}: is not that of an unknown outcome (unknown, or resolved already)")
        root = row.scope.removeprefix("tree:")
        policy = yield from self._policy(action.call.tool)
        request_id = engine.ids.request_id()
        asked = engine.asked(root, action.call, policy, request_id=request_id, actor=actor)
        event = Inspected(verdict=verdict, source="person", actor=actor, request_id=request_id)
        decided = yield from transact(tell(asked, event), root)
        if decided.decision.rule in STALE:
            raise UsageError(f"ticket {ticket!r}: was resolved by somebody else")
        return engine.answer(decided, asked)

    def _lift(self, ticket: str, run: str, actor: str) -> Flow[None]:
        engine = self._engine
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
            raise UsageError(f"{'ticket' if ticket else 'run'} {ticket or run!r}: there is nothing to lift")
