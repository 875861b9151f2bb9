"""Observe mode changes nothing for the graph: messages, exceptions, pauses and repetitions are LangGraph's own."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.prebuilt import ToolNode

from forbear import Refused
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langgraph.support import Model, World, answers, build, controller, human, thread, tool


def _tools(world: World) -> list[Any]:
    def fails(n: int) -> str:
        world.do("fails", n)
        raise PermissionError("the text of the tool")

    def refuses(n: int) -> dict[str, Any]:
        world.do("refuses", n)
        return {"ok": False, "outcome": "refused", "error": {"code": "ACCESS_DENIED", "recovery": "do_not_retry"}}

    def speaks(n: int) -> str:
        world.do("speaks", n)
        raise Refused("ACCESS_DENIED", recovery="do_not_retry")

    return [tool("fails", fails), tool("refuses", refuses), tool("speaks", speaks)]


def test_results_and_errors_are_toolnodes_own() -> None:
    """Refused, failed and gated calls run as often as the model asks, and read as they would without us."""
    script: list[Any] = [[(name, {"n": 1})] for name in ("refuses", "fails", "speaks") for _ in range(3)]
    bare_world, world = World(), World()
    plain = build(Model(*script), ToolNode(_tools(bare_world), handle_tool_errors=True)).invoke(human(), thread())
    with controller(mode="observe") as governed:
        governed.declare("refuses", "fails", effect="write", approval="always")
        node = RecoveryToolNode(_tools(world), governed, handle_tool_errors=True)
        ours = build(Model(*script), node).invoke(human(), thread())
    assert world.done == bare_world.done
    assert [m.model_dump(exclude={"id"}) for m in answers(ours)] == [
        m.model_dump(exclude={"id"}) for m in answers(plain)
    ]


def test_an_exception_that_ends_the_run_still_ends_it() -> None:
    """With `ToolNode`'s default an exception of a tool is the caller's."""
    with controller(mode="observe") as governed:
        node = RecoveryToolNode(_tools(World()), governed)
        with pytest.raises(PermissionError, match="the text of the tool"):
            build(Model([("fails", {"n": 1})]), node).invoke(human(), thread())


def test_one_observed_tool_lives_beside_an_enforced_one() -> None:
    """The mode is a tool's own."""
    world = World()
    with controller() as governed:
        governed.declare("speaks", effect="write", mode="observe")
        governed.declare("fails", effect="write")
        node = RecoveryToolNode(_tools(world), governed, handle_tool_errors=True)
        script: list[Any] = [[("speaks", {"n": 1})], [("fails", {"n": 1})]] * 2
        build(Model(*script), node).invoke(human(), thread())
    assert (world.count("speaks"), world.count("fails")) == (2, 1)
