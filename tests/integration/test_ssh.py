"""Commands over a real ssh to a real sshd on loopback: what ended how, and that none of its text gets out."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from forbear import Controller
from forbear.contract import Process
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.ssh import Target, arun, run
from tests.integration.fault_server import FaultServer, closed_port, hangs, serving
from tests.integration.hostile import journal_texts, leaks, told

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
pytestmark = pytest.mark.skipif(
    not Path(SSHD).exists() or shutil.which("ssh") is None or os.geteuid() != 0,
    reason="needs OpenSSH's client and server, and a user who may start it",
)


@dataclass(frozen=True, slots=True)
class Desk:
    """A running server, and targets that meet it in different ways."""

    right: Target
    other_host_key: Target
    unknown_host_key: Target
    wrong_credentials: Target
    refused: Target


def key(folder: Path, name: str) -> Path:
    """Make a key pair."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder / name


def listed(folder: Path, name: str, port: int, public: Path | None) -> Path:
    """Write a file of known hosts."""
    path = folder / name
    path.write_text("" if public is None else f"[127.0.0.1]:{port} {' '.join(public.read_text().split()[:2])}\n")
    return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """An sshd on a free loopback port, which accepts one key."""
    folder = tmp_path_factory.mktemp("sshd")
    own, other = key(folder, "host"), key(folder, "other")
    good, bad = key(folder, "good"), key(folder, "bad")
    (folder / "authorized").write_text(good.with_suffix(".pub").read_text())
    port = closed_port()
    lines = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {own}", f"AuthorizedKeysFile {folder}/authorized",
        f"PidFile {folder}/pid", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
    ]  # fmt: skip
    (folder / "config").write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert server.stderr is not None
    for line in server.stderr:
        if "listening" in line:
            break
    right = Target(
        host="127.0.0.1",
        port=port,
        identity=good,
        known_hosts=listed(folder, "known", port, own.with_suffix(".pub")),
        config="none",
    )
    free = closed_port()
    yield Desk(
        right=right,
        other_host_key=replace(right, known_hosts=listed(folder, "changed", port, other.with_suffix(".pub"))),
        unknown_host_key=replace(right, known_hosts=listed(folder, "empty", port, None)),
        wrong_credentials=replace(right, identity=bad),
        refused=replace(right, port=free),
    )
    server.terminate()
    server.communicate()


@pytest.fixture
def controller() -> Iterator[Controller]:
    """A controller with a write and a read."""
    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as opened:
        opened.declare("write", effect="write")
        opened.declare("read", effect="read")
        yield opened


