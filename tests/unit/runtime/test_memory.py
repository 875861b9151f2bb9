"""The working set: bounded, brought up to date after others, and never ahead of what the store would say."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from forbear.core.vocabulary import Answer
from forbear.errors import Refused, StaleWrite, StoreError
from forbear.runtime import program
from forbear.runtime.controller import Controller
from forbear.runtime.memory import WorkingSet
from forbear.runtime.places import recover_flow
from forbear.testing.clock import ManualClock, SequenceIds

FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry")


def declare(controller: Any) -> Any:
    """Declare a read and a write."""
    controller.declare("find", effect="read")
    controller.declare("place", effect="write", target="id")
    return controller


@pytest.fixture
def pair(opened: Any, tmp_path: Any) -> Any:
    """Two controllers on one file, as two processes have it."""
    return declare(opened(tmp_path / "a.db")), declare(opened(tmp_path / "a.db"))


def test_what_one_process_was_refused_another_does_not_try(pair: Any, scripted: Any) -> None:
    """A hold that somebody else committed is noticed before the next decision."""
    one, two = pair
    tool = scripted(FROZEN)
    two.call("place", {"id": 2}, run="r", execute=scripted({"id": 1}))
    one.call("place", {"id": 1}, run="r", execute=tool)
    assert two.call("place", {"id": 1}, run="r", execute=tool).answer is Answer.BLOCKED
    assert tool.count == 1


def test_a_race_between_two_processes_has_one_winner(pair: Any, scripted: Any, monkeypatch: Any) -> None:
    """The loser of a race reloads and decides again: one write, whatever was decided on."""
    one, two = pair
    tool = scripted({"id": 1})
    for controller in pair:
        controller.call("find", {"q": 1}, run="r", execute=scripted(1))
    commit = one.store.commit
    raced: list[Any] = []

    def late(change: Any) -> None:
        if not raced:
            raced.append(two.call("place", {"id": 1}, run="r", step="x", execute=tool))
        commit(change)

    monkeypatch.setattr(one.store, "commit", late)
    lost = one.call("place", {"id": 1}, run="r", step="x", execute=tool)
    assert tool.count == 1
    assert raced[0].ok
    assert (lost.answer, lost.value) == (Answer.DELIVERED, {"id": 1})


def test_a_race_that_is_never_won_is_an_error_and_nothing_runs(pair: Any, scripted: Any, monkeypatch: Any) -> None:
    """Decisions are made again a bounded number of times; then the call does not run."""
    one, _ = pair
    tool = scripted(1)
    monkeypatch.setattr(program, "MAX_RACES", 3)
    tried = []

    def stale(change: Any) -> None:
        tried.append(change)
        raise StaleWrite("somebody else")

    one.call("place", {"id": 9}, run="r", execute=scripted(1))
    monkeypatch.setattr(one.store, "commit", stale)
    with pytest.raises(StoreError, match="races"):
        one.call("place", {"id": 1}, run="r", execute=tool)
    assert len(tried) == 3
    assert tool.count == 0


def test_reads_that_only_memory_knows_survive_a_reload(pair: Any, scripted: Any) -> None:
    """A reload takes what others stored, and keeps the reads that nobody else needs to know of."""
    one, two = pair
    two.call("place", {"id": 1}, run="r", step="0", execute=scripted(1))
    value = {"rows": 1}
    tool = scripted(value)
    one.call("find", {"q": 1}, run="r", step="s", call_id="a", siblings=2, execute=tool)
    two.call("place", {"id": 2}, run="r", step="1", execute=scripted(1))
    again = one.call("find", {"q": 1}, run="r", step="s", call_id="b", siblings=2, execute=tool)
    assert (again.value is value, again.suppressed) == (True, True)
    assert tool.count == 1


def test_counters_of_reads_reach_the_store_with_the_next_commit(opened: Any, scripted: Any, tmp_path: Any) -> None:
    """What reads changed in memory is stored with the next commit of their tree."""
    one = declare(opened(tmp_path / "a.db"))
    for n in range(3):
        one.call("find", {"q": n}, run="r", step=str(n), call_id=str(n), execute=scripted(1))
    one.call("place", {"id": 1}, run="r", execute=scripted(1))
    two = declare(opened(tmp_path / "a.db"))
    live = two.engine.world.enter("r")
    live.lock.release()
    assert two.run("r").halted is False
    assert two.engine.world.peek("r").runs["r"].calls_in_run == 4


def test_trees_beyond_the_bound_are_dropped_and_read_again(opened: Any, scripted: Any) -> None:
    """Memory is bounded; a dropped tree is what the store says."""
    controller = declare(opened())
    world = controller.engine.world = WorkingSet(controller.store, controller.engine.clock, max_trees=4)
    tool = scripted(FROZEN)
    controller.call("place", {"id": 1}, run="first", execute=tool)
    for n in range(12):
        controller.call("place", {"id": n}, run=f"r{n}", execute=scripted(1))
    assert world.peek("first") is None
    assert sum(world.peek(f"r{n}") is not None for n in range(12)) <= 4
    assert controller.call("place", {"id": 1}, run="first", execute=tool).answer is Answer.BLOCKED
    assert tool.count == 1


def test_a_tree_with_an_open_attempt_is_not_dropped(opened: Any, scripted: Any) -> None:
    """Somebody may join an open attempt, so its tree stays."""
    controller = declare(opened())
    world = controller.engine.world = WorkingSet(controller.store, controller.engine.clock, max_trees=2)
    opened_call = controller.propose("place", {"id": 1}, run="busy")
    for n in range(6):
        controller.call("place", {"id": n}, run=f"r{n}", execute=scripted(1))
    assert world.peek("busy") is not None
    assert controller.settle(opened_call.attempt, {"done": 1}).value == {"done": 1}


def test_a_long_run_keeps_a_bounded_number_of_actions(opened: Any, scripted: Any, monkeypatch: Any) -> None:
    """Completed actions of a long run leave memory and are fetched by key when they are met again."""
    from forbear.runtime import live

    monkeypatch.setattr(live, "MAX_REMEMBERED", 20)
    controller = opened()
    controller.declare("place", effect="write", repeatable=False)
    tool = scripted({"id": 1})
    for n in range(60):
        controller.call("place", {"id": n}, run="r", step=str(n), call_id=str(n), execute=tool)
    tree = controller.engine.world.peek("r")
    assert len(tree.actions) <= 21
    assert len(tree.known) <= 21
    again = controller.call("place", {"id": 0}, run="r", step="0", call_id="0", execute=tool)
    assert (again.answer, again.value) == (Answer.DELIVERED, {"id": 1})
    assert controller.call("place", {"id": 1}, run="r", step="x", execute=tool).answer is Answer.DELIVERED
    assert tool.count == 60


def test_many_threads_on_one_run_lose_nothing(opened: Any) -> None:
    """Decisions about one tree are serialised; every call gets its own answer."""
    controller = declare(opened())
    landed = []

    def work(n: Any) -> None:
        for k in range(10):
            reply = controller.call(
                "place",
                {"id": f"{n}-{k}"},
                run="r",
                step=f"{n}-{k}",
                execute=lambda **a: landed.append(a["id"]) or a["id"],
            )
            assert reply.value == f"{n}-{k}"

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(landed) == len(set(landed)) == 60
    assert controller.engine.world.peek("r").tree.writes == 60


def test_many_threads_on_trees_of_one_principal_lose_nothing(opened: Any) -> None:
    """Trees that share quotas race for the principal's rows and decide again."""
    controller = opened()
    controller.declare("send", effect="write", quota="mail")
    later = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=600)
    answers = []

    def refuse(**_: Any) -> None:
        raise later

    def work(n: Any) -> None:
        answers.append(controller.call("send", {"n": n}, run=f"r{n}", principal="acct", execute=refuse).answer)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [Answer.PENDING] * 8
    assert len([row for row in controller.store.load("principal:acct").rows if row.kind == "hold"]) == 1


