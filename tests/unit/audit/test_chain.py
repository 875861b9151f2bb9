"""How lines are sealed: by every writer, in every order of commits, also after what failed and what an older release wrote."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.audit.files import verify_file
from forbear.audit.verify import Report, Wrong, verify
from forbear.errors import StaleWrite, StoreError
from forbear.ports import Commit, JournalLine, Row
from forbear.store.chain import START, Link, chain_text, line_text, read_chain, seal
from forbear.store.offline import read_closed
from forbear.store.schema import MIGRATIONS, migrate
from forbear.store.sqlite import SqliteStore, open_sqlite
from forbear.testing.clock import ManualClock

TREE = "tree:r"


def line(n: int = 1, **fields: Any) -> JournalLine:
    """Return a journal line whose fields are of no interest but those that are given."""
    full = JournalLine(
        at_us=n, scope=TREE, run="r", rule="x.y.z", tool="t", action="a", request_id=f"act_{n}", body=b"{}"
    )
    return replace(full, **fields)


def row(body: bytes = b"{}") -> Row:
    """Return a row."""
    return Row(scope=TREE, kind="action", key="a", body=body)


def opened(path: Path) -> SqliteStore:
    """Open the store."""
    return open_sqlite(path, clock=ManualClock())


def journal(store: SqliteStore, *lines: JournalLine) -> None:
    """Commit lines."""
    store.commit(Commit(expected={}, journal=lines))


def seals(path: Path) -> list[tuple[int, int | None, bool, dict[str, Any]]]:
    """Return number, epoch, whether it is sealed, and what the seal says, of every line."""
    with read_closed(path) as book:
        return [
            (one.seq, one.epoch, one.seal is not None, json.loads(one.chain) if one.chain else {})
            for one in book.lines()
        ]


def test_the_lines_of_a_commit_are_sealed_together(tmp_path: Path) -> None:
    """The last line of a commit carries the seal; the first seal of a writer names the store and the writer."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    store.register("own_1")
    journal(store, line(1), line(2), line(3))
    journal(store, line(4))
    assert [(seq, epoch, sealed) for seq, epoch, sealed, _ in seals(path)] == [
        (1, 1, False),
        (2, 1, False),
        (3, 1, True),
        (4, 1, True),
    ]
    said = seals(path)[2][3]
    assert said["writer"] == "own_1"
    assert len(str(said["store"])) == 32
    assert seals(path)[3][3] == {}
    assert verify_file(path).is_intact
    store.close()


def test_a_writer_names_the_seal_that_it_follows(tmp_path: Path) -> None:
    """Two writers in turns are two chains, and each says where the other one was."""
    path = tmp_path / "forbear.db"
    first, second = opened(path), opened(path)
    for n, store in enumerate((first, second, second, first, second), 1):
        journal(store, line(n))
    found = seals(path)
    assert [epoch for _, epoch, _, _ in found] == [1, 2, 2, 1, 2]
    assert [said["follows"][0] if "follows" in said else None for *_, said in found] == [None, 1, None, 3, 4]
    report = verify_file(path)
    assert (report.is_intact, report.epochs, report.lines) == (True, 2, 5)
    first.close()
    second.close()


