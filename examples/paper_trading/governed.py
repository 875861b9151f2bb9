"""The same agent under forbear: the same graph, with `RecoveryToolNode` where `ToolNode` was, and a policy.

The policy of most tools is in `policy.toml`; orders, cancellations and withdrawals are here, because their targets are
functions: a model that rewords spells a symbol or a number in many ways, and the desk takes them all for the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command

from examples.paper_trading.agent import Agent, Graph, Person, Scene, Think
from examples.paper_trading.langchain_tools import langchain_tools
from examples.paper_trading.world import JsonObject, World
from forbear import Controller
from forbear.observe import Observer
from forbear_adapters.langgraph import RecoveryToolNode, adeliver_ready, recovery_condition

POLICY = Path(__file__).with_name("policy.toml")
ORDERS = {"place_order": "symbol", "submit_order": "ticker", "buy_shares": "symbol"}
"""The desk's three names for one thing, and the argument that says what is bought."""


@dataclass(frozen=True, slots=True)
class DeskClock:
    """The desk's own clock: a controller that waits lets the desk's time pass."""

    world: World

    def now(self) -> datetime:
        """Return the desk's time."""
        return self.world.now

    def sleep(self, seconds: float) -> None:
        """Let the desk's time pass."""
        self.world.advance(timedelta(seconds=seconds))

    async def asleep(self, seconds: float) -> None:
        """Let the desk's time pass."""
        self.sleep(seconds)


def declare(controller: Controller) -> None:
    """Declare what the desk's tools do."""
    controller.declare_from(POLICY)
    for name, argument in ORDERS.items():
        controller.declare(
            name,
            effect="write",
            repeatable=False,
            trust="remote",
            speaks_contract=True,
            operation="orders.place",
            target=_spelt_alike(argument),
            ignore=["note"],
            quota="desk.orders",
            constraints={"desk_status": "operation", "instrument_status": "target"},
            shared_codes=["DAILY_ORDER_LIMIT_REACHED", "MARKET_CLOSED"],
            inspect={"tool": "find_order", "applied_if": "non_empty"},
        )
    controller.declare(
        "cancel_order",
        effect="write",
        trust="remote",
        operation="orders.cancel",
        target=_same_number("order_id"),
        ignore=["note"],
        text_rules=[{"prefix": "Permission denied", "recovery": "do_not_retry", "code": "ACCESS_DENIED"}],
    )
    controller.declare("request_withdrawal", **withdrawal())


def withdrawal() -> dict[str, object]:
    """Return what is declared about withdrawals."""
    return {
        "effect": "write",
        "repeatable": False,
        "trust": "remote",
        "speaks_contract": True,
        "operation": "withdrawals.request",
        "target": _spelt_alike("destination"),
        "ignore": ["note"],
        "constraints": {"withdrawal_approval": "operation"},
    }


def _spelt_alike(argument: str) -> Any:
    """Return the target function of an argument whose spelling does not matter to the desk."""

    def target(arguments: Mapping[str, object]) -> object:
        value = arguments.get(argument)
        return value.strip().upper() if isinstance(value, str) else None

    return target


def _same_number(argument: str) -> Any:
    """Return the target function of a number that the desk takes in any form."""

    def target(arguments: Mapping[str, object]) -> object:
        try:
            return int(float(str(arguments.get(argument))))
        except ValueError:
            return None

    return target


def governed_graph(think: Think, tools: list[BaseTool], controller: Controller) -> Graph:
    """Return the agent under forbear."""

    async def think_on_time(state: MessagesState) -> dict[str, list[BaseMessage]]:
        answer = await think(state)
        # A worker of its own does this by the real clock; here time is the desk's.
        await controller.awork()
        return answer

    graph = StateGraph(MessagesState)
    graph.add_node("model", think_on_time)
    graph.add_node("tools", RecoveryToolNode(tools, controller))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_conditional_edges("tools", recovery_condition)
    return graph.compile(checkpointer=InMemorySaver())


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """The agent under forbear, in one thread."""

    graph: Graph
    controller: Controller
    person: Person
    config: RunnableConfig

    async def say(self, text: str) -> None:
        """Begin a turn; put what became ready meanwhile into the messages; ask the person where a call needs one."""
        await adeliver_ready(self.graph, self.config, self.controller)
        state: dict[str, Any] = await self.graph.ainvoke({"messages": [HumanMessage(text)]}, self.config)
        while "__interrupt__" in state:
            answers: dict[str, object] = {}
            for interrupt in state["__interrupt__"]:
                for prompt in interrupt.value["prompts"]:
                    yes = self.person.ask(_arguments_of(state["messages"], prompt["tool_call_id"]))
                    answers[prompt["ticket"]] = {
                        "decision": "approve" if yes else "deny",
                        "fingerprint": prompt["fingerprint"],
                        "actor": "owner",
                    }
            state = await self.graph.ainvoke(Command(resume=answers), self.config)

    async def time_passed(self) -> None:
        """Do what is due on the desk's clock."""
        await self.controller.awork()


def _arguments_of(messages: list[BaseMessage], call_id: str) -> JsonObject:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                if call["id"] == call_id:
                    return call["args"]
    raise LookupError("the prompt names no call of this thread")


@asynccontextmanager
async def controller_of(world: World, *, observer: Observer | Sequence[Observer] = ()) -> AsyncIterator[Controller]:
    """Open a controller in memory, on the desk's clock, that knows the desk's tools."""
    async with Controller.open(":memory:", clock=DeskClock(world), worker=False, observer=observer) as controller:
        declare(controller)
        yield controller


@asynccontextmanager
async def governed_agent(scene: Scene) -> AsyncIterator[Agent]:
    """Open an agent under forbear, with a controller of its own."""
    tools = await langchain_tools(scene.desk)
    async with controller_of(scene.world) as controller:
        yield Governed(
            graph=governed_graph(scene.thinking(tools), tools, controller),
            controller=controller,
            person=scene.person,
            config=RunnableConfig(configurable={"thread_id": "run"}, recursion_limit=500),
        )
