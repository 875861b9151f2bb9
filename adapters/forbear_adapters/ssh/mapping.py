"""Build the command line of ssh, and read what its marks say. Pure except for reading the marks; no text of ssh is read.

ssh exits with 255 for every failure of its own, and so may the remote command. Two marks that ssh makes by itself tell
them apart: `LocalCommand` runs when the session is about to open, `KnownHostsCommand` when the host key is looked up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forbear.contract import Process
from forbear.errors import UsageError

__all__ = ["Target", "argv", "end_of", "offered"]

_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:-]{0,253})", re.ASCII)
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_KEY: Final = re.compile(r"HOSTNAME ([a-z0-9@.-]{1,64}) ([A-Za-z0-9+/=]{1,4096})", re.ASCII)
_FAILED: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a command runs. Everything here is the author's; nothing of it is the model's to choose.

    Raises:
        UsageError: host or user is none.
    """

    host: str
    port: int = 22
    user: str | None = None
    # Private key; None = what the user's configuration and agent offer.
    identity: Path | None = None
    known_hosts: Path = Path("~/.ssh/known_hosts")
    # Configuration of ssh; None = the user's own, "none" = none at all.
    config: str | None = None

    def __post_init__(self) -> None:
        if _HOST.fullmatch(self.host) is None:
            raise UsageError("ssh: 'host' must be a name or an address")
        if self.user is not None and _USER.fullmatch(self.user) is None:
            raise UsageError("ssh: 'user' must be a user's name")

    @property
    def entry(self) -> str:
        """Return the name under which known_hosts lists the host."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


def argv(target: Target, command: str, marks: Path) -> list[str]:
    """Return the command line: no prompt, no shared connection, strict host keys, and both marks.

    Args:
        target: Where the command runs.
        command: The remote shell's command line.
        marks: An empty folder of this process, with a name that a shell leaves as it is.
    """
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(target.known_hosts.expanduser()),
        "GlobalKnownHostsFile": "none",
        # A shared connection opens sessions without a mark.
        "ControlMaster": "no",
        "ControlPath": "none",
        "PermitLocalCommand": "yes",
        "LocalCommand": f": > {marks}/session",
        "KnownHostsCommand": f'/bin/sh -c "echo %I %t %K >> {marks}/offered"',
    }
    line = ["ssh", "-T", "-n", "-p", str(target.port)]
    if target.config is not None:
        line += ["-F", target.config]
    if target.identity is not None:
        line += ["-i", str(target.identity), "-o", "IdentitiesOnly=yes"]
    if target.user is not None:
        line += ["-l", target.user]
    for name, value in options.items():
        line += ["-o", f"{name}={value}"]
    return [*line, "--", target.host, command]


def offered(marks: Path) -> tuple[str, str] | None:
    """Return type and key that the host offered, or None where it came to no key."""
    try:
        lines = (marks / "offered").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    found = [matched.groups() for line in lines if (matched := _KEY.fullmatch(line.strip())) is not None]
    return (found[-1][0], found[-1][1]) if found else None


def end_of(
    returncode: int | None, marks: Path, *, accepted: bool | None, output: bytes, timed_out: bool = False
) -> Process:
    """Return how a command over ssh ended.

    Args:
        returncode: ssh's own; negative = a signal ended ssh; None = it did not end.
        marks: The folder of the marks.
        accepted: The host offered a known key; None = not known.
        output: What the command printed as its result.
        timed_out: ssh was stopped because the time was over.
    """
    session = (marks / "session").exists()
    return Process(
        exit_status=returncode if returncode is not None and returncode >= 0 else None,
        signal=-returncode if returncode is not None and returncode < 0 and not timed_out else None,
        timed_out=timed_out,
        carrier=True,
        session=session,
        identity_accepted=None if session else accepted,
        output=output if returncode is not None and 0 <= returncode < _FAILED else b"",
    )
