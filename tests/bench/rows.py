"""The calls that are measured: each a function that makes one call. No clock is read here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import tenacity
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from forbear import Controller, Refused
from forbear.contract import Http, Value, builtin_catalogue, classify, tool_policy
from forbear_adapters.langgraph import RecoveryToolNode

Row = Callable[[], object]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def look_up(key: int) -> dict[str, object]:
    """Look something up: the succeeding tool of every row."""
    return {"ok": True, "key": key, "name": "n", "price": 1.5, "items": ["a"]}


async def alook_up(key: int) -> dict[str, object]:
    """Look something up."""
    return look_up(key)


@contextmanager
def sync_rows(folder: Path) -> Iterator[dict[str, Row]]:
    """Open the synchronous rows, by name."""
    with ExitStack() as stack:
        memory = stack.enter_context(Controller.open(":memory:"))
        file = stack.enter_context(Controller.open(folder / "bench.db"))
        for controller in (memory, file):
            controller.declare("look_up", effect="read")
            controller.declare("write", effect="write", target="key")
            controller.declare("refuse", effect="write", target="key")
        decorated = tenacity.retry(stop=tenacity.stop_after_attempt(3))(look_up)
        numbers = count(1)

        def refuse(key: int) -> object:
            raise Refused("DESK_FROZEN", recovery="do_not_retry")

        # A long run is halted by design; each blocked call is the first blocked one of a run of its own turn.
        memory.call("refuse", {"key": 0}, run="b", step="s0", execute=refuse, turn="t")

        def blocked() -> object:
            n = next(numbers)
            return memory.call("refuse", {"key": 0}, run="b", step=f"s{n}", call_id="c", execute=refuse)

        def read(controller: Controller) -> Row:
            return lambda: controller.call("look_up", {"key": next(numbers)}, run="r", execute=look_up)

        def stepped(controller: Controller) -> Row:
            def call() -> object:
                n = next(numbers)
                return controller.call("look_up", {"key": n}, execute=look_up, run="r2", step=f"s{n}", call_id="c")

            return call

        def write(controller: Controller) -> Row:
            return lambda: controller.call("write", {"key": next(numbers)}, run="w", execute=look_up)

        yield {
            "bare call": lambda: look_up(key=1),
            "tenacity @retry": lambda: decorated(key=1),
            "forbear read": read(memory),
            "forbear read, with step and call id": stepped(memory),
            "forbear read, SQLite file": read(file),
            "forbear blocked call": blocked,
            "forbear write, :memory:": write(memory),
            "forbear write, SQLite file": write(file),
            **classification(),
        }


def classification() -> dict[str, Row]:
    """Return the rows of classification alone."""
    read, catalogue = tool_policy("look_up", effect="read"), builtin_catalogue()
    plain = Value(look_up(1))
    limit = Http(status=429, headers=(("Retry-After", "30"),), body="")

    def judge(raw: Any) -> Row:
        return lambda: classify(raw, policy=read, arguments={}, now=NOW, catalogue=catalogue)

    return {"classify a success": judge(plain), "classify a 429": judge(limit)}


@contextmanager
def async_rows() -> Iterator[dict[str, Callable[[], Any]]]:
    """Open the asynchronous rows, by name; each returns an awaitable."""
    with Controller.open(":memory:") as controller:
        controller.declare("look_up", effect="read")
        decorated = tenacity.retry(stop=tenacity.stop_after_attempt(3))(alook_up)
        numbers = count(1)
        bare, governed = _graph(ToolNode([look_up])), _graph(RecoveryToolNode([look_up], controller))

        def in_graph(graph: Any) -> Callable[[], Any]:
            def call() -> Any:
                n = next(numbers)
                asks = AIMessage("", id=f"m{n}", tool_calls=[{"name": "look_up", "args": {"key": n}, "id": f"c{n}"}])
                return graph.ainvoke({"messages": [asks]}, {"configurable": {"thread_id": "t"}})

            return call

        yield {
            "tenacity @retry (async)": lambda: decorated(key=1),
            "forbear read (async)": lambda: controller.acall(
                "look_up", {"key": next(numbers)}, run="r", execute=alook_up
            ),
            "graph of one ToolNode": in_graph(bare),
            "graph of one RecoveryToolNode": in_graph(governed),
        }


def _graph(node: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile()


def run_async(rows: dict[str, Callable[[], Any]], name: str, times: int) -> None:
    """Make one row's call so many times, on one event loop."""

    async def several() -> None:
        for _ in range(times):
            await rows[name]()

    asyncio.run(several())