def test_what_failed_leaves_the_chain_as_it_was(tmp_path: Path) -> None:
    """A stale commit, and one that cannot be stored, seal nothing; the next one follows what is there."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    store.commit(Commit(expected={TREE: 0}, puts=(row(),), journal=(line(1),)))
    with pytest.raises(StaleWrite):
        store.commit(Commit(expected={TREE: 0}, puts=(row(),), journal=(line(2),)))
    with pytest.raises(StoreError):
        store.commit(Commit(expected={TREE: 1}, puts=(row(),), journal=(line(2), line(3, run="\ud800"))))
    with pytest.raises(StoreError):
        journal(store, line(2), line(3, at_us=2**63))
    journal(store, line(2))
    assert [seq for seq, *_ in seals(path)] == [1, 2]
    assert verify_file(path).is_intact
    store.close()


def test_a_first_commit_that_failed_begins_no_epoch(tmp_path: Path) -> None:
    """The epoch is named by the line that is there, not by one that was tried."""
    path = tmp_path / "forbear.db"
    store, other = opened(path), opened(path)
    with pytest.raises(StoreError):
        journal(store, line(1, at_us=2**63))
    journal(other, line(1))
    journal(store, line(2))
    assert [epoch for _, epoch, *_ in seals(path)] == [1, 2]
    assert verify_file(path).is_intact
    store.close()
    other.close()


def test_a_store_is_a_new_writer_each_time_it_is_opened(tmp_path: Path) -> None:
    """A restarted process does not go on with the chain of the one before: it may be another program."""
    path = tmp_path / "forbear.db"
    for n in (1, 2, 3):
        store = opened(path)
        journal(store, line(n))
        store.close()
    assert verify_file(path).epochs == 3


def test_lines_from_before_the_chain_are_covered_as_they_were(tmp_path: Path) -> None:
    """The first seal says what an older release had written, so that it cannot be changed afterwards."""
    path = tmp_path / "forbear.db"
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, alone=True, known=MIGRATIONS[:1])
    for n in (1, 2):
        old.execute(
            "INSERT INTO journal (at_us, scope, run, rule, tool, action, request_id, body) VALUES (?,'s','r','x','t','a','',x'00')",
            (n,),
        )
    old.close()
    store = opened(path)
    journal(store, line(3))
    store.close()
    report = verify_file(path)
    assert (report.is_intact, report.unsealed, report.lines, report.epochs) == (True, 2, 3, 1)
    forger = sqlite3.connect(path, isolation_level=None)
    forger.execute("DROP TRIGGER journal_no_update")
    forger.execute("UPDATE journal SET rule = 'y' WHERE seq = 1")
    forger.close()
    assert Wrong.UNSEALED in {finding.wrong for finding in verify_file(path).findings}


def test_a_store_that_was_never_opened_by_this_release_is_refused(tmp_path: Path) -> None:
    """Nothing is said about a journal that has no chain."""
    path = tmp_path / "forbear.db"
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, alone=True, known=MIGRATIONS[:1])
    old.close()
    with pytest.raises(StoreError, match="not chained"):
        verify_file(path)
    with pytest.raises(StoreError, match="must name the file"):
        verify_file(tmp_path / "none.db")


def test_the_previous_schema_still_takes_lines(tmp_path: Path) -> None:
    """A process of the release before goes on writing beside this one; its lines are reported as what they are."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    journal(store, line(1))
    old = sqlite3.connect(path, isolation_level=None)
    old.execute(
        "INSERT INTO journal (at_us, scope, run, rule, tool, action, request_id, body) VALUES (1,'s','r','x','t','a','',x'00')"
    )
    old.close()
    journal(store, line(3))
    store.close()
    report = verify_file(path)
    assert [(one.wrong, one.first, one.last) for one in report.findings] == [(Wrong.UNSEALED, 2, 2)]


def test_verify_reads_a_copy_in_a_folder_that_nobody_may_write(tmp_path: Path) -> None:
    """An auditor needs nothing but the file."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    journal(store, line(1))
    store.close()
    folder = tmp_path / "read-only"
    folder.mkdir()
    copy = folder / "forbear.db"
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o400)
    folder.chmod(0o500)
    try:
        assert verify_file(copy).lines == 1
        assert sorted(one.name for one in folder.iterdir()) == ["forbear.db"]
    finally:
        folder.chmod(0o700)


def test_verify_reads_a_store_that_is_in_use(tmp_path: Path) -> None:
    """Nothing has to be stopped for a check, and a check stops nothing."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    journal(store, line(1))
    with read_closed(path) as book:
        journal(store, line(2))
        assert len(list(book.lines())) == 1
    assert verify_file(path).lines == 2
    store.close()


