"""Breadth-first exploration of everything that can happen to a small world, against promises that are checked on each step.

A world says where it starts, what can happen next and when two states are the same; a move that breaks a promise raises
`Violation`. The explorer visits every reachable state once, shortest histories first, and raises `Broken` with the shortest
history that breaks the promise. What a world is made of (a core, a store, an adapter), and what it promises, does not live
here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from forbear.errors import UsageError

__all__ = ["Broken", "Explored", "Move", "Violation", "World", "explore", "replay"]

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


class Violation(Exception):
    """A promise does not hold after a move. Raised by a world's moves, turned into `Broken` by the explorer.

    Args:
        promise: Which promise, in a few words.
        seen: What was seen instead.
    """

    def __init__(self, promise: str, seen: str) -> None:
        super().__init__(f"{promise}: {seen}")
        self.promise = promise
        self.seen = seen


class Broken(AssertionError):
    """A promise is broken: the message shows the shortest history that breaks it, one move a line.

    Args:
        promise: Which promise.
        seen: What was seen instead.
        history: Labels of the moves from the start; the last one breaks the promise.
    """

    def __init__(self, promise: str, seen: str, history: Sequence[str]) -> None:
        lines = [f"{promise}: {seen}", *(f"  {number}. {label}" for number, label in enumerate(history, 1))]
        super().__init__("\n".join(lines))
        self.promise = promise
        self.seen = seen
        self.history = tuple(history)


@dataclass(frozen=True, slots=True)
class Move(Generic[T_co]):
    """One thing that can happen in a state.

    `label` is unique among the moves of a state. `make` returns the next state, or None where nothing changed; it raises
    `Violation` where a promise does not hold.
    """

    label: str
    make: Callable[[], T_co | None]


class World(Protocol[S]):
    """What can be explored."""

    def start(self) -> S:
        """Return the state that every history begins in."""
        ...

    def key(self, state: S) -> Hashable:
        """Return a value that is equal exactly for states which have the same future."""
        ...

    def moves(self, state: S) -> Iterable[Move[S]]:
        """Return what can happen in a state; nothing = the history ends here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """How far an exploration went."""

    states: int
    # Moves that were made, those that changed nothing included.
    edges: int
    # Longest of the shortest histories.
    depth: int
    # Every reachable state was visited.
    complete: bool


def explore(world: World[S], *, max_states: int | None = None) -> Explored:
    """Visit every reachable state of a world, shortest histories first.

    Args:
        world: What is explored.
        max_states: Stop after so many states; None = go on to the end.

    Raises:
        Broken: a promise does not hold; the history is the shortest one.
    """
    start = world.start()
    seen = {world.key(start)}
    states: list[S | None] = [start]
    came: list[tuple[int, str]] = [(-1, "")]
    depths = [0]
    todo = deque([0])
    edges = 0
    while todo:
        if max_states is not None and len(states) >= max_states:
            return Explored(states=len(states), edges=edges, depth=depths[-1], complete=False)
        index = todo.popleft()
        state = states[index]
        assert state is not None
        states[index] = None
        for move in world.moves(state):
            edges += 1
            try:
                after = move.make()
            except Violation as broken:
                history = [*_history(came, index), move.label]
                raise Broken(broken.promise, broken.seen, history) from broken
            if after is None:
                continue
            key = world.key(after)
            if key not in seen:
                seen.add(key)
                todo.append(len(states))
                states.append(after)
                came.append((index, move.label))
                depths.append(depths[index] + 1)
    return Explored(states=len(states), edges=edges, depth=depths[-1], complete=True)


def _history(came: Sequence[tuple[int, str]], index: int) -> list[str]:
    labels: list[str] = []
    while index > 0:
        index, label = came[index]
        labels.append(label)
    return labels[::-1]


def replay(world: World[S], history: Iterable[str]) -> S:
    """Play one history, move by move, and return the state that it ends in.

    Raises:
        UsageError: a label names no move that can happen there.
        Broken: a promise does not hold after one of the moves.
    """
    state = world.start()
    played: list[str] = []
    for label in history:
        played.append(label)
        move = next((move for move in world.moves(state) if move.label == label), None)
        if move is None:
            raise UsageError(f"move {len(played)} {label!r} cannot happen there")
        try:
            after = move.make()
        except Violation as broken:
            raise Broken(broken.promise, broken.seen, played) from broken
        state = state if after is None else after
    return state
