"""Run OpenSSH and say how it ended. Nothing is judged here, and nothing that ssh prints on stderr is kept.

A tool returns what `run` returns; the controller reads it. A program that is missing is one that did not start.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forbear.contract import Process, mark
from forbear_adapters.ssh.mapping import Target, argv, end_of, offered

__all__ = ["arun", "run"]

# Looking a key up in a file takes no connection.
_LOOKUP_FOR: Final = 10.0


@contextmanager
def _marks() -> Generator[Path]:
    """Give a folder for the marks, readable by nobody else and gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="forbear-ssh-") as folder:
        yield Path(folder)


def _accepted(target: Target, marks: Path) -> bool | None:
    """Tell whether the key that the host offered is listed for it; None where it offered none."""
    key = offered(marks)
    if key is None:
        return None
    line = ["ssh-keygen", "-F", target.entry, "-f", str(target.known_hosts.expanduser())]
    try:
        listed = subprocess.run(line, capture_output=True, check=False, timeout=_LOOKUP_FOR).stdout  # noqa: S603 - a list, without a shell
    except (OSError, subprocess.TimeoutExpired):
        return None
    entries = [entry.split() for entry in listed.decode("utf-8", "replace").splitlines()]
    if any(entry[:1] and entry[0].startswith("@") for entry in entries):
        # Signed by an authority, or revoked: this list does not say which key is the right one.
        return None
    return any(tuple(entry[1:3]) == key for entry in entries)


def _end(target: Target, marks: Path, returncode: int | None, output: bytes, *, timed_out: bool) -> Process:
    opened = (marks / "session").exists()
    accepted = None if opened else _accepted(target, marks)
    if opened:
        mark("request_sent")
        if returncode is not None and returncode != 255 and not timed_out:
            mark("response_received")
    return end_of(returncode, marks, accepted=accepted, output=output, timed_out=timed_out)


def run(target: Target, command: str, *, timeout: float | None = None) -> Process:
    """Run a command on a host and return how it ended.

    Args:
        target: Where; its fields are the author's.
        command: A command line for the remote shell.
        timeout: Seconds after which ssh is stopped; the remote command may go on.
    """
    with _marks() as marks:
        mark("connection_started")
        try:
            ended = subprocess.run(  # noqa: S603 - a list, without a shell
                argv(target, command, marks),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return _end(target, marks, None, b"", timed_out=True)
        except OSError:
            return Process(started=False, carrier=True)
        return _end(target, marks, ended.returncode, ended.stdout, timed_out=False)


async def arun(target: Target, command: str, *, timeout: float | None = None) -> Process:  # noqa: ASYNC109 - it says more than a cancellation
    """Do what `run` does, in a task; where the task is cancelled, ssh is stopped."""
    with _marks() as marks:
        mark("connection_started")
        try:
            started = await asyncio.create_subprocess_exec(
                *argv(target, command, marks),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return Process(started=False, carrier=True)
        try:
            output, _ = await asyncio.wait_for(started.communicate(), timeout)
        except TimeoutError:
            return await asyncio.to_thread(_end, target, marks, None, b"", timed_out=True)
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()
        return await asyncio.to_thread(_end, target, marks, started.returncode, output, timed_out=False)
