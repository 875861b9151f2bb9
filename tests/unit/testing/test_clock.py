"""The clock that tests move, and the ids that they foresee."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from forbear.ports import Clock, Ids
from forbear.testing.clock import ManualClock, SequenceIds

START = datetime(2026, 1, 1, tzinfo=UTC)


NAIVE = datetime(2027, 1, 1)  # noqa: DTZ001 - is refused below


def after(seconds: float) -> datetime:
    """Return the instant so many seconds after the start."""
    return START + timedelta(seconds=seconds)


def test_it_stands_still_until_it_is_moved() -> None:
    """Only `advance` and `set` change the instant, backwards too."""
    clock = ManualClock()
    assert [clock.now(), clock.now()] == [START, START]
    assert clock.advance(1.5) == clock.now() == after(1.5)
    assert clock.advance(timedelta(minutes=1)) == after(61.5)
    assert clock.set(START - timedelta(days=1)) == clock.now() == START - timedelta(days=1)
    assert clock.set(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))).tzinfo is UTC
    assert clock.now() == START


def test_wrong_moves_are_refused() -> None:
    """A naive instant, or a negative step, is a mistake in the test and changes nothing."""
    clock = ManualClock()
    with pytest.raises(ValueError, match="timezone-aware"):
        ManualClock(NAIVE)
    with pytest.raises(ValueError, match="timezone-aware"):
        clock.set(NAIVE)
    with pytest.raises(ValueError, match="negative"):
        clock.advance(-1)
    assert clock.now() == START


async def test_sleeping_tasks_are_woken_in_time_order() -> None:
    """Whoever is due first wakes first, and who is not due goes on sleeping."""
    clock = ManualClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.asleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(*one)) for one in (("c", 3), ("a", 1), ("z", 9), ("b", 2), ("b2", 2))]
    await asyncio.sleep(0)
    assert (clock.sleepers, clock.next_wake_at, woken) == (5, after(1), [])
    clock.advance(3)
    await asyncio.gather(*tasks[:2], *tasks[3:])
    assert woken == ["a", "b", "b2", "c"]
    assert (clock.sleepers, clock.next_wake_at) == (1, after(9))
    clock.advance(5.999)
    await asyncio.sleep(0)
    assert "z" not in woken
    clock.advance(0.001)
    await tasks[2]
    assert (clock.sleepers, clock.next_wake_at) == (0, None)


async def test_no_time_at_all_wakes_at_once() -> None:
    """Zero and negative seconds need no move."""
    clock = ManualClock()
    await clock.asleep(0)
    await clock.asleep(-1)
    clock.sleep(0)
    clock.sleep(-1)
    assert (clock.now(), clock.sleepers) == (START, 0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """Moving the clock later disturbs nobody."""
    clock = ManualClock()
    task = asyncio.create_task(clock.asleep(5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0
    clock.advance(10)


async def test_with_auto_advance_sleeping_moves_the_clock() -> None:
    """Nobody has to move it, and tasks that sleep together wake one by one at their own times."""
    clock = ManualClock(auto_advance=True)
    woken: list[tuple[str, datetime]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.asleep(seconds)
        woken.append((name, clock.now()))

    await sleeper("alone", 2)
    await asyncio.gather(sleeper("late", 30), sleeper("early", 10), sleeper("middle", 20))
    assert [name for name, _ in woken] == ["alone", "early", "middle", "late"]
    assert woken[0][1] == after(2)
    assert clock.now() == after(32)
    clock.sleep(8)
    assert clock.now() == after(40)


def test_a_sleeping_thread_waits_for_another_to_move_the_clock() -> None:
    """`wait_for_sleepers` tells the test when to move it; nobody polls."""
    clock = ManualClock()
    woken: list[datetime] = []

    def sleeper(seconds: float) -> None:
        clock.sleep(seconds)
        woken.append(clock.now())

    threads = [threading.Thread(target=sleeper, args=(seconds,)) for seconds in (5, 1)]
    for thread in threads:
        thread.start()
    clock.wait_for_sleepers(2)
    clock.advance(1)
    threads[1].join()
    assert woken == [after(1)]
    clock.advance(4)
    threads[0].join()
    assert woken == [after(1), after(5)]


def test_a_loop_that_has_ended_does_not_disturb_the_clock() -> None:
    """Who fell asleep on a loop that is closed now is not woken, and the others are."""
    clock = ManualClock()
    loop = asyncio.new_event_loop()
    sleeping = clock.asleep(5)
    # Driven by hand, so that it is still asleep when its loop is gone.
    asyncio.events._set_running_loop(loop)
    future = sleeping.send(None)
    asyncio.events._set_running_loop(None)
    assert clock.sleepers == 1
    loop.close()
    assert clock.advance(5) == after(5)
    assert clock.sleepers == 0
    assert asyncio.isfuture(future)
    assert not future.done()
    sleeping.close()


def test_ids_count() -> None:
    """Each kind counts for itself, in the form of real ids, and two sources can be kept apart."""
    ids: Ids = SequenceIds()
    assert ids.request_id() == "act_" + "0" * 31 + "1"
    assert ids.request_id() == "act_" + "0" * 31 + "2"
    assert ids.ticket() == "tkt_" + "0" * 31 + "1"
    assert ids.owner() == "own_" + "0" * 31 + "1"
    assert SequenceIds(start=255).owner() == "own_" + "0" * 30 + "ff"


def test_it_is_a_clock_of_the_port() -> None:
    """The runtime takes it where it takes the real one."""
    clock: Clock = ManualClock(auto_advance=True)
    clock.sleep(1)
    assert clock.now() == after(1)
