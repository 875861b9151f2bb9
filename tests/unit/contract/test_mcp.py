"""Results and errors of MCP: who made an error, what an unknown result type means, whose words are obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from forbear.contract import Mcp, McpError, mcp_result, tool_policy
from forbear.core.view import view_text
from forbear.core.vocabulary import Outcome, Recovery

SECRET = "PLANTED-SECRET-0001"


def text(words: str) -> dict[str, object]:
    """Return a text block."""
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("result", "read", "write"),
    [
        ({"content": [text("done")]}, Outcome.SUCCESS, Outcome.SUCCESS),
        ({"content": []}, Outcome.EMPTY, Outcome.SUCCESS),
        ({"content": [text("[]")]}, Outcome.EMPTY, Outcome.SUCCESS),
        ({"content": [text("null")], "structuredContent": None}, Outcome.EMPTY, Outcome.SUCCESS),
        ({"content": [], "structuredContent": {"result": []}}, Outcome.EMPTY, Outcome.SUCCESS),
        ({"content": [], "structuredContent": {"result": [1]}}, Outcome.SUCCESS, Outcome.SUCCESS),
        ({"content": [{"type": "image", "data": ""}]}, Outcome.SUCCESS, Outcome.SUCCESS),
        ({"resultType": "complete", "content": [text("x")]}, Outcome.SUCCESS, Outcome.SUCCESS),
        ({"content": [text("x")], "isError": None}, Outcome.SUCCESS, Outcome.SUCCESS),
    ],
)
def test_completed(judge: Any, result: object, read: Outcome, write: Outcome) -> None:
    """A result without an error is completed; a read that holds nothing is empty."""
    assert judge(mcp_result(result)).outcome is read
    assert judge(mcp_result(result), "write").outcome is write


@pytest.mark.parametrize(
    "result",
    [None, [], 5, {}, {"resultType": "weird", "content": []}, {"resultType": 7, "content": []},
     {"resultType": "input_required"}, {"resultType": "input_required", "inputRequests": {}},
     {"resultType": "task"}, {"resultType": "task", "status": "odd"}, {"resultType": "task", "status": "failed"}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_valid_result(judge: Any, result: object) -> None:
    """An unknown or broken result is never a success: a write is looked at, a read is not repeated blindly."""
    assert judge(mcp_result(result), "write").recovery is Recovery.INSPECT_OUTCOME
    assert judge(mcp_result(result)).recovery is Recovery.DO_NOT_RETRY


@pytest.mark.parametrize("flag", [True, "true", 1, {}], ids=repr)
def test_an_answered_error(judge: Any, flag: object) -> None:
    """`isError` in any form is an error; its text stays out; where the policy says so a write is looked at."""
    raw = mcp_result({"isError": flag, "content": [text(f"failed: {SECRET}")]})
    for effect in ("read", "write"):
        envelope = judge(raw, effect)
        assert (envelope.recovery, envelope.code) == (Recovery.REPAIR_INPUT, "TOOL_ERROR")
        assert SECRET not in view_text(envelope)
    partly = tool_policy("t", effect="write", atomic=False)
    assert judge(raw, partly).recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("requests", "recovery"),
    [
        ({"a": {"method": "elicitation/create", "params": {"mode": "form"}}}, Recovery.REQUEST_APPROVAL),
        ({"a": {"method": "elicitation/create"}, "b": {"method": "elicitation/create"}}, Recovery.REQUEST_APPROVAL),
        ({"a": {"method": "elicitation/create"}, "b": {"method": "sampling/createMessage"}}, Recovery.DO_NOT_RETRY),
        ({"a": {"method": "roots/list"}}, Recovery.DO_NOT_RETRY),
        ({"a": {}}, Recovery.DO_NOT_RETRY),
        ({"a": None}, Recovery.DO_NOT_RETRY),
    ],
)
def test_input_required(judge: Any, requests: object, recovery: Recovery) -> None:
    """Only a person answers a server's question; anything else that it asks for is refused."""
    raw = mcp_result({"resultType": "input_required", "inputRequests": requests})
    assert judge(raw, "write").recovery is recovery


def test_request_state_alone(judge: Any) -> None:
    """A server that wants to be asked once more is asked for a read only."""
    raw = mcp_result({"resultType": "input_required", "requestState": "opaque"})
    assert judge(raw).recovery is Recovery.RETRY_AFTER
    assert judge(raw, "write").recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("status", "recovery", "outcome"),
    [
        ("working", Recovery.INSPECT_OUTCOME, Outcome.PENDING),
        ("completed", Recovery.INSPECT_OUTCOME, Outcome.PENDING),
        ("input_required", Recovery.REQUEST_APPROVAL, Outcome.PENDING),
        ("cancelled", Recovery.INSPECT_OUTCOME, Outcome.UNKNOWN),
    ],
)
def test_tasks(judge: Any, status: str, recovery: Recovery, outcome: Outcome) -> None:
    """A task is polled; the call that made it is never sent a second time."""
    envelope = judge(mcp_result({"resultType": "task", "taskId": "t1", "status": status}), "write")
    assert (envelope.recovery, envelope.outcome) == (recovery, outcome)


