"""What a page says that the command line prints is what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.transcript import BLOCK, alike, written

TOP = Path(__file__).parents[2]
PAGES = sorted(path for path in (TOP / "docs").rglob("*.md") if "\n```console\n" in path.read_text("utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_console_blocks_are_real(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run from top to bottom, every command of a page prints what stands under it; ids and times aside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORBEAR_STORE", "FORBEAR_ACTOR", "FORBEAR_TOKEN"):
        # Set first, so that what the page exports is taken back afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    page = path.read_text("utf-8")
    assert alike(written(page)) == alike(page)


def test_there_are_such_pages() -> None:
    """The test above cannot pass by finding nothing."""
    assert [len(BLOCK.findall(path.read_text("utf-8"))) > 1 for path in PAGES] == [True] * len(PAGES)
    assert PAGES


def test_ids_and_times_are_compared_by_their_place() -> None:
    """Two pages that differ in the order of their ids differ; in ids and times alone they do not."""
    one, other = "a" * 32, "b" * 32
    assert alike(f"tkt_{one} act_{other} open 3 s") == alike(f"tkt_{other} act_{one} open 1 min 2 s")
    assert alike(f"tkt_{one} tkt_{other}") != alike(f"tkt_{one} tkt_{one}")
