"""`python -m tests.mutants`: change the core in one small place at a time, and see whether a test notices.

An own mutator, since the known ones do not understand two source roots: it swaps comparisons, `and` and `or`, constants,
closed words (an enum's members), branches of conditions, plus and minus, and drops keyword arguments of `replace`. Each
mutant's functions are swapped into the running core (tests/model/planted.py) and judged by the golden vectors, the
explorations (a broken promise, or any other count of phase, event and rule) and tests/unit/core, in this order. Only
code inside functions is mutated: tables and defaults at module level are not.

Results are kept in .mutants/results.jsonl, by the text of the mutant, so that a run can be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import FrameType

import pytest

from forbear.core import vocabulary
from forbear.core.rules import Rule
from forbear.testing.explore import Broken, explore
from tests.model.cases import CASES
from tests.model.golden import again, read
from tests.model.plain import to_plain
from tests.model.planted import compiled_in
from tests.model.world import Desk

ROOT = Path(__file__).parents[2]
CORE = ROOT / "controller" / "forbear" / "core"
KEPT = ROOT / ".mutants" / "results.jsonl"
# Not mutated: declarations without decisions, and what the model is shown (its own tests are elsewhere).
LEFT_OUT = frozenset({"__init__", "rules", "vocabulary", "events", "policy", "view", "codes"})
STATES = 400
SECONDS = 120

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
WORDS: dict[str, type[Enum]] = {
    **{name: kind for name, kind in vars(vocabulary).items() if isinstance(kind, type) and issubclass(kind, Enum)},
    "Rule": Rule,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where it is, what it is, and the module's text with it."""

    module: str
    line: int
    what: str
    source: str

    @property
    def key(self) -> str:
        """Return a name that is the same as long as the module's text is."""
        return blake2b(f"{self.module}{self.line}{self.what}{self.source}".encode(), digest_size=12).hexdigest()


def modules() -> list[str]:
    """Return the names of the modules that are mutated."""
    found = sorted(path.relative_to(CORE).with_suffix("") for path in CORE.rglob("*.py"))
    return [".".join(path.parts) for path in found if path.name not in LEFT_OUT]


def mutants(module: str) -> Iterator[Mutant]:
    """Return the mutants of a module, in the order of its text."""
    source = inspect.getsource(importlib.import_module(f"forbear.core.{module}"))
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node) for function in functions for part in function.body for node in ast.walk(part)}
    docs = {id(node.body[0].value) for node in functions if isinstance(node.body[0], ast.Expr)}
    for index, node in enumerate(ast.walk(tree)):
        if id(node) not in inside or id(node) in docs:
            continue
        for number, what in enumerate(_changes(node)):
            changed = deepcopy(tree)
            twin = next(found for at, found in enumerate(ast.walk(changed)) if at == index)
            _apply(twin, number)
            line = getattr(node, "lineno", 0)
            yield Mutant(module=module, line=line, what=what, source=ast.unparse(ast.fix_missing_locations(changed)))


