"""The format of journey vectors, read strictly into frozen values. Nothing is run and nothing is compared here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, cast

__all__ = ["Call", "Control", "Event", "Expectation", "Human", "Journey", "Json", "Result", "Unreadable", "journey"]

Json = Mapping[str, object]

VERDICTS: Final = ("allow", "approval", "deny", "unavailable")
RESULT_TYPES: Final = ("value", "exception", "http", "mcp")
ANSWERS: Final = ("approve", "reject", "edit", "grant")
CONTROLS: Final = (
    "timer",
    "resume",
    "new_turn",
    "user_message",
    "cancel",
    "deadline",
    "crash_restart",
    "auto_continue",
    "approval_expired",
    "engine_retry",
    "model_error",
    "run_restarted",
    "reconnected",
    "agent_finished",
)
DECISIONS: Final = (
    "execute",
    "block",
    "wait_until",
    "needs_approval",
    "inspect_only",
    "deliver_completed",
    "stop",
)


class Unreadable(ValueError):
    """A line that is not a journey: the message names the place and the rule. A failing case, never a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One proposal of the model."""

    id: str
    tool: str
    args: object
    # allow, approval, deny, unavailable; None = the call says nothing about the author's rule.
    verdict: str | None = None
    rule: str = ""
    checker: str = ""
    batch: str | None = None
    quota_scope: str | None = None
    session: str | None = None
    agent: str | None = None
    truncated: bool = False
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came back for one call."""

    call: str
    type: str
    body: Json
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Human:
    """What a person answered: about a call, or about a rule (`rule:NAME`)."""

    about: str
    decision: str
    actor: str = ""
    args: object = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What happened around the calls."""

    kind: str
    call: str | None = None
    ack: bool | None = None
    grace_s: float = 0.0
    persisted: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    # {"call": id, "approval": word}, or None.
    replayed: Json | None = None
    session: str | None = None
    agent: str | None = None
    verdict: str | None = None
    rule: str = ""


Event = Call | Result | Human | Control


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One decision that must have been made at one event."""

    event: int
    decision: str
    details: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """One whole story."""

    id: str
    start: datetime
    tools: tuple[Json, ...]
    limits: Json
    forced: str | None
    # (seconds after the start, event)
    events: tuple[tuple[float, Event], ...]
    expected: tuple[Expectation, ...]
    forbidden: tuple[str, ...] = field(default=())

    def calls(self) -> dict[str, Call]:
        """Return the calls by id."""
        return {event.id: event for _, event in self.events if isinstance(event, Call)}


def journey(line: Json) -> Journey:
    """Return a journey.

    Raises:
        Unreadable: a member is missing, has the wrong type, or names something that the format does not know.
    """
    tools = (_object(line, "tool", "the journey"), *_objects(line.get("other_tools", []), "other_tools"))
    for tool in tools:
        _text(tool, "name", "a tool")
    events = tuple(_event(entry, index) for index, entry in enumerate(_objects(_member(line, "events"), "events")))
    expected = tuple(
        _expectation(entry, index, len(events))
        for index, entry in enumerate(_objects(_member(line, "expected"), "expected"))
    )
    seen: set[str] = set()
    for index, (_, event) in enumerate(events):
        if isinstance(event, Call):
            # A framework that runs a step again may use an id again.
            seen.add(event.id)
        elif isinstance(event, Result) and event.call not in seen:
            raise Unreadable(f"events[{index}]: a result for {event.call!r}, which was not called before")
    forced = line.get("forced_tool_choice")
    return Journey(
        id=_text(line, "id", "the journey"),
        start=_instant(_text(line, "t0", "the journey")),
        tools=tools,
        limits=_object_or_empty(line.get("limits"), "limits"),
        forced=forced if isinstance(forced, str) else None,
        events=events,
        expected=expected,
        forbidden=tuple(str(promise) for promise in _list(line.get("forbidden", []), "forbidden")),
    )


# ---- events ---------------------------------------------------------------------------------------------------------


def _event(entry: Json, index: int) -> tuple[float, Event]:
    where = f"events[{index}]"
    at = entry.get("at")
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        raise Unreadable(f"{where}: 'at' must be a number of seconds")
    kinds = [kind for kind in ("call", "result", "human", "control") if kind in entry]
    if len(kinds) != 1:
        raise Unreadable(f"{where}: must hold exactly one of call, result, human, control")
    body = _object(entry, kinds[0], where)
    match kinds[0]:
        case "call":
            return float(at), _call(body, where)
        case "result":
            return float(at), _result(body, where)
        case "human":
            return float(at), _human(body, where)
        case _:
            return float(at), _control(body, where)


