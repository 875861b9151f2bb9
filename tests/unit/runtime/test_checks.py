"""Checks that take no arguments: they look at the one thing there is, and their answer names the write."""

from __future__ import annotations

from typing import Any

import pytest

from forbear.core.vocabulary import Answer, Outcome

VERSION = {"tool": "version", "applied_if": {"field": "v", "equals": "to"}}


def version_is(number: int) -> Any:
    """Return a check without parameters."""

    def version() -> object:
        return {"v": number}

    return version


@pytest.fixture
def desk(controller: Any, scripted: Any) -> Any:
    """Declare a migration whose check takes no arguments, and time it out."""
    controller.declare("migrate", effect="write", repeatable=False, target="to", inspect=VERSION)
    controller.declare("version", effect="read")
    reply = controller.call("migrate", {"to": 7}, run="r", execute=scripted(TimeoutError()))
    assert reply.envelope.outcome is Outcome.UNKNOWN
    return controller


def test_the_controller_runs_a_check_that_takes_no_arguments(desk: Any, clock: Any) -> None:
    """Its answer is compared with the write, so that nothing has to be handed to it."""
    desk.bind("version", version_is(7))
    clock.advance(60)
    desk.work()
    again = desk.call("migrate", {"to": 7}, run="r", execute=version_is(0))
    assert again.answer is Answer.DELIVERED


@pytest.mark.parametrize(("found", "answer"), [(7, Answer.DELIVERED), (6, Answer.BLOCKED)])
def test_a_look_without_arguments_that_finds_the_write_is_proof(desk: Any, found: int, answer: Answer) -> None:
    """Finding is proof; not finding counts only twice."""
    desk.call("version", {}, run="r", execute=version_is(found))
    assert desk.call("migrate", {"to": 7}, run="r", execute=version_is(0)).answer is answer


@pytest.mark.parametrize("takes_nothing", [True, False])
def test_a_look_without_arguments_is_absence_only_of_a_tool_that_takes_none(
    desk: Any, clock: Any, scripted: Any, takes_nothing: bool
) -> None:
    """A tool that takes arguments may have shown its first page of something else."""
    look = version_is(6) if takes_nothing else scripted({"v": 6})
    desk.bind("version", look)
    for _ in range(2):
        desk.call("version", {}, run="r", execute=look)
        clock.advance(30)
    tool = scripted({"v": 7})
    reply = desk.call("migrate", {"to": 7}, run="r", execute=tool)
    assert (tool.count == 1) is takes_nothing
    assert (reply.answer is Answer.EXECUTED) is takes_nothing


def test_existence_needs_arguments(controller: Any, clock: Any, scripted: Any) -> None:
    """That anything is there says nothing about this write."""
    controller.declare("lock", effect="write", target="name", inspect={"tool": "locks", "applied_if": "non_empty"})
    controller.declare("locks", effect="read")
    controller.bind("locks", version_is(1))
    controller.call("lock", {"name": "a"}, run="r", execute=scripted(TimeoutError()))
    controller.call("locks", {}, run="r", execute=version_is(1))
    clock.advance(60)
    controller.work()
    assert controller.call("lock", {"name": "a"}, run="r", execute=version_is(1)).answer is Answer.BLOCKED
