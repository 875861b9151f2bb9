"""What was seen at one event, and whether it is what a vector expects. Nothing is run here and nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, cast

from forbear.testing.journey_format import Expectation
from forbear.testing.journey_words import SCOPES, is_known, is_met, normal

__all__ = ["Seen", "describe", "unknown_reason", "unmet"]

# A retry's instant is compared in seconds; both sides are rounded to microseconds on their way.
_TOLERANCE: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One decision about one call, as the caller, the model or the run's inbox saw it."""

    call: str
    decisions: frozenset[str]
    # Everything that names the reason: code, rule, recovery, outcome, meta.reason, cause of the hold.
    words: frozenset[str] = frozenset()
    code: str = ""
    rule: str = ""
    executed: str = ""
    outcome: str = ""
    # "model" or "controller", for a start.
    by: str = ""
    args: Mapping[str, object] | None = None
    # Scope words of the hold (journey_words.SCOPES), and `rule:NAME`.
    scopes: frozenset[str] = frozenset()
    # "action" or "run", for a stop.
    stops: str = ""
    safe: Mapping[str, object] = field(default_factory=dict[str, object])
    ticket: str = ""
    retry_at: datetime | None = None
    reset_at: datetime | None = None
    expires_at: datetime | None = None
    # Calls that wait under the same ticket, or are asked about in the same prompt.
    joins: frozenset[str] = frozenset()
    # Calls that are started at the very same instant.
    meets: frozenset[str] = frozenset()
    # The call whose execution the delivered result comes from.
    source: str = ""
    # The call whose approval this start spends.
    grant_of: str = ""
    # Who answered, where a person did.
    actor: str = ""
    suppressed: bool = False
    late: bool = False
    # So many final results the run was given for this call.
    finals: int = 0
    # The call whose unknown outcome this ends.
    resolves: str = ""
    resolved_as: str = ""
    clear_forced: bool = False
    # What the model reads, and the controller's own words in it.
    view: str = ""
    message: str = ""
    # The decision is about the event's own call (not about a bystander).
    is_own: bool = True


def describe(seen: Iterable[Seen]) -> str:
    """Return what was seen, in a few words."""
    parts: list[str] = []
    for one in seen:
        words = "/".join(sorted(one.decisions)) or "nothing"
        detail = [f"for {one.call}"]
        if one.code:
            detail.append(one.code)
        if one.rule:
            detail.append(one.rule)
        if one.source:
            detail.append(f"from {one.source}")
        if one.retry_at is not None:
            detail.append(f"at {one.retry_at.isoformat()}")
        parts.append(f"{words} ({', '.join(detail)})")
    return "; ".join(parts) or "nothing"


def unmet(expected: Expectation, seen: tuple[Seen, ...], *, start: datetime, drift: float) -> str | None:
    """Return why an expectation is not met by anything that was seen at its event, or None.

    Args:
        expected: The expectation.
        seen: What was seen at its event.
        start: The journey's `t0`.
        drift: So many seconds the runner's clock is ahead of the event's own time (the controller's jitter).
    """
    about = expected.details.get("for")
    has_own = any(one.is_own for one in seen)
    reasons: list[str] = []
    for one in seen:
        # An expectation that names no call is about the event's own one, where it has one.
        if one.call != about if about is not None else has_own and not one.is_own:
            continue
        if not _is_decision(expected, one):
            continue
        why = _differs(expected, one, start=start, drift=drift)
        if why is None:
            return None
        reasons.append(why)
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    return describe(seen)


def unknown_reason(expected: Expectation, seen: tuple[Seen, ...]) -> str | None:
    """Return the reason of an expectation where neither the table nor anything seen knows the word, else None."""
    reason = expected.details.get("reason")
    if reason is None or is_known(str(reason)) or any(is_met(str(reason), one.words) for one in seen):
        return None
    return str(reason)


def _is_decision(expected: Expectation, one: Seen) -> bool:
    if expected.decision in one.decisions:
        return True
    # "Could not search" is a final answer of a read, whichever way it is delivered.
    could_not = normal(str(expected.details.get("outcome", ""))) == "could_not_search"
    return expected.decision == "deliver_completed" and could_not and one.code == "COULD_NOT_SEARCH"


def _differs(expected: Expectation, one: Seen, *, start: datetime, drift: float) -> str | None:
    for key, value in expected.details.items():
        why = _compare(key, value, expected, one, start, drift)
        if why is not None:
            return why
    return None


