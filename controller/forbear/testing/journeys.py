"""Run one journey vector through the public API, event by event, and compare what was decided with what is expected.

The runner is the framework and the tools of the story: it proposes with `propose`, executes itself, settles with
`settle`, and takes what the controller starts by itself from `due`. It decides nothing about recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from forbear.core.identity import canonical
from forbear.core.states import AwaitingApproval, Parked, Unknown, Waiting
from forbear.core.values import Envelope, RuleVerdict
from forbear.core.vocabulary import Gate
from forbear.errors import ForbearError
from forbear.runtime.reply import Attempt, Reply
from forbear.testing.clock import ManualClock
from forbear.testing.journey_checks import Seen, unmet
from forbear.testing.journey_format import Call, Control, Expectation, Human, Journey, Json, Result, Unreadable, journey
from forbear.testing.journey_product import Product
from forbear.testing.journey_promises import Dispatch, broken
from forbear.testing.journey_raw import raw_of, secrets_of
from forbear.testing.journey_seen import of_envelope, of_reply
from forbear.testing.journey_tools import instants

__all__ = ["Unmet", "run_journey"]

_GATES: Final[Mapping[str, Gate]] = {
    "allow": Gate.ALLOW,
    "approval": Gate.ASK,
    "deny": Gate.DENY,
    "unavailable": Gate.UNAVAILABLE,
}
# A row that is due may be put back behind others of its queue; a story never waits longer than this many places.
_MAX_PLACES: Final = 6
_TURNS: Final = frozenset({"new_turn", "user_message"})
_STANDING: Final[Mapping[type, str]] = {
    Waiting: "wait_until",
    Parked: "wait_until",
    AwaitingApproval: "needs_approval",
    Unknown: "inspect_only",
}
_FINAL: Final = frozenset({"deliver_completed", "block", "stop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """One expectation, promise or line that was not met."""

    id: str
    event: object
    expected: str
    got: str


def run_journey(line: Json) -> list[Unmet]:
    """Return what is not as the vector says; an empty list is a pass. Never raises for what a line holds."""
    name = str(line.get("id", "?"))
    try:
        story = journey(line)
        with TemporaryDirectory(prefix="forbear-journey-") as folder:
            return _Story(story, Path(folder)).run()
    except Unreadable as error:
        return [Unmet(id=name, event="-", expected="a journey", got=str(error))]
    except ForbearError as error:
        return [Unmet(id=name, event="-", expected="no error", got=f"{type(error).__name__}: {error}")]


class _Story:
    """One journey while it runs."""

    def __init__(self, story: Journey, folder: Path) -> None:
        self.story = story
        self.calls = story.calls()
        self.clock = ManualClock(story.start)
        self._verdicts: dict[tuple[str, str], tuple[str, str]] = {}
        self._quotas: dict[tuple[str, str], str | None] = {}
        self.product = Product(story, self.clock, folder, verdict=self._verdict, quota=self._quota)
        self._instants = instants(story)
        # The ticket that each call was last given, and everybody who was given a ticket.
        self.tickets: dict[str, str] = {}
        self.prompts: dict[str, datetime | None] = {}
        # The call that a person was first asked about, by action.
        self.asked: dict[str, str] = {}
        # Open and answered attempts, by call; which call an attempt was made for.
        self.attempts: dict[str, Attempt] = {}
        self.open: set[str] = set()
        self.final: dict[str, Seen] = {}
        self.proposed: set[tuple[str, str, str]] = set()
        self.made_for: dict[tuple[str, int], str] = {}
        self.requests: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.sharers: dict[tuple[str, int], list[str]] = {}
        self.values: dict[str, object] = {}
        self.unknown: set[str] = set()
        self.edited: set[str] = set()
        self.finals: dict[str, int] = {}
        self.dispatches: list[Dispatch] = []
        self.windows: dict[str, datetime] = {}
        self.views: list[str] = []
        self.index = 0

    # ---- the story --------------------------------------------------------------------------------------------------

    def run(self) -> list[Unmet]:
        """Feed every event, compare after each, and check the promises at the end."""
        found: list[Unmet] = []
        try:
            for self.index, (at, event) in enumerate(self.story.events):
                drift = self._move(at)
                try:
                    match event:
                        case Call():
                            seen = self._call(event)
                        case Result():
                            seen = self._result(event)
                        case Human():
                            seen = self._human(event)
                        case Control():
                            seen = self._control(event)
                except _Broken as error:
                    found.append(self._unmet("the event can happen", str(error)))
                    return found
                seen = _resolving(seen, self._inbox())
                seen.extend(self._standing_calls(event, seen))
                self.views.extend(self.product.texts())
                found.extend(self._compare(tuple(seen), max(drift, self._drift(at))))
            found.extend(self._promises())
        finally:
            self.product.close()
        return found

    def _move(self, at: float) -> float:
        moment = self.story.start + timedelta(seconds=at)
        if moment > self.clock.now():
            self.clock.set(moment)
        return self._drift(at)

    def _drift(self, at: float) -> float:
        return (self.clock.now() - self.story.start) / timedelta(seconds=1) - at

    def _compare(self, seen: tuple[Seen, ...], drift: float) -> list[Unmet]:
        found: list[Unmet] = []
        for expected in self.story.expected:
            if expected.event != self.index:
                continue
            why = unmet(expected, seen, start=self.story.start, drift=drift)
            if why is not None:
                found.append(self._unmet(_wanted(expected), why))
            self._remember_window(expected, seen)
        return found

    def _unmet(self, expected: str, got: str) -> Unmet:
        return Unmet(id=self.story.id, event=self.index, expected=expected, got=got)

    def _remember_window(self, expected: Expectation, seen: tuple[Seen, ...]) -> None:
        low = expected.details.get("until_min")
        if expected.decision == "wait_until" and isinstance(low, (int, float)):
            about = expected.details.get("for")
            own = next((one.call for one in seen if one.is_own), None)
            call = str(about) if about is not None else own
            if call is not None:
                self.windows[call] = self.story.start + timedelta(seconds=low)

    def _promises(self) -> list[Unmet]:
        secrets: set[str] = set()
        for _, event in self.story.events:
            if isinstance(event, Result):
                secrets |= secrets_of(event)
        said = broken(
            self.story,
            dispatches=self.dispatches,
            views=self.views,
            finals=self.finals,
            secrets=secrets,
        )
        return [Unmet(id=self.story.id, event="-", expected=promise, got=got) for promise, got in said]

    # ---- the author's rule and quota ----------------------------------------------------------------------------------

    def _verdict(self, tool: str, arguments: Mapping[str, object]) -> RuleVerdict:
        always = next((one.get("gate") == "always" for one in self.story.tools if one["name"] == tool), False)
        said, rule = self._verdicts.get((tool, canonical(arguments)), ("approval" if always else "allow", "always" if always else ""))
        return RuleVerdict(gate=_GATES[said], rule=rule)

    def _quota(self, tool: str, arguments: Mapping[str, object]) -> str | None:
        found = self._quotas.get((tool, canonical(arguments)))
        if found is not None:
            return found
        declared = next((one.get("quota_scope") for one in self.story.tools if one["name"] == tool), None)
        return None if declared is None else str(declared)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _call(self, event: Call) -> list[Seen]:
        if isinstance(event.args, dict):
            key = (event.tool, canonical(event.args))
            if event.verdict is not None:
                self._verdicts[key] = (event.verdict, event.rule)
            if event.quota_scope is not None:
                self._quotas[key] = event.quota_scope
        proposal = (event.id, event.tool, repr(event.args))
        again = proposal in self.proposed
        self.proposed.add(proposal)
        self.calls[event.id] = event
        return [self._propose(event, again=again)]

    def _propose(self, call: Call, *, again: bool = False) -> Seen:
        siblings = 1
        if call.batch is not None:
            siblings = sum(1 for other in self.calls.values() if other.batch == call.batch)
        reply = self.product.propose(
            call,
            siblings=siblings,
            forced=call.tool == self.story.forced,
            reproposes=self._is_reproposed(call.id),
        )
        return self._answered(call.id, reply, again=again)

    def _is_reproposed(self, call: str) -> bool:
        """Say whether the framework proposes an approved call again: a resume follows the yes before any result."""
        approved = False
        for _, event in self.story.events:
            if isinstance(event, Human) and event.about == call and event.decision in ("approve", "edit"):
                approved = True
            elif isinstance(event, Result) and event.call == call:
                return False
            elif approved and isinstance(event, Control) and event.kind == "resume":
                return True
        return False

    def _answered(self, call: str, reply: Reply, *, again: bool) -> Seen:
        """Register an answer to a proposal; one that was proposed before is told the same again."""
        if reply.attempt is not None:
            return self._started(call, reply, by="model")
        seen = of_reply(reply, call=call, hold=self.product.hold(reply.ticket))
        self.views.append(seen.view)
        if reply.joins is not None:
            self.sharers.setdefault(reply.joins, []).append(call)
            source = self.made_for.get(reply.joins, "")
            return replace(seen, source=source)
        if seen.decisions & {"wait_until", "needs_approval"}:
            is_first = seen.ticket not in self.tickets.values()
            if "needs_approval" in seen.decisions and is_first:
                self.asked[reply.action] = call
            return self._ticketed(seen)
        if "deliver_completed" in seen.decisions:
            seen = replace(seen, source=self._source(reply))
            self._check_value(reply, seen.source)
        if not again:
            self._count_final(seen)
        return seen

    def _ticketed(self, seen: Seen) -> Seen:
        others = frozenset(call for call, ticket in self.tickets.items() if ticket == seen.ticket and call != seen.call)
        if seen.ticket:
            self.tickets[seen.call] = seen.ticket
        expires_at = None
        if "needs_approval" in seen.decisions:
            expires_at = self.product.due_at(seen.ticket)
            self.prompts[seen.call] = expires_at
        return replace(seen, joins=others if seen.ticket else frozenset(), expires_at=expires_at)

    def _started(self, call: str, reply: Reply, *, by: str) -> Seen:
        attempt = reply.attempt
        assert attempt is not None
        seen = of_reply(reply, call=call, hold=None)
        now = self.clock.now()
        grant = self.asked.get(attempt.action, "") if seen.rule == "start.executed.grant" else ""
        self.dispatches.append(
            Dispatch(
                tool=attempt.tool,
                args=dict(attempt.arguments),
                call=call,
                by=by,
                at=now,
                not_before=self.windows.get(call) if by == "controller" else None,
                action=attempt.action,
            )
        )
        self.attempts[call] = attempt
        self.open.add(call)
        self.made_for[attempt.action, attempt.number] = call
        self.requests[attempt.request_id] = call
        self.last[attempt.action] = call
        return replace(
            seen, decisions=frozenset({"execute"}), by=by, args=dict(attempt.arguments), grant_of=grant, executed="unknown"
        )

    def _source(self, reply: Reply) -> str:
        return self.requests.get(reply.envelope.request_id) or self.last.get(reply.action, "")

    def _check_value(self, reply: Reply, source: str) -> None:
        if reply.value is not None and source in self.values and reply.value != self.values[source]:
            raise _Broken(f"the delivered value is not that of {source}")

    def _count_final(self, seen: Seen) -> None:
        if seen.decisions & _FINAL and "inspect_only" not in seen.decisions:
            self.final[seen.call] = seen
            self.finals[seen.call] = self.finals.get(seen.call, 0) + 1

    # ---- results ----------------------------------------------------------------------------------------------------

    def _result(self, event: Result) -> list[Seen]:
        attempt = self.attempts.get(event.call)
        if attempt is None:
            raise _Broken(f"{event.call} was never started, so it cannot have a result")
        raw = raw_of(event, start=self.story.start, instants=self._instants)
        was_unknown = event.call in self.unknown
        self.open.discard(event.call)
        reply = self.product.settle(attempt, raw)
        hold = self.product.hold(reply.ticket)
        seen = of_reply(reply, call=event.call, hold=hold)
        self.views.append(seen.view)
        if event.type == "value":
            self.values[event.call] = event.body["value"]
        if "inspect_only" in seen.decisions:
            self.unknown.add(event.call)
            self.tickets[event.call] = seen.ticket
        args = dict(attempt.arguments)
        seen = replace(seen, source=event.call, late=event.late or was_unknown, args=args)
        if seen.decisions & {"wait_until", "needs_approval"}:
            seen = self._ticketed(seen)
        elif not (attempt.by_controller or event.late or was_unknown):
            self._count_final(seen)
        others = [self._shared(reply, call, event.call) for call in self.sharers.pop((attempt.action, attempt.number), [])]
        return [replace(seen, finals=self.finals.get(event.call, 0)), *others]

    def _shared(self, reply: Reply, call: str, source: str) -> Seen:
        """Return the answer of an equal call of the same step."""
        seen = of_reply(reply, call=call, hold=self.product.hold(reply.ticket), is_own=False)
        seen = replace(seen, suppressed=True, source=source)
        self._count_final(seen)
        return seen

    # ---- the inbox --------------------------------------------------------------------------------------------------

    def _inbox(self) -> list[Seen]:
        """Return what became ready outside a call, for the call that was told to wait and for those that joined it."""
        found: list[Seen] = []
        for reply in self.product.inbox():
            call = reply.call_id
            seen = of_reply(reply, call=call, hold=self.product.hold(reply.ticket), is_own=False)
            self.views.append(seen.view)
            late = call in self.unknown and seen.outcome != "unknown"
            event = self.story.events[self.index][1]
            if isinstance(event, Control) and event.kind in _TURNS and seen.code == "APPROVAL_EXPIRED":
                # A message instead of an answer closes the question.
                seen = replace(seen, words=seen.words | {"superseded", "implicit_close", "user_message"})
            if seen.outcome == "unknown":
                self.unknown.add(call)
                self.tickets[call] = seen.ticket
            else:
                self._count_final(seen)
            attempt = self.attempts.get(call)
            seen = replace(
                seen,
                source=call,
                late=late,
                finals=self.finals.get(call, 0),
                resolves=call if late else "",
                resolved_as=seen.outcome,
                args=None if attempt is None else dict(attempt.arguments),
            )
            found.append(seen)
            ticket = self.tickets.get(call)
            for other, held in self.tickets.items():
                if other != call and ticket is not None and held == ticket:
                    joined = replace(seen, call=other)
                    self._count_final(joined)
                    found.append(joined)
            if late:
                self.unknown.discard(call)
        return found

    def _standing_calls(self, event: object, seen: list[Seen]) -> list[Seen]:
        """Return the calls that still wait, are still asked about, or are still unknown after an event around them.

        A look-up that ended nothing leaves the write held for inspection; a restart leaves prompts and waits.
        """
        if not isinstance(event, (Control, Result)):
            return []
        told = {one.call for one in seen}
        found: list[Seen] = []
        for call, ticket in self.tickets.items():
            if call in told:
                continue
            phase = self.product.phase(ticket)
            decision = _STANDING.get(type(phase)) if phase is not None else None
            if phase is None or decision is None or (isinstance(event, Result) and decision != "inspect_only"):
                continue
            is_own = isinstance(event, Control) and event.call in (None, call)
            at = getattr(phase, "retry_at", None) or getattr(phase, "run_at", None)
            envelope = getattr(phase, "told", None)
            one = Seen(call=call, decisions=frozenset({decision}), ticket=ticket, retry_at=at, is_own=is_own)
            if isinstance(envelope, Envelope):
                reasons = of_envelope(envelope, call=call, rule="", hold=None)
                one = replace(one, words=reasons.words, code=reasons.code, executed=reasons.executed, outcome=reasons.outcome)
            others = frozenset(name for name, held in self.tickets.items() if held == ticket and name != call)
            found.append(replace(one, joins=others, expires_at=getattr(phase, "expires_at", None)))
        return found

    # ---- people -----------------------------------------------------------------------------------------------------

    def _human(self, event: Human) -> list[Seen]:
        if event.decision == "grant" or event.about.startswith("rule:"):
            self.product.lift(event.about, self.tickets.get(event.about), actor=event.actor)
            return []
        call = self._known(event.about)
        ticket = self.tickets.get(call.id)
        if ticket is None:
            raise _Broken(f"nobody was asked about {call.id}")
        if self._is_lost(f"approval {call.id}"):
            # The process died before the answer was stored.
            return []
        match event.decision:
            case "approve":
                reply = self.product.approve(ticket, actor=event.actor)
            case "reject":
                reply = self.product.deny(ticket, actor=event.actor)
            case _:
                self.edited.add(call.id)
                tool = event.tool or call.tool
                arguments = event.args if event.args is not None else call.args
                reply = self.product.edit(ticket, tool=tool, arguments=arguments, actor=event.actor)
        return self._after_answer(call, event, reply)

    def _after_answer(self, call: Call, event: Human, reply: Reply | None) -> list[Seen]:
        seen: list[Seen] = []
        if reply is None:
            # The answer came too late or was given before.
            return [self._standing(call)]
        one = of_reply(reply, call=call.id, hold=self.product.hold(reply.ticket))
        if "needs_approval" in one.decisions:
            # Edited into another tool: another question.
            seen.append(self._ticketed(one))
        elif event.decision == "reject":
            seen.append(one)
        if not self._crashes_before_start(call.id):
            seen.extend(self._due(own=call.id))
        return seen

    def _standing(self, call: Call) -> Seen:
        expires_at = self.prompts.get(call.id)
        expired = expires_at is not None and self.clock.now() >= expires_at
        words = {"approval_expired"} if expired else {"approval_spent"}
        standing = Seen(call=call.id, decisions=frozenset({"block"}), words=frozenset(words), executed="no")
        final = next(iter(self._as_it_stands(call.id)), None)
        if final is None or "deliver_completed" not in final.decisions:
            return standing
        return replace(final, decisions=final.decisions | {"block"}, words=final.words | words)

    def _is_lost(self, what: str) -> bool:
        """Say whether the next crash of the story loses what happens now."""
        for _, event in self.story.events[self.index + 1 :]:
            if isinstance(event, Control) and event.kind == "crash_restart":
                return what in event.lost
        return False

    def _crashes_before_start(self, call: str) -> bool:
        """Say whether the story's process dies after the answer and before the start that it allows."""
        for _, event in self.story.events[self.index + 1 :]:
            if isinstance(event, Control) and event.kind == "crash_restart":
                return not any("dispatch" in item or "started" in item for item in event.persisted)
            if isinstance(event, Result) and event.call == call:
                return False
        return False

    # ---- control ----------------------------------------------------------------------------------------------------

    def _control(self, event: Control) -> list[Seen]:
        if event.verdict is not None and event.call is not None:
            call = self._known(event.call)
            if isinstance(call.args, dict):
                self._verdicts[call.tool, canonical(call.args)] = (event.verdict, event.rule)
        match event.kind:
            case "timer" | "approval_expired":
                return self._timer(event)
            case "resume" | "engine_retry":
                return self._again(event)
            case "new_turn" | "user_message":
                self.product.new_turn()
                return []
            case "cancel" | "deadline":
                return self._cancel(event)
            case "crash_restart":
                self.product.crash()
                return self._due(own="")
            case "run_restarted":
                self.product.restart_run(event.session, event.agent)
                return self._again(event) if event.replayed is not None or event.call is not None else []
            case "reconnected":
                self.product.reconnected()
                return self._due(own=event.call or "")
            case _:
                # The model failed, the framework goes on by itself, a child ended: nothing is decided about calls.
                return self._again(event) if event.replayed is not None else []

    def _timer(self, event: Control) -> list[Seen]:
        call = self._known(event.call if event.call is not None else self._next_due())
        ticket = self.tickets.get(call.id)
        if ticket is None:
            raise _Broken(f"{call.id} waits for nothing")
        seen: list[Seen] = []
        for _ in range(_MAX_PLACES):
            due_at = self.product.due_at(ticket)
            if due_at is None:
                break
            if due_at > self.clock.now():
                self.clock.set(due_at)
            seen.extend(self._due(own=call.id))
            if any(one.call == call.id for one in seen):
                break
        if not any(one.call == call.id for one in seen):
            seen.extend(self._as_it_stands(call.id))
        return seen

    def _next_due(self) -> str | None:
        """Return the call whose row is due first."""
        due = [(at, call) for call, ticket in self.tickets.items() if (at := self.product.due_at(ticket)) is not None]
        return min(due)[1] if due else None

    def _as_it_stands(self, call: str) -> list[Seen]:
        """Return what holds of a call that an event does nothing to: it runs, or it has its result."""
        if call in self.open and self.attempts[call].by_controller:
            args = dict(self.attempts[call].arguments)
            return [Seen(call=call, decisions=frozenset({"execute"}), by="controller", args=args)]
        final = self.final.get(call)
        return [] if final is None else [replace(final, source=final.source or call, is_own=True)]

    def _due(self, *, own: str) -> list[Seen]:
        """Let the controller start what is due now."""
        seen: list[Seen] = []
        for reply in self.product.due():
            call = reply.call_id
            if reply.attempt is not None:
                one = self._started(call, reply, by="controller")
            else:
                one = of_reply(reply, call=call, hold=self.product.hold(reply.ticket))
                if one.decisions & {"wait_until", "needs_approval"}:
                    one = self._ticketed(one)
                    if "wait_until" in one.decisions:
                        # It was put back behind another call of its queue.
                        continue
            is_own = not own or call == own or self.tickets.get(call) == self.tickets.get(own)
            seen.append(replace(one, is_own=is_own))
            if is_own and own and call != own:
                seen.append(replace(one, call=own))
                if reply.attempt is not None:
                    self.attempts[own] = reply.attempt
        return seen

    def _again(self, event: Control) -> list[Seen]:
        """The framework runs a step again: the same calls, with the same ids."""
        named: str | None = event.call
        if event.replayed is not None:
            replayed = event.replayed.get("call")
            named = str(replayed) if replayed is not None else named
            if event.replayed.get("approval") is not None and named in self.tickets:
                self.product.approve(self.tickets[named], actor="replay")
        if named is not None:
            return [self._propose(self._known(named), again=True)]
        return [self._propose(call, again=True) for call in self._step_to_rerun(event)]

    def _step_to_rerun(self, event: Control) -> list[Call]:
        """Return the calls of the step that runs again, where the story does not list them one by one afterwards."""
        before = [one for _, one in self.story.events[: self.index] if isinstance(one, Call)]
        after = [one for _, one in self.story.events[self.index + 1 :]]
        if not before:
            return []
        last = before[-1]
        step = [one for one in before if one is last or (last.batch is not None and one.batch == last.batch)]
        if event.kind == "resume":
            # Ids may differ after a resume: calls of these tools that follow are the step's own.
            if any(isinstance(one, Call) and any(one.tool == own.tool for own in step) for one in after):
                return []
        return step

    def _cancel(self, event: Control) -> list[Seen]:
        if event.grace_s and event.ack is not True:
            self.clock.set(self.clock.now() + timedelta(seconds=event.grace_s))
        acknowledged = event.ack is True
        if event.call is not None:
            replies = self.product.cancel(self._known(event.call), acknowledged=acknowledged)
        else:
            replies = self.product.cancel_all(acknowledged=acknowledged)
        seen: list[Seen] = []
        for reply in replies:
            call = reply.call_id
            one = of_reply(reply, call=call, hold=self.product.hold(reply.ticket))
            if one.outcome == "unknown":
                self.unknown.add(call)
                self.tickets[call] = one.ticket
            self.views.append(one.view)
            seen.append(replace(one, is_own=event.call in (None, call)))
            if event.call is not None and event.call != call:
                # It had joined this call's wait or prompt.
                seen.append(replace(one, call=event.call))
        if not seen and event.call is not None:
            seen.extend(self._as_it_stands(event.call))
        return seen

    def _known(self, name: str | None) -> Call:
        found = self.calls.get(name or "")
        if found is None:
            raise _Broken(f"no call {name!r}")
        return found


def _resolving(own: list[Seen], others: list[Seen]) -> list[Seen]:
    """Return all that was seen; an event that ends an unknown outcome says so itself."""
    ended = next((one for one in others if one.resolves), None)
    if ended is None:
        return [*own, *others]
    mine = [replace(one, resolves=ended.resolves, resolved_as=ended.resolved_as) if not one.resolves else one for one in own]
    return [*mine, *others]


class _Broken(Exception):
    """The story cannot go on: an event of it needs something that the product did not do."""


def _wanted(expected: Expectation) -> str:
    details = ", ".join(f"{key}={value}" for key, value in expected.details.items())
    return f"{expected.decision} ({details})" if details else expected.decision