def test_a_living_controller_sees_what_a_dead_one_left(tmp_path: Any, scripted: Any) -> None:
    """A process that dies between start and result leaves an unknown write for the others."""
    clock = ManualClock()
    one = declare(Controller.open(tmp_path / "a.db", clock=clock, ids=SequenceIds(), worker=False))
    two = declare(Controller.open(tmp_path / "a.db", clock=clock, ids=SequenceIds(start=900), worker=False))
    one.propose("place", {"id": 1}, run="r")
    one.store.close()
    two.work()
    assert two.call("place", {"id": 1}, run="r", execute=scripted(1)).envelope.code == "OUTCOME_UNKNOWN"
    two.close()


def test_no_call_is_decided_before_what_died_in_its_tree_is_noticed(tmp_path: Any, scripted: Any) -> None:
    """While one call takes notice of a dead attempt, another one beside it does so itself, and is told the truth."""
    clock = ManualClock()
    one = declare(Controller.open(tmp_path / "a.db", clock=clock, ids=SequenceIds(), worker=False))
    one.propose("place", {"id": 1}, run="r", step="s", call_id="c")
    one.store.close()
    two = declare(Controller.open(tmp_path / "a.db", clock=clock, ids=SequenceIds(start=900), worker=False))
    beside = recover_flow(two.engine, "r")
    next(beside)
    again = two.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=scripted(1))
    assert (again.answer, again.envelope.code) == (Answer.BLOCKED, "OUTCOME_UNKNOWN")
    assert not two.engine.lost
    two.close()
