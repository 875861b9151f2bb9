"""Put together what was found, what is proposed and what is risky about a project's tools. Printing is not done here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import Effect
from forbear.doctor.checklist import Point, checklist, free_text_only
from forbear.doctor.clients import findings_in, project_modules
from forbear.doctor.guesses import Proposal, alias_families, propose
from forbear.doctor.misnamed import misnamed
from forbear.doctor.policy_file import policy_text
from forbear.doctor.questions import QUESTIONS, Answers, answers
from forbear.doctor.seen import Concern, Finding, Found, Weight

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that `forbear doctor` prints."""

    # What was read, and what reading it did: one sentence.
    done: str
    proposals: tuple[Proposal, ...]
    answers: Mapping[str, Answers]
    findings: tuple[Finding, ...]
    points: tuple[Point, ...]

    @property
    def is_risky(self) -> bool:
        """Say whether a risk was found."""
        return any(finding.weight is Weight.RISK for finding in self.findings)

    @property
    def policy(self) -> str:
        """Return the policy file that is proposed for the tools that nobody declared."""
        return policy_text([one for one in self.proposals if one.tool.policy is None])

    def as_json(self) -> dict[str, object]:
        """Return all of it in JSON; the keys are stable."""
        return {
            "version": 1,
            "done": self.done,
            "tools": [self._tool(one) for one in self.proposals],
            "findings": [asdict(one) for one in self.findings],
            "questions": QUESTIONS,
            "checklist": [asdict(one) for one in self.points],
            "policy": self.policy,
        }

    def _tool(self, proposal: Proposal) -> dict[str, object]:
        tool = proposal.tool
        return {
            "name": tool.name,
            "kind": tool.kind,
            "governed": tool.governed,
            "declared": tool.policy is not None,
            "effect": str(effect_of(proposal)),
            "guesses": [] if tool.policy is not None else [asdict(guess) for guess in proposal.guesses],
            "answers": asdict(self.answers[tool.name]),
        }


def effect_of(proposal: Proposal) -> Effect:
    """Return what a tool does: as declared, else as guessed."""
    return proposal.effect if proposal.tool.policy is None else proposal.tool.policy.effect


def diagnose(
    found: Found, *, done: str, modules: Sequence[str] = (), policies: Mapping[str, ToolPolicy] | None = None
) -> Diagnosis:
    """Judge what was found.

    Args:
        found: The tools and what their sources noticed.
        done: What was read and what reading did, one sentence.
        modules: Names of loaded modules whose sources are read for clients and retries, beside the tools' own.
        policies: What is declared elsewhere, by tool.
    """
    declared = policies or {}
    tools = [tool if tool.policy is not None else replace(tool, policy=declared.get(tool.name)) for tool in found.tools]
    found = replace(found, tools=tuple(tools))
    proposals = propose(tools)
    read = findings_in(project_modules([*modules, *found.modules]))
    named = misnamed(found, declared)
    findings = [*named, *found.findings, *_of_tools(proposals, found), *_of_families(proposals), *read]
    findings.sort(key=lambda one: one.weight is Weight.NOTE)
    known = [tool.policy for tool in tools if tool.policy is not None]
    return Diagnosis(
        done=done,
        proposals=tuple(proposals),
        answers={tool.name: answers(tool.policy) for tool in tools},
        findings=tuple(dict.fromkeys(findings)),
        points=tuple(checklist(found, known, findings)),
    )


def _of_tools(proposals: Sequence[Proposal], found: Found) -> list[Finding]:
    findings: list[Finding] = []
    for proposal in proposals:
        tool, policy = proposal.tool, proposal.tool.policy
        if tool.retries:
            findings.append(
                Finding(
                    concern=Concern.RETRY_INSIDE,
                    weight=Weight.RISK,
                    where=tool.name,
                    message=f"{tool.retries} repeats it from inside; attempts multiply with those outside",
                    change="take the decorator off; the controller retries where that is safe",
                )
            )
        if effect_of(proposal) is Effect.WRITE and not _can_be_looked_up(proposal):
            findings.append(_uninspected(proposal))
        if policy is not None and policy.error_text == "shown":
            findings.append(
                Finding(
                    concern=Concern.ERROR_TEXT,
                    weight=Weight.RISK,
                    where=tool.name,
                    message='error_text = "shown": what its errors say reaches the model; only `secret` arguments are cut out',
                    change='error_text = "hidden", with text_rules for what the model has to know',
                )
            )
        if effect_of(proposal) is not Effect.READ and free_text_only(tool) and not _has_target(proposal):
            findings.append(
                Finding(
                    concern=Concern.FREE_TEXT,
                    weight=Weight.RISK,
                    where=tool.name,
                    message="it takes only free text: a reworded call is another call, and no target can be declared",
                    change="take the thing acted on as an argument of its own",
                )
            )
    undeclared = [one.tool.name for one in proposals if one.tool.policy is None]
    if found.tools and not found.governed:
        findings.append(
            Finding(
                concern=Concern.NOT_GOVERNED,
                weight=Weight.NOTE,
                where="all tools",
                message="no controller was seen around them",
                change="`controller.govern`, `RecoveryToolNode` or `RecoveryMiddleware`",
            )
        )
    elif undeclared:
        findings.append(
            Finding(
                concern=Concern.UNDECLARED,
                weight=Weight.NOTE,
                where=", ".join(undeclared[:8]) + (" …" if len(undeclared) > 8 else ""),
                message=f"{len(undeclared)} of {len(proposals)} tools are not declared and treated as if they wrote",
                change="see the proposed policy",
            )
        )
    return findings


def _has_target(proposal: Proposal) -> bool:
    policy = proposal.tool.policy
    return proposal.value("target") is not None if policy is None else policy.target is not None


def _can_be_looked_up(proposal: Proposal) -> bool:
    policy = proposal.tool.policy
    return policy is not None and (policy.inspect is not None or policy.idempotency_key is not None)


def _uninspected(proposal: Proposal) -> Finding:
    read = proposal.value("inspect", confirmed=True)
    name = str(cast("dict[str, object]", read)["tool"]) if isinstance(read, dict) else ""
    return Finding(
        concern=Concern.NO_INSPECTION,
        weight=Weight.RISK,
        where=proposal.tool.name,
        message="a write with no declared inspection: when its answer is lost, only a person can say whether it happened",
        change=f'inspect = {{ tool = "{name}", applied_if = … }}'
        if name
        else "a read that finds it, or an idempotency key",
    )


def _of_families(proposals: Sequence[Proposal]) -> list[Finding]:
    by_name = {one.tool.name: one for one in proposals}
    writes = [one.tool for one in proposals if one.effect is not Effect.READ]
    findings: list[Finding] = []
    for label, members in alias_families(writes).items():
        policies = [by_name[name].tool.policy for name in members]
        operations = {None if policy is None else policy.operation or policy.name for policy in policies}
        if len(operations) == 1 and None not in operations:
            continue
        findings.append(
            Finding(
                concern=Concern.ALIASES,
                weight=Weight.RISK,
                where=", ".join(members),
                message="they look like names for one operation: what one is refused is tried with another",
                change=f'operation = "{label}" for each',
            )
        )
    return findings
