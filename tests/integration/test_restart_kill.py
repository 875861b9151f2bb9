"""`kill -9` of a real agent process: what it had decided stands, what ran is not repeated, what waits is done once."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from forbear import Answer, Controller, Operator
from forbear.runtime.clock import SystemClock

AGENT = Path(__file__).with_name("restart_agent.py")


class LaterClock(SystemClock):
    """The real clock, moved forward: nobody waits for a retry in a test."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()

    def now(self) -> Any:
        return super().now() + self.ahead


@pytest.fixture
def killed(tmp_path: Any) -> Any:
    """Kill the agent in the middle of a write, and return its store and what its tools received."""
    path, received = tmp_path / "forbear.db", tmp_path / "received"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    agent = subprocess.Popen(
        [sys.executable, str(AGENT), str(path), str(received)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert agent.stdout is not None
    assert agent.stdin is not None
    assert agent.stdout.readline() == b"ready\n"
    agent.send_signal(signal.SIGKILL)
    assert agent.wait(30) == -signal.SIGKILL
    agent.stdin.close()
    agent.stdout.close()
    assert received.read_text() == "send\nship\npost\n"
    return path


@pytest.fixture
def agent_module() -> Any:
    """Return the module of the killed agent."""
    spec = importlib.util.spec_from_file_location("restart_agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clock() -> Any:
    """Return a clock that can be moved."""
    return LaterClock()


@pytest.fixture
def heir(killed: Any, agent_module: Any, clock: Any) -> Any:
    """The agent, started again on the store of the killed process."""
    with Controller.open(killed, worker=False, clock=clock) as controller:
        agent_module.declare(controller)
        yield controller


class World:
    """A tool of the new process, and what it received."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.received: list[dict[str, object]] = []

    def __call__(self, **arguments: object) -> object:
        self.received.append(arguments)
        return self.answers.pop(0)


def test_a_running_write_of_a_killed_process_is_unknown_and_not_repeated(heir: Any, clock: Any) -> None:
    """The write that was in flight may have happened: it is looked for, never sent again by a guess."""
    post, find = World({"id": 1}), World([{"to": "d"}])
    again = heir.call("post", {"to": "d"}, run="r", step="9", call_id="9", execute=post)
    assert (again.answer, again.envelope.code) == (Answer.BLOCKED, "OUTCOME_UNKNOWN")
    heir.bind("find", find)
    clock.ahead = timedelta(seconds=5)
    heir.work()
    assert find.received == [{"to": "d"}]
    assert post.received == []
    assert [reply.rule for reply in heir.run("r").inbox()][-1] == "unknown.inspected.applied"


def test_a_pending_retry_survives_and_runs_once_at_its_time(heir: Any, clock: Any) -> None:
    """A wait of the killed process is done by its heir, not earlier and not twice."""
    send = World({"id": 1})
    heir.bind("send", send)
    heir.bind("find", World([{"to": "d"}]))
    heir.work()
    assert send.received == []
    clock.ahead = timedelta(seconds=60)
    heir.work()
    heir.work()
    assert send.received == [{"to": "a"}]
    assert {"id": 1} in [reply.value for reply in heir.run("r").inbox()]


def test_an_open_approval_survives_and_its_grant_is_spent_once(heir: Any) -> None:
    """The prompt of the killed process can be answered; the frozen call runs once."""
    pay = World({"paid": 1})
    heir.bind("pay", pay)
    operator = Operator(heir)
    (prompt,) = [one for one in operator.pending() if one.kind == "approval"]
    operator.approve(prompt.ticket, prompt.fingerprint)
    heir.work()
    heir.work()
    assert pay.received == [{"to": "b"}]


def test_a_hold_survives(heir: Any) -> None:
    """What was refused in the killed process stays refused in the new one."""
    ship = World({"id": 1}, {"id": 2})
    assert heir.call("ship", {"to": "c", "note": 1}, run="r", execute=ship).answer is Answer.BLOCKED
    assert heir.call("ship", {"to": "x"}, run="r", execute=ship).ok
    assert ship.received == [{"to": "x"}]


def test_a_living_process_notices_a_dead_sibling(killed: Any, agent_module: Any, clock: Any) -> None:
    """The worker of a process that was open all the time takes notice of the death."""
    with Controller.open(killed, worker=False, clock=clock) as controller:
        agent_module.declare(controller)
        controller.work()
        rules = [line.rule for _, line in controller.store.journal(limit=1000)]
        assert rules.count("running.lost.write") == 1
        controller.work()
        assert [line.rule for _, line in controller.store.journal(limit=1000)].count("running.lost.write") == 1
