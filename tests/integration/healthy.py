"""A world for healthy work: tools that do what they are told, and a log of what really ran. Nothing is asserted here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

from forbear.runtime.controller import Controller
from forbear.runtime.reply import Reply
from forbear.testing.clock import ManualClock, SequenceIds


class Where(TypedDict, total=False):
    """Where a call belongs."""

    run: str
    step: str
    siblings: int
    parent: str


@dataclass(frozen=True)
class Ran:
    """One real execution."""

    tool: str
    arguments: Mapping[str, object]


class World:
    """One controller, one run, and everything that was executed, in order.

    Args:
        labelled: Declare the tools as their author would; otherwise nobody declares anything.
    """

    def __init__(self, *, labelled: bool) -> None:
        self.labelled = labelled
        self.clock = ManualClock()
        self.controller = Controller.open(":memory:", clock=self.clock, ids=SequenceIds(), worker=False)
        self.ran: list[Ran] = []
        self.replies: list[Reply] = []
        self._steps = 0

    def close(self) -> None:
        """Close the controller."""
        self.controller.close()

    def declare(self, *names: str, **labels: object) -> None:
        """Declare tools, where this world is labelled."""
        if self.labelled:
            self.controller.declare(*names, **labels)

    def step(self) -> str:
        """Begin a model message; a turn of a model takes two seconds."""
        self._steps += 1
        self.clock.advance(2)
        return f"s{self._steps}"

    def do(
        self,
        tool: str,
        arguments: Mapping[str, object],
        answer: object,
        *,
        forced: bool = False,
        **where: Unpack[Where],
    ) -> Reply:
        """Make one call; the tool gives `answer`, raises it, or calls it with the arguments."""

        def execute(**given: object) -> object:
            self.ran.append(Ran(tool, given))
            result = answer(**given) if callable(answer) else answer
            if isinstance(result, BaseException):
                raise result
            return result

        reply = self.controller.call(
            tool,
            arguments,
            execute=execute,
            wait=False,
            run=where.get("run", "run"),
            parent=where.get("parent"),
            step=where["step"] if "step" in where else self.step(),
            call_id=f"c{len(self.replies)}",
            siblings=where.get("siblings", 1),
            forced=forced,
        )
        self.replies.append(reply)
        return reply

    def expect(
        self, tool: str, arguments: Mapping[str, object], value: object, *, forced: bool = False, **where: Unpack[Where]
    ) -> None:
        """Make one call that must run now and give back the very object."""
        before = len(self.ran)
        reply = self.do(tool, arguments, value, forced=forced, **where)
        assert len(self.ran) == before + 1, f"{tool} did not run: {reply.answer} by {reply.rule}"
        assert self.ran[-1] == Ran(tool, arguments)
        assert reply.ok, f"{tool} ran and was answered {reply.answer} by {reply.rule}"
        assert reply.value is value

    def fails(self, tool: str, arguments: Mapping[str, object], error: object, **where: Unpack[Where]) -> Reply:
        """Make one call that must run now and that the tool refuses or fails."""
        before = len(self.ran)
        reply = self.do(tool, arguments, error, **where)
        assert len(self.ran) == before + 1, f"{tool} did not run: {reply.answer} by {reply.rule}"
        assert not reply.ok
        return reply
