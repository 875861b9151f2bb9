"""One conversation whose process ends after every step: ``python -m examples.paper_trading.thread SCENE``.

All that goes from one process to the next is the list of messages in ``SCENE.json``, the controller's store ``SCENE.db``
and the desk itself, in the folder ``.demo``. The loop is `loops.run_chat`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

from examples.paper_trading.agent import Shown, model_node
from examples.paper_trading.clients import ChatClient, Message
from examples.paper_trading.desk import Desk
from examples.paper_trading.governed import DeskClock, declare, withdrawal
from examples.paper_trading.journeys import SILENCE_S, order
from examples.paper_trading.loops import RUN, run_chat
from examples.paper_trading.models import STEPS, Habit, ScriptedModel, Wish
from examples.paper_trading.world import Fault, FaultKind, Scenario, World
from forbear import Controller, Next, Progress

FOLDER = Path(".demo")
PAYOUT_RULE = {"rule": "payout", "when": {"amount": {"above": 500}}, "then": "ask"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Who wants what on which morning."""

    request: str
    wish: Wish
    habit: Habit = Habit.BEHAVE
    scenario: Scenario = field(default_factory=Scenario)
    timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    on_desk_time: bool = True
    """Whether waits are on the desk's clock; what a person answers at a terminal is on the real one."""


SETTINGS: Mapping[str, Setting] = {
    "payout": Setting(
        request="Please withdraw 800 to savings.",
        wish=Wish(tool="request_withdrawal", arguments={"amount": 800, "destination": "savings"}),
        on_desk_time=False,
    ),
    "limit": Setting(
        request="Please buy 10 ACME, reference r-1.",
        wish=order("ACME", 10, "r-1"),
        scenario=Scenario(orders_today=25),
    ),
    "frozen": Setting(
        request="Please buy 10 ACME, reference r-1.",
        wish=order("ACME", 10, "r-1"),
        habit=Habit.REPEAT,
        scenario=Scenario(frozen=True),
    ),
    "silence": Setting(
        request="Please withdraw 400 to savings.",
        wish=Wish(tool="request_withdrawal", arguments={"amount": 400, "destination": "savings"}),
        scenario=Scenario(
            faults=(Fault(operation="withdrawals.request", kind=FaultKind.SILENT_AFTER_COMMIT, times=1),)
        ),
        timeouts={"request_withdrawal": SILENCE_S},
        on_desk_time=False,
    ),
}


async def step(scene: str, *, folder: Path = FOLDER, say: str | None = None, hours: float = 0.0) -> Progress:
    """Begin the conversation, or go on with it, until a person is needed or the model is done."""
    setting = SETTINGS[scene]
    thread = folder / f"{scene}.json"
    world = World(folder / f"{scene}-desk.sqlite")
    if thread.exists():
        messages: list[Message] = json.loads(thread.read_text("utf-8"))
    else:
        world.reset(setting.scenario)
        messages = [{"role": "user", "content": setting.request}]
    if say is not None:
        messages.append({"role": "user", "content": say})
    world.advance(timedelta(hours=hours))
    model = ScriptedModel(wishes=(setting.wish,), habit=setting.habit)
    client = ChatClient(model_node(model, [], world, Shown(), STEPS))
    clock = DeskClock(world) if setting.on_desk_time else None
    async with (
        Desk(world.path) as desk,
        Controller.open(folder / f"{scene}.db", clock=clock, worker=False) as controller,
    ):
        desk.timeouts = setting.timeouts
        declare(controller)
        controller.declare("request_withdrawal", **withdrawal(), approval=[PAYOUT_RULE])
        tools = await desk.functions()
        for name, tool in tools.items():
            controller.bind(name, tool)
        await controller.awork()  # what has become due since; a worker does this in a process that stays
        progress = await run_chat(client, messages, tools, controller, RUN)
    world.close()
    thread.write_text(json.dumps(progress.messages, indent=1), "utf-8")
    return progress


def told(progress: Progress) -> str:
    """Return the conversation and what is next, a line each."""
    lines = [line for message in progress.messages for line in _lines(message)]
    if progress.next is Next.MODEL:
        raise AssertionError("the loop goes on while the model is next")
    return "\n".join([*lines, f"next: {progress.next}", progress.for_user()]).strip()


def _lines(message: Message) -> list[str]:
    said = [f"{message['role']}: {message['content']}"] if message["content"] else []
    calls = cast("list[dict[str, dict[str, str]]]", message.get("tool_calls", []))
    return [*said, *(f"assistant: calls {call['function']['name']}" for call in calls)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one step and print the conversation."""
    parser = argparse.ArgumentParser(prog="python -m examples.paper_trading.thread", description=__doc__)
    parser.add_argument("scene", choices=list(SETTINGS))
    parser.add_argument("--say", metavar="TEXT", help="what the person writes next")
    parser.add_argument("--hours", type=float, default=0.0, help="let so many hours pass on the desk before")
    asked = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    progress = asyncio.run(step(asked.scene, say=asked.say, hours=asked.hours))
    print(told(progress))
    return 0


if __name__ == "__main__":
    sys.exit(main())
