"""The table of limits and their defaults, made from the code; `python -m tests.docs.limits_table` writes it."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

from forbear.core.policy import Limits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
HEAD = """# Limits

Every number that bounds a run. They are given to `Controller.open(limits={...})`, or to one tool with `limits={...}`.
Made from the code by `python -m tests.docs.limits_table`. A default of "by tool" is the number that the third column names; "none"
is no bound.

| limit | default | what it bounds |
|---|---|---|
"""
MEANING = {
    "default_wait": "how long a temporary refusal without a time waits",
    "on_unknown_reset": "`wait`: `default_wait`, once; `stop`: never wait without a named time",
    "max_wait": "a longer wait is a stop that names the reset",
    "max_unattended": "a write that waited longer runs only if no human message came since",
    "max_parked": "calls that one time hold keeps for later",
    "inline_wait": "waits up to this are waited inside the call, where waiting blocks nobody",
    "max_retries": "retries by the controller, per action and turn: 1, or 2 for temporary failures of repeatable reads",
    "max_repairs": "repairs in a row; 3 where the answers name fields, else 8",
    "max_refusals": "refusals of one code in a row from one operation; 3 for declared writes, else 8",
    "max_blocked_before_stop": "blocked steps under one hold before it is a stop",
    "max_blocked_steps": "steps in a row in which every call was blocked, before the run is halted",
    "max_idle_steps": "steps in a row in which nothing new happened, before the run is halted",
    "max_blocked_per_turn": "blocked steps in one turn, before the run is halted",
    "max_calls_per_turn": "executions in one turn",
    "max_calls_per_run": "executions in one run",
    "max_same_results": "quick equal results with no write in between; 10 for declared writes, else 30",
    "replay_completed": "how often an equal read is delivered from the record in one turn, before it is a stop",
    "checker_retry": "how often an approval rule that failed is asked again, per action",
    "on_checker_down": "then: `block`, or `ask` a person",
    "approval_ttl": "how long a prompt can be answered",
    "grant_ttl": "how long a yes can be spent",
    "max_prompts": "prompts answered no since the last yes",
    "max_open_prompts": "open prompts of a tree; more calls are parked",
    "inspect_attempts": "automatic looks at an unknown write",
    "settle": "how far apart two looks must be for absence to count",
    "max_shared_hold": "a shared hold without an end lets one probe through after this",
    "timeout": "how long a tool may run; only what the author declares",
}
# Not bounded by None, but by what the tool is.
BY_TOOL = {"max_retries", "max_repairs", "max_refusals", "max_same_results"}


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        for unit, size in (("h", 3600), ("min", 60)):
            if seconds >= size and seconds % size == 0:
                return f"{seconds / size:g} {unit}"
        return f"{seconds:g} s"
    return str(value)


def _default(name: str) -> str:
    value: object = getattr(Limits(), name)
    return "by tool" if value is None and name in BY_TOOL else _shown(value)


def table() -> str:
    """Return the page."""
    rows = [f"| `{one.name}` | {_default(one.name)} | {MEANING[one.name]} |" for one in fields(Limits)]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(table(), encoding="utf-8")
