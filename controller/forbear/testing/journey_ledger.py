"""What a story has seen so far: tickets, attempts, results, prompts; and what each answer means for its calls.

It only keeps books. Events are fed in journeys.py, answers are mapped in journey_seen.py, nothing is compared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from forbear.core.states import AwaitingApproval, Parked, Unknown, Waiting
from forbear.core.values import Envelope
from forbear.runtime.reply import Attempt, Reply
from forbear.testing.clock import ManualClock
from forbear.testing.journey_checks import Seen
from forbear.testing.journey_format import Call, Control, Human, Result
from forbear.testing.journey_product import Product
from forbear.testing.journey_promises import Dispatch
from forbear.testing.journey_seen import of_envelope, of_reply

__all__ = ["Broken", "Ledger"]

_TURNS: Final = frozenset({"new_turn", "user_message"})
_STANDING: Final[Mapping[type, str]] = {
    Waiting: "wait_until",
    Parked: "wait_until",
    AwaitingApproval: "needs_approval",
    Unknown: "inspect_only",
}
_FINAL: Final = frozenset({"deliver_completed", "block", "stop"})


class Broken(Exception):
    """The story cannot go on: an event of it needs something that the product did not do."""


class Ledger:
    """The books of one story."""

    def __init__(self, product: Product, clock: ManualClock, calls: Mapping[str, Call]) -> None:
        self._product = product
        self._calls = calls
        self._clock = clock
        # The ticket that each call was last given, and everybody who was given a ticket.
        self.tickets: dict[str, str] = {}
        self.prompts: dict[str, datetime | None] = {}
        self.waits: dict[str, datetime] = {}
        # The call that a person was asked about, by ticket.
        self.asked: dict[str, str] = {}
        # Open and answered attempts, by call; which call an attempt was made for.
        self.attempts: dict[str, Attempt] = {}
        self.open: set[str] = set()
        self.final: dict[str, Seen] = {}
        self.made_for: dict[tuple[str, int], str] = {}
        self.requests: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.sharers: dict[tuple[str, int], list[str]] = {}
        self.values: dict[str, object] = {}
        self.unknown: set[str] = set()
        self.finals: dict[str, int] = {}
        self.dispatches: list[Dispatch] = []
        self.windows: dict[str, datetime] = {}
        self.views: list[str] = []
        self.messages: set[str] = set()

    def is_unknown(self, seen: Seen) -> None:
        """Remember that a call may have happened, with the ticket of its hold."""
        self.unknown.add(seen.call)
        self.tickets[seen.call] = seen.ticket

    def answered(self, call: str, reply: Reply, *, again: bool) -> Seen:
        """Register an answer to a proposal; one that was proposed before is told the same again."""
        if reply.attempt is not None:
            return self.started(call, reply, by="model")
        seen = of_reply(reply, call=call, hold=self._product.hold(reply.ticket))
        self.show(seen)
        if reply.joins is not None:
            source = self.made_for.get(reply.joins, "")
            if source != call:
                self.sharers.setdefault(reply.joins, []).append(call)
            return replace(seen, source=source)
        if seen.decisions & {"wait_until", "needs_approval"}:
            is_first = seen.ticket not in self.tickets.values()
            if "needs_approval" in seen.decisions and is_first:
                self.asked[seen.ticket] = call
            return self.ticketed(seen)
        if "deliver_completed" in seen.decisions:
            seen = replace(seen, source=self._source(reply))
            self._check_value(reply, seen.source)
        if not again:
            self._count_final(seen)
        return seen

    def ticketed(self, seen: Seen) -> Seen:
        """Register the ticket that a call was given, and who else was given it."""
        others = frozenset(call for call, ticket in self.tickets.items() if ticket == seen.ticket and call != seen.call)
        if seen.ticket:
            self.tickets[seen.call] = seen.ticket
        expires_at = None
        if "needs_approval" in seen.decisions:
            expires_at = self._product.due_at(seen.ticket)
            self.prompts[seen.call] = expires_at
        meets = frozenset(call for call, at in self.waits.items() if at == seen.retry_at and call != seen.call)
        if seen.retry_at is not None:
            self.waits[seen.call] = seen.retry_at
        return replace(seen, joins=others if seen.ticket else frozenset(), expires_at=expires_at, meets=meets)

    def started(self, call: str, reply: Reply, *, by: str) -> Seen:
        """Register a start: the model's (by its proposal) or the controller's own."""
        attempt = reply.attempt
        assert attempt is not None
        seen = of_reply(reply, call=call, hold=None)
        now = self._clock.now()
        grant = self.asked.get(self._product.grant_of(attempt), "")
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
        before = self.final.get(call)
        if before is not None and "deliver_completed" not in before.decisions:
            # A refused or cancelled call that is proposed anew, with its old id, has another answer coming.
            self.finals.pop(call, None)
        self.attempts[call] = attempt
        self.open.add(call)
        self.made_for[attempt.action, attempt.number] = call
        self.requests[attempt.request_id] = call
        self.last[attempt.action] = call
        return replace(
            seen,
            decisions=frozenset({"execute"}),
            by=by,
            args=dict(attempt.arguments),
            grant_of=grant,
            executed="unknown",
        )

    def _source(self, reply: Reply) -> str:
        return self.requests.get(reply.envelope.request_id) or self.last.get(reply.action, "")

    def _check_value(self, reply: Reply, source: str) -> None:
        if reply.value is not None and source in self.values and reply.value != self.values[source]:
            raise Broken(f"the delivered value is not that of {source}")

    def show(self, seen: Seen) -> None:
        """Take notice of what a model reads."""
        self.views.append(seen.view)
        self.messages.add(seen.message)

    def _count_final(self, seen: Seen) -> None:
        if seen.decisions & _FINAL and "inspect_only" not in seen.decisions:
            self.final[seen.call] = seen
            self.finals[seen.call] = self.finals.get(seen.call, 0) + 1

    def settled(self, event: Result, reply: Reply) -> list[Seen]:
        """Register the answer to an attempt, for its call and for the equal calls of its step."""
        call = event.call
        attempt = self.attempts[call]
        was_unknown = call in self.unknown
        # An attempt is answered once; what comes after that is recorded and tells nobody anything.
        is_first = call in self.open
        self.open.discard(call)
        seen = of_reply(reply, call=call, hold=self._product.hold(reply.ticket))
        self.show(seen)
        if event.type == "value":
            self.values[call] = event.body["value"]
        if "inspect_only" in seen.decisions:
            self.is_unknown(seen)
        seen = replace(seen, source=call, late=event.late or was_unknown, args=dict(attempt.arguments))
        if seen.decisions & {"wait_until", "needs_approval"}:
            seen = self.ticketed(seen)
        elif is_first and not (attempt.by_controller or event.late or was_unknown):
            self._count_final(seen)
        sharers = self.sharers.pop((attempt.action, attempt.number), [])
        return [
            replace(seen, finals=self.finals.get(call, 0)),
            *(self._shared(reply, sharer, call) for sharer in sharers),
        ]

    def _shared(self, reply: Reply, call: str, source: str) -> Seen:
        """Return the answer of an equal call of the same step."""
        seen = of_reply(reply, call=call, hold=self._product.hold(reply.ticket), is_own=False)
        seen = replace(seen, suppressed=True, source=source)
        self._count_final(seen)
        return seen

    def inbox(self, event: object) -> list[Seen]:
        """Return what became ready outside a call, for the call that was told to wait and for those that joined it."""
        found: list[Seen] = []
        ready = self._product.inbox()
        told = {reply.call_id for reply in ready}
        for reply in ready:
            call = reply.call_id
            seen = of_reply(reply, call=call, hold=self._product.hold(reply.ticket), is_own=False)
            self.show(seen)
            late = call in self.unknown and seen.outcome != "unknown"
            if isinstance(event, Control) and event.kind in _TURNS and seen.code == "APPROVAL_CLOSED":
                # A message instead of an answer closes the question.
                seen = replace(
                    seen, words=seen.words | {"superseded", "approval_expired", "implicit_close", "user_message"}
                )
            if seen.outcome == "unknown":
                self.is_unknown(seen)
            else:
                self._count_final(seen)
            attempt = self.attempts.get(call)
            seen = replace(
                seen,
                source=self.last.get(reply.action, call),
                late=late,
                finals=self.finals.get(call, 0),
                resolves=call if late else "",
                resolved_as=seen.outcome,
                args=None if attempt is None else dict(attempt.arguments),
            )
            found.append(seen)
            ticket = self.tickets.get(call)
            for other, held in self.tickets.items():
                # Equal calls of one run share a ticket; the run is told once. Other runs are told on their own.
                if not late and other not in told and held == ticket and self._is_one_run(call, other):
                    joined = replace(seen, call=other)
                    self._count_final(joined)
                    found.append(joined)
            if late:
                self.unknown.discard(call)
                self.open.discard(call)
        return found

    def sharing(self, ticket: str) -> list[str]:
        """Return the calls that were given a ticket."""
        return [call for call, given in self.tickets.items() if given == ticket]

    def _is_one_run(self, call: str, other: str) -> bool:
        one, two = self._calls[call], self._calls[other]
        return (one.session, one.agent) == (two.session, two.agent)

    def standing(self, event: object, seen: list[Seen]) -> list[Seen]:
        """Return the calls that still wait, are still asked about, or are still unknown after an event around them.

        A look-up that ended nothing leaves the write held for inspection; a restart leaves prompts and waits.
        """
        if not isinstance(event, (Control, Result, Human)):
            return []
        told = {one.call for one in seen}
        found: list[Seen] = []
        for call, given in list(self.tickets.items()):
            if call in told:
                continue
            ticket = given
            phase = self._product.phase(ticket)
            if not isinstance(phase, tuple(_STANDING)) and call not in self.attempts:
                # The prompt that it had joined was answered for another run: it has one of its own.
                own = self._product.ticket_of(self._calls[call])
                if own is not None:
                    ticket = self.tickets[call] = own
                    phase = self._product.phase(own)
            decision = _STANDING.get(type(phase)) if phase is not None else None
            if phase is None or decision is None or (isinstance(event, Result) and decision != "inspect_only"):
                continue
            is_own = isinstance(event, Control) and event.call in (None, call)
            at = getattr(phase, "retry_at", None) or getattr(phase, "run_at", None)
            envelope = getattr(phase, "told", None)
            one = Seen(call=call, decisions=frozenset({decision}), ticket=ticket, retry_at=at, is_own=is_own)
            if isinstance(envelope, Envelope):
                reasons = of_envelope(envelope, call=call, rule="", hold=None)
                one = replace(
                    one, words=reasons.words, code=reasons.code, executed=reasons.executed, outcome=reasons.outcome
                )
            others = frozenset(name for name, held in self.tickets.items() if held == ticket and name != call)
            found.append(replace(one, joins=others, expires_at=getattr(phase, "expires_at", None)))
        return found

    def as_it_stands(self, call: str) -> list[Seen]:
        """Return what holds of a call that an event does nothing to: it runs, or it has its result."""
        if call in self.open and self.attempts[call].by_controller:
            args = dict(self.attempts[call].arguments)
            return [Seen(call=call, decisions=frozenset({"execute"}), by="controller", args=args)]
        final = self.final.get(call)
        return [] if final is None else [replace(final, source=final.source or call, is_own=True)]
