"""Run signal vectors: what one raw result means. Reads the vector's form and compares; judges nothing itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import quote

from forbear.contract import (
    Client,
    Grpc,
    Http,
    McpError,
    Process,
    RaisedFacts,
    Raw,
    RequestFacts,
    Value,
    builtin_catalogue,
    classify,
    header_pairs,
    mcp_result,
    write_envelope,
)
from forbear.contract.limits import misspelt
from forbear.contract.profiles import load_profile
from forbear.contract.raised import name_of
from forbear.contract.time import iso_instant
from forbear.core.policy import ToolPolicy
from forbear.core.values import Envelope
from forbear.core.view import view_text
from forbear.core.vocabulary import Effect, Outcome, Trust
from forbear.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One vector that came out otherwise."""

    id: str
    expected: str
    got: str


def _client(value: object) -> Client | None:
    if not isinstance(value, Mapping):
        return None
    members = cast("Mapping[str, Any]", value)
    return Client(single_attempt=members.get("single_attempt"), follow_redirects=members.get("follow_redirects"))


_PROCESS = ("exit_status", "signal", "started", "timed_out", "carrier", "session", "identity_accepted", "output")


def raw_of(signal: Mapping[str, Any]) -> Raw:
    """Return the raw result that a vector's `input` describes."""
    kind = signal["kind"]
    if kind == "http":
        request = cast("Mapping[str, Any]", signal.get("request") or {})
        return Http(
            status=signal["status"],
            headers=header_pairs(signal.get("headers", ())),
            body=signal.get("body", ""),
            method=signal.get("method", ""),
            request=RequestFacts(
                idempotent=request.get("idempotent") is True,
                idempotency_key=bool(request.get("idempotency_key")),
                redirected=request.get("redirected") is True,
            ),
            effects_before_failure=signal.get("effects_before_failure") is True,
        )
    if kind == "exception":
        module, name = signal.get("module", ""), signal["class"]
        if not module:
            # A dotted name, as in `chain`.
            module, _, name = name.rpartition(".")
        chain = [one.rpartition(".") for one in signal.get("chain", ())]
        return RaisedFacts(
            names=(name_of(module, name),),
            exact=(f"{module}.{name}",),
            phase=signal.get("phase", "unknown"),
            chain=tuple((name_of(package, short),) for package, _, short in chain),
            errno=signal.get("errno"),
            client=_client(signal.get("client")),
            sqlstate=signal.get("sqlstate"),
            status=signal.get("status"),
            headers=header_pairs(signal.get("headers", ())),
            body=signal.get("body", ""),
            control_flow=signal.get("control_flow") is True,
            connection_invalidated=signal.get("connection_invalidated") is True,
            raised_by=signal.get("raised_by", ""),
        )
    if kind == "mcp":
        error = signal.get("error")
        if error is not None:
            return McpError(
                code=error.get("code"),
                data=error.get("data"),
                origin=signal.get("origin", "server"),
                tool_listed=signal.get("tool_listed") is not False,
            )
        return mcp_result(signal.get("result"))
    if kind == "grpc":
        return Grpc(
            code=signal["code"],
            details=tuple(signal.get("details", ())),
            trailing_metadata=header_pairs(signal.get("trailing_metadata", ())),
        )
    if kind == "value":
        return Value(signal["value"])
    if kind == "process":
        return Process(**{name: signal[name] for name in _PROCESS if name in signal})
    raise ValueError("kind must be http, exception, mcp, grpc, process or value")


_NONE: Final = type(None)
_WHOLE: Final = (int, _NONE)
_MAYBE: Final = (bool, _NONE)
# Types of the members that are not looked at as they come.
_TYPES: Final[dict[type, dict[str, tuple[type, ...]]]] = {
    Http: {"status": (int,), "method": (str,)},
    RaisedFacts: {"phase": (str,), "errno": _WHOLE, "sqlstate": (str, _NONE), "status": _WHOLE, "raised_by": (str,)},
    McpError: {"origin": (str,)},
    Grpc: {"code": (int, str)},
    Process: {
        "exit_status": _WHOLE,
        "signal": _WHOLE,
        "started": (bool,),
        "timed_out": (bool,),
        "carrier": _MAYBE,
        "session": _MAYBE,
        "identity_accepted": _MAYBE,
    },
}


# Members that each kind has; those of the vectors that are there for people are among them.
_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "http": frozenset({"method", "status", "headers", "body", "request", "effects_before_failure"}),
    "exception": frozenset(
        {"module", "class", "phase", "chain", "chain_cycle", "errno", "client", "raised_by", "message", "status",
         "headers", "body", "sqlstate", "connection_invalidated", "control_flow"}
    ),
    "mcp": frozenset({"result", "error", "origin", "tool_listed"}),
    "grpc": frozenset({"code", "details", "trailing_metadata"}),
    "value": frozenset({"value"}),
    "process": frozenset(_PROCESS),
}  # fmt: skip


