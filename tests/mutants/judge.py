"""Judging one mutant: by the recorded decisions of the explorations, then by the unit tests that reach what is changed.

A mutant is judged in a process of its own (pool.py), forked from one that has everything loaded. Where it is in a function,
the function's code is swapped in, and the decisions of the explorations that called the function are made again: as long as
all of them are the same, so is the whole exploration. What is made when a module is imported (tables, defaults) is imported
anew, with the mutant in place of its module, and everything is explored and tested again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from forbear.core.decide import decide, decide_tree
from forbear.core.events import TreeEvent
from tests.model.planted import compiled_in
from tests.model.world import Seen
from tests.mutants.measure import PYTEST, RECORD, ROOT, STATES, UNIT, Measured, Steady, file_of, source_of
from tests.mutants.mutator import Mutant, changed

__all__ = ["judge"]


def judge(mutant: Mutant, measured: Measured, survived: Mapping[str, str], hint: str) -> str:
    """Return what notices a mutant, or "" where nothing does. Only in a process that ends afterwards.

    Args:
        mutant: What is judged.
        measured: What the unchanged core does.
        survived: Parts of the tests, with their digests, that are known not to notice it.
        hint: What noticed it the last time: it is asked first.
    """
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - the process ends soon
    skipped = {part for part, digest in survived.items() if measured.parts.get(part) == digest}
    # Made by the code as it should be, for the one mutant that they are about.
    afters = [seen.before.after(seen.decision) for seen in measured.decisions] if mutant.module == "decision" else []
    try:
        with _in_place(mutant):
            for by in _stages(mutant, measured, skipped, hint, afters):
                if by:
                    return by
    except Exception as raised:  # noqa: BLE001 - a mutant may raise anything when it is imported
        return f"import: {type(raised).__name__}"
    return ""


def _stages(
    mutant: Mutant, measured: Measured, skipped: set[str], hint: str, afters: Sequence[object]
) -> Iterator[str]:
    if hint in measured.tests:
        yield _unit([hint])
    files = [file for file in UNIT if file not in skipped]
    if mutant.in_function:
        if RECORD not in skipped:
            yield _decides_otherwise(mutant, measured, afters)
        tests = [test for test in measured.tests_at(mutant) if test.split("::", maxsplit=1)[0] in files]
        yield _unit(tests)
    else:
        yield _golden()
        is_explored = f"forbear.core.{mutant.module}" in sys.modules
        for file in sorted(files, key=measured.seconds_of):
            yield _unit([file])
        if RECORD not in skipped and is_explored:
            yield from _explores_otherwise(measured)


# ---- what notices ---------------------------------------------------------------------------------------------------


def _decides_otherwise(mutant: Mutant, measured: Measured, afters: Sequence[object]) -> str:
    for index in measured.calls.get((mutant.module, mutant.place), ()):
        seen: Seen = measured.decisions[index]
        try:
            if isinstance(seen.event, TreeEvent):
                same = decide_tree(seen.before, seen.event, seen.now) == seen.decision
            else:
                same = decide(seen.before, seen.key, seen.event, seen.now) == seen.decision
        except Exception:  # noqa: BLE001 - a mutant may raise anything
            same = False
        if not same:
            return f"{RECORD}: {seen.decision.rule.value}"
    for seen, after in zip(measured.decisions, afters, strict=False):
        if seen.before.after(seen.decision) != after:
            return f"{RECORD}: {seen.decision.rule.value}"
    return ""


def _golden() -> str:
    golden = importlib.import_module("tests.model.golden")
    to_plain = importlib.import_module("tests.model.plain").to_plain
    for vector in golden.read():
        try:
            same = to_plain(golden.again(vector)) == vector["decision"]
        except Exception:  # noqa: BLE001
            same = False
        if not same:
            return f"{RECORD}: {vector['id']}"
    return ""


def _explores_otherwise(measured: Measured) -> Iterator[str]:
    """Explore every case with freshly imported modules; stop at the first decision that is another one."""
    cases: Sequence[Any] = importlib.import_module("tests.model.cases").CASES
    desk = importlib.import_module("tests.model.world").Desk
    texts = importlib.import_module("tests.model.plain").Texts
    explore = importlib.import_module("forbear.testing.explore").explore
    for case in cases:
        lines, text = iter(measured.lines[case.name]), texts().text

        def listen(seen: Any, lines: Iterator[int] = lines, text: Any = text) -> None:
            if next(lines, None) != hash(text(seen.decision)):
                raise LookupError

        try:
            explore(desk(case, listen), max_states=STATES)
        except Exception:  # noqa: BLE001 - another decision, a broken promise, or what a mutant raises
            yield f"{RECORD}: case {case.name}"
        else:
            yield "" if next(lines, None) is None else f"{RECORD}: case {case.name}"


def _unit(tests: Sequence[str]) -> str:
    if not tests:
        return ""
    first = _First()
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), contextlib.chdir(ROOT):
        failed = pytest.main([*PYTEST, *tests], plugins=[first])
    return (first.failed or f"collecting {tests[0]}") if failed else ""


class _First(Steady):
    """A plugin of pytest: remembers the test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


# ---- a mutant in place of its module --------------------------------------------------------------------------------


def _in_place(mutant: Mutant) -> AbstractContextManager[None]:
    source = changed(source_of(mutant.module), mutant.index, mutant.number)
    if mutant.in_function:
        return compiled_in(mutant.module, source)
    for name in list(sys.modules):
        if name.split(".")[0] in ("forbear", "forbear_adapters", "tests") and not name.startswith("tests.mutants"):
            del sys.modules[name]
    sys.meta_path.insert(0, _Finder(f"forbear.core.{mutant.module}", file_of(mutant.module), source))
    return contextlib.nullcontext()


class _Loader(SourceFileLoader):
    changed = ""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the mutant; nothing is written beside the source."""
        return compile(self.changed, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module with another source."""

    def __init__(self, name: str, file: Path, source: str) -> None:
        self.name, self.file, self.source = name, file, source

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the mutant for its module's name."""
        if fullname != self.name:
            return None
        loader = _Loader(fullname, str(self.file))
        loader.changed = self.source
        return importlib.util.spec_from_file_location(fullname, self.file, loader=loader)
