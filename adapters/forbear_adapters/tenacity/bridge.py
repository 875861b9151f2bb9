"""`recovery`: the four parts of a tenacity decorator that follow a `RecoveryPolicy`. No rule of its own lives here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypedDict, cast

from tenacity.retry import retry_base
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from forbear import NextStep, RecoveryPolicy, ToDo
from forbear.errors import ConfigError
from forbear_adapters.tenacity.mapping import rules_of

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["Gives", "Parts", "recovery"]

# What a call gives that did not complete: the envelope, the model's view as JSON text, or that as a dict.
Gives = Literal["envelope", "text", "dict"]
GIVES: Final = ("envelope", "text", "dict")
# Waits up to this are waited inside the call; it is the default of `Limits.inline_wait`.
INLINE_WAIT: Final = timedelta(seconds=5)
# Where a RetryCallState keeps what was found out about its outcome.
_KEPT: Final = "forbear_step"


class Parts(TypedDict):
    """Keyword arguments of tenacity's `retry`, `Retrying` and `AsyncRetrying`."""

    retry: retry_base
    wait: wait_base
    stop: stop_base
    retry_error_callback: Callable[[RetryCallState], object]


@dataclass(frozen=True, slots=True, eq=False)
class _Rules:
    """What the four parts share; nothing of any call."""

    policy: RecoveryPolicy
    inline_wait: timedelta
    gives: Gives

    def step(self, state: RetryCallState) -> NextStep | None:
        """Return what the outcome of this attempt means, once an attempt; None = it is no answer and goes on."""
        return self._kept(state).step

    def seconds(self, state: RetryCallState) -> float | None:
        """Return how long to wait inside the call before the one more attempt, or None where there is none."""
        return self._kept(state).seconds

    def _kept(self, state: RetryCallState) -> _Kept:
        kept: object = getattr(state, _KEPT, None)
        if isinstance(kept, _Kept) and kept.attempt == state.attempt_number and kept.outcome is state.outcome:
            return kept
        step = self._step(state)
        made = _Kept(state.attempt_number, state.outcome, step, self._seconds(step))
        setattr(state, _KEPT, made)
        return made

    def _step(self, state: RetryCallState) -> NextStep | None:
        outcome = state.outcome
        assert outcome is not None, "tenacity asks after an attempt"
        error = outcome.exception()
        if error is not None and not isinstance(error, Exception):
            # Cancellation, KeyboardInterrupt: not the tool's answer.
            return None
        result: object = error if error is not None else outcome.result()
        return self.policy.next_step(result, state.attempt_number, self.policy.now())

    def _seconds(self, step: NextStep | None) -> float | None:
        if step is None or step.retry_at is None or step.to_do is not ToDo.RETRY_AT:
            return None
        now = self.policy.now()
        if not step.is_within(self.inline_wait, now):
            return None
        return max((step.retry_at - now) / timedelta(seconds=1), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    attempt: int
    # tenacity's own object for one outcome, compared by identity.
    outcome: object
    step: NextStep | None
    # One reading of the clock: tenacity asks for the wait before it asks whether there is one.
    seconds: float | None


class _Retry(retry_base):
    """True for everything that is no completed result, so that `stop` and the callback decide about it."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __call__(self, retry_state: RetryCallState) -> bool:
        step = self._rules.step(retry_state)
        return step is not None and step.to_do is not ToDo.DONE


class _Wait(wait_base):
    """The time until the instant that the result named."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __call__(self, retry_state: RetryCallState) -> float:
        return self._rules.seconds(retry_state) or 0.0


class _Stop(stop_base):
    """True unless there is one more attempt, soon enough to be waited for."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __call__(self, retry_state: RetryCallState) -> bool:
        return self._rules.seconds(retry_state) is None


def recovery(
    policy: RecoveryPolicy | None = None,
    *,
    inline_wait: timedelta = INLINE_WAIT,
    gives: Gives = "envelope",
    **policy_fields: object,
) -> Parts:
    """Return the parts of a tenacity decorator: ``@retry(**recovery(effect="read"))``.

    A refusal is never executed again. What may be tried once more is, once, not before the time that the result named,
    and only where that is within `inline_wait`. What does not complete is *returned*, never raised: exception text goes
    nowhere. Cancellation and KeyboardInterrupt go on untouched. A block (`for attempt in Retrying(…)`) gets no value, so
    there the exception of the last attempt goes on.

    Args:
        policy: The rules; default: one of `policy_fields`.
        inline_wait: The longest wait inside a call.
        gives: What is returned where the call did not complete: the envelope, or what a model may see of it.
        **policy_fields: What is declared about the tool, as for `RecoveryPolicy`.

    Raises:
        ConfigError: a field is wrong, or both a policy and fields are given.
    """
    if gives not in GIVES:
        raise ConfigError("gives: must be 'envelope', 'text' or 'dict'")
    rules = _Rules(rules_of(policy, policy_fields), inline_wait, gives)

    def give(retry_state: RetryCallState) -> object:
        step = rules.step(retry_state)
        assert step is not None, "tenacity calls this only for outcomes that are answers"
        outcome = retry_state.outcome
        if retry_state.fn is None and outcome is not None and outcome.failed:
            # `for attempt in Retrying(…)`: nobody gets what is returned, and the code after the loop would go on.
            raise outcome.exception() or AssertionError
        return _given(step, gives)

    return Parts(retry=_Retry(rules), wait=_Wait(rules), stop=_Stop(rules), retry_error_callback=give)


def _given(step: NextStep, gives: Gives) -> object:
    match gives:
        case "envelope":
            return step.envelope
        case "text":
            return step.for_model()
        case "dict":
            return cast("dict[str, object]", json.loads(step.for_model()))
