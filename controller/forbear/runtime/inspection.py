"""Looking for the outcome of an unknown write: what the declared check is called with, and what its result says.

A look-up that failed says nothing; absence is only ever said by a check that completed. When to look is the core's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, cast

from forbear.contract.body import is_empty
from forbear.contract.time import iso_instant
from forbear.core.events import Inspected
from forbear.core.policy import Arguments, Inspection
from forbear.core.states import Action, Unknown
from forbear.core.vocabulary import Verdict
from forbear.runtime.calls import frozen_arguments
from forbear.runtime.engine import Engine
from forbear.runtime.lookups import unknowns
from forbear.runtime.program import tell
from forbear.runtime.reply import Attempt
from forbear.runtime.steps import Flow, transact

# Services stamp what they store with whole seconds; a stamp of the second in which the write began is not before it.
STAMP: Final = timedelta(seconds=1)
MAX_DEPTH: Final = 6
MAX_ITEMS: Final = 1000


def check_arguments(
    inspection: Inspection, arguments: Arguments, parameters: tuple[str, ...]
) -> dict[str, object] | None:
    """Return what the check is called with, or None where that is not known.

    Args:
        inspection: What the author declared.
        arguments: The arguments of the write.
        parameters: Argument names of the check, for the default: every argument that it shares by name.
    """
    if inspection.arguments:
        if any(mine not in arguments for mine in inspection.arguments.values()):
            return None
        return {theirs: arguments[mine] for theirs, mine in inspection.arguments.items()}
    shared = {name: arguments[name] for name in parameters if name in arguments}
    return shared or None


def is_check_of(inspection: Inspection, arguments: Arguments, looked_with: Arguments) -> bool:
    """Say whether a look-up that the model made by itself asked about exactly this write."""
    if inspection.arguments:
        expected = check_arguments(inspection, arguments, ())
        return expected is not None and all(
            name in looked_with and looked_with[name] == value for name, value in expected.items()
        )
    shared = [name for name in looked_with if name in arguments]
    return bool(shared) and all(looked_with[name] == arguments[name] for name in shared)


def is_about_one_thing(inspection: Inspection, looked_with: Arguments) -> bool:
    """Say whether a look-up without arguments can answer: what it found is compared with the write, or with its start."""
    return not looked_with and not inspection.arguments and not isinstance(inspection.applied_if, (str, type(None)))


def verdict_of(inspection: Inspection, value: object, arguments: Arguments, started_at: datetime) -> Verdict:
    """Return what a completed check says about the write."""
    rule = inspection.applied_if
    if rule is None:
        return Verdict.CANNOT_TELL
    if isinstance(rule, str):
        if rule != "non_empty":
            return Verdict.CANNOT_TELL
        return Verdict.NOT_APPLIED if is_empty(value) else Verdict.APPLIED
    if not callable(rule):
        return _by_field(rule, value, arguments, started_at)
    return _said(cast("Callable[[object, Arguments], object]", rule), value, arguments)


def _said(rule: Callable[[object, Arguments], object], value: object, arguments: Arguments) -> Verdict:
    try:
        said = rule(value, arguments)
    except Exception:  # noqa: BLE001 - the author's function; a failed look-up is not absence
        return Verdict.CANNOT_TELL
    return said if isinstance(said, Verdict) else Verdict.CANNOT_TELL


def _by_field(rule: Mapping[str, str], value: object, arguments: Arguments, started_at: datetime) -> Verdict:
    if is_empty(value):
        return Verdict.NOT_APPLIED
    found = list(_find(value, rule.get("field", ""), MAX_DEPTH))
    if not found:
        return Verdict.CANNOT_TELL
    if "equals" in rule:
        name = rule["equals"]
        if name not in arguments:
            return Verdict.CANNOT_TELL
        return Verdict.APPLIED if any(_same(one, arguments[name]) for one in found) else Verdict.NOT_APPLIED
    if rule.get("at_or_after") != "start":
        return Verdict.CANNOT_TELL
    instants = [iso_instant(one) for one in found if isinstance(one, str)]
    known = [instant for instant in instants if instant is not None]
    if not known:
        return Verdict.CANNOT_TELL
    since = started_at - STAMP
    return Verdict.APPLIED if any(instant > since for instant in known) else Verdict.NOT_APPLIED


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _find(value: object, name: str, depth: int) -> Iterator[object]:
    """Yield the values of a field, by name at any depth, in mappings and lists."""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        if name in members:
            yield members[name]
        for member in members.values():
            yield from _find(member, name, depth - 1)
    elif isinstance(value, (list, tuple)):
        for member in cast("list[object]", value)[:MAX_ITEMS]:
            yield from _find(member, name, depth - 1)


def looked_flow(engine: Engine, attempt: Attempt, value: object) -> Flow[None]:
    """Use a completed look-up that the model made by itself: it may answer for unknown writes of the tree."""
    for action in (yield from transact(unknowns(attempt.root), attempt.root)):
        inspection = engine.tools.known_policy(action.call.tool).inspect
        if inspection is None or inspection.tool != attempt.tool:
            continue
        arguments = frozen_arguments(action.call)
        if is_check_of(inspection, arguments, attempt.arguments):
            yield from inspected_flow(engine, attempt.root, action, inspection, value, source="model")
        elif is_about_one_thing(inspection, attempt.arguments):
            # A tool that takes arguments may have answered about something else: then only finding it says anything.
            is_found = _names(inspection) and _verdict(action, inspection, value) is Verdict.APPLIED
            if is_found or engine.tools.takes_nothing(attempt.tool):
                yield from inspected_flow(engine, attempt.root, action, inspection, value, source="model")


def _names(inspection: Inspection) -> bool:
    """Say whether the check compares what it found with an argument of the write."""
    rule = inspection.applied_if
    return rule is not None and not isinstance(rule, str) and not callable(rule) and "equals" in rule


def _verdict(action: Action, inspection: Inspection, value: object) -> Verdict:
    if not isinstance(action.phase, Unknown):
        return Verdict.CANNOT_TELL
    return verdict_of(inspection, value, frozen_arguments(action.call), action.phase.started_at)


def inspected_flow(
    engine: Engine, root: str, action: Action, inspection: Inspection, value: object, *, source: str
) -> Flow[None]:
    """Feed what a completed check says."""
    if isinstance(action.phase, Unknown):
        yield from verdict_flow(engine, root, action, _verdict(action, inspection, value), source=source)


def verdict_flow(engine: Engine, root: str, action: Action, verdict: Verdict, *, source: str) -> Flow[None]:
    """Feed a verdict about an unknown write."""
    policy = engine.tools.known_policy(action.call.tool)
    request_id = engine.ids.request_id()
    asked = engine.asked(root, action.call, policy, request_id=request_id)
    event = Inspected(verdict=verdict, source=source, request_id=request_id)
    engine.answer((yield from transact(tell(asked, event), root)), asked)
