"""Committed decisions become notices for observers, outside every lock, one at a time.

What an observer raises is counted and goes no further. What is told is closed words, numbers and ids
(`forbear.observe.notice`). Nothing is decided, counted or sent here.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from types import TracebackType
from typing import Final, Self

from forbear.contract import Catalogue
from forbear.core.decision import AskHuman, Decision, DropHold, Execute
from forbear.core.rules import Rule
from forbear.core.states import Action, Completed, Running
from forbear.core.vocabulary import Answer, Executed, Outcome
from forbear.errors import ForbearError, UsageError
from forbear.observe.naming import named, severity_of
from forbear.observe.notice import (
    OTHER,
    CallTracer,
    Event,
    Lift,
    Notice,
    Observer,
    ReadObserver,
    Reads,
    Seen,
    Unrecorded,
    Usage,
    UsageObserver,
)
from forbear.ports import Clock
from forbear.runtime.batch import Line, Pending
from forbear.runtime.effects import Save
from forbear.runtime.lane import Flight
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.tools import Toolbox
from forbear.store.codec import from_us

_MICROSECOND: Final = timedelta(microseconds=1)
# Read in C: these see every succeeding read.
_name: Final[Callable[[Flight], str]] = attrgetter("entry.policy.name")
_started_us: Final[Callable[[Flight], int]] = attrgetter("started_us")
_ended_us: Final[Callable[[Flight], int]] = attrgetter("ended_us")


@dataclass(frozen=True, slots=True)
class Noted:
    """What a decision's notice needs of the state before it."""

    save: Save
    decision: Decision
    phases: tuple[str, str]
    started_at: datetime | None
    lifts: tuple[Lift, ...]


@dataclass(frozen=True, slots=True)
class _Written:
    """Lines of reads that were journalled."""

    lines: Sequence[Line]


