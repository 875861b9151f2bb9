"""`RunHandle`: what an application says about one run (a human message came, cancel, it was restarted) and gets from it."""

from __future__ import annotations

from math import isfinite
from typing import TypeVar

from forbear.core.events import Reconnected, RunRestarted
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, Approved, AwaitingApproval, Parked, Running, Waiting
from forbear.errors import UsageError
from forbear.observe.notice import Usage
from forbear.runtime.engine import Engine
from forbear.runtime.explain import Explanation, explain_flow
from forbear.runtime.flows import cancel_flow
from forbear.runtime.lookups import actions_of, hand_out, is_halted, read_in
from forbear.runtime.perform import run_flow
from forbear.runtime.places import place_flow, turn_flow
from forbear.runtime.program import tell, tell_tree
from forbear.runtime.reply import Reply
from forbear.runtime.steps import Flow, transact

T = TypeVar("T")


class RunHandle:
    """One agent run. Made by `Controller.run`; every method is short and may be called on an event loop."""

    def __init__(self, engine: Engine, run: str, parent: str | None, principal: str | None) -> None:
        self._engine = engine
        self.id = run
        self.root: str = self._do(place_flow(engine, run, parent, principal))

    def _do(self, flow: Flow[T]) -> T:
        return run_flow(flow, self._engine)

    def new_turn(self) -> None:
        """Say that a human message arrived at the root run; a child run never begins a turn.

        Raises:
            StoreError: the store cannot be written; the turn did not begin.
        """
        if self.root == self.id:
            self._do(turn_flow(self._engine, self.root, None))

    def cancel(self, call: str | None = None, *, acknowledged: bool = False) -> list[Reply]:
        """Cancel what this run has open or waiting, or one call of it by its call id or ticket.

        Args:
            call: A call id or a ticket; None = all calls of the run, and of its children where it is the root.
            acknowledged: The tool confirmed that nothing landed.

        Returns:
            One reply for each cancelled call: a running write is unknown unless it was acknowledged.
        """
        return self._do(self._cancel(call, acknowledged=acknowledged))

    def _cancel(self, call: str | None, *, acknowledged: bool) -> Flow[list[Reply]]:
        replies: list[Reply] = []
        for action in (yield from transact(actions_of(self.root), self.root)):
            if not self._is_meant(action, call):
                continue
            reply = yield from cancel_flow(self._engine, self.root, action.key, acknowledged=acknowledged)
            if reply is not None:
                replies.append(reply)
        return replies

    def _is_meant(self, action: Action, call: str | None) -> bool:
        phase = action.phase
        if not isinstance(phase, (Running, Waiting, Parked, AwaitingApproval, Approved)):
            return False
        if call is None:
            return self.id in {self.root, action.call.run}
        tickets = {getattr(phase, "ticket", "")}
        if isinstance(phase, Approved):
            tickets = {phase.grant.ticket}
        return call in tickets or (action.call.run == self.id and action.call.call_id == call)

    def inbox(self) -> list[Reply]:
        """Return the results that became ready outside a call since the last time, each once, oldest first."""
        handed = self._do(transact(hand_out(self.root, self.id), self.root))
        return [self._engine.ready_reply(self.root, ready, row) for ready, row in handed]

    def explain(self, request_id: str) -> Explanation:
        """Say in words what became of a request of this run or of its tree; see `Controller.explain`.

        Raises:
            UsageError: the journal of this run's tree does not know the request.
        """
        return self._do(explain_flow(self._engine, request_id, root=self.root))

    def restarted(self) -> None:
        """Say that the run starts again from its beginning: its completed writes are delivered once each."""
        frame = self._engine.frame(ToolPolicy(name=""))
        program = tell_tree(self.root, frame, lambda _now: RunRestarted(run=self.id), run=self.id)
        self._do(transact(program, self.root))

    def reconnected(self) -> int:
        """Say that the other side can be reached again: calls that it never accepted are due now.

        Returns:
            How many waits became due. They are done by the worker, or by `Controller.work` and `due`.
        """
        return self._do(self._reconnect())

    def _reconnect(self) -> Flow[int]:
        count = 0
        for action in (yield from transact(actions_of(self.root), self.root)):
            if isinstance(action.phase, Waiting) and action.phase.not_accepted:
                policy = self._engine.tools.known_policy(action.call.tool)
                asked = self._engine.asked(self.root, action.call, policy)
                decided = yield from transact(tell(asked, Reconnected()), self.root)
                self._engine.answer(decided, asked)
                count += bool(decided.decision.changes)
        return count

    def usage(self, step: str, *, tokens: int = 0, seconds: float = 0.0) -> None:
        """Say what a step of the model cost, after its calls were answered, so that failed flows can be priced.

        Args:
            step: The step as it was named in the calls.
            tokens: Tokens of the model for this step.
            seconds: How long the model took.

        Raises:
            UsageError: a number is negative or none; nothing was counted.
        """
        if not (tokens >= 0 and isfinite(seconds) and seconds >= 0):
            raise UsageError("usage: tokens and seconds must be 0 or more")
        engine = self._engine
        if engine.observing is None:
            return
        has_read = self._do(transact(read_in(self.root, self.id, step), self.root))
        usage = Usage(
            at=engine.clock.now(),
            run=self.id,
            root=self.root,
            step=step,
            tokens=tokens,
            seconds=seconds,
            has_read=has_read,
        )
        engine.observing.untold.append(usage)
        engine.tell()

    @property
    def halted(self) -> bool:
        """Say whether the run's tool use is over until a human message or an operator."""
        return self._do(transact(is_halted(self.root, self.id), self.root))
