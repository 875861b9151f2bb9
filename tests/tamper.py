"""Every way of tampering with a record that we know, done to a real one, and what `verify` says: `python -m tests.tamper`.

The table goes into `docs/reference/record.md`; `tests/unit/audit/test_tamper.py` holds it to what is measured.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forbear.audit.evidence import KIND, evidence_path
from forbear.audit.files import verify_file
from forbear.audit.verify import Checkpoint, Report
from forbear.runtime.controller import Controller
from forbear.store.chain import seal
from forbear.store.offline import read_closed
from forbear.testing.clock import ManualClock, SequenceIds

BEGINS = "<!-- tamper table: python -m tests.tamper -->"
ENDS = "<!-- end of tamper table -->"


class Upstream(Exception):
    """What a tool raises."""


def _fails(n: int) -> object:
    if n % 2:
        raise Upstream(f"the account of customer {n} is closed")
    return {"n": n}


def record(folder: Path, start: int) -> Path:
    """Make a store that two controllers wrote to in turns, with evidence, and return its file."""
    path = folder / "forbear.db"
    clock = ManualClock()
    writers = [
        Controller.open(path, clock=clock, ids=SequenceIds(start=start + 10_000 * n), worker=False) for n in range(2)
    ]
    for n in range(12):
        writer = writers[n // 3 % 2]
        writer.declare("charge", effect="write", target="n")
        writer.declare("look", effect="read")
        run_id, step = f"run-{start}-{n // 3 % 2}", f"s{n}"
        # Reads are journalled with the next commit: some commits have several lines.
        writer.call("look", {"n": n}, run=run_id, step=step, call_id=f"r{n}", siblings=2, execute=lambda n: {"n": n})
        writer.call("charge", {"n": n}, run=run_id, step=step, call_id=f"c{n}", siblings=2, execute=_fails)
    for writer in writers:
        writer.close()
    return path


def changed(path: Path) -> sqlite3.Connection:
    """Open a record as somebody would who wants to change it: without the triggers that forbid it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for name in ("journal_no_update", "journal_no_delete", "journal_no_replace"):
        connection.execute(f"DROP TRIGGER {name}")
    return connection


@dataclass(frozen=True, slots=True)
class Place:
    """What somebody tampers with: a record, and another store of the same application."""

    path: Path
    other: Path

    @property
    def evidence(self) -> Path:
        return evidence_path(self.path)


