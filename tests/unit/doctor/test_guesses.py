"""What the doctor proposes for tools it only knows by name, schema and hints. The file's form is tested beside it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from forbear.contract import policies_from_toml
from forbear.core.vocabulary import Effect
from forbear.doctor import FoundTool
from forbear.doctor.guesses import propose
from forbear.doctor.policy_file import policy_text


def tool(name: str, *arguments: str, needs: tuple[str, ...] = (), says: str = "", **fields: Any) -> FoundTool:
    """Return a tool with text arguments."""
    properties = {argument: {"type": "string"} for argument in (*arguments, *needs)}
    schema = {"properties": properties, "required": list(needs)}
    return FoundTool(name=name, kind="function", description=says, input_schema=schema, **fields)


@pytest.mark.parametrize(
    ("name", "read_only", "effect", "active"),
    [
        ("get_order", True, "read", True),
        ("get_order", None, "read", False),
        ("get_order", False, "read", False),
        ("frobnicate", True, "read", False),
        ("frobnicate", None, "undeclared", False),
        ("frobnicate", False, "write", True),
        ("delete_order", None, "write", True),
        ("delete_order", True, "write", True),
        ("listOrders", True, "read", True),
        ("github_create_issue", None, "write", True),
        ("account_balance", True, "read", True),
        ("get_or_create_user", True, "read", True),
    ],
)
def test_a_read_is_only_proposed_where_two_signs_agree(
    name: str, read_only: bool | None, effect: str, active: bool
) -> None:
    """A guess that loosens waits for its author, unless name and hint agree; one that tightens does not wait."""
    (proposal,) = propose([tool(name, read_only=read_only)])
    assert proposal.effect == effect
    assert (proposal.value("effect") is not None) is active


def test_an_unconfirmed_file_declares_no_read() -> None:
    """A proposal that is loaded unread never treats a tool as a read on the strength of its name alone."""
    text = policy_text(propose([tool("get_order", needs=("order_id",)), tool("cancel_order", needs=("order_id",))]))
    policies = policies_from_toml(text)
    assert policies["get_order"].effect is Effect.UNDECLARED
    assert policies["cancel_order"].effect is Effect.WRITE
    assert policies["cancel_order"].target == (("order_id", "order_id"),)
    assert policies["cancel_order"].inspect is None
    confirmed = policies_from_toml(text.replace('# effect = "read"', 'effect = "read"').replace("# inspect", "inspect"))
    assert confirmed["get_order"].effect is Effect.READ
    assert confirmed["cancel_order"].inspect is not None
    assert confirmed["cancel_order"].inspect.tool == "get_order"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tool("create_user", "email"), tool("make_user", "email")),
        (tool("delete_record", "id"), tool("removeRecords", "id")),
        (
            tool("buy_shares", "symbol", says="Place a paper order to buy. May be refused."),
            tool("place_order", "symbol", says="Place a paper order."),
        ),
    ],
)
def test_aliases_get_one_operation(one: FoundTool, other: FoundTool) -> None:
    """Two names for one thing are proposed as one family, whose holds cover both."""
    first, second = propose([one, other])
    assert first.value("operation") is not None
    assert first.value("operation") == second.value("operation")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tool("create_user", "email"), tool("create_order", "email")),
        (tool("create_user", "email"), tool("delete_user", "email")),
        (tool("cancel_order", "id", says="Cancel an order."), tool("cancel_trip", "id", says="Cancel a trip.")),
        (tool("get_user", "id"), tool("find_user", "id")),
    ],
)
def test_different_operations_stay_apart(one: FoundTool, other: FoundTool) -> None:
    """Tools that share a verb or a thing, but not both, are no aliases; neither are reads."""
    assert [proposal.value("operation") for proposal in propose([one, other])] == [None, None]


def test_aliases_are_matched_under_one_word() -> None:
    """A target that an alias calls by another name is declared as the first one's."""
    first, second = propose([tool("place_order", needs=("symbol",)), tool("submit_order", needs=("ticker",))])
    assert first.value("target") == "symbol"
    assert second.value("target") == {"symbol": "ticker"}


@pytest.mark.parametrize("name", ["a.b c", 'quo"te', "line\u2028end", "del\x7f", "[x]\n[tools.y]", "é"])
def test_any_name_makes_a_valid_file(name: str) -> None:
    """A hostile server's names cannot add lines to the file or make it unreadable."""
    text = policy_text(propose([tool(name, name), tool("set_x", needs=(f"{name}_id",), remote=True)]))
    assert set(tomllib.loads(text)["tools"]) == {name, "set_x"}
