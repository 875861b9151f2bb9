"""JSON Schemas (2020-12) of the envelope, a catalogue and a policy file, made from the tables that read them.

The committed copies are under `docs/reference/schema/`; a test fails when they drift.
"""

from __future__ import annotations

import json
from dataclasses import fields as fields_of
from datetime import timedelta
from typing import Final, cast

from forbear.contract.catalogue import CATEGORIES, CODE, MAX_CODE
from forbear.contract.envelope import ERROR_FIELDS
from forbear.contract.error_fields import MAX_NAMES
from forbear.core.policy import Limits
from forbear.core.vocabulary import Effect, Executed, Mode, Outcome, Recovery, Scope, Trust

Schema = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_CODE: Final[Schema] = {"type": "string", "pattern": f"^{CODE.pattern}$", "maxLength": MAX_CODE}
_STRING: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 512}
_INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
_NAMES: Final[Schema] = {"type": "array", "items": _STRING, "maxItems": MAX_NAMES}
_WORDS: Final = [*(word.value for word in Recovery), "retry_after_delay", "stop_and_report"]
_RECOVERY: Final[Schema] = {"enum": _WORDS}
_OUTCOME: Final[Schema] = {"enum": [word.value for word in Outcome]}
_EXECUTED: Final[Schema] = {"enum": [word.value for word in Executed]}
_FIELD_NAMES: Final[Schema] = {
    "anyOf": [
        {
            "type": "array",
            "maxItems": MAX_NAMES,
            "items": {
                "anyOf": [
                    _STRING,
                    {
                        "type": "object",
                        "properties": {"name": _STRING, "field": _STRING, "pointer": _STRING, "rule": _STRING},
                        "minProperties": 1,
                    },
                ]
            },
        },
        {"type": "object", "additionalProperties": {"type": "string"}},
    ]
}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_ERROR: Final[dict[str, Schema]] = {
    "code": _CODE,
    "constraint": _STRING,
    "recovery": _RECOVERY,
    "limit": {"type": "number"},
    "remaining": {"type": "number"},
    "reset_at": _INSTANT,
    "retry_after_seconds": {"type": "number", "minimum": 0},
    "invalid_fields": _FIELD_NAMES,
    "precondition": {
        "type": "object",
        "properties": {"tool": _STRING, "args": {"type": "object"}},
        "required": ["tool"],
    },
    "alternative_tools": _NAMES,
    "required_permission": _STRING,
    "approval_url": _STRING,
    "http_status": {"type": "integer", "minimum": 100, "maximum": 599},
    "operation": _STRING,
    "safe_message": _STRING,
    "effects_before_failure": {"type": "boolean"},
}
_ALIASES: Final = {"retry_at": "reset_at", "field_errors": "invalid_fields", "message": "safe_message",
                   "action": "recovery"}  # fmt: skip


def _error_properties() -> dict[str, Schema]:
    assert _ERROR.keys() == ERROR_FIELDS, "the schema knows every field of the contract"
    named = {name: _or_null(schema) for name, schema in _ERROR.items()}
    return {**named, **{alias: named[name] for alias, name in _ALIASES.items()}}