class Observing:
    """The observers of one controller, and what they have not been told yet."""

    def __init__(self, observers: Sequence[Observer], tools: Toolbox, catalogue: Catalogue, clock: Clock) -> None:
        for observer in observers:
            # The application's object may be untyped.
            if not callable(getattr(observer, "observe", None)):
                raise UsageError(f"observer of type {type(observer).__name__!r}: must have a method 'observe'")
        self._observers = tuple(observers)
        self._tracers = tuple(
            one for one in observers if isinstance(one, CallTracer) and getattr(one, "traces", True) is True
        )
        self._tools = tools
        self._catalogue = catalogue
        self._clock = clock
        self.untold: deque[Noted | _Written | Usage | Notice] = deque()
        self._one_at_a_time = threading.Lock()
        # How often each observer raised, by its class.
        self.errors: Counter[str] = Counter()

    @property
    def traces(self) -> bool:
        """Say whether somebody puts spans around calls."""
        return bool(self._tracers)

    # ---- under the lock of a tree -----------------------------------------------------------------------------------

    def look(self, effect: Save, pending: Pending) -> Noted:
        """Keep what the notice needs of the state before the decision."""
        started_at = None
        if effect.call is not None and effect.attempt:
            before = effect.live.actions.get(effect.call.action)
            if before is not None and isinstance(before.phase, Running):
                started_at = next((one.started_at for one in before.phase.open if one.attempt == effect.attempt), None)
        return Noted(effect, pending.decision, pending.phases, started_at, self._lifts(effect, pending.decision))

    def _lifts(self, effect: Save, decision: Decision) -> tuple[Lift, ...]:
        if decision.rule is not Rule.LIFTED:
            return ()
        holds = effect.live.all_holds()
        dropped = [holds[one.key] for one in decision.changes if isinstance(one, DropHold) and one.key in holds]
        if not dropped:
            return (Lift(tool=OTHER, code="", cause=None),)
        return tuple(
            Lift(tool=self.tool(hold.tool), code=self.code(hold.code)[0], cause=hold.cause) for hold in dropped
        )

    def committed(self, noted: Noted) -> None:
        """A decision was committed: tell it when the lock is given back."""
        self.untold.append(noted)

    def written(self, lines: Sequence[Line]) -> None:
        """Lines that waited were committed: tell of the reads among them when the lock is given back."""
        self.untold.append(_Written(lines))

    def unrecorded(self, reply: Reply, rule: Unrecorded, attempt: int) -> None:
        """A call was answered although nothing could be committed about it."""
        envelope, tool = reply.envelope, self.tool(reply.tool)
        notice = Notice(
            event=Event.BROKEN,
            severity=severity_of(Event.BROKEN),
            at=self._clock.now(),
            rule=rule,
            cause="Proposed" if rule is Unrecorded.PROPOSED else "Returned",
            tool=tool,
            operation=tool if tool in {"", OTHER} else self._tools.known_policy(tool).operation or tool,
            answer=reply.answer,
            outcome=envelope.outcome,
            executed=envelope.executed,
            recovery=envelope.recovery,
            code=self.code(envelope.code)[0],
            attempt=attempt,
            starts=rule is Unrecorded.PROPOSED and reply.answer is Answer.EXECUTED,
            request_id=envelope.request_id,
            run=reply.run,
            step=reply.step,
            call_id=reply.call_id,
        )
        self.untold.append(notice)

    # ---- outside every lock -----------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Tell what is untold; where another thread does so already, it goes on with this."""
        while self.untold and self._one_at_a_time.acquire(blocking=False):
            try:
                while self.untold:
                    try:
                        one = self.untold.popleft()
                    except IndexError:
                        break
                    self._tell(one)
            finally:
                self._one_at_a_time.release()

    def _tell(self, one: Noted | _Written | Usage | Notice) -> None:
        if isinstance(one, (Noted, Notice)):
            notice = self._notice(one) if isinstance(one, Noted) else one
            for observer in self._observers:
                self._guard(observer, observer.observe, notice)
        elif isinstance(one, Usage):
            for observer in self._observers:
                if isinstance(observer, UsageObserver):
                    self._guard(observer, observer.observe_usage, one)
        else:
            self._tell_reads(one.lines)

    def _tell_reads(self, lines: Sequence[Line]) -> None:
        reads: list[Reads] | None = None
        for observer in self._observers:
            if isinstance(observer, ReadObserver):
                if reads is None:
                    reads = self._together(lines)
                if reads:
                    self._guard(observer, observer.observe_reads, reads)
                continue
            for line in lines:
                if isinstance(line, (Flight, tuple)):
                    self._guard(observer, observer.observe, self._of_flight(line))

    def _together(self, lines: Sequence[Line]) -> list[Reads]:
        ended = [line[0] for line in lines if type(line) is tuple]
        counts = Counter(map(_name, ended))
        return [
            Reads(tool=self.tool(name), operation=self.tool(name), count=count, ran_for=_ran_for(ended, name, counts))
            for name, count in counts.items()
        ]

    def _guard(self, observer: object, told: Callable[..., object], *facts: object) -> object:
        try:
            return told(*facts)
        except Exception as error:  # noqa: BLE001 - an observer is somebody else's code; it breaks nothing
            self._failed(observer, error)
            return None

    def _failed(self, observer: object, error: Exception) -> None:
        name = type(observer).__name__
        self.errors[name] += 1
        if self.errors[name] == 1:
            # Where warnings are errors they are not this call's errors.
            with suppress(Warning):
                warnings.warn(
                    f"observer {name} raised {type(error).__name__}: further errors of it are only counted",
                    RuntimeWarning,
                    stacklevel=2,
                )

    # ---- notices ----------------------------------------------------------------------------------------------------

    def tool(self, name: str) -> str:
        """Return a tool's name where the application knows it; a name that a model made up is nobody's word."""
        if not name:
            return ""
        known = self._tools.knows(name)
        return name if known else OTHER

    def code(self, code: str) -> tuple[str, bool]:
        """Return a code where the catalogue holds it, and whether it does."""
        known = not code or self._catalogue.get(code) is not None
        return (code if known else OTHER), known

    def _notice(self, noted: Noted) -> Notice:
        effect, decision = noted.save, noted.decision
        call, told = effect.call, decision.told
        code, is_known = self.code("" if told is None else told.code)
        event, severity = named(decision.rule, decision.answer, decision.would)
        outcome, executed = (None, None) if told is None else (told.outcome, told.executed)
        if told is None and noted.phases[1] == "Completed" and call is not None:
            outcome, executed = _completed(decision, call.action)
        tool = "" if call is None else self.tool(call.tool)
        return Notice(
            event=event,
            severity=severity,
            at=effect.now,
            rule=decision.rule,
            cause=effect.event,
            before=noted.phases[0],
            after=noted.phases[1],
            tool=tool,
            operation="" if call is None else (OTHER if tool == OTHER else call.operation),
            answer=decision.answer,
            outcome=outcome,
            executed=executed,
            recovery=None if told is None else told.recovery,
            code=code,
            code_is_known=is_known or effect.event != "Returned",
            attempt=effect.attempt,
            started_at=noted.started_at,
            starts=any(isinstance(command, Execute) for command in decision.commands),
            asks=any(isinstance(command, AskHuman) for command in decision.commands),
            suppressed=decision.suppressed,
            would=decision.would,
            would_rule=decision.would_rule,
            lifts=noted.lifts,
            request_id=effect.request_id,
            run=effect.run if call is None else call.run,
            root=effect.live.root,
            step="" if call is None else call.step,
            call_id="" if call is None else call.call_id,
            action="" if call is None else call.action,
        )

    def _of_flight(self, line: Flight | tuple[Flight]) -> Notice:
        """Return the notice of one half of a read that took the short way."""
        ended = isinstance(line, tuple)
        flight = line[0] if isinstance(line, tuple) else line
        tool = self.tool(flight.entry.policy.name)
        started_at = from_us(flight.started_us)
        event = Event.COMPLETED if ended else Event.STARTED
        return Notice(
            event=event,
            severity=severity_of(event),
            at=from_us(flight.ended_us) if ended else started_at,
            rule=Rule.RETURNED_COMPLETED if ended else Rule.EXECUTED,
            cause="Returned" if ended else "Proposed",
            before="Running" if ended else ("Fresh" if flight.number == 1 else "Completed"),
            after="Completed" if ended else "Running",
            tool=tool,
            operation=tool,
            answer=Answer.EXECUTED,
            outcome=Outcome.SUCCESS if ended else None,
            executed=Executed.YES if ended else None,
            attempt=flight.number,
            started_at=started_at if ended else None,
            starts=not ended,
            request_id=flight.request_id,
            run=flight.run,
            root=flight.root,
            step=flight.step,
            call_id=flight.call_id,
            action=flight.entry.identity()[0],
        )

    # ---- spans ------------------------------------------------------------------------------------------------------

    def begin(self, tool: str, call_id: str) -> list[tuple[CallTracer, object]]:
        """Begin a span with everybody who traces."""
        name = self.tool(tool) or OTHER
        opened: list[tuple[CallTracer, object]] = []
        for tracer in self._tracers:
            span = self._guard(tracer, tracer.begin, name, call_id)
            if span is not None:
                opened.append((tracer, span))
        return opened

    def end(self, opened: list[tuple[CallTracer, object]], seen: Seen) -> None:
        """End what `begin` began, the last one first."""
        for tracer, span in reversed(opened):
            self._guard(tracer, tracer.end, span, seen)

    def mark(self, reply: Reply, attempt: Attempt | None) -> None:
        """Note a call that its caller executes: when it was answered without an execution, and when it was settled."""
        if not self._tracers or (attempt is None and reply.attempt is not None) or reply.joins is not None:
            return
        now = self._clock.now()
        began_at = now if attempt is None else attempt.started_at
        seen = self.seen(reply)
        for tracer in self._tracers:
            self._guard(tracer, tracer.mark, seen, reply.call_id, began_at, now)

    def trace_id(self) -> str:
        """Return the trace that this code runs in, by the first observer that knows one; "" = none does."""
        for observer in self._observers:
            if isinstance(observer, CallTracer):
                found = self._guard(observer, observer.trace_id)
                if isinstance(found, str) and found:
                    return found
        return ""

    def seen(self, reply: Reply) -> Seen:
        """Return how a call ended, in closed words."""
        envelope = reply.envelope
        tool = self.tool(reply.tool)
        return Seen(
            tool=tool or OTHER,
            operation=tool if tool in {"", OTHER} else self._tools.known_policy(tool).operation or tool,
            rule=reply.rule,
            answer=reply.answer,
            outcome=envelope.outcome,
            executed=envelope.executed,
            recovery=envelope.recovery,
            code=self.code(envelope.code)[0],
            would=reply.would,
            suppressed=reply.suppressed,
            request_id=envelope.request_id,
            run=reply.run,
        )


