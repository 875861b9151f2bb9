"""The doctor on real things: the paper-trading desk's MCP server over stdio, and LangChain and LangGraph objects."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import tenacity
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy

from examples.paper_trading import governed
from forbear import Controller
from forbear.cli import main
from forbear.contract import policies_from_toml
from forbear.core.policy import ToolPolicy
from forbear.doctor import Concern, Diagnosis, diagnose
from forbear.doctor.sources import found_on
from forbear_adapters.langchain import RecoveryMiddleware
from forbear_adapters.langchain import sources as langchain
from forbear_adapters.langgraph import RecoveryToolNode
from forbear_adapters.langgraph import sources as langgraph

TOP = Path(__file__).parents[3]


@pytest.fixture
def declared() -> dict[str, ToolPolicy]:
    """What the desk's author declared."""
    with Controller.open(":memory:", worker=False) as controller:
        governed.declare(controller)
        return {policy.name: policy for policy in controller.engine.tools.policies()}


def test_the_desks_labels_are_guessed_right(
    declared: dict[str, ToolPolicy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loaded as it is, the proposal for the desk's server has the effect of all 22 tools and finds its aliases."""
    monkeypatch.chdir(TOP)
    command = [sys.executable, "-m", "examples.paper_trading.server", str(tmp_path / "desk.sqlite")]
    written = tmp_path / "policy.toml"
    assert main(["doctor", f"mcp:{shlex.join(command)}", "--json", "--write", str(written)]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["done"].endswith("asked for its list of tools, and stopped. No tool was called.")
    proposed = policies_from_toml(written)
    assert len(proposed) == 22
    assert {name: one.effect for name, one in proposed.items()} == {name: one.effect for name, one in declared.items()}
    assert {name: one.trust for name, one in proposed.items()} == {name: one.trust for name, one in declared.items()}

    def families(policies: dict[str, ToolPolicy]) -> set[frozenset[str]]:
        named: dict[str, set[str]] = {}
        for name, one in policies.items():
            named.setdefault(one.operation or name, set()).add(name)
        return {frozenset(names) for names in named.values()}

    assert families(proposed) == families(declared)
    for name, policy in declared.items():
        if policy.inspect is not None:
            assert (found := proposed[name].inspect) is not None
            assert found.tool == policy.inspect.tool
        if isinstance(policy.target, tuple):
            assert proposed[name].target == policy.target


def test_the_registered_sources_are_those_of_the_adapters() -> None:
    """What the project registers under `forbear.tool_sources` can be loaded and is what is tested here."""
    group = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"][
        "forbear.tool_sources"
    ]
    loaded = {name: EntryPoint(name, value, "forbear.tool_sources").load() for name, value in group.items()}
    assert loaded == {"langchain": langchain.found, "langgraph": langgraph.found}


@tool
def find_order(order_id: str) -> str:
    """Find an order."""
    raise AssertionError("no tool may be called")


@tool
@tenacity.retry(stop=tenacity.stop_after_attempt(3))
def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    raise AssertionError("no tool may be called")


TOOLS: list[BaseTool] = [find_order, cancel_order]


class Model(GenericFakeChatModel):
    """Says nothing."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Take the tools."""
        return self


def graph_of(node: Any, *, checkpointer: Any = None, retry_policy: RetryPolicy | None = None) -> Any:
    """Return a compiled graph of one node."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node, retry_policy=retry_policy)
    graph.add_edge(START, "tools")
    return graph.compile(checkpointer=checkpointer)


def examined(target: object) -> Diagnosis:
    """Return what the doctor says about an object."""
    return diagnose(found_on(target, name="it", known=[langchain.found, langgraph.found]), done="read")


@pytest.mark.parametrize(
    "made",
    [
        lambda: TOOLS,
        lambda: {"orders": TOOLS},
        lambda: ToolNode(TOOLS),
        lambda: graph_of(ToolNode(TOOLS)),
        lambda: graph_of(graph_of(ToolNode(TOOLS))),
        lambda: create_agent(Model(messages=iter([])), TOOLS),
    ],
    ids=["list", "mapping", "node", "graph", "subgraph", "agent"],
)
def test_tools_are_found_in_every_place(made: Callable[[], object]) -> None:
    """Tools are found in lists, nodes, graphs, subgraphs and agents, with the retry that one of them has inside."""
    said = examined(made())
    assert [one.tool.name for one in said.proposals] == ["find_order", "cancel_order"]
    assert ("retry_inside", "cancel_order") in {(one.concern, one.where) for one in said.findings}


def test_retries_around_tools_are_found() -> None:
    """A RetryPolicy on a tool node and ToolRetryMiddleware in an agent are risks that name the place and the number."""
    node = examined(graph_of(ToolNode([find_order]), retry_policy=RetryPolicy(max_attempts=4)))
    assert any("up to 4 times" in one.message and one.where == "node 'tools'" for one in node.findings)
    agent = create_agent(Model(messages=iter([])), [find_order], middleware=[ToolRetryMiddleware(max_retries=2)])
    assert any(
        "ToolRetryMiddleware" in one.message and "up to 3 times" in one.message for one in examined(agent).findings
    )


def test_a_missing_checkpointer_and_a_fixed_thread_are_found() -> None:
    """A graph that cannot pause, and one that has all conversations in one thread, are named; a right one is not."""
    concerns = {one.concern for one in examined(graph_of(ToolNode([find_order]))).findings}
    assert Concern.NO_CHECKPOINTER in concerns
    right = graph_of(ToolNode([find_order]), checkpointer=InMemorySaver())
    concerns = {one.concern for one in examined(right).findings}
    assert not concerns & {Concern.NO_CHECKPOINTER, Concern.SHARED_THREAD_ID}
    fixed = right.with_config(configurable={"thread_id": "all"})
    assert Concern.SHARED_THREAD_ID in {one.concern for one in examined(fixed).findings}


def test_our_node_and_middleware_are_seen_with_what_they_declare() -> None:
    """Tools under a controller count as governed, and its policies answer for them."""
    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("find_order", effect="read")
        controller.declare("elsewhere", effect="write")
        agent = create_agent(Model(messages=iter([])), [find_order], middleware=[RecoveryMiddleware(controller)])
        for target in (RecoveryToolNode([find_order], controller), agent):
            said = examined(target)
            assert [one.tool.name for one in said.proposals] == ["find_order"]
            assert said.proposals[0].tool.policy is not None
            assert said.points[0].holds == "yes"
            assert Concern.NOT_GOVERNED not in {one.concern for one in said.findings}
