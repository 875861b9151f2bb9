"""Small changes of a module's source: what can be changed, where, and what the module is with one change in it.

Nothing is run and nothing is judged here. A mutant is found again by its place in the tree of the unchanged source.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from forbear.core import start, vocabulary
from forbear.core.rules import Rule


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a node, in place; what it is given may be a copy of the node that the change was found in."""

    make: Callable[[ast.AST], None]
    # What is missing afterwards, where that says it all.
    without: ast.AST | None = None


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
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
TWINS = {"max": "min", "min": "max", "any": "all", "all": "any"}
WORDS: dict[str, type[Enum]] = {
    **{name: kind for name, kind in vars(vocabulary).items() if isinstance(kind, type) and issubclass(kind, Enum)},
    "Rule": Rule,
    "By": start.By,
}
# What a default of None becomes, by the first word of its type.
INSTEAD_OF_NONE: dict[str, object] = {"str": "mutant", "int": 1, "float": 1, "bool": False}
# Shorter texts say too little about where a change is; longer ones are hard to read.
LEAST, MOST = 24, 100


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where it is, what it is, and how to find it again."""

    module: str
    # Function, method or class that it is in; "" = a table of the module.
    place: str
    # Lines of the statement that it is in.
    first: int
    last: int
    what: str
    # The text that it is in: a function's, or that of one statement outside of functions.
    text: str
    # Position among the nodes of the tree, and among the changes of that node.
    index: int
    number: int
    in_function: bool

    @property
    def where(self) -> str:
        """Return the module and the place in it."""
        return f"{self.module}.{self.place}" if self.place else self.module

    @property
    def key(self) -> str:
        """Return a name that is the same as long as the text that it is in is the same."""
        return blake2b(f"{self.where}\n{self.what}\n{self.text}".encode(), digest_size=12).hexdigest()


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Return the mutants of a module, in the order of its text."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    skipped = _left_out(tree)
    times: Counter[tuple[str, str]] = Counter()
    names = vars(importlib.import_module(f"forbear.core.{module}"))
    found: list[Mutant] = []
    for index, node in enumerate(ast.walk(tree)):
        if node in skipped:
            continue
        line = _chain(node, parents)
        function = next((one for one in line if isinstance(one, ast.FunctionDef)), None)
        # Values of the signature and decorators are made when the module is.
        in_function = function is not None and any(one in function.body for one in line)
        statement = next(one for one in line if isinstance(one, ast.stmt))
        for number, change in enumerate(changes(node, parents)):
            if isinstance(change.without, ast.keyword) and not _may_be_left_out(node, change.without, names):
                continue
            what = _what(node, parents, change)
            place = ".".join(one.name for one in line[::-1] if isinstance(one, (ast.FunctionDef, ast.ClassDef)))
            times[place, what] += 1
            nth = times[place, what]
            found.append(
                Mutant(
                    module=module,
                    place=place,
                    first=statement.lineno,
                    last=_header_end(statement),
                    what=what if nth == 1 else f"{what} ({nth})",
                    text=ast.unparse(function if function is not None else statement),
                    index=index,
                    number=number,
                    in_function=in_function,
                )
            )
    yield from sorted(found, key=lambda one: (one.first, one.index, one.number))


def changed(source: str, index: int, number: int) -> str:
    """Return a module's source with one change in it."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    node = next(found for at, found in enumerate(ast.walk(tree)) if at == index)
    changes(node, parents)[number].make(node)
    return ast.unparse(ast.fix_missing_locations(tree))


