"""What a flow may ask for around programs: judge by the author's rule, run a tool, wait. Nothing is performed here.

A flow is the outer half of a call: it orders transactions (programs, see effects.py) and the things that may take long
and are never done under a lock. Written once; `perform.py` has the sync and the async driver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar, cast

from forbear.contract import Raw, Trail
from forbear.core.policy import Arguments, ToolPolicy
from forbear.core.values import RuleVerdict
from forbear.runtime.effects import Program
from forbear.runtime.reply import Attempt, Reply

T = TypeVar("T")

# Called with keyword arguments; the result, or an awaitable of it.
Executor = Callable[..., object]
Signals = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Transact:
    """Run a program under the lock of its tree (None = it enters no tree)."""

    program: Program[object]
    root: str | None


@dataclass(frozen=True, slots=True)
class Judge:
    """Evaluate the author's approval rule."""

    policy: ToolPolicy
    arguments: Arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Perform:
    """Run the tool of an open attempt."""

    attempt: Attempt
    executor: Executor
    signals: Signals = ()
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for an instant."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for the reply of an attempt that somebody else in this process runs."""

    reply: Future[Reply]


Step = Transact | Judge | Perform | Pause | Await
Flow = Generator[Step, object, T]


class How(StrEnum):
    """How an attempt ended in this process."""

    ANSWERED = "answered"
    # The framework's own interrupt passed through.
    SIGNAL = "signal"
    # The task that ran it was cancelled.
    CANCELLED = "cancelled"
    # An exception that is no answer (KeyboardInterrupt, SystemExit, GeneratorExit).
    LEFT = "left"
    # It was cancelled before the tool was called.
    NEVER_CALLED = "never_called"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended, with its raw result or with the exception that has to go on."""

    how: How
    raw: Raw | None = None
    error: BaseException | None = field(default=None, repr=False)
    # How far the execution came, where somebody wrote it down.
    trail: Trail | None = None


# Typed wrappers: `yield` gives back an object, a wrapper says which.


def transact(program: Program[T], root: str | None) -> Flow[T]:
    """Return the result of a program."""
    got = yield Transact(program, root)
    return cast("T", got)


def judge_by(policy: ToolPolicy, arguments: Arguments) -> Flow[RuleVerdict]:
    """Return the verdict of the author's rule."""
    got = yield Judge(policy, arguments)
    assert isinstance(got, RuleVerdict)
    return got


def perform(step: Perform) -> Flow[Ended]:
    """Return how the attempt ended."""
    got = yield step
    assert isinstance(got, Ended)
    return got


def wait_for(reply: Future[Reply]) -> Flow[Reply]:
    """Return the reply of an attempt that somebody else runs."""
    got = yield Await(reply)
    assert isinstance(got, Reply)
    return got
