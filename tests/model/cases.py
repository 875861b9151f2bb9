"""The small worlds that are explored: one case for each family of policies, so that each stays small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from forbear.core.policy import EmptyRetry, IdempotencyKey, Inspection, Limits, Poll, ToolPolicy
from forbear.core.values import Call
from forbear.core.vocabulary import Effect, Mode, Scope, Trust
from tests.model.calls import ALLOW, ALWAYS, ASK, CHILD, DENY, DOWN, LOOSE, Case, call

DESK = (("desk", "desk"),)
WRITE = ToolPolicy(name="order", effect=Effect.WRITE, repeatable=False, operation="trade", target=DESK)
ALIAS = replace(WRITE, name="alias")
PLAIN = ToolPolicy(name="order", effect=Effect.WRITE, operation="trade")
READ = ToolPolicy(name="look", effect=Effect.READ)
BARE = ToolPolicy(name="bare")


def _words(*names: str) -> frozenset[str]:
    return frozenset(names)


def _calls(**made: Call) -> dict[str, Call]:
    return made


def _cases() -> Iterable[Case]:
    yield Case(
        name="refusal",
        about="a declared write with a target, its alias on the same target, and another target",
        tools=(WRITE, ALIAS),
        calls=_calls(
            A=call(WRITE, {"desk": "a", "size": 1}),
            B=call(ALIAS, {"desk": "a", "size": 2}),
            C=call(WRITE, {"desk": "c", "size": 1}),
        ),
        results={"": ("ok", "refused", "alternative")},
        also=_words("turns", "lifts"),
        attempts=2,
        starts=4,
    )
    yield Case(
        name="refusal-until",
        about="refusals that name their end, and one whose constraint is declared for the operation",
        tools=(replace(WRITE, constraints={"desk_status": Scope.OPERATION}),),
        calls=_calls(A=call(WRITE, {"desk": "a", "size": 1}), C=call(WRITE, {"desk": "c", "size": 1})),
        results={"": ("ok", "refused-until", "refused-desk")},
        also=_words("turns", "ticks", "lost"),
        attempts=2,
        starts=4,
    )
    yield Case(
        name="undeclared",
        about="a tool that nobody labelled: nothing wider than the exact call is held",
        tools=(BARE,),
        calls=_calls(A=call(BARE, {"size": 1}), B=call(BARE, {"size": 2})),
        results={"": ("ok", "refused", "unknown", "wait", "repair")},
        also=_words("turns", "lost"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="retry",
        about="a declared write refused until a time, another call on its target, and a child run",
        tools=(WRITE,),
        calls=_calls(
            A=call(WRITE, {"desk": "a", "size": 1}),
            B=call(WRITE, {"desk": "a", "size": 2}),
            cA=call(WRITE, {"desk": "a", "size": 1}, run=CHILD),
        ),
        results={"": ("ok", "wait", "refused")},
        also=_words("turns", "ticks", "cancel", "lost"),
        attempts=3,
        starts=4,
    )


CASES: tuple[Case, ...] = tuple(_cases())

__all__ = [
    "ALLOW",
    "ALWAYS",
    "ASK",
    "BARE",
    "CASES",
    "DENY",
    "DOWN",
    "LOOSE",
    "PLAIN",
    "READ",
    "EmptyRetry",
    "IdempotencyKey",
    "Inspection",
    "Limits",
    "Mode",
    "Poll",
    "Trust",
    "timedelta",
]
