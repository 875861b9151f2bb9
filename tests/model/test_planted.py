"""A bug that is planted in the core is found: otherwise nobody watches the promise that it breaks."""

from __future__ import annotations

import pytest

from tests.model.planted import BUGS, STATES, Bug, find


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    """The explorer shows a history that breaks a promise."""
    broken = find(bug, STATES)
    assert broken is not None
    assert broken.history
