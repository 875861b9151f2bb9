"""Stories that nobody wrote: whatever happens in whatever order, the promises that need no expectation hold."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from forbear.testing.journeys import Unmet, run_journey

Maker = Callable[[random.Random, list[str]], dict[str, object]]

SECRET = "tok-LEAK99"
TEXT = f"boom at https://x:pw99@h.invalid/1?k={SECRET}"
TOOLS: list[dict[str, object]] = [
    {
        "name": "w1",
        "effect": "write",
        "repeatable": False,
        "match_on": ["t"],
        "inspect_with": "r1",
        "applied_if": "non_empty",
    },
    {"name": "w2", "effect": "write", "repeatable": False, "gate": "always"},
    {"name": "w3", "effect": "write", "repeatable": True},
    {"name": "r1", "effect": "read", "repeatable": True, "quota_scope": "q"},
    {
        "name": "r2",
        "effect": "read",
        "repeatable": True,
        "poll": {"status_field": "state", "pending": ["running"], "min_interval_s": 2},
    },
    {"name": "r3", "effect": "read", "repeatable": True, "empty_means": "unknown"},
]
CONTROLS = (
    *("timer", "timer", "timer", "resume", "new_turn", "user_message", "cancel", "deadline", "crash_restart"),
    *("auto_continue", "approval_expired", "engine_retry", "model_error", "run_restarted", "reconnected"),
    "agent_finished",
)


def call(rng: random.Random, calls: list[str]) -> dict[str, object]:
    """Return a proposal."""
    number = len(calls) + 1
    calls.append(f"c{number}")
    made: dict[str, object] = {
        "id": calls[-1],
        "tool": rng.choice(TOOLS)["name"],
        "args": {"t": rng.choice("ab"), "n": rng.choice([1, 1, 2])},
    }
    if rng.random() < 0.3:
        made["agent"] = rng.choice("xy")
    if rng.random() < 0.2:
        made["batch"] = f"b{number // 3}"
    if rng.random() < 0.15:
        made["policy"] = {"verdict": rng.choice(["allow", "approval", "deny", "unavailable"]), "rule": "rule1"}
    if rng.random() < 0.05:
        made["finish_reason"] = "length"
    return {"call": made}


def result(rng: random.Random, calls: list[str]) -> dict[str, object]:
    """Return what a tool gives back, sooner or later, once or twice."""
    value: dict[str, object] = {
        "type": "value",
        "value": rng.choice([{"id": 1}, [], None, {"state": "running"}, {"state": "done"}, ["x"]]),
    }
    http: dict[str, object] = {
        "type": "http",
        "status": rng.choice([200, 202, 403, 404, 409, 422, 429, 429, 500, 503]),
        "headers": rng.choice([None, {"Retry-After": "30"}, {"Retry-After": "5000"}]),
    }
    raised: dict[str, object] = {
        "type": "exception",
        "class": rng.choice(["ReadTimeout", "ConnectError", "ValueError", "WeirdError", "GraphInterrupt"]),
        "phase": rng.choice(["before_send", "after_send", "in_tool", "unknown"]),
        "message": TEXT,
        "control_flow": rng.random() < 0.1,
    }
    mcp: dict[str, object] = {"type": "mcp", "isError": True, "content": [{"type": "text", "text": TEXT}]}
    return {"result": {"for": rng.choice(calls[-4:]), **rng.choice([value, value, http, http, raised, raised, mcp])}}


def human(rng: random.Random, calls: list[str]) -> dict[str, object]:
    """Return an answer of a person."""
    answer = rng.choice(["approve", "approve", "reject", "edit"])
    return {"human": {"for": rng.choice(calls), "decision": answer, "args": {"t": "z", "n": 9}}}


def control(rng: random.Random, calls: list[str]) -> dict[str, object]:
    """Return something that happens around the calls."""
    told: dict[str, object] = {"kind": rng.choice(CONTROLS), "ack": rng.random() < 0.4}
    if told["kind"] in {"timer", "approval_expired", "cancel", "deadline", "engine_retry"}:
        told["for"] = rng.choice(calls)
    if told["kind"] == "crash_restart":
        told["persisted"] = ["dispatch started"]
    return {"control": told}


def story(seed: int) -> dict[str, object]:
    """Return a story; some of its events cannot happen."""
    rng = random.Random(seed)
    calls: list[str] = []
    events: list[dict[str, object]] = []
    at = 0
    makers: list[Maker] = [*[call] * 9, *[result] * 6, *[human] * 2, *[control] * 3]
    for _ in range(rng.randint(6, 30)):
        at += rng.choice([0, 1, 2, 5, 30, 100, 4000])
        make = rng.choice(makers) if calls else call
        events.append({"at": at, **make(rng, calls)})
    return {
        "id": f"seed {seed}",
        "t0": "2026-01-01T00:00:00Z",
        "tool": TOOLS[0],
        "other_tools": TOOLS[1:],
        "limits": rng.choice([None, {"max_wait_s": 900}, {"max_calls_per_turn": 4}, {"max_recorded_replays": 1}]),
        "events": events,
        "expected": [],
        "forbidden": [f"the string {SECRET}"],
    }


def played(case: dict[str, object]) -> list[Unmet]:
    """Return what was not met, after leaving out the events that could not happen."""
    events = case["events"]
    assert isinstance(events, list)
    while True:
        found = run_journey(case)
        impossible = [one.event for one in found if one.expected == "the event can happen"]
        if not impossible:
            return found
        del events[int(str(impossible[0]))]
        # A result of a call that was left out goes with it.
        known: set[object] = set()
        for event in list(events):
            if "call" in event:
                known.add(event["call"]["id"])
            elif "result" in event and event["result"]["for"] not in known:
                events.remove(event)


@pytest.mark.parametrize("seed", range(60))
def test_no_story_breaks_a_promise(seed: int) -> None:
    """No text of others is shown, every call gets one final answer, no view is empty, nothing crashes."""
    assert played(story(seed)) == []
