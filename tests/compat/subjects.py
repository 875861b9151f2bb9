"""The functions that tool builders are given. Annotations are strings on purpose: builders have to resolve them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
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


def made_with_context(received: list[str], name: str, annotation: object) -> Callable[..., object]:
    """Return a function with a parameter that the library fills."""

    def place_order(context: object, desk: str) -> str:
        """Place an order.

        Args:
            context: Filled by the library.
            desk: Name of the desk.
        """
        received.append(desk)
        raise Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")

    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation),
                  Parameter("desk", Parameter.POSITIONAL_OR_KEYWORD, annotation=str)]  # fmt: skip

    def renamed(*args: object, **kwargs: object) -> str:
        bound = signature.bind(*args, **kwargs)
        return place_order(*bound.arguments.values())

    signature = Signature(parameters, return_annotation=str)
    renamed.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect.signature` looks for
    renamed.__annotations__ = {name: annotation, "desk": str, "return": str}
    renamed.__name__, renamed.__doc__ = place_order.__name__, place_order.__doc__
    return renamed
