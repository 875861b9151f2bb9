"""The exported JSON Schemas: committed, current, and in agreement with the readers."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # no stubs
import pytest

from forbear.contract import policies_from_mapping, read_envelope, write_envelope
from forbear.contract.declare import FIELDS
from forbear.contract.schema import envelope_schema, policy_schema, schema_text, schemas
from forbear.errors import ConfigError

COMMITTED = Path(__file__).parents[3] / "docs" / "reference" / "schema"


@pytest.mark.parametrize("name", sorted(schemas()))
def test_committed_schemas_are_current(name: str) -> None:
    """What is committed is what the code exports, and it is a valid schema."""
    schema = schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (COMMITTED / name).read_text(encoding="utf-8") == schema_text(schema)


def test_nothing_else_is_committed() -> None:
    """Every committed schema is exported."""
    assert {path.name for path in COMMITTED.iterdir()} == set(schemas())


def valid(schema: dict[str, Any], value: Any) -> bool:
    """Tell whether a value is valid."""
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    "value",
    [
        {"ok": False, "error": {"code": "X", "recovery": "retry_after", "reset_at": "2026-09-06T00:00:00Z"}},
        {"ok": False, "code": "AUTH_FAILED", "action": "stop_and_report", "retryable": False, "request_id": "act_1"},
        {"ok": True, "outcome": "empty", "data": {"items": []}, "meta": {"reason": "NO_MATCHES"}},
        {"ok": True},
        {"type": "urn:forbear:problem:X", "title": "X", "status": 409, "code": "X", "recovery": "do_not_retry"},
        {"ok": False, "error": {"code": "X", "invalid_fields": [{"name": "a", "rule": "min"}, "b"]}},
    ],
)
def test_envelopes_that_are_read_are_valid(value: dict[str, Any]) -> None:
    """What strict reading accepts is valid, and so is everything that we write for it."""
    schema = envelope_schema()
    assert valid(schema, value)
    envelope = read_envelope(value, strict=True)
    for dialect in ("nested", "flat") if envelope.recovery is None else ("nested", "flat", "problem"):
        assert valid(schema, json.loads(json.dumps(write_envelope(envelope, None, dialect))))


@pytest.mark.parametrize(
    "value",
    [
        {"ok": False, "error": {"code": "X", "headers": {}}},
        {"ok": False, "error": {"code": "not a code"}},
        {"ok": False, "error": {"code": "X", "recovery": "retry_forever"}},
        {"ok": False},
        {"ok": True, "trace": 1},
        {"request_id": "a", "event": "b", "result_code": "X"},
        [],
    ],
)
def test_what_is_rejected_is_invalid(value: object) -> None:
    """What strict reading rejects is not valid."""
    assert not valid(envelope_schema(), value)


def test_the_catalogue_is_valid() -> None:
    """The built-in catalogue is valid by its own schema."""
    text = files("forbear.contract").joinpath("catalogue.toml").read_text(encoding="utf-8")
    assert valid(schemas()["catalogue.schema.json"], tomllib.loads(text))


POLICY = {
    "version": 1,
    "limits": {"max_wait": "25h", "max_retries": 1, "on_unknown_reset": "stop"},
    "tools": {
        "find": {"effect": "read", "poll": {"status_field": "s", "pending": ["r"], "min_interval": 2}},
        "place": {
            "effect": "write", "repeatable": False, "target": {"desk": "desk_id"}, "inspect": {"tool": "find"},
            "approval": [{"rule": "large", "when": {"n": {"above": 5}}, "then": "ask"}],
            "text_rules": [{"prefix": "Error:", "recovery": "repair_input", "fields": ["n"]}],
            "status_rules": [{"status": 409, "code": "x", "outcome": "already_satisfied", "only_if_equal": ["n"]}],
            "safe_fields": {"code": ["a", "b"], "n": "number"},
        },
    },
}  # fmt: skip


def test_policy_files() -> None:
    """A file that is read is valid; the schema knows every field and rejects a misspelt one."""
    schema = policy_schema()
    assert valid(schema, POLICY)
    assert set(policies_from_mapping(POLICY)) == {"find", "place"}
    for wrong in ({"tools": {"a": {"efect": "read"}}}, {"limits": {"max_wiat": 1}}, {"tools": {"a": {"effect": "x"}}}):
        assert not valid(schema, wrong)
        with pytest.raises(ConfigError):
            policies_from_mapping(wrong)
    definitions: Any = schema["$defs"]
    properties = definitions["tool"]["properties"]
    assert set(properties) == set(FIELDS)
