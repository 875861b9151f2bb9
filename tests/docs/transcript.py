"""Console blocks of a page are what the real command line prints; `python -m tests.docs.transcript PAGE` writes them.

Python blocks run in between, as a reader runs them. Ids, instants and lengths of time differ from run to run: they are
compared by their place. ``python -m examples.…`` is run in a process of its own. `TICKET[kind]` and `REQUEST[kind]` in a command of a new page are replaced by what waits there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

from forbear import Operator
from forbear.cli import main

TOP = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b(?:(?:tkt|act|fbo)_)?[0-9a-f]{32}\b")
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: UTC|Z)?")
SPAN = re.compile(r"\b\d+ (?:d|h|min|s)(?: \d+ (?:h|min|s))?(?= |,|\)|$)", re.MULTILINE)
NAMED = re.compile(r"(TICKET|REQUEST)\[(\w+)\]")


class Keyboard:
    """Answers every question with yes, and shows what it types."""

    def __init__(self, screen: io.StringIO) -> None:
        self.screen = screen

    def isatty(self) -> bool:
        """Say that a person is there."""
        return True

    def readline(self, _size: int | None = -1, /) -> str:
        """Type a yes."""
        self.screen.write("y\n")
        return "y\n"


@dataclass
class Session:
    """One reader at one shell."""

    names: dict[str, object] = field(default_factory=dict[str, object])
    # Ids of the page -> ids of this run.
    ids: dict[str, str] = field(default_factory=dict[str, str])
    # Ids by kind, as they were when they waited.
    seen: dict[str, str] = field(default_factory=dict[str, str])

    def shell(self, command: str) -> str:
        """Run one command line and return the screen after it."""
        words = shlex.split(command)
        if words[0] == "export":
            for word in words[1:]:
                name, _, value = word.partition("=")
                os.environ[name] = value
                if name == "FORBEAR_STORE":
                    # What waits there is named anew.
                    self.seen.clear()
            return ""
        link_examples()
        if words[0] == "python":
            return run_example(words[1:])
        assert words[0] == "forbear", command
        words = [re.sub("^mcp:python ", f"mcp:{sys.executable} ", word) for word in words]
        screen = io.StringIO()
        keyboard, sys.stdin = sys.stdin, cast("TextIO", Keyboard(screen))
        try:
            with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
                main(words[1:])
        finally:
            sys.stdin = keyboard
        return screen.getvalue()

    def console(self, block: str) -> str:
        """Run the commands of a console block and return the block as it is now."""
        parts = block.removeprefix("$ ").split("\n$ ")
        written: list[str] = []
        for part in parts:
            command, _, before = part.rstrip("\n").partition("\n")
            command = self.named(command)
            after = self.shell(command).rstrip("\n")
            self.ids.update(zip(ID.findall(before), ID.findall(after), strict=False))
            written.append(f"$ {command}\n{after}".rstrip("\n"))
        return "\n".join(written) + "\n"

    def named(self, command: str) -> str:
        """Replace names, and ids of the page, in a command by the ids that they stand for in this run."""
        store = os.environ.get("FORBEAR_STORE")
        if store is None or not Path(store).exists():
            return command
        with Operator(store) as operator:
            waiting = operator.pending()
            calls = {one.ticket for one in waiting if one.kind != "hold"}
            for one in waiting:
                # A hold that goes with a call is named by the call.
                if one.kind == "hold" and one.ticket in calls:
                    continue
                self.seen.setdefault(f"TICKET[{one.kind}]", one.ticket)
                self.seen.setdefault(f"REQUEST[{one.kind}]", one.request_id)
        command = NAMED.sub(lambda found: self.seen[found[0]], command)
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), command)


def link_examples() -> None:
    """Let ``examples`` be found in the current folder, as it is on a clone."""
    here = Path("examples")
    if not here.exists():
        here.symlink_to(TOP / "examples")


def run_example(arguments: list[str]) -> str:
    """Run a Python command in a process of its own and return what it prints, without white space at the ends of lines."""
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    return "\n".join(line.rstrip() for line in (done.stdout + done.stderr).strip("\n").splitlines()) + "\n"


def alike(text: str) -> str:
    """Return a page with everything that differs from run to run replaced by its place."""
    order: dict[str, str] = {}
    text = ID.sub(lambda found: order.setdefault(found[0], f"id{len(order)}"), text)
    return SPAN.sub("SPAN", INSTANT.sub("INSTANT", text))


def written(page: str) -> str:
    """Return a page with its console blocks as they are now; its Python is run, in the current folder."""
    session = Session()

    def block(found: re.Match[str]) -> str:
        if found[1] == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(found[2], "<page>", "exec"), session.names)  # noqa: S102 - the page's own example
            return found[0]
        return f"```console\n{session.console(found[2])}```"

    return BLOCK.sub(block, page)


def rewrite(path: Path) -> None:
    """Write a page again, in a folder of its own and without the caller's store or token."""
    page = path.read_text("utf-8")
    here = Path.cwd()
    os.environ["COLUMNS"] = "80"
    os.environ.pop("FORBEAR_STORE", None)
    os.environ.pop("FORBEAR_TOKEN", None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            new = written(page)
        finally:
            os.chdir(here)
    path.write_text(new, "utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
