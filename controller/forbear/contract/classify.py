"""Turn a raw result into an envelope: the one door between tools and the core. Pure; the vocabulary is the core's.

Order: what the author declared (rules, contract), then what the protocol says, then the fail-safe reading. A plain
successful value takes a few type checks and no allocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, cast

from forbear.contract import findings as f
from forbear.contract.admit import admitted, refused_value
from forbear.contract.body import first, is_empty
from forbear.contract.case import Case, Conventions, Counts
from forbear.contract.catalogue import Catalogue
from forbear.contract.exceptions import classify_exception
from forbear.contract.findings import CODES
from forbear.contract.grpc import classify_grpc
from forbear.contract.http import classify_http
from forbear.contract.mcp import INTERNAL_ERROR, classify_mcp, classify_mcp_error
from forbear.contract.own_words import with_own_words
from forbear.contract.process import classify_process, process_error
from forbear.contract.raised import facts_of, protocol_error
from forbear.contract.raw import Grpc, Http, Mcp, McpError, Process, Raised, RaisedFacts, Raw, Value
from forbear.contract.rules import by_exception, by_text
from forbear.core.policy import ToolPolicy
from forbear.core.values import Envelope
from forbear.core.vocabulary import Effect, Recovery
from forbear.errors import Refused

# meta.reason of a look at something that is not finished.
PENDING: Final = "PENDING"
# Groups around one exception that are opened.
_MAX_GROUPS: Final = 16
_POLLING: Final = replace(f.SUCCESS, reason=PENDING)
# Members by which the contract's form is told, beside an `ok` that is not true.
_TELLING: Final = frozenset({"outcome", "error", "recovery", "action"})


def classify(
    raw: Raw,
    *,
    policy: ToolPolicy,
    arguments: Mapping[str, object],
    now: datetime,
    catalogue: Catalogue,
    profile: Conventions | None = None,
    counts: Counts | None = None,
) -> Envelope:
    """Return what a raw result means.

    Args:
        raw: What came back.
        policy: What the author declared about the tool.
        arguments: The call's arguments, for rules that compare with them and for field names that may be shown.
        now: The instant of receipt, aware UTC.
        catalogue: The codes and their texts.
        profile: Conventions of the vendor, where one is registered.
        counts: Incremented where something of a tool's own envelope was not taken over.
    """
    if type(raw) is Value:
        value = raw.value
        if not policy.text_rules and policy.poll is None:
            kind = type(value)
            if kind is str or kind is list or kind is tuple:
                if value:
                    return f.SUCCESS
                return _nothing(value, policy)
            if kind is dict:
                members = cast("dict[object, object]", value)
                if members.get("ok", True) is True and members.keys().isdisjoint(_TELLING):
                    if policy.effect is Effect.WRITE or (members and not is_empty(members)):
                        return f.SUCCESS
                    return _nothing(value, policy)
            elif value is None:
                return _nothing(value, policy)
            elif not isinstance(value, Mapping):
                return f.SUCCESS
    case = Case(
        policy=policy,
        arguments=arguments,
        now=now,
        catalogue=catalogue,
        profile=profile,
        counts=counts if counts is not None else Counts(),
        answered_remotely=isinstance(raw, (Http, Mcp, McpError, Grpc)),
    )
    return _finished(_judge(raw, case), raw, case)


def _nothing(value: object, policy: ToolPolicy) -> Envelope:
    """Judge a value that holds nothing. A write that returns nothing is a success; nobody knows what null means."""
    if policy.effect is Effect.WRITE or (value in (None, "") and policy.effect is not Effect.READ):
        return f.SUCCESS
    return f.EMPTY


def _judge(raw: Raw, case: Case) -> Envelope:
    match raw:
        case Value():
            return _value(raw.value, case)
        case Raised():
            return _raised(raw, case)
        case RaisedFacts():
            return classify_exception(raw, case)
        case Http():
            return classify_http(raw, case)
        case Mcp():
            return classify_mcp(raw, case)
        case McpError():
            return classify_mcp_error(raw, case)
        case Grpc():
            return classify_grpc(raw, case)
        case Process():
            return classify_process(raw, case)


def _value(value: object, case: Case) -> Envelope:
    ruled = by_text(case, value if isinstance(value, str) else None, value)
    if ruled is not None:
        return ruled
    if case.speaks_contract:
        said = admitted(value, case)
        if said is not None:
            return said
    if poll_finished(case.policy, value) is False:
        return _POLLING
    return _nothing(value, case.policy) if is_empty(value) else f.SUCCESS


def _raised(raised: Raised, case: Case) -> Envelope:
    raised = _alone(raised, case)
    error = raised.error
    if isinstance(error, Refused):
        # Raising it is how an in-process tool speaks the contract, whatever else it returns.
        said = admitted(refused_value(error.code, error.fields), case)
        return said if said is not None else f.unknown(case.effect)
    end = process_error(error)
    if end is not None and by_exception(case, _exact(error)) is None:
        return classify_process(end, case)
    protocol = protocol_error(error)
    if protocol is not None and not _hides_answer(protocol, raised):
        return _judge(protocol, case)
    return classify_exception(facts_of(raised), case)


def _alone(raised: Raised, case: Case) -> Raised:
    """Return what a group of one exception holds: a task group wraps whatever ended it, which is no evidence of its own."""
    error = raised.error
    for _ in range(_MAX_GROUPS):
        held: BaseException = error
        if not isinstance(error, BaseExceptionGroup) or by_exception(case, _exact(held)) is not None:
            break
        members = cast("tuple[BaseException, ...]", error.exceptions)
        if len(members) != 1:
            break
        error = members[0]
    return raised if error is raised.error else replace(raised, error=error)


def _exact(error: BaseException) -> tuple[str, ...]:
    return tuple(f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__)


def _hides_answer(protocol: Grpc | McpError, raised: Raised) -> bool:
    """Tell whether an MCP client made its error of an HTTP answer that a client of ours saw."""
    seen = raised.seen
    return (
        isinstance(protocol, McpError) and protocol.code == INTERNAL_ERROR and seen is not None and seen.status >= 400
    )


def _finished(envelope: Envelope, raw: Raw, case: Case) -> Envelope:
    """Give a refusal its text: the catalogue's, unless an owned one passed; and the tool's own beside it if declared."""
    if envelope.recovery is None:
        return envelope
    if envelope.safe_message is None:
        code = envelope.code
        if case.catalogue.get(code) is None:
            # Nothing is known about it but its class: why it waits is not guessed.
            code = "WAITING" if envelope.recovery is Recovery.RETRY_AFTER else CODES[envelope.recovery]
        envelope = replace(envelope, safe_message=case.catalogue.text(code, envelope))
    return with_own_words(envelope, raw, case)


def poll_finished(policy: ToolPolicy, value: object) -> bool | None:
    """Tell whether a look at something is final, by the policy's status field; None = the tool is no poll.

    A status that is not listed as pending is final. The field is a name at the top, or a JSON pointer.
    """
    poll = policy.poll
    if poll is None:
        return None
    pointer = poll.status_field if poll.status_field.startswith("/") else f"/{poll.status_field}"
    return first(value, pointer) not in poll.pending
