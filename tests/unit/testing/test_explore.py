"""The explorer visits every state once, shortest histories first, and shows the history that breaks a promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forbear.errors import UsageError
from forbear.testing.explore import Broken, Explored, Move, Violation, explore, replay


class Clock:
    """A counter that goes round: one up, or back to nothing; it promises to stay below a bound."""

    def __init__(self, size: int, bound: int) -> None:
        self.size = size
        self.bound = bound

    def start(self) -> int:
        """Return zero."""
        return 0

    def key(self, state: int) -> int:
        """Return the state."""
        return state

    def moves(self, state: int) -> Iterator[Move[int]]:
        """Return both moves, and one that changes nothing."""
        yield Move("up", lambda: self._up(state))
        yield Move("reset", lambda: 0)
        yield Move("nothing", lambda: None)

    def _up(self, state: int) -> int:
        if state + 1 >= self.bound:
            raise Violation("it stays below its bound", f"it is {state + 1}")
        return (state + 1) % self.size


def test_every_state_is_visited_once() -> None:
    """Five states, three moves each, and the farthest is four moves away."""
    assert explore(Clock(5, 9)) == Explored(states=5, edges=15, depth=4, complete=True)


def test_a_bound_ends_an_exploration_and_it_says_so() -> None:
    """What was not visited is not claimed."""
    explored = explore(Clock(5, 9), max_states=3)
    assert (explored.states, explored.complete) == (3, False)


def test_the_shortest_history_is_shown() -> None:
    """Resets and moves that change nothing are not part of it."""
    with pytest.raises(Broken) as broken:
        explore(Clock(9, 3))
    assert (broken.value.promise, broken.value.seen) == ("it stays below its bound", "it is 3")
    assert broken.value.history == ("up", "up", "up")
    assert str(broken.value).splitlines() == ["it stays below its bound: it is 3", "  1. up", "  2. up", "  3. up"]


def test_a_history_is_played_again() -> None:
    """Move by move, until a promise breaks or the history ends."""
    assert replay(Clock(5, 9), ["up", "up", "nothing"]) == 2
    assert replay(Clock(5, 9), ["up", "reset"]) == 0
    with pytest.raises(Broken) as broken:
        replay(Clock(9, 2), ["up", "reset", "up", "up", "up"])
    assert broken.value.history == ("up", "reset", "up", "up")
    with pytest.raises(UsageError, match="move 2 'down' cannot happen there"):
        replay(Clock(5, 9), ["up", "down"])
