"""The author's own rules for results of tools that do not speak the contract: text, status and exception rules.

They come before everything that is guessed. Patterns are prefixes, equality and JSON pointers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from forbear.contract import findings as f
from forbear.contract.body import MAX_RULE_TEXT, UNREADABLE, first, items, member, parse, point
from forbear.contract.case import Case
from forbear.contract.findings import found
from forbear.contract.lint import lint_text
from forbear.contract.raw import ABSENT
from forbear.core.identity import canonical
from forbear.core.values import Envelope, InvalidField
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import UsageError

# Where services put the code of an error, most exact first.
_CODES: Final = (
    "/code", "/error/code", "/error", "/errorCode", "/error_code", "/errors/*/code", "/errors/*/errorCode",
    "/error/type", "/error/status",
)  # fmt: skip
# Where services name the fields that they reject.
_FIELDS: Final = (
    "/errors/*/pointer", "/errors/*/field", "/errors/*/param", "/errors/*/path", "/errors/*/name", "/error/param",
    "/error/field", "/invalid_fields/*", "/invalidParams/*/name", "/invalid-params/*/name", "/detail/*/loc",
    "/field", "/param",
)  # fmt: skip
_MAX_SAFE_TEXT: Final = 64


def verdict(
    recovery: Recovery | None, outcome: Outcome | None, code: str, fields: tuple[str, ...], case: Case
) -> Envelope:
    """Return what a rule of the author says, filled up where the rule leaves something open."""
    if recovery is None:
        if outcome in (None, Outcome.SUCCESS):
            return f.SUCCESS
        if outcome is Outcome.EMPTY:
            return f.EMPTY
        if outcome is Outcome.PARTIAL:
            return f.PARTIAL
        if outcome is Outcome.ALREADY_SATISFIED:
            return f.ALREADY
        if outcome is Outcome.PENDING:
            return found(Recovery.INSPECT_OUTCOME, code or "STILL_RUNNING", outcome=outcome)
        entry = case.catalogue.recovery(code) if code else None
        recovery = entry or _BY_OUTCOME.get(outcome or Outcome.FAILED) or Recovery.DO_NOT_RETRY
        if outcome is Outcome.UNKNOWN and not case.writes:
            return f.no_answer(case.effect)
    envelope = found(recovery, code, outcome=outcome, fields=fields)
    return replace(envelope, temporary=recovery is Recovery.RETRY_AFTER and code == "TEMPORARY_FAILURE")


_BY_OUTCOME: Final = {
    Outcome.INVALID: Recovery.REPAIR_INPUT,
    Outcome.REFUSED: Recovery.DO_NOT_RETRY,
    Outcome.DENIED: Recovery.DO_NOT_RETRY,
    Outcome.FAILED: Recovery.DO_NOT_RETRY,
    Outcome.CANCELLED: Recovery.DO_NOT_RETRY,
    Outcome.UNKNOWN: Recovery.INSPECT_OUTCOME,
    Outcome.TIMEOUT: Recovery.INSPECT_OUTCOME,
}


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def by_text(case: Case, text: str | None, value: object) -> Envelope | None:
    """Return what the first matching text rule says about a result, given as text (or None) and as a value."""
    rules = case.policy.text_rules
    if not rules:
        return None
    head = text[:MAX_RULE_TEXT] if text is not None else None
    structure = value
    if head is not None and not isinstance(value, (Mapping, list)):
        structure = parse(head) if text is not None and len(text) <= MAX_RULE_TEXT else UNREADABLE
    for rule in rules:
        if rule.prefix is not None:
            matches = head is not None and head.startswith(rule.prefix)
        elif rule.equals is not None:
            matches = text == rule.equals
        else:
            matches = rule.pointer is not None and _equal(first(structure, rule.pointer), rule.value)
        if matches:
            return verdict(rule.recovery, rule.outcome, rule.code, rule.fields, case)
    return None


def codes_in(body: object) -> tuple[str, ...]:
    """Return the codes that a body carries, as text."""
    return tuple(code_texts(value for pointer in _CODES for value in point(body, pointer)))


def code_texts(values: Iterable[object]) -> Iterable[str]:
    """Yield codes as text: short strings and whole numbers."""
    for value in values:
        if isinstance(value, str) and len(value) <= 128:
            yield value
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12:
            yield str(value)


def by_status(case: Case, status: int, body: object) -> Envelope | None:
    """Return what the first status rule says that names this status and, where it names one, this code."""
    for rule in case.policy.status_rules:
        if rule.status != status or (rule.code is not None and rule.code not in codes_in(body)):
            continue
        if any(not _same(member(body, name), case.arguments.get(name, ABSENT)) for name in rule.only_if_equal):
            return found(Recovery.REPAIR_INPUT, "CONFLICT", http_status=status)
        said = verdict(rule.recovery, rule.outcome, rule.as_code, (), case)
        return replace(said, http_status=status)
    return None


def _same(one: object, other: object) -> bool:
    """Tell whether two JSON values are the same, type-tagged; absent is equal to nothing."""
    if one is ABSENT or other is ABSENT:
        return False
    try:
        return canonical({"value": one}) == canonical({"value": other})
    except UsageError:
        return False


def by_exception(case: Case, exact: tuple[str, ...]) -> Envelope | None:
    """Return what the first exception rule says whose class is in the exception's bases."""
    for rule in case.policy.exception_rules:
        if rule.exception in exact:
            said = verdict(rule.recovery, rule.outcome, rule.code, (), case)
            if said.recovery is Recovery.RETRY_AFTER:
                return replace(said, executed=Executed.UNKNOWN, temporary=True)
            return said
    return None


