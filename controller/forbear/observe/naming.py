"""Which event each rule is, and how severe: a table, total over the closed set of rules. No decision is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forbear.core.rules import Rule
from forbear.core.vocabulary import Answer
from forbear.observe.notice import Event, Severity

_OF_EVENT: Final[Mapping[Event, tuple[Rule, ...]]] = {
    Event.STARTED: (
        Rule.EXECUTED,
        Rule.EXECUTED_AS_RETRY,
        Rule.EXECUTED_AS_PROBE,
        Rule.EXECUTED_ON_GRANT,
        Rule.REPEAT_WITH_KEY,
    ),
    Event.COMPLETED: (Rule.RETURNED_COMPLETED, Rule.RETURNED_EMPTY_SPENT),
    Event.REFUSED: (
        Rule.RETURNED_REFUSED,
        Rule.RETURNED_NO_PROGRESS,
        Rule.RETURNED_WAIT_NO_SLOT,
        Rule.RETURNED_WAIT_TOO_FAR,
        Rule.RETURNED_WAIT_NO_RESET,
        Rule.RETURNED_RETRY_EXHAUSTED,
        Rule.RETURNED_REPAIR,
        Rule.RETURNED_REPAIRS_EXHAUSTED,
        Rule.RETURNED_REFUSALS_EXHAUSTED,
        Rule.RETURNED_WAIT,
    ),
    Event.UNKNOWN: (Rule.RETURNED_UNKNOWN, Rule.LOST_UNKNOWN, Rule.CANCELLED_UNKNOWN),
    Event.WAITS: (
        Rule.RETURNED_EMPTY_LOOK,
        Rule.HELD_TIME_PARKED,
        Rule.HELD_TIME_NO_SLOT,
        Rule.HELD_TIME_TOO_FAR,
        Rule.CHECKER_PARKED,
        Rule.APPROVAL_PROMPTS_FULL,
        Rule.WAITING_JOINED,
        Rule.PARKED_JOINED,
        Rule.COMPLETED_POLL_PARKED,
        Rule.WOKE_REPARKED,
        Rule.RUNNING_SHARED,
        Rule.KNOWN_JOINED,
        Rule.RECONNECTED,
    ),
    Event.DELIVERED: (
        Rule.KNOWN_DELIVERED,
        Rule.COMPLETED_DELIVERED,
        Rule.COMPLETED_SHARED,
        Rule.COMPLETED_RESTARTED,
        Rule.COMPLETED_POLL_DONE,
        Rule.COMPLETED_REPLAYED,
    ),
    Event.BLOCKED: (
        Rule.INPUT_MALFORMED,
        Rule.HELD_DENIAL,
        Rule.HELD_UNKNOWN,
        Rule.HELD_REFUSAL,
        Rule.HELD_EXHAUSTED,
        Rule.HELD_REPAIR,
        Rule.HELD_BUDGET,
        Rule.BUDGET_SPENT,
        Rule.POLICY_DENIED,
        Rule.APPROVAL_NO_APPROVER,
        Rule.APPROVAL_PROMPTS_SPENT,
        Rule.CHECKER_DOWN,
        Rule.RUNNING_DUPLICATE,
        Rule.COMPLETED_NO_PROGRESS,
    ),
    Event.STOPPED: (Rule.UNATTENDED, Rule.WOKE_STOPPED, Rule.EDITED_HELD),
    Event.HALTED: (Rule.RUN_HALTED,),
    Event.ASKED: (
        Rule.APPROVAL_ASKED,
        Rule.RETURNED_ASKS,
        Rule.INTERRUPTED,
        Rule.APPROVAL_JOINED,
        Rule.APPROVAL_OTHER_CALL,
        Rule.EDITED_ASKS,
    ),
    Event.ANSWERED: (
        Rule.GRANTED,
        Rule.DENIED,
        Rule.REVISED,
        Rule.EDITED,
        Rule.APPROVAL_EXPIRED,
        Rule.GRANT_EXPIRED,
    ),
    Event.INSPECTED: (
        Rule.INSPECT_NOW,
        Rule.VERDICT_APPLIED,
        Rule.VERDICT_ABSENT_ONCE,
        Rule.VERDICT_NOT_APPLIED,
        Rule.VERDICT_CANNOT_TELL,
        Rule.RETURNED_LATE,
    ),
    Event.CANCELLED: (Rule.CANCELLED_FRESH, Rule.CANCELLED_STOPPED),
    Event.LOST: (Rule.LOST_FRESH,),
    Event.LIFTED: (Rule.LIFTED,),
    Event.TURN: (Rule.TURN_BEGAN, Rule.RUN_RESTARTED),
    Event.OBSERVED: (Rule.OBSERVED,),
    Event.NOTHING: (
        Rule.RETURNED_STALE,
        Rule.INTERRUPTED_STALE,
        Rule.LOST_STALE,
        Rule.CANCELLED_NOTHING,
        Rule.RECONNECTED_NOTHING,
        Rule.WAITING_WOKE_EARLY,
        Rule.PARKED_WOKE_EARLY,
        Rule.APPROVAL_WOKE_EARLY,
        Rule.GRANT_WOKE_EARLY,
        Rule.ANSWER_STALE,
        Rule.INSPECT_LATER,
        Rule.VERDICT_STALE,
        Rule.WOKE_NOTHING,
        Rule.LIFTED_NOTHING,
    ),
}
EVENTS: Final[Mapping[Rule, Event]] = {rule: event for event, rules in _OF_EVENT.items() for rule in rules}

_SEVERITIES: Final[Mapping[Event, Severity]] = {
    Event.STARTED: Severity.DEBUG,
    Event.COMPLETED: Severity.DEBUG,
    Event.DELIVERED: Severity.DEBUG,
    Event.TURN: Severity.DEBUG,
    Event.NOTHING: Severity.DEBUG,
    Event.ASKED: Severity.INFO,
    Event.ANSWERED: Severity.INFO,
    Event.INSPECTED: Severity.INFO,
    Event.CANCELLED: Severity.INFO,
    Event.LIFTED: Severity.INFO,
    Event.WAITS: Severity.INFO,
    Event.REFUSED: Severity.WARNING,
    Event.BLOCKED: Severity.WARNING,
    Event.UNKNOWN: Severity.WARNING,
    Event.LOST: Severity.WARNING,
    Event.OBSERVED: Severity.WARNING,
    Event.STOPPED: Severity.ERROR,
    Event.HALTED: Severity.ERROR,
    Event.BROKEN: Severity.ERROR,
}
# The controller tries nothing more by itself after these: the last refusal, or a person is needed.
LAST: Final = frozenset(
    {
        Rule.RETURNED_NO_PROGRESS,
        Rule.RETURNED_WAIT_TOO_FAR,
        Rule.RETURNED_RETRY_EXHAUSTED,
        Rule.RETURNED_REPAIRS_EXHAUSTED,
        Rule.RETURNED_REFUSALS_EXHAUSTED,
        Rule.APPROVAL_NO_APPROVER,
        Rule.APPROVAL_PROMPTS_SPENT,
        Rule.CHECKER_DOWN,
        Rule.BUDGET_SPENT,
        Rule.VERDICT_CANNOT_TELL,
    }
)


def named(rule: Rule, answer: Answer | None, would: Answer | None = None) -> tuple[Event, Severity]:
    """Return the event of a decision and how severe it is; an answer that stops or halts says so in both.

    An observed call that would have run all the same is a start like any other.
    """
    if rule is Rule.OBSERVED and would is Answer.EXECUTED:
        return Event.STARTED, _SEVERITIES[Event.STARTED]
    if answer is Answer.HALTED:
        return Event.HALTED, Severity.ERROR
    event = EVENTS[rule]
    if answer is Answer.STOPPED and event in {Event.BLOCKED, Event.WAITS}:
        return Event.STOPPED, Severity.ERROR
    if rule in LAST or answer is Answer.STOPPED:
        return event, Severity.ERROR
    return event, _SEVERITIES[event]


def severity_of(event: Event) -> Severity:
    """Return how severe an event is where nothing else says so."""
    return _SEVERITIES[event]
