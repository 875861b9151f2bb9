"""Decide what of a tool's own envelope is believed and what of it may be shown (design section 2, origin and trust).

Claims of a remote tool may only make things stricter. Strings pass only where the policy declares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, cast
from urllib.parse import urlsplit

from forbear.contract import findings as f
from forbear.contract.case import Case
from forbear.contract.catalogue import is_code
from forbear.contract.envelope import is_contract, read_counted
from forbear.contract.lint import lint_text
from forbear.contract.rules import field_name, known_fields
from forbear.contract.time import Base, later
from forbear.core.values import Envelope, InvalidField
from forbear.core.vocabulary import Executed, Outcome, Recovery, Trust
from forbear.errors import ContractError

_RULES: Final = frozenset(
    "invalid required missing unknown min max minimum maximum length too_long too_short pattern format type enum "
    "range unique not_allowed out_of_range".split()
)
_NOT_APPLIED: Final = frozenset({Outcome.REFUSED, Outcome.INVALID, Outcome.DENIED})
_REPEATING: Final = frozenset({Recovery.RETRY_AFTER, Recovery.REPAIR_INPUT, Recovery.USE_ALTERNATIVE})


def admitted(value: object, case: Case) -> Envelope | None:
    """Return what a result in the contract's form means, or None where it is not in that form."""
    if not is_contract(value):
        return None
    try:
        said, dropped = read_counted(value)
    except ContractError:
        # A word that nobody defined is never the most permissive one.
        case.counts.unreadable_envelopes += 1
        return f.unknown(case.effect, code="OUTCOME_UNKNOWN" if case.writes else "UPSTREAM_REFUSED")
    case.counts.dropped_fields += dropped
    return believe(said, case)


def believe(said: Envelope, case: Case) -> Envelope:
    """Return an envelope of a tool, cut to what may be believed and shown."""
    remote = case.policy.trust is Trust.REMOTE
    if said.recovery is None:
        return _completed(said, remote=remote)
    shown = replace(
        said,
        request_id="",
        constraint=said.constraint if said.constraint in case.policy.constraints else None,
        operation=said.operation if said.operation == (case.policy.operation or case.policy.name) else None,
        invalid_fields=_fields(said.invalid_fields, case, remote=remote),
        precondition=said.precondition
        if said.precondition is not None and said.precondition.tool in case.policy.preconditions
        else None,
        alternative_tools=tuple(one for one in said.alternative_tools if one in case.policy.alternatives),
        required_permission=said.required_permission if said.required_permission in case.policy.permissions else None,
        approval_url=said.approval_url if not remote and _is_approval_url(said.approval_url, case) else None,
        http_status=None if remote else said.http_status,
        safe_message=_message(said.safe_message, case, remote=remote),
        reason=None,
        temporary=said.recovery is Recovery.RETRY_AFTER and said.code == "TEMPORARY_FAILURE",
    )
    shown = _code(shown, case, remote=remote)
    return _ends(_consistent(shown, case, remote=remote), case.now)


def _completed(said: Envelope, *, remote: bool) -> Envelope:
    outcome = said.outcome
    if outcome is Outcome.PENDING:
        return f.found(Recovery.INSPECT_OUTCOME, "STILL_RUNNING", outcome=outcome)
    if outcome is Outcome.ALREADY_SATISFIED:
        # Of a remote tool this is a completed result and nothing more.
        return f.SUCCESS if remote else f.ALREADY
    if outcome is Outcome.EMPTY:
        return f.EMPTY
    return f.PARTIAL if outcome is Outcome.PARTIAL else f.SUCCESS


def _fields(named: tuple[InvalidField, ...], case: Case, *, remote: bool) -> tuple[InvalidField, ...]:
    names = known_fields(case)
    passed: list[InvalidField] = []
    for one in named:
        name = field_name(case, one.name, names)
        if name is not None:
            passed.append(InvalidField(name=name, rule=one.rule if not remote or one.rule in _RULES else "invalid"))
    return tuple(passed)


def _is_approval_url(url: str | None, case: Case) -> bool:
    if url is None or len(url) > 256 or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and port in (None, 443)
    return parts.scheme == "https" and plain and host in case.policy.approval_hosts


def _message(message: str | None, case: Case, *, remote: bool) -> str | None:
    """Return an owned text that is lint clean; any other is replaced by the catalogue's, and counted."""
    if message is None:
        return None
    if remote or lint_text(message):
        case.counts.replaced_texts += 1
        return None
    return message


def _code(said: Envelope, case: Case, *, remote: bool) -> Envelope:
    """Return the envelope with a code that a tool may say."""
    code = said.code
    borrowed = case.catalogue.is_controllers(code)
    locked = remote and code == "VAULT_LOCKED" and code not in case.policy.shared_codes
    if borrowed or locked or not is_code(code):
        case.counts.refused_codes += 1
        # The text of a borrowed code goes with it.
        return replace(said, code="UPSTREAM_REFUSED", safe_message=None)
    if case.catalogue.get(code) is None:
        case.counts.unknown_codes += 1
        if remote and said.recovery is not None:
            # A word that nobody here defined may say anything: what it asks for counts, not what it is called.
            return replace(said, code=f.CODES[said.recovery])
    return said


def _consistent(said: Envelope, case: Case, *, remote: bool) -> Envelope:
    """Make the class agree with what is said about execution: what may have happened is not repeated."""
    if said.effects_before_failure:
        return f.after_effects(said, case.effect)
    executed = said.executed
    if remote and executed is Executed.NO and said.outcome not in _NOT_APPLIED:
        # A remote "no" is only believed where the outcome itself is a refusal.
        executed = Executed.UNKNOWN
    if said.recovery is Recovery.INSPECT_OUTCOME and executed is Executed.NO:
        executed = Executed.UNKNOWN
    if executed is not Executed.NO and said.recovery in _REPEATING and not case.may_repeat:
        return replace(
            said, recovery=Recovery.INSPECT_OUTCOME, executed=Executed.UNKNOWN, outcome=Outcome.UNKNOWN, temporary=False
        )
    return replace(said, executed=executed)


def _ends(said: Envelope, now: datetime) -> Envelope:
    """Give the envelope its named end: the later of both ways to say it, never in the past."""
    if said.recovery is not Recovery.RETRY_AFTER:
        return replace(said, reset_at=None)
    base = Base(now)
    seconds = said.retry_after_seconds
    hint = later(
        base.at(said.reset_at) if said.reset_at is not None else None,
        base.after(seconds * 1000) if seconds is not None else None,
    )
    return f.timed(replace(said, reset_at=None), hint)


def refused_value(code: str, fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the flat form of what a tool raised with `forbear.Refused`."""
    moments = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()}
    top = {name: moments.pop(name) for name in ("outcome", "executed") if name in moments}
    return cast("Mapping[str, object]", {"ok": False, **top, "error": {"code": code, **moments}})
