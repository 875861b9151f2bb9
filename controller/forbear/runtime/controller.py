"""`Controller`: the public object around tool calls. It declares tools, answers calls and runs what is due.

Façade only: flows are in `flows.py`, decisions in the core. Nothing here looks at a recovery class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload

from forbear.contract import Catalogue, policies_from_toml
from forbear.core.policy import Limits, ToolPolicy
from forbear.errors import ConfigError, StoreError, UsageError
from forbear.observe.notice import Observer
from forbear.ports import Clock, Ids, Store
from forbear.runtime.asking import Asking, OnBroken, answers_broken, ended_of
from forbear.runtime.broken import broken_flow
from forbear.runtime.calling import USUAL, Manner, acall, call, traced_acall, traced_call
from forbear.runtime.clock import SystemClock, SystemIds
from forbear.runtime.crash import bare
from forbear.runtime.drive import running_loop
from forbear.runtime.embedded import EmbeddedWorker, JournalWriter
from forbear.runtime.ends import end_flow
from forbear.runtime.engine import Engine
from forbear.runtime.explain import Explanation, explain_flow
from forbear.runtime.flows import join_flow, keep_flow, propose_flow
from forbear.runtime.opening import (
    check_clock,
    evidence_for,
    open_store,
    read_catalogue,
    read_labels,
    read_limits,
    read_mode,
    threads_for,
)
from forbear.runtime.perform import INSIDE, Inside, arun_flow, run_flow
from forbear.runtime.places import note_flow
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.runs import RunHandle
from forbear.runtime.steps import Ended, Executor, Signals, transact
from forbear.runtime.token import check_token
from forbear.runtime.tools import Toolbox, name_of, taken_by
from forbear.runtime.where import Where
from forbear.runtime.worker import Passes
from forbear.store.codec import from_us

F = TypeVar("F", bound=Callable[..., object])

OnReady = Callable[[Reply], None]


class Controller:
    """Stands between a model that proposes tool calls and the code that executes them.

    Made by `open`. Safe for threads and tasks; one per process is enough, several are possible.

    Example:
        >>> controller = Controller.open(":memory:")
        >>> _ = controller.declare("find_order", effect="read")
        >>> controller.call("find_order", {"id": 7}, run="r1", execute=lambda id: {"id": id}).value
        {'id': 7}
        >>> controller.close()
    """

    def __init__(self, engine: Engine, *, worker: bool) -> None:
        self._engine = engine
        self._tools: Toolbox = engine.tools
        self._passes = Passes(engine)
        self._asking = Asking(engine)
        self._closed = False
        engine.on_late = self._settle_late
        traces = engine.observing is not None and engine.observing.traces
        self._call, self._acall = (traced_call, traced_acall) if traces else (call, acall)
        self._worker = EmbeddedWorker(self, engine) if worker else None
        self._writer = JournalWriter(engine) if worker else None
        if self._worker is not None:
            engine.on_work = self._worker.kick
            self._tools.on_bound = self._worker.look_soon
        if self._writer is not None:
            engine.world.batch.on_many_lines = self._writer.wake
        engine.note_lost()

    # ---- opening and closing ----------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        limits: Limits | dict[str, object] | None = None,
        catalogue: Catalogue | str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        approver: bool = True,
        on_ready: OnReady | None = None,
        strict: bool = False,
        mode: str = "enforce",
        worker: bool = True,
        labels: Mapping[str, str] | None = None,
        evidence: str | os.PathLike[str] | None = None,
        keep_evidence: bool = True,
        observer: Observer | Sequence[Observer] = (),
        token: str | None = None,
    ) -> Self:
        """Open a controller on a store.

        Args:
            path: A file, ``":memory:"``, a URL, or None for the user's own file.
            store: An open store instead of `path`; it is closed with the controller.
            limits: The numbers that bound every run; a tool may declare its own.
            catalogue: The project's codes beside the built-in ones.
            clock: The time; a test passes its own.
            ids: Request ids and tickets; a test passes its own.
            approver: Somebody can answer prompts. Without one nothing that needs approval ever runs.
            on_ready: Called with each result that became ready outside a call; it is in the run's inbox as well.
            strict: A missing run id and an undeclared tool are errors.
            mode: ``"enforce"``, or ``"observe"``: nothing changes for callers, decisions are only recorded.
            worker: Do what is due in this process, in a thread or task of its own, from the first call that waits.
            labels: What the application says about itself in the record: service, version, region, risk.
            evidence: Where exception texts, header fields and bodies are kept for operators; None = beside the store's
                file, which only this user can read. Nothing of it is ever given to a model.
            keep_evidence: Keep them at all. Without them the journal still says what was decided and why.
            observer: Is told each decision once (`forbear.observe`); several are told in this order. What one raises
                breaks no call: it is warned of once and counted in `observer_errors`.
            token: The operator token, where the store has one, for a start with policies that are looser than those that
                the store has (`check_policies`). Take it from outside the agent's reach, or leave it out and let an
                operator allow the policies (`forbear allow`).

        Raises:
            ConfigError: an option is wrong.
            NotOperator: a token was passed and it is not that of the store.
            UsageError: an observer is none.
            SchemaTooNew: a newer release wrote the database.
            StoreError: the store cannot be opened.
        """
        clock = SystemClock() if clock is None else clock
        check_clock(clock)
        ids = SystemIds() if ids is None else ids
        bounds, word, codes = read_limits(limits), read_mode(mode), read_catalogue(catalogue)
        said = read_labels(labels)
        opened = open_store(path, clock) if store is None else store
        try:
            engine = Engine(
                store=opened,
                clock=clock,
                ids=ids,
                tools=Toolbox(bounds, mode=word, strict=strict),
                limits=bounds,
                catalogue=codes,
                approver=approver,
                strict=strict,
                threads=threads_for(opened),
                evidence=evidence_for(opened, evidence, clock, ids, keeps=keep_evidence, at_once=worker),
                labels=said,
                token=token,
            )
            if token is not None:
                run_flow(transact(check_token(token, actor="a controller"), None), engine)
            engine.on_ready = on_ready
            engine.observe(tuple(observer) if isinstance(observer, Sequence) else (observer,))
            return cls(engine, worker=worker)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Stop the worker, write what reads left to write, and close the store; calling it twice is harmless."""
        if self._closed:
            return
        self._closed = self._engine.closed = True
        if self._worker is not None:
            self._worker.stop()
        if self._writer is not None:
            self._writer.stop()
        try:
            self._engine.world.batch.flush()
        finally:
            if self._engine.world.evidence is not None:
                self._engine.world.evidence.close()
            self._engine.tell()
            self._engine.store.close()
            if self._engine.threads is not None:
                self._engine.threads.shutdown(wait=False)

    @property
    def observer_errors(self) -> Mapping[str, int]:
        """Return how often observers raised, by their class; what they raised is not kept."""
        observing = self._engine.observing
        return {} if observing is None else dict(observing.errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- declaring --------------------------------------------------------------------------------------------------

    def declare(
        self, *names: str | Mapping[str, Mapping[str, object] | ToolPolicy], **fields: object
    ) -> tuple[ToolPolicy, ...]:
        """Declare tools: names that share fields, or a mapping of names to their fields.

        Raises:
            ConfigError: a field is unknown or wrong; the tools before it in this call stay declared.
            UsageError: no tool is named.
        """
        if not names:
            raise UsageError("declare: must name at least one tool")
        declared: list[ToolPolicy] = []
        for name in names:
            if isinstance(name, str):
                declared.append(self._tools.declare(name, fields))
                continue
            for tool, own in name.items():
                if isinstance(own, ToolPolicy):
                    declared.append(self._tools.adopt(own))
                else:
                    declared.append(self._tools.declare(tool, {**fields, **own}))
        return tuple(declared)

    def declare_from(self, path: str | os.PathLike[str]) -> tuple[ToolPolicy, ...]:
        """Declare the tools of a policy file in TOML.

        Raises:
            ConfigError: the file cannot be read or a policy in it is wrong (the message names the file); nothing was
                declared.
        """
        found = policies_from_toml(Path(path)).values()
        try:
            for policy in found:
                self._tools.check(policy)
        except ConfigError as error:
            raise ConfigError(f"policy file {Path(path).name!r}: {error}") from None
        return tuple(self._tools.adopt(policy) for policy in found)

    def check_policies(self) -> None:
        """Compare everything that was declared so far with what the store has, instead of at each tool's first call.

        Where the store has an operator token, a policy that is looser than the noted one needs it: until then no call of
        that tool is taken, here or at its first call. A new, equal or tighter policy is taken. Each change is journalled.

        Raises:
            NotOperator: a policy is looser: the message names its fields; those before it were taken.
            StoreError: the store cannot be read or written.
        """
        for policy in self._tools.policies():
            run_flow(note_flow(self._engine, policy), self._engine)

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(self, fn: None = None, /, *, name: str | None = None, **fields: object) -> Callable[[F], F]: ...
    def tool(self, fn: F | None = None, /, *, name: str | None = None, **fields: object) -> F | Callable[[F], F]:
        """Declare a function as a tool and bind it as its executor; the function itself is returned unchanged."""

        def register(function: F) -> F:
            named = name_of(function) if name is None else name
            self._tools.declare(named, fields, arguments=taken_by(function))
            self.bind(named, function)
            return function

        return register if fn is None else register(fn)

    def bind(self, name: str, executor: Executor) -> None:
        """Say how the controller runs a tool by itself (retries, grants, parked calls); sync or async, keyword arguments.

        Raises:
            ConfigError: the tool's policy names an argument that the executor does not take; nothing was bound.
            UsageError: the executor cannot be called.
        """
        self._tools.bind(name, executor)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def call(
        self,
        tool: str,
        arguments: object,
        *,
        execute: Executor | None = None,
        wait: bool = True,
        signals: Signals = (),
        on_broken: OnBroken = "raise",
        **where: Unpack[Where],
    ) -> Reply:
        """Decide about a call, run its tool if it may run, and answer.

        Args:
            tool: The tool's name.
            arguments: A mapping with a JSON form, or the JSON text of an object as the model wrote it.
            execute: Runs the tool, called with keyword arguments; default: the bound executor.
            wait: Wait inside the call where that is at most `inline_wait`.
            signals: Exceptions that the framework steers itself with; they pass through.
            on_broken: What happens where the store cannot be written: StoreError, or a blocked reply.
            **where: Run, step and call id of the proposal, see `Where`.

        Raises:
            UsageError: the API was used wrongly (for example on a running event loop); nothing was executed.
            StoreError: the store cannot be written. The tool did not run, or its end is committed later.
        """
        if running_loop() is not None:
            raise UsageError("call: an event loop is running in this thread, use acall")
        executor = self._asking.executor(tool, execute)
        try:
            return self._call(self._asking, tool, arguments, where, executor, _manner(signals, on_broken, wait=wait))
        except Exception as error:
            bare(error, signals)
            raise

    async def acall(
        self,
        tool: str,
        arguments: object,
        *,
        execute: Executor | None = None,
        wait: bool = True,
        signals: Signals = (),
        on_broken: OnBroken = "raise",
        **where: Unpack[Where],
    ) -> Reply:
        """Do what `call` does, in a task: the tool and the approval rule may be async."""
        executor = self._asking.executor(tool, execute)
        try:
            return await self._acall(
                self._asking, tool, arguments, where, executor, _manner(signals, on_broken, wait=wait)
            )
        except Exception as error:
            bare(error, signals)
            raise

    # ---- the two halves of a call, for adapters and hooks -----------------------------------------------------------

    def propose(self, tool: str, arguments: object, *, on_broken: OnBroken = "raise", **where: Unpack[Where]) -> Reply:
        """Decide about a call. Where the reply holds an `attempt`, the caller runs it once and settles it.

        Raises:
            UsageError: the API was used wrongly, or the tool's approval rule is async.
            StoreError: the store cannot be written: the tool must not run.
        """
        ask = self._asking.ask(tool, arguments, where)
        try:
            return self._marked(run_flow(propose_flow(self._engine, ask), self._engine))
        except Exception as error:
            if isinstance(error, StoreError) and answers_broken(on_broken):
                return run_flow(broken_flow(self._engine, ask, error), self._engine)
            bare(error)
            raise

    async def apropose(
        self, tool: str, arguments: object, *, on_broken: OnBroken = "raise", **where: Unpack[Where]
    ) -> Reply:
        """Do what `propose` does, in a task: the approval rule may be async."""
        ask = self._asking.ask(tool, arguments, where)
        try:
            return self._marked(await arun_flow(propose_flow(self._engine, ask), self._engine))
        except Exception as error:
            if isinstance(error, StoreError) and answers_broken(on_broken):
                return await arun_flow(broken_flow(self._engine, ask, error), self._engine)
            bare(error)
            raise

    def settle(self, attempt: Attempt, result: object, *, signals: Signals = ()) -> Reply:
        """Say how an attempt ended and get the answer.

        Args:
            attempt: The attempt of a reply.
            result: A raw result (`forbear.contract.Value`, `Raised`, `Http`, `Mcp`, …); anything else is taken for the
                value that the tool returned. A `Raised` that is no answer (cancellation, KeyboardInterrupt) or one of
                `signals` is committed as that; the caller raises it again.
            signals: Exceptions that the framework steers itself with.

        Raises:
            StoreError: the store cannot be written; the end is committed before the tree's next decision.
        """
        flow = end_flow(self._engine, attempt, ended_of(result, signals))
        try:
            return self._marked(run_flow(flow, self._engine), attempt)
        except Exception as error:
            bare(error, signals)
            raise

    async def asettle(self, attempt: Attempt, result: object, *, signals: Signals = ()) -> Reply:
        """Do what `settle` does, in a task."""
        flow = end_flow(self._engine, attempt, ended_of(result, signals))
        try:
            return self._marked(await arun_flow(flow, self._engine), attempt)
        except Exception as error:
            bare(error, signals)
            raise

    def keep(self, tool: str, arguments: object, value: object, **where: Unpack[Where]) -> bool:
        """Keep what a call returned, so that the same call (run, step, call id, arguments) is answered from the record.

        For frameworks that propose every call of a message again after a pause: writes are kept as ever, a read that
        completed is kept by this. Short, and may be called on an event loop.

        Returns:
            Whether the call is answered from the record from now on. False = the call did not complete, has no call
            id, or its result has no JSON form of at most 64 KiB: the read runs again, as it may.

        Raises:
            StoreError: the store cannot be written; nothing was kept.
        """
        return run_flow(keep_flow(self._engine, self._asking.ask(tool, arguments, where), value), self._engine)

    def _marked(self, reply: Reply, attempt: Attempt | None = None) -> Reply:
        """Note for spans what the caller of the two halves executes."""
        if self._engine.observing is not None:
            self._engine.observing.mark(reply, attempt)
        return reply

    def join(self, reply: Reply) -> Reply:
        """Wait for the attempt whose result answers this call too (`reply.joins`)."""
        if running_loop() is not None:
            raise UsageError("join: an event loop is running in this thread, use ajoin")
        return reply if reply.joins is None else run_flow(join_flow(reply), self._engine)

    async def ajoin(self, reply: Reply) -> Reply:
        """Do what `join` does, in a task."""
        return reply if reply.joins is None else await arun_flow(join_flow(reply), self._engine)

    @contextmanager
    def inside(self, attempt: Attempt) -> Generator[None]:
        """Mark the code that runs an attempt: a run that starts in it is a child. `call` does this by itself."""
        inside = Inside(self._engine, attempt.root, attempt.run, attempt.call_id)
        token = INSIDE.set(inside)
        try:
            yield
        finally:
            INSIDE.reset(token)
            if inside.trail is not None:
                self._engine.keep_trail(attempt, inside.trail)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def run(self, run: str, *, parent: str | None = None, principal: str | None = None) -> RunHandle:
        """Return a handle on one agent run.

        Raises:
            UsageError: the run belongs to another tree or draws from another principal.
        """
        return RunHandle(self._engine, run, parent, principal)

    def explain(self, request_id: str) -> Explanation:
        """Say in words what became of a request: each step, what holds now, what was told, what a person can do.

        Raises:
            StoreError: the journal cannot be read, or lines that wait for it cannot be written.
            UsageError: the journal does not know the request.
        """
        return run_flow(explain_flow(self._engine, request_id), self._engine)

    # ---- what is due ------------------------------------------------------------------------------------------------

    def work(self) -> list[Reply]:
        """Do everything that is due now with the bound executors; results go into the inboxes of their runs.

        Returns:
            What became of each due call.

        Raises:
            StoreError: the store cannot be used; what was done before stays done.
        """
        try:
            return self._passes.work()
        except Exception as error:
            bare(error)
            raise

    async def awork(self) -> list[Reply]:
        """Do what `work` does, in a task; due calls run at the same time."""
        try:
            return await self._passes.awork()
        except Exception as error:
            bare(error)
            raise

    def due(self) -> list[Reply]:
        """Claim everything that is due now, for callers that execute by themselves.

        Returns:
            One reply for each due call: where it holds an `attempt`, the caller runs and settles it.
        """
        return self._passes.claim()

    @property
    def next_due_at(self) -> datetime | None:
        """When the earliest scheduled thing of the store is due, aware UTC; None = nothing is scheduled."""
        due_us = self._engine.store.next_due_us()
        return None if due_us is None else from_us(due_us)

    @property
    def store(self) -> Store:
        """The store that this controller is open on."""
        return self._engine.store

    @property
    def is_closed(self) -> bool:
        """Say whether `close` was called: then nothing can be decided or run any more."""
        return self._closed

    @property
    def engine(self) -> Engine:
        """The parts of this controller, for the rest of `forbear`; not public."""
        return self._engine

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _settle_late(self, attempt: Attempt, ended: Ended) -> None:
        """Commit what a tool answered after its timeout, from the thread that it ran in."""
        if not self._closed:
            run_flow(end_flow(self._engine, attempt, ended), self._engine)


def _manner(signals: Signals, on_broken: str, *, wait: bool) -> Manner:
    if on_broken == "raise" and wait and not signals:
        return USUAL
    return Manner(signals=signals, wait=wait, answers_broken=answers_broken(on_broken))