class Traced:
    """A call with a span around it: a context manager that is told the reply."""

    __slots__ = ("_observing", "_opened", "_signals", "_tool", "reply")

    def __init__(
        self, observing: Observing, tool: str, call_id: str, signals: tuple[type[BaseException], ...] = ()
    ) -> None:
        self._observing = observing
        self._tool = tool
        self._signals = signals
        self._opened = observing.begin(tool, call_id)
        self.reply: Reply | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        observing = self._observing
        if self.reply is not None:
            observing.end(self._opened, observing.seen(self.reply))
            return
        raised = ""
        if kind is not None and not issubclass(kind, self._signals):
            raised = kind.__name__ if issubclass(kind, ForbearError) else OTHER
        observing.end(self._opened, Seen(tool=observing.tool(self._tool) or OTHER, raised=raised))


def _completed(decision: Decision, action: str) -> tuple[Outcome | None, Executed | None]:
    """Return what a completion says that tells nothing."""
    for change in decision.changes:
        if isinstance(change, Action) and change.key == action and isinstance(change.phase, Completed):
            return change.phase.outcome, Executed.YES
    return None, None


def _ran_for(ended: Sequence[Flight], name: str, counts: Counter[str]) -> timedelta:
    """Return how long the reads of one tool ran in all."""
    own = ended if len(counts) == 1 else [flight for flight in ended if _name(flight) == name]
    return (sum(map(_ended_us, own)) - sum(map(_started_us, own))) * _MICROSECOND
