"""The journeys: what the world looks like, what the person asks for, which models try, and what counts as the goal.

How a journey is run is in `run`; how its harm is counted is in `counts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from examples.paper_trading.models import STEPS, Habit, Wish
from examples.paper_trading.world import MIDNIGHT, MORNING, Fault, FaultKind, Scenario, World

ALL = (Habit.REPEAT, Habit.REWORD, Habit.SWITCH, Habit.BEHAVE)
SILENCE_S = 0.3
"""Real read time-out of the calls that get no answer: the only real waiting in the demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """One story."""

    name: str
    request: str
    """What the person asks for."""
    wishes: tuple[Wish, ...]
    """What the request comes down to, for a scripted model."""
    habits: tuple[Habit, ...]
    scenario: Scenario = field(default_factory=Scenario)
    timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    person: tuple[bool, ...] = (False,)
    """What the person answers, one after the other; the last answer stays."""
    later: timedelta | None = None
    """How much later the person comes back and asks how it went; None: the person does not."""
    goal: Callable[[World], bool] | None = None
    """Whether the world is as the person wants it; None: there is nothing to reach."""
    goal_of: tuple[Habit, ...] = ALL
    """The models that can reach the goal at all: one that never repairs its input cannot, whoever stands beside it."""
    steps: int = STEPS
    at_once: bool = False


def order(symbol: str, quantity: int, reference: str) -> Wish:
    """Return the wish to buy, with the desk's other names for it and its look-up."""
    return Wish(
        tool="place_order",
        arguments={"symbol": symbol, "side": "buy", "quantity": quantity, "client_reference": reference},
        others=(
            (
                "submit_order",
                {"ticker": symbol, "direction": "buy", "shares": quantity, "client_reference": reference},
            ),
            ("buy_shares", {"symbol": symbol, "shares": quantity, "client_reference": reference}),
        ),
        check=("find_order", {"client_reference": reference}),
    )


def bought(symbol: str, quantity: int) -> Callable[[World], bool]:
    """Return the goal of exactly one such order."""

    def reached(world: World) -> bool:
        query = "SELECT count(*) FROM orders WHERE owner = 'agent' AND symbol = ? AND quantity = ?"
        return world.count(query, symbol, quantity) == 1

    return reached


def paid(times: int) -> Callable[[World], bool]:
    """Return the goal of exactly so many withdrawals."""
    return lambda world: world.count("SELECT count(*) FROM withdrawals") == times


def _allocated(world: World) -> bool:
    return world.rows("SELECT symbol, percent FROM allocations") == [{"symbol": "ACME", "percent": 40}]


def _statement_read(world: World) -> bool:
    return any(entry.tool == "download_statement" and entry.outcome == "success" for entry in world.ledger())


_MORNING_ORDERS = (
    ("ACME", 10),
    ("BOLT", 20),
    ("DELT", 30),
    ("ECHO", 40),
    ("FLUX", 50),
    ("GRID", 60),
    ("HALO", 70),
    ("IRIS", 80),
)


def _morning_done(world: World) -> bool:
    pages = {entry.arguments for entry in world.ledger() if entry.tool == "list_instruments"}
    looks = [entry for entry in world.ledger() if entry.tool == "get_order_status"]
    return (
        all(bought(symbol, quantity)(world) for symbol, quantity in _MORNING_ORDERS)
        and len(pages) == 8
        and len(looks) > 1
    )


_WITHDRAWAL = Wish(tool="request_withdrawal", arguments={"amount": 5_000, "destination": "savings"})
_BUY_ACME = "Please buy 10 ACME, reference r-1."

