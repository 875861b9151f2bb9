from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forbear.runtime.controller import Controller
from forbear.testing.clock import ManualClock, SequenceIds


class Scripted:
    """A tool that answers from a script, and the world that it changed: every call that it received."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.received: list[dict[str, object]] = []

    def __call__(self, **arguments: object) -> object:
        self.received.append(arguments)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if callable(answer):
            answer = answer(**arguments)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def count(self) -> int:
        return len(self.received)


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test moves."""
    return ManualClock()


Opener = Callable[..., Controller]


@pytest.fixture
def opened(clock: ManualClock) -> Iterator[Opener]:
    """Open controllers on one clock; all are closed at the end."""
    controllers: list[Controller] = []

    def open_one(path: str | Path | None = ":memory:", **options: Any) -> Controller:
        options.setdefault("worker", False)
        options.setdefault("ids", SequenceIds(start=1 + 10_000 * len(controllers)))
        options.setdefault("clock", clock)
        controller = Controller.open(path, **options)
        controllers.append(controller)
        return controller

    yield open_one
    for controller in controllers:
        controller.close()


@pytest.fixture
def controller(opened: Opener) -> Controller:
    """Open a controller in memory."""
    return opened()


@pytest.fixture
def scripted() -> type[Scripted]:
    """Return the class of scripted tools."""
    return Scripted
