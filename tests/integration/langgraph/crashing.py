"""A program that is killed in the middle of a write and started again, bare and governed, in every durability mode.

Run as ``python -m tests.integration.langgraph.crashing FOLDER``: prints one JSON object. Each life is a forked process, so
that the imports are paid for once; it dies by SIGKILL.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from forbear import Controller
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langgraph.support import (
    Model,
    answers,
    bare,
    build,
    human,
    naive_gate,
    questions,
    thread,
    tool,
    yes,
)

MODES = ("sync", "async", "exit")


def _note(folder: Path, what: str) -> None:
    """Do the effect: one line, on disk before anything else happens."""
    descriptor = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{what}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


def _effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().split() if path.exists() else []


def _tools(folder: Path, *, dies: bool, meet: Callable[[], object] | None = None) -> list[Any]:
    def early(n: int) -> str:
        _note(folder, "early")
        return "early done"

    def order(n: int) -> str:
        _note(folder, "order")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "ordered"

    def gated(n: int) -> str:
        if meet is not None:
            meet()
        _note(folder, "gated")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "gated done"

    return [tool("early", early), tool("order", order), tool("gated", gated)]


def _open(folder: Path, tools: list[Any], *, governed: bool, script: list[Any], prefix: str) -> tuple[Any, Any]:
    saver = SqliteSaver(sqlite3.connect(folder / "graph.db", check_same_thread=False, timeout=20))
    if not governed:
        return build(Model(*script, prefix=prefix), bare(tools, wrap_tool_call=naive_gate), saver=saver), None
    controller = Controller.open(folder / "forbear.db", worker=False)
    controller.declare("early", "order", effect="write", repeatable=False)
    controller.declare("gated", effect="write", approval="always")
    return build(Model(*script, prefix=prefix), RecoveryToolNode(tools, controller), saver=saver), controller


CRASH: list[Any] = [[("early", {"n": 1})], [("order", {"n": 1})]]


def _first_life(folder: Path, mode: str, *, governed: bool) -> None:
    graph, _ = _open(folder, _tools(folder, dies=True), governed=governed, script=CRASH, prefix="a")
    graph.invoke(human(), thread(), durability=mode)


def _second_life(folder: Path, mode: str, *, governed: bool) -> None:
    # A model that is asked again makes new ids.
    graph, controller = _open(folder, _tools(folder, dies=False), governed=governed, script=CRASH, prefix="b")
    state = graph.get_state(thread())
    out = graph.invoke(None if state.next else human(), thread(), durability=mode)
    (folder / "answers").write_text(json.dumps([str(message.content) for message in answers(out)]))
    if controller is not None:
        controller.close()


def _live(target: Callable[[], object]) -> int:
    """Run a life in a process of its own; return its exit status (negative = killed by that signal)."""
    process = multiprocessing.get_context("fork").Process(target=target)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "a life did not end"
    return process.exitcode


def crash(folder: Path, mode: str, *, governed: bool) -> dict[str, Any]:
    """Kill the program after the write, start it again, and count."""
    folder.mkdir(parents=True)
    died = _live(lambda: _first_life(folder, mode, governed=governed))
    ended = _live(lambda: _second_life(folder, mode, governed=governed))
    said = json.loads((folder / "answers").read_text())
    return {"exits": [died, ended], "effects": _effects(folder), "answers": said}


GATED: list[Any] = [[("early", {"n": 1}), ("gated", {"n": 1})]]


def crash_after_approval(folder: Path, *, governed: bool) -> dict[str, Any]:
    """Pause, approve, die in the middle of the approved write, start again with the same answer, and count."""
    folder.mkdir(parents=True)

    def live(prefix: str, *, dies: bool) -> None:
        graph, controller = _open(folder, _tools(folder, dies=dies), governed=governed, script=GATED, prefix=prefix)
        path = folder / "answer"
        if not path.exists():
            state = graph.invoke(human(), thread())
            path.write_text(json.dumps(yes(*questions(state)) if governed else "yes"))
        else:
            out = graph.invoke(Command(resume=json.loads(path.read_text())), thread())
            (folder / "answers").write_text(json.dumps([str(message.content) for message in answers(out)]))
        if controller is not None:
            controller.close()

    exits = [_live(partial(live, "a", dies=dies)) for dies in (False, True, False)]
    return {"exits": exits, "effects": _effects(folder), "answers": json.loads((folder / "answers").read_text())}


def race(folder: Path, *, governed: bool) -> dict[str, Any]:
    """Resume one pause in two processes at once, with the same answer."""
    folder.mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    script: list[Any] = [[("gated", {"n": 1})]]

    def pause() -> None:
        graph, controller = _open(folder, _tools(folder, dies=False), governed=governed, script=script, prefix="a")
        state = graph.invoke(human(), thread())
        (folder / "answer").write_text(json.dumps(yes(*questions(state)) if controller is not None else "yes"))
        if controller is not None:
            controller.close()

    def resume() -> None:
        # Bare: both are inside the tool at the same time. Governed: only one ever gets there, so they meet before.
        tools = _tools(folder, dies=False, meet=None if governed else lambda: barrier.wait(30))
        graph, controller = _open(folder, tools, governed=governed, script=script, prefix="a")
        if governed:
            barrier.wait(30)
        graph.invoke(Command(resume=json.loads((folder / "answer").read_text())), thread())
        if controller is not None:
            controller.close()

    _live(pause)
    processes = [context.Process(target=resume) for _ in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(60)
    return {"exits": [one.exitcode for one in processes], "effects": _effects(folder)}


def main(root: Path) -> dict[str, Any]:
    """Run everything."""
    report: dict[str, Any] = {}
    for governed in (False, True):
        name = "governed" if governed else "bare"
        for mode in MODES:
            report[f"{name} {mode}"] = crash(root / name / mode, mode, governed=governed)
        report[f"{name} approved"] = crash_after_approval(root / name / "approved", governed=governed)
        report[f"{name} race"] = race(root / name / "race", governed=governed)
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
