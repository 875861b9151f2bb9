"""The recorded vectors, and that their runner notices when a decision is another one."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from forbear.testing.journeys import run_journey
from forbear.testing.vectors import run

HERE = Path(__file__).parent
DECISIONS = ("execute", "block", "wait_until", "needs_approval", "inspect_only", "deliver_completed", "stop")
# A stop is a block that is final; a block of what is unknown is a hold for inspection.
SAME = {("block", "stop"), ("stop", "block"), ("block", "inspect_only")}


def lines(name: str) -> list[dict[str, object]]:
    """Return the cases of a file."""
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


FILES = ["journeys.jsonl", "journeys_more.jsonl", "journeys_by_text.jsonl", "signals.jsonl", "signals_more.jsonl"]


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_vector_is_met(name: str) -> None:
    """What the vectors expect is what is decided."""
    report = run([HERE / name])
    assert report.failures == ()
    assert report.notes == (), "everything that they say was used and compared"
    assert report.passed == len(lines(name))


@pytest.mark.parametrize("case", lines("journeys.jsonl"), ids=lambda case: str(case["id"]))
def test_another_decision_would_be_noticed(case: dict[str, object]) -> None:
    """A journey that expects any other decision at any of its events fails."""
    expected = case["expected"]
    assert isinstance(expected, list)
    for index, entry in enumerate(expected):
        for decision in DECISIONS:
            if decision == entry["decision"] or (entry["decision"], decision) in SAME:
                continue
            changed = copy.deepcopy(case)
            told: dict[str, object] = {"event": entry["event"], "decision": decision}
            if "for" in entry:
                told["for"] = entry["for"]
            changed["expected"] = [*expected[:index], told, *expected[index + 1 :]]
            assert run_journey(changed), f"{entry} -> {decision}"


DETAILS: list[tuple[str, str, str, object]] = [
    ("fc-01", "deliver_completed", "resolves", "c4"),
    ("fc-01", "deliver_completed", "recorded_from", "c4"),
    ("fc-01", "deliver_completed", "as", "not_applied"),
    ("fc-02", "block", "scope", "rule:another"),
    ("fc-02", "block", "reason", "policy_denied"),
    ("fc-03", "block", "scope", "same_args"),
    ("fc-04", "stop", "scope", "action"),
    ("fc-04", "stop", "clear_forced_tool_choice", False),
    ("fc-05", "wait_until", "until_max", 31),
    ("fc-05", "wait_until", "until_min", 37),
    ("fc-05", "wait_until", "joins", "c3"),
    ("fc-05", "stop", "reset_at_offset", 11180),
    ("fc-06", "stop", "reset_at", 10),
    ("fc-07", "block", "safe_fields", {"code": "other"}),
    ("fc-07", "execute", "by", "model"),
    ("fc-09", "execute", "uses_approval_of", "c2"),
    ("fc-16", "deliver_completed", "outcome", "success"),
    ("fc-17", "deliver_completed", "late", False),
    ("fc-17", "deliver_completed", "once", False),
    ("fc-17", "inspect_only", "executed", "no"),
    ("fc-18", "block", "code", "NOT_FOUND"),
    ("fc-18", "deliver_completed", "outcome", "success"),
    ("fx-25", "execute", "args", {"to": "a@x.invalid"}),
    ("fx-31", "deliver_completed", "suppressed", False),
    ("fc-12", "deliver_completed", "a_key_that_nobody_knows", 1),
]


@pytest.mark.parametrize(("name", "decision", "key", "value"), DETAILS)
def test_another_detail_would_be_noticed(name: str, decision: str, key: str, value: object) -> None:
    """A journey that expects another detail of a decision fails at it."""
    case = next(case for case in lines("journeys.jsonl") if case["id"] == name)
    expected = case["expected"]
    assert isinstance(expected, list)
    entry = next((one for one in expected if one["decision"] == decision and key in one), None)
    if entry is None:
        entry = next(one for one in expected if one["decision"] == decision)
    entry[key] = value
    assert run_journey(case)


def test_a_broken_promise_would_be_noticed() -> None:
    """A promise about dispatches or texts that is not kept is a failure of its own."""
    case = next(case for case in lines("journeys.jsonl") if case["id"] == "fc-20")
    case["forbidden"] = ["more than one dispatch of merge_request"]
    assert [one.expected for one in run_journey(case)] == ["more than one dispatch of merge_request"]
    case = next(case for case in lines("journeys.jsonl") if case["id"] == "fc-01")
    case["forbidden"] = ["the string R-8841 outside the protected record"]
    assert len(run_journey(case)) == 0, "the model's own words are no secret"
    case["forbidden"] = ["the string inv_502 in front of the model"]
    assert len(run_journey(case)) == 1


def broken(**changes: object) -> str:
    """Return the line of a journey with some members replaced."""
    whole = {"id": "x", "tool": {"name": "t"}, "t0": "2026-01-01T00:00:00Z", "events": [], "expected": []}
    return json.dumps({**whole, **changes})


UNREADABLE = [
    "not json",
    "[]",
    "{}",
    '{"id": "x", "events": []}',
    broken(t0="yesterday"),
    broken(t0="2026-01-01T00:00:00"),
    broken(events=[{"at": 0}]),
    broken(events=[{"at": 0, "control": {"kind": "reboot"}}]),
    broken(events=[{"at": 0, "result": {"for": "c9", "type": "value", "value": 1}}]),
    broken(events=[{"at": 0, "call": {"id": "c1", "tool": "t", "args": {}, "policy": {"verdict": "maybe"}}}]),
    broken(expected=[{"event": 0, "decision": "execute"}]),
    broken(limits={"max_luck": 1}),
    broken(tool={"name": "t", "effect": "magic"}),
    broken(events=[{"at": 0, "control": {"kind": "timer", "for": "c9"}}]),
    '{"id": "x", "input": 7}',
    '{"id": "x", "input": {"kind": "carrier pigeon"}}',
    '{"id": NaN}',
    "[" * 5000,
]


@pytest.mark.parametrize("line", UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_line_that_cannot_be_read_is_a_failing_case(tmp_path: Path, line: str) -> None:
    """A broken line fails with a reason; the lines around it are run all the same."""
    good = (HERE / "journeys.jsonl").read_text(encoding="utf-8").splitlines()[0]
    file = tmp_path / "some.jsonl"
    file.write_text(f"{good}\n{line}\n\n{good}\n", encoding="utf-8")
    done: list[tuple[int, int]] = []
    report = run([file], progress=lambda number, total: done.append((number, total)))
    assert report.passed == 2
    assert len(report.failures) == 1
    assert report.failures[0].got
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_bytes_that_are_no_text_are_a_failing_case(tmp_path: Path) -> None:
    """A file that is not UTF-8 is a failing case, too."""
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"\xff\xfe\x00\n")
    assert len(run([file]).failures) == 1


def test_what_the_runner_cannot_use_is_said(tmp_path: Path) -> None:
    """A misspelt member or a reason that nobody knows fails nothing, and is never passed over in silence."""
    case = next(case for case in lines("journeys.jsonl") if case["id"] == "fc-20")
    events, expected, tool = case["events"], case["expected"], case["tool"]
    assert isinstance(events, list)
    assert isinstance(expected, list)
    assert isinstance(tool, dict)
    tool["repeatible"] = False
    events[0]["call"]["polcy"] = {"verdict": "deny"}
    expected[5]["reason"] = "moon_in_the_seventh_house"
    file = tmp_path / "some.jsonl"
    file.write_text(json.dumps(case) + "\n", encoding="utf-8")
    report = run([file])
    assert (report.passed, report.failures) == (1, ())
    assert report.notes == (
        "fc-20: tool: 'repeatible' is no member of the format and was not used",
        "fc-20: events[0].call: 'polcy' is no member of the format and was not used",
        "fc-20: expected at event 5: nobody knows the reason 'moon_in_the_seventh_house'; it was not compared",
    )


@pytest.mark.parametrize("winner", [True, "c1", ["c1", "c2"]])
def test_a_winner_is_named_or_only_said_to_be_one(winner: object) -> None:
    """Whoever wrote the story may not know which of several claimants wins."""
    case = next(case for case in lines("journeys_by_text.jsonl") if case["id"] == "ap-01")
    expected = case["expected"]
    assert isinstance(expected, list)
    entry = next(one for one in expected if one["decision"] == "execute")
    entry["winner"] = winner
    assert run_journey(case) == []
    entry["winner"] = ["c9"] if isinstance(winner, list) else False if winner is True else "c9"
    assert len(run_journey(case)) == 1
