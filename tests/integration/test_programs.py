"""Healthy agent programs run under the controller exactly as they run without it."""

from __future__ import annotations

import pytest

from tests.integration.programs import PROGRAMS, Program, bare, executed, governed

CASES = [
    pytest.param(program, way == "labelled", id=f"{program.name}, {way}")
    for program in PROGRAMS
    for way in program.ways
]


@pytest.mark.parametrize(("program", "labelled"), CASES)
def test_a_loop_runs_as_it_does_without_a_controller(program: Program, labelled: bool) -> None:
    """Every call that the model makes runs, once, in order, with labels and with nothing declared."""
    assert executed(program, labelled=labelled, seconds=1.5) == bare(program)


@pytest.mark.parametrize(("program", "labelled"), CASES)
def test_functions_run_as_they_do_without_a_controller(program: Program, labelled: bool) -> None:
    """The same with governed functions, each call being a step of its own."""
    assert governed(program, labelled=labelled, seconds=1.5) == bare(program)


def test_there_are_thirty() -> None:
    """The programs are at least thirty, and all but a few run without labels too."""
    assert len(PROGRAMS) >= 30
    assert sum("undeclared" in program.ways for program in PROGRAMS) >= 30
