"""Whatever is done to a record that we can think of, `verify` says so; the docs' table is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from forbear.audit.verify import Checkpoint, read_checkpoint
from forbear.errors import UsageError
from tests.tamper import BEGINS, ENDS, WAYS, Measured, Way, measure, table

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "record.md"


@pytest.fixture(scope="module")
def measured() -> dict[str, Measured]:
    """Tamper once in every way."""
    found, _ = measure()
    return {one.way.does: one for one in found}


@pytest.mark.parametrize("way", WAYS, ids=[way.does.replace(" ", "-") for way in WAYS])
def test_tampering_is_found(way: Way, measured: dict[str, Measured]) -> None:
    """Each way is found by itself, or against a checkpoint that was noted before; missing evidence is only reported."""
    one = measured[way.does]
    if way.missing:
        assert one.alone.missing > 0
        assert one.alone.is_intact
        assert one.checked.is_intact
        return
    assert not one.checked.is_intact
    assert one.alone.is_intact is not way.alone


def test_the_table_in_the_docs_is_what_was_measured() -> None:
    """Nobody writes into the docs what `verify` was hoped to find."""
    text = DOCS.read_text("utf-8")
    start, end = text.index(BEGINS), text.index(ENDS) + len(ENDS)
    assert text[start:end] == table()


def test_a_checkpoint_reads_as_it_prints() -> None:
    """What `verify` prints is what it takes back, and nothing else is."""
    one = Checkpoint(count=12, head="0" * 64)
    assert read_checkpoint(str(one)) == one
    for wrong in (
        "",
        "12",
        "12:",
        ":" + "0" * 64,
        "x:" + "0" * 64,
        "12:" + "0" * 63,
        "12:" + "G" * 64,
        "-1:" + "0" * 64,
    ):
        with pytest.raises(UsageError):
            read_checkpoint(wrong)
