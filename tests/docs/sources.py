"""Pieces of the examples' code on pages; `python -m tests.docs.sources PAGE` writes them.

A page says ``<!-- source: FILE PIECE -->`` before a block; the file marks the piece by ``# docs: PIECE`` and ``# docs: end``.
Pieces are run by the tests of the example, and are no Python of their own: their blocks are fenced as ``py``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- source: (\S+) (\S+) -->\n```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def piece(file: str, name: str) -> str:
    """Return a marked piece of a file."""
    text = (TOP / file).read_text("utf-8")
    (found,) = re.findall(rf"^# docs: {name}\n(.*?)^# docs: end$", text, re.MULTILINE | re.DOTALL)
    return f"{str(found).strip()}\n"


def renewed(page: str) -> str:
    """Return a page with the pieces as they are now."""
    return BLOCK.sub(lambda at: f"<!-- source: {at[1]} {at[2]} -->\n```py\n{piece(at[1], at[2])}```", page)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument)
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
