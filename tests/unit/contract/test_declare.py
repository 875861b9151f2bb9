"""Declarations: every convenient form, misspelt names, contradictions, TOML without Python, hints that only tighten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields as fields_of
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from forbear.contract import (
    allow,
    ask,
    deny,
    from_mcp_annotations,
    limits,
    policies_from_mapping,
    policies_from_toml,
    tool_policy,
)
from forbear.contract.declare import FIELDS
from forbear.contract.declared_fields import READERS
from forbear.core.policy import EmptyRetry, IdempotencyKey, Inspection, Limits, Poll, ToolPolicy
from forbear.core.values import RuleVerdict
from forbear.core.vocabulary import Effect, Gate, Mode, Outcome, Recovery, Scope, Trust
from forbear.errors import ConfigError


def test_every_field_of_a_policy_can_be_declared() -> None:
    """There is a reader for each field of the policy, and for nothing else."""
    assert set(READERS) == {one.name for one in fields_of(ToolPolicy)} - {"name", "digest"}
    assert set(READERS) < set(FIELDS)


def test_defaults() -> None:
    """Without a word a tool is undeclared, and a declared read is repeatable."""
    policy = tool_policy("t")
    assert (policy.effect, policy.repeatable, policy.approval, policy.limits) == (
        Effect.UNDECLARED, None, "never", Limits(),
    )  # fmt: skip
    assert tool_policy("t", effect="read").repeatable is True
    assert tool_policy("t", effect="read", repeatable=False).repeatable is False
    assert tool_policy("t", effect="write").repeatable is None


def target_of(arguments: Mapping[str, object]) -> object:
    """Return a target for the test of functions."""
    return arguments.get("desk")


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("desk", (("desk", "desk"),)),
        (["a", "b"], (("a", "a"), ("b", "b"))),
        ({"canon": "arg"}, (("canon", "arg"),)),
        (target_of, target_of),
        (None, None),
    ],
)
def test_targets(given: object, target: object) -> None:
    """A target is a name, names, a mapping canonical name → argument, or a function."""
    assert tool_policy("t", target=given).target == target


def test_convenient_forms() -> None:
    """Names, tables and values of every field give the same frozen policy."""
    policy = tool_policy(
        "place_order",
        effect="write",
        repeatable=False,
        operation="orders",
        ignore="memo",
        quota="broker",
        constraints={"desk_status": "target", "daily": Scope.QUOTA},
        inspect={
            "tool": "find_order",
            "arguments": {"ref": "reference"},
            "applied_if": {"field": "id", "equals": "ref"},
        },
        idempotency_key={"argument": "key", "valid_for": 3600},
        required=["desk"],
        alternatives="paper_order",
        preconditions=[{"tool": "read_desk", "args": {}}, "login"],
        text_rules={"prefix": "Error:", "recovery": "repair_input"},
        status_rules=[{"status": 409, "code": 7, "outcome": "already_satisfied"}],
        exception_rules=[{"exception": "a.B", "recovery": "stop_and_report"}],
        safe_fields=["code"],
        atomic=False,
        trust="remote",
        mode="observe",
        limits={"max_wait": "25h", "max_retries": 0},
    )
    assert policy.ignore == ("memo",)
    assert policy.constraints == {"desk_status": Scope.TARGET, "daily": Scope.QUOTA}
    assert policy.inspect == Inspection(
        tool="find_order", arguments={"ref": "reference"}, applied_if={"field": "id", "equals": "ref"}
    )
    assert policy.idempotency_key == IdempotencyKey(argument="key", valid_for=timedelta(hours=1))
    assert policy.preconditions == ("read_desk", "login")
    assert (policy.text_rules[0].prefix, policy.text_rules[0].recovery) == ("Error:", Recovery.REPAIR_INPUT)
    assert (policy.status_rules[0].code, policy.status_rules[0].outcome) == ("7", Outcome.ALREADY_SATISFIED)
    assert policy.exception_rules[0].recovery is Recovery.DO_NOT_RETRY
    assert policy.safe_fields == {"code": "text"}
    assert (policy.trust, policy.mode) == (Trust.REMOTE, Mode.OBSERVE)
    assert (policy.limits.max_wait, policy.limits.max_retries) == (timedelta(hours=25), 0)
    assert tool_policy("t", inspect="find").inspect == Inspection(tool="find")
    assert tool_policy("t", inspect={"tool": "find", "arguments": ["ref"]}).inspect == Inspection(
        tool="find", arguments={"ref": "ref"}
    )
    assert tool_policy("t", idempotency_key="key").idempotency_key == IdempotencyKey(argument="key")
    poll = tool_policy("t", poll={"status_field": "state", "pending": "running", "min_interval": 2}).poll
    assert poll == Poll(status_field="state", pending=("running",), min_interval=timedelta(seconds=2))
    empty = tool_policy("t", effect="read", empty_means="unknown", empty_retry={"delay": 3, "looks": 2})
    assert empty.empty_retry == EmptyRetry(delay=timedelta(seconds=3), looks=2)


def test_values_that_are_ready_pass_as_they_are() -> None:
    """A frozen value of the policy's own types is taken over, with its rules checked."""
    built = tool_policy("t", effect="write", inspect="find", text_rules=[{"equals": "x", "outcome": "empty"}])
    again = tool_policy(
        "t", effect=built.effect, inspect=built.inspect, text_rules=built.text_rules, limits=built.limits
    )
    assert again == built


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"efect": "read"}, "field 'efect' is not known; nearest is 'effect'"),
        ({"zzz": 1}, "field 'zzz' is not known"),
        ({"effect": "sometimes"}, "'effect' must be one of read, write, undeclared"),
        ({"repeatable": "yes"}, "'repeatable' must be true or false"),
        ({"atomic": None}, "'atomic' must be true or false"),
        ({"operation": 5}, "'operation' must be a printable name"),
        ({"operation": "a\nb"}, "'operation' must be a printable name"),
        ({"ignore": ["a", "a"]}, "'ignore' names something twice"),
        ({"ignore": 5}, "'ignore' must be a name or a list of names"),
        ({"target": []}, "'target' must name at least one argument"),
        ({"constraints": ["a"]}, "'constraints' must map"),
        ({"constraints": {"a": "galaxy"}}, "must be one of action"),
        ({"approval": "sometimes"}, "'approval' must be 'never', 'always', a function, or a list of rules"),
        ({"approval": []}, "'approval' must be"),
        ({"inspect": {"tol": "x"}}, "nearest is 'tool'"),
        ({"inspect": {"arguments": {}}}, "'inspect' must be a printable name"),
        ({"inspect": {"tool": "x", "applied_if": "always"}}, "'applied_if' must be"),
        ({"inspect": {"tool": "x", "applied_if": {"field": "a"}}}, "'applied_if' must hold"),
        ({"inspect": {"tool": "x", "applied_if": {"field": "a", "at_or_after": "end"}}}, "'applied_if' must hold"),
        ({"poll": {"status_field": "s", "pending": []}}, "'pending' must name at least one"),
        ({"poll": "state"}, "'poll' must be a table"),
        ({"empty_means": "nothing"}, "must be one of none, unknown"),
        ({"empty_means": "unknown", "empty_retry": {"looks": 99}}, "'looks' must be"),
        ({"error_text": "raw"}, "must be one of hidden, shown"),
        ({"text_rules": [{"prefix": "a", "equals": "b", "recovery": "repair_input"}]}, "exactly one of"),
        ({"text_rules": [{"prefix": "", "recovery": "repair_input"}]}, "exactly one of"),
        ({"text_rules": [{"pointer": "a", "value": 1, "recovery": "repair_input"}]}, "exactly one of"),
        ({"text_rules": [{"prefix": 5, "recovery": "repair_input"}]}, "must be strings"),
        ({"text_rules": [{"prefix": "a"}]}, "must say 'recovery' or 'outcome'"),
        ({"text_rules": [{"prefix": "a", "recovery": "never"}]}, "words of the contract"),
        ({"text_rules": [{"prefix": "a", "outcome": "empty", "code": "no code"}]}, "UPPER_SNAKE"),
        ({"text_rules": "Error"}, "must be a list of rules"),
        ({"status_rules": [{"status": "409", "recovery": "repair_input"}]}, "'status' must be a number"),
        ({"exception_rules": [{"exception": "ValueError", "recovery": "repair_input"}]}, "full name"),
        ({"safe_fields": {"a": "blob"}}, "must be text, number, boolean"),
        ({"trust": "some"}, "must be one of owned, remote"),
        ({"limits": 5}, "'limits' must be limits"),
        ({"limits": {"max_wiat": 5}}, "nearest is 'max_wait'"),
        ({"definition": float("nan")}, "must be JSON"),
        ({"idempotency_key": {"argument": "k", "valid_for": -1}}, "between 0 and"),
        ({"effect": "read", "inspect": "x"}, "'inspect' is for writes"),
        ({"effect": "read", "idempotency_key": "x"}, "'idempotency_key' is for writes"),
        ({"effect": "read", "atomic": False}, "'atomic' is for writes"),
        ({"effect": "write", "poll": {"status_field": "s", "pending": "x"}}, "'poll' is a look"),
        ({"effect": "write", "empty_means": "unknown"}, "'empty_means' is for reads"),
        ({"repeatable": False, "poll": {"status_field": "s", "pending": "x"}}, "'poll' needs looks"),
        ({"empty_retry": {"looks": 1}}, "needs empty_means"),
        ({"inspect": "t"}, "'inspect' must name another tool"),
        ({"alternatives": "t"}, "'alternatives' must name other tools"),
        ({"preconditions": "t"}, "'preconditions' must name other tools"),
        ({"target": "a", "ignore": "a"}, "'ignore' names an argument of 'target'"),
        ({"required": "a", "ignore": "a"}, "'ignore' names a required argument"),
        ({"trust": "remote", "approval_hosts": "a.example"}, "'approval_hosts' is for owned tools"),
        ({"trust": "remote", "error_text": "shown"}, "is for owned tools"),
    ],
    ids=str,
)
def test_wrong_declarations(fields: dict[str, Any], message: str) -> None:
    """Every wrong or contradictory declaration is an error that names tool, field and rule."""
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        tool_policy("t", **fields)
    assert "'t'" in str(raised.value)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\x00b", 5, None], ids=repr)
