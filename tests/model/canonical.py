"""When two moments have the same future: times relative to now, names by order of appearance, spent counters forgotten.

Only what no decision and no promise can tell apart is folded here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from forbear.core.decision import Snapshot
from forbear.core.states import Action, Hold, Known, Run, Streak, Tree, known_key
from forbear.core.values import Call, Envelope
from tests.model.calls import FAR, T0, Case
from tests.model.monitor import Monitor

# Fields that nothing decides on.
SKIPPED: dict[str, frozenset[str]] = {
    "Started": frozenset({"owner", "call_id"}),
    "Waiting": frozenset(),
    "Halt": frozenset({"at"}),
    "Hold": frozenset({"policy", "told", "code"}),
    "Tree": frozenset({"turn_at", "root", "principal"}),
    "AwaitingApproval": frozenset({"asked_at"}),
    "Grant": frozenset({"actor"}),
    "Completed": frozenset({"request_id", "told", "outcome"}),
}
COUNTERS = ("retries", "checks", "repairs", "replays", "same_results", "empty_looks", "asked_by_tool")
RUN_COUNTERS = ("blocked_steps", "idle_steps", "blocked_in_turn", "calls_in_turn")


class Canonical:
    """Keys of the moments of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.memory = -case.memory
        self.counts_steps = case.limits.max_blocked_steps < FAR or case.limits.max_idle_steps < FAR
        limits = [case.limits, *(policy.limits for policy in case.tools)]
        self.counts_calls = any(
            limit.max_calls_per_turn is not None or limit.max_calls_per_run is not None for limit in limits
        )
        self._names: dict[str, int] = {}
        # Calls that are asked about on their own have keys that are made of their step.
        self._alias: dict[str, str] = {}
        self._now = T0
        self._tree = Tree(root="", principal="")
        self._plans: dict[type, tuple[tuple[str, str], ...]] = {}
        self._by_type: dict[type, Callable[[Any], Hashable]] = {
            type(None): _as_it_is,
            bool: _as_it_is,
            int: _as_it_is,
            float: _as_it_is,
            str: self._text,
            datetime: self._instant,
            tuple: self._tuple,
            frozenset: self._set,
            Action: self._action,
            Run: self._run,
            Hold: self._hold,
            Streak: self._streak,
            Envelope: self._envelope,
            Call: self._call,
        }

    def key(
        self,
        now: datetime,
        s: Snapshot,
        m: Monitor,
        sent: tuple[tuple[str, Call], ...],
        half: tuple[str, str] | None,
        *,
        is_end: bool,
    ) -> Hashable:
        """Return the key of a moment."""
        self._names = {}
        self._alias = {
            action.key: f"{action.call.base}+{action.call.run}" for action in s.actions.values() if action.call.base
        }
        self._now = now
        self._tree = s.tree
        known = tuple(
            self._known(s.known.get(known_key(call.run, call.step, call.call_id, call.fingerprint))) for _, call in sent
        )
        return (
            is_end,
            half is None or self._value(half),
            self._value(sent),
            known,
            tuple(self._value(s.actions[key]) for key in sorted(s.actions, key=self._sorted)),
            tuple(self._value(s.holds[key]) for key in sorted(s.holds, key=self._sorted)),
            tuple(self._value(s.runs[key]) for key in sorted(s.runs)) if self.counts_steps or self.counts_calls else (),
            self._value(s.tree),
            self._fields(m),
        )

    def _known(self, known: Known | None) -> Hashable:
        return None if known is None else (known.action, known.attempt, known.completed)

    def _value(self, value: object) -> Hashable:
        made = self._by_type.get(type(value))
        if made is None:
            # A closed word (an enum), or a value with fields.
            made = _as_it_is if isinstance(value, (str, int)) else self._fields
            self._by_type[type(value)] = made
        return made(value)

    def _text(self, value: str) -> Hashable:
        if value.startswith("ticket:") or "step:" in value:
            return self._name(value)
        return self._sorted(value) if self._alias else value

    def _sorted(self, value: str) -> str:
        for key, alias in self._alias.items():
            value = value.replace(key, alias)
        return value

    def _instant(self, value: datetime) -> Hashable:
        ahead = value - self._now
        return max(self.memory, ahead)

    def _tuple(self, value: tuple[object, ...]) -> Hashable:
        return tuple([self._value(member) for member in value]) if value else value

    def _set(self, value: frozenset[object]) -> Hashable:
        return frozenset([self._value(member) for member in sorted(value, key=str)]) if value else value

    def _name(self, value: str) -> Hashable:
        """Return a small name; run and step together keep the run."""
        run, divider, step = value.replace("/", "\x1f").partition("\x1f")
        if divider:
            return (run, self._names.setdefault(step, len(self._names)))
        return self._names.setdefault(value, len(self._names))

    def _plan(self, kind: type) -> tuple[tuple[str, str], ...]:
        plan = self._plans.get(kind)
        if plan is None:
            skipped = SKIPPED.get(kind.__name__, frozenset())
            if not self.counts_steps and not self.counts_calls:
                skipped |= {"steps", "halted"} if kind is Monitor else set()
            rows: list[tuple[str, str]] = []
            for entry in fields(kind):
                if entry.name in skipped:
                    continue
                how = "value"
                if entry.name in ("turn", "probed") and kind is not Tree and entry.type != "bool":
                    how = "turn"
                elif entry.name in ("writes", "last_writes") and kind is not Tree:
                    how = "writes"
                elif entry.name == "epoch" and kind is not Tree:
                    how = "epoch"
                elif kind is Tree and entry.name in ("turn", "writes", "epoch"):
                    continue
                elif kind is Tree and entry.name == "restarted":
                    how = "turn"
                elif kind is Tree and entry.name == "target_writes":
                    how = "target_writes"
                elif entry.name in ("since_at", "placed_at", "started_at", "last_result_at"):
                    how = "past"
                rows.append((entry.name, how))
            plan = tuple(rows)
            self._plans[kind] = plan
        return plan

    def _fields(self, value: object) -> Hashable:
        kind = type(value)
        made: list[Hashable] = [kind.__name__]
        for name, how in self._plan(kind):
            member = getattr(value, name)
            if how == "value":
                made.append(self._value(member))
            elif how == "turn":
                made.append(member >= self._tree.turn)
            elif how == "writes":
                made.append(self._tree.writes - member)
            elif how == "epoch":
                made.append(member >= self._tree.epoch)
            elif how == "target_writes":
                made.append(tuple((t, a, self._tree.writes - n) for t, a, n in member))
            else:
                made.append(None if member is None else self._value(member))
        return tuple(made)

    def _action(self, value: object) -> Hashable:
        assert isinstance(value, Action)
        current = value.turn == self._tree.turn
        counters = tuple(getattr(value, name) for name in COUNTERS) if current else ()
        progress = (value.same_results, value.last_result, self._tree.writes - value.last_writes)
        return (
            self._value(value.key),
            value.attempts,
            self._value(value.joined),
            value.key_spent,
            counters,
            progress if value.last_result else (),
            self._value(value.last_result_at) if value.last_result else None,
            self._value(value.call),
            self._value(value.phase),
        )

    def _run(self, value: object) -> Hashable:
        assert isinstance(value, Run)
        current = value.turn == self._tree.turn
        return (
            value.id,
            tuple(getattr(value, name) for name in RUN_COUNTERS) if current else (),
            (value.calls_in_run, value.operations) if self.counts_calls else (),
            None if value.halted is None else value.halted.reason,
            self._value(value.step),
            value.seen,
            value.all_blocked,
            value.all_idle,
            value.closed,
        )

    def _hold(self, value: object) -> Hashable:
        assert isinstance(value, Hold)
        return self._fields(replace(value, blocked=min(value.blocked, 2)))

    def _streak(self, value: object) -> Hashable:
        assert isinstance(value, Streak)
        return (
            value.operation,
            value.code,
            min(value.count, 8),
            self._value(value.step),
            value.action,
            min(value.waits, 2),
        )

    def _envelope(self, value: object) -> Hashable:
        assert isinstance(value, Envelope)
        return (value.code, value.outcome, value.recovery, value.executed)

    def _call(self, value: object) -> Hashable:
        assert isinstance(value, Call)
        return (
            value.run,
            value.fingerprint,
            self._value(value.step),
            value.verdict.gate,
            value.verdict.rule,
            value.siblings,
        )


def _as_it_is(value: Hashable) -> Hashable:
    return value


__all__ = ["Canonical"]
