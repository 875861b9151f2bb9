"""Code that calls the desk by itself, without a model: retried by tenacity as usual, by `recovery()`, by the bare rules.

A refused call belongs to one call of a function here; nothing is remembered beyond it, and no person is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from examples.paper_trading.agent import Agent, Scene
from examples.paper_trading.governed import DeskClock
from examples.paper_trading.world import JsonObject
from forbear import NextStep, RecoveryPolicy, ToDo
from forbear.contract import Mcp
from forbear_adapters.tenacity import recovery

ATTEMPTS = 4
ORDER = {"effect": "write", "repeatable": False, "trust": "remote", "speaks_contract": True}
STATEMENT = {
    "effect": "read",
    "trust": "remote",
    "text_rules": [{"prefix": "503 ", "recovery": "retry_after", "code": "TEMPORARY_FAILURE"}],
}
RULES: Mapping[str, Mapping[str, object]] = {"place_order": ORDER, "download_statement": STATEMENT}
"""What the author of this code declares about the two tools that it calls."""

# One call of a tool of the desk.
Attempt = Callable[[], Awaitable[Mcp]]


class Failed(Exception):
    """The desk answered with an error."""


async def as_usual(call: Attempt, clock: DeskClock) -> None:
    """Try again after whatever went wrong, as a decorator with attempts and exponential waits does."""

    async def attempt() -> None:
        if (await call()).is_error:
            raise Failed

    retrying = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS), wait=wait_exponential(), sleep=clock.asleep, retry_error_callback=_give_up
    )
    await retrying(attempt)


def _give_up(_state: object) -> None:
    """Return nothing instead of raising: this program goes on with its next job."""


# docs: tenacity
async def with_recovery(call: Attempt, policy: RecoveryPolicy, clock: DeskClock) -> object:
    """Try again only what may be tried again, once, and not before its time; where that is not soon, say so."""
    return await AsyncRetrying(**recovery(policy), sleep=clock.asleep)(call)


# docs: end


# docs: next_step
async def by_the_rules(call: Attempt, policy: RecoveryPolicy, clock: DeskClock) -> NextStep:
    """Do what the result says, however long that takes."""
    attempt = 1
    while True:
        try:
            result: object = await call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
            result = error
        step = policy.next_step(result, attempt, clock.now())
        if step.to_do is not ToDo.RETRY_AT or step.retry_at is None:
            return step
        await clock.asleep((step.retry_at - clock.now()).total_seconds())
        attempt += 1


# docs: end


@dataclass(slots=True, kw_only=True)
class Job:
    """A program that does what it was started for, and then has nothing to say."""

    scene: Scene
    does: Callable[[str, Attempt], Awaitable[object]]
    is_done: bool = False

    async def say(self, text: str) -> None:
        """Do the job, once; `text` is read by nobody."""
        if self.is_done:
            return
        self.is_done = True
        tools = await self.scene.desk.functions()
        for wish in self.scene.journey.wishes:
            await self.does(wish.tool, _call(tools[wish.tool], wish.arguments))

    async def time_passed(self) -> None:
        """Do nothing: nothing waits."""


def _call(tool: Callable[..., Awaitable[Mcp]], arguments: JsonObject) -> Attempt:
    async def call() -> Mcp:
        return await tool(**arguments)

    return call


@asynccontextmanager
async def usual_job(scene: Scene) -> AsyncIterator[Agent]:
    """Open a job that retries as usual."""
    clock = DeskClock(scene.world)

    async def does(_tool: str, call: Attempt) -> None:
        await as_usual(call, clock)

    yield Job(scene=scene, does=does)


@asynccontextmanager
async def recovering_job(scene: Scene) -> AsyncIterator[Agent]:
    """Open a job with tenacity's `recovery()`."""
    clock = DeskClock(scene.world)

    async def does(tool: str, call: Attempt) -> object:
        return await with_recovery(call, RecoveryPolicy(clock=clock, catalogue=None, **RULES[tool]), clock)

    yield Job(scene=scene, does=does)


@asynccontextmanager
async def obeying_job(scene: Scene) -> AsyncIterator[Agent]:
    """Open a job that goes by `RecoveryPolicy.next_step`."""
    clock = DeskClock(scene.world)

    async def does(tool: str, call: Attempt) -> object:
        return await by_the_rules(call, RecoveryPolicy(clock=clock, catalogue=None, **RULES[tool]), clock)

    yield Job(scene=scene, does=does)
