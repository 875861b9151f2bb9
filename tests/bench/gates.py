"""What must hold whatever the machine does: no cyclic garbage, no disk call on the event loop, no framework imported."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

from forbear import Controller
from tests.bench.rows import alook_up, look_up

CALLS = 300
FRAMEWORKS = (
    "langgraph",
    "langchain",
    "langchain_core",
    "mcp",
    "fastmcp",
    "openai",
    "httpx",
    "requests",
    "rich",
    "typer",
)


def cyclic_garbage() -> int:
    """Return the objects that only the cycle collector can free after succeeding reads, sync and async."""
    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("look_up", effect="read")
        numbers = count(1)

        def read() -> None:
            controller.call("look_up", {"key": next(numbers)}, run="r", execute=look_up)

        async def several() -> None:
            for _ in range(CALLS):
                await controller.acall("look_up", {"key": next(numbers)}, run="a", execute=alook_up)

        for _ in range(CALLS):
            read()
        gc.collect()
        gc.disable()
        try:
            for _ in range(CALLS):
                read()
            left = gc.collect()
            asyncio.run(several())
            gc.collect()
            # A loop of its own leaves cycles behind; what the calls leave is what a longer loop leaves more.
            asyncio.run(several())
            first = gc.collect()
            asyncio.run(_twice(several))
            return left + max(0, gc.collect() - first)
        finally:
            gc.enable()


async def _twice(several: Callable[[], Awaitable[None]]) -> None:
    await several()
    await several()


def synced_on_loop(folder: Path) -> list[str]:
    """Return the synced disk calls that the event loop's thread made while writes and reads were governed."""
    seen: list[str] = []
    loop_thread = threading.get_ident()
    watched = {"os.fsync", "os.fdatasync"}

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in watched and threading.get_ident() == loop_thread and active:
            seen.append(event)

    active = False
    sys.addaudithook(hook)

    async def calls(controller: Controller) -> None:
        for number in range(50):
            await controller.acall("write", {"key": number}, run="r", execute=alook_up)
            await controller.acall("look_up", {"key": number}, run="r", execute=alook_up)

    with Controller.open(folder / "gate.db") as controller:
        controller.declare("look_up", effect="read")
        controller.declare("write", effect="write", target="key")
        active = True
        asyncio.run(calls(controller))
        active = False
    return seen


def imported_frameworks() -> list[str]:
    """Return the frameworks that `import forbear` and a first call load, in a fresh process."""
    code = (
        "import sys\n"
        "from forbear import Controller\n"
        "c = Controller.open(':memory:')\n"
        "c.call('t', {}, run='r', execute=lambda: 1)\n"
        "c.close()\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return sorted(set(FRAMEWORKS) & set(names))
