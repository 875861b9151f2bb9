"""What holds where an author, a shell or a store says nothing: the safe side, and the numbers of the documents."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta

import pytest

from forbear.core import decision, draft, events, holds, identity, policy, repair, settle, states, timing, values, view
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.vocabulary import COMPLETED, Cause, Effect, Gate, Mode, Outcome, Trust


def defaults(kind: type) -> dict[str, object]:
    """Return the defaults of a value's fields that are numbers, texts, words or nothing."""
    found = {entry.name: entry.default for entry in fields(kind) if entry.default is not MISSING}
    return {name: value for name, value in found.items() if value is None or isinstance(value, (str, int, timedelta))}


def test_limits() -> None:
    """The numbers that bound a run are those that the documents promise."""
    assert defaults(Limits) == {
        "default_wait": timedelta(seconds=5),
        "on_unknown_reset": "wait",
        "max_wait": timedelta(hours=25),
        "max_unattended": timedelta(hours=1),
        "max_parked": 5,
        "inline_wait": timedelta(seconds=5),
        "max_retries": None,
        "max_repairs": None,
        "max_refusals": None,
        "max_blocked_before_stop": 1,
        "max_blocked_steps": 5,
        "max_idle_steps": 10,
        "max_blocked_per_turn": 30,
        "max_calls_per_turn": None,
        "max_calls_per_run": None,
        "max_same_results": None,
        "replay_completed": 0,
        "checker_retry": 1,
        "on_checker_down": "block",
        "approval_ttl": timedelta(hours=24),
        "grant_ttl": timedelta(minutes=5),
        "max_prompts": 5,
        "max_open_prompts": 10,
        "inspect_attempts": 3,
        "settle": timedelta(seconds=10),
        "max_shared_hold": timedelta(hours=1),
        "timeout": None,
    }


def test_a_tool_that_nobody_labelled() -> None:
    """It is governed for the exact call, shows no text of its own, and is obeyed as its trust says."""
    assert defaults(ToolPolicy) == {
        "effect": Effect.UNDECLARED,
        "repeatable": None,
        "operation": "",
        "target": None,
        "quota": None,
        "approval": "never",
        "inspect": None,
        "idempotency_key": None,
        "poll": None,
        "empty_means": "none",
        "error_text": "hidden",
        "speaks_contract": None,
        "atomic": True,
        "trust": Trust.OWNED,
        "mode": Mode.ENFORCE,
        "digest": "",
    }


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (policy.IdempotencyKey, {"valid_for": timedelta(hours=24)}),
        (policy.Poll, {"min_interval": timedelta(seconds=1)}),
        (policy.EmptyRetry, {"delay": timedelta(seconds=5), "looks": 1}),
        (policy.Inspection, {"applied_if": None}),
        (policy.TextRule, dict.fromkeys(("prefix", "equals", "pointer", "value", "recovery", "outcome")) | {"code": ""}),
        (policy.StatusRule, dict.fromkeys(("code", "recovery", "outcome")) | {"as_code": ""}),
        (policy.ExceptionRule, dict.fromkeys(("recovery", "outcome")) | {"code": ""}),
        (values.InvalidField, {"rule": "invalid"}),
        (values.RuleVerdict, {"gate": Gate.ALLOW, "rule": ""}),
        (values.Grant, {"actor": "", "policy": ""}),
        (
            values.Call,
            {
                "source": "",
                "target": None,
                "target_declared": False,
                "quota": None,
                "siblings": 1,
                "forced": False,
                "malformed": "",
                "edited": False,
                "base": "",
            },
        ),
        (
            values.Envelope,
            {"request_id": "", "code": "", "effects_before_failure": False, "temporary": False, "not_accepted": False}
            | dict.fromkeys(
                (
                    "recovery", "constraint", "limit", "remaining", "reset_at", "retry_after_seconds", "precondition",
                    "required_permission", "approval_url", "http_status", "operation", "safe_message", "reason",
                )
            ),
        ),
        (events.Proposed, {"reproposes": False, "ticket": "", "request_id": ""}),
        (events.Returned, {"digest": "", "kept": False, "finished": None, "ticket": ""}),
        (events.Interrupted, {"ticket": ""}),
        (events.Lost, {"ticket": "", "request_id": "", "died": True}),
        (events.Cancelled, {"ticket": "", "request_id": ""}),
        (events.Woke, {"ticket": "", "request_id": ""}),
        (events.Granted, {"request_id": ""}),
        (events.Denied, {"request_id": ""}),
        (events.Revised, {"request_id": ""}),
        (events.Edited, {"new_ticket": "", "request_id": ""}),
        (events.Inspected, {"actor": "", "request_id": ""}),
        (
            decision.Decision,
            {"suppressed": False, "clear_forced": False, "blocked_step": False, "idle_step": False}
            | dict.fromkeys(("answer", "told", "ticket", "retry_at", "would", "would_rule")),
        ),
        (decision.Announce, {"call": None}),
        (decision.Snapshot, {"owner": "", "has_approver": True}),
        (states.Started, {"grant": None}),
        (states.Waiting, {"hold": None, "grant": None, "not_accepted": False}),
        (states.Parked, {"hold": None, "grant": None}),
        (states.AwaitingApproval, {"by_framework": False, "after_attempt": 0}),
        (states.Unknown, {"inspections": 0, "absent_at": None, "inspect_at": None}),
        (states.NeedsRepair, {"writes": 0}),
        (states.Completed, {"step": "", "epoch": 0, "finished": None, "kept": False, "told": None}),
        (
            states.Action,
            dict.fromkeys(
                (
                    "attempts", "turn", "retries", "checks", "repairs", "replays", "same_results", "empty_looks",
                    "asked_by_tool", "key_spent", "last_writes",
                ),
                0,
            )
            | {"last_result": "", "last_result_at": None},
        ),
        (
            states.Hold,
            {"policy": "", "last_step": "", "probed": 0, "blocked": 0}
            | dict.fromkeys(("ends_at", "claim", "precondition"))
            | dict.fromkeys(("writes_only", "gated_only", "observed"), False),
        ),
        (states.Halt, {"clear_forced": False}),
        (
            states.Run,
            {"parent": None, "halted": None, "step": ""}
            | dict.fromkeys(("all_blocked", "all_idle", "closed"), True)
            | dict.fromkeys(
                ("turn", "seen", "blocked_steps", "idle_steps", "blocked_in_turn", "calls_in_turn", "calls_in_run"), 0
            ),
        ),
        (states.Streak, {"waits": 0}),
        (
            states.Tree,
            {"turn": 1, "turn_at": None} | dict.fromkeys(("epoch", "restarted", "writes", "noes", "noes_in_turn"), 0),
        ),
        (states.Known, {"completed": False}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)  # fmt: skip
