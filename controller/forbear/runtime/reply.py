"""What a caller gets back, and the open attempt that it has to settle. Frozen values; nothing is decided here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from forbear.core.values import Call, Envelope
from forbear.core.view import MAX_REFUSAL_BYTES, instant_text, view
from forbear.core.vocabulary import COMPLETED, Answer

__all__ = ["Attempt", "Reply"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """A start that was committed: run `tool` with exactly these arguments, once, and settle it."""

    tool: str
    # What the tool is called with: the arguments that were decided about, and the idempotency key where one is declared.
    arguments: Mapping[str, object] = field(repr=False)
    number: int
    run: str
    step: str
    call_id: str
    # Digest of exactly this call; compare it with what you are about to execute.
    fingerprint: str
    request_id: str
    started_at: datetime
    # The run tree's root, and the core's form of the call.
    root: str
    call: Call = field(repr=False)
    # The controller started it by itself (a retry, a grant, a parked call): its result is put into the run's inbox.
    by_controller: bool = False
    # A key goes with the request: a repetition with the same key does no harm for a while.
    has_key: bool = False

    @property
    def action(self) -> str:
        """Return the key of the action that this is an attempt of."""
        return self.call.action


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """The answer to one call.

    `answer` says what happened (`executed`, `delivered`, `pending`, `needs_approval`, `blocked`, `stopped`, `halted`),
    `rule` why, `envelope` what the result says in the contract's form.
    """

    answer: Answer
    rule: str
    envelope: Envelope
    tool: str = ""
    run: str = ""
    step: str = ""
    call_id: str = ""
    # The very object that the tool returned, where the call completed (a recorded result: its JSON form).
    value: object = field(default=None, repr=False)
    # Handle of what a person or the clock will answer.
    ticket: str | None = None
    # PENDING: when the controller acts at the earliest, aware UTC.
    retry_at: datetime | None = None
    # Another call of this execution was answered before this one.
    suppressed: bool = False
    # HALTED: the framework must not force a tool call any more.
    clear_forced: bool = False
    # The start that `propose` committed and that the caller has to settle; None = there is nothing to run.
    attempt: Attempt | None = field(default=None, repr=False)
    # The open attempt of an equal call whose result answers this one too (see `Controller.join`).
    joins: tuple[str, int] | None = None
    flight: Future[Reply] | None = field(default=None, repr=False)
    # Key of the action, the same for equal calls of one run tree.
    action: str = ""
    # Observe mode: what would have been answered.
    would: Answer | None = None
    # HALTED: tools that were completed in this turn, and what still waits.
    completed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    # Arguments that ran, where a person changed the call (secret ones hidden); None = those that were proposed.
    effective: Mapping[str, object] | None = field(default=None, repr=False)

    @property
    def request_id(self) -> str:
        """Return the id that joins this answer to the protected record."""
        return self.envelope.request_id

    @property
    def ok(self) -> bool:
        """Say whether the call completed (its value is the tool's)."""
        return self.envelope.outcome in COMPLETED and self.attempt is None

    def for_model(self) -> str:
        """Return what the model may see, as text: the tool's value where the call completed, else the view.

        Never empty, never an invitation to try again.
        """
        if self.effective is not None and self.ok:
            # A person changed the call: the model must not take the result for that of its own arguments.
            changed = {"changed_by": "person", "tool": self.tool, "arguments": self.effective, "result": self.value}
            return _text(changed, self.envelope)
        if self.ok and self.value is not None and not (isinstance(self.value, str) and not self.value):
            return self.value if isinstance(self.value, str) else _text(self.value, self.envelope)
        shown = view(self.envelope)
        if self.answer is Answer.HALTED:
            _add_halt(shown, self.completed, self.pending)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

    def for_user(self) -> str:
        """Return one plain paragraph for the person in front of the agent; "" where there is nothing to tell."""
        envelope = self.envelope
        said = (envelope.safe_message or "").rstrip(".")
        match self.answer:
            case Answer.EXECUTED | Answer.DELIVERED:
                return "" if envelope.outcome in COMPLETED else f"{self.tool}: {said}."
            case Answer.PENDING:
                when = f" at {instant_text(self.retry_at)}" if self.retry_at is not None else " later"
                return (
                    f"{self.tool} waits and will be done{when}." if self.ticket else f"{self.tool} can be used{when}."
                )
            case Answer.NEEDS_APPROVAL:
                return f"{self.tool} waits for your approval ({self.ticket})."
            case Answer.BLOCKED | Answer.STOPPED:
                return f"{self.tool} was not executed: {said}."
            case Answer.HALTED:
                done = ", ".join(self.completed) if self.completed else "nothing"
                waits = f" Still waiting: {', '.join(self.pending)}." if self.pending else " Nothing is waiting."
                reason = _REASONS.get(envelope.reason or "", said or "a limit was reached")
                return f"The agent stopped using tools: {reason}. Completed in this turn: {done}.{waits}"


def _text(value: object, envelope: Envelope) -> str:
    """Return a completed value as JSON; one that has no JSON form is only said to be there."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001 - the tool's object: whatever its text form raises must not be seen
        return json.dumps(view(envelope), ensure_ascii=False, separators=(",", ":"))


def _add_halt(shown: dict[str, object], completed: tuple[str, ...], pending: tuple[str, ...]) -> None:
    """Name what was completed and what waits, as far as the size of a refusal allows."""
    for name, tools in (("completed", completed), ("pending", pending)):
        for count in range(len(tools), 0, -1):
            shown[name] = list(tools[:count])
            if len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()) <= MAX_REFUSAL_BYTES:
                break
            del shown[name]


_REASONS: Mapping[str, str] = {
    "BLOCKED": "its calls were refused again and again",
    "WAITING": "everything that it asks for is already waiting",
    "BUDGET": "the limit of calls is used up",
    "FORCED": "it is made to call a tool that refuses",
}
