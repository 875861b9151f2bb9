"""A call that succeeds gives the very message that `ToolNode` gives; everything else gives the controller's text."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import MessagesState
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.types import Command

from forbear import Refused
from forbear_adapters.langgraph import RecoveryToolNode
from tests.integration.langgraph.support import (
    Model,
    World,
    answers,
    build,
    controller,
    doing,
    giving,
    human,
    thread,
    tool,
)


def _both(tools: list[Any], *script: Any, **declared: Any) -> tuple[Any, Any]:
    plain = build(Model(*script), ToolNode(tools)).invoke(human(), thread())
    with controller() as governed:
        for name, fields in declared.items():
            governed.declare(name, **fields)
        ours = build(Model(*script), RecoveryToolNode(tools, governed)).invoke(human(), thread())
    return plain, ours


def _same(left: ToolMessage, right: ToolMessage) -> None:
    assert left.model_dump(exclude={"id"}) == right.model_dump(exclude={"id"})


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "",
        {"a": 1, "ü": [1, 2]},
        [1, 2],
        [],
        None,
        7,
        True,
        ["one", {"type": "text", "text": "two"}],
        [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}],
        object,
    ],
    ids=repr,
)
@pytest.mark.parametrize("effect", ["read", "write", None])
def test_a_result_of_any_shape_is_the_very_message_of_toolnode(value: Any, effect: str | None) -> None:
    """Strings, mappings, lists, content blocks, nothing: the model reads exactly what it would read without forbear."""
    tools = [giving("look", value)]
    declared = {"look": {"effect": effect}} if effect else {}
    plain, ours = _both(tools, [("look", {"n": 1})], **declared)
    assert len(answers(plain)) == len(answers(ours)) == 1
    _same(answers(plain)[0], answers(ours)[0])


def test_an_artifact_reaches_the_message() -> None:
    """A tool with content and artifact keeps its artifact."""
    tools = [
        StructuredTool.from_function(
            func=lambda n: ("found", {"rows": [n]}),
            name="look",
            description="x",
            response_format="content_and_artifact",
        )
    ]
    plain, ours = _both(tools, [("look", {"n": 1})])
    _same(answers(plain)[0], answers(ours)[0])
    assert answers(ours)[0].artifact == {"rows": [1]}


class _State(MessagesState):
    desk: str


def test_injected_state_store_and_runtime_keep_working() -> None:
    """Tools that take the graph's state or runtime get them, and the model cannot forge them."""
    seen: list[Any] = []

    def look(n: int, messages: Annotated[list[Any], InjectedState("messages")], runtime: ToolRuntime) -> str:
        """Look."""
        seen.append((n, len(messages), runtime.tool_call_id))
        return "ok"

    with controller() as governed:
        node = RecoveryToolNode([look], governed)
        build(Model([("look", {"n": 1, "messages": ["forged"]})]), node).invoke(human(), thread())
    assert seen == [(1, 2, "m0c0")]


def test_a_command_passes_through_untouched() -> None:
    """A tool that returns a Command updates the state and routes as it does with `ToolNode`."""

    def hand_over(n: int, runtime: ToolRuntime) -> Command[Any]:
        """Hand over."""
        return Command(update={"messages": [ToolMessage(f"moved {n}", tool_call_id=runtime.tool_call_id)]})

    plain, ours = _both([hand_over], [("hand_over", {"n": 1})])
    assert [m.content for m in answers(ours)] == [m.content for m in answers(plain)] == ["moved 1"]


