"""A process that dies between a piece of evidence and the decision that it belongs to, or between two lines of a chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forbear.audit.files import entries, of_request, verify_file
from forbear.runtime.controller import Controller
from forbear.runtime.effects import Keep, Save
from forbear.runtime.memory import WorkingSet
from forbear.testing.clock import ManualClock, SequenceIds


class Died(BaseException):
    """The process is gone."""


class Upstream(Exception):
    """What a tool raises."""


class DyingWorld(WorkingSet):
    """Dies at the first effect of a kind, before or after it; nothing is performed after that."""

    def arm(self, at: type, *, after: bool, skips: int = 0) -> None:
        """Die there."""
        self.at, self.after, self.skips, self.dead = at, after, skips, False

    def perform(self, effect: Any) -> object:
        """Perform an effect, or die."""
        if self.dead:
            raise Died
        hit = isinstance(effect, self.at)
        if hit and self.skips:
            self.skips -= 1
            hit = False
        if hit and not self.after:
            self.dead = True
            raise Died
        done = super().perform(effect)
        if hit:
            self.dead = True
            raise Died
        return done


def fails(n: int) -> object:
    """Fail as an upstream does."""
    raise Upstream("the row is locked")


def opened(path: Path, start: int) -> Controller:
    """Open a controller on the store."""
    controller = Controller.open(path, clock=ManualClock(), ids=SequenceIds(start=start), worker=False)
    controller.declare("charge", effect="write", target="n")
    return controller


@pytest.mark.parametrize(
    ("at", "after", "skips", "pieces"),
    [
        pytest.param(Keep, False, 0, 0, id="before-the-piece"),
        pytest.param(Keep, True, 0, 1, id="between-piece-and-decision"),
        # The first Save of this kind begins the attempt.
        pytest.param(Save, False, 1, 1, id="before-the-decision"),
        pytest.param(Save, True, 1, 1, id="after-the-decision"),
    ],
)
def test_dying_around_evidence_loses_no_decision(
    tmp_path: Path, at: type, after: bool, skips: int, pieces: int
) -> None:
    """Whenever the process dies, the write is not repeated, the journal is whole, and no line refers to what is not there."""
    path = tmp_path / "forbear.db"
    controller = opened(path, 1)
    engine = controller.engine
    world = DyingWorld(engine.store, engine.clock)
    world.evidence = engine.world.evidence
    world.arm(at, after=after, skips=skips)
    engine.world = world
    with pytest.raises(Died):
        controller.call("charge", {"n": 1}, run="r", step="s", call_id="c", execute=fails)
    # The kernel drops a dead process's locks; nothing of it is flushed.
    engine.store.close()
    if world.evidence is not None:
        world.evidence.close()

    received: list[object] = []
    with opened(path, 100_000) as heir:
        heir.engine.note_lost()
        reply = heir.call(
            "charge", {"n": 1}, run="r", step="s2", call_id="c2", execute=lambda **all: received.append(all)
        )
        assert reply.envelope.code == "OUTCOME_UNKNOWN"
    assert received == []
    report = verify_file(path)
    assert (report.is_intact, report.missing, report.lost) == (True, 0, 0)
    request_id = next(entry.line.line.request_id for entry in entries(path) if entry.line.line.rule == "start.executed")
    lines, loose = of_request(path, request_id)
    kept = [entry for entry in lines if entry.evidence is not None]
    # What a dead process had written down is there for an operator, with the decision or without it.
    assert len(kept) + len(loose) == pieces
    assert len(kept) == (at is Save and after)
