"""The mutator changes what it says, the list is read as it is written, and whoever judges is not fooled."""

from __future__ import annotations

import ast
import os
from functools import lru_cache

import pytest

from forbear.testing.explore import explore
from tests.model.cases import CASES
from tests.model.world import Desk, Seen
from tests.mutants.judge import judge
from tests.mutants.listed import PAGE, kind_of, listed, row, with_figures
from tests.mutants.measure import RECORD, Measured, modules, source_of
from tests.mutants.mutator import Mutant, changed, mutants
from tests.mutants.pool import OUT_OF_TIME, fork_each

CHANGES = [
    ("return a < b", ["a <= b"]),
    ("return a is b", ["a is not b"]),
    ("return a and b", ["a or b", "b", "a"]),
    ("return not a", ["not not a"]),
    ("return a + b", ["a - b"]),
    ("return a if b else c", ["c if b else a"]),
    ("return [x for x in a if x]", ["[x for x in a]"]),
    ("return max(a, b)", ["min(a, b)"]),
    ("return (a, *b)", ["(*b,)", "(a,)"]),
    ("return a[:b]", ["a[:]"]),
    ("return 1", ["2"]),
    ("return True", ["False"]),
    ("return 'word'", ["'mutant'"]),
    ("return {a: b}", ["{}"]),
    ("return Cause.DENIAL", ["Cause.UNKNOWN"]),
    ("return replace(a, code=b)", ["replace(a)"]),
    ("return tell(a, request_id=b)", ["tell(a)"]),
    ("return narrow(a, scope=b)", []),
    ("return f'{a}-x'", []),
    ("raise ValueError('text')", []),
    ("x: tuple[int, ...] = a", []),
]


@pytest.mark.parametrize(("line", "after"), CHANGES, ids=[line for line, _ in CHANGES])
def test_a_mutant_is_one_small_change(line: str, after: list[str]) -> None:
    """Each mutant of a line is that line with one place changed, and compiles; texts for people and types are left alone."""
    source = f"def one(a, b, c):\n    {line}\n"
    before = line.removeprefix("return ")
    made = [changed(source, one.index, one.number) for one in mutants("holds", source)]
    assert [ast.unparse(ast.parse(text)).split("\n", 1)[1].strip().removeprefix("return ") for text in made] == after
    assert before not in after


def test_statements_conditions_and_guards_are_changed() -> None:
    """A call that is a statement is left out, a condition is turned round, a guard is dropped."""
    source = "def one(a):\n    a.clear()\n    if a:\n        return a\n    match a:\n        case int() if a.x:\n            pass\n"
    texts = [changed(source, one.index, one.number) for one in mutants("holds", source)]
    assert [text for text in texts if "a.clear()" not in text]
    assert [text for text in texts if "if not a:" in text]
    assert [text for text in texts if "if a.x" not in text]


def test_defaults_and_tables_are_changed() -> None:
    """What is made once, when a module is imported, is changed too; wire words are not."""
    source = (
        'class A:\n    """Text."""\n    n: int = 0\n    s: str = ""\n    o: str | None = None\n    d: datetime | None = None\n'
        'class B(StrEnum):\n    C = "c"\nT = frozenset({X, Y})\n'
    )
    made = {f"{one.place} {one.what}" for one in mutants("holds", source) if not one.in_function}
    assert made == {
        "A `n: int = 0` -> `n: int = 1`",
        "A `s: str = ''` -> `s: str = 'mutant'`",
        "A `o: str | None = None` -> `o: str | None = 'mutant'`",
        "T `{X, Y}` without `X`".removeprefix("T"),
        "T `{X, Y}` without `Y`".removeprefix("T"),
    }


