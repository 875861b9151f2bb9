"""What the metrics are made of: plain numbers by closed attribute values, kept from notices. Nothing is sent here.

Called by one thread at a time (the runtime sees to that); read by another one. Memory is bounded: what is open longest
is forgotten first, and then counts for less (a recovery that is not timed), never for more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from forbear.core.rules import Rule
from forbear.core.vocabulary import COMPLETED, Answer, Outcome, Recovery
from forbear.observe.notice import OTHER, Event, Notice, Reads, Unrecorded, Usage
from forbear.observe.words import (
    ANSWERS,
    ATTEMPT_TIME,
    ATTEMPTS,
    ESCALATIONS,
    HELD,
    INSTRUMENTS,
    LIFTS,
    REPEATS,
    STEP_TIME,
    STEP_TOKENS,
    UNKNOWN_CODES,
    WOULD_BE,
    Instrument,
)

K = TypeVar("K")
V = TypeVar("V")

# Attribute values, in the order of the instrument's attributes; "" = the attribute is left out.
Values = tuple[str, ...]
# Open failures and steps that are remembered.
MAX_OPEN: Final = 4096
# Events of the core that end an execution.
_ENDS: Final = frozenset({"Returned", "Lost", "Cancelled", "Interrupted"})
_NOT_REPEATED: Final = frozenset(
    {
        # Nothing was refused before, or the call is answered by an equal one of its own step.
        Unrecorded.PROPOSED,
        Rule.INPUT_MALFORMED,
        Rule.POLICY_DENIED,
        Rule.BUDGET_SPENT,
        Rule.HELD_BUDGET,
        Rule.APPROVAL_NO_APPROVER,
        Rule.APPROVAL_PROMPTS_SPENT,
        Rule.APPROVAL_PROMPTS_FULL,
        Rule.CHECKER_PARKED,
        Rule.CHECKER_DOWN,
        Rule.RUNNING_SHARED,
        Rule.RUNNING_DUPLICATE,
        Rule.KNOWN_JOINED,
        Rule.COMPLETED_POLL_PARKED,
        Rule.COMPLETED_NO_PROGRESS,
    }
)
_NOT_EXECUTED: Final = frozenset({Answer.BLOCKED, Answer.STOPPED, Answer.HALTED, Answer.PENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """The first refusal of an action that has not completed since."""

    at: datetime
    tool: str
    recovery: str
    code: str
    # Where a repaired call of the same tool makes it good.
    repair: tuple[str, str, str] | None


@dataclass(slots=True)
class _Step:
    """What is known of the calls of one step."""

    completed: bool = False
    # Tool and code of the first call that was refused or held.
    failed: tuple[str, str] | None = None


class Counts:
    """The numbers of one controller.

    Args:
        on_recovered: Called with the seconds from a refusal to the completion, and the values of `RECOVERED`.
    """

    def __init__(self, on_recovered: Callable[[float, Values], None]) -> None:
        self._on_recovered = on_recovered
        self._numbers: dict[str, dict[Values, float]] = {one.name: {} for one in INSTRUMENTS if one.kind == "counter"}
        self._failures: OrderedDict[tuple[str, str], _Failure] = OrderedDict()
        # The action whose repair is awaited, by root, run and tool.
        self._repairs: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()
        self._steps: OrderedDict[tuple[str, str, str], _Step] = OrderedDict()

    def read(self, instrument: Instrument) -> list[tuple[Values, float]]:
        """Return the numbers of one counter; safe in another thread."""
        return list(self._numbers[instrument.name].items())

    # ---- what happened ----------------------------------------------------------------------------------------------

    def count(self, notice: Notice) -> None:
        """Count one decision."""
        if notice.cause in _ENDS and notice.before == "Running" and notice.event is not Event.NOTHING:
            self._ended(notice)
        elif notice.cause == "Proposed" and not notice.starts:
            self._held(notice)
        if notice.after == "Completed":
            self._recovered(notice)
        if notice.asks:
            self._add(ESCALATIONS, (notice.tool, "approval", notice.code))
        elif notice.rule is Rule.APPROVAL_NO_APPROVER:
            self._add(ESCALATIONS, (notice.tool, "no_approver", notice.code))
        elif notice.rule is Rule.VERDICT_CANNOT_TELL:
            self._add(ESCALATIONS, (notice.tool, "unknown", notice.code))
        if notice.event is Event.ANSWERED:
            self._add(ANSWERS, (notice.tool, notice.rule))
        for lift in notice.lifts:
            cause = "halt" if lift.cause is None else lift.cause.name.lower()
            self._add(LIFTS, (lift.tool, cause, lift.code))
        if notice.would is not None and notice.would is not Answer.EXECUTED:
            self._add(WOULD_BE, (notice.tool, notice.would, notice.would_rule or ""))
        if not notice.code_is_known:
            self._add(UNKNOWN_CODES, (notice.tool,))

    def count_reads(self, reads: Sequence[Reads]) -> None:
        """Count reads that succeeded at once."""
        for one in reads:
            values = (one.tool, Outcome.SUCCESS, "", "")
            self._add(ATTEMPTS, values, one.count)
            self._add(ATTEMPT_TIME, values, one.ran_for.total_seconds())

    def count_usage(self, usage: Usage) -> None:
        """Count what a step cost, by what became of its calls so far."""
        step = self._steps.get((usage.root, usage.run, usage.step), _Step())
        result, tool, code = "other", "", ""
        if step.completed or usage.has_read:
            result = "completed"
        elif step.failed is not None:
            result, (tool, code) = "failed", step.failed
        if usage.tokens:
            self._add(STEP_TOKENS, (result, tool, code), usage.tokens)
        if usage.seconds:
            self._add(STEP_TIME, (result, tool, code), usage.seconds)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _add(self, instrument: Instrument, values: Values, amount: float = 1) -> None:
        numbers = self._numbers[instrument.name]
        numbers[values] = numbers.get(values, 0) + amount

    def _ended(self, notice: Notice) -> None:
        outcome = notice.outcome
        if outcome in COMPLETED:
            values: Values = (notice.tool, outcome or "", "", "")
            self._step(notice).completed = True
        else:
            values = (notice.tool, outcome or Outcome.CANCELLED, notice.recovery or "", notice.code or OTHER)
            self._failed(notice)
        self._add(ATTEMPTS, values)
        if notice.started_at is not None:
            self._add(ATTEMPT_TIME, values, (notice.at - notice.started_at).total_seconds())

    def _failed(self, notice: Notice) -> None:
        step = self._step(notice)
        step.failed = step.failed or (notice.tool, notice.code or OTHER)
        key = (notice.root, notice.action)
        if key in self._failures or notice.recovery is None:
            return
        repair = None
        if notice.recovery is Recovery.REPAIR_INPUT:
            repair = (notice.root, notice.run, notice.tool)
            _remember(self._repairs, repair, key)
        failure = _Failure(
            at=notice.at, tool=notice.tool, recovery=notice.recovery, code=notice.code or OTHER, repair=repair
        )
        _remember(self._failures, key, failure)

    def _recovered(self, notice: Notice) -> None:
        key = (notice.root, notice.action)
        failure = self._failures.pop(key, None)
        if failure is None and notice.cause == "Returned":
            # A repaired call is another action of the same tool.
            refused = self._repairs.get((notice.root, notice.run, notice.tool))
            failure = None if refused is None else self._failures.pop(refused, None)
        if failure is None:
            return
        if failure.repair is not None:
            self._repairs.pop(failure.repair, None)
        self._on_recovered((notice.at - failure.at).total_seconds(), (failure.tool, failure.recovery, failure.code))

    def _held(self, notice: Notice) -> None:
        if notice.answer is None:
            return
        failed = notice.answer in _NOT_EXECUTED
        code = (notice.code or OTHER) if failed else notice.code
        self._add(HELD, (notice.tool, notice.answer, notice.rule, code))
        if notice.answer is Answer.DELIVERED:
            self._step(notice).completed = True
        if not failed:
            return
        if notice.answer is not Answer.PENDING:
            step = self._step(notice)
            step.failed = step.failed or (notice.tool, code)
        if notice.rule not in _NOT_REPEATED:
            self._add(REPEATS, (notice.tool, notice.recovery or "", code))

    def _step(self, notice: Notice) -> _Step:
        key = (notice.root, notice.run, notice.step)
        found = self._steps.get(key)
        if found is None:
            found = _Step()
            _remember(self._steps, key, found)
        return found


def _remember(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    while len(kept) > MAX_OPEN:
        kept.popitem(last=False)