def run(path: Path, *statements: str) -> None:
    """Run statements on a record."""
    connection = changed(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def _edit_field(place: Place) -> None:
    run(place.path, "UPDATE journal SET rule = 'fresh.proposed.executed' WHERE seq = 7")


def _edit_body(place: Place) -> None:
    run(place.path, "UPDATE journal SET body = CAST(replace(CAST(body AS TEXT), 'unknown', 'success') AS BLOB)")


def _edit_time(place: Place) -> None:
    run(place.path, "UPDATE journal SET at_us = at_us + 1 WHERE seq = 9")


def _delete_line(place: Place) -> None:
    run(place.path, "DELETE FROM journal WHERE seq = 8")


def _delete_and_close_the_gap(place: Place) -> None:
    run(place.path, "DELETE FROM journal WHERE seq = 8", "UPDATE journal SET seq = seq - 1 WHERE seq > 8")


def _delete_commit_and_close_the_gap(place: Place) -> None:
    """Take out a whole commit (its lines and its seal)."""
    connection = changed(place.path)
    seals = [seq for (seq,) in connection.execute("SELECT seq FROM journal WHERE hash IS NOT NULL ORDER BY seq")]
    low, high = seals[3], seals[4]
    connection.execute("DELETE FROM journal WHERE seq > ? AND seq <= ?", (low, high))
    connection.execute("UPDATE journal SET seq = seq - ? WHERE seq > ?", (high - low, high))
    connection.close()


def _delete_first_lines(place: Place) -> None:
    run(place.path, "DELETE FROM journal WHERE seq < 20")


def _insert_line(place: Place) -> None:
    run(
        place.path,
        "INSERT INTO journal (at_us, scope, run, rule, tool, action, request_id, body) "
        "VALUES (1, 'tree:run', 'run', 'awaiting_approval.granted', 'charge', 'a', '', x'7b7d')",
    )


def _swap_lines(place: Place) -> None:
    run(
        place.path,
        "UPDATE journal SET seq = 1000 WHERE seq = 8",
        "UPDATE journal SET seq = 8 WHERE seq = 9",
        "UPDATE journal SET seq = 9 WHERE seq = 1000",
    )


def _swap_epochs(place: Place) -> None:
    connection = changed(place.path)
    first, second = [n for (n,) in connection.execute("SELECT DISTINCT epoch FROM journal ORDER BY epoch")][:2]
    connection.execute("UPDATE journal SET epoch = iif(epoch = ?, ?, ?)", (first, second, first))
    connection.close()


def _drop_epoch(place: Place) -> None:
    run(place.path, "DELETE FROM journal WHERE epoch = (SELECT max(epoch) FROM journal)")


def _seal_one_anew(place: Place) -> None:
    """Change a line and compute the seal of its commit again, as somebody who knows the form can."""
    with read_closed(place.path) as book:
        lines = list(book.lines())
    last = next(one for one in lines if one.seq > 8 and one.seal is not None)
    commit = [
        one
        for one in lines
        if one.seq <= last.seq and one.seq > max(o.seq for o in lines if o.seq < last.seq and o.seal)
    ]
    connection = changed(place.path)
    connection.execute("UPDATE journal SET rule = 'x' WHERE seq = ?", (last.seq,))
    connection.close()
    with read_closed(place.path) as book:
        now = [one.line for one in book.lines() if commit[0].seq <= one.seq <= last.seq]
    assert last.epoch is not None
    again = seal(last.before, epoch=last.epoch, first=commit[0].seq, chain=last.chain, lines=now)
    connection = sqlite3.connect(place.path, isolation_level=None)
    connection.execute("UPDATE journal SET hash = ? WHERE seq = ?", (again, last.seq))
    connection.close()


def _cut_off(place: Place) -> None:
    """Cut off the end at a seal, so that nothing else breaks."""
    connection = changed(place.path)
    seals = [seq for (seq,) in connection.execute("SELECT seq FROM journal WHERE hash IS NOT NULL ORDER BY seq")]
    connection.execute("DELETE FROM journal WHERE seq > ?", (seals[-3],))
    connection.close()


def _cut_commit(place: Place) -> None:
    """Cut off the end inside a commit."""
    connection = changed(place.path)
    [(seq,)] = connection.execute("SELECT max(seq) FROM journal WHERE hash IS NULL")
    connection.execute("DELETE FROM journal WHERE seq > ?", (seq,))
    connection.close()


def _empty(place: Place) -> None:
    run(place.path, "DELETE FROM journal")


def _put_back(place: Place) -> None:
    """Put an older copy of the file in the place of the record: a backup, or what it was before something happened."""
    _cut_off(place)


def _lines_of_another_store(place: Place) -> None:
    """Put the journal of another store of the application in the place of this one's."""
    connection = changed(place.path)
    connection.execute("ATTACH ? AS other", (str(place.other),))
    connection.execute("DELETE FROM main.journal")
    connection.execute("INSERT INTO main.journal SELECT * FROM other.journal")
    connection.close()


def _commit_of_another_store(place: Place) -> None:
    """Put one commit of another store, with its seal, in the place of this one's."""
    connection = changed(place.path)
    connection.execute("ATTACH ? AS other", (str(place.other),))
    connection.execute("DELETE FROM main.journal WHERE seq BETWEEN 7 AND 8")
    connection.execute("INSERT INTO main.journal SELECT * FROM other.journal WHERE seq BETWEEN 7 AND 8")
    connection.close()


def _other_store(place: Place) -> None:
    """Put another store of the application in the place of this one, whole."""
    shutil.copy(place.other, place.path)


def _seal_all_anew(place: Place) -> None:
    """Change a line and compute every seal behind it again: what somebody with the code and the file can do."""
    connection = changed(place.path)
    connection.execute("UPDATE journal SET rule = 'x' WHERE seq = 3")
    connection.close()
    reseal(place.path)


def reseal(path: Path) -> None:
    """Compute every seal of a journal again."""
    with read_closed(path) as book:
        lines = list(book.lines())
    heads: dict[int, bytes] = {}
    new: dict[int, tuple[str, bytes, bytes]] = {}
    renamed: dict[str, str] = {}
    group = []
    for one in lines:
        group.append(one)
        if one.seal is None or one.epoch is None:
            continue
        chain = one.chain
        for old, fresh in renamed.items():
            chain = chain.replace(old, fresh)
        before = heads.get(one.epoch, bytes(32))
        again = seal(before, epoch=one.epoch, first=group[0].seq, chain=chain, lines=[m.line for m in group])
        renamed[one.seal.hex()] = again.hex()
        heads[one.epoch] = again
        new[one.seq] = chain, before, again
        group = []
    connection = sqlite3.connect(path, isolation_level=None)
    for seq, (chain, before, again) in new.items():
        connection.execute(
            "UPDATE journal SET chain = ?, prev_hash = ?, hash = ? WHERE seq = ?", (chain or None, before, again, seq)
        )
    connection.close()


def __evidence(place: Place) -> sqlite3.Connection:
    return sqlite3.connect(place.evidence, isolation_level=None)


def _edit_evidence(place: Place) -> None:
    connection = __evidence(place)
    connection.execute(
        "UPDATE entity SET body = CAST(replace(CAST(body AS TEXT), 'closed', 'open') AS BLOB) WHERE kind = ?", (KIND,)
    )
    connection.close()


def _swap_evidence(place: Place) -> None:
    """Exchange the evidence of two requests."""
    connection = __evidence(place)
    (one, a), (two, b) = connection.execute("SELECT id, body FROM entity WHERE kind = ? LIMIT 2", (KIND,))
    connection.execute("UPDATE entity SET body = ? WHERE id = ?", (b, one))
    connection.execute("UPDATE entity SET body = ? WHERE id = ?", (a, two))
    connection.close()


def _delete_evidence(place: Place) -> None:
    connection = __evidence(place)
    connection.execute("DELETE FROM entity WHERE id = (SELECT min(id) FROM entity WHERE kind = ?)", (KIND,))
    connection.close()


def _delete_evidence_file(place: Place) -> None:
    place.evidence.unlink()


@dataclass(frozen=True, slots=True)
class Way:
    """One way of tampering."""

    does: str
    how: Callable[[Place], None]
    # Found without a checkpoint; found as missing evidence only, which is reported and no failure.
    alone: bool = True
    missing: bool = False


WAYS = (
    Way("change a field of a line", _edit_field),
    Way("change what lines say in their body", _edit_body),
    Way("change the instant of a line", _edit_time),
    Way("take out a line", _delete_line),
    Way("take out a line and renumber the rest", _delete_and_close_the_gap),
    Way("take out a whole commit and renumber the rest", _delete_commit_and_close_the_gap),
    Way("take out the first lines", _delete_first_lines),
    Way("add a line without a seal", _insert_line),
    Way("exchange two lines", _swap_lines),
    Way("exchange two writers' epochs", _swap_epochs),
    Way("take out one writer's epoch", _drop_epoch),
    Way("change a line and seal its commit anew", _seal_one_anew),
    Way("cut off the end inside a commit", _cut_commit),
    Way("put in a commit of another store", _commit_of_another_store),
    Way("put in the journal of another store", _lines_of_another_store),
    Way("change evidence", _edit_evidence),
    Way("exchange the evidence of two requests", _swap_evidence),
    Way("take out a piece of evidence", _delete_evidence, missing=True),
    Way("take out the evidence file", _delete_evidence_file, missing=True),
    Way("cut off the end after a commit", _cut_off, alone=False),
    Way("empty the journal", _empty, alone=False),
    Way("put an older copy of the file back", _put_back, alone=False),
    Way("put another store in the place of this one, whole", _other_store, alone=False),
    Way("change a line and seal everything anew", _seal_all_anew, alone=False),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What `verify` said about a record that was tampered with."""

    way: Way
    alone: Report
    checked: Report


def measure() -> tuple[list[Measured], Checkpoint]:
    """Tamper in every way with a copy of one record, and verify it without and with the checkpoint noted before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one").mkdir()
        (folder / "two").mkdir()
        path, other = record(folder / "one", 1), record(folder / "two", 1_000_000)
        untouched = verify_file(path)
        assert untouched.is_intact
        assert untouched.missing == 0
        assert verify_file(path, checkpoint=untouched.checkpoint).is_intact
        found: list[Measured] = []
        for number, way in enumerate(WAYS):
            copy = folder / f"way-{number}" / "forbear.db"
            copy.parent.mkdir()
            shutil.copy(path, copy)
            shutil.copy(evidence_path(path), evidence_path(copy))
            way.how(Place(path=copy, other=other))
            found.append(Measured(way, verify_file(copy), verify_file(copy, checkpoint=untouched.checkpoint)))
        return found, untouched.checkpoint


def said(report: Report) -> str:
    """Return what a report says in the words of the table."""
    words = sorted({finding.wrong.value for finding in report.findings})
    if report.missing:
        words.append(f"{report.missing} missing")
    return ", ".join(words) or "nothing"


def table() -> str:
    """Return the table of the docs."""
    found, checkpoint = measure()
    rows = [f"| {one.way.does} | {said(one.alone)} | {said(one.checked)} |" for one in found]
    lines = sum(1 for _ in rows)
    head = [
        BEGINS,
        f"{lines} ways, each done to a copy of a record of {checkpoint.count} lines that two processes wrote in turns.",
        "",
        "| what somebody does | `verify` finds | with `--checkpoint` |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows, ENDS])


if __name__ == "__main__":
    print(table())
