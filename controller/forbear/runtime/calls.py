"""From what a framework hands over to a core `Call`: canonical arguments, digests, target, quota, and the author's rule.

The author's functions (target, quota, approval) run here, outside every lock. Nothing is decided and nothing is stored.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import cast

from forbear.contract.declared_fields import ApprovalFunction
from forbear.core.identity import NotCanonical, action_key, canonical, digest, fingerprint, target_key
from forbear.core.policy import Arguments, ToolPolicy
from forbear.core.values import Call, RuleVerdict
from forbear.core.vocabulary import Gate
from forbear.errors import ConfigError, UsageError

__all__ = ["ALLOWED", "arguments_from", "arguments_of", "begin_judging", "build", "judge", "judged", "rebuilt"]

ALLOWED = RuleVerdict()
ALWAYS = RuleVerdict(gate=Gate.ASK, rule="always")
UNAVAILABLE = RuleVerdict(gate=Gate.UNAVAILABLE)
TRUNCATED = "INPUT_TRUNCATED"
INVALID = "INPUT_INVALID"


def arguments_of(proposed: object) -> tuple[Mapping[str, object], bool]:
    """Return the arguments object of a proposal and whether it is one; a JSON text of an object counts.

    What cannot be read is replaced by its digest, so that two unreadable proposals stay two different calls.
    """
    if isinstance(proposed, Mapping):
        return cast("Mapping[str, object]", proposed), True
    if proposed is None:
        return {}, True
    raw = proposed if isinstance(proposed, str) else type(proposed).__name__
    if isinstance(proposed, str):
        try:
            parsed: object = json.loads(proposed, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            # Text that nests without end is text that a model can write.
            parsed = None
        if isinstance(parsed, dict):
            return cast("dict[str, object]", parsed), True
    return _unreadable(raw), False


def _unreadable(raw: str) -> dict[str, object]:
    return {"unreadable": digest("unreadable", raw)}


def _refuse_constant(_name: str) -> object:
    raise ValueError


def build(
    policy: ToolPolicy,
    proposed: object,
    *,
    run: str,
    step: str,
    call_id: str,
    source: str = "",
    siblings: int = 1,
    forced: bool = False,
    truncated: bool = False,
) -> Call:
    """Return the core's form of one proposal; the rule's verdict is added by `judged`.

    Raises:
        UsageError: an argument has no JSON form; the message names its path, never its value.
    """
    arguments, readable = arguments_of(proposed)
    key = policy.idempotency_key
    if key is not None and key.argument in arguments:
        # The controller writes it: what a model writes there is no part of the call.
        arguments = {name: value for name, value in arguments.items() if name != key.argument}
    try:
        text = canonical(arguments)
    except NotCanonical as error:
        # JSON that a model can write, and nobody can take: an input to repair, not a mistake of the caller.
        arguments, readable = _unreadable(str(error)), False
        text = canonical(arguments)
    operation = policy.operation or policy.name
    # Arguments that cannot be read at all lack every one of them.
    missing = tuple(name for name in policy.required if name not in arguments)
    malformed = ""
    if truncated:
        malformed = TRUNCATED
    elif not readable or missing:
        malformed = INVALID
    target = None
    quota = None
    if not malformed:
        target = _target(policy, operation, arguments)
        quota = _quota(policy, arguments)
    # The same as action_key without ignored fields, which would make the canonical text a second time.
    action = action_key(operation, arguments, policy.ignore) if policy.ignore else digest("action", operation, text)
    return Call(
        run=run,
        step=step,
        call_id=call_id,
        tool=policy.name,
        source=source,
        arguments=text,
        fingerprint=fingerprint(policy.name, source, text),
        action=action,
        operation=operation,
        effect=policy.effect,
        target=target,
        target_declared=policy.target is not None,
        quota=quota,
        siblings=siblings,
        forced=forced,
        malformed=malformed,
        missing=missing,
    )


def _target(policy: ToolPolicy, operation: str, arguments: Arguments) -> str | None:
    declared = policy.target
    if declared is None:
        return None
    if not callable(declared):
        return target_key(operation, {name: arguments.get(argument) for name, argument in declared})
    try:
        named = declared(arguments)
    except Exception:  # noqa: BLE001 - the author's function; no target = covered by every target hold (section 3)
        return None
    if isinstance(named, Mapping):
        return target_key(operation, cast("Mapping[str, object]", named))
    return target_key(operation, {"": named})


def _quota(policy: ToolPolicy, arguments: Arguments) -> str | None:
    declared = policy.quota
    if declared is None or isinstance(declared, str):
        return declared
    try:
        named: object = declared(arguments)
    except Exception:  # noqa: BLE001 - the author's function; no quota = the hold falls back to target or action
        return None
    return named if isinstance(named, str) else None


def begin_judging(policy: ToolPolicy, arguments: Arguments) -> RuleVerdict | Awaitable[object]:
    """Evaluate the author's approval rule; an awaitable is returned as it is, for the caller to await.

    A rule that raises, or answers with something that is not a verdict, is no verdict (`CHECKER_UNAVAILABLE`).
    """
    rule = policy.approval
    if isinstance(rule, str):
        return ALLOWED if rule == "never" else ALWAYS
    try:
        # The wrapper of the contract turns words into verdicts; an async rule has to be awaited first.
        said: object = rule.function(arguments) if isinstance(rule, ApprovalFunction) else rule(arguments)
    except Exception:  # noqa: BLE001 - a failing checker is not a verdict (design section 4, step 4)
        return UNAVAILABLE
    return cast("Awaitable[object]", said) if inspect.isawaitable(said) else judged(policy, said)


def judged(policy: ToolPolicy, said: object) -> RuleVerdict:
    """Return what the rule said as a verdict; anything that is none is no verdict (`CHECKER_UNAVAILABLE`)."""
    if isinstance(said, RuleVerdict):
        return said
    reader = ApprovalFunction(lambda _arguments: said)
    if isinstance(policy.approval, ApprovalFunction):
        reader.name = policy.approval.name
    try:
        return reader({})
    except ConfigError:
        return UNAVAILABLE


def judge(call: Call, verdict: RuleVerdict) -> Call:
    """Return the call with the verdict of its rule at this moment."""
    return call if verdict == call.verdict else replace(call, verdict=verdict)


def rebuilt(call: Call, policy: ToolPolicy, arguments: Arguments) -> Call:
    """Return `call` with other arguments or another tool, as a person edited it: same run, step and call id."""
    changed = build(policy, arguments, run=call.run, step=call.step, call_id=call.call_id, source=call.source)
    return replace(changed, edited=True)


def frozen_arguments(call: Call) -> dict[str, object]:
    """Return the arguments exactly as they were decided about, from their canonical text."""
    return arguments_from(call.arguments)


def arguments_from(text: str) -> dict[str, object]:
    """Return the arguments of a canonical text."""
    parsed: dict[str, object] = json.loads(text)
    return parsed


def unjudged(policy: ToolPolicy) -> bool:
    """Say whether the rule allows every call without looking at it."""
    return policy.approval == "never"


def awaited(said: RuleVerdict | Awaitable[object]) -> RuleVerdict:
    """Return the verdict of a rule that answered at once.

    Raises:
        UsageError: the rule is async and the caller is not.
    """
    if isinstance(said, RuleVerdict):
        return said
    close = getattr(said, "close", None)
    if close is not None:
        close()
    raise UsageError("the tool's approval rule is async: use acall (or apropose)")
