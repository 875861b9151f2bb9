"""What a piece of evidence says: how one attempt ended, in the words of others, bounded and without direct secrets.

A piece is canonical JSON; a journal line refers to it by digest. Nothing in here is ever part of an answer, a view, a
log or an error message; who may read it is decided by whoever opens the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, cast

from forbear.audit.redact import HIDDEN, Scrub, destination_of, header_fields, template_of
from forbear.contract.boundaries import Exchange, Trail
from forbear.contract.raised import facts_of
from forbear.contract.raw import ABSENT, Grpc, Headers, Http, Mcp, McpError, Process, Raised, RaisedFacts, Raw, Value

__all__ = ["About", "arguments_digest", "piece_of"]

VERSION: Final = 1
# Characters.
MAX_TEXT: Final = 4096
MAX_BODY: Final = 16_384
MAX_NOTES: Final = 8
MAX_CAUSES: Final = 16
MAX_REQUESTS: Final = 8
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a piece is about: the attempt, in words that are the project's own."""

    request_id: str
    run: str
    principal: str
    tool: str
    source: str
    step: str
    call_id: str
    attempt: int
    fingerprint: str
    policy: str
    # answered, cancelled, left, …
    how: str
    code: str = ""
    outcome: str = ""
    duration_us: int = 0
    trace_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    # Canonical JSON; only its keyed digest is kept.
    arguments: str = ""


def arguments_digest(arguments: str, key: bytes) -> str:
    """Return a keyed digest: it tells whether two calls had the same arguments, and nobody without the key which."""
    return blake2b(arguments.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=_DIGEST_BYTES).hexdigest()


def piece_of(
    about: About, *, key: bytes, raw: Raw | None, error: BaseException | None, trail: Trail | None, scrub: Scrub
) -> bytes:
    """Return a piece of evidence.

    Args:
        about: The attempt.
        key: Of the arguments' digest.
        raw: What came back; None = the attempt ended by `error`.
        error: What ended it, where that is no answer.
        trail: How far the execution came, where somebody wrote it down.
        scrub: Takes secrets out of texts.
    """
    raised = raw.error if isinstance(raw, Raised) else error
    response = None if raw is None else _response(raw, scrub)
    said: dict[str, object] = {
        "v": VERSION,
        "request_id": about.request_id,
        "run": about.run,
        "principal": about.principal,
        "tool": about.tool,
        "source": about.source,
        "step": about.step,
        "call_id": about.call_id,
        "attempt": about.attempt,
        "policy": about.policy,
        "fingerprint": about.fingerprint,
        "arguments_digest": arguments_digest(about.arguments, key),
        "event": about.how,
        "code": about.code,
        "outcome": about.outcome,
        "duration_us": about.duration_us,
        "trace_id": about.trace_id,
        "labels": dict(about.labels),
        "boundaries": [] if trail is None else list(trail.reached),
        "requests": _requests(trail, raised, scrub),
        "exceptions": [] if raised is None else list(_exceptions(raised, scrub)),
        "facts": _facts(raw) if isinstance(raw, RaisedFacts) else [],
        "response": response,
    }
    kept = {name: value for name, value in said.items() if value not in (None, "", [], {})}
    return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()


# ---- requests -------------------------------------------------------------------------------------------------------


def _requests(trail: Trail | None, raised: BaseException | None, scrub: Scrub) -> list[dict[str, object]]:
    """Return the requests that a client of ours saw, the last ones; else the one that an exception names."""
    if trail is not None and trail.exchanges:
        return [_exchange(one, scrub) for one in trail.exchanges[-MAX_REQUESTS:]]
    found = None if raised is None else _named_request(raised)
    return [] if found is None else [found]


def _exchange(one: Exchange, scrub: Scrub) -> dict[str, object]:
    said: dict[str, object] = {
        "method": one.method[:32],
        "destination": destination_of(one.url),
        "path_template": template_of(one.url),
        "step": one.step.value,
        "watched": one.watched,
        "key_sent": one.key_sent,
        "status": one.status,
        "headers": header_fields(one.headers, scrub),
    }
    return {name: value for name, value in said.items() if value not in (None, "", [])}


def _named_request(raised: BaseException) -> dict[str, object] | None:
    """Return method and destination of the request that a client's exception carries."""
    for error in (raised, *(cause for cause, _ in _causes(raised))):
        request = _attribute(error, "request") or _attribute(error, "request_info")
        url, method = _attribute(request, "url"), _attribute(request, "method")
        text = _text(url)
        if url is not None and destination_of(text):
            named = method if isinstance(method, str) else ""
            return {
                "method": named.upper()[:32],
                "destination": destination_of(text),
                "path_template": template_of(text),
            }
    return None


