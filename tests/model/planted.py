"""Planted bugs: one place of the core is changed at a time, and the explorer must find each.

A bug that it does not find is a promise that nobody watches. Each bug is a piece of source and what replaces it; the changed module is compiled and the code of its functions swapped
for as long as one exploration lasts.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType

from forbear.testing.explore import Broken, explore
from tests.model.cases import CASES
from tests.model.world import Desk


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug: what is wrong, where, and the cases in which it shows."""

    name: str
    module: str
    right: str
    wrong: str
    cases: tuple[str, ...]


BUGS: tuple[Bug, ...] = (
    Bug(
        "a retry starts before its time",
        "phases.waiting",
        "if now < state.retry_at:",
        "if False:",
        ("retry-child", "retry"),
    ),
    Bug(
        "a refusal's named end is ignored",
        "refuse",
        "ends_at=envelope.reset_at,",
        "ends_at=draft.now,",
        ("refusal-until",),
    ),
    Bug(
        "a refusal holds only the exact call",
        "refuse",
        "else Scope.TARGET\n\n\ndef _may",
        "else Scope.ACTION\n\n\ndef _may",
        ("refusal",),
    ),
    Bug(
        "two probes in one turn",
        "admit",
        "claim=claim, probed=s.tree.turn",
        "claim=None, probed=0",
        ("refusal", "probe"),
    ),
    Bug(
        "the probe is not given back when the call is interrupted",
        "phases.running",
        "hand_back(draft, used=False)",
        "pass",
        ("probe", "hostile"),
    ),
    Bug(
        "a retry may be made twice",
        "refuse",
        "if action.retries >= allowed:",
        "if action.retries > allowed:",
        ("retry-child", "retry", "retry-none"),
    ),
    Bug(
        "an action that stopped stays in the queue",
        "bar",
        "changes=(replace(action, phase=stopped), *leave_queues(s, action)),",
        "changes=(replace(action, phase=stopped),),",
        ("retry", "approval-down", "hostile"),
    ),
    Bug(
        "an unknown write without a hold",
        "draft",
        "self.holds[hold.key] = hold\n",
        "_ = hold.cause is Cause.UNKNOWN or self.holds.update({hold.key: hold})\n",
        ("unknown", "unknown-wide"),
    ),
    Bug(
        "an unknown write does not cover its alias",
        "holds",
        "return hold.value == call.target or (",
        "return hold.action == call.action or (",
        ("unknown", "refusal"),
    ),
    Bug(
        "one look that finds nothing is enough",
        "phases.unknown",
        "first is not None and now - first >= s.policy.limits.settle",
        "first is None or now - first >= s.policy.limits.settle",
        ("unknown",),
    ),
    Bug(
        "the same key is used again and again",
        "phases.unknown",
        "action.key_spent == 0",
        "action.key_spent >= 0",
        ("unknown-key", "unknown-key-only"),
    ),
    Bug(
        "a success by the same key leaves the hold",
        "settle",
        "draft.drop(ended.key)",
        "pass",
        ("unknown-key", "unknown-key-only"),
    ),
    Bug(
        "a write that may have happened is retried",
        "settle",
        "envelope.executed is not Executed.NO and not may_run_again(draft.s, draft.call)",
        "False",
        ("unknown-wide", "retry-temporary"),
    ),
    Bug(
        "partial effects are retried",
        "settle",
        "if envelope.effects_before_failure or may_have_happened else",
        "if may_have_happened else",
        ("unknown-wide", "retry-temporary"),
    ),
    Bug(
        "a lost write is forgotten",
        "phases.running",
        'if action.call.effect is Effect.READ:\n        told = tell("CANCELLED"',
        'if True:\n        told = tell("CANCELLED"',
        ("unknown", "undeclared"),
    ),
    Bug("a yes never expires", "admit", "now < grant.expires_at and", "True and", ("approval-repeat",)),
    Bug(
        "a yes to another fingerprint counts",
        "phases.approval",
        "        and event.fingerprint == state.fingerprint\n",
        "",
        ("approval", "hostile"),
    ),
    Bug(
        "an old ticket answers",
        "phases.approval",
        "event.ticket == state.ticket\n        and",
        "True\n        and",
        ("approval", "hostile"),
    ),
    Bug(
        "a kept yes of one run is spent by another",
        "phases.waiting",
        "return state.grant is None or (mine",
        "return True or (mine",
        ("approval-repeat",),
    ),
    Bug(
        "a yes survives an execution that may have had an effect",
        "refuse",
        "grant.rule == FRAMEWORK or envelope.executed is not Executed.NO",
        "False",
        ("approval-repeat",),
    ),
    Bug(
        "a second question about one call",
        "phases.approval",
        "if covering(s, start.call, now).barring:",
        "if True:",
        ("approval", "approval-target"),
    ),
    Bug(
        "a no ends with the turn",
        "phases.answers",
        "end=End.PERSON,",
        "end=End.TURN,",
        ("approval-target", "approval-bare", "hostile"),
    ),
    Bug(
        "the answered question stays open",
        "phases.answers",
        "        without_prompt(s.tree, state.ticket),\n        noes=0,",
        "        s.tree,\n        noes=0,",
        ("approval", "approval-target"),
    ),
    Bug(
        "the same input runs again after a repair",
        "repair",
        "hold = draft.put(_keep(draft, envelope, Scope.ACTION,",
        "hold = (_keep(draft, envelope, Scope.ACTION,",
        ("repair-first", "repair-unnamed", "hostile"),
    ),
    Bug(
        "other words repair nothing, and run",
        "repair",
        "if names and call.target is not None and call.effect is not Effect.UNDECLARED:",
        "if False:",
        ("repair",),
    ),
    Bug(
        "a precondition met by another run",
        "settle",
        "hold.precondition == done and hold.run == draft.started.run",
        "hold.precondition == done",
        ("repair-first",),
    ),
    Bug(
        "a run that only waits is never halted",
        "steps",
        "if run.idle_steps >= limits.max_idle_steps:",
        "if False:",
        ("steps", "waiting-halt"),
    ),
    Bug(
        "one step of two blocked calls counts twice",
        "steps",
        "return _close(run) if run.seen >= call.siblings else run",
        "return _close(run)",
        ("steps-two",),
    ),
    Bug(
        "a write that is done runs again in its turn",
        "phases.completed",
        "if is_declared_once(s) and same_turn and",
        "if is_declared_once(s) and not same_turn and",
        ("once", "refusal"),
    ),
    Bug(
        "a wanted repeat in a new turn is swallowed",
        "phases.completed",
        "if is_declared_once(s) and same_turn and",
        "if is_declared_once(s) and",
        ("once", "refusal"),
    ),
    Bug(
        "another target is held too",
        "holds",
        "hold.value == call.target or (call.target is None and",
        "(",
        ("refusal-other", "refusal-until"),
    ),
    Bug(
        "an open attempt is forgotten by a wait",
        "bar",
        " and not isinstance(action.phase, Running)",
        "",
        ("parallel", "probe", "retry-quota"),
    ),
    Bug(
        "a timer spends the budget of the turn before",
        "decide",
        "run=current(s.run(call.run), s.tree.turn),",
        "run=s.run(call.run),",
        ("budget", "retry-child"),
    ),
    Bug(
        "a shared quota is closed by a code that is not listed",
        "refuse",
        'if policy.trust.value == "owned":',
        "if True:",
        ("retry-remote", "refusal-shared"),
    ),
    Bug(
        "an observed call is stopped",
        "decide",
        "    if is_observed(s):\n        would",
        "    if False:\n        would",
        ("observe",),
    ),
    Bug(
        "an observed tool's hold covers an enforced one",
        "holds",
        "if hold.observed and snapshot.policy.mode is not Mode.OBSERVE:",
        "if False:",
        ("observe",),
    ),
    Bug(
        "the checker is asked for ever",
        "admit",
        "if checks < limits.checker_retry:",
        "if True:",
        ("approval-rule", "approval-down"),
    ),
    Bug(
        "a call waits without a wake-up",
        "bar",
        "        commands=(WakeAt(action=action.key, at=run_at),),\n        answer=Answer.PENDING,\n        told=kept.told,",
        "        commands=(),\n        answer=Answer.PENDING,\n        told=kept.told,",
        ("retry", "retry-quota", "refusal-other"),
    ),
    Bug(
        "a late duplicate acts",
        "phases.unknown",
        "if event.attempt == state.attempt else stale(event)",
        "if event.attempt else stale(event)",
        ("unknown-key", "unknown-key-only"),
    ),
    Bug(
        "a turn ends a doubt",
        "decide",
        "if hold.end in (End.TURN, End.REPAIR)",
        "if hold.end in (End.TURN, End.REPAIR, End.VERDICT)",
        ("unknown", "undeclared", "unknown-wide"),
    ),
    Bug(
        "equal calls of one step run twice",
        "phases.running",
        "if shared is not None and (",
        "if shared is not None and False and (",
        ("batch",),
    ),
    Bug(
        "a shared time hold ends earlier when moved",
        "refuse",
        "if ends_at is None or ends_at < not_before(reset, now):",
        "if ends_at is None or ends_at >= not_before(reset, now):",
        ("retry", "retry-quota", "retry-child", "refusal-until"),
    ),
)


