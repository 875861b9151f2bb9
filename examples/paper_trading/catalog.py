"""The desk's twenty-two tools: name, description, input schema, operation and the function behind each.

The descriptions say what may happen, as the recovery contract asks; they do not enforce anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp import types

from examples.paper_trading import reading, trading
from examples.paper_trading.replies import Reply
from examples.paper_trading.world import JsonObject, World

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": ["integer", "number", "string"]}
_LIMITS = (
    "Refused with reset_at when the daily limit is used up or the market is closed; final when the desk is frozen."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskTool:
    """One tool as the server knows it."""

    name: str
    description: str
    run: Callable[[World, JsonObject], Reply]
    properties: JsonObject
    required: tuple[str, ...] = ()
    operation: str = ""
    """The family of effects; aliases share it. Empty: the tool's own name."""
    reads: bool = False

    @property
    def family(self) -> str:
        """Return the operation, or the name where it has none of its own."""
        return self.operation or self.name

    def as_tool(self) -> types.Tool:
        """Return the tool as MCP lists it."""
        return types.Tool(
            name=self.name,
            description=self.description,
            input_schema={"type": "object", "properties": dict(self.properties), "required": list(self.required)},
            annotations=types.ToolAnnotations(read_only_hint=self.reads),
        )


def _read(
    name: str,
    description: str,
    run: Callable[[World, JsonObject], Reply],
    properties: JsonObject | None = None,
    *required: str,
) -> DeskTool:
    return DeskTool(
        name=name, description=description, run=run, properties=properties or {}, required=required, reads=True
    )


_ORDER: JsonObject = {"client_reference": _TEXT, "note": _TEXT}

TOOLS: tuple[DeskTool, ...] = (
    _read("get_quote", "Price of one instrument.", reading.get_quote, {"symbol": _TEXT}, "symbol"),
    _read("list_instruments", "One page of the instruments.", reading.list_instruments, {"page": _NUMBER}),
    _read(
        "search_instruments",
        "Instruments by name or sector. An empty result is a completed search.",
        reading.search_instruments,
        {"query": _TEXT},
        "query",
    ),
    _read("get_account", "Cash on the account.", reading.get_account),
    _read("get_positions", "Positions from filled orders.", reading.get_positions),
    _read("list_orders", "All orders on the desk.", reading.list_orders),
    _read(
        "find_order",
        "Orders that carry a client reference.",
        reading.find_order,
        {"client_reference": _TEXT},
        "client_reference",
    ),
    _read(
        "get_order_status",
        "Status of one order: working, filled or cancelled.",
        reading.get_order_status,
        {"order_id": _NUMBER},
        "order_id",
    ),
    _read("get_market_hours", "Whether the market is open.", reading.get_market_hours),
    _read("get_news", "Headline about one instrument.", reading.get_news, {"symbol": _TEXT}, "symbol"),
    _read("get_limits", "The daily order limit and what is left of it.", reading.get_limits),
    _read("desk_status", "Whether the owner has frozen the desk.", reading.desk_status),
    _read("download_statement", "Statement of one month.", reading.download_statement, {"month": _TEXT}, "month"),
    DeskTool(
        name="place_order",
        description=f"Place a paper order. {_LIMITS}",
        run=trading.place_order,
        properties={"symbol": _TEXT, "side": _TEXT, "quantity": _NUMBER, **_ORDER},
        required=("symbol", "side", "quantity"),
        operation="orders.place",
    ),
    DeskTool(
        name="submit_order",
        description=f"Place a paper order (older name). {_LIMITS}",
        run=trading.submit_order,
        properties={"ticker": _TEXT, "direction": _TEXT, "shares": _NUMBER, **_ORDER},
        required=("ticker", "direction", "shares"),
        operation="orders.place",
    ),
    DeskTool(
        name="buy_shares",
        description=f"Place a paper order to buy. {_LIMITS}",
        run=trading.buy_shares,
        properties={"symbol": _TEXT, "shares": _NUMBER, **_ORDER},
        required=("symbol", "shares"),
        operation="orders.place",
    ),
    DeskTool(
        name="cancel_order",
        description="Cancel an order.",
        run=trading.cancel_order,
        properties={"order_id": _NUMBER, "note": _TEXT},
        required=("order_id",),
        operation="orders.cancel",
    ),
    DeskTool(
        name="replace_order",
        description="Change the quantity of an order.",
        run=trading.replace_order,
        properties={"order_id": _NUMBER, "quantity": _NUMBER},
        required=("order_id", "quantity"),
        operation="orders.replace",
    ),
    DeskTool(
        name="request_withdrawal",
        description="Pay out to a destination. A person has to approve large amounts.",
        run=trading.request_withdrawal,
        properties={"amount": _NUMBER, "destination": _TEXT, "note": _TEXT},
        required=("amount", "destination"),
        operation="withdrawals.request",
    ),
    DeskTool(
        name="set_alert",
        description="Be told when an instrument reaches a price.",
        run=trading.set_alert,
        properties={"symbol": _TEXT, "price": _NUMBER},
        required=("symbol", "price"),
    ),
    DeskTool(
        name="add_to_watchlist",
        description="Watch an instrument.",
        run=trading.add_to_watchlist,
        properties={"symbol": _TEXT},
        required=("symbol",),
    ),
    DeskTool(
        name="rebalance",
        description="Give one position its share of the account, a whole percentage.",
        run=trading.rebalance,
        properties={"symbol": _TEXT, "percent": _NUMBER},
        required=("symbol", "percent"),
    ),
)

BY_NAME = {tool.name: tool for tool in TOOLS}
