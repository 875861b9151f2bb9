"""What rules, holds and phases mean, in plain sentences for a person. Nothing is decided, stored or laid out here.

`SENTENCES` has one sentence for every rule, by test. A sentence speaks of "the call" and may name, in braces, facts of the
journal line: `tool`, `code`, `attempt`, `actor`. Arguments and results are no such facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from forbear.core.rules import Rule
from forbear.core.vocabulary import Cause, End, Scope

__all__ = ["CAUSES", "ENDS", "NOTES", "PHASES", "SCOPES", "SENTENCES", "sentence"]

SENTENCES: Final[Mapping[Rule, str]] = {
    # Before the phase is looked at.
    Rule.KNOWN_DELIVERED: "The very same call came again (a resume or a replay); its recorded result was delivered.",
    Rule.KNOWN_JOINED: "The very same call came again while its attempt was open; it got that attempt's answer.",
    Rule.RUN_HALTED: "The run's tool use was over already, so the call did not run.",
    Rule.INPUT_MALFORMED: "The call could not be used: it was cut off, unreadable, or lacked a required argument.",
    Rule.OBSERVED: "The tool is only observed: the call ran, whatever would have been decided.",
    # Starts.
    Rule.EXECUTED: "Nothing stood against the call; attempt {attempt} was started.",
    Rule.EXECUTED_AS_RETRY: "The time had come: the one retry was started, as attempt {attempt}.",
    Rule.EXECUTED_AS_PROBE: "The one try that the refusal allows was used: attempt {attempt} was started.",
    Rule.EXECUTED_ON_GRANT: "The approval was spent: attempt {attempt} was started with exactly the approved call.",
    Rule.HELD_DENIAL: "The call did not run: it is covered by a denial.",
    Rule.HELD_UNKNOWN: "The call did not run: a write that it may repeat has an unknown outcome.",
    Rule.HELD_REFUSAL: "The call did not run: what it asks for was refused before.",
    Rule.HELD_EXHAUSTED: "The call did not run: the tries that it was allowed are used up.",
    Rule.HELD_REPAIR: "The call did not run: it leaves as it was what a refusal asked to change.",
    Rule.HELD_BUDGET: "The call did not run: a budget is used up.",
    Rule.HELD_TIME_TOO_FAR: "The call did not run: the time that it would have to wait for is too far away.",
    Rule.HELD_TIME_PARKED: "A wait covers the call; the controller keeps it and runs it when the wait is over.",
    Rule.HELD_TIME_NO_SLOT: "A wait covers the call, and it is not kept; it may be proposed after the wait.",
    Rule.BUDGET_SPENT: "The call did not run: it would have gone over a budget of calls.",
    Rule.POLICY_DENIED: "The author's rule forbids the call, so it did not run.",
    Rule.APPROVAL_ASKED: "The author's rule wants a person to approve the call; a person was asked.",
    Rule.APPROVAL_NO_APPROVER: "The call needs a person's approval and nobody can be asked, so it did not run.",
    Rule.APPROVAL_PROMPTS_SPENT: "The call needs approval, and too many questions were answered no; nobody was asked.",
    Rule.APPROVAL_PROMPTS_FULL: "The call needs approval, and enough questions are open already; it is kept for later.",
    Rule.CHECKER_PARKED: "The author's approval rule failed; the call is kept and the rule is asked again.",
    Rule.CHECKER_DOWN: "The author's approval rule failed again, so the call did not run.",
    # Running.
    Rule.RUNNING_SHARED: "The same message held the call twice; both get the answer of one execution.",
    Rule.RUNNING_DUPLICATE: "The call is under way already, so it was not started a second time.",
    Rule.RETURNED_COMPLETED: "Attempt {attempt} completed.",
    Rule.RETURNED_NO_PROGRESS: "Attempt {attempt} completed with the same result once too often; the call is closed.",
    Rule.RETURNED_EMPTY_LOOK: "Attempt {attempt} found nothing, which may be a throttle; the controller looks again.",
    Rule.RETURNED_EMPTY_SPENT: "Attempt {attempt} found nothing again; it is not known whether there is nothing.",
    Rule.RETURNED_REFUSED: "Attempt {attempt} was refused ({code}); the refusal stays.",
    Rule.RETURNED_WAIT: "Attempt {attempt} was told to come later ({code}); the controller retries once by itself.",
    Rule.RETURNED_WAIT_NO_SLOT: "Attempt {attempt} was told to come later ({code}); the next start then is its retry.",
    Rule.RETURNED_WAIT_TOO_FAR: "Attempt {attempt} was told to come so much later that it is a stop ({code}).",
    Rule.RETURNED_WAIT_NO_RESET: "Attempt {attempt} was told to come later without a time, which is a stop ({code}).",
    Rule.RETURNED_RETRY_EXHAUSTED: "Attempt {attempt} was the last retry and was told to come later; the call stopped.",
    Rule.RETURNED_REPAIR: "Attempt {attempt} was told that its input is wrong ({code}); it does not run again.",
    Rule.RETURNED_REPAIRS_EXHAUSTED: "Attempt {attempt} had wrong input once too often ({code}); such calls stopped.",
    Rule.RETURNED_REFUSALS_EXHAUSTED: "Attempt {attempt} was one equal refusal too many ({code}); its operation stopped.",
    Rule.RETURNED_ASKS: "Attempt {attempt} was told that a person must approve ({code}); a person was asked.",
    Rule.RETURNED_UNKNOWN: "Attempt {attempt} may or may not have happened ({code}); it is not repeated.",
    Rule.RETURNED_STALE: "An answer came for an attempt that had been answered; it changed nothing.",
    Rule.RETURNED_LATE: "The late answer of attempt {attempt} arrived and settled what had been unknown.",
    Rule.INTERRUPTED: "The tool asked a person through the framework; the framework proposes the call again.",
    Rule.INTERRUPTED_STALE: "A framework's question came for an attempt that had been answered; it changed nothing.",
    Rule.LOST_UNKNOWN: "Attempt {attempt} ended without an answer; the write may have happened.",
    Rule.LOST_FRESH: "Attempt {attempt} ended without an answer; it was a read, so nothing is held.",
    Rule.LOST_STALE: "An attempt that had been answered was reported lost; it changed nothing.",
    Rule.CANCELLED_FRESH: "The call was cancelled while it ran, and nothing had happened.",
    Rule.CANCELLED_UNKNOWN: "The call was cancelled while it ran; the write may have happened.",
    # Waiting and parked.
    Rule.WAITING_JOINED: "The call came again before its time; it was told the wait that stands.",
    Rule.WAITING_WOKE_EARLY: "The controller looked before the time had come; it goes on waiting.",
    Rule.PARKED_JOINED: "The call came again before its time; it was told the wait that stands.",
    Rule.PARKED_WOKE_EARLY: "The controller looked before the time had come; it goes on waiting.",
    Rule.UNATTENDED: "The write had waited long and a person has spoken since; it was offered again, not run.",
    Rule.RECONNECTED: "The other side can be reached again; the call is due at once.",
    Rule.RECONNECTED_NOTHING: "The other side can be reached again; nothing waited for that.",
    Rule.WOKE_STOPPED: "When the call's time came, something stronger covered it ({code}); it stopped.",
    Rule.WOKE_REPARKED: "When the call's time came, another wait covered it; it is kept for that one.",
    Rule.CANCELLED_STOPPED: "The call was cancelled before it started; it is closed until the next human message.",
    Rule.CANCELLED_NOTHING: "The call was cancelled; there was nothing to cancel.",
    # Approval.
    Rule.APPROVAL_JOINED: "The call came again while its question was open; no second question was asked.",
    Rule.APPROVAL_EXPIRED: "Nobody answered the question in time; the call did not run.",
    Rule.APPROVAL_WOKE_EARLY: "The question is still open.",
    Rule.APPROVAL_OTHER_CALL: "Another call than the approved one was proposed; only what the person saw may run.",
    Rule.GRANT_EXPIRED: "The approval was not spent in time and is void.",
    Rule.GRANT_WOKE_EARLY: "The approval waits to be spent.",
    Rule.GRANTED: "{actor} approved exactly this call.",
    Rule.DENIED: "{actor} said no.",
    Rule.REVISED: "{actor} asked for another call; this one does not run.",
    Rule.EDITED: "{actor} changed the call and approved the changed one.",
    Rule.EDITED_ASKS: "{actor} changed the call into one of another tool, which is asked about by itself.",
    Rule.EDITED_HELD: "{actor} changed the call into one that is under way or unknown; it was not started.",
    Rule.ANSWER_STALE: "An answer came to a question that was not open any more; it changed nothing.",
    # Unknown.
    Rule.INSPECT_NOW: "The controller looked for the outcome with the declared check.",
    Rule.INSPECT_LATER: "The controller does not look for the outcome yet.",
    Rule.REPEAT_WITH_KEY: "The call was repeated once with the same idempotency key, as attempt {attempt}.",
    Rule.VERDICT_APPLIED: "It is known that the write happened ({by}).",
    Rule.VERDICT_ABSENT_ONCE: "A check did not find the write; only a second such check, some time apart, counts.",
    Rule.VERDICT_NOT_APPLIED: "It is known that the write did not happen ({by}).",
    Rule.VERDICT_CANNOT_TELL: "It could not be told whether the write happened.",
    Rule.VERDICT_STALE: "A verdict came about an outcome that was not unknown any more; it changed nothing.",
    # Completed.
    Rule.COMPLETED_DELIVERED: "An equal call had completed in this turn and is not repeated; its result was delivered.",
    Rule.COMPLETED_SHARED: "An equal call of the same message had completed; its result was delivered.",
    Rule.COMPLETED_RESTARTED: "The run was started again; the completed write was delivered, not repeated.",
    Rule.COMPLETED_POLL_PARKED: "The call looked again too soon; the controller keeps it until the interval is over.",
    Rule.COMPLETED_POLL_DONE: "What the call looks at had finished; the recorded result was delivered.",
    Rule.COMPLETED_REPLAYED: "An equal read had completed and nothing was written since; its result was delivered.",
    Rule.COMPLETED_NO_PROGRESS: "An equal read was asked for once too often; the call is closed for now.",
    Rule.WOKE_NOTHING: "The controller woke up for the call; there was nothing left to do.",
    # The tree.
    Rule.TURN_BEGAN: "A new human message came.",
    Rule.RUN_RESTARTED: "The run was started again from its beginning.",
    Rule.LIFTED: "{actor} lifted {lifted}.",
    Rule.LIFTED_NOTHING: "{actor} wanted to lift something that was not there any more.",
}

# Lines of the journal that are no decisions about calls.
NOTES: Final[Mapping[str, str]] = {
    "policy.noted": "The declaration of {tool} was noted.",
    "policy.changed": "The declaration of {tool} changed: {fields}.",
    "policy.loosened": "{actor} allowed a looser declaration of {tool}: {fields}.",
    "policy.refused": "A looser declaration of {tool} was refused: {fields}; it needs the operator token.",
    "operator.token_made": "The store got its operator token.",
    "operator.token_replaced": "The operator token of the store was replaced.",
    "operator.refused": "{actor} tried to answer without the operator token.",
}

CAUSES: Final[Mapping[Cause, str]] = {
    Cause.DENIAL: "a denial",
    Cause.UNKNOWN: "an unknown outcome",
    Cause.REFUSAL: "a refusal",
    Cause.EXHAUSTED: "used-up tries",
    Cause.REPAIR: "wrong input",
    Cause.BUDGET: "a used-up budget",
    Cause.TIME: "a wait",
}

SCOPES: Final[Mapping[Scope, str]] = {
    Scope.ACTION: "exactly this call",
    Scope.TARGET: "every call on the same target",
    Scope.OPERATION: "every call of the same operation",
    Scope.RULE: "every call that the same rule is about",
    Scope.QUOTA: "every call that draws from the same quota",
    Scope.RUN: "every call of the run",
    Scope.TURN: "every call of the run in this turn",
    Scope.PRINCIPAL: "every call of this principal's runs",
}

# How a hold ends besides by an operator: "It ends …".
ENDS: Final[Mapping[End, str]] = {
    End.TURN: "with the next human message",
    End.PROBE: "when the one try that the next human message allows succeeds",
    End.PERSON: "only by a person",
    End.VERDICT: "when it is known whether the write happened",
    End.REPAIR: "with the next human message, and lets changed input through",
    End.TIME: "by time",
    End.RUN: "with the run",
}

# What a phase says about the call now; a stopped call is told by its hold.
PHASES: Final[Mapping[str, str]] = {
    "Fresh": "Nothing about the call itself is open.",
    "Running": "The call is running.",
    "Waiting": "The call waits, and the controller retries it.",
    "Parked": "The call is kept by the controller, which runs it.",
    "AwaitingApproval": "A person is asked about the call.",
    "Approved": "The call is approved, and the approval is not spent.",
    "Unknown": "It is not known whether the call happened.",
    "NeedsRepair": "The same input does not run.",
    "Completed": "The call is completed; it is not done again by the controller.",
    "Stopped": "The call is closed.",
}


def sentence(rule: str, facts: Mapping[str, object]) -> str:
    """Return what a journal line says, in one sentence.

    Args:
        rule: The line's rule; one that this release does not know is only named.
        facts: What the line carries: `tool`, `code`, `attempt`, `actor`; fields of a policy that changed (`looser`, `other`).
    """
    try:
        text = SENTENCES[Rule(rule)]
    except ValueError:
        text = NOTES.get(rule, "")
    if not text:
        return f"Rule {rule!r}, which this release does not know."
    actor = str(facts.get("actor") or "")
    fields = [*_names(facts.get("looser")), *_names(facts.get("other"))]
    return text.format(
        tool=facts.get("tool") or "a tool",
        code=facts.get("code") or "no code",
        attempt=facts.get("attempt") or "?",
        actor=actor or "Somebody",
        lifted=_lifted(facts),
        fields=", ".join(fields) or "what is not known",
        by=f"said by {actor}" if actor else "by a check",
    )


def _lifted(facts: Mapping[str, object]) -> str:
    """Return what an operator ended: one hold, or the halt of a run."""
    if not facts.get("lifted"):
        return "the halt of the run"
    return f"the hold {facts.get('lifted_code') or 'without a code'} of {facts.get('lifted_tool') or 'a tool'}"


def _names(value: object) -> list[str]:
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
