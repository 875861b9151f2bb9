"""From a journey's tools and limits to the declarations of an integration author. Nothing is run here.

What the format says about a tool is spread over the line: results that carry ``structuredContent`` make it a tool that
speaks the contract, ``body_fields`` are its safe fields, a `precondition` or an alternative in a result was declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from forbear.core.identity import canonical
from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Gate
from forbear.testing.journey_format import Call, Journey, Json, Result, Unreadable

__all__ = ["Author", "controller_limits", "declarations", "instants"]


_GATES: Final[Mapping[str, Gate]] = {
    "allow": Gate.ALLOW,
    "approval": Gate.ASK,
    "deny": Gate.DENY,
    "unavailable": Gate.UNAVAILABLE,
}
_LIMITS: Final[Mapping[str, str]] = {
    "max_controller_retries": "max_retries",
    "max_wait_s": "max_wait",
    "unknown_reset": "on_unknown_reset",
    "max_calls_per_turn": "max_calls_per_turn",
    "max_calls_per_run": "max_calls_per_run",
    "max_blocked_before_stop": "max_blocked_before_stop",
    "max_recorded_replays": "replay_completed",
    "checker_retry": "checker_retry",
    "on_checker_down": "on_checker_down",
    "approval_ttl_s": "approval_ttl",
}
# Members that a declaration has under the same name.
_SAME: Final = (
    *("effect", "repeatable", "required", "empty_means", "text_rules", "status_rules"),
    *("operation", "ignore", "alternatives", "idempotency_key", "atomic"),
)
_WORDS: Final[Mapping[object, str]] = {
    "ask_human": "ask",
    "block": "block",
    "ask": "ask",
    "stop": "stop",
    "wait": "wait",
}
# Which tools a limit is about; the others bound every tool.
_READS_ONLY: Final = frozenset({"replay_completed"})
_RUN_ONLY: Final = frozenset({"max_calls_per_turn", "max_calls_per_run"})
_DEFAULTS: Final[Mapping[str, object]] = {"inspect_attempts": 0, "inline_wait": 0}


class Author:
    """The integration author: what the rule and the quota of a tool say about one call, as the calls of a story say it.

    A call is known by its tool and its arguments; the newest word about it counts.
    """

    def __init__(self, story: Journey) -> None:
        self._always = {str(tool["name"]) for tool in story.tools if tool.get("gate") == "always"}
        self._shared = {str(tool["name"]): tool.get("quota_scope") for tool in story.tools}
        self._verdicts: dict[tuple[str, str], RuleVerdict] = {}
        self._quotas: dict[tuple[str, str], str] = {}

    def says(self, call: Call, verdict: str | None, rule: str) -> None:
        """Take notice of what a story says about a call."""
        arguments = call.args
        if not isinstance(arguments, dict):
            return
        key = (call.tool, canonical(cast("Mapping[str, object]", arguments)))
        if verdict is not None:
            self._verdicts[key] = RuleVerdict(gate=_GATES[verdict], rule=rule)
        if call.quota_scope is not None:
            self._quotas[key] = call.quota_scope

    def verdict(self, tool: str, arguments: Mapping[str, object]) -> RuleVerdict:
        """Return what the rule says."""
        otherwise = RuleVerdict(gate=Gate.ASK, rule="always") if tool in self._always else RuleVerdict()
        return self._verdicts.get((tool, canonical(arguments)), otherwise)

    def quota(self, tool: str, arguments: Mapping[str, object]) -> str | None:
        """Return the quota that a call draws from."""
        shared = self._shared.get(tool)
        return self._quotas.get((tool, canonical(arguments)), None if shared is None else str(shared))


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
        if name == "transport_retry":
            # A limit of single tools.
            continue
        if name not in _LIMITS:
            # A limit under the product's own name.
            found[name] = value
            continue
        found[_LIMITS[name]] = _WORDS.get(value, value) if isinstance(value, str) else value
    return found


def _max_retries(limits: Json, *, is_read: bool) -> object:
    """Return `max_retries` of one tool; None = the default, which alone tells temporary failures of reads apart (1 and 2)."""
    usual = limits.get("max_controller_retries")
    temporary = limits.get("transport_retry")
    if not is_read or temporary is None:
        return usual
    return None if usual in (None, 1) and temporary == 2 else temporary


def declarations(journey: Journey, author: Author) -> dict[str, dict[str, object]]:
    """Return the fields of every tool by name."""
    limits = {name: value for name, value in controller_limits(journey).items() if name not in _RUN_ONLY}
    named = {str(tool["name"]): tool for tool in journey.tools}
    # Of a tool that is only called, the author declared what the calls say: a rule, a quota.
    for call in journey.calls().values():
        if call.tool not in named and (call.verdict is not None or call.quota_scope is not None):
            named[call.tool] = {"name": call.tool}
    return {name: _tool(journey, tool, limits, author) for name, tool in named.items()}


def _tool(journey: Journey, tool: Json, limits: dict[str, object], author: Author) -> dict[str, object]:
    name = str(tool["name"])
    results = _results(journey, name)
    is_read = tool.get("effect") == "read"
    own = {name: value for name, value in limits.items() if is_read or name not in _READS_ONLY}
    own["max_retries"] = _max_retries(journey.limits, is_read=is_read)
    fields: dict[str, object] = {"limits": own, **_plain(tool)}
    if _has_gate(journey, name) or tool.get("gate") is not None:
        fields["approval"] = _bound(author.verdict, name)
    if tool.get("quota_scope") is not None or any(call.quota_scope for call in _calls(journey, name)):
        fields["quota"] = _bound(author.quota, name)
    if tool.get("inspect_with") is not None:
        check: dict[str, object] = {"tool": tool["inspect_with"]}
        if tool.get("applied_if") is not None:
            check["applied_if"] = tool["applied_if"]
        fields["inspect"] = check
    _from_results(fields, results)
    _from_rules(fields, tool)
    return fields


def _plain(tool: Json) -> dict[str, object]:
    """Return the members that only change their name or form."""
    found = {name: tool[name] for name in _SAME if tool.get(name) is not None}
    if tool.get("match_on"):
        found["target"] = tool["match_on"]
    poll = _object(tool.get("poll"))
    if poll:
        found["poll"] = {
            "status_field": poll.get("status_field"),
            "pending": poll.get("pending"),
            "min_interval": poll.get("min_interval_s", 1),
        }
    retry = _object(tool.get("empty_retry"))
    if retry:
        found["empty_retry"] = {"delay": retry.get("after_s", 5), "looks": retry.get("max", 1)}
    return found


def _bound(
    function: Callable[[str, Mapping[str, object]], object], name: str
) -> Callable[[Mapping[str, object]], object]:
    def of_call(arguments: Mapping[str, object]) -> object:
        return function(name, arguments)

    return of_call


def _calls(journey: Journey, name: str) -> list[Call]:
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
