"""The product as a journey drives it: one controller on a store, its runs, its operator, and its death. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as dataclass_replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final, cast

from forbear.contract import Raised, RaisedFacts, Raw
from forbear.contract.exceptions import classes
from forbear.core.states import Action, AwaitingApproval, Hold, Phase, Running
from forbear.core.vocabulary import Cause, Scope
from forbear.errors import UsageError
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.runs import RunHandle
from forbear.store.codec import decode, from_us
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds
from forbear.testing.journey_format import Call, Control, Journey
from forbear.testing.journey_tools import Author, controller_limits, declarations

__all__ = ["Product"]

ROOT: Final = "root"
# Agents of this name are the run that the person talks to.
_PARENTS: Final = frozenset({"parent", "main", "root", "lead", "orchestrator"})


class _FrameworkSignal(Exception):
    """What a framework raises inside a tool to steer itself."""


def _is_repair_signal(facts: RaisedFacts) -> bool:
    """Say whether a framework raises this to have the model repair its call; it pauses nothing."""
    known = classes().kinds["repair_signal"]
    return any(name.rpartition(".")[2] == one.rpartition(".")[2] for name in facts.names for one in known)


def _answered(answer: Callable[[], Reply]) -> Reply | None:
    """Give a person's answer; None = it came too late (the product says so as a misuse of the ticket)."""
    try:
        return answer()
    except UsageError:
        return None


