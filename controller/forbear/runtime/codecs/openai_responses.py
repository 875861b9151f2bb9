"""OpenAI responses: calls and their outputs are items of one list. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from forbear.errors import UsageError
from forbear.runtime.codecs.shapes import (
    Codec,
    Message,
    Proposed,
    Result,
    items,
    jsonable,
    plain_message,
    text,
    user_turns,
    with_answer,
)

_RESPONSES_CALLS: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def _read(response: object) -> tuple[list[Message], bool]:
    made = jsonable(response)
    if isinstance(made, list):
        return [plain_message(item) for item in cast("list[object]", made)], False
    body = plain_message(made)
    if "output" not in body:
        raise UsageError("response: has no output items")
    return [plain_message(item) for item in items(body["output"])], body.get("status") == "incomplete"


def _calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
    end = len(messages)
    while end and messages[end - 1].get("type") not in _RESPONSES_CALLS:
        end -= 1
    start = end
    # The calls of one response stand together, perhaps with reasoning between them.
    while start and _is_of_response(messages[start - 1]):
        start -= 1
    if not end:
        return [], len(messages)
    found: list[Proposed] = []
    last = messages[end - 1]
    for item in messages[start:end]:
        is_custom = item.get("type") == "custom_tool_call"
        if is_custom or item.get("type") == "function_call":
            found.append(
                Proposed(
                    call_id=text(item.get("call_id")),
                    tool=text(item.get("name")),
                    arguments={"input": text(item.get("input"))} if is_custom else item.get("arguments") or {},
                    truncated=(cut and item is last) or item.get("status") == "incomplete",
                    is_custom=is_custom,
                )
            )
    return found, end


def _is_of_response(item: Message) -> bool:
    """Say whether the model wrote an item: not a person, and not the caller (outputs, answers to requests)."""
    kind = text(item.get("type", "message"))
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response"))


def _rename(items: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)
    return [{**item, "call_id": next(given)} if item.get("type") in _RESPONSES_CALLS else item for item in items]


def _answered(messages: Sequence[Message]) -> frozenset[str]:
    outputs = frozenset(_RESPONSES_CALLS.values())
    return frozenset(text(item.get("call_id")) for item in messages if item.get("type") in outputs)


def _add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = list(messages)
    outputs = frozenset(_RESPONSES_CALLS.values())
    while at < len(made) and (made[at].get("type") in outputs or _is_of_response(made[at])):
        at += 1
    made[at:at] = [
        {
            "type": _RESPONSES_CALLS["custom_tool_call" if result.is_custom else "function_call"],
            "call_id": result.call_id,
            "output": result.text,
        }
        for result in results
    ]
    return made


def _replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    outputs = frozenset(_RESPONSES_CALLS.values())
    return with_answer(
        messages, lambda m: m.get("type") in outputs and m.get("call_id") == result.call_id, "output", result.text
    )


OPENAI_RESPONSES: Final = Codec(
    name="openai-responses",
    read=_read,
    calls=_calls,
    answered=_answered,
    turns=user_turns,
    add=_add,
    replace=_replace,
    rename=_rename,
)
