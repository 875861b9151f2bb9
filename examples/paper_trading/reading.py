"""The desk's thirteen tools that only look. Each takes the world and the arguments, and returns a reply."""

from __future__ import annotations

from datetime import timedelta

from examples.paper_trading.arguments import Unusable, optional_text, symbol_of, text_of, whole_of
from examples.paper_trading.replies import Reply, done, nothing_found, plain, refused, sentence
from examples.paper_trading.world import JsonObject, World, instant, stamp

PAGE_SIZE = 2
"""Instruments on one page: sixteen instruments are eight pages."""


def get_quote(world: World, arguments: JsonObject) -> Reply:
    """Answer with the price; an unknown symbol is a bare sentence that is not even marked as an error."""
    symbol = symbol_of(arguments)
    row = world.sql.execute("SELECT price FROM instruments WHERE symbol = ?", (symbol,)).fetchone()
    if row is None:
        return sentence("no such symbol")
    return plain({"symbol": symbol, "price": row["price"], "at": stamp(world.now)})


def list_instruments(world: World, arguments: JsonObject) -> Reply:
    """Answer with one page of the instruments."""
    page = whole_of(arguments, "page", default=1)
    rows = world.rows(
        "SELECT symbol, name, enabled FROM instruments ORDER BY symbol LIMIT ? OFFSET ?",
        PAGE_SIZE,
        PAGE_SIZE * (page - 1),
    )
    if page < 1 or not rows:
        return nothing_found()
    return done({"page": page, "items": rows})


def search_instruments(world: World, arguments: JsonObject) -> Reply:
    """Answer with the instruments whose name or sector holds the words."""
    words = text_of(arguments, "query").lower()
    rows = [
        row
        for row in world.rows("SELECT symbol, name, sector FROM instruments ORDER BY symbol")
        if words in f"{row['name']} {row['sector']}".lower()
    ]
    return done({"items": rows}) if rows else nothing_found()


def get_account(world: World, arguments: JsonObject) -> Reply:
    """Answer with the cash that is left."""
    row = world.sql.execute("SELECT cash FROM desk").fetchone()
    paid = world.count("SELECT coalesce(sum(amount), 0) FROM withdrawals")
    return plain({"cash": row["cash"] - paid, "currency": "PAPER"})


def get_positions(world: World, arguments: JsonObject) -> Reply:
    """Answer with what the agent's own filled orders add up to."""
    filled_until = stamp(world.now - _fills_after(world))
    rows = world.rows(
        "SELECT symbol, sum(CASE side WHEN 'buy' THEN quantity ELSE -quantity END) AS quantity FROM orders"
        " WHERE owner = 'agent' AND cancelled_at IS NULL AND placed_at <= ? GROUP BY symbol ORDER BY symbol",
        filled_until,
    )
    return plain({"positions": rows})


def list_orders(world: World, arguments: JsonObject) -> Reply:
    """Answer with all orders on the desk."""
    rows = world.rows("SELECT id FROM orders ORDER BY id")
    return plain({"orders": [_order(world, int(str(row["id"]))) for row in rows]})


def find_order(world: World, arguments: JsonObject) -> Reply:
    """Answer with the orders that carry a client reference."""
    reference = text_of(arguments, "client_reference")
    rows = world.rows("SELECT id FROM orders WHERE client_reference = ? ORDER BY id", reference)
    return done({"items": [_order(world, int(str(row["id"]))) for row in rows]}) if rows else nothing_found()


def get_order_status(world: World, arguments: JsonObject) -> Reply:
    """Answer with an order's status: ``working`` until it is filled, so that asking again is right."""
    order = _order(world, whole_of(arguments, "order_id"))
    if not order:
        return refused("ORDER_NOT_FOUND", "do_not_retry", message="No order has this id.")
    return done(order)


def get_market_hours(world: World, arguments: JsonObject) -> Reply:
    """Answer whether the market is open, and since or until when."""
    opens_at = instant(world.sql.execute("SELECT opens_at FROM desk").fetchone()[0])
    return plain({"open": world.now >= opens_at, "opens_at": stamp(opens_at), "now": stamp(world.now)})


def get_news(world: World, arguments: JsonObject) -> Reply:
    """Answer with a headline, as a bare sentence."""
    return sentence(f"{symbol_of(arguments)}: nothing new this morning.")


def get_limits(world: World, arguments: JsonObject) -> Reply:
    """Answer with the daily order limit and what is left of it."""
    limit, remaining, reset_at = orders_left(world)
    return plain({"daily_order_limit": limit, "remaining": remaining, "reset_at": reset_at})


def desk_status(world: World, arguments: JsonObject) -> Reply:
    """Answer whether the owner has frozen the desk."""
    frozen = bool(world.sql.execute("SELECT frozen FROM desk").fetchone()[0])
    return plain({"status": "frozen" if frozen else "open"})


def download_statement(world: World, arguments: JsonObject) -> Reply:
    """Answer with a month's statement."""
    month = optional_text(arguments, "month")
    if month is None:
        raise Unusable("month")
    orders = world.count("SELECT count(*) FROM orders WHERE owner = 'agent'")
    return plain({"month": month, "lines": [f"opening balance {month}", f"{orders} orders"]})


def orders_left(world: World) -> tuple[int, int, str]:
    """Return the daily limit, what is left of it at this moment, and when it starts again."""
    desk = world.sql.execute("SELECT daily_limit, orders_today, reset_at FROM desk").fetchone()
    if world.now >= instant(desk["reset_at"]):
        used = world.count("SELECT count(*) FROM orders WHERE owner = 'agent' AND placed_at >= ?", desk["reset_at"])
        reset_at = stamp(instant(desk["reset_at"]) + timedelta(days=1))
    else:
        used = desk["orders_today"] + world.count("SELECT count(*) FROM orders WHERE owner = 'agent'")
        reset_at = desk["reset_at"]
    return desk["daily_limit"], max(0, desk["daily_limit"] - used), reset_at


def _fills_after(world: World) -> timedelta:
    return timedelta(seconds=world.sql.execute("SELECT fills_after FROM desk").fetchone()[0])


def _order(world: World, order_id: int) -> dict[str, object]:
    row = world.sql.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None:
        return {}
    if row["cancelled_at"] is not None:
        status = "cancelled"
    elif world.now >= instant(row["placed_at"]) + _fills_after(world):
        status = "filled"
    else:
        status = "working"
    return {
        "order_id": row["id"],
        "client_reference": row["client_reference"],
        "symbol": row["symbol"],
        "side": row["side"],
        "quantity": row["quantity"],
        "placed_at": row["placed_at"],
        "status": status,
    }
