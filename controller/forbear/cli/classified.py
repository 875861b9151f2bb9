"""`forbear classify`: what one result of a tool means, and why. What results mean is the contract's; this prints it."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from forbear.cli.terminal import say
from forbear.errors import ConfigError


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("classify")(classify)


class DeclaredEffect(StrEnum):
    """What may be declared about a tool's effect."""

    READ = "read"
    WRITE = "write"


def classify(
    tool: Annotated[str, typer.Option(help="The tool's name in the policy file.")],
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, readable=True, help="The result; none = stdin.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="A policy file in TOML.")
    ] = None,
    effect: Annotated[DeclaredEffect | None, typer.Option(help="Without a policy: what is declared.")] = None,
    profile: Annotated[str | None, typer.Option(help="The vendor whose conventions apply.")] = None,
    arguments: Annotated[
        str | None, typer.Option(help="The call's arguments as a JSON object: rejected fields are named from them.")
    ] = None,
    now: Annotated[str | None, typer.Option(help="The instant of receipt (RFC 3339); none = now.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what one result means: its class, what decided, when it would be tried again, what the model would see.

    The result is JSON: a `kind` (http, exception, mcp, grpc, process or value) and what came back, for example
    {"kind": "http", "status": 429, "headers": {"Retry-After": "30"}} or {"kind": "exception", "class": "httpx.ReadTimeout"}.
    Each kind's members: docs/reference/command-line.md.
    """
    from forbear.contract import builtin_catalogue, load_profile, policies_from_toml, tool_policy
    from forbear.contract.explain import explain, members_of
    from forbear.contract.time import iso_instant
    from forbear.runtime.clock import SystemClock
    from forbear.testing.signals import signal_from

    raw, named = signal_from(sys.stdin.read() if file is None else file.read_text("utf-8"))
    at = SystemClock().now() if now is None else iso_instant(now)
    if at is None:
        raise ConfigError("--now must be an RFC 3339 time with its zone, such as 2026-12-01T08:00:00Z")
    if policy is not None and effect is not None:
        raise ConfigError("--effect is for a tool without --policy")
    declared = {} if policy is None else policies_from_toml(policy)
    if policy is not None and tool not in declared:
        raise ConfigError(f"policy file {policy.name!r}: tool {tool!r} is not declared in it")
    vendor = profile or named
    said = explain(
        raw,
        policy=declared.get(tool) or tool_policy(tool, **({} if effect is None else {"effect": effect.value})),
        arguments=_object(arguments),
        now=at,
        catalogue=builtin_catalogue(),
        profile=None if vendor is None else (vendor, load_profile(vendor)),
    )
    members = members_of(said)
    if as_json:
        typer.echo(json.dumps(members))
        return
    for name, value in members.items():
        say((f"{name:<11}", "dim"), ("-" if value is None else value, ""))


def _object(text: str | None) -> dict[str, object]:
    """Return the arguments that an option names."""
    try:
        value: object = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError("--arguments must be a JSON object")
    return cast("dict[str, object]", value)