def envelope_schema() -> Schema:
    """Return the schema of an envelope in its three dialects, as strict reading accepts it."""
    common: dict[str, Schema] = {
        "ok": {"type": "boolean"},
        "outcome": _OUTCOME,
        "executed": _EXECUTED,
        "request_id": _STRING,
    }
    error = _error_properties()
    completed: dict[str, Schema] = {**common, "data": {}, "meta": {"type": "object"}, "error": {"type": "null"}}
    return {
        "$schema": DIALECT,
        "$id": "urn:forbear:schema:envelope",
        "title": "forbear envelope, version 1",
        "oneOf": [
            {"$ref": "#/$defs/completed"},
            {"$ref": "#/$defs/nested"},
            {"$ref": "#/$defs/flat"},
            {"$ref": "#/$defs/problem"},
        ],
        "$defs": {
            "completed": {
                "type": "object",
                "properties": {**completed, "ok": {"const": True}},
                "required": ["ok"],
                "additionalProperties": False,
            },
            "nested": {
                "type": "object",
                "properties": {
                    **common,
                    "ok": {"const": False},
                    "data": {},
                    "meta": {"type": "object"},
                    "error": {
                        "type": "object",
                        "properties": error,
                        "required": ["code"],
                        "additionalProperties": False,
                    },
                },
                "required": ["ok", "error"],
                "additionalProperties": False,
            },
            "flat": {
                "type": "object",
                "properties": {
                    **common,
                    "ok": {"const": False},
                    "retryable": {"type": "boolean"},
                    "data": {},
                    "meta": {"type": "object"},
                    **error,
                },
                "required": ["code"],
                "not": {"anyOf": [{"required": ["type"]}, {"required": ["title"]}, {"required": ["error"]}]},
                "additionalProperties": False,
            },
            "problem": {
                "type": "object",
                "properties": {
                    **common,
                    "ok": {"const": False},
                    "type": {"type": "string"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                    "instance": {"type": "string"},
                    "retryable": {"type": "boolean"},
                    **error,
                },
                "anyOf": [{"required": ["type"]}, {"required": ["title"]}],
                "additionalProperties": False,
            },
        },
    }


def catalogue_schema() -> Schema:
    """Return the schema of a catalogue file, as the JSON that its TOML stands for."""
    text: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
    return {
        "$schema": DIALECT,
        "$id": "urn:forbear:schema:catalogue",
        "title": "forbear catalogue, version 1",
        "type": "object",
        "properties": {
            "version": {"const": 1},
            "codes": {
                "type": "object",
                "propertyNames": _CODE,
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "text": text,
                        "details": {"type": "array", "items": text},
                        "owner": {"enum": ["any", "controller"]},
                        "category": {"enum": list(CATEGORIES)},
                        "status": {"enum": ["active", "deprecated", "removed"]},
                        "recovery": {"enum": [word.value for word in Recovery]},
                        "outcome": _OUTCOME,
                        "behaviour": {"type": "string"},
                        "replacement": _CODE,
                        "removal_date": {"type": "string", "format": "date"},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["codes"],
        "additionalProperties": False,
    }


_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
_LISTED: Final[Schema] = {"anyOf": [_NAME, {"type": "array", "items": _NAME, "uniqueItems": True}]}
_DURATION: Final[Schema] = {
    "description": "seconds, or a text such as 1h30m",
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "^([0-9.]+(h|m|s|ms|us|ns))+$"}],
}
_MEANING: Final[dict[str, Schema]] = {"recovery": _RECOVERY, "outcome": _OUTCOME}


def _table(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_COMPARISONS: Final[Schema] = {
    "type": "object",
    "properties": {
        "above": {"type": "number"},
        "below": {"type": "number"},
        "in": {"type": "array", "minItems": 1},
        "not_in": {"type": "array", "minItems": 1},
        "equals": {"type": ["string", "number", "boolean", "null"]},
        "present": {"type": "boolean"},
    },
    "minProperties": 1,
    "additionalProperties": False,
}
_POLICY: Final[dict[str, Schema]] = {
    "effect": {"enum": [word.value for word in Effect]},
    "repeatable": {"type": "boolean"},
    "operation": {"type": "string", "maxLength": 128},
    "target": {"anyOf": [*cast("list[Schema]", _LISTED["anyOf"]), {"type": "object", "additionalProperties": _NAME}]},
    "ignore": _LISTED,
    "quota": _NAME,
    "constraints": {"type": "object", "additionalProperties": {"enum": [word.value for word in Scope]}},
    "approval": {
        "anyOf": [
            {"enum": ["never", "always"]},
            _many(
                _table(
                    {
                        "rule": {"type": "string", "minLength": 1, "maxLength": 64},
                        "when": {"type": "object", "additionalProperties": _COMPARISONS},
                        "then": {"enum": ["allow", "ask", "deny"]},
                    },
                    ["rule"],
                )
            ),
        ]
    },
    "inspect": {
        "anyOf": [
            _NAME,
            _table(
                {
                    "tool": _NAME,
                    "arguments": {"anyOf": [{"type": "object", "additionalProperties": _NAME}, _LISTED]},
                    "applied_if": {
                        "anyOf": [
                            {"const": "non_empty"},
                            _table({"field": _NAME, "equals": _NAME}, ["field", "equals"]),
                            _table({"field": _NAME, "at_or_after": {"const": "start"}}, ["field", "at_or_after"]),
                        ]
                    },
                },
                ["tool"],
            ),
        ]
    },
    "idempotency_key": {"anyOf": [_NAME, _table({"argument": _NAME, "valid_for": _DURATION}, ["argument"])]},
    "poll": _table({"status_field": _NAME, "pending": _LISTED, "min_interval": _DURATION}, ["status_field", "pending"]),
    "empty_means": {"enum": ["none", "unknown"]},
    "empty_retry": _table({"delay": _DURATION, "looks": {"type": "integer", "minimum": 0, "maximum": 10}}, []),
    "required": _LISTED,
    "alternatives": _LISTED,
    "preconditions": {
        "anyOf": [
            _NAME,
            _many({"anyOf": [_NAME, _table({"tool": _NAME, "args": {"type": "object"}}, ["tool"])]}),
        ]
    },
    "permissions": _LISTED,
    "approval_hosts": _LISTED,
    "error_text": {"enum": ["hidden", "shown"]},
    "text_rules": _many(
        _table(
            {
                "prefix": {"type": "string", "minLength": 1},
                "equals": {"type": "string"},
                "pointer": {"type": "string", "pattern": "^/"},
                "value": {"type": ["string", "number", "boolean", "null"]},
                "code": _CODE,
                "fields": _LISTED,
                **_MEANING,
            },
            [],
        )
    ),
    "status_rules": _many(
        _table(
            {
                "status": {"type": "integer", "minimum": 100, "maximum": 599},
                "code": {"type": ["string", "integer"]},
                "as_code": _CODE,
                "only_if_equal": _LISTED,
                **_MEANING,
            },
            ["status"],
        )
    ),
    "exception_rules": _many(
        _table({"exception": {"type": "string", "pattern": "\\."}, "code": _CODE, **_MEANING}, ["exception"])
    ),
    "safe_fields": {
        "anyOf": [
            _LISTED,
            {
                "type": "object",
                "additionalProperties": {"anyOf": [{"enum": ["text", "number", "boolean"]}, _many(_NAME)]},
            },
        ]
    },
    "shared_codes": _LISTED,
    "speaks_contract": {"type": "boolean"},
    "atomic": {"type": "boolean"},
    "trust": {"enum": [word.value for word in Trust]},
    "secret": _LISTED,
    "mode": {"enum": [word.value for word in Mode]},
    "input_fields": _LISTED,
    "input_schema": {"type": "object"},
    "definition": {},
}


def _limit(default: object, name: str) -> Schema:
    if isinstance(default, timedelta) or name == "timeout":
        return _DURATION
    if name == "on_unknown_reset":
        return {"enum": ["wait", "stop"]}
    if name == "on_checker_down":
        return {"enum": ["block", "ask"]}
    return {"type": "integer", "minimum": 0}


def policy_schema() -> Schema:
    """Return the schema of a policy file, as the JSON that its TOML stands for."""
    limits: Schema = {
        "type": "object",
        "properties": {one.name: _limit(one.default, one.name) for one in fields_of(Limits)},
        "additionalProperties": False,
    }
    tool = _table({**_POLICY, "limits": {"$ref": "#/$defs/limits"}}, [])
    return {
        "$schema": DIALECT,
        "$id": "urn:forbear:schema:policy",
        "title": "forbear policy file, version 1",
        "type": "object",
        "properties": {
            "version": {"const": 1},
            "limits": {"$ref": "#/$defs/limits"},
            "tools": {"type": "object", "propertyNames": _NAME, "additionalProperties": {"$ref": "#/$defs/tool"}},
        },
        "additionalProperties": False,
        "$defs": {"limits": limits, "tool": tool},
    }


def schemas() -> dict[str, Schema]:
    """Return every exported schema by its file name."""
    return {
        "catalogue.schema.json": catalogue_schema(),
        "envelope.schema.json": envelope_schema(),
        "policy.schema.json": policy_schema(),
    }


def schema_text(schema: Schema) -> str:
    """Return a schema as it is committed."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
