"""The span around a call: the framework's own is enriched, otherwise one is opened by the GenAI conventions.

An exception is never recorded and no status carries a text: what a tool raised may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from forbear.core.vocabulary import COMPLETED, Answer
from forbear.observe import words
from forbear.observe.notice import OTHER, Seen

# Ids are others' words: one of them passes only as one short word.
_ID: Final = re.compile(r"[\w.:/@=+-]{1,128}", re.ASCII)
_WAITS: Final = frozenset({Answer.PENDING, Answer.NEEDS_APPROVAL})
# The span that this module opened last here: what runs inside it is another call.
_OURS: ContextVar[Span | None] = ContextVar("forbear_span", default=None)


@dataclass(frozen=True, slots=True)
class Opened:
    """A span between `begin` and `end`; tokens are None where it belongs to the framework."""

    span: Span
    attached: Token[Context] | None = None
    ours: Token[Span | None] | None = None


def begin(tracer: Tracer, tool: str, call_id: str) -> Opened:
    """Find the framework's span of this call, or open one and make it the current one."""
    current = trace.get_current_span()
    if is_execute_tool(current) and current is not _OURS.get():
        return Opened(current)
    span = tracer.start_span(f"{words.EXECUTE_TOOL} {tool}", kind=SpanKind.INTERNAL, attributes=_first(tool, call_id))
    return Opened(span, context.attach(trace.set_span_in_context(span)), _OURS.set(span))


def end(opened: Opened, seen: Seen) -> None:
    """Say how the call ended, and end the span where it was opened here."""
    _describe(opened.span, seen, owned=opened.attached is not None)
    if opened.attached is None or opened.ours is None:
        return
    _OURS.reset(opened.ours)
    context.detach(opened.attached)
    opened.span.end()


def mark(tracer: Tracer, seen: Seen, call_id: str, began_at: datetime, ended_at: datetime) -> None:
    """Describe a call that somebody else executed: on the framework's span, or on one that is over already."""
    current = trace.get_current_span()
    if is_execute_tool(current) and current is not _OURS.get():
        _describe(current, seen, owned=False)
        return
    name = f"{words.EXECUTE_TOOL} {seen.tool}"
    attributes = _first(seen.tool, call_id)
    span = tracer.start_span(name, kind=SpanKind.INTERNAL, attributes=attributes, start_time=_ns(began_at))
    _describe(span, seen, owned=True)
    span.end(_ns(ended_at))


def is_execute_tool(span: Span) -> bool:
    """Say whether a span records the execution of a tool; the API cannot ask it, an SDK's span can be."""
    if not span.is_recording():
        return False
    found: object = getattr(span, "attributes", None)
    if isinstance(found, Mapping):
        attributes = cast("Mapping[str, object]", found)
        if attributes.get(words.OPERATION_NAME) == words.EXECUTE_TOOL:
            return True
    name: object = getattr(span, "name", "")
    return isinstance(name, str) and name.startswith(f"{words.EXECUTE_TOOL} ")


def trace_id() -> str:
    """Return the id of the current trace, 32 hex characters; "" = none."""
    found = trace.get_current_span().get_span_context()
    return trace.format_trace_id(found.trace_id) if found.is_valid else ""


def error_type(seen: Seen) -> str:
    """Return `error.type` of a call; "" = it completed, or it goes on (a wait, a prompt)."""
    if seen.raised:
        return seen.raised
    if seen.answer is None or seen.answer in _WAITS or seen.outcome in COMPLETED:
        return ""
    return seen.code or OTHER


def _first(tool: str, call_id: str) -> dict[str, str]:
    attributes = {words.OPERATION_NAME: words.EXECUTE_TOOL, words.TOOL_NAME: tool}
    if _ID.fullmatch(call_id):
        attributes[words.TOOL_CALL_ID] = call_id
    return attributes


def _describe(span: Span, seen: Seen, *, owned: bool) -> None:
    if not span.is_recording():
        return
    error = error_type(seen)
    said: dict[str, str | None] = {
        words.ERROR_TYPE: error,
        words.RULE: seen.rule,
        words.ANSWER: seen.answer,
        words.OUTCOME: seen.outcome,
        words.EXECUTED: seen.executed,
        words.RECOVERY: seen.recovery,
        words.OPERATION: seen.operation,
        words.WOULD: seen.would,
        words.REQUEST_ID: seen.request_id,
        words.RUN: seen.run if _ID.fullmatch(seen.run) else "",
    }
    attributes: dict[str, str | bool] = {name: str(value) for name, value in said.items() if value}
    if seen.suppressed:
        attributes[words.SUPPRESSED] = True
    span.set_attributes(attributes)
    if error and owned:
        span.set_status(Status(StatusCode.ERROR))


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
