"""The outputs on the page of the first hour, made by the command line; `python -m tests.docs.first_hour` writes them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from forbear.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "first-hour.md"
FILE = re.compile(r"^`([a-z_]+\.(?:py|toml))`:\n\n```(?:python|toml)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
# Not "console": those blocks are run without the files of their page (`transcript`).
COMMAND = re.compile(r"^```shell-session\n\$ forbear (.*)\n(?:.*\n)*?```\n", re.MULTILINE)


@contextlib.contextmanager
def project(page: str) -> Iterator[None]:
    """Make the page's files in a folder of their own, and work in it."""
    before, path = Path.cwd(), list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILE.findall(page):
            Path(folder, name).write_text(text, "utf-8")
            sys.modules.pop(name.removesuffix(".py"), None)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path
            for name, _ in FILE.findall(page):
                sys.modules.pop(name.removesuffix(".py"), None)


def printed(command: str) -> str:
    """Return what a command prints, without the white space at the ends of lines."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        main(shlex.split(command))
    return "\n".join(line.rstrip() for line in told.getvalue().splitlines())


def renewed(page: str) -> str:
    """Return the page with the output that its commands have now."""
    with project(page):
        return COMMAND.sub(lambda match: f"```shell-session\n$ forbear {match[1]}\n{printed(match[1])}\n```\n", page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
