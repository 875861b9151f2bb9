"""The functions that tool builders are given. Annotations are strings on purpose: builders have to resolve them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from forbear import Refused

SECRET = "tok-QX19"
# Local to this module: nobody who resolves annotations elsewhere finds it.
Side = Literal["buy", "sell"]


def made(received: list[str], kind: str) -> Callable[..., object]:
    """Return a fresh function that notes the desks that it was called for."""

    def answer(desk: str) -> str:
        received.append(desk)
        if desk == "frozen":
            raise Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")
        if desk == "broken":
            raise RuntimeError(f"token={SECRET}")
        return f"order {len(received)}"

    def place_order(desk: Annotated[str, "Name of the desk"], qty: int = 1, side: Side = "buy") -> str:
        """Place an order.

        Args:
            desk: Name of the desk.
            qty: How many.
            side: Buy or sell.
        """
        return answer(desk)

    async def aplace_order(desk: Annotated[str, "Name of the desk"], qty: int = 1, side: Side = "buy") -> str:
        """Place an order.

        Args:
            desk: Name of the desk.
            qty: How many.
            side: Buy or sell.
        """
        return answer(desk)

    if kind == "sync":
        return place_order
    aplace_order.__name__ = "place_order"
    return aplace_order
