"""The journal lines of reads, which wait for the next commit of anybody. A crash may lose them, and nothing else.

Nothing is decided here, and no row but those lines is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forbear.core.decision import Decision, DropHold, Execute
from forbear.core.rules import Rule
from forbear.core.states import Action, Hold
from forbear.ports import Commit, JournalLine, Store
from forbear.runtime.effects import Save
from forbear.runtime.lane import Flight, line_of
from forbear.runtime.rows import (
    line,
    phase_name,
)

# Journal lines of reads that wait for the next commit; the call that adds one more writes them.
MAX_PENDING_LINES: Final = 256
MAX_BACKLOG: Final = 16 * MAX_PENDING_LINES


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision about a read whose line is made when it is written."""

    save: Save
    decision: Decision
    phases: tuple[str, str]

    @property
    def starts(self) -> bool:
        """Say whether the decision starts a read."""
        return any(isinstance(command, Execute) for command in self.decision.commands)

    def line(self) -> JournalLine:
        """Return the journal line."""
        effect = self.save
        return line(
            at=effect.now,
            root=effect.live.root,
            decision=self.decision,
            event=effect.event,
            call=effect.call,
            run=effect.run,
            phases=self.phases,
            attempt=effect.attempt,
            policy=effect.policy,
            request_id=effect.request_id,
            actor=effect.actor,
            evidence=effect.evidence,
            boundaries=effect.boundaries,
            lifted=self._lifted(),
        )

    def _lifted(self) -> Hold | None:
        """Return the hold that an operator ended with this decision; None = none, or the halt of a run."""
        if self.decision.rule is not Rule.LIFTED:
            return None
        holds = self.save.live.all_holds()
        dropped = (one.key for one in self.decision.changes if isinstance(one, DropHold))
        return next((holds[key] for key in dropped if key in holds), None)


# A read on the lane that began, and (in a tuple) one that ended; or a line that is ready.
Line = Pending | Flight | tuple[Flight] | JournalLine


def lines_of_waiting(waiting: Sequence[Line]) -> tuple[JournalLine, ...]:
    """Return the journal lines of what waits. A read that began and ended well among it is one line that says both."""
    began = {id(one) for one in waiting if isinstance(one, Flight)}
    ended = {id(one[0]) for one in waiting if isinstance(one, tuple)}
    lines: list[JournalLine] = []
    for one in waiting:
        if isinstance(one, tuple):
            flight = one[0]
            lines.append(line_of(flight, ended=True, began=id(flight) in began))
        elif isinstance(one, Flight):
            if id(one) not in ended:
                lines.append(line_of(one, ended=False))
        else:
            lines.append(one.line() if isinstance(one, Pending) else one)
    return tuple(lines)


class Batch:
    """The waiting lines of one controller."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lines: deque[Line] = deque()
        # Called where many lines wait; it has them written by somebody else. None = the caller writes them.
        self.on_many_lines: Callable[[], None] | None = None
        # Called with the lines that were written, maybe under the lock of a tree. None = nobody observes.
        self.on_written: Callable[[list[Line]], None] | None = None

    def put_back(self, lines: list[Line]) -> None:
        """Let lines wait on that could not be written."""
        self.lines.extendleft(reversed(lines))

    def make_room(self) -> None:
        """Have the waiting lines written before another read starts, where they are many.

        Raises:
            StoreError: they cannot be written: the read must not start.
        """
        waiting = len(self.lines)
        if waiting < MAX_PENDING_LINES:
            return
        if self.on_many_lines is None or waiting >= MAX_BACKLOG:
            self.flush()
        else:
            self.on_many_lines()

    def take(self) -> list[Line]:
        """Return what waits, for the commit that writes it."""
        taken: list[Line] = []
        while True:
            try:
                taken.append(self.lines.popleft())
            except IndexError:
                return taken

    def flush(self) -> None:
        """Write the journal lines of reads that wait for a commit.

        Raises:
            StoreError: the store cannot be written; the lines wait on.
        """
        lines = self.take()
        if not lines:
            return
        try:
            self._store.commit(Commit(expected={}, journal=lines_of_waiting(lines)))
        except BaseException:
            self.put_back(lines)
            raise
        if self.on_written is not None:
            self.on_written(lines)


def phases_of(effect: Save, decision: Decision) -> tuple[str, str]:
    """Return the names of the action's phase before and after a decision."""
    if effect.call is None:
        return "", ""
    key = effect.call.action
    before = effect.live.actions.get(key)
    after = before
    for change in decision.changes:
        if isinstance(change, Action) and change.key == key:
            after = change
    return _named(before), _named(after)


def _named(action: Action | None) -> str:
    return "Fresh" if action is None else phase_name(action.phase)