def test_what_is_not_said(kind: type, said: dict[str, object]) -> None:
    """A field that a shell does not set, or that an older store does not have, means that nothing happened yet."""
    assert defaults(kind) == said


def test_named_numbers() -> None:
    """They are design decisions: a change of one is made on purpose."""
    assert (policy.MAX_RETRIES, policy.MAX_RETRIES_TEMPORARY_READ) == (1, 2)
    assert (policy.MAX_REPAIRS_NAMED, policy.MAX_REPAIRS) == (3, 8)
    assert (policy.MAX_REFUSALS_WRITE, policy.MAX_REFUSALS) == (3, 8)
    assert (policy.MAX_SAME_RESULTS_WRITE, policy.MAX_SAME_RESULTS) == (10, 30)
    assert (timedelta(seconds=1), timedelta(milliseconds=250)) == (timing.FLOOR, timing.MARGIN)
    assert (5, timedelta(seconds=1), timedelta(seconds=60)) == (timing.SHARE, timing.LEAST_ROOM, timing.MOST_ROOM)
    assert settle.SAME_RESULT_GAP == repair.FIRST_LOOK == timedelta(seconds=1)
    assert (draft.MAX_TARGETS, identity.MAX_DEPTH, identity.ABSENT) == (64, 64, "-")
    assert states.FRAMEWORK == "framework"
    assert view.MAX_REFUSAL_BYTES == 480


def test_what_is_completed_and_what_is_shared() -> None:
    """Closed sets that decisions are made by."""
    assert {Outcome.SUCCESS, Outcome.EMPTY, Outcome.PARTIAL, Outcome.ALREADY_SATISFIED} == COMPLETED
    assert {scope.value for scope in holds.SHARED} == {"quota", "principal"}


def test_the_order_in_which_reasons_are_told() -> None:
    """Denial before doubt, refusal, exhaustion, repair, budget and time; the numbers are stored."""
    assert [(cause.name, cause.value) for cause in Cause] == [
        ("DENIAL", 1),
        ("UNKNOWN", 2),
        ("REFUSAL", 3),
        ("EXHAUSTED", 4),
        ("REPAIR", 5),
        ("BUDGET", 6),
        ("TIME", 7),
    ]
