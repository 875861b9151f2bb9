"""Ask a person through a paused graph, and hand the answers to the operator's side of the controller.

Nothing is approved here: an answer only reaches the operator, who checks ticket, fingerprint and time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, cast

from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from forbear import Controller, Operator, Pending, Reply
from forbear.errors import NotOperator, UsageError
from forbear_adapters._kit.lines import Once
from forbear_adapters._kit.pause import Decision, Prompt, decisions, is_answer, named_edits, payload

__all__ = ["ask_about", "earlier_edit", "edited", "may_pause", "operator_of", "put"]

# LangGraph's own constant; there is no public way to learn whether a pause can be resumed (1.2: the `thread_id` of
# `execution_info` is set without a checkpointer, too). Where it is renamed nothing pauses, and calls answer that they
# need approval.
_CHECKPOINTER: Final = "__pregel_checkpointer"
# Likewise: the answers that this task was resumed with before. Where it is renamed an edit is not found again after a
# second pause or a crash, and its call is told that it was superseded.
_SCRATCHPAD: Final = "__pregel_scratchpad"
_SUPERSEDED: Final = "SUPERSEDED"
_WHO_ANSWERS: Final = (
    "the store has an operator token, so that answers which come with a resume are refused; pass "
    "operator=Operator(controller, token=...), or answer with 'forbear approve TICKET' and resume with anything"
)


def operator_of(controller: Controller, given: Operator | None, once: Once) -> Operator:
    """Return who takes the answers that come with a resume; warn where answers would be refused and nobody chose that."""
    if given is not None:
        return given
    operator = Operator(controller)
    if not operator.may_answer:
        once.warn("token", _WHO_ANSWERS)
    return operator


def may_pause(config: Mapping[str, object]) -> bool:
    """Say whether an interrupt can be resumed: some checkpointer keeps the graph's state."""
    configurable = cast("Mapping[str, object]", config.get("configurable") or {})
    return configurable.get(_CHECKPOINTER) is not None


def ask_about(operator: Operator, asked: Sequence[tuple[ToolCall, Reply]]) -> list[Prompt]:
    """Return the prompts of these calls as a person sees them, each prompt once, in the order of the calls."""
    found: dict[str, Prompt] = {}
    for call, reply in asked:
        ticket = reply.ticket or ""
        if ticket and ticket not in found:
            found.update((one.ticket, _prompt(one, call["id"] or "")) for one in _open(operator, ticket))
    return list(found.values())


def _open(operator: Operator, ticket: str) -> list[Pending]:
    """Return the open prompt of a ticket; a tool that asked by itself is answered through the graph."""
    return [
        one
        for one in operator.find(ticket, whole=False)
        if one.ticket == ticket and one.kind == "approval" and one.rule != "framework"
    ]


def _prompt(pending: Pending, call_id: str) -> Prompt:
    return Prompt(
        ticket=pending.ticket,
        fingerprint=pending.fingerprint,
        call_id=call_id,
        view={
            "tool": pending.tool,
            "source": pending.source,
            "arguments": [asdict(argument) for argument in pending.arguments],
            "run": pending.run,
            "path": list(pending.path),
            "rule": pending.rule,
            "prompts_before": pending.prompts_before,
            "expires_at": None if pending.due_at is None else pending.due_at.isoformat(),
        },
    )


def put(operator: Operator, prompts: Sequence[Prompt], once: Once) -> list[Decision]:
    """Pause the graph with these prompts; on the resume, return the answers that were taken.

    Raises:
        GraphInterrupt: there is no answer yet.
        NotOperator: there is one, and the store's operator token is needed to give it.
    """
    answer = interrupt(payload(prompts))
    if not is_answer(answer):
        once.warn(
            "answer",
            'a resume value is no answer to a prompt; pass {ticket: {"decision": ..., "fingerprint": ...}} with ticket and '
            "fingerprint of the interrupt's value",
        )
    # What was answered elsewhere in the meantime, or has expired, is told when the call is proposed again.
    return [said for said in decisions(answer, prompts) if _taken(operator, said)]


def edited(request: ToolCallRequest, said: Decision, tools: Mapping[str, BaseTool]) -> ToolCallRequest:
    """Return a request as a person changed it."""
    call = request.tool_call
    name = said.tool or call["name"]
    changed = cast("ToolCall", {**call, "name": name, "args": dict(said.arguments)})
    tool = request.tool if name == call["name"] else tools.get(name)
    return request.override(tool_call=changed, tool=cast("BaseTool", tool))


def earlier_edit(config: Mapping[str, object], call: ToolCall, reply: Reply) -> Decision | None:
    """Return what a person wrote in the place of this call before the graph was resumed again, or None.

    The node starts from its beginning at every resume, with the call as the model made it. What a person may edit was
    checked when the answer was taken; the edited call is decided about like every other.
    """
    ticket = reply.ticket
    if reply.envelope.code != _SUPERSEDED or ticket is None:
        return None
    configurable = cast("Mapping[str, object]", config.get("configurable") or {})
    stored = cast("object", getattr(configurable.get(_SCRATCHPAD), "resume", None))
    for answer in cast("list[object]", stored) if isinstance(stored, list) else []:
        for asked, fingerprint in named_edits(answer):
            # The hold on the superseded call is named after the prompt that it came from.
            if ticket.startswith(asked):
                prompt = Prompt(ticket=asked, fingerprint=fingerprint, call_id=call["id"] or "", view={})
                return next(iter(decisions(answer, [prompt])), None)
    return None


def _taken(operator: Operator, said: Decision) -> bool:
    ticket, fingerprint, actor = said.prompt.ticket, said.prompt.fingerprint, said.actor or None
    try:
        match said.word:
            case "approve":
                operator.approve(ticket, fingerprint, actor=actor)
            case "deny":
                operator.deny(ticket, fingerprint, actor=actor)
            case "revise":
                operator.revise(ticket, fingerprint, note=said.note, actor=actor)
            case _:
                operator.edit(ticket, fingerprint, said.arguments, tool=said.tool, actor=actor)
    except UsageError:
        return False
    except NotOperator as error:
        raise NotOperator(f"operator: {_WHO_ANSWERS}") from error
    return True
