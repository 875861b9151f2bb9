"""What a paused graph shows to a person, and what the person's answer means: by ticket and fingerprint, never by place.

Pure translation. Answers are checked again by the controller, which knows what was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

__all__ = ["DECISIONS", "Decision", "Prompt", "decisions", "is_answer", "named_edits", "payload"]

DECISIONS: Final = frozenset({"approve", "deny", "revise", "edit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One call that a person is asked about."""

    ticket: str
    fingerprint: str
    call_id: str
    # The approver's view, JSON: tool, arguments as escaped text, run, rule.
    view: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's answer to one prompt, as the application posted it."""

    prompt: Prompt
    word: str
    note: str = ""
    actor: str = ""
    # EDIT: what runs instead.
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    tool: str | None = None


def payload(prompts: Sequence[Prompt]) -> dict[str, object]:
    """Return the value of the interrupt: JSON, the same for the same prompts."""
    return {
        "kind": "forbear.approval",
        "prompts": [
            {
                "ticket": prompt.ticket,
                "fingerprint": prompt.fingerprint,
                "tool_call_id": prompt.call_id,
                **prompt.view,
            }
            for prompt in prompts
        ],
        "answer_with": {
            prompt.ticket: {"decision": "approve | deny | revise | edit", "fingerprint": prompt.fingerprint}
            for prompt in prompts
        },
    }


def decisions(answer: object, prompts: Sequence[Prompt]) -> list[Decision]:
    """Return what an answer says about these prompts; what does not name ticket and fingerprint says nothing.

    Args:
        answer: ``{ticket: {"decision": ..., "fingerprint": ..., ...}}``, or one inner mapping with a "ticket" member.
        prompts: What is asked at this moment.
    """
    if not isinstance(answer, Mapping):
        return []
    given = cast("Mapping[object, object]", answer)
    found: list[Decision] = []
    for prompt in prompts:
        said = given.get(prompt.ticket)
        if said is None and given.get("ticket") == prompt.ticket:
            said = given
        if isinstance(said, Mapping):
            decision = _decision(cast("Mapping[str, object]", said), prompt)
            if decision is not None:
                found.append(decision)
    return found


def named_edits(answer: object) -> list[tuple[str, str]]:
    """Return ticket and fingerprint of every edit in an answer."""
    return [(ticket, fingerprint) for ticket, fingerprint, word in _named(answer) if word == "edit"]


def is_answer(answer: object) -> bool:
    """Say whether a resume value has the form of an answer, whatever it is an answer to."""
    return next(_named(answer), None) is not None


def _named(answer: object) -> Iterator[tuple[str, str, str]]:
    """Yield ticket, fingerprint and word of everything in an answer that has its form."""
    if not isinstance(answer, Mapping):
        return
    given = cast("Mapping[object, object]", answer)
    for ticket, said in ((given.get("ticket"), cast("object", given)), *given.items()):
        if not isinstance(said, Mapping) or not isinstance(ticket, str):
            continue
        members = cast("Mapping[str, object]", said)
        word, fingerprint = members.get("decision"), members.get("fingerprint")
        if isinstance(word, str) and word in DECISIONS and isinstance(fingerprint, str):
            yield ticket, fingerprint, word


def _decision(said: Mapping[str, object], prompt: Prompt) -> Decision | None:
    word, fingerprint = said.get("decision"), said.get("fingerprint")
    if not isinstance(word, str) or word not in DECISIONS or fingerprint != prompt.fingerprint:
        return None
    note, actor, tool, arguments = said.get("note"), said.get("actor"), said.get("tool"), said.get("arguments")
    if word == "edit" and not isinstance(arguments, Mapping):
        return None
    return Decision(
        prompt=prompt,
        word=word,
        note=note if isinstance(note, str) else "",
        actor=actor if isinstance(actor, str) else "",
        arguments=cast("Mapping[str, object]", arguments) if isinstance(arguments, Mapping) else {},
        tool=tool if isinstance(tool, str) else None,
    )
