"""The example of the adapter's page that takes three processes does in them what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "adapters" / "forbear_adapters" / "langgraph" / "README.md"


def test_a_question_is_answered_between_two_lives_of_the_program(tmp_path: Path) -> None:
    """One process asks and ends, a command answers, another process goes on and buys once."""
    found = re.search(r"^`shop\.py`:\n\n```python\n(.*?)^```\n", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "shop.py").write_text(found[1], "utf-8")
    paths = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": paths}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-W", "ignore", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    ticket = run("shop.py", "ask")
    assert re.fullmatch(r"tkt_[0-9a-f]{32}", ticket)
    assert run("shop.py", "resume") == "still waits"
    waiting = run("-m", "forbear.cli", "pending", "--json", "--store", "forbear.db")
    fingerprint = re.search(r'"fingerprint": "([0-9a-f]+)"', waiting)
    assert fingerprint is not None
    answer = ("approve", ticket, "--yes", "--fingerprint", fingerprint[1], "--store", "forbear.db")
    assert run("-m", "forbear.cli", *answer).startswith("approved: place_order may start once, before ")
    assert run("shop.py", "resume") == "bought ACME"
