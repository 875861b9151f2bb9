"""Without a controller no text promises what only a controller does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from tenacity import retry

from forbear import RecoveryPolicy, Refused
from forbear.contract import Http, builtin_catalogue, lint_text
from forbear.contract.alone import ALONE, WITHOUT_A_CODE, standalone_catalogue
from forbear.core.values import Envelope
from forbear.core.view import view_text
from forbear.core.vocabulary import Executed, Outcome
from forbear.testing.clock import ManualClock
from forbear_adapters.tenacity import recovery

NOW = datetime(2026, 9, 6, tzinfo=UTC)
# What nobody does where there is no controller: run later, hold, keep, deliver, open again, write a record.
PROMISES = re.compile(
    r"controller|\bheld\b|stays closed|deliver|\bkeeps\b|until a person|until the next|when a person|\brecord|It runs after|"
    r"\bturn\b|can open",
    re.IGNORECASE,
)


@pytest.mark.parametrize("code", sorted(builtin_catalogue().entries))
def test_no_text_promises_a_controller(code: str) -> None:
    """Every built-in code, with every detail, says only what is true of a single function."""
    entry = standalone_catalogue(builtin_catalogue()).entries[code]
    for text in (entry.text, *entry.details):
        assert not PROMISES.search(text), text
        assert not lint_text(text)


def test_only_texts_change_and_each_is_needed() -> None:
    """Class, owner and outcome stay the catalogue's; a code is listed only where its own text would be untrue."""
    own, alone = builtin_catalogue().entries, standalone_catalogue(builtin_catalogue()).entries
    assert own.keys() == alone.keys()
    assert ALONE.keys() <= own.keys()
    for code, entry in own.items():
        assert (entry.recovery, entry.outcome, entry.owner) == (
            alone[code].recovery,
            alone[code].outcome,
            alone[code].owner,
        )
        if code in ALONE:
            assert any(PROMISES.search(text) for text in (entry.text, *entry.details)), code


def test_a_class_without_a_code_has_a_true_text_too() -> None:
    """What the view would say by itself is replaced wherever it promises a controller."""
    for recovery_class, text in WITHOUT_A_CODE.items():
        assert PROMISES.search(
            view_text(Envelope(outcome=Outcome.REFUSED, executed=Executed.NO, recovery=recovery_class))
        )
        assert not PROMISES.search(text)
        assert not lint_text(text)


def test_a_long_limit_says_when_it_ends_and_nothing_of_a_controller() -> None:
    """The answer of a decorated function, and of the rules alone, names the end of the limit and promises nothing."""
    calls: list[int] = []

    @retry(**recovery(RecoveryPolicy(clock=ManualClock(NOW), effect="read"), gives="text"))
    def ask() -> object:
        calls.append(1)
        raise Refused("RATE_LIMITED", recovery="retry_after", reset_at=NOW + timedelta(hours=1))

    said = str(ask())
    assert "The limit ends at 2026-09-06T01:00:00Z." in said
    assert not PROMISES.search(said)
    assert calls == [1]


@pytest.mark.parametrize(
    "result",
    [
        Http(status=429),
        Http(status=503),
        Http(status=500),
        Http(status=403),
        TimeoutError(),
        ConnectionRefusedError(),
        RuntimeError(),
        {"ok": False, "outcome": "refused", "executed": "no", "error": {"code": "X_Y", "recovery": "do_not_retry"}},
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("attempt", [1, 3])
def test_whatever_a_result_is_its_text_promises_nothing(result: object, effect: str, attempt: int) -> None:
    """Common refusals and failures, first and last attempts, reads and writes."""
    step = RecoveryPolicy(effect=effect).next_step(result, attempt, NOW)
    assert not PROMISES.search(step.for_model())
