"""Every name that OpenTelemetry sees: attributes, instruments, units. Nothing is recorded here.

`gen_ai.*` and `error.type` are OpenTelemetry's semantic conventions (the GenAI part is in development: its names are
changed here and nowhere else); `forbear.*` is this project's own, for what no convention names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OPERATION_NAME: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

RULE: Final = "forbear.rule"
ANSWER: Final = "forbear.answer"
OUTCOME: Final = "forbear.outcome"
EXECUTED: Final = "forbear.executed"
RECOVERY: Final = "forbear.recovery"
OPERATION: Final = "forbear.operation"
WOULD: Final = "forbear.would"
SUPPRESSED: Final = "forbear.suppressed"
REQUEST_ID: Final = "forbear.request_id"
RUN: Final = "forbear.run"
REASON: Final = "forbear.reason"
CAUSE: Final = "forbear.hold.cause"
RESULT: Final = "forbear.step.result"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanAttribute:
    """One attribute of the span around a call."""

    name: str
    meaning: str


SPAN: Final = (
    SpanAttribute(name=OPERATION_NAME, meaning="`execute_tool`"),
    SpanAttribute(name=TOOL_NAME, meaning="the tool, if it was declared or bound, else `_OTHER`"),
    SpanAttribute(
        name=TOOL_CALL_ID, meaning="the framework's id of the call, if it is one word of at most 128 characters"
    ),
    SpanAttribute(
        name=ERROR_TYPE,
        meaning="a call that did not complete: its code, if the catalogue holds it; the controller's own exception; "
        "else `_OTHER`",
    ),
    SpanAttribute(name=RULE, meaning="the rule of the last decision about the call"),
    SpanAttribute(name=ANSWER, meaning="what the caller got"),
    SpanAttribute(name=OUTCOME, meaning="what became of the call"),
    SpanAttribute(name=EXECUTED, meaning="whether its effect may have happened"),
    SpanAttribute(name=RECOVERY, meaning="the recovery class of a refusal"),
    SpanAttribute(name=OPERATION, meaning="the declared family of effects"),
    SpanAttribute(name=WOULD, meaning="observe mode: what would have been answered"),
    SpanAttribute(name=SUPPRESSED, meaning="`true`: another call of the same execution was answered before"),
    SpanAttribute(name=REQUEST_ID, meaning="joins the span to the record"),
    SpanAttribute(name=RUN, meaning="the run, if its id is one word of at most 128 characters"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One metric: what it answers and the closed set of its attributes."""

    name: str
    # "counter" (observed: read when it is collected) or "histogram".
    kind: str
    unit: str
    attributes: tuple[str, ...]
    meaning: str


ATTEMPTS: Final = Instrument(
    name="forbear.attempts",
    kind="counter",
    unit="{attempt}",
    attributes=(TOOL_NAME, OUTCOME, RECOVERY, ERROR_TYPE),
    meaning="executions that ended; refusal rate by tool and code, empty rate by `forbear.outcome`",
)
ATTEMPT_TIME: Final = Instrument(
    name="forbear.attempts.time",
    kind="counter",
    unit="s",
    attributes=(TOOL_NAME, OUTCOME, RECOVERY, ERROR_TYPE),
    meaning="how long they ran in all",
)
HELD: Final = Instrument(
    name="forbear.held",
    kind="counter",
    unit="{call}",
    attributes=(TOOL_NAME, ANSWER, RULE, ERROR_TYPE),
    meaning="proposals that were answered without an execution",
)
REPEATS: Final = Instrument(
    name="forbear.repeats",
    kind="counter",
    unit="{call}",
    attributes=(TOOL_NAME, RECOVERY, ERROR_TYPE),
    meaning="proposals of what was refused before; divided by the refusals of the code: repeats after each refusal",
)
RECOVERED: Final = Instrument(
    name="forbear.recovery.time",
    kind="histogram",
    unit="s",
    attributes=(TOOL_NAME, RECOVERY, ERROR_TYPE),
    meaning="from the first refusal of an action until it completed, or until a repaired call of the tool did",
)
ESCALATIONS: Final = Instrument(
    name="forbear.escalations",
    kind="counter",
    unit="{escalation}",
    attributes=(TOOL_NAME, REASON, ERROR_TYPE),
    meaning="decisions that need a person: `approval`, `unknown` (nobody can tell what became of a write)",
)
ANSWERS: Final = Instrument(
    name="forbear.answers",
    kind="counter",
    unit="{answer}",
    attributes=(TOOL_NAME, RULE),
    meaning="what became of prompts: granted, denied, revised, edited, expired",
)
LIFTS: Final = Instrument(
    name="forbear.lifts",
    kind="counter",
    unit="{hold}",
    attributes=(TOOL_NAME, CAUSE, ERROR_TYPE),
    meaning="holds and halts that a person lifted: maybe too much was blocked",
)
WOULD_BE: Final = Instrument(
    name="forbear.would",
    kind="counter",
    unit="{call}",
    attributes=(TOOL_NAME, WOULD, RULE),
    meaning="observe mode: calls that would not have run",
)
UNKNOWN_CODES: Final = Instrument(
    name="forbear.unknown_codes",
    kind="counter",
    unit="{result}",
    attributes=(TOOL_NAME,),
    meaning="results with a code that the catalogue does not hold: the contract drifts",
)
STEP_TOKENS: Final = Instrument(
    name="forbear.step.tokens",
    kind="counter",
    unit="{token}",
    attributes=(RESULT, TOOL_NAME, ERROR_TYPE),
    meaning="tokens of steps (`controller.run(id).usage(…)`): `failed` = a call was refused or held and none completed",
)
STEP_TIME: Final = Instrument(
    name="forbear.step.time",
    kind="counter",
    unit="s",
    attributes=(RESULT, TOOL_NAME, ERROR_TYPE),
    meaning="the same in seconds",
)
INSTRUMENTS: Final = (
    ATTEMPTS,
    ATTEMPT_TIME,
    HELD,
    REPEATS,
    RECOVERED,
    ESCALATIONS,
    ANSWERS,
    LIFTS,
    WOULD_BE,
    UNKNOWN_CODES,
    STEP_TOKENS,
    STEP_TIME,
)