def changes(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> list[Change]:
    """Return what can be changed in a node."""
    made: list[Change] = []
    match node:
        case ast.Compare(ops=[comparison]) if other := COMPARISONS.get(type(comparison)):
            made.append(_put(ops=lambda: [other()]))
        case ast.BoolOp(op=op, values=values):
            made.append(_put(op=ast.Or if isinstance(op, ast.And) else ast.And))
            made.extend(_drop("values", number, value) for number, value in enumerate(values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            made.append(_put(operand=lambda: ast.UnaryOp(op=ast.Not(), operand=operand)))
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            made.append(_put(op=OPERATORS[type(op)]))
        case ast.IfExp(body=body, orelse=orelse):
            made.append(_put(body=lambda: orelse, orelse=lambda: body))
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            made.append(_put(test=lambda: ast.UnaryOp(op=ast.Not(), operand=test)))
        case ast.match_case(guard=guard) if guard is not None:
            made.append(_put(guard=lambda: None))
        case ast.Constant(value=value):
            made.extend(_constants(node, value, parents))
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in WORDS and attr in WORDS[name].__members__:
            members = list(WORDS[name].__members__)
            made.append(_put(attr=lambda: members[(members.index(attr) + 1) % len(members)]))
        case ast.Call(func=ast.Name(id=name), keywords=keywords):
            if name in TWINS:
                made.append(_put(func=lambda: ast.Name(id=TWINS[name], ctx=ast.Load())))
            made.extend(_drop("keywords", number, keyword) for number, keyword in enumerate(keywords))
        case ast.Tuple(ctx=ast.Load()) if _is_unpacked(parents[node]):
            pass
        case (
            ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()) | ast.Set(elts=elements)
        ):
            made.extend(_drop("elts", number, element) for number, element in enumerate(elements))
        case ast.Dict(keys=keys):
            made.extend(_drop_pair(number, key) for number, key in enumerate(keys))
        case ast.Slice():
            made.extend(_put(**{name: lambda: None}) for name in ("lower", "upper") if getattr(node, name) is not None)
        case ast.comprehension(ifs=ifs):
            made.extend(_drop("ifs", number, test) for number, test in enumerate(ifs))
        case ast.Expr(value=ast.Call()):
            made.append(_put(value=lambda: ast.Constant(value=None)))
        case _:
            pass
    return made


def _is_unpacked(parent: ast.AST) -> bool:
    return isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)


def _put(**values: Callable[[], object]) -> Change:
    def make(twin: ast.AST) -> None:
        for name, value in values.items():
            setattr(twin, name, value())

    return Change(make)


def _drop(name: str, number: int, part: ast.AST) -> Change:
    return Change(lambda twin: getattr(twin, name).__delitem__(number), part)


def _drop_pair(number: int, key: ast.AST | None) -> Change:
    def make(twin: ast.AST) -> None:
        assert isinstance(twin, ast.Dict)
        del twin.keys[number], twin.values[number]

    return Change(make, key)


def _may_be_left_out(node: ast.AST, keyword: ast.keyword, names: dict[str, object]) -> bool:
    """Say whether a call is one without this argument: otherwise it is an error that types show."""
    assert isinstance(node, ast.Call)
    called = names.get(ast.unparse(node.func))
    if not callable(called) or not called.__module__.startswith("forbear."):
        return True
    parameter = inspect.signature(called).parameters[keyword.arg or ""]
    return parameter.default is not inspect.Parameter.empty


def _constants(node: ast.AST, value: object, parents: dict[ast.AST, ast.AST]) -> list[Change]:
    match value:
        case bool():
            return [_put(value=lambda: not value)]
        case int() | float():
            return [_put(value=lambda: value + 1)]
        case str():
            return [_put(value=lambda: "mutant")]
        case None:
            field = parents[node]
            if isinstance(field, ast.AnnAssign):
                other = INSTEAD_OF_NONE.get(ast.unparse(field.annotation).split(" ", maxsplit=1)[0])
                return [] if other is None else [_put(value=lambda: other)]
            return []
        case _:
            return []


def _left_out(tree: ast.Module) -> set[ast.AST]:
    """Return what is not changed: types, names of words, texts for people, and what only the reader sees."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign():
                roots.append(node.annotation)
            case ast.arg():
                roots.append(node.annotation)
            case ast.FunctionDef():
                roots.extend((node.returns, *node.decorator_list))
            case ast.ClassDef():
                roots.extend(node.decorator_list)
                if any(ast.unparse(base) == "StrEnum" for base in node.bases):
                    roots.append(node)
            case ast.Raise() | ast.JoinedStr() | ast.Assert():
                roots.append(node)
            case ast.Expr(value=ast.Constant()):
                roots.append(node)
            case ast.Subscript(value=ast.Name(id=name)) if name in {"tuple", "dict", "list", "frozenset", "Mapping"}:
                roots.append(node)
            case ast.Call(func=ast.Name(id="cast")):
                roots.append(node.args[0])
            case _:
                pass
    return {node for root in roots if root is not None for node in ast.walk(root)}


def _chain(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> list[ast.AST]:
    line = [node]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line if any(isinstance(one, ast.stmt) for one in line) else [*line, ast.Pass(lineno=0)]


def _header_end(statement: ast.stmt) -> int:
    """Return the last line of a statement, without the statements in it."""
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return statement.end_lineno or statement.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return max(statement.lineno, first.lineno - 1)


def _what(node: ast.AST, parents: dict[ast.AST, ast.AST], change: Change) -> str:
    """Return what is changed, with as much around it as says where it is."""
    if change.without is not None:
        name = f"{ast.unparse(node.func)}(...)" if isinstance(node, ast.Call) else _first_line(node)
        return f"`{name}` without `{_first_line(change.without)}`"
    around = node
    while around in parents and not isinstance(around, ast.stmt):
        parent = parents[around]
        if len(ast.unparse(around)) >= LEAST or len(_first_line(parent)) > MOST:
            break
        around = parent
    position = next(at for at, found in enumerate(ast.walk(around)) if found is node)
    copy = deepcopy(around)
    change.make(next(found for at, found in enumerate(ast.walk(copy)) if at == position))
    return f"`{_first_line(around)}` -> `{_first_line(copy)}`"


def _first_line(node: ast.AST) -> str:
    text = ast.unparse(node).strip()
    return text.split("\n", maxsplit=1)[0] if isinstance(node, (ast.If, ast.While, ast.For, ast.match_case)) else text
