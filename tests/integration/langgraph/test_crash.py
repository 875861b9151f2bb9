"""A process that is killed after the write, in every durability mode, and two processes that resume one pause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.langgraph.crashing import MODES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the crashing program once."""
    folder = tmp_path_factory.mktemp("crash")
    program = [sys.executable, "-m", "tests.integration.langgraph.crashing", str(folder / "lives")]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_write_is_never_repeated(report: dict[str, Any], mode: str) -> None:
    """Bare: kill -9 after the write, start again: the write is there twice. Ours: once, and the model is told "unknown"."""
    bare, governed = report[f"bare {mode}"], report[f"governed {mode}"]
    assert bare["exits"] == [-9, 0]
    assert governed["exits"] == [-9, 0]
    assert bare["effects"].count("order") == 2
    assert governed["effects"].count("order") == 1
    assert "OUTCOME_UNKNOWN" in governed["answers"][-1]


def test_a_finished_call_whose_checkpoint_is_lost_is_not_repeated(report: dict[str, Any]) -> None:
    """Bare: `durability="exit"` loses the whole thread, and the finished call runs again. Ours: its record is delivered."""
    assert report["bare exit"]["effects"].count("early") == 2
    assert report["governed exit"]["effects"].count("early") == 1
    assert report["governed exit"]["answers"][0] == "early done"


def test_an_approved_write_that_was_killed_is_not_repeated_by_the_same_answer(report: dict[str, Any]) -> None:
    """Bare: the answer is posted again after the kill, and the approved write and its sibling happen twice. Ours: once."""
    bare, governed = report["bare approved"], report["governed approved"]
    assert bare["exits"] == governed["exits"] == [0, -9, 0]
    assert bare["effects"].count("gated") == 2
    assert bare["effects"].count("early") == 3
    assert governed["effects"] == ["early", "gated"]
    assert governed["answers"][0] == "early done"
    assert "OUTCOME_UNKNOWN" in governed["answers"][1]


def test_two_processes_that_resume_one_pause_execute_once(report: dict[str, Any]) -> None:
    """Bare: the effect happens twice. Ours: once, and both processes end well."""
    assert report["bare race"]["effects"] == ["gated", "gated"]
    assert report["governed race"]["effects"] == ["gated"]
    assert report["governed race"]["exits"] == [0, 0]
