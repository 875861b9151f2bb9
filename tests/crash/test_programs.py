"""Every program, every effect: die before and after it, start again on the same store, and replay the run.

Checked on the world (what the tools received, and when), not on what our own code says about it: no lost refusal, no
second write, no unasked start, no retry before its time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from forbear.core.vocabulary import Answer
from forbear.errors import Refused, UsageError
from forbear.runtime.controller import Controller
from forbear.runtime.memory import WorkingSet
from forbear.runtime.operator import Operator
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds

WAIT = 60


class Died(BaseException):
    """The process is gone."""


class DyingWorld(WorkingSet):
    """Performs effects until it dies; nothing is performed after that."""

    at: int | None
    after: bool
    performed: int
    dead: bool

    def arm(self, at: int | None, *, after: bool) -> None:
        """Die at the effect with this number."""
        self.at, self.after, self.performed, self.dead = at, after, 0, False

    def perform(self, effect: Any) -> Any:
        if self.dead:
            raise Died
        if self.performed == self.at and not self.after:
            self.dead = True
            raise Died
        done = super().perform(effect)
        if self.performed == self.at:
            self.dead = True
            raise Died
        self.performed += 1
        return done


@dataclass
class Outside:
    """The world: what every tool received and when, and what it answers."""

    clock: ManualClock
    # What each tool answers, per execution of one set of arguments; the last one stays.
    answers: dict[str, list[object]]
    # Idempotency keys that came with each set of arguments.
    keys: dict[str, set[object]] = field(default_factory=dict)
    received: list[tuple[str, str, datetime]] = field(default_factory=list)
    grants: int = 0

    def tool(self, name: str) -> Callable[..., object]:
        def run(**arguments: object) -> object:
            key = repr(sorted((k, v) for k, v in arguments.items() if k != "idem"))
            script = self.answers[name]
            answer = script[min(self.count(name, key), len(script) - 1)]
            self.received.append((name, key, self.clock.now()))
            if "idem" in arguments:
                self.keys.setdefault(key, set()).add(arguments["idem"])
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return run

    def count(self, name: str, key: str | None = None) -> int:
        return sum(1 for seen, what, _ in self.received if seen == name and key in {None, what})

    def times(self, name: str) -> list[datetime]:
        return [at for seen, _, at in self.received if seen == name]


# ---- stories --------------------------------------------------------------------------------------------------------

LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=WAIT)
NEVER = Refused("DESK_FROZEN", recovery="do_not_retry")
REPAIR = Refused("INPUT_INVALID", recovery="repair_input", invalid_fields=["n"])
ASKS = Refused("APPROVAL_REQUIRED", recovery="request_approval")


def declare(controller: Controller, outside: Outside) -> None:
    """Declare every kind of tool and bind it to the world."""
    controller.declare("find", effect="read", input_fields=["to"])
    controller.declare("write", effect="write", target="to", inspect={"tool": "find", "applied_if": "non_empty"})
    controller.declare("plain", effect="write", target="to")
    controller.declare("keyed", effect="write", idempotency_key="idem")
    controller.declare("gated", effect="write", target="to", approval="always")
    controller.declare("loose")
    for name in outside.answers:
        controller.bind(name, outside.tool(name))


def call(controller: Any, name: Any, n: Any = 1, *, to: Any = "a", run: Any = "r", **where: Any) -> Any:
    """Make one call; the same call again is a replay."""
    step = f"{run}-{name}-{n}"
    where = {"step": step, "call_id": step, **where}
    return controller.call(name, {"to": to, "n": n}, run=run, wait=False, **where)


def prompt(operator: Any) -> Any:
    """Return the open prompt, if there is one."""
    return next((one for one in operator.pending() if one.kind == "approval"), None)


def answered(outside: Outside, answer: Callable[[Operator, Any], object]) -> Any:
    """A person answers the open prompt, if there is one, and says so once."""

    def step(controller: Any) -> None:
        operator = Operator(controller)
        asked = prompt(operator)
        if asked is not None:
            outside.grants += 1
            answer(operator, asked)

    return step


def pass_time(seconds: float) -> Any:
    """Return a step in which time passes."""

    def step(controller: Any) -> None:
        controller.engine.clock.advance(seconds)

    return step


def work(controller: Any) -> None:
    """Do what is due."""
    controller.work()


def stories(outside: Outside) -> dict[str, list[Callable[[Controller], object]]]:
    """Return the stories: what one run does, step by step."""
    approve = answered(outside, lambda operator, asked: operator.approve(asked.ticket, asked.fingerprint))
    deny = answered(outside, lambda operator, asked: operator.deny(asked.ticket, asked.fingerprint))
    revise = answered(outside, lambda operator, asked: operator.revise(asked.ticket, asked.fingerprint, note="Less."))
    edit = answered(
        outside, lambda operator, asked: operator.edit(asked.ticket, asked.fingerprint, {"to": "z", "n": 5})
    )

    def resolve(controller: Any) -> None:
        operator = Operator(controller)
        for one in operator.pending():
            if one.kind == "unknown":
                operator.resolve(one.ticket, "applied")

    def lift(controller: Any) -> None:
        operator = Operator(controller)
        for one in operator.pending():
            if one.kind == "hold":
                operator.lift(one.ticket)

    return {
        "completed": [lambda c: call(c, "plain"), lambda c: c.run("r").inbox()],
        "child": [
            lambda c: call(c, "find"),
            lambda c: call(c, "plain", run="child", parent="r"),
            lambda c: call(c, "plain", n=2, run="own", principal="acct"),
        ],
        "turns": [lambda c: call(c, "plain", turn="t1"), lambda c: c.run("r").new_turn(), lambda c: call(c, "find")],
        "refused": [lambda c: call(c, "plain"), lambda c: call(c, "plain", n=2), lambda c: call(c, "plain", n=3)],
        "repaired": [lambda c: call(c, "plain"), lambda c: call(c, "plain", n=2)],
        "waits": [lambda c: call(c, "plain"), pass_time(WAIT + 13), work, lambda c: c.run("r").inbox()],
        "undeclared": [lambda c: call(c, "loose"), lambda c: call(c, "loose", n=2)],
        "unknown": [lambda c: call(c, "plain"), lambda c: call(c, "plain", n=2), resolve],
        "inspected": [lambda c: call(c, "write"), pass_time(2), work, pass_time(60), work],
        "absent": [lambda c: call(c, "write"), pass_time(2), work, pass_time(60), work],
        "keyed": [lambda c: call(c, "keyed"), pass_time(WAIT + 13), work, lambda c: call(c, "keyed", n=2)],
        "granted": [lambda c: call(c, "gated"), approve, work, lambda c: c.run("r").inbox()],
        "denied": [lambda c: call(c, "gated"), deny, work, lambda c: call(c, "gated", n=2), lift],
        "revised": [lambda c: call(c, "gated"), revise, work],
        "edited": [lambda c: call(c, "gated"), edit, work],
        "expired": [lambda c: call(c, "gated"), pass_time(90_000), work],
        "tool_asks": [lambda c: call(c, "plain"), approve, work],
        "cancelled": [lambda c: call(c, "plain"), lambda c: c.run("r").cancel(), pass_time(WAIT + 13), work],
        "restarted": [lambda c: call(c, "plain"), lambda c: c.run("r").restarted(), lambda c: call(c, "plain")],
        "reconnected": [lambda c: call(c, "plain"), lambda c: c.run("r").reconnected(), work],
        "reads": [lambda c, n=n: call(c, "find", n=n) for n in range(3)],
    }


ANSWERS: dict[str, dict[str, list[object]]] = {
    "refused": {"plain": [NEVER]},
    "repaired": {"plain": [REPAIR, {"ok": 1}]},
    "waits": {"plain": [LATER, {"id": 1}]},
    "undeclared": {"loose": [NEVER]},
    "unknown": {"plain": [TimeoutError()]},
    "inspected": {"write": [TimeoutError()], "find": [[{"to": "a"}]]},
    "absent": {"write": [TimeoutError()], "find": [[]]},
    "keyed": {"keyed": [LATER, {"id": 1}]},
    "tool_asks": {"plain": [ASKS, {"id": 1}]},
    "cancelled": {"plain": [LATER, {"id": 1}]},
    "reconnected": {"plain": [ConnectionRefusedError(), {"id": 1}]},
}
USUAL: dict[str, list[object]] = {name: [{"id": 1}] for name in ("find", "write", "plain", "keyed", "gated", "loose")}
# At most so many executions of one write, whatever dies: one retry after a wait or a grant, else one.
MOST = {"waits": 2, "tool_asks": 2, "cancelled": 1, "reconnected": 2}
STORIES = sorted(stories(Outside(ManualClock(), {})))


class Case:
    """One story on one store, through the deaths of its processes."""

    def __init__(self, name: str, path: Any) -> None:
        self.name = name
        self.clock = ManualClock()
        self.outside = Outside(self.clock, {**USUAL, **ANSWERS.get(name, {})})
        self.steps = stories(self.outside)[name]
        self.store = open_sqlite(path, clock=self.clock)
        self.opened = 0

    def start(self, at: int | None = None, *, after: bool = False) -> Controller:
        self.opened += 1
        controller = Controller.open(
            store=self.store, clock=self.clock, ids=SequenceIds(start=self.opened * 100_000), worker=False
        )
        world = DyingWorld(self.store, self.clock)
        world.evidence = controller.engine.world.evidence
        world.arm(at, after=after)
        controller.engine.world = world
        declare(controller, self.outside)
        return controller

    def run(self, controller: Controller) -> bool:
        """Play the story; False = the process died in it."""
        try:
            for step in self.steps:
                step(controller)
        except Died:
            self.store.release(controller.engine.owner)
            return False
        return True

    def check(self) -> None:
        """Check the promises on what the world has seen."""
        most = MOST.get(self.name, 1)
        writes = Counter((name, key) for name, key, _ in self.outside.received if name not in {"find", "keyed"})
        if self.name == "absent":
            # Each verdict "nothing landed" lets the run ask for it once more.
            most = 1 + sum(line.rule == "unknown.inspected.not_applied" for _, line in self.store.journal(limit=9999))
        assert all(count <= most for count in writes.values()), writes
        # A repetition of a keyed write carries the same key: the other side does it once.
        assert all(len(keys) == 1 for keys in self.outside.keys.values()), self.outside.keys
        if self.name == "refused":
            assert self.outside.count("plain") <= 1
        if self.name in {"denied", "revised", "expired"}:
            assert self.outside.count("gated") == 0
        if self.name in {"granted", "edited", "tool_asks"}:
            extra = 1 if self.name == "tool_asks" else 0
            assert self.outside.count("gated") + self.outside.count("plain") <= self.outside.grants + extra
        if self.name in {"waits", "keyed"}:
            times = self.outside.times("plain" if self.name == "waits" else "keyed")
            if len(times) >= 2 and self.name == "waits":
                assert times[1] - times[0] >= timedelta(seconds=WAIT)


def effects_of(name: str) -> int:
    """Return how many effects a story has, and check it when nobody dies."""
    case = Case(name, ":memory:")
    controller = case.start()
    assert case.run(controller)
    case.check()
    performed = world_of(controller).performed
    case.store.close()
    return performed


def world_of(controller: Controller) -> DyingWorld:
    """Return the mortal working set of a controller."""
    world = controller.engine.world
    assert isinstance(world, DyingWorld)
    return world


@pytest.mark.parametrize("name", STORIES)
def test_dying_at_any_effect_breaks_no_promise(name: Any) -> None:
    """Die before and after each effect, restart on the same store, replay the run twice: every promise holds."""
    total = effects_of(name)
    assert total > 3
    for at in range(total):
        for after in (False, True):
            case = Case(name, ":memory:")
            assert not case.run(case.start(at, after=after)), (name, at)
            for _ in range(2):
                controller = case.start()
                assert case.run(controller), (name, at, after)
                case.check()
                case.store.release(controller.engine.owner)
            case.store.close()


@pytest.mark.parametrize("name", ["completed", "waits", "granted", "unknown"])
def test_dying_twice_breaks_no_promise(name: Any) -> None:
    """The process that starts again may die as well, at any effect of its recovery."""
    total = effects_of(name)
    for first in range(0, total, 3):
        for second in range(1, total, 4):
            case = Case(name, ":memory:")
            case.run(case.start(first, after=True))
            case.run(case.start(second, after=False))
            assert case.run(case.start())
            case.check()
            case.store.close()


@pytest.mark.parametrize("name", ["refused", "waits", "granted"])
def test_dying_on_a_file_store_breaks_no_promise(name: Any, tmp_path: Any) -> None:
    """The same on a file, where death is the loss of a kernel lock (every second effect)."""
    total = effects_of(name)
    for at in range(0, total, 2):
        case = Case(name, tmp_path / f"{at}.db")
        case.run(case.start(at, after=True))
        case.store.close()
        case.store = open_sqlite(tmp_path / f"{at}.db", clock=case.clock)
        assert case.run(case.start())
        case.check()
        case.store.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_dying_inside_the_tool_leaves_an_unknown_write(when: Any) -> None:
    """A process that dies while the tool runs, before or after its effect, leaves a write that is not repeated."""
    case = Case("completed", ":memory:")
    controller = case.start()
    run = case.outside.tool("plain")

    def dying(**arguments: object) -> object:
        if when == "after":
            run(**arguments)
        world_of(controller).dead = True
        raise Died

    controller.bind("plain", dying)
    assert not case.run(controller)
    heir = case.start()
    assert call(heir, "plain").answer is Answer.BLOCKED
    assert call(heir, "plain", n=7).answer is Answer.BLOCKED
    assert case.outside.count("plain") == (when == "after")
    case.store.close()


def test_an_async_process_that_dies_breaks_no_promise() -> None:
    """The async driver performs the same effects in the same order."""

    async def story(case: Case, controller: Controller) -> bool:
        try:
            for n in (1, 2):
                step = f"s{n}"
                await controller.acall("plain", {"to": "a", "n": n}, run="r", step=step, call_id=step, wait=False)
            case.clock.advance(WAIT + 13)
            await controller.awork()
        except Died:
            case.store.release(controller.engine.owner)
            return False
        return True

    for name in ("refused", "waits", "unknown"):
        total, at = 1, 0
        while at < total:
            case = Case(name, ":memory:")
            controller = case.start(at, after=True)
            asyncio.run(story(case, controller))
            total = max(total, world_of(controller).performed + 2) if not at else total
            heir = case.start()
            assert asyncio.run(story(case, heir))
            total = max(total, world_of(heir).performed)
            case.check()
            case.store.close()
            at += 1


def test_results_that_became_ready_survive_and_are_handed_out_once() -> None:
    """A result that the controller produced is not lost with its process, and not told twice."""
    total = effects_of("waits")
    for at in range(total):
        case = Case("waits", ":memory:")
        handed: list[object] = []
        replayed: list[object] = []

        def story(controller: Any, case: Any = case, handed: Any = handed, replayed: Any = replayed) -> None:
            reply = call(controller, "plain")
            if reply.ok:
                replayed.append(reply.value)
            case.clock.advance(WAIT + 13)
            controller.work()
            handed.extend(reply.value for reply in controller.run("r").inbox())

        controller = case.start(at, after=True)
        with suppress(Died):
            story(controller)
        case.store.release(controller.engine.owner)
        heir = case.start()
        with suppress(UsageError):
            story(heir)
        assert (handed + replayed).count({"id": 1}) <= 1
        if not handed and {"id": 1} not in replayed:
            # Somebody died between start and result: then the outcome is held as unknown, and said so.
            assert any(row.kind == "hold" for row in case.store.load("tree:r").rows)
        case.store.close()
