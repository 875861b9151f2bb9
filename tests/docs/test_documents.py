"""README and docs are true: their Python runs, and their links lead somewhere. The texts themselves are not judged."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

TOP = Path(__file__).parents[2]
DOCUMENTS = sorted([*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md"), *(TOP / "adapters").rglob("*.md")])
NAMES = [path.relative_to(TOP).as_posix() for path in DOCUMENTS]
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(?:#[^)\s]*)?\)")


def run_examples(path: Path) -> int:
    """Run every Python block of a Markdown file, in order and in one namespace; return how many there were."""
    examples = list(Sybil(parsers=[PythonCodeBlockParser(), SkipParser()]).parse(path).examples())
    for example in examples:
        example.evaluate()
    return len(examples)


def dead_links(path: Path) -> list[str]:
    """Return the relative links of a Markdown file that lead nowhere."""
    return [link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_the_python_in_a_document_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who copies the Python of a document, block after block, gets no error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    run_examples(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_the_links_of_a_document_lead_somewhere(path: Path) -> None:
    """A link from one document to a file of the project finds it."""
    assert dead_links(path) == []


def test_a_wrong_example_and_a_dead_link_are_found(tmp_path: Path) -> None:
    """The two checks above see Python blocks and links, so that they cannot pass by blindness."""
    path = tmp_path / "page.md"
    path.write_text("[a](gone.md#part) [b](page.md) [c](https://example.org)\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert dead_links(path) == ["gone.md"]
    with pytest.raises(AssertionError):
        run_examples(path)