def answered_error(case: Case, fields: tuple[str, ...] = ()) -> Envelope:
    """Return what an answered error without structure means (design section 5)."""
    if case.writes and not case.policy.atomic:
        return found(Recovery.INSPECT_OUTCOME)
    return found(Recovery.REPAIR_INPUT, "TOOL_ERROR", outcome=Outcome.FAILED, fields=fields)


def safe_fields(case: Case, body: object) -> tuple[tuple[str, str | int | float | bool | None], ...]:
    """Return the declared body fields that have the declared type or one of the declared values."""
    declared = case.policy.safe_fields
    if not declared:
        return ()
    passed: list[tuple[str, str | int | float | bool | None]] = []
    for name, kind in declared.items():
        value = member(body, name)
        if value is ABSENT:
            value = member(member(body, "error"), name)
        if isinstance(value, bool):
            if kind == "boolean":
                passed.append((name, value))
        elif isinstance(value, (int, float)):
            if kind == "number" and abs(value) < 10**15:
                passed.append((name, value))
        elif isinstance(value, str) and (
            value in kind if isinstance(kind, tuple) else kind == "text" and is_safe_text(value)
        ):
            passed.append((name, value))
    return tuple(passed)


def is_safe_text(text: str) -> bool:
    """Tell whether a declared text field may pass: short, one line, lint clean."""
    return len(text) <= _MAX_SAFE_TEXT and not lint_text(text)


def known_fields(case: Case) -> frozenset[str]:
    """Return the field names that may be shown: the pinned input schema's, else the call's own."""
    return frozenset(case.policy.input_fields or tuple(case.arguments))


def pass_fields(case: Case, named: tuple[InvalidField, ...]) -> tuple[InvalidField, ...]:
    """Return those fields that the tool's input knows."""
    names = known_fields(case)
    return tuple(one for one in named if field_name(case, one.name, names) is not None)


def field_name(case: Case, named: str, names: frozenset[str]) -> str | None:
    """Return a field's name as it may be shown, or None: a known name, or a pointer into the call's arguments."""
    if named in names:
        return named
    pointer = named.lstrip("#")
    if pointer.startswith("/") and len(pointer) <= 128:
        if first(dict(case.arguments), pointer) is not ABSENT:
            segments = pointer.split("/")[1:]
            return segments[0] if len(segments) == 1 else pointer
        top = pointer.split("/")[1]
        return top if top in names else None
    top = named.replace("[", ".").split(".")[0]
    return top if top in names else None


def fields_in(case: Case, body: object) -> tuple[str, ...]:
    """Return the names of rejected fields that a body gives and the tool's input knows."""
    names = known_fields(case)
    if not names:
        return ()
    passed: list[str] = []
    for pointer in _FIELDS:
        for value in point(body, pointer):
            parts = [part for part in items(value) if isinstance(part, str)]
            for named in [value] if isinstance(value, str) else parts[-1:]:
                shown = field_name(case, named, names)
                if shown is not None and shown not in passed:
                    passed.append(shown)
    return tuple(passed[:8])