def test_names(name: Any) -> None:
    """A tool's name is printable and bounded."""
    with pytest.raises(ConfigError):
        tool_policy(name)


@pytest.mark.parametrize(
    ("value", "duration"),
    [(5, 5.0), (0.25, 0.25), (timedelta(minutes=1), 60.0), ("1h30m", 5400.0), ("250ms", 0.25), (0, 0.0)],
    ids=str,
)
def test_durations(value: object, duration: float) -> None:
    """A duration is seconds, a timedelta, or a text with units."""
    assert limits(settle=value).settle.total_seconds() == duration


@pytest.mark.parametrize(
    "fields",
    [{"settle": -1}, {"settle": "soon"}, {"settle": True}, {"settle": float("nan")}, {"settle": float("inf")},
     {"settle": 10**12}, {"settle": None}, {"max_wait": 1, "default_wait": 2}, {"max_parked": -1}, {"max_parked": 1.5},
     {"max_parked": True}, {"max_parked": None}, {"max_retries": 3}, {"on_unknown_reset": "hope"},
     {"on_checker_down": "allow"}, {"max_calls": 1}],
    ids=str,
)  # fmt: skip
def test_wrong_limits(fields: dict[str, Any]) -> None:
    """A limit that is not a bounded number, or would not bound anything, is an error."""
    with pytest.raises(ConfigError):
        limits(**fields)


