"""A store that cannot be written: a governed call does not run, and what ran already is committed later."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from forbear.core.vocabulary import Answer, Executed
from forbear.errors import SchemaTooNew, StoreError, UsageError
from forbear.observe import Event, Notice, Severity, Unrecorded


class Broken:
    """Makes commits of a store fail while it is on."""

    def __init__(self, store: Any, monkeypatch: Any) -> None:
        self.on = False
        self._commit = store.commit
        monkeypatch.setattr(store, "commit", self.commit)

    def commit(self, change: Any) -> None:
        if self.on:
            raise StoreError("the store's file must have free space")
        self._commit(change)


@pytest.fixture
def desk(controller: Any) -> Any:
    """Declare a read and a write."""
    controller.declare("find", effect="read")
    controller.declare("place", effect="write", target="id")
    return controller


@pytest.fixture
def broken(desk: Any, monkeypatch: Any) -> Any:
    """Return what breaks the store."""
    return Broken(desk.store, monkeypatch)


def test_a_call_does_not_run_where_nothing_can_be_committed(desk: Any, broken: Any, scripted: Any) -> None:
    """Commit first: without a commit the tool is not called."""
    tool = scripted(1)
    broken.on = True
    with pytest.raises(StoreError):
        desk.call("place", {"id": 1}, run="r", execute=tool)
    reply = desk.call("place", {"id": 1}, run="r", execute=tool, on_broken="block")
    assert (reply.answer, reply.envelope.code, reply.envelope.executed) == (
        Answer.BLOCKED,
        "CONTROLLER_BROKEN",
        Executed.NO,
    )
    assert "CONTROLLER_BROKEN" in reply.for_model()
    assert desk.propose("place", {"id": 1}, run="r", on_broken="block").attempt is None
    assert tool.count == 0
    broken.on = False
    assert desk.call("place", {"id": 1}, run="r", execute=tool).ok


async def test_the_same_in_a_task(desk: Any, broken: Any, scripted: Any) -> None:
    """The async ways fail closed too."""
    broken.on = True
    tool = scripted(1)
    with pytest.raises(StoreError):
        await desk.acall("place", {"id": 1}, run="r", execute=tool)
    assert (await desk.apropose("place", {"id": 1}, run="r", on_broken="block")).answer is Answer.BLOCKED
    assert tool.count == 0


def test_a_result_that_could_not_be_stored_is_committed_before_the_next_decision(
    desk: Any, broken: Any, scripted: Any
) -> None:
    """What ran is not forgotten: its end is kept, and committed first when the store works again."""
    tool = scripted({"id": 7})

    def running(**arguments: Any) -> Any:
        broken.on = True
        return tool(**arguments)

    reply = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=running, on_broken="block")
    assert (reply.answer, reply.value) == (Answer.EXECUTED, {"id": 7})
    with pytest.raises(StoreError):
        desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    broken.on = False
    again = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    assert (again.answer, again.value) == (Answer.DELIVERED, {"id": 7})
    assert tool.count == 1


def test_an_interrupt_goes_on_although_its_end_could_not_be_stored(desk: Any, broken: Any, scripted: Any) -> None:
    """KeyboardInterrupt is never swallowed; the write is unknown as soon as that can be said."""

    def running(**_: Any) -> None:
        broken.on = True
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.call("place", {"id": 1}, run="r", execute=running)
    broken.on = False
    assert desk.call("place", {"id": 1}, run="r", execute=scripted(1)).envelope.code == "OUTCOME_UNKNOWN"


def test_an_observed_tool_runs_although_nothing_can_be_recorded(opened: Any, scripted: Any, monkeypatch: Any) -> None:
    """Observe mode changes nothing at all, not even where it is broken."""
    controller = opened(mode="observe")
    controller.declare("place", effect="write")
    controller.call("place", {"id": 0}, run="r", execute=scripted(1))
    broken = Broken(controller.store, monkeypatch)
    broken.on = True
    tool = scripted({"id": 1}, ValueError("x"))
    assert controller.call("place", {"id": 1}, run="r", execute=tool).value == {"id": 1}
    assert controller.call("place", {"id": 2}, run="r", execute=tool).answer is Answer.EXECUTED
    assert tool.count == 2


def test_a_wrong_word_for_on_broken_is_an_error(desk: Any, scripted: Any) -> None:
    """The two ways are named."""
    with pytest.raises(UsageError, match="on_broken"):
        desk.call("place", {"id": 1}, run="r", execute=scripted(1), on_broken="ignore")


def test_a_callback_that_raises_loses_nothing(desk: Any, clock: Any, scripted: Any) -> None:
    """A failing on_ready is a warning; the result stays in the inbox."""
    from forbear.errors import Refused

    def fail(_reply: Any) -> None:
        raise ValueError("secret-text")

    desk.engine.on_ready = fail
    desk.bind("place", scripted(Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60), {"id": 1}))
    desk.call("place", {"id": 1}, run="r")
    clock.advance(75)
    with pytest.warns(RuntimeWarning, match="on_ready raised ValueError") as caught:
        desk.work()
    assert "secret-text" not in str(caught[0].message)
    assert [reply.value for reply in desk.run("r").inbox()] == [{"id": 1}]


def test_what_an_application_passes_is_checked(opened: Any, tmp_path: Any) -> None:
    """A naive clock, an unknown mode, an unknown store and a newer database are clear errors."""
    from datetime import datetime

    class Naive:
        def now(self) -> Any:
            return datetime(2026, 1, 1)  # noqa: DTZ001 - naive on purpose

    with pytest.raises(UsageError, match="timezone"):
        opened(clock=Naive())
    with pytest.raises(UsageError, match="mode"):
        opened(mode="perhaps")
    with pytest.raises(UsageError, match="nosuch"):
        opened("nosuch://host/db")
    opened(tmp_path / "a.db").close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("INSERT INTO schema_version VALUES (999, 'before')")
    connection.close()
    with pytest.raises(SchemaTooNew):
        opened(tmp_path / "a.db")


def test_a_closed_controller_can_be_closed_again_and_decides_nothing(desk: Any, scripted: Any) -> None:
    """Closing twice is harmless; after it nothing runs."""
    tool = scripted(1)
    desk.call("find", {"q": 1}, run="r", step="a", call_id="a", execute=tool)
    desk.close()
    desk.close()
    for name in ("find", "place"):
        with pytest.raises(StoreError):
            desk.call(name, {"id": 1}, run="r", step="b", call_id="b", execute=tool)
    assert tool.count == 1


async def test_the_controller_is_a_context_manager_both_ways(tmp_path: Any, scripted: Any) -> None:
    """`with` and `async with` close it."""
    from forbear import Controller

    with Controller.open(tmp_path / "a.db") as controller:
        controller.declare("find", effect="read")
    async with Controller.open(tmp_path / "a.db") as controller:
        controller.declare("find", effect="read")
        assert (await controller.acall("find", {}, run="r", execute=scripted(1))).ok
    with pytest.raises(StoreError):
        controller.store.load("tree:r")


def test_observers_are_told_of_a_call_about_which_nothing_could_be_decided(
    opened: Any, monkeypatch: Any, scripted: Any
) -> None:
    """Blocked, run but unrecorded, or only observed: each is one notice, an error, with closed words and ids."""
    told: list[Notice] = []

    class Watching:
        def observe(self, notice: Notice) -> None:
            told.append(notice)

    desk = opened(observer=Watching())
    desk.declare("place", effect="write", target="id")
    broken = Broken(desk.store, monkeypatch)
    broken.on = True
    reply = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=scripted(1), on_broken="block")
    (notice,) = told
    assert (notice.event, notice.severity, notice.rule) == (Event.BROKEN, Severity.ERROR, Unrecorded.PROPOSED)
    assert (notice.tool, notice.answer, notice.code) == ("place", Answer.BLOCKED, "CONTROLLER_BROKEN")
    assert (notice.request_id, notice.run, notice.call_id) == (reply.request_id, "r", "c")
    assert reply.rule == notice.rule
    broken.on = False
    told.clear()

    def breaks(**_arguments: Any) -> int:
        broken.on = True
        return 1

    desk.call("place", {"id": 2}, run="r", execute=breaks, on_broken="block")
    assert [one.event for one in told] == [Event.STARTED, Event.BROKEN]
    assert (told[-1].rule, told[-1].answer, told[-1].attempt) == (Unrecorded.RETURNED, Answer.EXECUTED, 1)
    told.clear()
    desk.declare("watched", mode="observe")
    assert desk.call("watched", {}, run="r", execute=scripted(5)).value == 5
    assert [(one.event, one.rule, one.starts) for one in told] == [(Event.BROKEN, Unrecorded.PROPOSED, True)]
