"""OpenAI chat completions, which LiteLLM gives every provider the shape of. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from forbear.errors import UsageError
from forbear.runtime.codecs.shapes import (
    Codec,
    Message,
    Proposed,
    Result,
    items,
    jsonable,
    mapping,
    other_shape,
    plain_message,
    text,
    user_turns,
    with_answer,
)


def _read(response: object) -> tuple[list[Message], bool]:
    made = plain_message(jsonable(response))
    cut = False
    if "choices" in made:
        choices = items(made["choices"])
        if not choices:
            raise UsageError("response: has no choices")
        cut = choices[0].get("finish_reason") == "length"
        made = plain_message(choices[0].get("message"))
    if made.get("role", "assistant") != "assistant":
        raise UsageError("response: is not a message of the assistant")
    content = made.get("content")
    if made.get("function_call"):
        raise UsageError(
            "response: calls a function in the form before tools (function_call); pass tools=… in the request"
        )
    if not {"content", "tool_calls"} & made.keys() or (any(one.get("type") == "tool_use" for one in items(content))):
        raise other_shape("a chat completion or its message")
    made["role"] = "assistant"
    made.setdefault("content", None)
    for name in ("annotations", "function_call", "tool_calls"):
        if not made.get(name, True):
            del made[name]
    return [made], cut


def _calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        calls = items(message.get("tool_calls")) if message.get("role") == "assistant" else []
        if calls:
            # Only the last call can be cut off.
            return [_call(call, cut=cut and call is calls[-1]) for call in calls], index + 1
    return [], len(messages)


def _call(call: Mapping[str, object], *, cut: bool) -> Proposed:
    if call.get("type") == "custom":
        custom = mapping(call.get("custom"))
        return Proposed(
            call_id=text(call.get("id")),
            tool=text(custom.get("name")),
            arguments={"input": text(custom.get("input"))},
            truncated=cut,
            is_custom=True,
        )
    function = mapping(call.get("function"))
    arguments = function.get("arguments")
    # Some servers send nothing for a call without arguments.
    return Proposed(
        call_id=text(call.get("id")), tool=text(function.get("name")), arguments=arguments or {}, truncated=cut
    )


def _rename(messages: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)
    return [
        {**message, "tool_calls": [{**call, "id": next(given)} for call in items(message["tool_calls"])]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _answered(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(text(m.get("tool_call_id")) for m in messages if m.get("role") == "tool")


def _result(result: Result) -> Message:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.text}


def _add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = list(messages)
    while at < len(made) and made[at].get("role") == "tool":
        at += 1
    made[at:at] = [_result(result) for result in results]
    return made


def _replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    return with_answer(
        messages, lambda m: m.get("role") == "tool" and m.get("tool_call_id") == result.call_id, "content", result.text
    )


OPENAI_CHAT: Final = Codec(
    name="openai-chat",
    read=_read,
    calls=_calls,
    answered=_answered,
    turns=user_turns,
    add=_add,
    replace=_replace,
    rename=_rename,
)
