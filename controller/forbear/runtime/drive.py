"""The two drivers of programs. They perform effects in order under the lock of the program's tree and decide nothing.

A store call may wait for a disk or a network, so `adrive` leaves the event loop for it where there are threads for it;
the lock is then taken in that thread, never on the loop. Tools are not run here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from forbear.runtime.effects import Effect, Program
from forbear.runtime.live import LiveTree

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class World(Protocol):
    """What performs effects: the working set, or a test's version of it that dies at one of them."""

    def enter(self, root: str) -> LiveTree:
        """Return the tree with its lock held."""
        ...

    def perform(self, effect: Effect) -> object:
        """Perform one effect."""
        ...


def drive(program: Program[T], world: World, root: str | None) -> T:
    """Run a program to its end; None = it enters no tree.

    Raises:
        StoreError: an effect failed; what was committed before it stays.
    """
    if root is None:
        return _drive(program, world)
    live = world.enter(root)
    try:
        return _drive(program, world)
    finally:
        live.lock.release()


def _drive(program: Program[T], world: World) -> T:
    answer: object = None
    try:
        while True:
            answer = world.perform(program.send(answer))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def adrive(
    program: Program[T], world: World, root: str | None, threads: ThreadPoolExecutor | None
) -> tuple[T, asyncio.CancelledError | None]:
    """Run a program to its end; in a thread where there are `threads` for it.

    Returns:
        The result, and the cancellation that arrived meanwhile: a commit is never left half known.
    """
    if threads is None:
        return drive(program, world, root), None
    running = asyncio.get_running_loop().run_in_executor(threads, drive, program, world, root)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            return await asyncio.shield(running), cancelled
        except asyncio.CancelledError as error:
            if running.cancelled():
                raise
            cancelled = error
