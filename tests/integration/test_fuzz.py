"""The fuzz targets with a short profile; `python -m tests.fuzz` runs them long."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_breaks_no_promise(name: str) -> None:
    """No exception, no leak, nothing more permissive, for generated input of every kind."""
    function, strategies = TARGETS[name]
    test = settings(
        max_examples=20 if name == "command line" else 150, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )(given(**strategies)(function))
    test()
