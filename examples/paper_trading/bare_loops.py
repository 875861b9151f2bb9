"""Agent loops without a framework and without a controller: what most programs look like that call a model in a loop.

They are careful: a result that is an error is marked as one, an exception becomes a message, and the person is asked
where the desk wants an approval. They just remember nothing. Their governed twins are in `loops`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, cast

from examples.paper_trading.agent import Agent, Person, Scene
from examples.paper_trading.clients import ChatClient, Message, MessagesClient
from examples.paper_trading.world import JsonObject
from forbear.contract import ABSENT, Mcp

ToolFunctions = Mapping[str, Callable[..., Awaitable[object]]]
DECLINED = "The person declined. Do not ask again."


@dataclass(frozen=True, slots=True)
class Said:
    """What one call is answered with."""

    text: str
    is_error: bool = False


# Answers one call: tool and arguments.
Answers = Callable[[str, JsonObject], Awaitable[Said]]


async def chat_loop(client: ChatClient, messages: list[Message], answers: Answers) -> None:
    """Call the model and the tools until the model has nothing more to call; chat completions."""
    while True:
        response = await client.chat.completions.create(model="any", messages=messages)
        message = cast("list[dict[str, Message]]", response["choices"])[0]["message"]
        messages.append(message)
        calls = cast("list[dict[str, dict[str, str]]]", message.get("tool_calls", []))
        if not calls:
            return
        for call in calls:
            function = call["function"]
            said = await answers(function["name"], json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said.text})


async def messages_loop(client: MessagesClient, messages: list[Message], answers: Answers) -> None:
    """Call the model and the tools until the model has nothing more to call; Anthropic messages."""
    while True:
        response = await client.messages.create(model="any", messages=messages, max_tokens=1000)
        messages.append({"role": "assistant", "content": response["content"]})
        calls = [block for block in cast("list[Message]", response["content"]) if block["type"] == "tool_use"]
        if not calls:
            return
        results: list[Message] = []
        for call in calls:
            said = await answers(str(call["name"]), cast("JsonObject", call["input"]))
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": said.text}
            results.append({**result, "is_error": True} if said.is_error else result)
        messages.append({"role": "user", "content": results})


def asking(tools: ToolFunctions, person: Person) -> Answers:
    """Return how calls are answered: run the tool; where the desk wants an approval, ask, and run it again after a yes."""

    async def answer(tool: str, arguments: JsonObject) -> Said:
        said = await attempted(tools, tool, arguments)
        if not wants_approval(said):
            return said
        return await attempted(tools, tool, arguments) if person.ask(arguments) else Said(DECLINED, is_error=True)

    return answer


async def attempted(tools: ToolFunctions, tool: str, arguments: JsonObject) -> Said:
    """Run a tool once and return what the model reads of it."""
    try:
        return read(await tools[tool](**arguments))
    except Exception as error:  # noqa: BLE001 - as such loops do: whatever it is, the model is told
        return Said(f"Error: {error!r}\n Please fix your mistakes.", is_error=True)


def read(value: object) -> Said:
    """Return a tool's value as the model reads it."""
    if isinstance(value, Mcp):
        text = "\n".join(str(cast("JsonObject", block).get("text", "")) for block in value.content)
        # A chat message has no mark for errors, so a sentence gets one in words; structure says it by itself.
        return Said(
            f"Error: {text}" if value.is_error and value.structured is ABSENT else text, is_error=bool(value.is_error)
        )
    if isinstance(value, list):
        return Said("\n".join(str(block.get("text", "")) for block in cast("list[Message]", value)))
    return Said(value if isinstance(value, str) else json.dumps(value))


def wants_approval(said: Said) -> bool:
    """Say whether a result is the desk's request for an approval."""
    try:
        body: object = json.loads(said.text)
    except ValueError:
        return False
    error = cast("JsonObject", body).get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and cast("JsonObject", error).get("recovery") == "request_approval"


class Loop(Protocol):
    """Lets a model answer messages, calling tools in between; it appends to the messages."""

    async def __call__(self, messages: list[Message], answers: Answers) -> None:
        """Return when the model has nothing more to call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BareLoop:
    """An agent that is one of these loops."""

    loop: Loop
    answers: Answers
    messages: list[Message] = field(default_factory=list[Message])

    async def say(self, text: str) -> None:
        """Begin a turn and run until the model has nothing more to call."""
        self.messages.append({"role": "user", "content": text})
        await self.loop(self.messages, self.answers)

    async def time_passed(self) -> None:
        """Do nothing: nothing waits."""


@asynccontextmanager
async def bare_chat(scene: Scene) -> AsyncIterator[Agent]:
    """Open a loop over chat completions."""
    client, tools = ChatClient(scene.thinking([])), await scene.desk.functions()

    async def loop(messages: list[Message], answers: Answers) -> None:
        await chat_loop(client, messages, answers)

    yield BareLoop(loop=loop, answers=asking(tools, scene.person))


@asynccontextmanager
async def bare_messages(scene: Scene) -> AsyncIterator[Agent]:
    """Open a loop over Anthropic messages."""
    client, tools = MessagesClient(scene.thinking([])), await scene.desk.functions()

    async def loop(messages: list[Message], answers: Answers) -> None:
        await messages_loop(client, messages, answers)

    yield BareLoop(loop=loop, answers=asking(tools, scene.person))
