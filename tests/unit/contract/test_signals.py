"""Every golden signal means what the vectors say, and the runner notices when one does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forbear.testing.signals import run_signals

GOLDEN = Path(__file__).parents[2] / "golden" / "signals.jsonl"
LINES = GOLDEN.read_text(encoding="utf-8").splitlines()


def test_every_golden_signal_passes() -> None:
    """All lines of the vectors file get the expected recovery and time, and leak nothing."""
    assert len(LINES) == 336
    assert run_signals(LINES) == []


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"recovery": "use_alternative"}, "retry_after 2026-09-01T12:02:00+00:00"),
        ({"retry_at": "2026-09-01T12:02:01Z"}, "retry_after 2026-09-01T12:02:00+00:00"),
        ({"retry_at": None}, "retry_after 2026-09-01T12:02:00+00:00"),
    ],
)
def test_a_wrong_expectation_is_a_failure(change: dict[str, object], got: str) -> None:
    """The runner compares recovery and time, and says what it got."""
    vector = json.loads(next(line for line in LINES if '"ra-20"' in line))
    vector["expected"].update(change)
    failures = run_signals([json.dumps(vector)])
    assert [(failure.id, failure.got) for failure in failures] == [("ra-20", got)]


@pytest.mark.parametrize(
    ("planted", "failures"), [("RATE_LIMITED", ["leak"]), ("rate_limited", ["leak"]), ("nothing like it", [])]
)
def test_a_leak_is_a_failure(planted: str, failures: list[str]) -> None:
    """The runner finds a planted text, also in other case, in what a model would see."""
    vector = json.loads(next(line for line in LINES if '"ra-20"' in line))
    vector["must_not_leak"] = [planted]
    assert [failure.got for failure in run_signals([json.dumps(vector)])] == failures


def test_a_vector_of_unknown_kind_is_a_failure() -> None:
    """A vector that the runner cannot read is reported, never skipped."""
    vector = json.loads(LINES[0])
    vector["input"]["kind"] = "smoke"
    assert [failure.got for failure in run_signals([json.dumps(vector)])] == ["ValueError"]