def _compare(  # one arm for each key of the format
    key: str, value: object, expected: Expectation, one: Seen, start: datetime, drift: float
) -> str | None:
    match key:
        case "for":
            return None
        case "reason":
            # A word that the table does not have cannot be compared; `unknown_reason` says so.
            met = is_met(str(value), one.words) or not is_known(str(value))
            return None if met else f"reason {', '.join(sorted(filter(None, (one.code, one.rule))))}"
        case "code":
            return None if one.code == value else f"code {one.code}"
        case "scope":
            return _scope(str(value), expected, one)
        case "safe_fields":
            return _safe_fields(value, one)
        case "executed":
            return None if one.executed == value else f"executed {one.executed}"
        case "until_min" | "until_max":
            return _window(key, value, one, start, drift)
        case "joins" | "joins_prompt":
            return None if value in one.joins else f"a ticket of its own, not that of {value}"
        case "distinct_from":
            others = cast("list[object]", value) if isinstance(value, list) else [value]
            return f"the ticket or the instant of {value}" if any(o in one.joins | one.meets for o in others) else None
        case "by":
            return None if one.by == value else f"started by the {one.by or 'nobody'}"
        case "args":
            return None if one.args == value else "other arguments"
        case "uses_approval_of":
            return None if one.grant_of == value else f"the approval of {one.grant_of or 'nobody'}"
        case "winner":
            return None if _has_won(value, one) else f"the winner {one.call}"
        case "recorded_from":
            return None if one.source == value else f"recorded from {one.source or 'nowhere'}"
        case "resolves":
            return None if one.resolves == value else "nothing resolved"
        case "as":
            return _resolved_as(str(value), one)
        case "outcome":
            return None if one.outcome == value or is_met(str(value), one.words) else f"outcome {one.outcome}"
        case "late":
            return None if one.late is value else f"late {one.late}"
        case "once":
            return None if (one.finals <= 1) is value else f"{one.finals} results for {one.call}"
        case "suppressed":
            return None if one.suppressed is value else f"suppressed {one.suppressed}"
        case "states_effective_args":
            return None if _states(one) is value else "a result that does not say which arguments ran"
        case "reset_at" | "reset_at_offset":
            return _reset(key, value, one, start, drift)
        case "expires_at_offset":
            return _instant(value, one.expires_at, start, drift, "expires at")
        case "clear_forced_tool_choice":
            return None if one.clear_forced is value else f"clear_forced {one.clear_forced}"
        case _:
            # Not in the format: met only where the product has a member that says exactly this.
            missing = object()
            got = getattr(one, key, missing)
            return None if got == value else f"no {key!r} that equals the expected one"


def _has_won(value: object, one: Seen) -> bool:
    """Say whether this start is the one that a story lets win: `true`, one name, or any of a list."""
    if isinstance(value, bool):
        return value is bool(one.grant_of)
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    return any(name in (one.call, one.grant_of, one.actor) for name in names)


def _scope(value: str, expected: Expectation, one: Seen) -> str | None:
    if expected.decision == "stop":
        return None if one.stops == value else f"a stop of the {one.stops or 'nothing'}"
    if value in one.scopes:
        return None
    wanted = SCOPES.get(normal(value.partition(":")[0]) if value.startswith("quota:") else normal(value), frozenset())
    return None if wanted & one.scopes else f"scope {', '.join(sorted(one.scopes)) or 'none'}"


def _safe_fields(value: object, one: Seen) -> str | None:
    if not isinstance(value, Mapping):
        return "safe_fields must be an object"
    for name, wanted in cast("Mapping[str, object]", value).items():
        got: object = one.safe.get(name)
        if _folded(got) != _folded(wanted):
            return f"safe field {name!r} {'is missing' if got is None else 'differs'}"
    return None


def _folded(value: object) -> object:
    """Return a safe field as it is compared: lists as sets of names, codes without case."""
    if isinstance(value, (list, tuple)):
        return sorted(str(member) for member in cast("list[object]", value))
    return str(value).lower()


def _seconds(at: datetime, start: datetime) -> float:
    return (at - start) / timedelta(seconds=1)


def _window(key: str, value: object, one: Seen, start: datetime, drift: float) -> str | None:
    if one.retry_at is None or not isinstance(value, (int, float)):
        return "no time of dispatch"
    at = _seconds(one.retry_at, start)
    if key == "until_min":
        return None if at >= value - _TOLERANCE else f"a dispatch at {at:.2f}"
    return None if at <= value + drift + _TOLERANCE else f"a dispatch at {at:.2f}"


def _instant(value: object, got: datetime | None, start: datetime, drift: float, what: str) -> str | None:
    if value is None or got is None:
        return None if value is None and got is None else f"{what} {got.isoformat() if got else 'null'}"
    if not isinstance(value, (int, float)):
        return f"{what} {got.isoformat()}"
    at = _seconds(got, start)
    # One second of slack: a reset of whole seconds is read against a clock of microseconds.
    return None if value - _TOLERANCE <= at <= value + drift + 1.0 else f"{what} {at:.2f}"


def _reset(key: str, value: object, one: Seen, start: datetime, drift: float) -> str | None:
    if key == "reset_at" and isinstance(value, str):
        wanted = datetime.fromisoformat(value)
        return _instant(_seconds(wanted, start), one.reset_at, start, drift, "reset_at")
    return _instant(value, one.reset_at, start, drift, "reset_at")


_AS: Final[Mapping[str, frozenset[str]]] = {
    "completed": frozenset({"success", "already_satisfied", "partial", "empty"}),
    "applied": frozenset({"success", "already_satisfied", "partial"}),
    "not_applied": frozenset({"cancelled"}),
    "absent": frozenset({"cancelled"}),
    "not_executed": frozenset({"cancelled"}),
    "failed": frozenset({"refused", "invalid", "denied", "failed"}),
    "unknown": frozenset({"unknown"}),
}


def _resolved_as(value: str, one: Seen) -> str | None:
    got = one.resolved_as or one.outcome
    return None if got in _AS.get(normal(value), frozenset({value})) else f"as {got or 'nothing'}"


def _states(one: Seen) -> bool:
    """Say whether the model can read from the result which arguments ran."""
    if one.args is None:
        return False
    return all(str(value) in one.view for value in one.args.values() if isinstance(value, (str, int)))
