"""The ten points of a tool that is ready for agents, and what can be seen of each: yes, no, or that it cannot be seen.

An answer is only "yes" or "no" where what was read proves it. How a tool answers at run time cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import Effect, Trust
from forbear.doctor.seen import Concern, Finding, Found, FoundTool, Weight

__all__ = ["Holds", "Point", "checklist"]


class Holds(StrEnum):
    """Whether a point holds."""

    YES = "yes"
    NO = "no"
    UNSEEN = "cannot be seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the checklist."""

    number: int
    question: str
    holds: Holds
    reason: str


def checklist(found: Found, policies: Sequence[ToolPolicy], findings: Sequence[Finding]) -> list[Point]:
    """Return the ten points for what was found, in their order."""
    judged = (
        ("Does every non-success outcome have a machine-readable code?", _codes(found)),
        (
            "Can refusal, empty result, invalid input, timeout and internal failure be told apart?",
            _apart(found, policies),
        ),
        ("Is there a recovery class that says what may be done next?", _class(found)),
        ("Do retryable outcomes name a reset time or delay?", _time(found, policies)),
        ("Do input problems name the fields, and nothing internal?", _fields(found, policies)),
        ("Are permanent denials marked as final?", _final(found, policies, findings)),
        ("Does every result carry a correlation id?", _id(found)),
        ("Are complete records kept on the server's side?", _records(found)),
        ("Are answers safe and small enough for a model's context?", _safe(found, policies)),
        (
            "Do tests show that agents stop, wait, escalate or change inputs?",
            (Holds.UNSEEN, "tests are not read; `forbear vectors run` and `forbear.testing` are made for them"),
        ),
    )
    return [
        Point(number=number, question=question, holds=holds, reason=reason)
        for number, (question, (holds, reason)) in enumerate(judged, start=1)
    ]


Judged = tuple[Holds, str]
_BARE: Judged = (Holds.UNSEEN, "no controller was seen around the tools; what they answer shows only when they run")


def _names(tools: Sequence[str]) -> str:
    shown = ", ".join(tools[:5])
    return f"{shown} and {len(tools) - 5} more" if len(tools) > 5 else shown


def _codes(found: Found) -> Judged:
    return (Holds.YES, "the controller answers with a code of its catalogue") if found.governed else _BARE


def _apart(found: Found, policies: Sequence[ToolPolicy]) -> Judged:
    if not found.governed:
        return _BARE
    silent = [
        policy.name
        for policy in policies
        if not (policy.text_rules or policy.status_rules or policy.exception_rules)
        and not (policy.speaks_contract or (policy.speaks_contract is None and policy.trust is Trust.OWNED))
    ]
    if silent:
        return Holds.NO, f"declare speaks_contract or rules; what these answer in words is one class: {_names(silent)}"
    missing = _undeclared(found, policies)
    if missing:
        return Holds.UNSEEN, f"nothing is declared for {_names(missing)}"
    return Holds.YES, "every tool speaks the contract or has rules that recognise its answers"


def _undeclared(found: Found, policies: Sequence[ToolPolicy]) -> list[str]:
    declared = {policy.name for policy in policies}
    return [tool.name for tool in found.tools if tool.name not in declared]


def _class(found: Found) -> Judged:
    return (Holds.YES, "each answer of the controller has one of six classes") if found.governed else _BARE


def _time(found: Found, policies: Sequence[ToolPolicy]) -> Judged:
    if not found.governed:
        return _BARE
    stops = [policy.name for policy in policies if policy.limits.on_unknown_reset == "stop"]
    why = "the time that the tool names, else default_wait"
    return Holds.YES, f"{why}; final without a named time: {_names(stops)}" if stops else why


def _fields(found: Found, policies: Sequence[ToolPolicy]) -> Judged:
    shown = [policy.name for policy in policies if policy.error_text == "shown"]
    if shown:
        return Holds.NO, f"error_text is shown by {_names(shown)}"
    unnamed = [tool.name for tool in found.tools if tool.input_schema is None]
    if unnamed:
        return Holds.NO, f"no schema that names the arguments of {_names(unnamed)}"
    return (Holds.YES, "only names of arguments pass, never values or error text") if found.governed else _BARE


def _final(found: Found, policies: Sequence[ToolPolicy], findings: Sequence[Finding]) -> Judged:
    repeated = [one.where for one in findings if one.concern is Concern.RETRY_INSIDE and one.weight is Weight.RISK]
    if repeated:
        return Holds.NO, f"something below repeats refused calls too: {_names(repeated)}"
    if not found.governed:
        return _BARE
    undeclared = [policy.name for policy in policies if policy.effect is Effect.UNDECLARED]
    undeclared += _undeclared(found, policies)
    if undeclared:
        return (
            Holds.YES,
            f"refused calls stay refused; for these only the exact call, as no effect is declared: {_names(undeclared)}",
        )
    return Holds.YES, "a refusal holds until what it names has ended"


def _id(found: Found) -> Judged:
    return (Holds.YES, "each answer has a request_id, which `forbear explain` takes") if found.governed else _BARE


def _records(found: Found) -> Judged:
    if not found.governed:
        return _BARE
    if found.store == "memory":
        return Holds.NO, "the controller's store is in memory and is gone with the process"
    if found.store:
        return Holds.YES, "every decision is a line of the chained journal in the controller's store"
    return Holds.UNSEEN, "the controller's store was not seen"


def _safe(found: Found, policies: Sequence[ToolPolicy]) -> Judged:
    shown = [policy.name for policy in policies if policy.error_text == "shown"]
    if shown:
        return Holds.NO, f"their own error text reaches the model: {_names(shown)}"
    return (Holds.YES, "refusals are at most 480 bytes of allowed fields") if found.governed else _BARE


def free_text_only(tool: FoundTool) -> bool:
    """Say whether a tool takes nothing but texts without any bound."""
    bounds = {"enum", "const", "format", "pattern", "maxLength"}
    properties = tool.properties
    return bool(properties) and all(
        one.get("type") == "string" and not bounds & set(one) for one in properties.values()
    )
