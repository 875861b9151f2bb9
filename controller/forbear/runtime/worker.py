"""What is due is done here: waits that are over, grants, outcomes to look for, attempts of dead processes.

Level-triggered: every pass asks the store what is due, so a lost signal loses nothing. When and whether something may
run is the core's decision, made again at the moment of the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, Approved, Parked, Unknown, Waiting
from forbear.core.vocabulary import Mode, Verdict
from forbear.errors import NotOperator, UsageError
from forbear.runtime.calls import frozen_arguments
from forbear.runtime.ends import CHECKS
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.flows import call_flow, run_attempt, wake_flow
from forbear.runtime.inspection import check_arguments, inspected_flow, is_about_one_thing, verdict_flow
from forbear.runtime.lookups import actions_of, look
from forbear.runtime.observing import Traced
from forbear.runtime.pending import policy_flow
from forbear.runtime.perform import arun_flow, run_flow
from forbear.runtime.places import note_flow, recover_flow
from forbear.runtime.reply import Reply
from forbear.runtime.rows import stored
from forbear.runtime.steps import Flow, transact
from forbear.runtime.warn import warn_beside
from forbear.store.codec import to_us

# Rows that are asked for at once; more where some of them cannot be worked on here.
BATCH: Final = 64


class Passes:
    """Passes over what is due, for one controller."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._warned: set[str] = set()
        # What other processes had committed when this one last looked for what they made ready.
        self._generation = engine.store.generation()

    def due(self, *, executes: bool) -> Iterator[tuple[str, Action]]:
        """Yield the actions that are due now, each once, as they are when their turn comes.

        Args:
            executes: Leave out what cannot be run because no executor is bound, with one warning a tool.
        """
        engine = self._engine
        seen: set[tuple[str, str]] = set()
        while True:
            rows = engine.store.due(to_us(engine.clock.now()), BATCH + len(seen))
            fresh = [row for row in rows if row.kind == "action" and (row.scope, row.key) not in seen]
            if not fresh:
                return
            for row in fresh:
                seen.add((row.scope, row.key))
                root = row.scope.removeprefix("tree:")
                if engine.inline[root, row.key] > 0:
                    continue
                action = stored(row, Action)
                if self._can_work_on(action, executes=executes):
                    yield root, action

    def work(self) -> list[Reply]:
        """Do everything that is due, one after the other, in this thread."""
        self._recover()
        self._notice()
        done: list[Reply] = []
        for root, action in self.due(executes=True):
            reply = self._work(root, action)
            if reply is not None:
                done.append(reply)
        return done

    def _work(self, root: str, action: Action) -> Reply | None:
        engine, call = self._engine, action.call
        if engine.observing is None or not engine.observing.traces:
            return run_flow(work_flow(engine, root, action.key), engine)
        with Traced(engine.observing, call.tool, call.call_id) as traced:
            traced.reply = run_flow(work_flow(engine, root, action.key), engine)
        return traced.reply

    async def _awork(self, root: str, action: Action) -> Reply | None:
        engine, call = self._engine, action.call
        if engine.observing is None or not engine.observing.traces:
            return await arun_flow(work_flow(engine, root, action.key), engine)
        with Traced(engine.observing, call.tool, call.call_id) as traced:
            traced.reply = await arun_flow(work_flow(engine, root, action.key), engine)
        return traced.reply

    async def awork(self) -> list[Reply]:
        """Do everything that is due at the same time, in this task; an error is raised after all have ended."""
        self._recover()
        self._notice()
        flows = [self._awork(root, action) for root, action in self.due(executes=True)]
        done = await asyncio.gather(*flows, return_exceptions=True)
        for one in done:
            if isinstance(one, BaseException):
                raise one
        return [one for one in done if isinstance(one, Reply)]

    def claim(self) -> list[Reply]:
        """Claim everything that is due, for a caller that executes by itself."""
        self._recover()
        self._notice()
        claimed: list[Reply] = []
        for root, action in self.due(executes=False):
            reply = run_flow(claim_flow(self._engine, root, action.key), self._engine)
            if reply is not None:
                claimed.append(reply)
        return claimed

    def _recover(self) -> None:
        """Take notice of the attempts of dead processes."""
        self._engine.note_lost()
        for root in list(self._engine.lost):
            run_flow(recover_flow(self._engine, root), self._engine)

    def _notice(self) -> None:
        """Tell the application what another process made ready (a person said no, a worker ran the call)."""
        engine = self._engine
        generation = engine.store.generation()
        if engine.on_ready is None or generation == self._generation:
            return
        self._generation = generation
        for root in engine.world.waiting_roots():
            run_flow(transact(actions_of(root), root), engine)
        engine.drain_ready()

    def _can_work_on(self, action: Action, *, executes: bool) -> bool:
        tools = self._engine.tools
        tool, run = action.call.tool, action.call.run
        policy = tools.known_policy(tool)
        if policy.mode is Mode.OBSERVE:
            return False
        match action.phase:
            case Waiting() | Parked():
                needed = tool
            case Approved(run_at=None):
                return True
            case Approved():
                needed = tool
            case Unknown():
                return self._can_look(policy, run, executes=executes)
            case _:
                # A prompt expired, or the row changed since: no tool is run for it.
                return True
        if not self._is_noted(policy):
            return False
        if not executes or tools.executor(needed, run) is not None:
            return True
        return self._warn(needed)

    def _is_noted(self, policy: ToolPolicy) -> bool:
        """Say whether the store takes what is declared here about a tool; what is due waits where it does not.

        A tool that is not declared here is what the store has of it.
        """
        try:
            if self._engine.tools.is_declared(policy.name):
                run_flow(note_flow(self._engine, policy), self._engine)
            else:
                run_flow(policy_flow(self._engine, policy.name), self._engine)
        except NotOperator as error:
            if policy.name not in self._warned:
                self._warned.add(policy.name)
                warn_beside(f"what is due does not run: {error}", stacklevel=2)
            return False
        return True

    def _can_look(self, policy: ToolPolicy, run: str, *, executes: bool) -> bool:
        """Say whether an unknown outcome can be looked for (or the write repeated with its key) in this process."""
        tools = self._engine.tools
        if not self._is_noted(policy):
            return False
        if policy.idempotency_key is not None and (not executes or tools.executor(policy.name, run) is not None):
            return True
        if policy.inspect is None:
            return policy.idempotency_key is None
        if tools.executor(policy.inspect.tool, run) is not None:
            return True
        return self._warn(policy.inspect.tool)

    def _warn(self, tool: str) -> bool:
        if tool not in self._warned and not self._engine.tools.varies(tool):
            self._warned.add(tool)
            warn_beside(
                f"tool {tool!r} is due but has no executor here: bind one with Controller.bind or the tool decorator",
                stacklevel=2,
            )
        return False


