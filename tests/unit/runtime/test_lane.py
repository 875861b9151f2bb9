"""The short way of a declared read gives the same answers and leaves the same state as the whole way."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
from dataclasses import fields, replace
from typing import Any

import pytest

from forbear import Controller, Reply
from forbear.core.states import Completed, Running
from forbear.core.vocabulary import Answer
from forbear.errors import Refused, StoreError
from forbear.runtime.giveback import give_all_back
from forbear.runtime.lane import plain_key
from forbear.runtime.lanes import LaneReply
from forbear.testing.clock import ManualClock, SequenceIds

ANSWERS = [
    {"rows": 1},
    {"rows": 1},
    [1, 2],
    "text",
    0,
    None,
    [],
    {"ok": False, "error": {"code": "DESK_FROZEN", "recovery": "do_not_retry"}},
    Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=30),
    Refused("INPUT_INVALID", recovery="repair_input", invalid_fields=["n"]),
    ValueError("x"),
    ConnectionResetError(),
]


def whole_way(controller: Any) -> None:
    """Close the lane of a controller."""
    controller._asking.lanes.policies = {}


def story(seed: int) -> Any:
    """A random story: what the model, its tools, people and the clock do."""
    rng = random.Random(seed)
    steps = []
    for number in range(rng.randint(3, 40)):
        kind = rng.choices(["read", "write", "turn", "time", "child", "restart", "inbox"], [20, 2, 1, 3, 2, 1, 1])[0]
        steps.append(
            {
                "kind": kind,
                "n": rng.randint(0, 2),
                "answer": rng.choices(ANSWERS, [12, 8, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1])[0],
                "step": f"s{number if rng.random() < 0.6 else rng.randint(0, number)}",
                "call_id": rng.choice([f"c{number}", f"c{rng.randint(0, number)}", None]),
                "siblings": rng.choice([1, 1, 1, 2, 3]),
                "seconds": rng.choice([0.0, 0.2, 0.9, 1.0, 5.0, 40.0]),
                "tool": rng.choice(["find", "look"]),
                "where": rng.choice([{}, {}, {"turn": f"t{rng.randint(0, 2)}"}, {"source": "srv"}, {"forced": True}]),
            }
        )
    return steps


def play(controller: Any, clock: Any, steps: Any, taken: Any) -> Any:
    """Play a story and return what the callers got and what the tools received."""
    got: list[Any] = []
    received: list[Any] = []
    for step in steps:
        kind, answer = step["kind"], step["answer"]

        def tool(answer: Any = answer, **arguments: object) -> object:
            received.append(arguments)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        where = {"step": step["step"], "call_id": step["call_id"], "siblings": step["siblings"]}
        if kind == "turn":
            controller.run("r").new_turn()
        elif kind == "time":
            clock.advance(step["seconds"])
        elif kind == "restart":
            controller.run("r").restarted()
        elif kind == "inbox":
            got.extend(("inbox", ready.rule) for ready in controller.run("r").inbox())
        if kind not in {"read", "child", "write"}:
            continue
        extra = {"run": "kid", "parent": "r"} if kind == "child" else {"run": "r"}
        name = "place" if kind == "write" else step["tool"]
        if kind == "read":
            extra |= step["where"]
        reply = controller.call(name, {"n": step["n"]}, execute=tool, wait=False, **where, **extra)
        taken.append(isinstance(reply, LaneReply))
        got.append(
            (
                reply.answer, reply.rule, reply.envelope.outcome, reply.envelope.code, reply.value, reply.suppressed,
                reply.run, reply.step if step["call_id"] or step["step"] else "", reply.call_id, reply.tool,
                reply.retry_at, reply.ok, reply.for_user(), reply.action,
            )
        )  # fmt: skip
    return got, received


def without_ids(value: Any) -> Any:
    """Return a state without what is random or counts ids."""
    phase = value.phase
    if isinstance(phase, Completed):
        phase = replace(phase, request_id="", told=None)
    elif isinstance(phase, Running):
        phase = replace(phase, open=tuple(replace(one, owner="") for one in phase.open))
    elif hasattr(phase, "told"):
        names = {field.name for field in fields(phase)}
        phase = replace(phase, told=None, **({"ticket": ""} if "ticket" in names else {}))
    return replace(value, phase=phase)


def state(controller: Any) -> Any:
    """Return what the tree holds after everything was given back."""
    live = controller.engine.world.enter("r")
    try:
        give_all_back(live)
        return (
            {key: without_ids(action) for key, action in live.actions.items()},
            dict(live.runs),
            live.tree,
            set(live.holds),
        )
    finally:
        live.lock.release()


def journal(controller: Any) -> Any:
    """Return the journal without what is random; a line that says the beginning of a read too counts as two."""
    controller.engine.world.batch.flush()
    said: list[tuple[str, str, str, int]] = []
    for _, line in controller.store.journal(limit=9999):
        said.append((line.rule, line.action, line.run, line.at_us))
        began = json.loads(line.body).get("began_us")
        if began is not None:
            said.append(("start.executed", line.action, line.run, began))
    return sorted(said)


@pytest.mark.parametrize("block", range(8))
def test_the_lane_and_the_whole_way_agree(opened: Any, block: Any) -> None:
    """In random stories both ways give the same answers, run the same tools and leave the same state and journal."""
    taken: list[bool] = []
    never: list[bool] = []
    for seed in range(block * 40, block * 40 + 40):
        results = []
        for lane in (True, False):
            clock = ManualClock()
            controller = opened(clock=clock, ids=SequenceIds())
            controller.declare("find", "look", effect="read")
            controller.declare("place", effect="write")
            if not lane:
                whole_way(controller)
            got, received = play(controller, clock, story(seed), taken if lane else never)
            exists = controller.engine.world.peek("r") is not None
            results.append((got, received, state(controller) if exists else None, journal(controller)))
            controller.close()
        for one, other in zip(*results, strict=True):
            assert one == other, seed
    assert sum(taken) > 60
    assert not any(never)


@pytest.fixture
def desk(opened: Any) -> Any:
    """Declare a read and a write."""
    controller = opened()
    controller.declare("find", effect="read")
    controller.declare("place", effect="write", target="n")
    return controller


def test_a_plain_read_takes_the_lane_and_commits_nothing(desk: Any, scripted: Any) -> None:
    """A succeeding declared read moves counters in memory only, and is journalled with the next batch."""
    tool = scripted({"rows": 1})
    for n in range(5):
        reply = desk.call("find", {"n": n}, run="r", step=f"s{n}", call_id=f"c{n}", execute=tool)
        assert isinstance(reply, LaneReply)
        assert reply.value is tool.script[0]
    assert desk.store.load("tree:r").version == 0
    rules = [line.rule for _, line in desk.store.journal()]
    assert rules == ["policy.noted"]
    desk.engine.world.batch.flush()
    assert [line.rule for _, line in desk.store.journal()].count("running.returned.completed") == 5


@pytest.mark.parametrize(
    "declared",
    [
        {"repeatable": False},
        {"approval": "always"},
        {"poll": {"status_field": "s", "pending": ["p"]}},
        {"empty_means": "unknown"},
        {"required": ["n"]},
        {"limits": {"replay_completed": 1}},
        {"limits": {"max_calls_per_turn": 9}},
        {"limits": {"timeout": 5}},
        {"mode": "observe"},
        {"operation": "shared"},
    ],
    ids=str,
)
def test_a_policy_that_asks_for_more_goes_the_whole_way(opened: Any, scripted: Any, declared: Any) -> None:
    """What the lane does not do is never skipped."""
    controller = opened()
    controller.declare("find", effect="read", **declared)
    reply = controller.call("find", {"n": 1}, run="r", step="s", call_id="c", execute=scripted(1), wait=False)
    assert not isinstance(reply, LaneReply)


def test_a_hold_that_another_process_places_is_noticed(opened: Any, clock: Any, scripted: Any, tmp_path: Any) -> None:
    """A read on the lane does not start after another process has committed what stops it."""
    one, two = opened(tmp_path / "a.db"), opened(tmp_path / "a.db")
    for controller in (one, two):
        controller.declare("find", effect="read", constraints={"desk": "operation"})
    tool = scripted({"rows": 1})
    assert isinstance(one.call("find", {"n": 1}, run="r", step="a", call_id="a", execute=tool), LaneReply)
    refused = Refused("DESK_FROZEN", constraint="desk", recovery="do_not_retry")
    two.call("find", {"n": 2}, run="r", step="b", call_id="b", execute=scripted(refused))
    reply = one.call("find", {"n": 3}, run="r", step="c", call_id="c", execute=tool)
    assert reply.answer is Answer.BLOCKED
    assert tool.count == 1


def test_equal_reads_of_one_step_in_threads_join_on_the_lane_too(desk: Any) -> None:
    """An equal call that meets an open flight waits for its value."""
    entered, release = threading.Event(), threading.Event()
    runs = []

    def slow(**arguments: object) -> object:
        runs.append(arguments)
        entered.set()
        release.wait(10)
        return {"n": 1}

    desk.call("find", {"n": 0}, run="r", step="0", call_id="0", execute=lambda n: n + 1)
    options = {"run": "r", "step": "s", "siblings": 2, "execute": slow}
    replies = []
    threads = [
        threading.Thread(target=lambda c=c: replies.append(desk.call("find", {"n": 1}, call_id=c, **options)))
        for c in ("a", "b")
    ]
    threads[0].start()
    entered.wait(10)
    threads[1].start()
    while not any(flight._waiting for flight in desk.engine.world.peek("r").flights.values()):
        threads[1].join(0.01)
    release.set()
    for thread in threads:
        thread.join(10)
    assert [reply.value for reply in replies] == [{"n": 1}, {"n": 1}]
    assert sorted(reply.suppressed for reply in replies) == [False, True]
    assert len(runs) == 1


async def test_an_async_read_takes_the_lane_and_its_cancellation_is_committed(desk: Any) -> None:
    """The async lane is the same; a cancelled read may simply be proposed again."""

    async def tool(n: int) -> object:
        if n == 9:
            await asyncio.Event().wait()
        return {"n": n}

    where = {"run": "r", "execute": tool}
    assert isinstance(await desk.acall("find", {"n": 1}, step="a", call_id="a", **where), LaneReply)
    task = asyncio.create_task(desk.acall("find", {"n": 9}, step="b", call_id="b", **where))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [line.rule for _, line in desk.store.journal()][-1] == "running.cancelled.nothing_landed"


def test_a_run_that_starts_inside_a_read_on_the_lane_is_a_child(desk: Any) -> None:
    """The lane marks its calls like the whole way does."""
    desk.call("find", {"n": 0}, run="r", step="0", call_id="0", execute=lambda n: n + 1)
    desk.call("find", {"n": 1}, run="r", step="1", call_id="1", execute=lambda n: desk.run("sub").root)
    assert desk.run("sub").root == "r"


async def test_a_value_is_kept_for_its_step_although_another_call_goes_the_whole_way(desk: Any) -> None:
    """An equal call later in the step gets the object, whatever its siblings did meanwhile."""
    release = asyncio.Event()
    value = {"n": 1}

    async def slow(**_: object) -> object:
        await release.wait()
        return value

    where = {"run": "r", "step": "s", "siblings": 3}
    await desk.acall("find", {"n": 0}, run="r", step="0", call_id="0", execute=lambda **a: 1)
    first = asyncio.create_task(desk.acall("find", {"n": 1}, call_id="a", execute=slow, **where))
    await asyncio.sleep(0)
    await desk.acall("place", {"n": 2}, call_id="b", execute=lambda **a: {"id": 1}, **where)
    release.set()
    assert (await first).value is value
    again = await desk.acall("find", {"n": 1}, call_id="c", execute=slow, **where)
    assert (again.value is value, again.suppressed) == (True, True)


def test_values_of_a_step_are_let_go_with_it(desk: Any) -> None:
    """Memory keeps no results of steps that are over."""
    for n in range(6):
        where = {"run": "r", "step": f"s{n}", "siblings": 2}
        desk.call("find", {"n": n}, call_id=f"a{n}", execute=lambda n: {"big": n}, **where)
        desk.call("place", {"n": n}, call_id=f"b{n}", execute=lambda n: {"id": n}, **where)
    lane = desk.engine.world.peek("r").lane
    assert sum(entry.value is not None for entry in lane.entries.values()) <= 1


def test_no_progress_is_noticed_on_the_lane(desk: Any) -> None:
    """Equal results in a row end at the declared number, on the lane as everywhere."""
    answers = [
        desk.call("find", {"n": 1}, run="r", step=str(n), call_id=str(n), execute=lambda n: {"same": 1}).answer
        for n in range(33)
    ]
    assert answers[:30] == [Answer.EXECUTED] * 30
    assert Answer.EXECUTED not in answers[30:]


def test_the_lane_leaves_no_cyclic_garbage(desk: Any) -> None:
    """A succeeding read leaves nothing for the garbage collector."""
    tool = {"rows": 1}
    for n in range(20):
        desk.call("find", {"n": n}, run="r", step=f"w{n}", call_id=f"w{n}", execute=lambda n: tool)
    gc.collect()
    gc.disable()
    try:
        for n in range(200):
            desk.call("find", {"n": n % 7}, run="r", step=f"s{n}", call_id=f"s{n}", execute=lambda n: tool)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_read_does_not_start_where_its_lines_cannot_be_written(desk: Any, monkeypatch: Any) -> None:
    """Reads stop when the store stops taking their records."""
    from forbear.runtime import batch

    runs = []
    monkeypatch.setattr(batch, "MAX_PENDING_LINES", 10)
    monkeypatch.setattr(desk.store, "commit", lambda change: (_ for _ in ()).throw(StoreError("full")))
    desk.engine.noted["find"] = desk.engine.tools.policy("find").digest

    def read(n: int) -> None:
        desk.call("find", {"n": n}, run="r", step=str(n), call_id=str(n), execute=lambda n: runs.append(n) or 1)

    for n in range(5):
        read(n)
    with pytest.raises(StoreError):
        read(5)
    assert len(runs) == 5
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("one", "other"), [({"a": 1}, {"a": 1.0}), ({"a": 1}, {"a": True}), ({"a": "1"}, {"a": 1}), ({"a": None}, {})]
)
def test_nothing_is_folded_in_the_lanes_keys(one: Any, other: Any) -> None:
    """1, 1.0, true and "1" are four values on the lane too; order does not matter."""
    assert plain_key(one) != plain_key(other)
    assert plain_key({"a": 1, "b": 2}) == plain_key({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, (1,), b"x", float("nan"), float("inf"), 10**5000, object()],
    ids=["list", "dict", "tuple", "bytes", "nan", "infinite", "digits", "object"],
)
def test_what_is_not_flat_goes_the_whole_way(value: Any) -> None:
    """Nested and unusual arguments are none of the lane's business."""
    assert plain_key({"a": value}) is None