def _attribute(holder: object, name: str) -> object:
    try:
        return None if holder is None else getattr(holder, name, None)
    except Exception:  # noqa: BLE001  # a foreign property may raise anything
        return None


# ---- exceptions -----------------------------------------------------------------------------------------------------


def _causes(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield what stands behind an exception and how it is attached, nearest first; bounded, each once."""
    seen = {id(error)}
    queue = [error]
    while queue:
        current = queue.pop(0)
        nearest: list[tuple[object, str]] = [(current.__cause__, "cause")]
        if current.__cause__ is None and not current.__suppress_context__:
            nearest.append((current.__context__, "context"))
        members = _attribute(current, "exceptions")
        if isinstance(members, (tuple, list)):
            nearest += [(member, "member") for member in cast("list[object]", members)[:MAX_CAUSES]]
        for cause, via in nearest:
            if isinstance(cause, BaseException) and id(cause) not in seen and len(seen) <= MAX_CAUSES:
                seen.add(id(cause))
                queue.append(cause)
                yield cause, via


def _exceptions(error: BaseException, scrub: Scrub) -> Iterator[dict[str, object]]:
    for one, via in ((error, ""), *_causes(error)):
        said: dict[str, object] = {
            "class": f"{type(one).__module__}.{type(one).__qualname__}"[:MAX_TEXT],
            "via": via,
            "text": scrub(_text(one), MAX_TEXT),
        }
        notes = _attribute(one, "__notes__")
        if isinstance(notes, (list, tuple)):
            said["notes"] = [scrub(_text(note), MAX_TEXT) for note in cast("list[object]", notes)[:MAX_NOTES]]
        yield {name: value for name, value in said.items() if value not in ("", [])}


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a foreign object's text may fail
        return HIDDEN


def _facts(facts: RaisedFacts) -> list[str]:
    """Return the class names that are all an adapter kept of an exception."""
    return [*facts.exact[:MAX_NOTES]] or [*facts.names[:MAX_NOTES]]


# ---- what was answered ----------------------------------------------------------------------------------------------


def _response(raw: Raw, scrub: Scrub) -> dict[str, object] | None:
    status: object = None
    headers: Headers = ()
    body: object = None
    match raw:
        case Value(value=value):
            body = value
        case Http():
            status, headers, body = raw.status, raw.headers, raw.body
        case Raised():
            facts = facts_of(raw)
            status, headers, body = facts.status, facts.headers, facts.body
        case RaisedFacts():
            status, headers, body = raw.status, raw.headers, raw.body
        case Mcp():
            body = {"content": raw.content, "structured": None if raw.structured is ABSENT else raw.structured}
        case McpError():
            status, body = raw.code, raw.data
        case Grpc():
            status, headers, body = raw.code, raw.trailing_metadata, raw.details or None
        case Process():
            status, body = _exit(raw), raw.output
    said: dict[str, object] = {
        "status": status if isinstance(status, (int, str)) else None,
        "headers": header_fields(headers, scrub),
        "body": _body(body, scrub),
    }
    kept = {name: value for name, value in said.items() if value not in (None, [])}
    return kept or None


def _exit(ended: Process) -> str:
    """Return in a word how a program ended."""
    if not ended.started:
        return "not started"
    if ended.timed_out:
        return "timed out"
    return f"signal {ended.signal}" if ended.signal is not None else f"exit {ended.exit_status}"


def _body(body: object, scrub: Scrub) -> dict[str, object] | None:
    if body is None or body in ("", b""):
        return None
    if isinstance(body, (bytes, bytearray)):
        text = bytes(body[: 8 * MAX_BODY]).decode("utf-8", "replace")
        size = len(body)
    else:
        text = body if isinstance(body, str) else _json(body)
        size = len(text)
    kept = scrub(text, MAX_BODY)
    said: dict[str, object] = {"text": kept, "length": size}
    if size > MAX_BODY:
        said["cut"] = True
    return said


def _json(value: object) -> str:
    try:
        return json.dumps(value, default=_kind, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return _kind(value)


def _kind(value: object) -> str:
    """Return the class of what has no JSON form; its own text may be anything."""
    return f"<{type(value).__name__}>"
