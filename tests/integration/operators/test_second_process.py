"""A person answers from a second process with the real command line, while the agent's process waits."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CLI = (sys.executable, "-m", "forbear.cli")


class Agent:
    """The agent's process and what it has printed."""

    def __init__(self, path: Path, received: Path) -> None:
        self.received = received
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "waiting_agent.py"), str(path), str(received)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.next()

    def next(self) -> dict[str, Any]:
        """Wait for the next line."""
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        return said

    @property
    def paid(self) -> list[str]:
        """Return what the tool received."""
        return self.received.read_text("utf-8").splitlines() if self.received.exists() else []

    def stop(self) -> None:
        """Let it end by itself."""
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is."""
    return tmp_path / "forbear.db"


@pytest.fixture
def agent(path: Path, tmp_path: Path) -> Iterator[Agent]:
    """Start an agent that waits for an approval."""
    started = Agent(path, tmp_path / "received")
    yield started
    started.stop()


Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(path: Path) -> Cli:
    """Return a function that runs the command line on the store."""

    def run(*arguments: str, code: int = 0, token: str = "") -> subprocess.CompletedProcess[str]:
        named = {**os.environ, "FORBEAR_STORE": str(path), "FORBEAR_TOKEN": token}
        done = subprocess.run(
            [*CLI, *arguments], capture_output=True, text=True, env=named, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def prompt(cli: Cli) -> dict[str, Any]:
    """Return the open prompt as scripts see it."""
    found: list[dict[str, Any]] = json.loads(cli("pending", "--kind", "approval", "--json").stdout)
    assert len(found) == 1
    return found[0]


def test_an_approval_from_the_command_line_runs_exactly_the_shown_call_once(agent: Agent, cli: Cli) -> None:
    """The waiting process runs what the person saw, once, and the run gets the result."""
    asked = prompt(cli)
    assert asked["ticket"] == agent.first["ticket"]
    assert [(one["name"], one["type"], one["text"]) for one in asked["arguments"]] == [
        ("amount", "number", "25"),
        ("to", "text", "acct 7"),
    ]
    done = cli("approve", asked["ticket"], "--yes", "--fingerprint", asked["fingerprint"])
    assert done.stdout.startswith("approved: pay may start once")
    assert agent.next() == {"ready": "executed", "code": "", "outcome": "success", "value": {"paid": 25}}
    assert agent.paid == ["acct 7 25"]
    again = cli("approve", asked["ticket"], "--yes", "--fingerprint", asked["fingerprint"], code=2)
    assert "is not that of an open prompt" in again.stderr
    said = cli("explain", agent.first["request_id"]).stdout
    assert "approved exactly this call." in said
    assert "Attempt 1 completed." in said
    assert "acct 7" not in said


def test_a_prompt_about_another_call_is_refused(agent: Agent, cli: Cli) -> None:
    """A fingerprint that is not that of the prompt answers nothing."""
    asked = prompt(cli)
    for verb in ("approve", "deny", "revise"):
        refused = cli(verb, asked["ticket"], "--yes", "--fingerprint", "0" * 32, code=2)
        assert refused.stderr.splitlines()[-1] == (
            "forbear: --fingerprint: the prompt is about another call; nothing was answered"
        )
    assert prompt(cli) == asked
    assert agent.paid == []


def test_a_no_from_the_command_line_reaches_the_waiting_process(agent: Agent, cli: Cli) -> None:
    """The run is told that a person said no, and nothing ran."""
    cli("deny", prompt(cli)["ticket"], "--yes")
    assert agent.next()["code"] == "USER_DENIED"
    assert agent.paid == []


def test_an_edited_call_runs_instead(agent: Agent, cli: Cli) -> None:
    """What the person wrote runs; arguments that they did not name stay as they were."""
    asked = prompt(cli)
    cli("edit", asked["ticket"], "--set", "amount=5", "--yes", "--fingerprint", asked["fingerprint"])
    assert agent.next()["value"] == {"paid": 5}
    assert agent.paid == ["acct 7 5"]


def test_with_an_operator_token_only_its_owner_answers(agent: Agent, cli: Cli) -> None:
    """After `init`, an answer without the token is refused and journalled; with it, it counts."""
    token = cli("init").stdout.strip()
    asked = prompt(cli)
    answer = ("approve", asked["ticket"], "--yes", "--fingerprint", asked["fingerprint"])
    assert "operator token" in cli(*answer, code=2).stderr
    assert "operator token" in cli(*answer, code=2, token="fbo_" + "0" * 64).stderr
    assert "has one already" in cli("init", code=2).stderr
    assert agent.paid == []
    cli(*answer, token=token)
    assert agent.next()["value"] == {"paid": 25}


def test_a_person_at_a_terminal_sees_the_call_and_is_asked(agent: Agent, cli: Cli, path: Path) -> None:
    """On a terminal the call is shown, a plain Enter approves nothing, and a yes approves it."""
    ticket = prompt(cli)["ticket"]
    code, seen = at_terminal(path, "\n", "approve", ticket)
    assert code == 1
    assert '"acct 7"' in seen
    assert "Approve exactly this call? [y/N]" in seen
    assert agent.paid == []
    code, seen = at_terminal(path, "y\n", "approve", ticket)
    assert code == 0
    assert "approved: pay may start once" in seen
    assert agent.next()["value"] == {"paid": 25}


def test_an_old_sqlite_is_one_line_and_no_traceback(agent: Agent, cli: Cli) -> None:
    """Where two processes share a store and the linked SQLite has the WAL-reset bug, the command says so in one line."""
    import sqlite3

    said = cli("pending").stderr.splitlines()
    if sqlite3.sqlite_version_info < (3, 51, 3):
        (line,) = said
        assert line.startswith("forbear: several processes use one store")
    else:
        assert said == []


def at_terminal(path: Path, typed: str, *arguments: str) -> tuple[int, str]:
    """Run the command line in a pseudo terminal, type something when it asks, and return code and screen."""
    main, side = pty.openpty()
    named = {**os.environ, "FORBEAR_STORE": str(path), "TERM": "dumb", "COLUMNS": "80"}
    process = subprocess.Popen([*CLI, *arguments], stdin=side, stdout=side, stderr=side, env=named)
    os.close(side)
    screen = b""
    typed_already = False
    try:
        while chunk := _read(main):
            screen += chunk
            if not typed_already and b"[y/N]" in screen:
                os.write(main, typed.encode())
                typed_already = True
    finally:
        os.close(main)
    return process.wait(), screen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # Linux says that the other side is closed with an error.
        return b""