UNKNOWN, RETRY, STOP, REPAIR = "inspect_outcome", "retry_after", "do_not_retry", "repair_input"
# target, command, seconds; what is seen; class and code for a write, class for a read.
CASES: dict[str, tuple[str, str, float | None, dict[str, Any], tuple[str, str, str]]] = {
    "exit 3": ("right", "exit 3", None, {"exit_status": 3, "session": True}, (REPAIR, "TOOL_ERROR", REPAIR)),
    "no such program": ("right", "/no/such", None, {"exit_status": 127}, (REPAIR, "TOOL_ERROR", REPAIR)),
    "the command itself exits 255": (
        "right", "exit 255", None, {"exit_status": 255, "session": True}, (UNKNOWN, "OUTCOME_UNKNOWN", RETRY),
    ),
    "the command is killed": (
        "right", "kill -9 $$", None, {"exit_status": 255, "session": True}, (UNKNOWN, "OUTCOME_UNKNOWN", RETRY),
    ),
    "the connection is lost": (
        "right", "kill -9 $PPID", None, {"exit_status": 255, "session": True}, (UNKNOWN, "OUTCOME_UNKNOWN", RETRY),
    ),
    "our time is over": (
        "right", "read never < /dev/tty || exec sleep 60", 3.0, {"timed_out": True, "session": True},
        (UNKNOWN, "OUTCOME_UNKNOWN", RETRY),
    ),
    "another host key": (
        "other_host_key", "true", None, {"exit_status": 255, "session": False, "identity_accepted": False},
        (STOP, "IDENTITY_UNVERIFIED", STOP),
    ),
    "an unknown host key": (
        "unknown_host_key", "true", None, {"session": False, "identity_accepted": False},
        (STOP, "IDENTITY_UNVERIFIED", STOP),
    ),
    "credentials rejected": (
        "wrong_credentials", "true", None, {"exit_status": 255, "session": False, "identity_accepted": True},
        (RETRY, "NOT_SENT", RETRY),
    ),
    "refused": ("refused", "true", None, {"session": False, "identity_accepted": None}, (RETRY, "NOT_SENT", RETRY)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_how_a_command_ended(name: str, desk: Desk, controller: Controller) -> None:
    """Each way to end is seen without any text, has its class, and shows nothing of host, path or key."""
    which, command, seconds, seen, (for_write, code, for_read) = CASES[name]
    target = getattr(desk, which)
    ends: list[Process] = []

    def execute(**_: Any) -> object:
        ends.append(run(target, command, timeout=seconds))
        return ends[-1]

    write = controller.call("write", {}, run="r", execute=execute, wait=False)
    read = controller.call("read", {}, run="r", execute=lambda **_: ends[-1], wait=False)
    assert {field: getattr(ends[0], field) for field in seen} == seen
    assert (write.envelope.recovery, write.envelope.code) == (for_write, code)
    assert read.envelope.recovery == for_read
    assert write.envelope.executed == ("no" if code in ("NOT_SENT", "IDENTITY_UNVERIFIED", "TOOL_ERROR") else "unknown")
    details = ("127.0.0.1", str(target.port), str(target.identity), "known_hosts", "publickey", "ssh-ed25519", "SHA256")
    assert leaks([*told(write), *told(read), *journal_texts(controller)], details) == []


def test_what_a_command_printed_is_its_value(desk: Desk, controller: Controller) -> None:
    """A command that succeeds gives its stdout as the value; one that prints nothing is empty for a read."""
    reply = controller.call("read", {}, run="r", execute=lambda **_: run(desk.right, "echo 7; echo no >&2"))
    assert reply.value == b"7\n"
    assert (
        controller.call("read", {"n": 2}, run="r", execute=lambda **_: run(desk.right, "true")).envelope.outcome
        == "empty"
    )


async def test_async_is_the_same(desk: Desk) -> None:
    """The async form sees what the sync form sees."""
    assert await arun(desk.right, "exit 3") == run(desk.right, "exit 3")
    assert (await arun(desk.other_host_key, "true")).identity_accepted is False
    assert (await arun(desk.right, "sleep 60", timeout=3.0)).timed_out


def test_a_host_that_never_answers_has_opened_nothing(desk: Desk) -> None:
    """A server that accepts and says nothing is stopped in time, and nothing has run."""

    def silent(server: FaultServer, connection: socket.socket) -> None:
        hangs(server, connection)

    with serving(silent) as server:
        end = run(replace(desk.right, port=server.port), "true", timeout=2.0)
    assert (end.timed_out, end.session, end.identity_accepted) == (True, False, None)


def test_the_stop_of_ssh_by_a_signal_is_no_exit_status(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ssh ended by a signal says nothing about the command, whose session was open."""
    real = subprocess.run

    def killed(line: list[str], **options: Any) -> Any:
        if line[0] != "ssh":
            return real(line, **options)
        return real(
            ["sh", "-c", 'mark=$(printf "%s" "$0" | sed "s/.*> //"); : > "$mark"; kill -9 $$', _local(line)], **options
        )

    monkeypatch.setattr(subprocess, "run", killed)
    end = run(desk.right, "true")
    assert (end.exit_status, end.signal, end.session) == (None, signal.SIGKILL, True)


def _local(line: list[str]) -> str:
    return next(part for part in line if part.startswith("LocalCommand="))


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "$(x)", "", "x" * 300, "host\n"])
def test_a_host_is_a_name(host: str) -> None:
    """What could be an option or a command is no host."""
    from forbear.errors import UsageError

    with pytest.raises(UsageError, match="'host'") as caught:
        Target(host=host)
    assert re.search(r"Proxy|;|\$", str(caught.value)) is None
