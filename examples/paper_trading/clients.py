"""A model behind the interface of a client library: what `AsyncOpenAI()` and `AsyncAnthropic()` are to a loop.

The loops in `loops` know nothing else of a model. Messages go in and come out in the shape of the API, as plain JSON;
which model answers, and how it is watched, is in `models` and `agent`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.graph import MessagesState

from examples.paper_trading.agent import Think

Message = dict[str, object]
Messages = Sequence[Mapping[str, object]]


class ChatClient:
    """``client.chat.completions.create``, as in the library of OpenAI."""

    def __init__(self, think: Think, after: Callable[[], Awaitable[object]] | None = None) -> None:
        """Ask this model; `after` is done whenever it has answered."""
        self._think, self._after = think, after

    @property
    def chat(self) -> ChatClient:
        """Stand for the library's own object between client and method."""
        return self

    @property
    def completions(self) -> ChatClient:
        """Stand for the library's own object between client and method."""
        return self

    async def create(self, *, model: str, messages: Messages) -> Message:
        """Return a chat completion."""
        said = await _answer(self._think, [one for message in messages for one in _from_chat(message)], self._after)
        made: Message = {"role": "assistant", "content": said.text or None}
        if said.tool_calls:
            made["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
                }
                for call in said.tool_calls
            ]
        reason = "tool_calls" if said.tool_calls else "stop"
        return {"object": "chat.completion", "model": model, "choices": [{"message": made, "finish_reason": reason}]}


class MessagesClient:
    """``client.messages.create``, as in the library of Anthropic."""

    def __init__(self, think: Think, after: Callable[[], Awaitable[object]] | None = None) -> None:
        """Ask this model; `after` is done whenever it has answered."""
        self._think, self._after = think, after

    @property
    def messages(self) -> MessagesClient:
        """Stand for the library's own object between client and method."""
        return self

    async def create(self, *, model: str, messages: Messages, max_tokens: int) -> Message:
        """Return a message."""
        said = await _answer(
            self._think, [one for message in messages for one in _from_anthropic(message)], self._after
        )
        blocks: list[object] = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
            for call in said.tool_calls
        ]
        reason = "tool_use" if said.tool_calls else "end_turn"
        return {"type": "message", "role": "assistant", "model": model, "content": blocks, "stop_reason": reason}


async def _answer(think: Think, messages: list[AnyMessage], after: Callable[[], Awaitable[object]] | None) -> AIMessage:
    answered = (await think(MessagesState(messages=messages)))["messages"][-1]
    if after is not None:
        await after()
    if not isinstance(answered, AIMessage):
        raise TypeError("a model answers with a message of its own")
    return answered


def _from_chat(message: Mapping[str, object]) -> list[AnyMessage]:
    content = str(message.get("content") or "")
    match message["role"]:
        case "user":
            return [HumanMessage(content)]
        case "tool":
            return [ToolMessage(content, tool_call_id=str(message["tool_call_id"]))]
        case _:
            calls = cast("list[dict[str, dict[str, str]]]", message.get("tool_calls", []))
            return [AIMessage(content, tool_calls=[_call(one["id"], one["function"]) for one in calls])]


def _call(call_id: object, function: Mapping[str, str]) -> ToolCall:
    return ToolCall(name=function["name"], args=json.loads(function["arguments"]), id=str(call_id), type="tool_call")


def _from_anthropic(message: Mapping[str, object]) -> list[AnyMessage]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Message]", content)
    text = "\n".join(str(block["text"]) for block in blocks if block["type"] == "text")
    if message["role"] == "assistant":
        calls = [
            ToolCall(
                name=str(block["name"]),
                args=cast("dict[str, object]", block["input"]),
                id=str(block["id"]),
                type="tool_call",
            )
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return [AIMessage(text, tool_calls=calls)]
    results: list[AnyMessage] = [
        ToolMessage(
            str(block["content"]),
            tool_call_id=str(block["tool_use_id"]),
            status="error" if block.get("is_error") else "success",
        )
        for block in blocks
        if block["type"] == "tool_result"
    ]
    return [*results, HumanMessage(text)] if text else results