def test_limits_without_an_end_are_named() -> None:
    """Only limits whose default depends on the tool may be left open."""
    assert limits(max_retries=None, timeout=None) == Limits()
    assert limits(timeout=3).timeout == timedelta(seconds=3)


def test_digests() -> None:
    """The digest follows every field and the tool's definition, and nothing else."""
    one = tool_policy("t", effect="write", target="desk", definition={"v": 1})
    assert one.digest == tool_policy("t", target=["desk"], effect=Effect.WRITE, definition={"v": 1}).digest
    others = [
        tool_policy("t", effect="write", target="desk", definition={"v": 2}),
        tool_policy("t", effect="write", target="desk"),
        tool_policy("u", effect="write", target="desk", definition={"v": 1}),
        tool_policy("t", effect="write", target="other", definition={"v": 1}),
        tool_policy("t", effect="write", target=target_of, definition={"v": 1}),
        tool_policy("t", effect="write", target="desk", definition={"v": 1}, limits={"settle": 11}),
        tool_policy("t", effect="write", target="desk", definition={"v": 1}, approval=[{"rule": "r"}]),
    ]
    digests = {one.digest, *(other.digest for other in others)}
    assert len(digests) == 1 + len(others)
    assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)


def test_input_schemas_pin_field_names() -> None:
    """The property names of the input schema, at any depth, may be shown; given names win."""
    schema = {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"properties": {"sku": {}}}}, "memo": {}},
    }
    assert tool_policy("t", input_schema=schema).input_fields == ("lines", "memo", "sku")
    assert tool_policy("t", input_schema=schema, input_fields="memo").input_fields == ("memo",)


