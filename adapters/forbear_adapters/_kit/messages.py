"""Read LangChain messages: which turn, step and call something is; and write the answers as messages. Pure translation.

Used by the LangGraph and the LangChain adapter, which never import each other. No controller is called here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

__all__ = [
    "MARK",
    "Step",
    "content_of",
    "is_halted",
    "message_id",
    "messages_of",
    "step_of",
    "turn_of",
]

# Member of `response_metadata` under which an answer that is not the tool's own is marked. Never sent to a provider.
MARK: Final = "forbear"
# Member of `additional_kwargs` with which LangChain marks messages that it wrote itself.
_WRITTEN_BY: Final = "lc_source"
_NOTHING: Final[frozenset[str]] = frozenset()
_CUT_OFF: Final = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One AI message: what the controller must know about it to place its calls."""

    # Id of the message; where it has none, a digest of its place and its call ids.
    name: str
    # Id of the last human message before it; None = there is none.
    turn: str | None
    # Ids of its calls, in its order, those that did not parse last.
    calls: tuple[str, ...]
    # Call ids that the model may not have finished writing.
    truncated: frozenset[str] = _NOTHING
    # Calls that could not be parsed: (call id, tool, text of the arguments).
    unparsed: tuple[tuple[str, str, str], ...] = ()


def messages_of(state: object, key: str) -> Sequence[AnyMessage]:
    """Return the messages of a graph's state: a list, a mapping or an object with that member."""
    held: object = state
    if isinstance(state, (dict, Mapping)):
        held = cast("Mapping[str, object]", state).get(key)
    elif not isinstance(state, (list, tuple)):
        held = cast("object", getattr(state, key, None))
    return cast("Sequence[AnyMessage]", held) if isinstance(held, (list, tuple)) else ()


def turn_of(messages: Sequence[AnyMessage]) -> str | None:
    """Return the id of the last message of a person; where it has none, how many there are.

    A summary that a framework wrote in the place of older messages looks like a human message and begins no turn.
    """
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and not message.additional_kwargs.get(_WRITTEN_BY):
            return message.id or f"human:{sum(isinstance(one, HumanMessage) for one in messages)}"
    return None


def step_of(messages: Sequence[AnyMessage], calls: Sequence[ToolCall]) -> Step:
    """Return the step that these calls belong to: the last AI message that made the first of them."""
    turn = turn_of(messages)
    wanted = calls[0]["id"] if calls else None
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AIMessage) and any(call["id"] == wanted for call in message.tool_calls):
            return _step(message, turn, place)
    ids = tuple(call["id"] or "" for call in calls)
    return Step(name=_digest(*ids), turn=turn, calls=ids)


def _step(message: AIMessage, turn: str | None, place: int) -> Step:
    unparsed: tuple[tuple[str, str, str], ...] = ()
    if message.invalid_tool_calls:
        unparsed = tuple(
            (call["id"], call["name"] or "", call["args"] or "") for call in message.invalid_tool_calls if call["id"]
        )
    ids = [call["id"] or "" for call in message.tool_calls]
    reason = _finish(message)
    # A model writes its calls in order: only the last one can be cut off, and where one did not parse, that is it.
    cut: frozenset[str] = _NOTHING
    if reason in _CUT_OFF:
        cut = frozenset(one[0] for one in unparsed) if unparsed else frozenset(ids[-1:])
    return Step(
        # Models that number their calls give the same ids in every message.
        name=message.id or _digest(str(place), *ids),
        turn=turn,
        calls=(*ids, *(one[0] for one in unparsed)),
        truncated=cut,
        unparsed=unparsed,
    )


def _finish(message: AIMessage) -> str | None:
    metadata = cast("Mapping[str, object]", message.response_metadata)
    for name in ("finish_reason", "stop_reason", "done_reason"):
        found = metadata.get(name)
        if isinstance(found, str):
            return found
    return None


def _digest(*parts: str) -> str:
    return blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


def message_id(step: str, call_id: str) -> str:
    """Return the message id of an answer that is replaced later: known beforehand, the same in every process."""
    return f"forbear-{_digest(step, call_id)}"


def is_halted(messages: Sequence[AnyMessage], *, skip: str = "") -> bool:
    """Say whether the answers to the last AI message that made calls end the run's tool use.

    Args:
        messages: The messages of a state.
        skip: Id of an AI message that does not count (the one whose calls are answered now).
    """
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            if mark_of(message).get("answer") == "halted":
                return True
        elif isinstance(message, HumanMessage) or (
            isinstance(message, AIMessage) and message.tool_calls and (not skip or message.id != skip)
        ):
            return False
    return False


def mark_of(message: ToolMessage | AIMessage) -> Mapping[str, object]:
    """Return what was marked on an answer of ours; an empty mapping on every other message."""
    marked = cast("Mapping[str, object]", message.response_metadata).get(MARK)
    return cast("Mapping[str, object]", marked) if isinstance(marked, Mapping) else {}


def content_of(value: object) -> str | list[str | dict[str, object]]:
    """Return a recorded value as the content that LangChain gives the same value: text, content blocks, or JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(_is_block(item) for item in cast("Sequence[object]", value)):
        return list(cast("Sequence[str | dict[str, object]]", value))
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)  # pyright: ignore[reportUnknownArgumentType]


def _is_block(item: object) -> bool:
    if isinstance(item, dict):
        return cast("dict[str, object]", item).get("type") in TOOL_MESSAGE_BLOCK_TYPES
    return isinstance(item, str)
