"""The four questions about each tool, answered from its policy; where nothing is declared, that is the answer.

Can the same request succeed later? Can changed arguments help? Can the agent resolve it? What may be disclosed?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forbear.core.policy import MAX_RETRIES, MAX_RETRIES_TEMPORARY_READ, ToolPolicy
from forbear.core.vocabulary import Effect, Recovery

__all__ = ["NOT_DECLARED", "QUESTIONS", "Answers", "answers"]

NOT_DECLARED: Final = "not declared"
QUESTIONS: Final = {
    "later": "Can the same request succeed later without a change?",
    "changed": "Can changed arguments make it succeed?",
    "agent": "Can the agent resolve it by itself?",
    "disclosed": "What may be disclosed to the agent?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers for one tool."""

    later: str = NOT_DECLARED
    changed: str = NOT_DECLARED
    agent: str = NOT_DECLARED
    disclosed: str = NOT_DECLARED


def answers(policy: ToolPolicy | None) -> Answers:
    """Return what a policy answers."""
    if policy is None:
        return Answers()
    return Answers(later=_later(policy), changed=_changed(policy), agent=_agent(policy), disclosed=_disclosed(policy))


def _codes(policy: ToolPolicy, *classes: Recovery) -> list[str]:
    """Return the codes that the policy's own rules give to some classes."""
    found = [(rule.recovery, rule.code) for rule in policy.text_rules]
    found += [(rule.recovery, rule.as_code or f"HTTP {rule.status}") for rule in policy.status_rules]
    found += [(rule.recovery, rule.code or rule.exception.rpartition(".")[2]) for rule in policy.exception_rules]
    return sorted({code for recovery, code in found if recovery in classes and code})


def _later(policy: ToolPolicy) -> str:
    said = _codes(policy, Recovery.RETRY_AFTER)
    if isinstance(policy.quota, str):
        said.append(f"quota {policy.quota}")
    after = f" ({', '.join(said)})" if said else ""
    retries = policy.limits.max_retries
    if policy.effect is Effect.READ and policy.repeatable:
        most = MAX_RETRIES_TEMPORARY_READ if retries is None else retries
        return f"yes, after a temporary failure or at the named time{after}; the controller repeats it, {_times(most)}"
    if policy.effect is Effect.UNDECLARED and not said:
        return NOT_DECLARED
    most = MAX_RETRIES if retries is None else retries
    inspected = (
        ""
        if policy.inspect is None
        else f"; if {policy.inspect.tool} finds no trace of it, the model may ask for it again"
    )
    return f"only after an answer that says nothing ran{after}; the controller repeats it, {_times(most)}{inspected}"


def _changed(policy: ToolPolicy) -> str:
    fields = {name for rule in policy.text_rules if rule.recovery is Recovery.REPAIR_INPUT for name in rule.fields}
    fields |= set(policy.required)
    if fields:
        return f"yes: {', '.join(sorted(fields))}"
    codes = _codes(policy, Recovery.REPAIR_INPUT)
    if codes:
        return f"yes, after {', '.join(codes)}"
    if policy.speaks_contract:
        return "yes, where the tool names the fields in its answer"
    return NOT_DECLARED


def _agent(policy: ToolPolicy) -> str:
    said: list[str] = []
    if policy.approval != "never":
        said.append("no, a person decides where the approval rule asks")
    if policy.permissions:
        said.append("no, a person grants permissions")
    if final := _codes(policy, Recovery.DO_NOT_RETRY):
        said.append(f"no after {', '.join(final)}")
    if policy.alternatives:
        said.append(f"yes, with {', '.join(policy.alternatives)}")
    if policy.preconditions:
        said.append(f"yes, {', '.join(policy.preconditions)} can be completed before it")
    if not said and policy.speaks_contract:
        return "where the tool's answer names a class that the agent can act on"
    return "; ".join(said) or NOT_DECLARED


def _disclosed(policy: ToolPolicy) -> str:
    said = ["code, recovery class, times and the catalogue's text"]
    said += [f"its own error text, declared error_text = {policy.error_text!r}"] if policy.error_text == "shown" else []
    said += [f"fields {', '.join(sorted(policy.safe_fields))}"] if policy.safe_fields else []
    said += [f"permissions {', '.join(policy.permissions)}"] if policy.permissions else []
    said += [f"arguments {', '.join(policy.secret)} never"] if policy.secret else []
    return "; ".join(said)


def _times(most: int) -> str:
    return "never" if most == 0 else "once at most" if most == 1 else f"{most} times at most"