# ---- approval --------------------------------------------------------------------------------------------------------


def test_approval_functions() -> None:
    """A function may return a verdict, a gate, its word, or a word and a rule; anything else is no yes."""

    def large(arguments: Mapping[str, object]) -> object:
        return arguments["said"]

    gate = tool_policy("t", approval=large).approval
    assert callable(gate)
    assert gate({"said": "allow"}) == RuleVerdict()
    assert gate({"said": Gate.ASK}) == RuleVerdict(gate=Gate.ASK, rule="large")
    assert gate({"said": ("deny", "size")}) == RuleVerdict(gate=Gate.DENY, rule="size")
    for verdict in (allow(), ask("r"), deny("r")):
        assert gate({"said": verdict}) is verdict
    for wrong in (True, None, "yes", ("ask", ""), ("ask",), 1):
        with pytest.raises(ConfigError):
            gate({"said": wrong})


RULES = [
    {"rule": "tiny", "when": {"amount": {"below": 1}}, "then": "allow"},
    {"rule": "foreign", "when": {"/to/country": {"not_in": ["DE", "FR"]}}, "then": "deny"},
    {"rule": "large", "when": {"amount": {"above": 100}, "currency": {"in": ["EUR"]}}, "then": "ask"},
    {"rule": "forced", "when": {"force": {"equals": True}}},
    {"rule": "dry", "when": {"dry_run": {"present": False}}, "then": "ask"},
]
HOME = {"to": {"country": "DE"}, "force": False, "dry_run": True}


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({"amount": 0.5, "to": {"country": "XX"}}, ("allow", "tiny")),
        ({**HOME, "amount": 50, "currency": "EUR"}, ("allow", "")),
        ({**HOME, "amount": 500, "currency": "EUR"}, ("ask", "large")),
        ({**HOME, "amount": 500, "currency": "USD"}, ("allow", "")),
        ({**HOME, "amount": 5, "currency": "EUR", "to": {"country": "XX"}}, ("deny", "foreign")),
        ({**HOME, "amount": 5, "currency": "EUR", "force": True}, ("ask", "forced")),
        ({"to": {"country": "DE"}, "amount": 5, "currency": "EUR", "force": False}, ("ask", "dry")),
        # What cannot be compared never opens a way and always closes one.
        ({**HOME, "amount": "0.5", "currency": "EUR"}, ("ask", "large")),
        ({**HOME, "currency": "EUR"}, ("ask", "large")),
        ({**HOME, "amount": True, "currency": "EUR"}, ("ask", "large")),
        ({**HOME, "amount": float("nan"), "currency": "EUR"}, ("ask", "large")),
        ({**HOME, "amount": 5, "currency": "EUR", "to": {}}, ("deny", "foreign")),
        ({**HOME, "amount": 5, "currency": "EUR", "to": {"country": ["DE"]}}, ("deny", "foreign")),
        ({**HOME, "amount": 500, "currency": ["EUR"]}, ("ask", "large")),
        ({**HOME, "amount": 5, "currency": "EUR", "force": 1}, ("allow", "")),
    ],
)
def test_declarative_rules(arguments: dict[str, Any], verdict: tuple[str, str]) -> None:
    """The first matching rule decides; unclear input is never the way around one."""
    gate = tool_policy("t", approval=RULES).approval
    assert callable(gate)
    said = gate(arguments)
    assert (said.gate.value, said.rule) == verdict


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([5], "must be a table"),
        ([{"when": {}}], "must have a name"),
        ([{"rule": "r", "than": "ask"}], "must be 'rule', 'when' or 'then'"),
        ([{"rule": "r", "then": "maybe"}], "must be allow, ask or deny"),
        ([{"rule": "r", "when": []}], "'when' must be a table"),
        ([{"rule": "r", "when": {"a": 5}}], "must be compared, such as"),
        ([{"rule": "r", "when": {"a": {}}}], "must be compared, such as"),
        ([{"rule": "r", "when": {"a": {"over": 5}}}], "knows above"),
        ([{"rule": "r", "when": {"a": {"above": "5"}}}], "must be a number"),
        ([{"rule": "r", "when": {"a": {"in": "EUR"}}}], "must be a list"),
        ([{"rule": "r", "when": {"a": {"in": []}}}], "must be a list"),
        ([{"rule": "r", "when": {"a": {"equals": []}}}], "must be a scalar"),
        ([{"rule": "r", "when": {"a": {"present": 1}}}], "true or false"),
    ],
)
def test_wrong_rules(rules: object, message: str) -> None:
    """A rule that cannot be evaluated is an error at build, never at a call."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        tool_policy("t", approval=rules)


# ---- files -----------------------------------------------------------------------------------------------------------

TOML = """
version = 1
[limits]
max_wait = "15m"
[tools.find_order]
effect = "read"
[tools.place_order]
effect = "write"
repeatable = false
target = "desk"
inspect = "find_order"
limits = { max_retries = 0 }
approval = [{ rule = "large", when = { amount = { above = 100 } }, then = "ask" }]
"""


def test_toml_gives_the_same_policies(tmp_path: Path) -> None:
    """A file, its text and Python give the same frozen values; shared limits are each tool's base."""
    read = policies_from_toml(TOML)
    path = tmp_path / "policy.toml"
    path.write_text(TOML)
    assert policies_from_toml(path) == read
    assert read["place_order"] == tool_policy(
        "place_order", effect="write", repeatable=False, target="desk", inspect="find_order",
        limits={"max_wait": 900, "max_retries": 0},
        approval=[{"rule": "large", "when": {"amount": {"above": 100}}, "then": "ask"}],
    )  # fmt: skip
    assert read["find_order"].limits.max_wait == timedelta(minutes=15)


