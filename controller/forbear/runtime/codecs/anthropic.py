"""Anthropic messages: calls and their results are blocks of messages. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from forbear.errors import UsageError
from forbear.runtime.codecs.shapes import (
    Codec,
    Message,
    Proposed,
    Result,
    items,
    jsonable,
    mapping,
    plain_message,
    text,
)


def _read(response: object) -> tuple[list[Message], bool]:
    body = plain_message(jsonable(response))
    if body.get("role", "assistant") != "assistant" or "content" not in body:
        raise UsageError("response: is not a message of the assistant")
    # What the API sends beside role and content (usage, stop reason) it does not take back.
    return [{"role": "assistant", "content": body["content"]}], body.get("stop_reason") == "max_tokens"


def _blocks(message: Message, kind: str) -> list[Mapping[str, object]]:
    return [block for block in items(message.get("content")) if block.get("type") == kind]


def _calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") != "assistant":
            continue
        calls = _blocks(message, "tool_use")
        if not calls:
            continue
        last = items(message["content"])[-1]
        found = [
            Proposed(
                call_id=text(call.get("id")),
                tool=text(call.get("name")),
                arguments=call.get("input") or {},
                truncated=cut and call is calls[-1] and last.get("id") == call.get("id"),
            )
            for call in calls
        ]
        return found, index + 1
    return [], len(messages)


def _unfinished(response: object) -> bool:
    return plain_message(jsonable(response)).get("stop_reason") == "pause_turn"


def _rename(messages: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)

    def renamed(block: Mapping[str, object]) -> Mapping[str, object]:
        return {**block, "id": next(given)} if block.get("type") == "tool_use" else block

    return [
        {**message, "content": [renamed(block) for block in items(message["content"])]}
        if _blocks(message, "tool_use")
        else message
        for message in messages
    ]


def _answered(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(
        text(block.get("tool_use_id"))
        for message in messages
        if message.get("role") == "user"
        for block in _blocks(message, "tool_result")
    )


def _turns(messages: Sequence[Message]) -> int:
    return sum(message.get("role") == "user" and not _is_only_results(message) for message in messages)


def _is_only_results(message: Message) -> bool:
    blocks = items(message.get("content"))
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


def _result(result: Result) -> dict[str, object]:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id, "content": result.text}
    if result.is_error:
        made["is_error"] = True
    return made


def _add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = list(messages)
    if not results:
        return made
    blocks: list[object] = [_result(result) for result in results]
    following = made[at] if at < len(made) else None
    if following is None or following.get("role") != "user":
        made.insert(at, {"role": "user", "content": blocks})
        return made
    # All results of a message belong into the one user message after it, before what the person wrote.
    content = following.get("content")
    old: list[object] = (
        list(cast("list[object]", content)) if isinstance(content, list) else [{"type": "text", "text": content}]
    )
    split = next((i for i, b in enumerate(old) if mapping(b).get("type") != "tool_result"), len(old))
    made[at] = {**following, "content": [*old[:split], *blocks, *old[split:]]}
    return made


def _replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") != "user" or not any(
            block.get("tool_use_id") == result.call_id for block in _blocks(message, "tool_result")
        ):
            continue
        made = list(messages)
        content = cast("list[object]", message["content"])
        made[index] = {**message, "content": [_replaced(block, result) for block in content]}
        return made
    return None


def _replaced(block: object, result: Result) -> object:
    held = mapping(block)
    if held.get("type") != "tool_result" or held.get("tool_use_id") != result.call_id:
        return block
    kept = {key: value for key, value in held.items() if key not in ("content", "is_error")}
    return {**kept, **_result(result)}


ANTHROPIC: Final = Codec(
    name="anthropic",
    read=_read,
    calls=_calls,
    answered=_answered,
    turns=_turns,
    add=_add,
    replace=_replace,
    rename=_rename,
    unfinished=_unfinished,
)