def test_an_empty_journal_is_whole(tmp_path: Path) -> None:
    """A store that decided nothing yet has nothing to find."""
    path = tmp_path / "forbear.db"
    opened(path).close()
    report = verify_file(path)
    assert (report.is_intact, str(report.checkpoint)) == (True, "0:")


def test_columns_of_any_kind_are_findings_and_no_failure(tmp_path: Path) -> None:
    """Somebody who can write the file can put anything into it; a check says so and does not fall over."""
    path = tmp_path / "forbear.db"
    store = opened(path)
    journal(store, line(1))
    journal(store, line(2))
    store.close()
    for column, value in (
        ("hash", "'text'"),
        ("hash", "x'00'"),
        ("prev_hash", "7"),
        ("chain", "'{'"),
        ("chain", "'[]'"),
        ("chain", """'{"follows":[1]}'"""),
        ("chain", """'{"follows":[1,1,"zz"]}'"""),
        ("chain", """'{"unsealed":7}'"""),
        ("chain", """'{"store":7}'"""),
        ("epoch", "'one'"),
        ("epoch", "99"),
    ):
        copy = tmp_path / "copy.db"
        copy.write_bytes(path.read_bytes())
        forger = sqlite3.connect(copy, isolation_level=None)
        forger.execute("DROP TRIGGER journal_no_update")
        forger.execute(f"UPDATE journal SET {column} = {value} WHERE seq = 2")  # noqa: S608 - the test's own words
        forger.close()
        assert not verify_file(copy).is_intact, (column, value)


def test_findings_are_bounded() -> None:
    """A journal in which nothing fits is reported in bounded memory."""
    from forbear.audit.verify import MAX_FINDINGS

    report = Report()
    for n in range(MAX_FINDINGS + 5):
        report.found(Wrong.CHANGED, n, n)
    assert (len(report.findings), report.more) == (MAX_FINDINGS, 5)
    assert verify((), store="").is_intact


texts = st.text(alphabet="ab\n\\e1 \x1f", max_size=4)
lines = st.builds(
    JournalLine,
    at_us=st.integers(0, 3),
    scope=texts,
    run=texts,
    rule=texts,
    tool=texts,
    action=texts,
    request_id=texts,
    body=st.binary(max_size=2),
)


@given(lines, lines)
def test_lines_that_differ_have_texts_that_differ(one: JournalLine, other: JournalLine) -> None:
    """No text of a framework's ids makes two different lines look the same to the hash."""
    if one != other:
        assert (line_text(one).encode() + one.body) != (line_text(other).encode() + other.body)


@given(st.lists(lines, min_size=1, max_size=3), st.lists(lines, min_size=1, max_size=3))
def test_commits_that_differ_have_seals_that_differ(one: list[JournalLine], other: list[JournalLine]) -> None:
    """How lines are cut into fields and commits is part of what is sealed."""
    if one != other:
        assert seal(START, epoch=1, first=1, chain="", lines=one) != seal(
            START, epoch=1, first=1, chain="", lines=other
        )


@given(
    st.builds(
        Link,
        store=st.text(max_size=3),
        writer=st.text(max_size=3),
        follows=st.none() | st.tuples(st.integers(), st.integers(), st.binary(max_size=3)),
        unsealed=st.none() | st.tuples(st.integers(), st.binary(max_size=3)),
    )
)
def test_a_link_reads_as_it_was_written(link: Link) -> None:
    """What a seal says of its place is read back as it was said."""
    kept = link if link.store else replace(link, writer="")
    assert read_chain(chain_text(link)) == kept


def test_the_seal_does_not_depend_on_this_release() -> None:
    """The form is fixed: a seal that was written once fits for ever."""
    sealed = seal(bytes(32), epoch=1, first=1, chain='{"store":"s","writer":"w"}', lines=[line(1), line(2, run="a\nb")])
    assert sealed.hex() == "0c6b6d581b4c74a21988bae58385acc589742e9ebc7bf4f3a7c0fb62fd5577f3"
