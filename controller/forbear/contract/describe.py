"""Write a tool's recovery behaviour into its description: what it may answer, and what is of no use to do then.

A description says what may happen; the answer says what did, and the controller enforces it. Only the policy is read.
"""

from __future__ import annotations

from typing import Final

from forbear.contract.lint import lint_text
from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import Effect, Recovery
from forbear.errors import ConfigError

__all__ = ["describe"]

_REFUSED: Final = "A refusal is final until what it names has ended; an equal call before that does not run."
_WAITS: Final = "With retry_after the controller makes the call itself at the named time; calling earlier is of no use."
_REPAIRS: Final = "With repair_input an equal call stays refused until a named field has changed."
_UNKNOWN: Final = "With inspect_outcome it may have happened: an equal call does not run before that is settled."


def describe(tool: str, policy: ToolPolicy) -> str:
    """Return a description with what the tool may answer and what is never useful.

    Args:
        tool: What the description says already; "" = nothing. It is the author's own text and stays as it is.
        policy: What is declared.

    Returns:
        The description on one line, then one sentence a rule; each added sentence passes `lint_text`.

    Raises:
        ConfigError: a declared name would make a sentence that may not be shown to a model.
    """
    said = [tool.strip()] if tool.strip() else []
    for sentence in _sentences(policy):
        findings = lint_text(sentence)
        if findings:
            raise ConfigError(
                f"tool {policy.name!r}: a declared name cannot be shown to a model: {', '.join(findings)}"
            )
        said.append(sentence)
    return " ".join(said)


def _sentences(policy: ToolPolicy) -> list[str]:
    said: list[str] = []
    if policy.approval == "always":
        said.append("A person approves each call before it runs; asking for it in words changes nothing.")
    elif policy.approval != "never":
        said.append("Some calls run only after a person approves them; a denied call stays denied.")
    if policy.preconditions:
        said.append(f"It needs {_names(policy.preconditions)} to be completed first.")
    if policy.required:
        said.append(f"It needs {_names(policy.required)}.")
    said.append(_REFUSED)
    finals = sorted({rule.code for rule in policy.text_rules if rule.recovery is Recovery.DO_NOT_RETRY and rule.code})
    if finals:
        said.append(f"{_names(finals)} is final for this turn.")
    said += [_WAITS, _REPAIRS]
    if policy.effect is not Effect.READ:
        said.append(_UNKNOWN)
        if policy.inspect is not None:
            said.append(f"{policy.inspect.tool} shows whether it happened.")
    if policy.effect is Effect.WRITE and policy.repeatable is False:
        said.append("An equal call after a success is answered from the record and does nothing.")
    if policy.effect is Effect.READ and policy.empty_means == "none":
        said.append("An empty result is a completed look, not a failure.")
    if policy.alternatives:
        said.append(f"After a refusal {_names(policy.alternatives)} may be used.")
    return said


def _names(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