class Product:
    """A controller under a manual clock, with everything that a story does to it."""

    def __init__(self, story: Journey, clock: ManualClock, folder: Path, author: Author) -> None:
        self._story = story
        self._clock = clock
        self._author = author
        crashes = any(isinstance(event, Control) and event.kind == "crash_restart" for _, event in story.events)
        self._path = str(folder / "journey.db") if crashes else ":memory:"
        self._starts = count(1, 100_000)
        self._runs: dict[str, str | None] = {ROOT: None}
        self._controller = self._open()

    def _open(self) -> Controller:
        controller = Controller.open(
            store=open_sqlite(self._path, clock=self._clock),
            limits=controller_limits(self._story),
            clock=self._clock,
            ids=SequenceIds(start=next(self._starts)),
            worker=False,
        )
        controller.declare(declarations(self._story, self._author))
        self._operator = Operator(controller)
        return controller

    def close(self) -> None:
        """Close the controller."""
        self._controller.close()

    def crash(self) -> None:
        """Die without saying goodbye, and start again on what the store holds."""
        self._controller.store.close()
        self._controller = self._open()
        for run, parent in self._runs.items():
            self._controller.run(run, parent=parent)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _run_of(self, session: str | None, agent: str | None) -> str:
        names = [name for name in (session, agent) if name is not None and name not in _PARENTS]
        run = ROOT if not names else "/".join(names)
        if run not in self._runs:
            self._runs[run] = ROOT
            self._controller.run(run, parent=ROOT)
        return run

    def _handle(self, run: str) -> RunHandle:
        return self._controller.run(run, parent=self._runs[run])

    def new_turn(self) -> None:
        """A human message arrives."""
        self._handle(ROOT).new_turn()

    def restart_run(self, session: str | None, agent: str | None) -> None:
        """A run starts again from its beginning."""
        self._handle(self._run_of(session, agent)).restarted()

    def reconnected(self) -> None:
        """The other side can be reached again."""
        self._handle(ROOT).reconnected()

    def inbox(self) -> list[Reply]:
        """Return what became ready outside calls, for all runs."""
        return [reply for run in self._runs for reply in self._handle(run).inbox()]

    # ---- calls ------------------------------------------------------------------------------------------------------

    def propose(self, call: Call, *, siblings: int, forced: bool, reproposes: bool) -> Reply:
        """Propose a call as a framework does."""
        return self._controller.propose(
            call.tool,
            call.args,
            run=self._run_of(call.session, call.agent),
            step=call.batch if call.batch is not None else call.id,
            call_id=call.id,
            siblings=siblings,
            forced=forced,
            truncated=call.truncated or call.repaired,
            reproposes=reproposes,
        )

    def settle(self, attempt: Attempt, raw: Raw) -> Reply:
        """Settle an attempt; a framework's signal goes on as one."""
        if isinstance(raw, RaisedFacts) and raw.control_flow:
            if _is_repair_signal(raw):
                return self._controller.settle(attempt, dataclass_replace(raw, control_flow=False))
            signal = Raised(_FrameworkSignal(), phase="in_tool")
            return self._controller.settle(attempt, signal, signals=(_FrameworkSignal,))
        return self._controller.settle(attempt, raw)

    def due(self) -> list[Reply]:
        """Claim what is due now."""
        return self._controller.due()

    def cancel(self, call: Call, *, acknowledged: bool) -> list[Reply]:
        """Cancel one call."""
        run = self._handle(self._run_of(call.session, call.agent))
        return run.cancel(call.id, acknowledged=acknowledged)

    def cancel_all(self, session: str | None, agent: str | None, *, acknowledged: bool) -> list[Reply]:
        """Cancel everything of a run that is open or waits; of all runs, where it is the root."""
        return self._handle(self._run_of(session, agent)).cancel(None, acknowledged=acknowledged)

    # ---- people -----------------------------------------------------------------------------------------------------

    def approve(self, ticket: str, *, actor: str) -> Reply | None:
        """Say yes; None = the question is not open any more."""
        fingerprint = self._fingerprint(ticket)
        if fingerprint is None:
            return None
        return _answered(lambda: self._operator.approve(ticket, fingerprint, actor=actor))

    def deny(self, ticket: str, *, actor: str) -> Reply | None:
        """Say no; None = the question is not open any more."""
        fingerprint = self._fingerprint(ticket)
        if fingerprint is None:
            return None
        return _answered(lambda: self._operator.deny(ticket, fingerprint, actor=actor))

    def edit(self, ticket: str, *, tool: str, arguments: object, actor: str) -> Reply | None:
        """Write another call instead; None = the question is not open any more."""
        fingerprint = self._fingerprint(ticket)
        if fingerprint is None or not isinstance(arguments, dict):
            return None
        changed = cast("Mapping[str, object]", arguments)
        return _answered(lambda: self._operator.edit(ticket, fingerprint, changed, tool=tool, actor=actor))

    def lift(self, about: str, ticket: str | None, *, actor: str) -> None:
        """End the hold of a rule, or of a call; where none stands, nothing is to be ended."""
        for hold in self._holds():
            named = hold.scope is Scope.RULE and about == f"rule:{hold.value}"
            # `always` is no rule that holds: its denial is a hold of the target or the action.
            named = named or (about == "rule:always" and hold.cause is Cause.DENIAL and hold.scope is not Scope.RULE)
            if named or (ticket is not None and hold.ticket == ticket):
                self._operator.lift(hold.ticket, actor=actor)
                return

    def texts(self) -> list[str]:
        """Return what approvers see now."""
        return [str(prompt) for prompt in self._operator.pending()]

    # ---- looking into the store ---------------------------------------------------------------------------------------

    def _fingerprint(self, ticket: str) -> str | None:
        for row in self._controller.store.tickets("action"):
            if row.ticket == ticket:
                action = decode(row.body)
                if isinstance(action, Action) and isinstance(action.phase, AwaitingApproval):
                    # What the framework asks, it also answers.
                    return None if action.phase.by_framework else action.phase.fingerprint
        return None

    def ticket_of(self, call: Call) -> str | None:
        """Return the ticket of the prompt that is open about a call."""
        run = self._run_of(call.session, call.agent)
        for row in self._controller.store.tickets("action"):
            action = decode(row.body)
            if not isinstance(action, Action) or (action.call.run, action.call.call_id) != (run, call.id):
                continue
            if isinstance(action.phase, AwaitingApproval):
                return action.phase.ticket
        return None

    def grant_of(self, attempt: Attempt) -> str:
        """Return the ticket of the prompt whose yes a start spends; "" = none."""
        row = self._controller.store.fetch(f"tree:{attempt.root}", "action", attempt.action)
        action = None if row is None else decode(row.body)
        if not isinstance(action, Action) or not isinstance(action.phase, Running):
            return ""
        granted = (one.grant for one in action.phase.open if one.attempt == attempt.number)
        return next((grant.ticket for grant in granted if grant is not None), "")

    def is_asked_by_framework(self, ticket: str) -> bool:
        """Say whether a ticket is that of a question which a framework asks by its own signal."""
        phase = self.phase(ticket)
        return isinstance(phase, AwaitingApproval) and phase.by_framework

    def phase(self, ticket: str) -> Phase | None:
        """Return the phase of the action that carries a ticket now."""
        for row in self._controller.store.tickets("action"):
            if row.ticket == ticket:
                action = decode(row.body)
                return action.phase if isinstance(action, Action) else None
        return None

    def _holds(self) -> list[Hold]:
        found = [decode(row.body) for row in self._controller.store.tickets("hold")]
        return [one for one in found if isinstance(one, Hold)]

    def hold(self, ticket: str | None) -> Hold | None:
        """Return the hold that carries a ticket."""
        if not ticket:
            return None
        return next((hold for hold in self._holds() if hold.ticket == ticket), None)

    def due_at(self, ticket: str) -> datetime | None:
        """Return when the row of a ticket is due."""
        for row in self._controller.store.tickets():
            if row.ticket == ticket and row.kind == "action" and row.due_us is not None:
                return from_us(row.due_us)
        return None
