"""A scripted model, a world that counts what is done to it, and graphs around both. No test lives here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from forbear import Controller
from forbear_adapters.langgraph import RecoveryToolNode, recovery_condition

Graph = CompiledStateGraph[Any, Any, Any, Any]
# What the model says at one step: a text, or calls as (tool, arguments).
Says = str | Sequence[tuple[str, dict[str, Any]]]


class World:
    """Everything that tools do is an entry of `done`."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.lock = threading.Lock()

    def do(self, *what: object) -> None:
        """Note one effect."""
        with self.lock:
            self.done.append(what)

    def count(self, *what: object) -> int:
        """Return how often an effect happened, by its first parts."""
        return sum(1 for entry in self.done if entry[: len(what)] == what)


def tool(name: str, run: Callable[..., Any] | None, arun: Callable[..., Any] | None = None) -> BaseTool:
    """Return a tool with this name around a sync or an async function, or both; their parameters are the arguments."""
    return StructuredTool.from_function(func=run, coroutine=arun, name=name, description=f"Do {name}.")


def doing(world: World, name: str, gives: str = "ok") -> BaseTool:
    """Return a tool that does what its name says to its `n`, and gives this text (with `{n}` in it)."""

    def run(n: Any) -> str:
        world.do(name, n)
        return gives.format(n=n)

    return tool(name, run)


def giving(name: str, value: object) -> BaseTool:
    """Return a tool that gives this value for any `n`."""

    def run(n: Any) -> object:
        return value if n is not None else None

    return tool(name, run)


def says(step: int, what: Says, *, prefix: str = "m", **extra: Any) -> AIMessage:
    """Return the AI message of one step, with ids that a restart repeats."""
    if isinstance(what, str):
        return AIMessage(what, id=f"{prefix}{step}", **extra)
    calls = [
        {"name": name, "args": args, "id": f"{prefix}{step}c{n}", "type": "tool_call"}
        for n, (name, args) in enumerate(what)
    ]
    return AIMessage("", tool_calls=calls, id=f"{prefix}{step}", **extra)


class Model:
    """Says what its script says: the n-th AI message since the last human one is the n-th line, then "done"."""

    def __init__(self, *script: Says | AIMessage, again: bool = False, prefix: str = "m") -> None:
        self.script = script
        # Repeat the last line for ever.
        self.again = again
        self.prefix = prefix
        self.calls = 0
        # What the model was shown at each call.
        self.seen: list[list[AnyMessage]] = []

    def __call__(self, state: dict[str, Any]) -> dict[str, Any]:
        messages: list[AnyMessage] = state["messages"]
        self.calls += 1
        self.seen.append(list(messages))
        step = sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in messages)
        if step >= len(self.script) and not self.again:
            return {"messages": [AIMessage("done", id=f"{self.prefix}end{len(messages)}")]}
        line = self.script[min(step, len(self.script) - 1)]
        return {"messages": [line if isinstance(line, AIMessage) else says(step, line, prefix=self.prefix)]}


def build(
    model: Callable[..., Any],
    node: Any,
    *,
    saver: Any = None,
    routed: bool | None = None,
    send: bool = False,
    **node_options: Any,
) -> Graph:
    """Return model and tools in a loop: through `recovery_condition`, or through a static edge."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", node, **node_options)
    graph.add_edge(START, "model")
    if send:
        from langgraph.types import Send

        def fan_out(state: dict[str, Any]) -> Any:
            calls = state["messages"][-1].tool_calls
            return [Send("tools", [call]) for call in calls] or END

        graph.add_conditional_edges("model", fan_out, ["tools", END])
    else:
        graph.add_conditional_edges("model", tools_condition)
    if isinstance(node, RecoveryToolNode) if routed is None else routed:
        graph.add_conditional_edges("tools", recovery_condition)
    else:
        graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def naive_gate(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
    """Ask about every gated call the way that people write it: `interrupt()` in the wrapper."""
    if request.tool_call["name"].startswith("gated"):
        answer = interrupt({"approve": request.tool_call["args"]})
        if answer != f"yes-{request.tool_call['args'].get('n', '')}" and answer != "yes":
            text = f"not approved: {answer}"
            return ToolMessage(text, name=request.tool_call["name"], tool_call_id=request.tool_call["id"] or "")
    return execute(request)


def bare(tools: Sequence[BaseTool], **options: Any) -> ToolNode:
    """Return LangGraph's own node."""
    return ToolNode(tools, **options)


def thread(name: str = "t1") -> Any:
    """Return a config with a thread id."""
    return {"configurable": {"thread_id": name}, "recursion_limit": 60}


def human(text: str = "go", name: str = "h1") -> dict[str, Any]:
    """Return the input of one turn."""
    return {"messages": [HumanMessage(text, id=name)]}


def answers(state: Any) -> list[ToolMessage]:
    """Return the tool messages of a result."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def questions(state: Any) -> list[dict[str, Any]]:
    """Return what a paused forbear graph asks: one mapping a prompt."""
    return [prompt for pause in state["__interrupt__"] for prompt in pause.value["prompts"]]


def yes(*prompts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an approval of these prompts."""
    return {
        prompt["ticket"]: {"decision": "approve", "fingerprint": prompt["fingerprint"], **changes} for prompt in prompts
    }


class FakeClock:
    """A clock that a test moves; sleeping moves it."""

    def __init__(self) -> None:
        self.at = datetime(2026, 9, 5, 18, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    async def asleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def controller(**options: Any) -> Controller:
    """Return a controller in memory whose time stands still and whose worker is the test."""
    options.setdefault("clock", FakeClock())
    options.setdefault("worker", False)
    return Controller.open(":memory:", **options)
