"""Running the journeys: every one with each of its models, on both sides, on a few desks at once.

What a journey is, what is counted and how it is printed live elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from examples.paper_trading.agent import Agent, Bare, Person, Shown, Think, bare_graph, model_node
from examples.paper_trading.counts import Counts, count
from examples.paper_trading.desk import Desk
from examples.paper_trading.governed import governed_agent
from examples.paper_trading.journeys import Journey
from examples.paper_trading.models import Habit, ScriptedModel
from examples.paper_trading.world import World

DESKS = 2
"""Server processes at work at the same time; each has a world of its own."""


class Side(StrEnum):
    """Whether forbear stands between the model and the desk."""

    BARE = "bare"
    GOVERNED = "forbear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """One run to be made: a journey, a model and a side."""

    journey: Journey
    habit: Habit | None
    """None: the real model that was named."""
    side: Side

    @property
    def model_name(self) -> str:
        """Return which model it is, for people."""
        return "real model" if self.habit is None else self.habit.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that was made."""

    trip: Trip
    counts: Counts


def trips(journeys: Iterable[Journey], sides: Sequence[Side], *, scripted: bool = True) -> list[Trip]:
    """Return the runs that the journeys ask for."""
    return [
        Trip(journey=journey, habit=habit, side=side)
        for journey in journeys
        for habit in (journey.habits if scripted else (None,))
        for side in sides
    ]


async def make(
    several: Sequence[Trip],
    folder: Path,
    *,
    model: BaseChatModel | None = None,
    made: Callable[[Outcome], None] = print,
) -> list[Outcome]:
    """Make the runs, in any order, and return their outcomes in the order of the runs.

    Args:
        several: The runs.
        folder: Where the worlds go.
        model: The model of the runs without a habit.
        made: Called after each run.
    """
    waiting = asyncio.Queue[int]()
    for index in range(len(several)):
        waiting.put_nowait(index)
    outcomes: dict[int, Outcome] = {}

    async def work(path: Path) -> None:
        world = World(path)
        try:
            async with Desk(path) as desk:
                while not waiting.empty():
                    index = waiting.get_nowait()
                    outcomes[index] = await run(several[index], desk, world, model=model)
                    made(outcomes[index])
        finally:
            world.close()

    async with asyncio.TaskGroup() as group:
        for number in range(min(DESKS, len(several))):
            group.create_task(work(folder / f"desk-{number}.sqlite"))
    return [outcomes[index] for index in range(len(several))]


async def run(trip: Trip, desk: Desk, world: World, *, model: BaseChatModel | None = None) -> Outcome:
    """Set the scene, let one agent try, let time pass where the journey says so, and count what is left behind."""
    journey = trip.journey
    world.reset(journey.scenario)
    desk.timeouts = journey.timeouts
    if trip.habit is not None:
        model = ScriptedModel(wishes=journey.wishes, habit=trip.habit, steps=journey.steps, at_once=journey.at_once)
    if model is None:
        raise ValueError("a run without a habit needs a model")
    shown = Shown()
    tools = await desk.tools()
    think = model_node(model, tools, world, shown, journey.steps)
    async with AGENTS[trip.side](think, tools, Person(world=world, script=journey.person)) as agent:
        await agent.say(journey.request)
        if journey.later is not None:
            world.advance(journey.later)
            await agent.time_passed()
            await agent.say("I am back. How did it go?")
    counts = count(journey, world, steps=shown.steps, leaked=shown.leaked, habit=trip.habit)
    return Outcome(trip=trip, counts=counts)


@asynccontextmanager
async def bare_agent(think: Think, tools: list[BaseTool], person: Person) -> AsyncIterator[Agent]:
    """Open an agent without forbear."""
    yield Bare(graph=bare_graph(think, tools, person))


AGENTS: Mapping[Side, Callable[[Think, list[BaseTool], Person], AbstractAsyncContextManager[Agent]]] = {
    Side.BARE: bare_agent,
    Side.GOVERNED: governed_agent,
}
"""How an agent of each side is opened for one run."""
