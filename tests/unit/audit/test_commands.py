"""`forbear audit`: what an operator and an auditor type, on a store, on a copy, with and without its token."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from forbear.audit.evidence import evidence_path
from forbear.audit.files import Entry, entries
from forbear.cli import main
from forbear.contract.record import read_record
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.testing.clock import ManualClock, SequenceIds
from tests.tamper import WAYS, Place, record


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one record for all tests of this file, which only read copies."""
    return record(tmp_path_factory.mktemp("record"), 1)


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the record."""
    copy = tmp_path / "forbear.db"
    shutil.copy(made, copy)
    shutil.copy(evidence_path(made), evidence_path(copy))
    return copy


@pytest.fixture
def failed(path: Path) -> Entry:
    """Return an entry with evidence."""
    return next(entry for entry in entries(path) if entry.evidence is not None)


def told(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Run a command, check its exit code, and return what it printed."""
    assert main([str(one) for one in ("audit", *arguments)]) == code
    done = capsys.readouterr()
    return done.out if code != 2 else done.err


def test_verify_prints_what_to_note_and_takes_it_back(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint that a check prints is what a later check is given."""
    said = told(capsys, "verify", "--store", path)
    assert "47 lines of 2 writers: whole" in said
    noted = said.split("checkpoint ")[-1].strip()
    assert "whole" in told(capsys, "verify", "--store", path, "--checkpoint", noted)
    report = json.loads(told(capsys, "verify", "--store", path, "--json"))
    assert (report["intact"], report["checkpoint"], report["evidence"]) == (True, noted, 6)


@pytest.mark.parametrize("way", WAYS, ids=[way.does.replace(" ", "-") for way in WAYS])
def test_verify_fails_where_the_record_was_tampered_with(
    way: Any, path: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script can rely on the exit code: 1 where something does not fit, also for missing evidence where it is required."""
    noted = told(capsys, "verify", "--store", path).split("checkpoint ")[-1].strip()
    (tmp_path / "other").mkdir()
    way.how(Place(path=path, other=record(tmp_path / "other", 1_000_000)))
    options = ["--require-evidence"] if way.missing else []
    said = told(capsys, "verify", "--store", path, "--checkpoint", noted, *options, code=1)
    assert ("NOT whole" in said) is not way.missing


def test_show_joins_line_and_evidence(path: Path, failed: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    """With a request id from an answer an operator sees the decision and what was behind it."""
    request_id = failed.line.line.request_id
    said = told(capsys, "show", request_id, "--store", path)
    assert "running.returned.unknown" in said
    assert "is closed" in said
    shown = json.loads(told(capsys, "show", request_id, "--store", path, "--json"))
    [short] = [one["record"] for one in shown["lines"] if one["record"]]
    assert read_record(short).model_dump(exclude_none=True) == {
        "request_id": request_id,
        "event": "call_failed",
        "result_code": "OUTCOME_UNKNOWN",
        "exception_class": "Upstream",
    }
    assert "is not in this record" in told(capsys, "show", "act_none", "--store", path, code=2)


def test_show_says_where_evidence_is_gone(path: Path, failed: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    """A line outlives its evidence, and says so."""
    evidence_path(path).unlink()
    assert "evidence: not there" in told(capsys, "show", failed.line.line.request_id, "--store", path)


def test_evidence_needs_the_operator_token(path: Path, failed: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the store has a token nobody reads evidence without it, and trying is in the journal; checking needs none."""
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(start=5_000_000), worker=False) as controller:
        token = Operator(controller).make_token()
    request_id = failed.line.line.request_id
    for arguments in (["show", request_id], ["export", "--with-evidence"]):
        refused = told(capsys, *arguments, "--store", path, code=2)
        assert "token" in refused
        assert "is closed" not in refused
        assert "is closed" in told(capsys, *arguments, "--store", path, "--token", token)
    assert "whole" in told(capsys, "verify", "--store", path)
    assert "is closed" not in told(capsys, "export", "--store", path) + told(capsys, "tail", "--store", path)
    told(capsys, "show", request_id, "--store", path, "--token", "fbo_wrong", code=2)
    assert "operator.refused" in told(capsys, "tail", "--store", path)


def test_tail_prints_the_last_lines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is one line, however long the journal is."""
    assert len(told(capsys, "tail", "-n", 3, "--store", path).splitlines()) == 3
    assert told(capsys, "tail", "-n", 0, "--store", path) == ""
    said = [json.loads(one) for one in told(capsys, "tail", "-n", 2, "--store", path, "--json").splitlines()]
    assert [one["seq"] for one in said] == [46, 47]


def test_tail_follows_until_it_is_stopped(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """What is written while it looks is printed at its next look; a signal ends it with exit code 0."""
    looks: Iterator[int] = iter(range(3))

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        if next(looks) == 0:
            clock = ManualClock()
            with Controller.open(path, clock=clock, ids=SequenceIds(start=7_000_000), worker=False) as controller:
                controller.declare("later", effect="write")
                controller.call("later", {}, run="late", step="s", execute=lambda: 1)
            return False
        os.kill(os.getpid(), signal.SIGTERM)
        return self.is_set()

    monkeypatch.setattr("forbear.cli.audit.threading.Event.wait", wait)
    said = told(capsys, "tail", "-n", 1, "-f", "--store", path)
    assert said.count("\n") == 4
    assert "later" in said


def test_an_export_can_be_checked_without_forbear(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recipe of the docs, in ten lines of another program, computes the seals that the export carries."""
    heads: dict[int, str] = {}
    commit: list[dict[str, Any]] = []
    for text in told(capsys, "export", "--store", path).splitlines():
        line = json.loads(text)
        commit.append(line)
        if "hash" not in line:
            continue
        chain = line.get("chain", "")
        hashed = sha256(
            f"forbear.journal.1 {line['epoch']} {commit[0]['seq']} {len(commit)} {len(chain)}\n{chain}\n".encode()
        )
        hashed.update(bytes.fromhex(heads.get(line["epoch"], "00" * 32)))
        for one in commit:
            fields = [one.get(name, "") for name in ("scope", "run", "rule", "tool", "action", "request_id")]
            body = one["body"].encode()
            hashed.update(f"{one['at_us']} {len(body)}\n{chr(10).join(fields)}\n".encode() + body)
        assert hashed.hexdigest() == line["hash"]
        heads[line["epoch"]] = line["hash"]
        commit = []
    assert len(heads) == 2


def test_only_lines_above_a_number_are_exported(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A collector takes up where it stopped."""
    said = [json.loads(one)["seq"] for one in told(capsys, "export", "--after", 44, "--store", path).splitlines()]
    assert said == [45, 46, 47]


def test_what_is_no_file_is_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that is not there, or not a file, is one line on stderr."""
    assert "is not there" in told(capsys, "verify", "--store", tmp_path / "none.db", code=2)
    assert "is a folder" in told(capsys, "verify", "--store", tmp_path, code=2)
    assert "must be a file" in told(capsys, "verify", "--store", "postgresql://x", code=2)
    assert "COUNT:HEAD" in told(capsys, "verify", "--store", tmp_path / "none.db", "--checkpoint", "x", code=2)


def test_a_checkpoint_that_was_cut_off_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A head that was copied in part is told apart from one that is none: how much there is, and what to pass."""
    said = told(capsys, "verify", "--store", path, "--checkpoint", "47:abcdef", code=2)
    assert (
        "checkpoint: its HEAD is cut off: 6 of 64 characters; pass the whole line that 'forbear audit verify'" in said
    )
    assert "too long: 65 of 64" in told(capsys, "verify", "--store", path, "--checkpoint", f"47:{'a' * 65}", code=2)
