"""How tool calls and their results look in the messages of four client libraries. Pure functions on plain JSON.

A codec reads a model's response (a dict, or an object with attributes or `model_dump`), finds the calls in it, and writes
results the way the API wants them. No client library is imported, nothing is decided, no message is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from forbear.errors import UsageError

__all__ = ["CODECS", "Codec", "Message", "Proposed", "Result", "codec_for", "message_of"]

# A message (chat, Anthropic) or an item (OpenAI responses), plain JSON.
Message = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One tool call of a model's message."""

    call_id: str
    tool: str
    # JSON text as the model wrote it, or an object.
    arguments: object
    # The message was cut off in it.
    truncated: bool = False
    # The call's arguments are free text (OpenAI custom tools), under this one name.
    is_custom: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one call is answered with."""

    call_id: str
    text: str
    is_error: bool
    is_custom: bool = False


def _never(_response: object) -> bool:
    return False


class FindsCalls(Protocol):
    """Finds the calls of a model's last message."""

    def __call__(self, messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
        """Return the calls and the index after their message; `cut`: the message was cut off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """The message shape of one API."""

    name: str
    # A model's response, message or list of items as messages to append, and whether it was cut off.
    read: Callable[[object], tuple[list[Message], bool]]
    # All calls of the last message that has any, with the index after that message.
    calls: FindsCalls
    # Ids of the calls that have a result.
    answered: Callable[[Sequence[Message]], frozenset[str]]
    # How many messages a person wrote.
    turns: Callable[[Sequence[Message]], int]
    # The messages with results added after `at`, in the place where the API wants them.
    add: Callable[[Sequence[Message], int, Sequence[Result]], list[Message]]
    # The messages with the result of a call replaced, or None where it has none.
    replace: Callable[[Sequence[Message], Result], list[Message] | None]
    # A response's messages with other ids of their calls, in the order of the calls. None = ids are never changed.
    rename: Callable[[Sequence[Message], Sequence[str]], list[Message]] | None = None
    # The API stopped a response without calls in the middle and wants to be asked to go on with it.
    unfinished: Callable[[object], bool] = _never


# ---- reading objects of client libraries ----------------------------------------------------------------------------


def jsonable(value: object) -> object:
    """Return a client library's object as plain JSON: dicts and lists as they are, models by their `model_dump`."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        return {str(key): jsonable(member) for key, member in members.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(member) for member in cast("Sequence[object]", value)]
    return _dumped(value)


def message_of(value: object) -> Message:
    """Return one message of a conversation as plain JSON, as far as it has such a form.

    Raises:
        UsageError: it is no message.
    """
    made = _readable(value)
    if not isinstance(made, dict):
        raise UsageError(f"messages: {type(value).__name__} is not a message")
    return cast("Message", made)


def _readable(value: object) -> object:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        return {str(key): _readable(member) for key, member in members.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(member) for member in cast("Sequence[object]", value)]
    try:
        return _dumped(value)
    except UsageError:
        # The caller's own object (bytes of a picture): their client knows what to do with it.
        return value


def _dumped(value: object) -> object:
    for method, options in (("model_dump", {"mode": "json", "exclude_none": True}), ("to_dict", {}), ("dict", {})):
        dump = getattr(value, method, None)
        if callable(dump):
            return jsonable(dump(**options))
    if hasattr(value, "__dict__"):
        return {key: jsonable(member) for key, member in vars(value).items() if not key.startswith("_")}
    raise UsageError(f"response: {type(value).__name__} is not a message that a codec can read")


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _items(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, (list, tuple)):
        return []
    return [_mapping(member) for member in cast("Sequence[object]", value)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _message(value: object) -> Message:
    return {str(key): member for key, member in _mapping(value).items()}


def _other_shape(expected: str) -> UsageError:
    """Return the error for a response of another API: read as one without calls, it would look like a final answer."""
    return UsageError(f"response: is not {expected}; name the API that it comes from with codec=…")


def _copied(messages: Iterable[Message]) -> list[Message]:
    return list(messages)


# ---- OpenAI chat completions, LiteLLM -------------------------------------------------------------------------------


def _chat_read(response: object) -> tuple[list[Message], bool]:
    made = _message(jsonable(response))
    cut = False
    if "choices" in made:
        choices = _items(made["choices"])
        if not choices:
            raise UsageError("response: has no choices")
        cut = choices[0].get("finish_reason") == "length"
        made = _message(choices[0].get("message"))
    if made.get("role", "assistant") != "assistant":
        raise UsageError("response: is not a message of the assistant")
    content = made.get("content")
    if made.get("function_call"):
        raise UsageError(
            "response: calls a function in the form before tools (function_call); pass tools=… in the request"
        )
    if not {"content", "tool_calls"} & made.keys() or (any(one.get("type") == "tool_use" for one in _items(content))):
        raise _other_shape("a chat completion or its message")
    made["role"] = "assistant"
    made.setdefault("content", None)
    for name in ("annotations", "function_call", "tool_calls"):
        if not made.get(name, True):
            del made[name]
    return [made], cut


def _chat_calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        calls = _items(message.get("tool_calls")) if message.get("role") == "assistant" else []
        if calls:
            # Only the last call can be cut off.
            return [_chat_call(call, cut=cut and call is calls[-1]) for call in calls], index + 1
    return [], len(messages)


def _chat_call(call: Mapping[str, object], *, cut: bool) -> Proposed:
    if call.get("type") == "custom":
        custom = _mapping(call.get("custom"))
        return Proposed(
            call_id=_text(call.get("id")),
            tool=_text(custom.get("name")),
            arguments={"input": _text(custom.get("input"))},
            truncated=cut,
            is_custom=True,
        )
    function = _mapping(call.get("function"))
    arguments = function.get("arguments")
    # Some servers send nothing for a call without arguments.
    return Proposed(
        call_id=_text(call.get("id")), tool=_text(function.get("name")), arguments=arguments or {}, truncated=cut
    )


def _chat_rename(messages: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)
    return [
        {**message, "tool_calls": [{**call, "id": next(given)} for call in _items(message["tool_calls"])]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _chat_answered(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(_text(m.get("tool_call_id")) for m in messages if m.get("role") == "tool")


def _role_turns(messages: Sequence[Message]) -> int:
    return sum(message.get("role") == "user" for message in messages)


def _chat_result(result: Result) -> Message:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.text}


def _chat_add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = _copied(messages)
    while at < len(made) and made[at].get("role") == "tool":
        at += 1
    made[at:at] = [_chat_result(result) for result in results]
    return made


def _chat_replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") == "tool" and message.get("tool_call_id") == result.call_id:
            made = _copied(messages)
            made[index] = {**message, "content": result.text}
            return made
    return None


# ---- OpenAI responses -----------------------------------------------------------------------------------------------

_RESPONSES_CALLS: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def _responses_read(response: object) -> tuple[list[Message], bool]:
    made = jsonable(response)
    if isinstance(made, list):
        return [_message(item) for item in cast("list[object]", made)], False
    body = _message(made)
    if "output" not in body:
        raise UsageError("response: has no output items")
    return [_message(item) for item in _items(body["output"])], body.get("status") == "incomplete"


def _responses_calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
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
                    call_id=_text(item.get("call_id")),
                    tool=_text(item.get("name")),
                    arguments={"input": _text(item.get("input"))} if is_custom else item.get("arguments") or {},
                    truncated=(cut and item is last) or item.get("status") == "incomplete",
                    is_custom=is_custom,
                )
            )
    return found, end


def _is_of_response(item: Message) -> bool:
    """Say whether the model wrote an item: not a person, and not the caller (outputs, answers to requests)."""
    kind = _text(item.get("type", "message"))
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response"))


def _responses_rename(items: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)
    return [{**item, "call_id": next(given)} if item.get("type") in _RESPONSES_CALLS else item for item in items]


def _responses_answered(messages: Sequence[Message]) -> frozenset[str]:
    outputs = frozenset(_RESPONSES_CALLS.values())
    return frozenset(_text(item.get("call_id")) for item in messages if item.get("type") in outputs)


def _responses_add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = _copied(messages)
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


def _responses_replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    outputs = frozenset(_RESPONSES_CALLS.values())
    for index in range(len(messages) - 1, -1, -1):
        item = messages[index]
        if item.get("type") in outputs and item.get("call_id") == result.call_id:
            made = _copied(messages)
            made[index] = {**item, "output": result.text}
            return made
    return None


# ---- Anthropic messages ---------------------------------------------------------------------------------------------


def _anthropic_read(response: object) -> tuple[list[Message], bool]:
    body = _message(jsonable(response))
    if body.get("role", "assistant") != "assistant" or "content" not in body:
        raise UsageError("response: is not a message of the assistant")
    # What the API sends beside role and content (usage, stop reason) it does not take back.
    return [{"role": "assistant", "content": body["content"]}], body.get("stop_reason") == "max_tokens"


def _blocks(message: Message, kind: str) -> list[Mapping[str, object]]:
    return [block for block in _items(message.get("content")) if block.get("type") == kind]


def _anthropic_calls(messages: Sequence[Message], *, cut: bool) -> tuple[list[Proposed], int]:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") != "assistant":
            continue
        calls = _blocks(message, "tool_use")
        if not calls:
            continue
        last = _items(message["content"])[-1]
        found = [
            Proposed(
                call_id=_text(call.get("id")),
                tool=_text(call.get("name")),
                arguments=call.get("input") or {},
                truncated=cut and call is calls[-1] and last.get("id") == call.get("id"),
            )
            for call in calls
        ]
        return found, index + 1
    return [], len(messages)


def _anthropic_unfinished(response: object) -> bool:
    return _message(jsonable(response)).get("stop_reason") == "pause_turn"


def _anthropic_rename(messages: Sequence[Message], ids: Sequence[str]) -> list[Message]:
    given = iter(ids)

    def renamed(block: Mapping[str, object]) -> Mapping[str, object]:
        return {**block, "id": next(given)} if block.get("type") == "tool_use" else block

    return [
        {**message, "content": [renamed(block) for block in _items(message["content"])]}
        if _blocks(message, "tool_use")
        else message
        for message in messages
    ]


def _anthropic_answered(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(
        _text(block.get("tool_use_id"))
        for message in messages
        if message.get("role") == "user"
        for block in _blocks(message, "tool_result")
    )


def _anthropic_turns(messages: Sequence[Message]) -> int:
    return sum(message.get("role") == "user" and not _is_only_results(message) for message in messages)


def _is_only_results(message: Message) -> bool:
    blocks = _items(message.get("content"))
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


def _anthropic_result(result: Result) -> dict[str, object]:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id, "content": result.text}
    if result.is_error:
        made["is_error"] = True
    return made


def _anthropic_add(messages: Sequence[Message], at: int, results: Sequence[Result]) -> list[Message]:
    made = _copied(messages)
    if not results:
        return made
    blocks: list[object] = [_anthropic_result(result) for result in results]
    following = made[at] if at < len(made) else None
    if following is None or following.get("role") != "user":
        made.insert(at, {"role": "user", "content": blocks})
        return made
    # All results of a message belong into the one user message after it, before what the person wrote.
    content = following.get("content")
    old: list[object] = (
        list(cast("list[object]", content)) if isinstance(content, list) else [{"type": "text", "text": content}]
    )
    split = next((i for i, b in enumerate(old) if _mapping(b).get("type") != "tool_result"), len(old))
    made[at] = {**following, "content": [*old[:split], *blocks, *old[split:]]}
    return made


def _anthropic_replace(messages: Sequence[Message], result: Result) -> list[Message] | None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.get("role") != "user" or not any(
            block.get("tool_use_id") == result.call_id for block in _blocks(message, "tool_result")
        ):
            continue
        made = _copied(messages)
        content = cast("list[object]", message["content"])
        made[index] = {**message, "content": [_replaced(block, result) for block in content]}
        return made
    return None


def _replaced(block: object, result: Result) -> object:
    held = _mapping(block)
    if held.get("type") != "tool_result" or held.get("tool_use_id") != result.call_id:
        return block
    kept = {key: value for key, value in held.items() if key not in ("content", "is_error")}
    return {**kept, **_anthropic_result(result)}


# ---- all ------------------------------------------------------------------------------------------------------------


OPENAI_CHAT: Final = Codec(
    name="openai-chat",
    read=_chat_read,
    calls=_chat_calls,
    answered=_chat_answered,
    turns=_role_turns,
    add=_chat_add,
    replace=_chat_replace,
    rename=_chat_rename,
)
OPENAI_RESPONSES: Final = Codec(
    name="openai-responses",
    read=_responses_read,
    calls=_responses_calls,
    answered=_responses_answered,
    turns=_role_turns,
    add=_responses_add,
    replace=_responses_replace,
    rename=_responses_rename,
)
ANTHROPIC: Final = Codec(
    name="anthropic",
    read=_anthropic_read,
    calls=_anthropic_calls,
    answered=_anthropic_answered,
    turns=_anthropic_turns,
    add=_anthropic_add,
    replace=_anthropic_replace,
    rename=_anthropic_rename,
    unfinished=_anthropic_unfinished,
)
CODECS: Final[Mapping[str, Codec]] = {
    "openai-chat": OPENAI_CHAT,
    # LiteLLM gives every provider the shape of OpenAI chat completions.
    "litellm": OPENAI_CHAT,
    "openai-responses": OPENAI_RESPONSES,
    "anthropic": ANTHROPIC,
}


def codec_for(codec: str | Codec) -> Codec:
    """Return a codec by its name, or the codec itself.

    Raises:
        UsageError: there is none of this name.
    """
    if isinstance(codec, Codec):
        return codec
    found = CODECS.get(codec)
    if found is None:
        raise UsageError(f"codec: must be one of {', '.join(CODECS)}")
    return found
