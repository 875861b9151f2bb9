"""From a journey's tools and limits to the declarations of an integration author. Nothing is run here.

What the format says about a tool is spread over the line: results that carry ``structuredContent`` make it a tool that
speaks the contract, ``body_fields`` are its safe fields, a `precondition` or an alternative in a result was declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from forbear.core.values import RuleVerdict
from forbear.testing.journey_format import Journey, Json, Result, Unreadable

__all__ = ["controller_limits", "declarations", "instants"]

Verdict = Callable[[str, Mapping[str, object]], RuleVerdict]
Quota = Callable[[str, Mapping[str, object]], str | None]

_LIMITS: Final[Mapping[str, str]] = {
    "max_wait_s": "max_wait",
    "max_controller_retries": "max_retries",
    "transport_retry": "max_retries",
    "unknown_reset": "on_unknown_reset",
    "max_calls_per_turn": "max_calls_per_turn",
    "max_calls_per_run": "max_calls_per_run",
    "max_blocked_before_stop": "max_blocked_before_stop",
    "max_recorded_replays": "replay_completed",
    "checker_retry": "checker_retry",
    "on_checker_down": "on_checker_down",
    "approval_ttl_s": "approval_ttl",
}
_WORDS: Final[Mapping[object, str]] = {"ask_human": "ask", "block": "block", "ask": "ask", "stop": "stop", "wait": "wait"}
# Which tools a limit is about; the others bound every tool.
_READS_ONLY: Final = frozenset({"replay_completed"})
_RUN_ONLY: Final = frozenset({"max_calls_per_turn", "max_calls_per_run"})
_DEFAULTS: Final[Mapping[str, object]] = {"inspect_attempts": 0, "inline_wait": 0}


def controller_limits(journey: Journey) -> dict[str, object]:
    """Return the limits of the controller.

    Raises:
        Unreadable: a limit is not known.
    """
    found: dict[str, object] = dict(_DEFAULTS)
    for name, value in journey.limits.items():
        if name == "jitter":
            if value != "positive_only":
                raise Unreadable(f"limits: jitter {value!r} is not known")
            continue
        if name not in _LIMITS:
            # A limit under the product's own name.
            found[name] = value
            continue
        found[_LIMITS[name]] = _WORDS.get(value, value) if isinstance(value, str) else value
    return found


def declarations(journey: Journey, *, verdict: Verdict, quota: Quota) -> dict[str, dict[str, object]]:
    """Return the fields of every tool by name.

    Args:
        journey: The journey.
        verdict: The author's rule of a tool, for one call.
        quota: The author's quota of a tool, for one call.
    """
    limits = {name: value for name, value in controller_limits(journey).items() if name not in _RUN_ONLY}
    named = {str(tool["name"]): tool for tool in journey.tools}
    # Of a tool that is only called, the author declared what the calls say: a rule, a quota.
    for call in journey.calls().values():
        if call.tool not in named and (call.verdict is not None or call.quota_scope is not None):
            named[call.tool] = {"name": call.tool}
    return {name: _tool(journey, tool, limits, verdict, quota) for name, tool in named.items()}


def _tool(
    journey: Journey, tool: Json, limits: dict[str, object], verdict: Verdict, quota: Quota
) -> dict[str, object]:
    name = str(tool["name"])
    results = _results(journey, name)
    own = limits if tool.get("effect") == "read" else {k: v for k, v in limits.items() if k not in _READS_ONLY}
    fields: dict[str, object] = {"limits": own}
    for key, given in _plain(tool):
        fields[key] = given
    if _has_gate(journey, name) or tool.get("gate") is not None:
        fields["approval"] = _bound(verdict, name)
    if tool.get("quota_scope") is not None or any(call.quota_scope for call in _calls(journey, name)):
        fields["quota"] = _bound(quota, name)
    if tool.get("inspect_with") is not None:
        check: dict[str, object] = {"tool": tool["inspect_with"]}
        if tool.get("applied_if") is not None:
            check["applied_if"] = tool["applied_if"]
        fields["inspect"] = check
    _from_results(fields, results)
    _from_rules(fields, tool)
    return fields


def _plain(tool: Json) -> list[tuple[str, object]]:
    """Return the members that only change their name."""
    found: list[tuple[str, object]] = []
    for key, name in (("effect", "effect"), ("repeatable", "repeatable"), ("required", "required"), ("empty_means", "empty_means")):
        if tool.get(key) is not None:
            found.append((name, tool[key]))
    if tool.get("match_on"):
        found.append(("target", tool["match_on"]))
    for key in ("operation", "ignore", "alternatives", "idempotency_key", "atomic", "text_rules", "status_rules"):
        if tool.get(key) is not None:
            found.append((key, tool[key]))
    poll = tool.get("poll")
    if isinstance(poll, dict):
        members = cast("dict[str, object]", poll)
        found.append(
            (
                "poll",
                {
                    "status_field": members["status_field"],
                    "pending": members["pending"],
                    "min_interval": members.get("min_interval_s", 1),
                },
            )
        )
    retry = tool.get("empty_retry")
    if isinstance(retry, dict):
        given = cast("dict[str, object]", retry)
        found.append(("empty_retry", {"delay": given.get("after_s", 5), "looks": given.get("max", 1)}))
    return found


def _bound(function: Callable[[str, Mapping[str, object]], object], name: str) -> Callable[[Mapping[str, object]], object]:
    def of_call(arguments: Mapping[str, object]) -> object:
        return function(name, arguments)

    return of_call


def _calls(journey: Journey, name: str) -> list[object]:
    return [call for call in journey.calls().values() if call.tool == name]


def _has_gate(journey: Journey, name: str) -> bool:
    return any(call.verdict is not None for call in journey.calls().values() if call.tool == name)


def _results(journey: Journey, name: str) -> list[Result]:
    calls = journey.calls()
    return [event for _, event in journey.events if isinstance(event, Result) and calls[event.call].tool == name]


def _from_results(fields: dict[str, object], results: list[Result]) -> None:
    safe: dict[str, str] = {}
    declared: dict[str, set[str]] = {"preconditions": set(), "alternatives": set(), "permissions": set()}
    constraints: dict[str, str] = {}
    for result in results:
        body = result.body
        for name, value in _object(body.get("body_fields")).items():
            if isinstance(value, (str, int, float, bool)):
                safe[name] = "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
        said = _object(body.get("structuredContent"))
        if said:
            fields["speaks_contract"] = True
        error = {**said, **_object(said.get("error"))}
        for source in (body, error):
            before = _object(source.get("precondition"))
            if isinstance(before.get("tool"), str):
                declared["preconditions"].add(str(before["tool"]))
        others = error.get("alternative_tools")
        if isinstance(others, list):
            declared["alternatives"].update(str(one) for one in cast("list[object]", others))
        if isinstance(error.get("required_permission"), str):
            declared["permissions"].add(str(error["required_permission"]))
        if isinstance(error.get("constraint"), str):
            constraints[str(error["constraint"])] = "target"
    if safe:
        fields["safe_fields"] = safe
    for key, names in declared.items():
        if names and key not in fields:
            fields[key] = sorted(names)
    if constraints:
        fields["constraints"] = constraints


def _from_rules(fields: dict[str, object], tool: Json) -> None:
    """The author names the values that a rule's code may have."""
    safe = dict(cast("dict[str, object]", fields.get("safe_fields", {})))
    rules = tool.get("status_rules")
    if isinstance(rules, list) and any("code" in _object(rule) for rule in cast("list[object]", rules)):
        safe.setdefault("code", "text")
        fields["safe_fields"] = safe


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def instants(journey: Journey) -> frozenset[str]:
    """Return the result fields that hold a time as seconds after the start (`applied_if` with `at_or_after`)."""
    names: set[str] = set()
    for tool in journey.tools:
        applied = _object(tool.get("applied_if"))
        if "at_or_after" in applied and isinstance(applied.get("field"), str):
            names.add(str(applied["field"]))
    return frozenset(names)
