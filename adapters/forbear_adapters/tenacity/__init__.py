"""Retry decorators that obey recovery classes: for tenacity, and a predicate for LangGraph's `RetryPolicy`.

They stand alone: no controller, no store, no run. What has to be remembered between calls (a refusal that stays, an
approval, a wait over minutes) needs a `Controller`.
"""

from __future__ import annotations

from forbear_adapters.tenacity.bridge import Parts, recovery
from forbear_adapters.tenacity.retry_on import retry_on

__all__ = ["Parts", "recovery", "retry_on"]
