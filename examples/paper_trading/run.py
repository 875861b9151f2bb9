"""Running the journeys: every one with each of its models, on both sides, on a few desks at once.

What a journey is, what is counted and how it is printed live elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from examples.paper_trading.agent import Agent, Person, Scene, Shown, bare_agent
from examples.paper_trading.bare_loops import bare_chat, bare_messages
from examples.paper_trading.counts import Counts, count
from examples.paper_trading.desk import Desk
from examples.paper_trading.governed import governed_agent
from examples.paper_trading.journeys import Journey
from examples.paper_trading.loops import governed_chat, governed_functions, governed_messages
from examples.paper_trading.models import Habit, ScriptedModel
from examples.paper_trading.unattended import obeying_job, recovering_job, usual_job
from examples.paper_trading.world import World

DESKS = 2
"""Server processes at work at the same time; each has a world of its own."""


class Side(StrEnum):
    """Whether forbear stands between the model and the desk."""

    BARE = "bare"
    GOVERNED = "forbear"


Opener = Callable[[Scene], AbstractAsyncContextManager[Agent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One way to run an agent, without and with forbear."""

    bare: Opener
    governed: Opener
    journeys: tuple[str, ...] | None = None
    """The journeys that a program without a model can make; None: a model makes all of them."""

    @property
    def agents(self) -> Mapping[Side, Opener]:
        """Return how an agent of each side is opened for one run."""
        return {Side.BARE: self.bare, Side.GOVERNED: self.governed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """One run to be made: a journey, a model, a side and a loop."""

    journey: Journey
    habit: Habit | None
    """None: the real model that was named."""
    side: Side
    loop: str = "langgraph"

    @property
    def model_name(self) -> str:
        """Return which model it is, for people."""
        if LOOPS[self.loop].journeys is not None:
            return "no model"
        return "real model" if self.habit is None else self.habit.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that was made."""

    trip: Trip
    counts: Counts


def trips(
    journeys: Iterable[Journey], sides: Sequence[Side], *, scripted: bool = True, loop: str = "langgraph"
) -> list[Trip]:
    """Return the runs that the journeys ask for; a program without a model makes each of its journeys once."""
    own = LOOPS[loop].journeys
    return [
        Trip(journey=journey, habit=habit, side=side, loop=loop)
        for journey in journeys
        if own is None or journey.name in own
        for habit in ((Habit.BEHAVE,) if own is not None else journey.habits if scripted else (None,))
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
    person = Person(world=world, script=journey.person)
    scene = Scene(desk=desk, world=world, journey=journey, model=model, person=person, shown=shown)
    async with LOOPS[trip.loop].agents[trip.side](scene) as agent:
        await agent.say(journey.request)
        if journey.later is not None:
            world.advance(journey.later)
            await agent.time_passed()
            await agent.say("I am back. How did it go?")
    counts = count(journey, world, steps=shown.steps, leaked=shown.leaked, habit=trip.habit)
    return Outcome(trip=trip, counts=counts)


CODE_JOURNEYS = ("owner_freeze", "daily_limit", "silent_commit", "unavailable_read")
"""What a program without a model runs into: the other journeys are about models and persons."""

LOOPS: Mapping[str, Loop] = {
    "langgraph": Loop(bare=bare_agent, governed=governed_agent),
    "openai-chat": Loop(bare=bare_chat, governed=governed_chat),
    "anthropic": Loop(bare=bare_messages, governed=governed_messages),
    "govern": Loop(bare=bare_chat, governed=governed_functions),
    "tenacity": Loop(bare=usual_job, governed=recovering_job, journeys=CODE_JOURNEYS),
    "next-step": Loop(bare=usual_job, governed=obeying_job, journeys=CODE_JOURNEYS),
}
"""The ways to run an agent on the desk, each bare and under forbear."""