def _call(body: Json, where: str) -> Call:
    policy = _object_or_empty(body.get("policy"), f"{where}.policy")
    verdict, rule = _verdict(policy, where)
    batch = body.get("batch")
    return Call(
        id=_text(body, "id", where),
        tool=_text(body, "tool", where),
        args=body.get("args"),
        verdict=verdict,
        rule=rule,
        checker=_optional(policy, "checker") or "",
        batch=None if batch is None else str(batch),
        quota_scope=_optional(body, "quota_scope"),
        session=_optional(body, "session"),
        agent=_optional(body, "agent"),
        truncated=body.get("finish_reason") in ("length", "max_tokens"),
        repaired=bool(body.get("args_repaired")),
    )


def _verdict(policy: Json, where: str) -> tuple[str | None, str]:
    verdict = policy.get("verdict")
    if verdict is not None and verdict not in VERDICTS:
        raise Unreadable(f"{where}: verdict {verdict!r} is none of {', '.join(VERDICTS)}")
    return None if verdict is None else str(verdict), _optional(policy, "rule") or ""


def _result(body: Json, where: str) -> Result:
    kind = _text(body, "type", where)
    if kind not in RESULT_TYPES:
        raise Unreadable(f"{where}: result type {kind!r} is none of {', '.join(RESULT_TYPES)}")
    if kind == "http" and (isinstance(body.get("status"), bool) or not isinstance(body.get("status"), int)):
        raise Unreadable(f"{where}: an http result needs a 'status'")
    if kind == "exception":
        _text(body, "class", where)
    if kind == "value" and "value" not in body:
        raise Unreadable(f"{where}: a value result needs a 'value'")
    return Result(call=_text(body, "for", where), type=kind, body=body, late=body.get("late") is True)


def _human(body: Json, where: str) -> Human:
    decision = _text(body, "decision", where)
    if decision not in ANSWERS:
        raise Unreadable(f"{where}: decision {decision!r} is none of {', '.join(ANSWERS)}")
    return Human(
        about=_text(body, "for", where),
        decision=decision,
        actor=_optional(body, "actor") or "",
        args=body.get("args"),
        tool=_optional(body, "tool"),
    )


def _control(body: Json, where: str) -> Control:
    kind = _text(body, "kind", where)
    if kind not in CONTROLS:
        raise Unreadable(f"{where}: control {kind!r} is none of {', '.join(CONTROLS)}")
    ack = body.get("ack")
    grace = body.get("grace_s", 0)
    replayed = body.get("replayed")
    if isinstance(replayed, str):
        replayed = {"call": replayed}
    verdict, rule = _verdict(_object_or_empty(body.get("policy"), f"{where}.policy"), where)
    return Control(
        kind=kind,
        call=_optional(body, "for"),
        ack=ack if isinstance(ack, bool) else None,
        grace_s=float(grace) if isinstance(grace, (int, float)) else 0.0,
        persisted=tuple(str(item) for item in _list(body.get("persisted", []), f"{where}.persisted")),
        lost=tuple(str(item) for item in _list(body.get("lost", []), f"{where}.lost")),
        replayed=None if replayed is None else _object_or_empty(replayed, f"{where}.replayed"),
        session=_optional(body, "session"),
        agent=_optional(body, "agent"),
        verdict=verdict,
        rule=rule,
    )


def _expectation(entry: Json, index: int, events: int) -> Expectation:
    where = f"expected[{index}]"
    event = entry.get("event")
    if isinstance(event, bool) or not isinstance(event, int) or not 0 <= event < events:
        raise Unreadable(f"{where}: 'event' must be the index of an event")
    decision = _text(entry, "decision", where)
    if decision not in DECISIONS:
        raise Unreadable(f"{where}: decision {decision!r} is none of {', '.join(DECISIONS)}")
    details = {key: value for key, value in entry.items() if key not in ("event", "decision", "note")}
    return Expectation(event=event, decision=decision, details=details)


# ---- members --------------------------------------------------------------------------------------------------------


def _member(body: Json, name: str) -> object:
    if name not in body:
        raise Unreadable(f"member {name!r} is missing")
    return body[name]


def _text(body: Json, name: str, where: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Unreadable(f"{where}: {name!r} must be a text")
    return value


def _optional(body: Json, name: str) -> str | None:
    value = body.get(name)
    return None if value is None else str(value)


def _object(body: Json, name: str, where: str) -> Json:
    value = body.get(name)
    if not isinstance(value, dict):
        raise Unreadable(f"{where}: {name!r} must be an object")
    return cast("Json", value)


def _object_or_empty(value: object, where: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(f"{where}: must be an object")
    return cast("Json", value)


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise Unreadable(f"{where}: must be a list")
    return cast("list[object]", value)


def _objects(value: object, where: str) -> tuple[Json, ...]:
    entries = _list(value, where)
    return tuple(_object_or_empty(entry, f"{where}[{index}]") for index, entry in enumerate(entries))


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Unreadable(f"t0: {text!r} is not an ISO instant") from None
    if at.tzinfo is None:
        raise Unreadable(f"t0: {text!r} has no time zone")
    return at.astimezone(UTC)
