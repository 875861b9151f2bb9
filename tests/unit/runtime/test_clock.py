"""The real clock and the real ids, with a machine's clock that the test turns."""

from __future__ import annotations

import asyncio
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forbear.ports import Clock, Ids
from forbear.runtime.clock import SystemClock, SystemIds


class Machine:
    """A machine whose wall clock can be turned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ns = 1_767_225_600_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: self.ns)

    def turn(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


def test_now_is_the_machines_time_in_utc(tmp_path: Path) -> None:
    """An aware instant near the one that the file system stamped on a new folder."""
    stamped = datetime.fromtimestamp(tmp_path.stat().st_mtime, UTC)
    now = SystemClock().now()
    assert abs(now - stamped) < timedelta(minutes=5)
    assert now.tzinfo is UTC


def test_now_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that has not come is never reported as reached."""
    machine = Machine(monkeypatch)
    machine.ns += 1_999
    assert SystemClock().now() == datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


def test_a_clock_that_jumps_back_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last instant stays until the machine has caught up, and each jump is reported once with its size."""
    machine = Machine(monkeypatch)
    jumps: list[timedelta] = []
    clock = SystemClock(on_jump_back=jumps.append)
    first = clock.now()
    machine.turn(-10)
    assert [clock.now(), clock.now()] == [first, first]
    machine.turn(9)
    assert clock.now() == first
    machine.turn(-20)
    assert clock.now() == first
    assert jumps == [timedelta(seconds=10), timedelta(seconds=20)]
    machine.turn(22)
    assert clock.now() == first + timedelta(seconds=1)
    assert len(jumps) == 2


def test_a_jump_back_needs_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a callback the clock is held all the same."""
    machine = Machine(monkeypatch)
    clock = SystemClock()
    first = clock.now()
    machine.turn(-1)
    assert clock.now() == first


def test_sleeping_takes_real_time_and_never_a_negative_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of sleeping pass their seconds on, and a time that has passed is no time."""
    slept: list[float] = []
    real = asyncio.sleep

    async def asleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(asyncio, "sleep", asleep)
    clock: Clock = SystemClock()
    for seconds in (1.5, 0.0, -3.0):
        clock.sleep(seconds)
        asyncio.run(clock.asleep(seconds))
    assert slept == [1.5, 1.5, 0.0, 0.0, 0.0, 0.0]


def test_ids_have_their_form_and_never_repeat() -> None:
    """A prefix and 128 bits in hex, beyond the end of a pool too."""
    ids: Ids = SystemIds()
    made = [make() for _ in range(300) for make in (ids.request_id, ids.ticket, ids.owner)]
    assert len(set(made)) == 900
    assert len({one[4:] for one in made}) == 900
    assert all(re.fullmatch("(act|tkt|own)_[0-9a-f]{32}", one) for one in made)
    assert {one[:4] for one in made} == {"act_", "tkt_", "own_"}


def test_threads_never_get_the_same_id() -> None:
    """A pool is shared by the threads of a process and each of its bytes is used once."""
    ids = SystemIds()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ids.ticket(), range(4000)))
    assert len(set(made)) == 4000


def test_a_forked_child_never_repeats_its_parents_ids() -> None:
    """Parent and child start from the same pool in memory, and yet share no id."""
    ids = SystemIds()
    ids.ticket()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "".join(ids.ticket() for _ in range(3)).encode())
        os._exit(0)
    os.close(write)
    theirs = os.read(read, 1000).decode()
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
    assert len(theirs) == 3 * 36
    assert not any(ids.ticket() in theirs for _ in range(3))


def test_every_random_byte_serves_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids share no byte: each has 128 bits of its own, across the end of a pool."""
    given: list[bytes] = []

    def urandom(size: int) -> bytes:
        start = len(b"".join(given)) // 2
        given.append(b"".join(number.to_bytes(2) for number in range(start, start + size // 2)))
        return given[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    ids = SystemIds()
    made = "".join(ids.ticket().removeprefix("tkt_") for _ in range(600))
    assert len(given) > 1
    assert b"".join(given).hex().startswith(made)
