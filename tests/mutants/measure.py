"""What the unchanged core does: every decision of the explorations, which functions made it, and what each test reaches."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import FrameType

import coverage
import pytest

from forbear.core.decide import decide, decide_tree
from forbear.core.events import TreeEvent
from forbear.testing.explore import explore
from tests.model.cases import CASES
from tests.model.plain import Texts
from tests.model.survey import GATE as STATES
from tests.model.world import Desk, Seen
from tests.mutants.mutator import Mutant

__all__ = [
    "CORE",
    "PYTEST",
    "RECORD",
    "ROOT",
    "STATES",
    "UNIT",
    "Measured",
    "Steady",
    "file_of",
    "measure",
    "modules",
    "source_of",
]

ROOT = Path(__file__).parents[2]
CORE = ROOT / "controller" / "forbear" / "core"
# Name of the part of the tests that the explorations and what is recorded of them are.
RECORD = "explorations"
UNIT = (
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "unit" / "core").glob("test_*.py")),
    "tests/model/test_histories.py",
)
PYTEST = ("-x", "-q", "-p", "no:cacheprovider")
# Nothing is decided there: names of rules, which are their own text.
LEFT_OUT = frozenset({"__init__", "rules"})


@dataclass(slots=True)
class Measured:
    """What the unchanged core does."""

    # Part of the tests -> digest of its files.
    parts: dict[str, str] = field(default_factory=dict[str, str])
    decisions: list[Seen] = field(default_factory=list[Seen])
    # Case -> digest of the text of each decision, in order.
    lines: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    # Module and function -> which of the decisions called it.
    calls: dict[tuple[str, str], list[int]] = field(default_factory=dict[tuple[str, str], list[int]])
    # Test -> seconds that it takes.
    tests: dict[str, float] = field(default_factory=dict[str, float])
    # Module -> line -> tests that reach it.
    reach: dict[str, dict[int, list[str]]] = field(default_factory=dict[str, dict[int, list[str]]])

    def seconds_of(self, file: str) -> float:
        """Return how long the tests of a file take."""
        return sum(seconds for test, seconds in self.tests.items() if test.startswith(f"{file}::"))

    def tests_at(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant's statement, quickest first."""
        lines = self.reach[mutant.module]
        found = {test for line in range(mutant.first, mutant.last + 1) for test in lines.get(line, ())}
        return sorted(found, key=lambda test: self.tests[test])


def modules() -> list[str]:
    """Return the names of the modules that are mutated."""
    found = sorted(path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.py"))
    return [".".join(path.parts) for path in found if path.stem not in LEFT_OUT]


def file_of(module: str) -> Path:
    """Return the file of a module of the core."""
    return CORE.joinpath(*module.split(".")).with_suffix(".py")


def source_of(module: str) -> str:
    """Return the source of a module of the core."""
    return file_of(module).read_text(encoding="utf-8")


def digests() -> dict[str, str]:
    """Return the parts of the tests, each with a digest of its files."""
    # The recorded digests stand for what the explorations decide, whatever else they check on their way.
    model = [ROOT / "tests" / "model" / f"{name}.py" for name in ("calls", "cases", "world", "plain", "golden")]
    recorded = [ROOT / "tests" / "golden" / "decisions.digests", ROOT / "tests" / "golden" / "decisions.jsonl"]
    return {RECORD: _digest([*model, *recorded]), **{file: _digest([ROOT / file]) for file in UNIT}}


def _digest(files: Sequence[Path]) -> str:
    return blake2b(b"".join(file.read_bytes() for file in files), digest_size=8).hexdigest()


def measure() -> Measured:
    """Explore and test the unchanged core, and note what it decides and what is reached.

    Raises:
        RuntimeError: a test fails without any mutant.
    """
    made = Measured(parts=digests())
    for case in CASES:
        lines, text = made.lines.setdefault(case.name, []), Texts().text

        def listen(seen: Seen, lines: list[int] = lines, text: Callable[[object], str] = text) -> None:
            made.decisions.append(seen)
            lines.append(hash(text(seen.decision)))

        explore(Desk(case, listen), max_states=STATES)
    _note_calls(made)
    _note_reach(made)
    return made


def _note_calls(made: Measured) -> None:
    names = {str(file_of(module)): module for module in modules()}
    called: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            module = names.get(code.co_filename)
            if module is not None:
                called.add((module, code.co_qualname.split(".<locals>")[0]))

    for index, seen in enumerate(made.decisions):
        called.clear()
        sys.setprofile(profile)
        if isinstance(seen.event, TreeEvent):
            decide_tree(seen.before, seen.event, seen.now)
        else:
            decide(seen.before, seen.key, seen.event, seen.now)
        sys.setprofile(None)
        for where in called:
            made.calls.setdefault(where, []).append(index)


def _note_reach(made: Measured) -> None:
    watch = coverage.Coverage(data_file=None, include=[f"{CORE}/*"], config_file=False)
    quiet = io.StringIO()
    watch.start()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), contextlib.chdir(ROOT):
        failed = pytest.main([*PYTEST, *UNIT], plugins=[_Contexts(watch, made.tests)])
    watch.stop()
    if failed:
        raise RuntimeError(f"tests fail without any mutant:\n{quiet.getvalue()}")
    found = watch.get_data()
    for module in modules():
        by_line = found.contexts_by_lineno(str(file_of(module)))
        made.reach[module] = {line: [name for name in names if name in made.tests] for line, names in by_line.items()}


class Steady:
    """A plugin of pytest: a busy machine does not look like a mutant that is noticed.

    Examples are the same each time, and take what they take.
    """

    def pytest_configure(self) -> None:
        """Choose how examples are made; pytest wants to be the first to import the library."""
        hypothesis = importlib.import_module("hypothesis")
        hypothesis.settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, suppress_health_check=[*hypothesis.HealthCheck]
        )
        hypothesis.settings.load_profile("mutants")


class _Contexts(Steady):
    """A plugin of pytest: says which test is being run, and notes how long it takes."""

    def __init__(self, watch: coverage.Coverage, tests: dict[str, float]) -> None:
        self.watch, self.tests = watch, tests

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run one test under its own name."""
        self.watch.switch_context(item.nodeid)
        begun = time.perf_counter()
        result = yield
        self.tests[item.nodeid] = time.perf_counter() - begun
        return result
