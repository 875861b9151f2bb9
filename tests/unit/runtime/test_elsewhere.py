"""What another process does to a run reaches this one: through the inbox always, and through `on_ready`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forbear.errors import Refused
from forbear.runtime.clock import SystemClock
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.runtime.reply import Reply
from forbear.testing.clock import ManualClock

Opener = Callable[..., Controller]
Script = Callable[..., Callable[..., object]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is."""
    return tmp_path / "forbear.db"


def declare(controller: Controller) -> None:
    """Declare a gated write and a plain one."""
    controller.declare("pay", effect="write", target="to", approval="always")
    controller.declare("send", effect="write", target="to")


def test_a_no_given_elsewhere_reaches_on_ready_once(opened: Opener, path: Path, scripted: Script) -> None:
    """The agent's process is called about the denial in its next pass, once, and it is in the inbox all the same."""
    heard: list[Reply] = []
    agent = opened(path, on_ready=heard.append)
    declare(agent)
    agent.call("pay", {"to": "a"}, run="r", execute=scripted(1))
    operator = Operator(opened(path))
    (prompt,) = operator.pending()
    operator.deny(prompt.ticket, prompt.fingerprint)
    assert heard == []
    agent.work()
    agent.work()
    assert [reply.envelope.code for reply in heard] == ["USER_DENIED"]
    assert [reply.envelope.code for reply in agent.run("r").inbox()] == ["USER_DENIED"]


def test_what_another_worker_ran_reaches_on_ready(
    opened: Opener, path: Path, clock: ManualClock, scripted: Script
) -> None:
    """A retry that another process made is told here with its recorded result."""
    heard: list[Reply] = []
    agent = opened(path, on_ready=heard.append)
    declare(agent)
    later = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
    agent.call("send", {"to": "a"}, run="r", execute=scripted(later))
    other = opened(path)
    declare(other)
    other.bind("send", scripted({"sent": 1}))
    due = other.next_due_at
    assert due is not None
    clock.set(due)
    assert [reply.value for reply in other.work()] == [{"sent": 1}]
    agent.work()
    assert [reply.value for reply in heard] == [{"sent": 1}]


def test_what_was_ready_before_is_in_the_inbox_alone(opened: Opener, path: Path, scripted: Script) -> None:
    """A process that comes later is not called about what became ready before it came."""
    agent = opened(path)
    declare(agent)
    agent.call("pay", {"to": "a"}, run="r", execute=scripted(1))
    operator = Operator(opened(path))
    (prompt,) = operator.pending()
    operator.deny(prompt.ticket, prompt.fingerprint)
    heard: list[Reply] = []
    later = opened(path, on_ready=heard.append)
    declare(later)
    later.call("send", {"to": "b"}, run="r", execute=scripted(1))
    later.work()
    assert heard == []
    assert [reply.envelope.code for reply in later.run("r").inbox()] == ["USER_DENIED"]


def test_the_embedded_worker_hears_of_a_verdict_that_nothing_is_scheduled_for(
    opened: Opener, path: Path, scripted: Script
) -> None:
    """An unknown outcome without a check waits for a person alone; the worker looks for the answer all the same."""
    import queue

    heard: queue.Queue[Reply] = queue.Queue()
    agent = opened(path, on_ready=heard.put, worker=True, clock=SystemClock())
    declare(agent)
    agent.call("send", {"to": "a"}, run="r", execute=scripted(TimeoutError()))
    assert agent.next_due_at is None
    operator = Operator(opened(path, clock=SystemClock()))
    unknown = next(one for one in operator.pending() if one.kind == "unknown")
    operator.resolve(unknown.ticket, "applied")
    assert heard.get(timeout=60).envelope.outcome == "already_satisfied"