def claim_flow(engine: Engine, root: str, key: str) -> Flow[Reply | None]:
    """Claim one due action; the reply holds the attempt that the caller runs and settles."""
    woken = yield from wake_flow(engine, root, key, here=False)
    if woken is None:
        return None
    if woken.looks:
        yield from look_flow(engine, root, key)
    return woken.reply


def work_flow(engine: Engine, root: str, key: str) -> Flow[Reply | None]:
    """Claim one due action and run it with the bound executor; its result goes into the inbox of its run."""
    reply = yield from claim_flow(engine, root, key)
    if reply is None or reply.attempt is None:
        return reply
    executor = engine.tools.executor(reply.attempt.tool, reply.attempt.run)
    if executor is None:
        raise UsageError(f"tool {reply.attempt.tool!r}: its executor was unbound while it was due")
    return (yield from run_attempt(engine, reply.attempt, executor, ()))


def look_flow(engine: Engine, root: str, key: str) -> Flow[None]:
    """Run the declared check of an unknown write as a governed read and feed what it says."""
    action = yield from transact(look(root, key), root)
    if action is None or not isinstance(action.phase, Unknown):
        return
    inspection = engine.tools.known_policy(action.call.tool).inspect
    if inspection is None:
        return
    tools = engine.tools
    executor = tools.executor(inspection.tool, action.call.run)
    arguments = check_arguments(inspection, frozen_arguments(action.call), tools.parameters(inspection.tool))
    if arguments is None and is_about_one_thing(inspection, {}) and tools.takes_nothing(inspection.tool):
        arguments = {}
    if executor is None or arguments is None or not tools.is_read(inspection.tool):
        yield from verdict_flow(engine, root, action, Verdict.CANNOT_TELL, source="check")
        return
    ask = Ask(
        tool=inspection.tool,
        arguments=arguments,
        run=f"{root}{CHECKS}",
        parent=action.call.run,
        step=engine.ids.request_id(),
    )
    reply = yield from call_flow(engine, ask, executor, wait=False)
    if reply.ok:
        yield from inspected_flow(engine, root, action, inspection, reply.value, source="check")
    else:
        yield from verdict_flow(engine, root, action, Verdict.CANNOT_TELL, source="check")
