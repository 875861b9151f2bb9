"""The world of one exploration: a snapshot, the monitor's account and a clock, and everything that a shell could send.

Hostile moves (late and duplicate results, answers that fit nothing, spurious wake-ups) are among them. What must hold is
in monitor.py; which small worlds there are is in cases.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from forbear.core.decide import decide, decide_tree
from forbear.core.decision import Decision, Snapshot
from forbear.core.events import (
    Cancelled,
    Denied,
    Edited,
    Event,
    Granted,
    Inspected,
    Interrupted,
    Lifted,
    Lost,
    Proposed,
    Reconnected,
    Returned,
    Revised,
    RunRestarted,
    TreeEvent,
    TurnBegan,
    Woke,
)
from forbear.core.rules import Rule
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Completed,
    Fresh,
    Hold,
    Parked,
    Running,
    Tree,
    Unknown,
    Waiting,
)
from forbear.core.values import Call, RuleVerdict
from forbear.core.vocabulary import Scope, Verdict
from forbear.testing.explore import Move
from tests.model.calls import ALLOW, RESULTS, ROOT, T0, Case
from tests.model.canonical import Canonical
from tests.model.monitor import Monitor

TICK = timedelta(microseconds=1)
LEAP = timedelta(hours=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A moment: the clock, what the controller remembers, the monitor's account, and what the shell remembers."""

    now: datetime
    s: Snapshot
    m: Monitor
    # Fresh names of steps, tickets and requests are numbered.
    serial: int = 0
    # The newest proposal of each call: name, as it was proposed.
    sent: tuple[tuple[str, Call], ...] = ()
    # A step of two calls whose second one is not proposed yet: (run, step).
    half: tuple[str, str] | None = None
    # The history is not followed any further.
    is_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One decision of an exploration, for whoever listens."""

    before: Snapshot
    phase: str
    event: Event | TreeEvent
    key: str
    now: datetime
    decision: Decision


class Desk:
    """A world for the explorer, made of one case."""

    def __init__(self, case: Case, listen: Callable[[Seen], None] | None = None) -> None:
        self.case = case
        self.listen = listen
        # (phase, event) -> rules that were seen.
        self.cells: Counter[tuple[str, str, Rule]] = Counter()
        self.names = {made.action: name for name, made in case.calls.items()}
        self.canonical = Canonical(case)

    # ---- the explorer's three questions -----------------------------------------------------------------------------

    def start(self) -> State:
        """Return the moment before anything was proposed."""
        snapshot = Snapshot(
            tree=Tree(root=ROOT, principal=self.case.principal),
            runs={},
            actions={},
            holds={},
            known={},
            policy=self.case.tools[0],
            limits=self.case.limits,
            owner="owner",
            has_approver=self.case.has_approver,
        )
        return State(now=T0, s=snapshot, m=Monitor())

    def key(self, state: State) -> Hashable:
        """Return what the future of a state depends on: relative times, small names."""
        return self.canonical.key(state.now, state.s, state.m, state.sent, state.half, is_end=state.is_end)

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Return everything that a shell could send now."""
        if state.is_end:
            return
        also = self.case.also
        yield from self._proposals(state)
        for action in state.s.actions.values():
            yield from self._results(state, action)
            yield from self._timers(state, action)
            if "people" in also:
                yield from self._people(state, action)
            if "inspect" in also and (isinstance(action.phase, Unknown) or "hostile" in also):
                yield from self._verdicts(state, action)
            if "cancel" in also:
                for acknowledged in (True, False):
                    word = "acknowledged" if acknowledged else "not acknowledged"
                    event = Cancelled(acknowledged=acknowledged, ticket=_ticket(state), request_id=_request(state))
                    yield self._move(state, f"cancel {self._name(action)}, {word}", action.key, event)
            if "reconnect" in also:
                yield self._move(state, f"reconnected {self._name(action)}", action.key, Reconnected())
        yield from self._tree(state)
        yield from self._clock(state)

    # ---- what can happen --------------------------------------------------------------------------------------------

    def _proposals(self, state: State) -> Iterator[Move[State]]:
        also = self.case.also
        for name, made in self.case.calls.items():
            for verdict in self.case.verdicts.get(name, (ALLOW,)):
                said = "" if verdict == ALLOW else f" (rule says {verdict.gate.value})"
                yield self._propose(state, f"propose {name}{said}", name, made, verdict, siblings=1)
                if "batch" in also:
                    if state.half is None:
                        yield self._propose(
                            state, f"propose {name}, first of two{said}", name, made, verdict, siblings=2
                        )
                    elif state.half[0] == made.run:
                        step = state.half[1]
                        label = f"propose {name}, second of two{said}"
                        yield self._propose(state, label, name, made, verdict, siblings=2, step=step)
        if "resume" in also:
            for name, made in state.sent:
                yield self._again(state, f"resume {name}", made)

    def _propose(
        self,
        state: State,
        label: str,
        name: str,
        made: Call,
        verdict: RuleVerdict,
        *,
        siblings: int,
        step: str | None = None,
    ) -> Move[State]:
        here = f"step:{state.serial}" if step is None else step
        call_id = f"{here}:{state.serial}"
        call = replace(made, step=here, call_id=call_id, verdict=verdict, siblings=siblings)
        event = Proposed(call=call, ticket=_ticket(state), request_id=_request(state))
        half = (made.run, here) if siblings == 2 and step is None else None
        sent = (*(entry for entry in state.sent if entry[0] != name), (name, call))
        if "resume" not in self.case.also:
            sent = ()
        return self._move(state, label, call.action, event, sent=sent, half=half)

    def _again(self, state: State, label: str, call: Call) -> Move[State]:
        event = Proposed(call=call, ticket=_ticket(state), request_id=_request(state))
        return self._move(state, label, call.action, event, sent=state.sent, half=None)

    def _results(self, state: State, action: Action) -> Iterator[Move[State]]:
        also = self.case.also
        name = self._name(action)
        opened = [o.number for o in state.m.open if o.action == action.key]
        numbers = list(opened)
        late = [d.number for d in state.m.doubts if d.action == action.key]
        numbers.extend(n for n in late if n not in numbers)
        if "hostile" in also and action.attempts and action.attempts not in numbers:
            numbers.append(action.attempts)
        if "hostile" in also and action.attempts > 1 and 1 not in numbers:
            numbers.append(1)
        for number in numbers:
            word = "" if number in opened else "late " if number in late else "duplicate "
            for result in self.case.results.get(name, self.case.results.get("", ())):
                for finished in (False, True) if "poll" in also and result == "ok" else (None,):
                    said = "" if finished is None else ", finished" if finished else ", not finished"
                    event = Returned(
                        attempt=number,
                        envelope=replace(RESULTS[result](state.now), request_id=_request(state)),
                        digest="same" if "digest" in also else "",
                        kept="resume" in also or "poll" in also,
                        finished=finished,
                        ticket=_ticket(state),
                    )
                    yield self._move(state, f"{word}result of {name} #{number}: {result}{said}", action.key, event)
            if "lost" in also:
                lost = Lost(attempt=number, ticket=_ticket(state), request_id=_request(state))
                yield self._move(state, f"lost {name} #{number}", action.key, lost)
            if "framework" in also:
                interrupted = Interrupted(attempt=number, ticket=_ticket(state))
                yield self._move(state, f"interrupted {name} #{number}", action.key, interrupted)

    def _timers(self, state: State, action: Action) -> Iterator[Move[State]]:
        kept = isinstance(action.phase, (Waiting, Parked, AwaitingApproval, Approved, Unknown))
        if not kept and "hostile" not in self.case.also:
            return
        name = self._name(action)
        for verdict in self.case.verdicts.get(name, (ALLOW,)):
            said = "" if verdict == ALLOW else f" (rule says {verdict.gate.value})"
            call = replace(action.call, verdict=verdict)
            event = Woke(call=call, ticket=_ticket(state), request_id=_request(state))
            yield self._move(state, f"woke {name}{said}", action.key, event)

    def _people(self, state: State, action: Action) -> Iterator[Move[State]]:
        also = self.case.also
        name = self._name(action)
        phase = action.phase
        fingerprint = action.call.fingerprint
        asked = [phase.ticket] if isinstance(phase, AwaitingApproval) else []
        if "hostile" in also:
            asked.append("ticket:old")
            yield self._grant(state, f"approve {name} with another fingerprint", action, asked[0], "0" * 32)
        for ticket in asked:
            old = " with an old ticket" if ticket == "ticket:old" else ""
            yield self._grant(state, f"approve {name}{old}", action, ticket, fingerprint)
            if "reproposes" in also:
                yield self._grant(
                    state, f"approve {name}, it is proposed again{old}", action, ticket, fingerprint, again=True
                )
            said = {"ticket": ticket, "fingerprint": fingerprint, "actor": "person"}
            yield self._move(state, f"deny {name}{old}", action.key, Denied(**said, request_id=_request(state)))
            if "revise" in also:
                revised = Revised(**said, request_id=_request(state))
                yield self._move(state, f"revise {name}{old}", action.key, revised)
            if "edit" in also:
                for other, made in self.case.calls.items():
                    call = replace(made, step=action.call.step, call_id=action.call.call_id)
                    edited = Edited(
                        **said,
                        call=call,
                        reproposes=False,
                        new_ticket=_ticket(state),
                        request_id=_request(state),
                    )
                    yield self._move(state, f"edit {name} into {other}{old}", action.key, edited)

    def _grant(
        self, state: State, label: str, action: Action, ticket: str, fingerprint: str, *, again: bool = False
    ) -> Move[State]:
        event = Granted(
            ticket=ticket, fingerprint=fingerprint, actor="person", reproposes=again, request_id=_request(state)
        )
        return self._move(state, label, action.key, event)

    def _verdicts(self, state: State, action: Action) -> Iterator[Move[State]]:
        for source in ("check", "person"):
            for verdict in Verdict:
                event = Inspected(verdict=verdict, source=source, request_id=_request(state))
                yield self._move(state, f"{source} says {self._name(action)} is {verdict.value}", action.key, event)

    def _tree(self, state: State) -> Iterator[Move[State]]:
        also = self.case.also
        if "turns" in also:
            yield self._tree_move(state, "new turn", TurnBegan(at=state.now))
        if "restart" in also:
            yield self._tree_move(state, "run restarted", RunRestarted(run=ROOT))
        if "lifts" in also:
            for hold in state.s.holds.values():
                label = (
                    f"lift {hold.cause.name.lower()} on {hold.scope.value} {self.names.get(hold.value, hold.value[:6])}"
                )
                label += f" {hold.fields}" if hold.fields else ""
                yield self._tree_move(state, label, Lifted(hold=hold.key, run=None, actor="operator"), hold)
            for run in state.s.runs.values():
                if run.halted is not None:
                    yield self._tree_move(
                        state, f"lift halt of {run.id}", Lifted(hold=None, run=run.id, actor="operator")
                    )
            if "hostile" in also:
                yield self._tree_move(state, "lift nothing", Lifted(hold="action:none:3", run=None, actor="operator"))

    def _clock(self, state: State) -> Iterator[Move[State]]:
        ends = sorted(at for at in self._instants(state) if at > state.now)
        if ends:
            first = ends[0]
            if "ticks" in self.case.also and first - TICK > state.now:
                yield Move("time passes, until just before", lambda: replace(state, now=first - TICK))
            yield Move("time passes", lambda: replace(state, now=first))
        if "leap" in self.case.also and state.s.actions:
            yield Move("two hours pass", lambda: replace(state, now=state.now + LEAP))

    def _instants(self, state: State) -> Iterator[datetime]:
        for action in state.s.actions.values():
            phase = action.phase
            limits = self.case.policy(action.call.tool).limits
            match phase:
                case Waiting():
                    yield phase.retry_at
                case Parked():
                    yield phase.run_at
                case AwaitingApproval():
                    yield phase.expires_at
                case Approved():
                    yield phase.grant.expires_at
                case Unknown():
                    if phase.inspect_at is not None:
                        yield phase.inspect_at
                    if phase.absent_at is not None:
                        yield phase.absent_at + limits.settle
                case Completed():
                    poll = self.case.policy(action.call.tool).poll
                    if poll is not None and phase.finished is False:
                        yield phase.started_at + poll.min_interval
                case _:
                    pass
        for hold in state.s.holds.values():
            if hold.ends_at is not None:
                yield hold.ends_at
            elif hold.scope in (Scope.QUOTA, Scope.PRINCIPAL):
                yield hold.placed_at + self.case.policy(hold.tool).limits.max_shared_hold

    # ---- one move ---------------------------------------------------------------------------------------------------

    def _name(self, action: Action) -> str:
        return self.names.get(action.key, action.key[:6])

    def _move(
        self,
        state: State,
        label: str,
        key: str,
        event: Event,
        *,
        sent: tuple[tuple[str, Call], ...] | None = None,
        half: tuple[str, str] | None = None,
    ) -> Move[State]:
        is_proposal = isinstance(event, Proposed)

        def make() -> State | None:
            call = event.call if isinstance(event, Proposed) else state.s.actions[key].call
            before = replace(state.s, policy=self.case.policy(call.tool))
            standing = before.actions.get(key)
            phase = type(standing.phase).__name__ if standing is not None else Fresh.__name__
            decision = decide(before, key, event, state.now)
            after = before.after(decision)
            self.cells[phase, type(event).__name__, decision.rule] += 1
            if self.listen is not None:
                self.listen(Seen(before=before, phase=phase, event=event, key=key, now=state.now, decision=decision))
            account = state.m
            if is_proposal and "resume" in self.case.also:
                account = _remember(account, event)
            account = account.judge(event, key, state.now, decision, before, after)
            if not decision.changes and not decision.commands and account == state.m and sent is None:
                return None
            return replace(
                state,
                s=after,
                m=account,
                serial=state.serial + 1,
                sent=state.sent if sent is None else sent,
                half=half if is_proposal else state.half,
                is_end=self._is_end(after),
            )

        return Move(label, make)

    def _tree_move(self, state: State, label: str, event: TreeEvent, hold: Hold | None = None) -> Move[State]:
        def make() -> State | None:
            before = state.s
            decision = decide_tree(before, event, state.now)
            after = before.after(decision)
            self.cells["Tree", type(event).__name__, decision.rule] += 1
            if self.listen is not None:
                self.listen(Seen(before=before, phase="Tree", event=event, key="", now=state.now, decision=decision))
            account = state.m.judge(event, "", state.now, decision, before, after, hold)
            if not decision.changes:
                return None
            return replace(state, s=after, m=account, serial=state.serial + 1)

        return Move(label, make)

    def _is_end(self, after: Snapshot) -> bool:
        if len(after.actions) > len(self.case.calls) + 1:
            return True
        counts = [action.attempts for action in after.actions.values()]
        return max(counts, default=0) > self.case.attempts or sum(counts) > self.case.starts


def _remember(account: Monitor, event: Event) -> Monitor:
    if not isinstance(event, Proposed):
        return account
    call = event.call
    if any((run, fp, step) == (call.run, call.fingerprint, call.step) for run, fp, step, _, _, _ in account.sent):
        return account
    made = replace_monitor(account)
    kept = tuple(entry for entry in made.sent if (entry[0], entry[1]) != (call.run, call.fingerprint))
    made.sent = (*kept, (call.run, call.fingerprint, call.step, call.action, 0, ""))
    return made


def replace_monitor(account: Monitor) -> Monitor:
    """Return a copy of an account that may be changed."""
    return replace(account)


def _ticket(state: State) -> str:
    return f"ticket:{state.serial}"


def _request(state: State) -> str:
    return f"act_{state.serial}"


__all__ = ["Desk", "Running", "Seen", "State"]
