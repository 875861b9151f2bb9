"""The parts that both agents share: the person, the model node, and the bare LangGraph agent.

The bare agent is what a careful application has without a recovery controller: a `StateGraph`, a `ToolNode` that hands
errors to the model, and a person who is asked whenever the desk wants an approval. Its governed twin is in `governed`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from examples.paper_trading.arguments import text_of, whole_of
from examples.paper_trading.desk import Desk
from examples.paper_trading.journeys import Journey
from examples.paper_trading.langchain_tools import langchain_tools
from examples.paper_trading.models import heard
from examples.paper_trading.replies import PLANTED
from examples.paper_trading.world import JsonObject, World

THINKING = timedelta(seconds=2)
"""Virtual time of one model step."""

Graph = CompiledStateGraph[MessagesState, None, MessagesState, MessagesState]


@dataclass(slots=True)
class Shown:
    """What the model was shown in one run."""

    steps: int = 0
    leaked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who answers from a script, and gives in where the script does."""

    world: World
    script: tuple[bool, ...]

    def ask(self, arguments: JsonObject) -> bool:
        """Ask about one withdrawal; the answer goes into the desk's own records, a yes as an approval."""
        yes = self.script[min(len(self.world.prompts()), len(self.script) - 1)]
        amount, destination = whole_of(arguments, "amount"), text_of(arguments, "destination").lower()
        self.world.person_answered(amount=amount, destination=destination, yes=yes)
        return yes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an agent is opened with for one run."""

    desk: Desk
    world: World
    journey: Journey
    model: BaseChatModel
    person: Person
    shown: Shown

    def thinking(self, tools: Sequence[BaseTool | dict[str, object]]) -> Think:
        """Return how the model of this run answers."""
        return model_node(self.model, tools, self.world, self.shown, self.journey.steps)


class Agent(Protocol):
    """An agent as the journeys use it."""

    async def say(self, text: str) -> None:
        """Begin a turn with a person's message, and run until the agent is idle."""

    async def time_passed(self) -> None:
        """Let happen what was waiting for the desk's clock, without a person or a model."""


class Think(Protocol):
    """The model's node in either graph."""

    async def __call__(self, state: MessagesState) -> dict[str, list[BaseMessage]]:
        """Return what the model says next."""
        ...


def model_node(
    model: BaseChatModel, tools: Sequence[BaseTool | dict[str, object]], world: World, shown: Shown, steps: int
) -> Think:
    """Return the model's node: it takes virtual time, and notes what the model is shown."""
    bound = model.bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        world.advance(THINKING)
        shown.steps += 1
        shown.leaked |= any(secret in str(message.content) for message in state["messages"] for secret in PLANTED)
        if _steps_this_turn(state["messages"]) > steps:
            return {"messages": [AIMessage(content="I have used up my steps.")]}
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return think


def bare_graph(think: Think, tools: list[BaseTool], person: Person) -> Graph:
    """Return the agent without forbear."""

    async def ask_where_wanted(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[object]]]
    ) -> ToolMessage | Command[object]:
        answer = await execute(request)
        if not isinstance(answer, ToolMessage) or heard(answer).recovery != "request_approval":
            return answer
        if person.ask(request.tool_call["args"]):
            return await execute(request)
        return ToolMessage(
            "The person declined. Do not ask again.", tool_call_id=request.tool_call["id"] or "", status="error"
        )

    graph = StateGraph(MessagesState)
    graph.add_node("model", think)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True, awrap_tool_call=ask_where_wanted))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """The agent without forbear, in one thread."""

    graph: Graph
    config: RunnableConfig = field(
        default_factory=lambda: RunnableConfig(configurable={"thread_id": "run"}, recursion_limit=500)
    )

    async def say(self, text: str) -> None:
        """Begin a turn and run until the model has nothing more to call."""
        await self.graph.ainvoke({"messages": [HumanMessage(text)]}, self.config)

    async def time_passed(self) -> None:
        """Do nothing: nothing waits."""


@asynccontextmanager
async def bare_agent(scene: Scene) -> AsyncIterator[Agent]:
    """Open an agent without forbear."""
    tools = await langchain_tools(scene.desk)
    yield Bare(graph=bare_graph(scene.thinking(tools), tools, scene.person))


def _steps_this_turn(messages: Sequence[BaseMessage]) -> int:
    turn = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    return sum(isinstance(message, AIMessage) for message in messages[turn + 1 :])
