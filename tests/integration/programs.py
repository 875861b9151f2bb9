"""Thirty agent programs as people write them: tools, labels that a careful author gives, and what the model asks for.

Each is run bare and governed by `test_programs.py`. Nothing is asserted here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

from forbear import Controller, Next, execute, govern
from forbear.testing.clock import ManualClock

# One message of the model: tools and arguments.
Step = Sequence[tuple[str, Mapping[str, object]]]
Tool = Callable[..., object]
Labels = Mapping[str, Mapping[str, Any]]

READ: Final[Mapping[str, Any]] = {"effect": "read"}
WRITE: Final[Mapping[str, Any]] = {"effect": "write"}
ONCE: Final[Mapping[str, Any]] = {"effect": "write", "repeatable": False}
AGAIN: Final[Mapping[str, Any]] = {"effect": "write", "repeatable": True}


@dataclass(frozen=True)
class Program:
    """One agent program."""

    name: str
    labels: Labels
    # Made anew for every run: tools keep state.
    tools: Callable[[list[str]], Sequence[Tool]]
    steps: Sequence[Step]
    # Equal calls of one message share one execution unless they are declared repeatable: such programs are labelled.
    ways: Sequence[str] = field(default=("labelled", "undeclared"))


def one(tool: str, count: int, **arguments: object) -> list[Step]:
    """Return so many messages with the same call."""
    return [[(tool, arguments)]] * count


def each(tool: str, name: str, values: Sequence[object]) -> list[Step]:
    """Return a message for each value of an argument."""
    return [[(tool, {name: value})] for value in values]


def _always(name: str, answer: object = "ok") -> Tool:
    """Return a tool that gives the same answer."""

    def tool(**_arguments: object) -> object:
        return answer

    tool.__name__ = name
    return tool


def _steady(*names: str, answer: object = "ok") -> Callable[[list[str]], Sequence[Tool]]:
    return lambda _ran: [_always(name, answer) for name in names]


def _pages(ran: list[str]) -> Sequence[Tool]:
    def next_page() -> object:
        return {"page": len(ran), "more": len(ran) < 40}

    return [next_page]


def _dice(ran: list[str]) -> Sequence[Tool]:
    def roll_dice(sides: int) -> int:
        return len(ran) * 7 % sides

    return [roll_dice]


def _edit(number: int) -> list[Step]:
    """Return the messages of one edit and its test."""
    return [
        [("read_file", {"path": "a"})],
        [("write_file", {"path": "a", "text": str(number)})],
        [("run_tests", {})],
    ]


def _build(ran: list[str]) -> Sequence[Tool]:
    def get_status(run: int) -> str:
        return "running" if len(ran) < 60 else "green"

    return [get_status]


def _compile(ran: list[str]) -> Sequence[Tool]:
    def run_tests() -> str:
        return "1 failed" if len(ran) < 40 else "ok"

    return [_always("read_file", "text"), _always("write_file"), run_tests]


def _shell(error: type[Exception]) -> Callable[[list[str]], Sequence[Tool]]:
    def tools(_ran: list[str]) -> Sequence[Tool]:
        def shell(cmd: str) -> str:
            if cmd == "make":
                raise error("exit 2")
            return "out"

        return [shell]

    return tools


def _rows(_ran: list[str]) -> Sequence[Tool]:
    def upsert(row: int, value: int) -> object:
        if row % 7 == 3:
            raise ValueError("a bad row")
        return {"row": row}

    return [upsert]


def _slots(_ran: list[str]) -> Sequence[Tool]:
    def search(day: int) -> object:
        return [] if day < 4 else [{"slot": 1}, {"slot": 2}]

    def book(slot: int, day: int) -> str:
        if slot == 1:
            raise ValueError("taken")
        return "booked"

    return [search, book]


def _stored(_ran: list[str]) -> Sequence[Tool]:
    held: dict[int, int] = {}

    def get(key: int) -> int:
        return held[key]

    def put(key: int) -> str:
        held[key] = 1
        return "ok"

    return [get, put]


def _files(_ran: list[str]) -> Sequence[Tool]:
    held: dict[str, str] = {}

    def read_file(path: str) -> str:
        if path not in held:
            raise FileNotFoundError(2, "No such file or directory", path)
        return held[path]

    def write_file(path: str, text: str) -> str:
        held[path] = text
        return "written"

    return [read_file, write_file]


def _queue(_ran: list[str]) -> Sequence[Tool]:
    waiting = list(range(20))

    def pop() -> object:
        return waiting.pop() if waiting else None

    return [pop]


def _counter(_ran: list[str]) -> Sequence[Tool]:
    value = [0]

    def increment() -> int:
        value[0] += 1
        return value[0]

    return [increment]


def _sql(_ran: list[str]) -> Sequence[Tool]:
    def sql(query: str) -> object:
        if "bad" in query:
            raise ValueError("syntax")
        return [[1]]

    return [sql]


def _form(_ran: list[str]) -> Sequence[Tool]:
    def submit(doc: str) -> str:
        if doc != "v6":
            raise ValueError("not accepted")
        return "accepted"

    return [submit]


def _guess(_ran: list[str]) -> Sequence[Tool]:
    def guess(number: int) -> str:
        return "too low" if number < 50 else "right"

    return [guess]


def _service(ran: list[str]) -> Sequence[Tool]:
    def health(name: str) -> object:
        return {"ok": len(ran) > 9}

    return [_always("restart", "restarted"), health]


DOWN: Final = [[("scroll", {"by": "down"})] * 15]
PROGRAMS: Final = (
    Program("a cursor without arguments", {"next_page": READ}, _pages, one("next_page", 40)),
    Program("empty pages", {"next_page": READ}, _steady("next_page", answer={"items": []}), one("next_page", 20)),
    Program("dice", {"roll_dice": READ}, _dice, one("roll_dice", 12, sides=6)),
    Program("the same log line", {"append_log": AGAIN}, _steady("append_log"), one("append_log", 25, line="x")),
    Program("the same key", {"send_keys": AGAIN}, _steady("send_keys"), one("send_keys", 25, keys="Down")),
    Program("keys in one message", {"scroll": AGAIN}, _steady("scroll"), DOWN * 3, ways=("labelled",)),
    Program(
        "keys and screenshots",
        {"send_keys": AGAIN, "screenshot": READ},
        _steady("send_keys", "screenshot"),
        [*one("send_keys", 1, keys="Down"), *one("screenshot", 1)] * 20,
    ),
    Program("a build that is watched", {"get_status": READ}, _build, one("get_status", 60, run=1)),
    Program(
        "edit, compile, test",
        {"read_file": READ, "write_file": {**WRITE, "target": "path"}, "run_tests": AGAIN},
        _compile,
        [step for number in range(15) for step in _edit(number)],
    ),
    Program("a flaky test", {"run_tests": AGAIN}, _steady("run_tests", answer="1 failed"), one("run_tests", 8)),
    Program(
        "a shell that raises values",
        {"shell": AGAIN},
        _shell(ValueError),
        [step for n in range(8) for step in ([("shell", {"cmd": "make"})], [("shell", {"cmd": f"sed {n}"})])],
    ),
    Program(
        "a shell that raises anything",
        {"shell": AGAIN},
        _shell(RuntimeError),
        [step for n in range(8) for step in ([("shell", {"cmd": "make"})], [("shell", {"cmd": f"sed {n}"})])],
        # Undeclared, what may have happened is not repeated.
        ways=("labelled",),
    ),
    Program(
        "batches with bad rows",
        {"upsert": ONCE},
        _rows,
        [[("upsert", {"row": id_ + 10 * batch, "value": 1}) for id_ in range(10)] for batch in range(6)],
    ),
    Program(
        "a booking",
        {"search": READ, "book": ONCE},
        _slots,
        [
            *each("search", "day", [1, 2, 3, 4]),
            [("book", {"slot": 1, "day": 4})],
            [("search", {"day": 4})],
            [("book", {"slot": 2, "day": 4})],
        ],
    ),
    Program(
        "mails to one person",
        {"send_mail": {**ONCE, "target": "to"}},
        _steady("send_mail"),
        [*each("send_mail", "to", ["a", "b", "c"]), [("send_mail", {"to": "a", "text": "more"})]],
    ),
    Program("fan-out", {"fetch": READ}, _steady("fetch"), [[("fetch", {"url": n}) for n in range(30)]] * 2),
    Program(
        "get or create",
        {"get": READ, "put": WRITE},
        _stored,
        [[(tool, {"key": key})] for key in range(12) for tool in ("get", "put", "get")],
    ),
    Program(
        "a missing file",
        {"read_file": READ, "write_file": {**WRITE, "target": "path"}},
        _files,
        [
            step
            for path in ("a", "b")
            for step in (
                [("read_file", {"path": path})],
                [("write_file", {"path": path, "text": "x"})],
                [("read_file", {"path": path})],
            )
        ],
    ),
    Program(
        "sleep and look",
        {"sleep": READ, "check": READ},
        _steady("sleep", "check", answer=None),
        [*one("sleep", 1, seconds=1), *one("check", 1)] * 20,
    ),
    Program(
        "a browser",
        {"click": AGAIN, "wait": READ},
        _steady("click", "wait"),
        [*one("click", 1, x=1), *one("wait", 1), *one("click", 1, x=3), *one("wait", 1)] * 8,
    ),
    Program(
        "thoughts", {"think": READ}, _steady("think", answer=""), each("think", "text", [n // 3 for n in range(15)])
    ),
    Program("a counter", {"increment": AGAIN}, _counter, one("increment", 20)),
    Program("a queue", {"pop": WRITE}, _queue, one("pop", 24)),
    Program(
        "undo",
        {"edit": AGAIN, "undo": AGAIN},
        _steady("edit", "undo"),
        [*one("edit", 1, text="a"), *one("undo", 1), *one("edit", 1, text="a"), *one("undo", 2)] * 3,
    ),
    Program(
        "queries with mistakes",
        {"sql": READ},
        _sql,
        each("sql", "query", ["bad 1", "bad 2", "bad 3", "select 1", "select 1", "bad 4", "select 2"]),
    ),
    Program("empty searches", {"search": READ}, _steady("search", answer=[]), each("search", "text", list(range(25)))),
    Program(
        "errors as texts", {"get": READ}, _steady("get", answer="Error: not found"), each("get", "id", list(range(20)))
    ),
    Program(
        "writes without a result", {"post": ONCE}, _steady("post", answer=None), each("post", "id", list(range(30)))
    ),
    Program(
        "a payment in parts",
        {"charge": {**ONCE, "target": "order"}},
        _steady("charge"),
        [
            [("charge", {"order": 1, "amount": 10}), ("charge", {"order": 1, "amount": 20})],
            [("charge", {"order": 1, "amount": 30})],
        ],
    ),
    Program(
        "moves of a game", {"play": AGAIN}, _steady("play"), each("play", "move", ["Nf3", "Nf6", "Ng1", "Ng8"] * 5)
    ),
    Program("a form that is mended", {"submit": ONCE}, _form, each("submit", "doc", [f"v{n}" for n in range(7)])),
    Program("guesses", {"guess": AGAIN}, _guess, each("guess", "number", list(range(10, 51, 4)))),
    Program(
        "a service that comes up",
        {"restart": AGAIN, "health": READ},
        _service,
        [*one("restart", 1, name="web"), *one("health", 2, name="web")] * 4,
    ),
)


# ---- ways to run one -------------------------------------------------------------------------------------------------


def noted(tools: Sequence[Tool], ran: list[str]) -> list[Tool]:
    """Return the tools, each noting its calls."""

    def note(tool: Tool) -> Tool:
        @wraps(tool)
        def noting(**arguments: object) -> object:
            ran.append(f"{tool.__name__} {json.dumps(arguments)}")
            return tool(**arguments)

        return noting

    return [note(tool) for tool in tools]


def bare(program: Program) -> list[str]:
    """Run a program without a controller, and return what ran."""
    ran: list[str] = []
    tools = {tool.__name__: tool for tool in noted(program.tools(ran), ran)}
    for step in program.steps:
        for name, arguments in step:
            with suppress(Exception):  # a framework tells the model
                tools[name](**arguments)
    return ran


def opened(program: Program, *, labelled: bool, clock: ManualClock) -> Controller:
    """Open a controller for a program."""
    controller = Controller.open(":memory:", worker=False, clock=clock)
    for name, fields in program.labels.items() if labelled else ():
        controller.declare(name, **fields)
    return controller


def governed(program: Program, *, labelled: bool, seconds: float) -> list[str]:
    """Run a program with governed functions, and return what ran."""
    ran: list[str] = []
    clock = ManualClock()
    with opened(program, labelled=labelled, clock=clock) as controller:
        tools = {tool.__name__: govern(tool, controller, run="r") for tool in noted(program.tools(ran), ran)}
        for step in program.steps:
            for name, arguments in step:
                clock.advance(seconds)
                tools[name](**arguments)
    return ran


def executed(program: Program, *, labelled: bool, seconds: float) -> list[str]:
    """Run a program through `execute`, and return what ran."""
    ran: list[str] = []
    clock = ManualClock()
    with opened(program, labelled=labelled, clock=clock) as controller:
        tools = noted(program.tools(ran), ran)
        messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
        for number, step in enumerate(program.steps):
            clock.advance(seconds)
            calls = [
                {
                    "id": f"c{number}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for place, (name, arguments) in enumerate(step)
            ]
            response = {"role": "assistant", "content": None, "tool_calls": calls}
            progress = execute(response, messages, tools, controller, run="r")
            messages = progress.messages
            if progress.next is Next.HALTED:
                ran.append("halted")
                break
    return ran
