"""The two drivers of programs. They perform effects in order under the lock of the program's tree and decide nothing.

A store call may wait for a disk or a network, so `adrive` leaves the event loop for it where the store says so; the
lock is then taken in that thread, never on the loop. Tools are not run here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from forbear.runtime.effects import Effect, Program
from forbear.runtime.live import LiveTree

T = TypeVar("T")


class World(Protocol):
    """What performs effects: the working set, or a test's version of it that dies at one of them."""

    def enter(self, root: str) -> LiveTree:
        """Return the tree with its lock held."""
        ...

    def perform(self, effect: Effect) -> object:
        """Perform one effect."""
        ...


def drive(program: Program[T], world: World, root: str) -> T:
    """Run a program to its end.

    Raises:
        StoreError: an effect failed; what was committed before it stays.
    """
    live = world.enter(root)
    try:
        answer: object = None
        while True:
            try:
                effect = program.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = world.perform(effect)
    finally:
        live.lock.release()


async def adrive(program: Program[T], world: World, root: str, threads: ThreadPoolExecutor | None) -> T:
    """Run a program to its end; in a thread where there are `threads` for it.

    A cancelled task waits for the program's end all the same, so that no commit is left half known, and then raises.
    """
    if threads is None:
        return drive(program, world, root)
    running = asyncio.get_running_loop().run_in_executor(threads, drive, program, world, root)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
