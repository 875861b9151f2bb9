"""`execute` on the objects of real client libraries: of those that are installed here (see `python -m tests.compat`)."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from forbear import Controller, Next, execute
from tests.compat.builders import load

pytestmark = pytest.mark.filterwarnings("default")

CALL = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"query": "a"}'}}
CHAT = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None,
                 "message": {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]}}],
}  # fmt: skip
RESPONSE = {
    "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": [],
    "parallel_tool_calls": True, "tool_choice": "auto",
    "output": [{"type": "reasoning", "id": "rs", "summary": []},
               {"type": "function_call", "id": "fc", "call_id": "1", "name": "find", "arguments": '{"query": "a"}'}],
}  # fmt: skip
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "find", "input": {"query": "a"}}],
}  # fmt: skip


def openai_chat() -> tuple[object, Any]:
    """Return a chat completion, and what the next request takes."""
    types = load("openai.types.chat")
    return types.ChatCompletion.model_validate(CHAT), types.ChatCompletionMessageParam


def openai_responses() -> tuple[object, Any]:
    """Return a response, and what the next request takes."""
    types = load("openai.types.responses")
    return types.Response.model_validate(RESPONSE), types.ResponseInputItemParam


def anthropic() -> tuple[object, Any]:
    """Return a message, and what the next request takes."""
    types = load("anthropic.types")
    return types.Message.model_validate(MESSAGE), types.MessageParam


def litellm() -> tuple[object, Any]:
    """Return a completion of LiteLLM; it takes what OpenAI takes."""
    return load("litellm").ModelResponse(**CHAT), load("openai.types.chat").ChatCompletionMessageParam


# Library of the table, module that is needed, codec, and what makes a response.
CLIENTS = (
    ("OpenAI_Agents", "openai", "openai-chat", openai_chat),
    ("OpenAI_Agents", "openai", "openai-responses", openai_responses),
    ("Anthropic", "anthropic", "anthropic", anthropic),
    ("DSPy", "litellm", "litellm", litellm),
)


@pytest.fixture
def controller() -> Iterator[Controller]:
    """Open a controller in memory."""
    with Controller.open(":memory:", worker=False) as opened:
        opened.declare("find", effect="read")
        yield opened


@pytest.mark.parametrize(
    ("codec", "make"),
    [
        pytest.param(codec, make, id=f"{library}-{codec}")
        for library, module, codec, make in CLIENTS
        if importlib.util.find_spec(module) is not None
    ],
)
def test_objects_of_clients_give_messages_that_clients_take(
    codec: str, make: Callable[[], tuple[object, Any]], controller: Controller
) -> None:
    """The library's own object is read, and every message of the next request has the library's own form."""
    response, parameter = make()
    progress = execute(response, [{"role": "user", "content": "go"}], {"find": _find},
                       controller, run="r", codec=codec)  # fmt: skip
    assert progress.next is Next.MODEL
    assert '["a"]' in json.dumps(progress.messages[-1]).replace("\\", "")
    check = TypeAdapter(parameter)
    for message in progress.messages:
        check.validate_python(message, strict=False)


def _find(query: str) -> list[str]:
    return [query]