JOURNEYS: tuple[Journey, ...] = (
    Journey(
        name="owner_freeze",
        request=_BUY_ACME,
        wishes=(order("ACME", 10, "r-1"),),
        habits=ALL,
        scenario=Scenario(frozen=True),
    ),
    Journey(
        name="daily_limit",
        request=_BUY_ACME,
        wishes=(order("ACME", 10, "r-1"),),
        habits=ALL,
        scenario=Scenario(orders_today=25),
        later=MIDNIGHT - MORNING + timedelta(minutes=5),
        goal=bought("ACME", 10),
    ),
    Journey(
        name="market_closed",
        request=_BUY_ACME,
        wishes=(order("ACME", 10, "r-1"),),
        habits=(Habit.REPEAT, Habit.SWITCH, Habit.BEHAVE),
        scenario=Scenario(opens_at=MORNING + timedelta(minutes=30)),
        later=timedelta(minutes=35),
        goal=bought("ACME", 10),
    ),
    Journey(
        name="disabled_instrument",
        request="Please buy 100 ZETA, reference r-1, and 10 ACME, reference r-2.",
        wishes=(order("ZETA", 100, "r-1"), order("ACME", 10, "r-2")),
        habits=ALL,
        scenario=Scenario(disabled=("ZETA",)),
        goal=bought("ACME", 10),
        at_once=True,
    ),
    Journey(
        name="invalid_size",
        request="Please give ACME as much of the account as is allowed, but at most 40 percent; start with 140.",
        wishes=(Wish(tool="rebalance", arguments={"symbol": "ACME", "percent": 140}, repaired={"percent": 40}),),
        habits=(Habit.REPEAT, Habit.REWORD, Habit.BEHAVE),
        goal=_allocated,
        goal_of=(Habit.BEHAVE,),
    ),
    Journey(
        name="bare_refusal",
        request="Please cancel order 1.",
        wishes=(Wish(tool="cancel_order", arguments={"order_id": 1}),),
        habits=(Habit.REPEAT, Habit.REWORD, Habit.BEHAVE),
    ),
    Journey(
        name="approval_no",
        request="Please withdraw 5000 to savings.",
        wishes=(_WITHDRAWAL,),
        habits=(Habit.REPEAT, Habit.REWORD, Habit.BEHAVE),
        person=(False, False, False, True),
        goal=paid(0),
    ),
    Journey(
        name="approval_yes",
        request="Please withdraw 5000 to savings.",
        wishes=(_WITHDRAWAL,),
        habits=(Habit.REPEAT, Habit.BEHAVE),
        person=(True,),
        goal=paid(1),
    ),
    Journey(
        name="empty_search",
        request="Which instruments have to do with tulips?",
        wishes=(Wish(tool="search_instruments", arguments={"query": "tulips"}),),
        habits=(Habit.REPEAT, Habit.BEHAVE),
    ),
    Journey(
        name="silent_commit",
        request=_BUY_ACME,
        wishes=(order("ACME", 10, "r-1"),),
        habits=ALL,
        scenario=Scenario(faults=(Fault(operation="orders.place", kind=FaultKind.SILENT_AFTER_COMMIT, times=3),)),
        timeouts=dict.fromkeys(("place_order", "submit_order", "buy_shares"), SILENCE_S),
        goal=bought("ACME", 10),
    ),
    Journey(
        name="closed_commit",
        request=_BUY_ACME,
        wishes=(order("ACME", 10, "r-1"),),
        habits=(Habit.REPEAT, Habit.SWITCH, Habit.BEHAVE),
        scenario=Scenario(faults=(Fault(operation="orders.place", kind=FaultKind.EXIT_AFTER_COMMIT, times=2),)),
        goal=bought("ACME", 10),
    ),
    Journey(
        name="unavailable_read",
        request="Please download the statement of 2026-08.",
        wishes=(Wish(tool="download_statement", arguments={"month": "2026-08"}),),
        habits=(Habit.REPEAT, Habit.BEHAVE),
        scenario=Scenario(faults=(Fault(operation="download_statement", kind=FaultKind.UNAVAILABLE, times=2),)),
        later=timedelta(minutes=5),
        goal=_statement_read,
    ),
    Journey(
        name="healthy_morning",
        request="Please place the eight orders of this morning, list all instruments, and wait until the last is filled.",
        wishes=(
            *(order(symbol, quantity, f"m-{symbol}") for symbol, quantity in _MORNING_ORDERS),
            *(Wish(tool="list_instruments", arguments={"page": page}) for page in range(1, 9)),
            Wish(tool="place_order", arguments={"symbol": "LYNX", "side": "buy", "quantity": 5}),
            Wish(tool="get_order_status", arguments={"order_id": "$order_id"}, until=("status", "filled")),
        ),
        habits=(Habit.BEHAVE,),
        goal=_morning_done,
        steps=40,
    ),
)

BY_NAME = {journey.name: journey for journey in JOURNEYS}
