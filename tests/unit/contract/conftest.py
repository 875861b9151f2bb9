"""One short way to classify at a fixed instant, for every test of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

import pytest

from forbear.contract import Counts, Profile, Raw, builtin_catalogue, classify, tool_policy
from forbear.core.policy import ToolPolicy
from forbear.core.values import Envelope

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


class Judge(Protocol):
    """What the fixture `judge` does."""

    def __call__(
        self,
        raw: Raw,
        policy: ToolPolicy | str = "read",
        arguments: Mapping[str, object] | None = None,
        *,
        profile: Profile | None = None,
        counts: Counts | None = None,
    ) -> Envelope:
        """Return what a raw result means; a policy may be named by its effect alone."""
        ...


@pytest.fixture
def now() -> datetime:
    """Return the instant of receipt."""
    return NOW


@pytest.fixture(scope="session")
def judge() -> Judge:
    """Return a function that classifies at `now`."""

    def classified(
        raw: Raw,
        policy: ToolPolicy | str = "read",
        arguments: Mapping[str, object] | None = None,
        *,
        profile: Profile | None = None,
        counts: Counts | None = None,
    ) -> Envelope:
        if isinstance(policy, str):
            policy = tool_policy("tool", effect=policy)
        return classify(
            raw,
            policy=policy,
            arguments=arguments or {},
            now=NOW,
            catalogue=builtin_catalogue(),
            profile=profile,
            counts=counts,
        )

    return classified
