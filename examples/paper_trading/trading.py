"""The desk's nine tools that change something. Each takes the world and the arguments, and returns a reply.

They run inside one transaction with their ledger row. Faults are added around them, in the server.
"""

from __future__ import annotations

from examples.paper_trading.arguments import optional_text, renamed, symbol_of, text_of, whole_of
from examples.paper_trading.reading import orders_left
from examples.paper_trading.replies import BARE_DENIAL, Reply, complaint, done, refused, sentence
from examples.paper_trading.world import JsonObject, World, instant, stamp


def place_order(world: World, arguments: JsonObject) -> Reply:
    """Place an order. The client reference is only noted: like many desks, this one does not check it for doubles."""
    symbol = symbol_of(arguments)
    side = text_of(arguments, "side").lower()
    quantity = whole_of(arguments, "quantity")
    refusal = _refusal(world, symbol=symbol, side=side, quantity=quantity)
    if refusal is not None:
        return refusal
    row = world.sql.execute(
        "INSERT INTO orders (client_reference, symbol, side, quantity, placed_at, note, owner)"
        " VALUES (?, ?, ?, ?, ?, ?, 'agent') RETURNING id",
        (
            optional_text(arguments, "client_reference"),
            symbol,
            side,
            quantity,
            stamp(world.now),
            optional_text(arguments, "note"),
        ),
    ).fetchone()
    return done({"order_id": row["id"], "symbol": symbol, "side": side, "quantity": quantity}, effect=True)


def submit_order(world: World, arguments: JsonObject) -> Reply:
    """Place an order: an older name, with older argument names."""
    return place_order(world, renamed(arguments, {"ticker": "symbol", "direction": "side", "shares": "quantity"}))


def buy_shares(world: World, arguments: JsonObject) -> Reply:
    """Place an order to buy: a shorter name."""
    return place_order(world, {"side": "buy", **renamed(arguments, {"shares": "quantity"})})


