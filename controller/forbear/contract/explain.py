"""Say why a raw result means what it means, for the person who writes a policy. It judges by `classify` and repeats nothing.

Each candidate is asked alone, in the order in which `classify` asks: the author's rules, the contract, the vendor's
conventions, the protocol. No text of the result is shown: names of rules, fields, classes and numbers only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from forbear.contract.admit import admitted
from forbear.contract.body import member, parsed, text_of
from forbear.contract.case import Case, Conventions
from forbear.contract.catalogue import Catalogue, instant_text
from forbear.contract.classify import classify, poll_finished
from forbear.contract.exceptions import classes, is_of_database
from forbear.contract.grpc import classify_grpc
from forbear.contract.mcp import first_text
from forbear.contract.raised import facts_of
from forbear.contract.raw import ABSENT, Grpc, Http, Mcp, McpError, Process, Raised, RaisedFacts, Raw, Value
from forbear.contract.rules import by_exception, by_status, by_text
from forbear.core.policy import ToolPolicy
from forbear.core.timing import FLOOR, LEAST_ROOM, MARGIN, MOST_ROOM, SHARE
from forbear.core.values import Envelope
from forbear.core.view import view_text
from forbear.core.vocabulary import Effect, Recovery

_GRPC_DETAILS: Final = frozenset({"RetryInfo", "ErrorInfo", "BadRequest"})
# Header fields and words that may be repeated: everything else in a result is text of others.
_TIMED: Final = (
    "retry-after", "retry-after-ms", "x-ms-retry-after-ms", "ratelimit", "ratelimit-reset", "x-ratelimit-reset",
    "x-rate-limit-reset", "date",
)  # fmt: skip
_PHASES: Final = frozenset(
    "build pool connect write read response response_body execute in_tool before_send after_send".split()
)
_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a raw result means, and why."""

    envelope: Envelope
    # What the author declared.
    effect: Effect
    # What decided, in words: a rule of the policy, the contract, a vendor's conventions, or what the protocol says.
    decided_by: str
    # Between these two the controller makes the one retry; None = it makes none by itself.
    retry_from: datetime | None
    retry_until: datetime | None
    # What the model would see; "" = the tool's value, unchanged.
    view: str


def explain(
    raw: Raw,
    *,
    policy: ToolPolicy,
    arguments: Mapping[str, object],
    now: datetime,
    catalogue: Catalogue,
    profile: tuple[str, Conventions] | None = None,
) -> Explanation:
    """Return what a raw result means, what decided it, and what the controller would do next.

    Args:
        raw: What came back.
        policy: What the author declared about the tool.
        arguments: The call's arguments.
        now: The instant of receipt, aware UTC.
        catalogue: The codes and their texts.
        profile: Name and conventions of a vendor.
    """
    conventions = None if profile is None else profile[1]
    envelope = classify(
        raw, policy=policy, arguments=arguments, now=now, catalogue=catalogue, profile=conventions
    )  # fmt: skip
    case = Case(policy=policy, arguments=arguments, now=now, catalogue=catalogue, profile=conventions)
    begins, ends = _retry(envelope, policy, now)
    return Explanation(
        envelope=envelope,
        effect=policy.effect,
        decided_by=_decided_by(raw, case, envelope, "" if profile is None else profile[0]),
        retry_from=begins,
        retry_until=ends,
        view="" if envelope.recovery is None else view_text(envelope),
    )


