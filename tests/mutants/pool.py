"""A process for each piece of work, forked from this one, so many at a time. What is done in them does not live here."""

from __future__ import annotations

import gc
import os
import resource
import select
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

OUT_OF_TIME = "time"


def fork_each(
    work: Iterable[T], do: Callable[[T], str], jobs: int, seconds: Callable[[T], int]
) -> Iterator[tuple[T, str]]:
    """Do each piece of work in a process of its own; return what each says, in the order in which they end.

    Args:
        work: The pieces of work.
        do: What is done with each.
        jobs: How many processes at a time.
        seconds: How long a piece may keep a processor busy; whoever needs more goes round in circles.
    """
    gc.collect()
    gc.freeze()
    waiting = iter(work)
    running: dict[int, tuple[T, int]] = {}
    while True:
        while len(running) < jobs:
            piece = next(waiting, None)
            if piece is None:
                break
            reader, child = _start(piece, do, seconds(piece))
            running[reader] = (piece, child)
        if not running:
            return
        ready, _, _ = select.select(list(running), [], [])
        for reader in ready:
            piece, child = running.pop(reader)
            with os.fdopen(reader, "rb") as pipe:
                said = pipe.read().decode("utf-8")
            _, status = os.waitpid(child, 0)
            yield piece, said if status == 0 else OUT_OF_TIME


def _start(piece: T, do: Callable[[T], str], seconds: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Threads of others (a test runner's) do not go on in the child, and nothing of theirs is used there.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(writer)
        return reader, child
    try:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.write(writer, do(piece).encode("utf-8"))
        os._exit(0)
    finally:
        # Whatever happened, nothing of the parent goes on here.
        os._exit(1)
