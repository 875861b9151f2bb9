"""`retry_on`: a predicate over exceptions for retry policies of others, such as LangGraph's `RetryPolicy(retry_on=…)`.

Such a policy only hears yes or no: it counts attempts and waits by its own numbers. Nothing is imported from it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from forbear import RecoveryPolicy, ToDo
from forbear_adapters.tenacity.mapping import rules_of

__all__ = ["retry_on"]


def retry_on(
    policy: RecoveryPolicy | None = None, *, after: timedelta, **policy_fields: object
) -> Callable[[Exception], bool]:
    """Return a predicate that is true only for what may be executed once more `after` so long.

    Use it with a policy of two attempts that waits at least that long, which nobody can check from here::

        RetryPolicy(max_attempts=2, initial_interval=10.0, retry_on=retry_on(after=timedelta(seconds=10), effect="read"))

    Args:
        policy: The rules; default: one of `policy_fields`.
        after: The least time that the other side waits before it tries again.
        **policy_fields: What is declared about the node's work, as for `RecoveryPolicy`.

    Raises:
        ConfigError: a field is wrong, or both a policy and fields are given.
    """
    rules = rules_of(policy, policy_fields)

    def may_run_again(error: Exception) -> bool:
        now = rules.now()
        step = rules.next_step(error, 1, now)
        return step.to_do is ToDo.RETRY_AT and step.retry_at is not None and step.retry_at <= now + after

    return may_run_again
