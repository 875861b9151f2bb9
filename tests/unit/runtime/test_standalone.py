"""`RecoveryPolicy`: what may be done after one result, as a pure function."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from forbear import NextStep, RecoveryPolicy, Refused, ToDo
from forbear.contract import Http
from forbear.errors import ConfigError, UsageError
from forbear.testing.clock import ManualClock

NOW = datetime(2026, 9, 6, tzinfo=UTC)
SOON = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=3, executed="no")


def refused(recovery: Any, **fields: Any) -> Any:
    """Return a refusal of a class."""
    return Refused("SOMETHING_ELSE", recovery=recovery, executed="no", **fields)


@pytest.mark.parametrize(
    ("result", "effect", "attempt", "to_do"),
    [
        ({"id": 1}, "write", 1, ToDo.DONE),
        ([], "read", 5, ToDo.DONE),
        (None, "write", 1, ToDo.DONE),
        (refused("do_not_retry"), "read", 1, ToDo.STOP),
        (refused("use_alternative"), "write", 1, ToDo.STOP),
        (refused("repair_input", invalid_fields=["qty"]), "write", 1, ToDo.REPAIR),
        (refused("request_approval"), "write", 1, ToDo.ASK),
        (refused("inspect_outcome"), "write", 1, ToDo.INSPECT),
        (refused("inspect_outcome"), "read", 1, ToDo.STOP),
        (SOON, "write", 1, ToDo.RETRY_AT),
        (SOON, "write", 2, ToDo.STOP),
        (TimeoutError(), "write", 1, ToDo.INSPECT),
        (TimeoutError(), "read", 1, ToDo.RETRY_AT),
        (TimeoutError(), "read", 2, ToDo.RETRY_AT),
        (TimeoutError(), "read", 3, ToDo.STOP),
        (ValueError("x"), "write", 1, ToDo.REPAIR),
        (Http(status=200, body='{"id": 1}'), "write", 1, ToDo.DONE),
        (Http(status=429, headers=(("Retry-After", "7"),)), "write", 1, ToDo.RETRY_AT),
        (Http(status=403), "write", 1, ToDo.STOP),
        (Http(status=503), "write", 1, ToDo.INSPECT),
    ],
)
def test_each_class_has_its_step(result: Any, effect: Any, attempt: Any, to_do: Any) -> None:
    """Every result gives the step that its class asks for, with its envelope and nothing to wait for but a retry."""
    step = RecoveryPolicy(effect=effect).next_step(result, attempt, NOW)
    assert step.to_do is to_do
    assert (step.retry_at is not None) == (to_do is ToDo.RETRY_AT)
    assert json.loads(step.for_model())


def test_undeclared_tools_are_treated_like_writes() -> None:
    """Without an effect, what may have happened is not repeated."""
    assert RecoveryPolicy().next_step(TimeoutError(), 1, NOW).to_do is ToDo.INSPECT


def test_the_retry_is_not_before_the_named_time() -> None:
    """Margin and jitter are added, within a fifth of the wait."""
    step = RecoveryPolicy(effect="write").next_step(Http(status=429, headers=(("Retry-After", "60"),)), 1, NOW)
    assert step.retry_at is not None
    assert NOW + timedelta(seconds=60) < step.retry_at <= NOW + timedelta(seconds=72)
    assert step.envelope.reset_at == NOW + timedelta(seconds=60)


def test_a_wait_that_is_too_long_is_a_stop_that_names_its_end() -> None:
    """Beyond `max_wait` nothing is scheduled."""
    later = refused("retry_after", reset_at="2026-09-08T00:00:00Z")
    step = RecoveryPolicy(effect="write").next_step(later, 1, NOW)
    assert (step.to_do, step.envelope.code) == (ToDo.STOP, "WAIT_EXCEEDS_LIMIT")
    assert step.envelope.reset_at == datetime(2026, 9, 8, tzinfo=UTC)


def test_the_same_arguments_give_the_same_answer() -> None:
    """Pure: no clock, no randomness, no memory; the zone of `now` does not matter."""
    policy = RecoveryPolicy(effect="write", clock=ManualClock())
    first = policy.next_step(SOON, 1, NOW, arguments={"id": 1})
    for _ in range(3):
        assert policy.next_step(SOON, 1, NOW, arguments={"id": 1}) == first
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert policy.next_step(SOON, 1, elsewhere, arguments={"id": 1}) == first


def test_different_calls_are_spread() -> None:
    """Retries of different calls do not start at the same instant."""
    policy = RecoveryPolicy(effect="write")
    starts = {policy.next_step(SOON, 1, NOW, arguments={"id": number}).retry_at for number in range(20)}
    assert len(starts) == 20


def test_exhausted_is_told_with_the_catalogues_text() -> None:
    """The envelope of a stop says why in words that a model may see, and invites nothing."""
    step = RecoveryPolicy(effect="write").next_step(SOON, 2, NOW)
    assert step.envelope.code == "RETRY_EXHAUSTED"
    assert step.envelope.safe_message
    assert isinstance(step, NextStep)


def test_no_text_of_an_exception_gets_out() -> None:
    """Neither the envelope nor the view holds what an exception said."""
    step = RecoveryPolicy(effect="write").next_step(RuntimeError("token=tok-QX19"), 1, NOW)
    assert "tok-QX19" not in repr(step) + step.for_model()


def test_wrong_arguments_are_errors() -> None:
    """Attempts count from 1, instants are aware, fields are spelt right."""
    policy = RecoveryPolicy(effect="read")
    with pytest.raises(UsageError, match="attempt"):
        policy.next_step(1, 0, NOW)
    with pytest.raises(UsageError, match="now"):
        policy.next_step(1, 1, NOW.replace(tzinfo=None))
    with pytest.raises(UsageError, match="thing"):
        policy.next_step(1, 1, NOW, arguments={"thing": object()})
    with pytest.raises(ConfigError, match="efect"):
        RecoveryPolicy(efect="read")


def test_now_is_the_clocks() -> None:
    """`now` reads the policy's clock."""
    clock = ManualClock()
    assert RecoveryPolicy(clock=clock).now() == clock.now()
