"""Judge results and errors of the Model Context Protocol (2026-07-28 and older) and of its Python client.

What an error code means depends on who made it: the client makes -32000, -32001, -32600 and -32700 itself for answers
that it cannot use, and the tool may have run. Messages are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from forbear.contract import findings as f
from forbear.contract.admit import admitted
from forbear.contract.body import (
    MAX_RULE_TEXT,
    is_empty,
    is_empty_text,
    member,
    parse,
)
from forbear.contract.case import Case
from forbear.contract.findings import found
from forbear.contract.raw import ABSENT, Mcp, McpError
from forbear.contract.rules import answered_error, by_text
from forbear.core.values import Envelope
from forbear.core.vocabulary import Executed, Outcome, Recovery

_STOP: Final = Recovery.DO_NOT_RETRY
_WAIT: Final = Recovery.RETRY_AFTER
_LOOK: Final = Recovery.INSPECT_OUTCOME

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CONNECTION_CLOSED: Final = -32000
REQUEST_TIMEOUT: Final = -32001
URL_ELICITATION_REQUIRED: Final = -32042
# HeaderMismatch, MissingRequiredClientCapability, UnsupportedProtocolVersion.
_NEGOTIATION: Final = frozenset({-32020, -32021, -32022})
_TASK_STATES: Final = frozenset({"working", "submitted", "input_required", "completed", "failed", "cancelled"})


def classify_mcp(result: Mcp, case: Case) -> Envelope:
    """Return what a tool result means."""
    kind = result.result_type
    if kind == "input_required":
        return _input_required(result, case)
    if kind == "task":
        return _task(result, case)
    if kind is not None and kind != "complete":
        # An unknown value is an invalid result (MUST); the tool may have run.
        return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
    said = _structured(result, case)
    if said is not None:
        return said
    text = first_text(result.content)
    ruled = by_text(case, text, result.structured if result.structured is not ABSENT else None)
    if ruled is not None:
        return ruled
    if result.is_error:
        return answered_error(case)
    return _completed(result, text, case)


def first_text(content: tuple[object, ...]) -> str | None:
    """Return the first text of a result's content, or None."""
    for block in content[:16]:
        if member(block, "type") == "text":
            text = member(block, "text")
            if isinstance(text, str):
                return text
    return None


def _structured(result: Mcp, case: Case) -> Envelope | None:
    """Judge a result in the contract's form, of a tool that is registered as speaking it."""
    if not case.speaks_contract:
        return None
    value = result.structured
    if value is ABSENT:
        text = first_text(result.content)
        if text is None or len(text) > MAX_RULE_TEXT or not text.lstrip().startswith("{"):
            return None
        value = parse(text)
    said = admitted(value, case)
    if said is None or not result.is_error or said.recovery is not None:
        return said
    # The flag says error and the envelope says success.
    return answered_error(case)


def _completed(result: Mcp, text: str | None, case: Case) -> Envelope:
    if case.writes:
        return f.SUCCESS
    if result.structured is not ABSENT:
        return f.EMPTY if is_empty(result.structured) else f.SUCCESS
    if not result.content:
        return f.EMPTY
    if len(result.content) == 1 and text is not None and is_empty_text(text):
        return f.EMPTY
    return f.SUCCESS


def _input_required(result: Mcp, case: Case) -> Envelope:
    """Judge a server that wants something before it goes on (MRTR)."""
    requests = result.input_requests
    if isinstance(requests, Mapping) and requests:
        wanted = [member(request, "method") for request in list(cast("Mapping[str, object]", requests).values())[:64]]
        if all(method == "elicitation/create" for method in wanted):
            # A person answers, out of band; never the model.
            return found(Recovery.REQUEST_APPROVAL, outcome=Outcome.PENDING)
        # A server may only ask for what the client declared.
        return found(_STOP, "UPSTREAM_REFUSED")
    if result.request_state is not ABSENT and result.request_state is not None:
        return f.no_answer(case.effect, may_repeat=case.may_repeat)
    return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")


def _task(result: Mcp, case: Case) -> Envelope:
    """Judge a task handle: it is polled, the call is never sent a second time."""
    if result.status == "input_required":
        return found(Recovery.REQUEST_APPROVAL, outcome=Outcome.PENDING, executed=Executed.UNKNOWN)
    if result.status == "failed":
        return f.unknown(case.effect)
    if result.status == "cancelled":
        if case.writes:
            return found(_LOOK)
        return found(_STOP, "CANCELLED", outcome=Outcome.CANCELLED, executed=Executed.UNKNOWN)
    if result.status not in _TASK_STATES:
        return f.unknown(case.effect)
    return found(_LOOK, "STILL_RUNNING", outcome=Outcome.PENDING)


def classify_mcp_error(error: McpError, case: Case) -> Envelope:
    """Return what a JSON-RPC error means."""
    code = error.code
    if isinstance(code, bool) or not isinstance(code, int):
        return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
    if code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        outcome = Outcome.TIMEOUT if code == REQUEST_TIMEOUT else Outcome.UNKNOWN
        return f.no_answer(case.effect, may_repeat=case.may_repeat, outcome=outcome)
    if code == INTERNAL_ERROR:
        return f.no_answer(case.effect, may_repeat=case.may_repeat)
    if error.origin != "server" and code in (PARSE_ERROR, INVALID_REQUEST):
        return f.no_answer(case.effect, may_repeat=case.may_repeat)
    if error.origin == "sdk" and case.writes:
        return found(_LOOK)
    if code in (PARSE_ERROR, INVALID_REQUEST) or code in _NEGOTIATION:
        return found(_STOP, "TOOL_MISCONFIGURED")
    if code == METHOD_NOT_FOUND or (code == INVALID_PARAMS and not error.tool_listed):
        return found(Recovery.USE_ALTERNATIVE, "TOOL_UNAVAILABLE")
    if code == INVALID_PARAMS:
        return found(Recovery.REPAIR_INPUT, "INPUT_INVALID")
    if code == URL_ELICITATION_REQUIRED:
        return found(Recovery.REQUEST_APPROVAL, outcome=Outcome.PENDING)
    # -32000..-32019 have no meaning across implementations; others are known only to a server's own profile.
    return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