def test_the_node_takes_lists_and_calls_as_toolnode_does() -> None:
    """A list of messages gives a list of messages."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages

    with controller() as governed:
        node = RecoveryToolNode([doing(World(), "look", "seen {n}")], governed)
        schema: Any = Annotated[list[Any], add_messages]
        graph: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        call = {"name": "look", "args": {"n": 3}, "id": "c1", "type": "tool_call"}
        out: Any = graph.compile().invoke(
            [HumanMessage("go", id="h"), AIMessage("", tool_calls=[call], id="a")], thread()
        )
    assert out[-1].content == "seen 3"


def test_a_refusal_is_an_error_message_with_the_controllers_text_only() -> None:
    """What a tool refuses with is told in the contract's words; its own text never reaches the model."""

    def order(n: int) -> str:
        raise Refused("DESK_FROZEN_BY_OWNER", constraint="desk_status", recovery="do_not_retry")

    world = World()

    def leak(n: int) -> str:
        world.do("leak")
        raise RuntimeError("token=sk-SECRET")

    with controller() as governed:
        governed.declare("order", "leak", effect="write")
        node = RecoveryToolNode([tool("order", order), tool("leak", leak)], governed)
        out = build(Model([("order", {"n": 1}), ("leak", {"n": 1})]), node).invoke(human(), thread())
    assert [message.status for message in answers(out)] == ["error", "error"]
    text = " ".join(str(message.content) for message in answers(out))
    assert "SECRET" not in text
    assert "do_not_retry" in text
    assert "inspect_outcome" in text
    assert [message.response_metadata["forbear"]["answer"] for message in answers(out)] == ["executed", "executed"]


def test_handlers_that_make_messages_of_errors_do_not_hide_them() -> None:
    """`handle_tool_errors=True`, and a tool's own handler: the bare model reads the leak, the controller sees the error."""

    def leak(n: int) -> str:
        raise ToolException("token=sk-SECRET")

    made = StructuredTool.from_function(func=leak, name="leak", description="x", handle_tool_error=True)
    cases: list[tuple[list[Any], dict[str, Any]]] = [
        ([tool("leak", leak)], {"handle_tool_errors": True}),
        ([made], {}),
    ]
    for tools, options in cases:
        plain = build(Model([("leak", {"n": 1})]), ToolNode(tools, **options)).invoke(human(), thread())
        assert "SECRET" in str(answers(plain)[0].content)
        with controller() as governed:
            governed.declare("leak", effect="write")
            node = RecoveryToolNode(tools, governed, **options)
            ours = build(Model([("leak", {"n": 1})]), node).invoke(human(), thread())
        assert "SECRET" not in str(answers(ours)[0].content)
        assert "repair_input" in str(answers(ours)[0].content)


def test_arguments_that_do_not_fit_the_schema_are_named_and_not_run() -> None:
    """A wrong argument is `repair_input` with its name, never with its value."""
    world = World()

    def order(n: int) -> str:
        world.do("order", n)
        return "ok"

    with controller() as governed:
        governed.declare("order", effect="write")
        node = RecoveryToolNode([tool("order", order)], governed)
        out = build(Model([("order", {"n": "sk-SECRET"})]), node).invoke(human(), thread())
    content = str(answers(out)[0].content)
    assert world.done == []
    assert "SECRET" not in content
    assert '"n"' in content
    assert "repair_input" in content


def test_a_tool_that_does_not_exist_runs_nothing() -> None:
    """An unknown tool is answered, without the list of all tools."""
    with controller() as governed:
        node = RecoveryToolNode([giving("look", "x")], governed)
        out = build(Model([("sell_everything", {"n": 1})]), node).invoke(human(), thread())
    assert answers(out)[0].status == "error"
    assert "look" not in str(answers(out)[0].content)


def test_the_contract_in_json_text_is_obeyed_for_an_owned_tool_and_data_for_a_remote_one() -> None:
    """Many tools can only return text; whether its words count is the policy's business, not the text's."""
    refusal = '{"ok": false, "outcome": "refused", "error": {"code": "ACCESS_DENIED", "recovery": "do_not_retry"}}'
    shown = {}
    for trust in ("owned", "remote"):
        with controller() as governed:
            governed.declare("look", effect="read", trust=trust)
            node = RecoveryToolNode([giving("look", refusal)], governed)
            shown[trust] = answers(build(Model([("look", {"n": 1})]), node).invoke(human(), thread()))[0]
    assert (shown["owned"].status, shown["remote"].status) == ("error", "success")
    assert shown["remote"].content == refusal