def _codes(module: CodeType) -> dict[str, CodeType]:
    return {const.co_name: const for const in module.co_consts if isinstance(const, CodeType)}


def _methods(module: CodeType, kind: str) -> dict[str, CodeType]:
    body = _codes(module).get(kind)
    return {} if body is None else _codes(body)


@contextmanager
def compiled_in(name: str, source: str) -> Iterator[None]:
    """Run a block with the functions of a core module as they would be with this source."""
    module = importlib.import_module(f"forbear.core.{name}")
    changed = compile(source, module.__file__ or name, "exec", dont_inherit=True)
    swapped: list[tuple[FunctionType, CodeType]] = []
    new = _codes(changed)
    try:
        for key, found in vars(module).items():
            if isinstance(found, FunctionType) and found.__module__ == module.__name__ and key in new:
                swapped.append((found, found.__code__))
                found.__code__ = new[key]
            elif inspect.isclass(found) and found.__module__ == module.__name__:
                for method, code in _methods(changed, key).items():
                    made = found.__dict__.get(method)
                    made = made.fget if isinstance(made, property) else made
                    if isinstance(made, FunctionType):
                        swapped.append((made, made.__code__))
                        made.__code__ = code
        yield
    finally:
        for function, code in reversed(swapped):
            function.__code__ = code


# States of each case that are looked at for one bug: some histories are longer than the gate's own bound.
STATES = 1500


def find(bug: Bug, states: int) -> Broken | None:
    """Explore the cases of a planted bug; return what breaks, or None where nothing does."""
    source = inspect.getsource(importlib.import_module(f"forbear.core.{bug.module}"))
    if source.count(bug.right) != 1:
        raise LookupError(f"{bug.name}: its place occurs {source.count(bug.right)} times in {bug.module}")
    with compiled_in(bug.module, source.replace(bug.right, bug.wrong)):
        for case in CASES:
            if case.name in bug.cases:
                try:
                    explore(Desk(case), max_states=states)
                except Broken as broken:
                    return broken
    return None


def main(states: int) -> int:
    """Plant each bug, print what found it, and say how many were found."""
    found = 0
    for bug in BUGS:
        broken = find(bug, states)
        found += broken is not None
        what = "NOT FOUND" if broken is None else f"{broken.promise}, {len(broken.history)} moves"
        sys.stdout.write(f"{bug.name:60} {what}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{found} of {len(BUGS)} planted bugs found\n")
    return 0 if found == len(BUGS) else 1