@pytest.mark.parametrize(
    ("code", "origin", "read", "write"),
    [
        (-32700, "server", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        (-32700, "sdk", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (-32600, "server", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        (-32600, "unknown", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (-32601, "server", Recovery.USE_ALTERNATIVE, Recovery.USE_ALTERNATIVE),
        (-32602, "server", Recovery.REPAIR_INPUT, Recovery.REPAIR_INPUT),
        (-32602, "sdk", Recovery.REPAIR_INPUT, Recovery.INSPECT_OUTCOME),
        (-32603, "server", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (-32000, "server", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (-32001, "sdk", Recovery.RETRY_AFTER, Recovery.INSPECT_OUTCOME),
        (-32042, "server", Recovery.REQUEST_APPROVAL, Recovery.REQUEST_APPROVAL),
        (-32020, "server", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        (-32021, "server", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        (-32022, "server", Recovery.DO_NOT_RETRY, Recovery.DO_NOT_RETRY),
        (-32002, "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (-32011, "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (4290, "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (None, "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        (True, "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
        ("-32602", "server", Recovery.DO_NOT_RETRY, Recovery.INSPECT_OUTCOME),
    ],
)
def test_errors(judge: Any, code: object, origin: str, read: Recovery, write: Recovery) -> None:
    """A code means what its maker means by it; a code without a shared meaning proves nothing."""
    error = McpError(code=code, origin=origin, data={"retry_after": 5, "recovery": "retry_after"})
    assert judge(error).recovery is read
    assert judge(error, "write").recovery is write


def test_an_unlisted_tool(judge: Any) -> None:
    """Invalid params for a name that is not listed means that the tool does not exist."""
    assert judge(McpError(code=-32602, tool_listed=False), "write").recovery is Recovery.USE_ALTERNATIVE


CONTRACT = {"ok": False, "outcome": "refused", "error": {"code": "ACCESS_DENIED", "recovery": "do_not_retry"}}


def test_whose_contract_words_are_obeyed(judge: Any) -> None:
    """A registered tool's envelope is obeyed, in structured content or as the text's JSON; another's is data."""
    speaking = tool_policy("t", effect="write", trust="remote", speaks_contract=True)
    silent = tool_policy("t", effect="write", trust="remote")
    for raw in (
        Mcp(structured=CONTRACT),
        Mcp(structured=CONTRACT, is_error=True),
        Mcp(content=(text('{"ok":false,"error":{"code":"ACCESS_DENIED","recovery":"do_not_retry"}}'),)),
    ):
        assert judge(raw, speaking).code == "ACCESS_DENIED"
        assert judge(raw, silent).code != "ACCESS_DENIED"
    lying = Mcp(structured={"ok": True, "outcome": "success"}, is_error=True)
    assert judge(lying, speaking).recovery is Recovery.REPAIR_INPUT


def test_flat_refusal_with_a_precondition(judge: Any) -> None:
    """A registered tool may name a declared call that has to come first."""
    refusal = {
        "code": "READ_FIRST", "recovery": "repair_input",
        "precondition": {"tool": "read_note", "args": {"path": "a"}},
    }  # fmt: skip
    declared = tool_policy("t", effect="write", trust="remote", speaks_contract=True, preconditions=["read_note"])
    envelope = judge(Mcp(is_error=True, structured=refusal), declared)
    assert envelope.precondition is not None
    assert (envelope.precondition.tool, envelope.precondition.arguments) == ("read_note", '{"path":"a"}')
    undeclared = tool_policy("t", effect="write", trust="remote", speaks_contract=True)
    assert judge(Mcp(is_error=True, structured=refusal), undeclared).precondition is None


def test_text_rules(judge: Any) -> None:
    """An error text under a success flag is recognised by its prefix, and its fields are named."""
    policy = tool_policy(
        "set_viewport", effect="write", trust="remote",
        text_rules=[{"prefix": "Error:", "recovery": "repair_input", "fields": ["width", "height"]}],
    )  # fmt: skip
    envelope = judge(Mcp(content=(text("Error: width and height are needed"),)), policy)
    assert [field.name for field in envelope.invalid_fields] == ["width", "height"]
    assert judge(Mcp(content=(text("ok"),)), policy).outcome is Outcome.SUCCESS
