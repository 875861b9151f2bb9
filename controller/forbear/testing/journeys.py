"""Run one journey vector through the public API, event by event, and compare what was decided with what is expected.

The runner is the framework and the tools of the story: it proposes with `propose`, executes itself, settles with
`settle`, and takes what the controller starts by itself from `due`. It decides nothing about recovery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from forbear.errors import ForbearError
from forbear.runtime.reply import Reply
from forbear.testing.clock import ManualClock
from forbear.testing.journey_ahead import crashes_before_start, is_lost, is_reproposed, step_to_rerun
from forbear.testing.journey_checks import Seen, unknown_reason, unmet
from forbear.testing.journey_format import Call, Control, Expectation, Human, Journey, Json, Result, Unreadable, journey
from forbear.testing.journey_ledger import Broken, Ledger
from forbear.testing.journey_product import Product
from forbear.testing.journey_promises import broken
from forbear.testing.journey_raw import raw_of, secrets_of
from forbear.testing.journey_seen import of_reply
from forbear.testing.journey_strange import strange_members
from forbear.testing.journey_tools import Author, instants

__all__ = ["Unmet", "run_journey"]

# A row that is due may be put back behind others of its queue; a story never waits longer than this many places.
_MAX_PLACES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """One expectation, promise or line that was not met."""

    id: str
    event: object
    expected: str
    got: str


def run_journey(line: Json, *, notes: list[str] | None = None) -> list[Unmet]:
    """Return what is not as the vector says; an empty list is a pass. Never raises for what a line holds.

    Args:
        line: The vector.
        notes: Filled with one sentence for each thing that the vector says and the runner could not use or compare.
    """
    remarks = [] if notes is None else notes
    remarks.extend(strange_members(line))
    name = str(line.get("id", "?"))
    try:
        story = journey(line)
        with TemporaryDirectory(prefix="forbear-journey-") as folder:
            return _Story(story, Path(folder), remarks).run()
    except Unreadable as error:
        return [Unmet(id=name, event="-", expected="a journey", got=str(error))]
    except ForbearError as error:
        return [Unmet(id=name, event="-", expected="no error", got=f"{type(error).__name__}: {error}")]


class _Story:
    """One journey while it runs."""

    def __init__(self, story: Journey, folder: Path, notes: list[str]) -> None:
        self.notes = notes
        self.story = story
        self.calls = story.calls()
        self.clock = ManualClock(story.start)
        self.author = Author(story)
        self.product = Product(story, self.clock, folder, self.author)
        self._instants = instants(story)
        self.ledger = Ledger(self.product, self.clock, self.calls)
        self.proposed: set[tuple[str, str, str]] = set()
        # Calls whose framework has the person's yes to its own signal.
        self.answered: set[str] = set()
        self.index = 0

    # ---- the story --------------------------------------------------------------------------------------------------

    def run(self) -> list[Unmet]:
        """Feed every event, compare after each, and check the promises at the end."""
        found: list[Unmet] = []
        try:
            for index, (at, event) in enumerate(self.story.events):
                self.index = index
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
                except Broken as error:
                    found.append(self._unmet("the event can happen", str(error)))
                    return found
                seen = _resolving(seen, self.ledger.inbox(event))
                seen.extend(self.ledger.standing(event, seen))
                self.ledger.views.extend(self.product.texts())
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
            word = unknown_reason(expected, seen)
            if word is not None:
                self.notes.append(
                    f"expected at event {self.index}: nobody knows the reason {word!r}; it was not compared"
                )
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
                self.ledger.windows[call] = self.story.start + timedelta(seconds=low)

    def _promises(self) -> list[Unmet]:
        secrets: set[str] = set()
        for _, event in self.story.events:
            if isinstance(event, Result):
                secrets |= secrets_of(event)
        said = broken(
            self.story,
            dispatches=self.ledger.dispatches,
            views=self.ledger.views,
            finals=self.ledger.finals,
            secrets=secrets,
            messages={one for one in self.ledger.messages if one},
        )
        return [Unmet(id=self.story.id, event="-", expected=promise, got=got) for promise, got in said]

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _call(self, event: Call) -> list[Seen]:
        self.author.says(event, event.verdict, event.rule)
        proposal = (event.id, event.tool, repr(event.args))
        again = proposal in self.proposed
        self.proposed.add(proposal)
        if not again:
            # An id that is used again for another call starts anew.
            self.ledger.finals.pop(event.id, None)
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
            reproposes=is_reproposed(self.story, call.id),
        )
        return self.ledger.answered(call.id, reply, again=again)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _result(self, event: Result) -> list[Seen]:
        attempt = self.ledger.attempts.get(event.call)
        if attempt is None:
            raise Broken(f"{event.call} was never started, so it cannot have a result")
        raw = raw_of(event, start=self.story.start, instants=self._instants)
        return self.ledger.settled(event, self.product.settle(attempt, raw))

    # ---- people -----------------------------------------------------------------------------------------------------

    def _human(self, event: Human) -> list[Seen]:
        if event.decision == "grant" or event.about.startswith("rule:"):
            self.product.lift(event.about, self.ledger.tickets.get(event.about), actor=event.actor)
            return []
        call = self._known(event.about)
        ticket = self.ledger.tickets.get(call.id)
        if ticket is None:
            raise Broken(f"nobody was asked about {call.id}")
        if is_lost(self.story, self.index, f"approval {call.id}"):
            # The process died before the answer was stored.
            return []
        if self.product.is_asked_by_framework(ticket):
            return self._framework_answer(call, event)
        match event.decision:
            case "approve":
                reply = self.product.approve(ticket, actor=event.actor)
            case "reject":
                reply = self.product.deny(ticket, actor=event.actor)
            case _:
                tool = event.tool or call.tool
                arguments = event.args if event.args is not None else call.args
                reply = self.product.edit(ticket, tool=tool, arguments=arguments, actor=event.actor)
        return self._after_answer(call, event, reply)

    def _framework_answer(self, call: Call, event: Human) -> list[Seen]:
        """The framework asked by its own signal: a yes makes it run the tool again, a no ends the call."""
        if event.decision == "reject":
            replies = self.product.cancel(call, acknowledged=True)
            denied = [of_reply(reply, call=call.id, hold=self.product.hold(reply.ticket)) for reply in replies]
            return [replace(one, words=one.words | {"user_denied"}) for one in denied]
        self.answered.add(call.id)
        if is_reproposed(self.story, call.id):
            return []
        return [self._propose(call, again=True)]

    def _after_answer(self, call: Call, event: Human, reply: Reply | None) -> list[Seen]:
        seen: list[Seen] = []
        if reply is None:
            # The answer came too late or was given before.
            return [self._standing(call)]
        one = of_reply(reply, call=call.id, hold=self.product.hold(reply.ticket))
        if "needs_approval" in one.decisions:
            # Edited into another tool: another question.
            seen.append(self.ledger.ticketed(one))
        elif event.decision == "reject":
            seen.append(one)
        if not crashes_before_start(self.story, self.index, call.id):
            seen.extend(replace(one, actor=event.actor) for one in self._due(own=call.id))
        return seen

    def _standing(self, call: Call) -> Seen:
        expires_at = self.ledger.prompts.get(call.id)
        expired = expires_at is not None and self.clock.now() >= expires_at
        words = {"approval_expired"} if expired else {"approval_spent"}
        standing = Seen(call=call.id, decisions=frozenset({"block"}), words=frozenset(words), executed="no")
        final = next(iter(self.ledger.as_it_stands(call.id)), None)
        if final is None or "deliver_completed" not in final.decisions:
            return standing
        return replace(final, decisions=final.decisions | {"block"}, words=final.words | words)

    # ---- control ----------------------------------------------------------------------------------------------------

    def _control(self, event: Control) -> list[Seen]:
        if event.verdict is not None and event.call is not None:
            self.author.says(self._known(event.call), event.verdict, event.rule)
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
                self.ledger.open.clear()
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
        ticket = self.ledger.tickets.get(call.id)
        if ticket is None:
            raise Broken(f"{call.id} waits for nothing")
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
            seen.extend(self.ledger.as_it_stands(call.id))
        return seen

    def _next_due(self) -> str | None:
        """Return the call whose row is due first."""
        due = [
            (at, call)
            for call, ticket in self.ledger.tickets.items()
            if (at := self.product.due_at(ticket)) is not None
        ]
        return min(due)[1] if due else None

    def _due(self, *, own: str) -> list[Seen]:
        """Let the controller start what is due now."""
        seen: list[Seen] = []
        for reply in self.product.due():
            call = reply.call_id
            if reply.attempt is not None:
                one = self.ledger.started(call, reply, by="controller")
            else:
                one = of_reply(reply, call=call, hold=self.product.hold(reply.ticket))
                if one.decisions & {"wait_until", "needs_approval"}:
                    one = self.ledger.ticketed(one)
                    if "wait_until" in one.decisions:
                        # It was put back behind another call of its queue.
                        continue
            is_own = not own or call == own or self.ledger.tickets.get(call) == self.ledger.tickets.get(own)
            seen.append(replace(one, is_own=is_own))
            if is_own and own and call != own:
                seen.append(replace(one, call=own))
                if reply.attempt is not None:
                    self.ledger.attempts[own] = reply.attempt
        return seen

    def _again(self, event: Control) -> list[Seen]:
        """The framework runs a step again: the same calls, with the same ids."""
        named: str | None = event.call
        if event.replayed is not None:
            replayed = event.replayed.get("call")
            named = str(replayed) if replayed is not None else named
            self._replay_answer(named, event.replayed.get("approval"))
        calls = step_to_rerun(self.story, self.index, event) if named is None else [self._known(named)]
        seen: list[Seen] = []
        for call in calls:
            ticket = self.ledger.tickets.get(call.id, "")
            if call.id not in self.answered and self.product.is_asked_by_framework(ticket):
                # The framework knows that its own question is open: it does not run the tool again.
                asked = Seen(call=call.id, decisions=frozenset({"needs_approval"}), ticket=ticket)
                # It is the question that was open before.
                seen.append(replace(asked, joins=frozenset(self.ledger.sharing(ticket))))
            else:
                seen.append(self._propose(call, again=True))
        return seen

    def _replay_answer(self, call: str | None, answer: object) -> None:
        ticket = self.ledger.tickets.get(call or "")
        if call is None or ticket is None or answer is None:
            return
        if answer in ("approve", "approved", "yes", True):
            self.answered.add(call)
            self.product.approve(ticket, actor="replay")
        else:
            self.product.deny(ticket, actor="replay")

    def _cancel(self, event: Control) -> list[Seen]:
        if event.grace_s and event.ack is not True:
            self.clock.set(self.clock.now() + timedelta(seconds=event.grace_s))
        acknowledged = event.ack is True
        if event.call is not None:
            replies = self.product.cancel(self._known(event.call), acknowledged=acknowledged)
        else:
            replies = self.product.cancel_all(event.session, event.agent, acknowledged=acknowledged)
        seen: list[Seen] = []
        for reply in replies:
            call = reply.call_id
            one = of_reply(reply, call=call, hold=self.product.hold(reply.ticket))
            if one.rule == "waiting.cancelled.stopped":
                # It stays stopped until a new turn.
                one = replace(one, decisions=one.decisions | {"stop"}, stops="action")
            if one.outcome == "unknown":
                self.ledger.is_unknown(one)
            else:
                self.ledger.open.discard(call)
            self.ledger.show(one)
            seen.append(replace(one, is_own=event.call in (None, call)))
            if event.call is not None and event.call != call:
                # It had joined this call's wait or prompt.
                seen.append(replace(one, call=event.call))
        if not seen and event.call is not None:
            seen.extend(self.ledger.as_it_stands(event.call))
        return seen

    def _known(self, name: str | None) -> Call:
        found = self.calls.get(name or "")
        if found is None:
            raise Broken(f"no call {name!r}")
        return found


def _resolving(own: list[Seen], others: list[Seen]) -> list[Seen]:
    """Return all that was seen; an event that ends an unknown outcome says so itself."""
    ended = next((one for one in others if one.resolves), None)
    if ended is None:
        return [*own, *others]
    mine = [
        replace(one, resolves=ended.resolves, resolved_as=ended.resolved_as) if not one.resolves else one for one in own
    ]
    return [*mine, *others]


def _wanted(expected: Expectation) -> str:
    details = ", ".join(f"{key}={value}" for key, value in expected.details.items())
    return f"{expected.decision} ({details})" if details else expected.decision