@pytest.mark.parametrize(
    "text",
    ["nonsense", "version = 2", "tool = {}", "tools = 5", "limits = 5", "[tools]\na = 5", "[tools.a]\nefect = 'read'",
     "[tools.a]\ntarget = 5", "[tools.a]\napproval = 'os.system'"],
)  # fmt: skip
def test_wrong_files(text: str) -> None:
    """A wrong file is an error, whatever is wrong with it."""
    with pytest.raises(ConfigError):
        policies_from_toml(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one that is not UTF-8 are errors of the configuration."""
    with pytest.raises(ConfigError):
        policies_from_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError):
        policies_from_toml(tmp_path / "bad.toml")


def test_toml_never_names_python() -> None:
    """A dotted name in a file is a name; nothing is imported or called."""
    policy = policies_from_toml('[tools.a]\nquota = "os:system"\ntarget = "os.system"\n')["a"]
    assert policy.quota == "os:system"
    assert policy.target == (("os.system", "os.system"),)
    assert policies_from_mapping({}) == {}


# ---- hints of MCP servers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "hints", "trusted", "effect", "repeatable"),
    [
        ({}, {}, False, Effect.UNDECLARED, None),
        ({}, {"readOnlyHint": True, "idempotentHint": True}, False, Effect.UNDECLARED, None),
        ({}, {"readOnlyHint": True}, True, Effect.READ, True),
        ({}, {"destructiveHint": True}, False, Effect.WRITE, None),
        ({}, {"destructiveHint": False, "idempotentHint": True}, False, Effect.UNDECLARED, None),
        ({"effect": "write"}, {"readOnlyHint": True}, True, Effect.WRITE, None),
        ({"effect": "write"}, {"idempotentHint": True}, True, Effect.WRITE, True),
        ({"effect": "write", "repeatable": True}, {"idempotentHint": False}, False, Effect.WRITE, None),
        ({"effect": "write", "repeatable": False}, {"idempotentHint": True}, True, Effect.WRITE, False),
        ({"effect": "read"}, {"readOnlyHint": False}, False, Effect.UNDECLARED, None),
        ({"effect": "read"}, {"readOnlyHint": True}, False, Effect.READ, True),
        ({"effect": "read"}, {"readOnlyHint": "false"}, False, Effect.READ, True),
    ],
)
def test_hints_tighten(
    declared: dict[str, Any], hints: dict[str, Any], effect: Effect, repeatable: bool | None, *, trusted: bool
) -> None:
    """A server's hint makes a policy stricter; only an operator's trust lets it loosen what nobody declared."""
    policy = tool_policy("t", **declared)
    tightened = from_mcp_annotations(hints, policy=policy, trusted=trusted)
    assert (tightened.effect, tightened.repeatable) == (effect, repeatable)
    assert (tightened.digest == policy.digest) is (tightened == policy)