def _retry(envelope: Envelope, policy: ToolPolicy, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return between which instants the one retry starts (design section 9); the action's key decides where in between."""
    limits = policy.limits
    if envelope.recovery is not Recovery.RETRY_AFTER:
        return None, None
    if envelope.reset_at is None and limits.on_unknown_reset == "stop":
        return None, None
    reset = now + limits.default_wait if envelope.reset_at is None else envelope.reset_at
    base = max(reset, now + FLOOR)
    if base - now > limits.max_wait:
        return None, None
    room: timedelta = min(max((base - now) / SHARE, LEAST_ROOM), MOST_ROOM)
    return base + MARGIN, base + room


def _decided_by(raw: Raw, case: Case, envelope: Envelope, profile: str) -> str:
    match raw:
        case Value():
            return _value(raw, case, envelope)
        case Http():
            return _http(raw, case, envelope, profile)
        case Raised():
            return _exception(facts_of(raw), case)
        case RaisedFacts():
            return _exception(raw, case)
        case Mcp():
            return _mcp(raw, case)
        case McpError():
            origin = raw.origin if raw.origin in ("server", "sdk") else "unknown"
            return f"JSON-RPC error code, made by {origin}" + ("" if raw.tool_listed else ", tool not listed")
        case Grpc():
            return _grpc(raw, case, envelope)
        case Process():
            return _process(raw)


def _grpc(raw: Grpc, case: Case, envelope: Envelope) -> str:
    """Name the code, and those details and fields without which the answer would be another one."""

    def without(other: Grpc) -> bool:
        return classify_grpc(other, case) != classify_grpc(raw, case)

    kinds = dict.fromkeys(str(member(detail, "@type")).rpartition(".")[2] for detail in raw.details[:32])
    told = [
        kind
        for kind in kinds
        if kind in _GRPC_DETAILS
        and without(
            replace(
                raw,
                details=tuple(one for one in raw.details if not str(member(one, "@type")).endswith(f".{kind}")),
            )
        )
    ]
    pushed = "grpc-retry-pushback-ms"
    if any(name.lower() == pushed for name, _ in raw.trailing_metadata) and without(replace(raw, trailing_metadata=())):
        told.append(pushed)
    return "gRPC status code" + (f" and {', '.join(told)}" if told else "")


def _process(raw: Process) -> str:
    if raw.started is False:
        return "the program could not be started"
    if raw.timed_out:
        return "the program was stopped when its time was over"
    if raw.signal is not None:
        return f"signal {raw.signal}"
    return f"exit status {raw.exit_status}" + (" of a carrier" if raw.carrier else "")


def _text_rule(case: Case, text: str | None, value: object) -> str:
    for position, rule in enumerate(case.policy.text_rules):
        alone = replace(case, policy=replace(case.policy, text_rules=(rule,)))
        if by_text(alone, text, value) is not None:
            return f"policy: text_rules[{position}]"
    return ""


def _status_rule(case: Case, status: int, body: object) -> str:
    for position, rule in enumerate(case.policy.status_rules):
        alone = replace(case, policy=replace(case.policy, status_rules=(rule,)))
        if by_status(alone, status, body) is not None:
            return f"policy: status_rules[{position}]"
    return ""


def _exception_rule(case: Case, exact: tuple[str, ...]) -> str:
    for position, rule in enumerate(case.policy.exception_rules):
        alone = replace(case, policy=replace(case.policy, exception_rules=(rule,)))
        if by_exception(alone, exact) is not None:
            return f"policy: exception_rules[{position}]"
    return ""


def _value(raw: Value, case: Case, envelope: Envelope) -> str:
    value = raw.value
    ruled = _text_rule(case, value if isinstance(value, str) else None, value)
    if ruled:
        return ruled
    if case.speaks_contract and admitted(value, case) is not None:
        return "contract: the tool's own envelope"
    if poll_finished(case.policy, value) is False:
        return "policy: poll"
    return f"the returned value: {envelope.outcome}"


def _http(raw: Http, case: Case, envelope: Envelope, profile: str) -> str:
    body = parsed(raw.body)
    ruled = _status_rule(case, raw.status, body)
    if ruled:
        return ruled
    ruled = _text_rule(case, text_of(raw.body), body) if raw.status < 500 else ""
    if ruled:
        return ruled
    if case.speaks_contract and admitted(body, case) is not None:
        return "contract: the body"
    why = f"HTTP status {raw.status}"
    if raw.request.redirected and case.writes:
        return f"{why} after a followed redirect"
    if profile:
        plain = classify(
            raw, policy=case.policy, arguments=case.arguments, now=case.now, catalogue=case.catalogue
        )  # fmt: skip
        if plain != envelope:
            why += f", by the conventions of {profile}"
    if envelope.reset_at is not None:
        present = {name.lower() for name, _ in raw.headers}
        told: list[str] = [name for name in _TIMED if name in present]
        if not told and any("limit" in name or "retry" in name or "reset" in name for name in present):
            # What a service calls its fields is its own text.
            told = ["a quota's header field"]
        why += f", time from {', '.join(told[:3])}" if told else ", time from the body"
    return why


def _exception(raw: RaisedFacts, case: Case) -> str:
    ruled = _exception_rule(case, raw.exact)
    if ruled:
        return ruled
    if raw.status is not None:
        return f"HTTP status {raw.status} that the exception carries"
    if raw.sqlstate is not None:
        if case.writes and not is_of_database(raw):
            return "a SQLSTATE that an exception of somebody else carries"
        return f"SQLSTATE {raw.sqlstate}" if _SQLSTATE.fullmatch(raw.sqlstate) else "SQLSTATE"
    table = classes()
    path = [names[0] for names in (raw.names, *raw.chain) if names]
    known = [f"{name} ({', '.join(_kinds(name))})" for name in path[:4] if _kinds(name) or name in table.answered]
    why = f"exception {', caused by '.join(known)}" if known else "an exception that no table knows"
    client = raw.client
    if client is None:
        attempts = "attempts not known"
    else:
        attempts = "one attempt" if client.single_attempt else "maybe several attempts"
    return f"{why}; phase {raw.phase if raw.phase in _PHASES else 'unknown'}, {attempts}"


def _kinds(name: str) -> list[str]:
    return [kind for kind, members in classes().kinds.items() if name in members]


def _mcp(raw: Mcp, case: Case) -> str:
    if raw.result_type not in (None, "complete"):
        return "MCP resultType"
    text = first_text(raw.content)
    structured = raw.structured
    if case.speaks_contract and structured is not ABSENT and admitted(structured, case) is not None:
        return "contract: structuredContent"
    ruled = _text_rule(case, text, structured if structured is not ABSENT else None)
    return ruled or ("MCP isError" if raw.is_error else "MCP result")


def members_of(said: Explanation) -> dict[str, str | None]:
    """Return an explanation as what is printed: names and texts."""
    envelope = said.envelope
    recovery = envelope.recovery
    return {
        "effect": said.effect.value if said.effect is not Effect.UNDECLARED else "undeclared, taken for a write",
        "class": envelope.outcome.value if recovery is None else recovery.value,
        "code": envelope.code or None,
        "executed": envelope.executed.value,
        "decided": said.decided_by,
        "not_before": None if said.retry_from is None else instant_text(said.retry_from),
        "latest": None if said.retry_until is None else instant_text(said.retry_until),
        "model": said.view or None,
    }