def signal_from(text: str) -> tuple[Raw, str | None]:
    """Return the raw result that a JSON text describes, and the vendor that it names.

    Args:
        text: JSON in the form of a vector's `input`; a whole vector is accepted too.

    Raises:
        ConfigError: it is not in that form; the message names the member, never a value.
    """
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("result: must be JSON") from None
    if isinstance(parsed, dict) and isinstance(inner := cast("dict[str, object]", parsed).get("input"), dict):
        parsed = cast("object", inner)
    if not isinstance(parsed, dict):
        raise ConfigError("result: must be an object with 'kind'")
    signal = cast("dict[str, Any]", parsed)
    try:
        raw = raw_of(signal)
    except KeyError as error:
        raise ConfigError(f"result: member {str(error.args[0])!r} must be there") from None
    except (AttributeError, TypeError, ValueError):
        kinds = "http, exception, mcp, grpc, process or value"
        raise ConfigError(f"result: must be in the form of a signal vector's 'input', with 'kind' {kinds}") from None
    known = _MEMBERS[signal["kind"]] | {"kind", "profile"}
    for name in signal:
        if name not in known:
            raise misspelt(f"result: member of kind {signal['kind']!r}", name, tuple(sorted(known)))
    for name, allowed in _TYPES.get(type(raw), {}).items():
        if type(getattr(raw, name)) not in allowed:
            raise ConfigError(f"result: member {name!r} has the wrong type")
    profile = signal.get("profile")
    return raw, profile if isinstance(profile, str) else None


def envelope_of(vector: Mapping[str, Any]) -> Envelope:
    """Return what `classify` says about a vector's signal."""
    signal = vector["input"]
    now = iso_instant(vector["now"])
    assert now is not None, "a vector's 'now' is an RFC 3339 time"
    effect = Effect(vector["effect"])
    result = cast("Mapping[str, Any]", signal.get("result") or {})
    structured = result.get("structuredContent")
    error = cast("Mapping[str, Any]", structured).get("error") if isinstance(structured, dict) else None
    policy = ToolPolicy(
        name="tool",
        effect=effect,
        trust=Trust.REMOTE,
        # A tool registered as speaking the contract (vectors' README).
        speaks_contract=isinstance(error, dict) and "recovery" in error,
    )
    profile = signal.get("profile")
    return classify(
        raw_of(signal),
        policy=policy,
        arguments={},
        now=now,
        catalogue=builtin_catalogue(),
        profile=load_profile(profile) if profile else None,
    )


def recovery_of(envelope: Envelope) -> str:
    """Return the vectors' word for what an envelope says: none, empty, or a class."""
    if envelope.recovery is not None:
        return envelope.recovery.value
    return "empty" if envelope.outcome is Outcome.EMPTY else "none"


def _instant(value: str | None) -> datetime | None:
    if value is None:
        return None
    instant = iso_instant(value)
    assert instant is not None, "a vector's 'retry_at' is an RFC 3339 time or null"
    return instant


def copies(secret: str) -> set[str]:
    """Return the forms of a text that count as a leak: as it is, in other case, URL-encoded, Base64, in halves."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    halves = {secret[:12], secret[-12:]} if len(secret) >= 16 else set[str]()
    return {secret, secret.lower(), secret.upper(), quote(secret), encoded, *halves}


def run_signals(lines: Iterable[str]) -> list[Failure]:
    """Run vectors, one JSON object a line, and return those that came out otherwise."""
    failures: list[Failure] = []
    for line in lines:
        if not line.strip():
            continue
        vector = json.loads(line)
        expected = vector["expected"]
        try:
            envelope = envelope_of(vector)
        except Exception as error:  # noqa: BLE001  # a vector that breaks the code is a failing vector
            failures.append(Failure(id=vector["id"], expected=expected["recovery"], got=type(error).__name__))
            continue
        want = (expected["recovery"], _instant(expected.get("retry_at")))
        got = (recovery_of(envelope), envelope.reset_at)
        if want != got:
            failures.append(Failure(id=vector["id"], expected=_words(*want), got=_words(*got)))
        shown = view_text(envelope) + json.dumps(write_envelope(envelope))
        if any(copy in shown for secret in vector.get("must_not_leak") or () for copy in copies(secret)):
            failures.append(Failure(id=vector["id"], expected="no leak", got="leak"))
    return failures


def _words(recovery: str, at: datetime | None) -> str:
    return f"{recovery} {at.astimezone(UTC).isoformat() if at is not None else None}"