def test_the_lane_forgets_and_stays_bounded(desk: Any, monkeypatch: Any) -> None:
    """A long run keeps a bounded number of actions and calls."""
    from forbear.runtime import lane, lanes

    monkeypatch.setattr(lane, "MAX_KEPT", 50)
    monkeypatch.setattr(lanes, "MAX_KEPT", 50)
    for n in range(500):
        desk.call("find", {"n": n}, run="r", step=str(n), call_id=str(n), execute=lambda n: n + 1)
    kept = desk.engine.world.peek("r").lane
    assert len(kept.entries) <= 52
    assert desk.call("find", {"n": 1}, run="r", step="x", call_id="x", execute=lambda n: n + 1).ok


def test_a_reply_of_the_lane_answers_every_question_of_a_reply() -> None:
    """A reply of the short way has every field and every sentence that a reply of the whole way has."""
    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("find", effect="read")
        replies = [controller.call("find", {"id": 1}, run="r", execute=lambda **given: given) for _ in range(2)]
        assert isinstance(replies[-1], LaneReply)
        for reply in replies:
            for one in fields(Reply):
                getattr(reply, one.name)
            assert '"id":1' in reply.for_model().replace(" ", "")
            assert isinstance(reply.for_user(), str)
            assert reply.request_id.startswith("act_")