def test_a_mutant_keeps_its_key_while_its_function_is_the_same() -> None:
    """What another function became, and where a function stands, does not make a mutant another one."""
    one = "def one(a):\n    return a < 1\n"
    before = {mutant.what: mutant.key for mutant in mutants("holds", one)}
    after = {m.what: m.key for m in mutants("holds", f"def other(a):\n    return a\n\n\n{one}") if m.place == "one"}
    assert before == after
    other = {mutant.what: mutant.key for mutant in mutants("holds", one.replace("return", "a = a\n    return"))}
    assert set(other) == set(before)
    assert not set(other.values()) & set(before.values())


@lru_cache(maxsize=1)
def every() -> list[Mutant]:
    """Return all mutants of the core."""
    return [mutant for module in modules() for mutant in mutants(module, source_of(module))]


def test_every_mutant_has_a_name_and_a_key_of_its_own() -> None:
    """The list names one mutant a line, and a finding is about one mutant."""
    made = every()
    assert len({mutant.key for mutant in made}) == len({(mutant.where, mutant.what) for mutant in made}) == len(made)


def test_every_listed_mutant_can_be_made() -> None:
    """A line of docs/mutants.md whose code is gone is out of date, and says why it may live."""
    names = {(mutant.where, mutant.what) for mutant in every()}
    found = listed(PAGE.read_text(encoding="utf-8"))
    assert found
    assert [name for name in found if name not in names] == []
    assert min(len(why) for why in found.values()) > len("equivalent")


def test_the_list_is_read_as_it_is_written() -> None:
    """What is printed about a mutant can be put into the page as it is, whatever is in its code."""
    for mutant in every():
        assert listed(row(mutant, "it says so")) == {(mutant.where, mutant.what): "it says so"}


def test_the_figures_replace_the_figures_before_them() -> None:
    """A page keeps what was written by hand, and has one table, with a row for each module and one for all."""
    wanted = every()[:3]
    found = dict(
        zip([mutant.key for mutant in wanted], ["", "time", "tests/unit/core/test_view.py::test_x"], strict=True)
    )
    page = PAGE.read_text(encoding="utf-8")
    once = with_figures(page, wanted, found, "In three minutes.")
    assert with_figures(once, wanted, found, "In three minutes.") == once
    assert "| **all** | 3 | 0 | 1 | 0 | 1 | 1 |" in once
    assert listed(once) == listed(page)


def test_kinds() -> None:
    """What noticed a mutant has one of five kinds."""
    said = [f"{RECORD}: x", "tests/a.py::t", "import: TypeError", OUT_OF_TIME, ""]
    assert [kind_of(by) for by in said] == ["recorded decisions", "unit tests", "import", "time", "alive"]


def test_each_piece_of_work_has_a_process_of_its_own() -> None:
    """Whatever one of them does to itself, the others and this process go on, and it is known to have ended."""

    def do(number: int) -> str:
        if number == 2:
            os._exit(3)
        return f"{number} {os.getpid() != here}"

    here = os.getpid()
    assert dict(fork_each([1, 2, 3], do, 2, lambda _: 20)) == {1: "1 True", 2: OUT_OF_TIME, 3: "3 True"}


def test_another_decision_is_noticed_and_an_equal_one_is_not() -> None:
    """A mutant is noticed exactly when a recorded decision is made otherwise by it."""
    measured = Measured()
    explore(Desk(CASES[0], measured.decisions.append), max_states=60)
    indexes = list(range(len(measured.decisions)))
    measured.calls = {("steps", name): indexes for name in ("leave", "why_over")}
    measured.reach = {"steps": {}}
    wanted = [mutant for mutant in mutants("steps", source_of("steps")) if mutant.place in ("leave", "why_over")]

    def do(mutant: Mutant) -> str:
        return judge(mutant, measured, {}, "")

    found = {mutant.what: by for mutant, by in fork_each(wanted, do, 2, lambda _: 20)}
    assert found["`run.all_idle and idle` without `idle`"].startswith(RECORD)
    # Nothing in this case is so long that a run is over.
    assert not found["`return 'BLOCKED'` -> `return 'mutant'`"]
    assert all(isinstance(seen, Seen) for seen in measured.decisions)
