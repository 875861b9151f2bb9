"""The same loops under forbear: `execute` in the place of the loop's tool half, or `govern` around the functions.

`run_chat` and `run_messages` are whole agent loops. Policy and clock are those of `governed`; who is asked, and what the
model does, is the same as in `bare_loops`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from examples.paper_trading.agent import Agent, Person, Scene
from examples.paper_trading.bare_loops import Answers, BareLoop, Said, attempted, chat_loop
from examples.paper_trading.clients import ChatClient, Message, MessagesClient
from examples.paper_trading.desk import ToolFunction
from examples.paper_trading.governed import controller_of
from examples.paper_trading.world import JsonObject
from forbear import Controller, Next, Operator, Progress, aexecute, govern, in_run

RUN = "run"
Tools = Mapping[str, ToolFunction]


# docs: chat
async def run_chat(
    client: ChatClient, messages: list[Message], tools: Tools, controller: Controller, run: str
) -> Progress:
    """Run an agent over chat completions until a person is needed, or it is done."""
    progress = await aexecute(None, messages, tools, controller, run=run)
    while progress.next is Next.MODEL:
        response = await client.chat.completions.create(model="any", messages=progress.messages)
        progress = await aexecute(response, progress.messages, tools, controller, run=run)
    return progress


# docs: end


# docs: messages
async def run_messages(
    client: MessagesClient, messages: list[Message], tools: Tools, controller: Controller, run: str
) -> Progress:
    """Run an agent over Anthropic messages until a person is needed, or it is done."""
    progress = await aexecute(None, messages, tools, controller, run=run, codec="anthropic")
    while progress.next is Next.MODEL:
        response = await client.messages.create(model="any", messages=progress.messages, max_tokens=1000)
        progress = await aexecute(response, progress.messages, tools, controller, run=run, codec="anthropic")
    return progress


# docs: end


@dataclass(slots=True, kw_only=True)
class ExecuteLoop:
    """An agent that is one of these loops. All that it keeps between two steps is its messages, as JSON text."""

    run: Callable[[list[Message]], Awaitable[Progress]]
    controller: Controller
    person: Person
    stored: str = "[]"

    async def say(self, text: str) -> None:
        """Begin a turn; where a person is needed, store the messages, ask, and go on from the stored ones."""
        progress = await self.run([*json.loads(self.stored), {"role": "user", "content": text}])
        self.stored = json.dumps(progress.messages)
        while progress.next is Next.PERSON:
            answer_prompts(self.controller, self.person)
            progress = await self.run(json.loads(self.stored))
            self.stored = json.dumps(progress.messages)

    async def time_passed(self) -> None:
        """Do what is due on the desk's clock."""
        await self.controller.awork()


def answer_prompts(controller: Controller, person: Person) -> None:
    """Show the person every open prompt, and say yes or no to exactly that call."""
    operator = Operator(controller, actor="owner")
    for prompt in operator.pending():
        if prompt.kind == "approval":
            yes = person.ask({argument.name: argument.text for argument in prompt.arguments})
            answer = operator.approve if yes else operator.deny
            answer(prompt.ticket, prompt.fingerprint)


@asynccontextmanager
async def governed_chat(scene: Scene) -> AsyncIterator[Agent]:
    """Open a loop over chat completions."""
    tools = await scene.desk.functions()
    async with controller_of(scene.world) as controller:
        client = ChatClient(scene.thinking([]), controller.awork)

        async def run(messages: list[Message]) -> Progress:
            return await run_chat(client, messages, tools, controller, RUN)

        yield ExecuteLoop(run=run, controller=controller, person=scene.person)


@asynccontextmanager
async def governed_messages(scene: Scene) -> AsyncIterator[Agent]:
    """Open a loop over Anthropic messages."""
    tools = await scene.desk.functions()
    async with controller_of(scene.world) as controller:
        client = MessagesClient(scene.thinking([]), controller.awork)

        async def run(messages: list[Message]) -> Progress:
            return await run_messages(client, messages, tools, controller, RUN)

        yield ExecuteLoop(run=run, controller=controller, person=scene.person)


# ---- govern ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedFunctions:
    """The bare loop, unchanged, over governed functions. The person is asked beside it."""

    bare: BareLoop
    controller: Controller
    turns: list[str] = field(default_factory=list[str])

    async def say(self, text: str) -> None:
        """Begin a turn and run until the model has nothing more to call."""
        self.turns.append(text)
        with in_run(RUN, turn=str(len(self.turns))):
            await self.bare.say(text)

    async def time_passed(self) -> None:
        """Do what is due on the desk's clock."""
        await self.controller.awork()


@asynccontextmanager
async def governed_functions(scene: Scene) -> AsyncIterator[Agent]:
    """Open the bare loop over chat completions with `govern` around each function."""
    async with controller_of(scene.world) as controller:
        client = ChatClient(scene.thinking([]), controller.awork)
        tools = {name: govern(tool, controller) for name, tool in (await scene.desk.functions()).items()}

        async def answer(tool: str, arguments: JsonObject) -> Said:
            said = await attempted(tools, tool, arguments)
            answer_prompts(controller, scene.person)
            await controller.awork()
            return said

        async def loop(messages: list[Message], answers: Answers) -> None:
            await chat_loop(client, messages, answers)

        yield GovernedFunctions(bare=BareLoop(loop=loop, answers=answer), controller=controller)