def cancel_order(world: World, arguments: JsonObject) -> Reply:
    """Cancel an order; one that is not the agent's is refused with nothing but a sentence."""
    order_id = whole_of(arguments, "order_id")
    row = world.sql.execute("SELECT owner, cancelled_at FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None or row["owner"] != "agent":
        return complaint("Permission denied", code=BARE_DENIAL)
    if row["cancelled_at"] is not None:
        return sentence(f"order {order_id} was cancelled before")
    world.sql.execute("UPDATE orders SET cancelled_at = ? WHERE id = ?", (stamp(world.now), order_id))
    return sentence(f"order {order_id} cancelled", effect=True)


def replace_order(world: World, arguments: JsonObject) -> Reply:
    """Change the quantity of an own order."""
    order_id = whole_of(arguments, "order_id")
    quantity = whole_of(arguments, "quantity")
    if quantity < 1:
        return _bad_size("quantity")
    changed = world.sql.execute(
        "UPDATE orders SET quantity = ? WHERE id = ? AND owner = 'agent' AND cancelled_at IS NULL", (quantity, order_id)
    ).rowcount
    if not changed:
        return refused("ORDER_NOT_FOUND", "do_not_retry", message="No open order of this desk has this id.")
    return done({"order_id": order_id, "quantity": quantity}, effect=True)


def request_withdrawal(world: World, arguments: JsonObject) -> Reply:
    """Pay out; above the threshold only with an unspent yes of a person to exactly this amount and destination."""
    amount = whole_of(arguments, "amount")
    destination = text_of(arguments, "destination").lower()
    if amount < 1:
        return refused(
            "INVALID_AMOUNT", "repair_input", message="The amount is not usable.", fields={"invalid_fields": ["amount"]}
        )
    threshold = world.sql.execute("SELECT approval_above FROM desk").fetchone()[0]
    if amount > threshold:
        approval = world.sql.execute(
            "UPDATE prompts SET spent_at = ? WHERE id = (SELECT min(id) FROM prompts WHERE answer = 'yes'"
            " AND spent_at IS NULL AND amount = ? AND destination = ?) RETURNING id",
            (stamp(world.now), amount, destination),
        ).fetchone()
        if approval is None:
            return refused(
                "WITHDRAWAL_APPROVAL_REQUIRED",
                "request_approval",
                message="A person has to approve a withdrawal of this size.",
                constraint="withdrawal_approval",
            )
    world.sql.execute(
        "INSERT INTO withdrawals (amount, destination, at) VALUES (?, ?, ?)", (amount, destination, stamp(world.now))
    )
    return done({"amount": amount, "destination": destination, "status": "paid"}, effect=True)


def set_alert(world: World, arguments: JsonObject) -> Reply:
    """Note a price to be told about, and say so in a sentence."""
    symbol = symbol_of(arguments)
    price = whole_of(arguments, "price")
    world.sql.execute("INSERT INTO alerts (symbol, price, at) VALUES (?, ?, ?)", (symbol, price, stamp(world.now)))
    return sentence(f"alert set for {symbol} at {price}", effect=True)


def add_to_watchlist(world: World, arguments: JsonObject) -> Reply:
    """Watch an instrument; one that is watched already is a completed result too."""
    symbol = symbol_of(arguments)
    added = world.sql.execute(
        "INSERT INTO watchlist VALUES (?, ?) ON CONFLICT DO NOTHING", (symbol, stamp(world.now))
    ).rowcount
    return done({"symbol": symbol}, effect=bool(added), outcome="success" if added else "already_satisfied")


def rebalance(world: World, arguments: JsonObject) -> Reply:
    """Give one position its share of the account, a whole percentage from 1 to 100."""
    symbol = symbol_of(arguments)
    percent = whole_of(arguments, "percent")
    if not 1 <= percent <= 100:
        return _bad_size("percent")
    world.sql.execute(
        "INSERT INTO allocations VALUES (?, ?, ?) ON CONFLICT (symbol) DO UPDATE SET percent = excluded.percent",
        (symbol, percent, stamp(world.now)),
    )
    return done({"symbol": symbol, "percent": percent}, effect=True)


def _refusal(world: World, *, symbol: str, side: str, quantity: int) -> Reply | None:
    """Return why the desk does not take this order now, or None."""
    desk = world.sql.execute("SELECT frozen, opens_at FROM desk").fetchone()
    if desk["frozen"]:
        return refused(
            "DESK_FROZEN_BY_OWNER",
            "do_not_retry",
            message="This desk is frozen by its owner and cannot be changed by this agent.",
            constraint="desk_status",
        )
    if side not in ("buy", "sell"):
        return refused("INVALID_SIDE", "repair_input", message="Buy or sell.", fields={"invalid_fields": ["side"]})
    instrument = world.sql.execute("SELECT lot, enabled FROM instruments WHERE symbol = ?", (symbol,)).fetchone()
    if instrument is None:
        return refused(
            "INVALID_SYMBOL", "repair_input", message="Unknown symbol.", fields={"invalid_fields": ["symbol"]}
        )
    if not instrument["enabled"]:
        return refused(
            "INSTRUMENT_NOT_ENABLED",
            "do_not_retry",
            message="This instrument is not enabled on this desk.",
            constraint="instrument_status",
        )
    if quantity < 1 or quantity % instrument["lot"]:
        return _bad_size("quantity")
    opens_at = instant(desk["opens_at"])
    if world.now < opens_at:
        return refused(
            "MARKET_CLOSED",
            "retry_after",
            message="The market is closed.",
            constraint="market_hours",
            reset_at=opens_at,
        )
    limit, remaining, reset_at = orders_left(world)
    if not remaining:
        return refused(
            "DAILY_ORDER_LIMIT_REACHED",
            "retry_after",
            message="The daily paper-trading order limit has been reached.",
            constraint="daily_order_limit",
            reset_at=instant(reset_at),
            fields={"limit": limit, "remaining": 0},
        )
    return None


def _bad_size(field: str) -> Reply:
    return refused(
        "INVALID_POSITION_SIZE",
        "repair_input",
        message="The position size is not usable.",
        constraint="position_size",
        fields={"invalid_fields": [field]},
    )