def _changes(node: ast.AST) -> list[str]:
    """Say what can be changed in a node; `_apply` makes the change with the same number."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            return [f"{type(op).__name__} -> {COMPARISONS[type(op)].__name__}"]
        case ast.BoolOp():
            return ["and <-> or", *(f"operand {number} dropped" for number in range(len(node.values)))]
        case ast.UnaryOp(op=ast.Not()):
            return ["not dropped"]
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return ["+ <-> -"]
        case ast.IfExp():
            return ["branches swapped"]
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call()):
            return ["condition negated"]
        case ast.Constant(value=bool()):
            return ["constant negated"]
        case ast.Constant(value=int()):
            return ["constant + 1"]
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in WORDS and attr in WORDS[name].__members__:
            return [f"{name}.{attr} -> another"]
        case ast.Call(func=ast.Name(id="replace")) if node.keywords:
            return [f"replace without {keyword.arg}" for keyword in node.keywords]
        case _:
            return []


def _apply(node: ast.AST, number: int) -> None:
    match node:
        case ast.Compare():
            node.ops = [COMPARISONS[type(node.ops[0])]()]
        case ast.BoolOp():
            if number == 0:
                node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            else:
                del node.values[number - 1]
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.BinOp():
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        case ast.IfExp():
            node.body, node.orelse = node.orelse, node.body
        case ast.If():
            node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.Attribute(value=ast.Name(id=name)):
            members = list(WORDS[name].__members__)
            node.attr = members[(members.index(node.attr) + 1) % len(members)]
        case ast.Call():
            del node.keywords[number]
        case _:
            raise TypeError(type(node).__name__)


@lru_cache(maxsize=1)
def baseline() -> dict[str, Counter[tuple[str, str, Rule]]]:
    """Return what the explorations of the unchanged core see."""
    seen: dict[str, Counter[tuple[str, str, Rule]]] = {}
    for case in CASES:
        desk = Desk(case)
        explore(desk, max_states=STATES)
        seen[case.name] = desk.cells
    return seen


def judge(mutant: Mutant) -> str:
    """Return what notices a mutant, or "" where nothing does."""
    baseline()

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with compiled_in(mutant.module, mutant.source):
            return _noticed_by()
    except TimeoutError:
        return "time"
    finally:
        signal.alarm(0)


def _noticed_by() -> str:
    for vector in read():
        try:
            same = to_plain(again(vector)) == vector["decision"]
        except TimeoutError:
            raise
        except Exception:  # noqa: BLE001 - a mutant may raise anything
            same = False
        if not same:
            return "golden"
    for case in CASES:
        desk = Desk(case)
        try:
            explore(desk, max_states=STATES)
        except (TimeoutError, Broken) as noticed:
            if isinstance(noticed, Broken):
                return "model"
            raise
        except Exception:  # noqa: BLE001
            return "model"
        if desk.cells != baseline()[case.name]:
            return "model"
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(ROOT / "tests" / "unit" / "core")]
        failed = pytest.main([*arguments, str(ROOT / "tests" / "model" / "test_histories.py")])
    return "unit" if failed else ""


def main() -> int:
    """Judge mutants, keep what is known, and print the score and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--module", action="append", default=[], help="only this module; may be given several times")
    parser.add_argument("--every", type=int, default=1, help="only each Nth mutant (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="judge those again that were alive")
    options = parser.parse_args()
    wanted = [mutant for module in options.module or modules() for mutant in mutants(module)][:: options.every]
    KEPT.parent.mkdir(exist_ok=True)
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    known: dict[str, str] = {row["key"]: row["by"] for row in map(json.loads, lines)}
    if options.again:
        known = {key: by for key, by in known.items() if by}
    todo = [mutant for mutant in wanted if mutant.key not in known]
    with ProcessPoolExecutor(options.jobs) as pool, KEPT.open("a", encoding="utf-8") as kept:
        for number, (mutant, by) in enumerate(zip(todo, pool.map(judge, todo), strict=True), 1):
            known[mutant.key] = by
            kept.write(json.dumps({"key": mutant.key, "by": by}) + "\n")
            kept.flush()
            if not by:
                sys.stdout.write(f"survives: {mutant.module}:{mutant.line} {mutant.what}\n")
            if number % 100 == 0:
                sys.stdout.write(f"{number} of {len(todo)} judged\n")
            sys.stdout.flush()
    found = Counter(known[mutant.key] for mutant in wanted)
    alive = found.pop("", 0)
    sys.stdout.write(f"{len(wanted)} mutants, {len(wanted) - alive} killed, {alive} alive; killed by {dict(found)}\n")
    for mutant in wanted:
        if not known[mutant.key]:
            sys.stdout.write(f"alive: {mutant.module}:{mutant.line} {mutant.what}\n")
    return 0 if alive == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
