"""What a codec is made of, and how objects of client libraries are read. No API's own form is here, and nothing is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from forbear.errors import UsageError

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


def mapping(value: object) -> Mapping[str, object]:
    """Return an object's members, none where it is no object."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[Mapping[str, object]]:
    """Return the objects of a list, none where it is no list."""
    if not isinstance(value, (list, tuple)):
        return []
    return [mapping(member) for member in cast("Sequence[object]", value)]


def text(value: object) -> str:
    """Return a text, "" where it is none."""
    return value if isinstance(value, str) else ""


def plain_message(value: object) -> Message:
    """Return an object as a message."""
    return {str(key): member for key, member in mapping(value).items()}


def other_shape(expected: str) -> UsageError:
    """Return the error for a response of another API: read as one without calls, it would look like a final answer."""
    return UsageError(f"response: is not {expected}; name the API that it comes from with codec=…")


def user_turns(messages: Sequence[Message]) -> int:
    """Return how many messages a person wrote."""
    return sum(message.get("role") == "user" for message in messages)


def with_answer(
    messages: Sequence[Message], is_answer: Callable[[Message], bool], field: str, given: str
) -> list[Message] | None:
    """Return messages in which the newest answer of a kind says something else; None = there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if is_answer(messages[index]):
            made = list(messages)
            made[index] = {**messages[index], field: given}
            return made
    return None
