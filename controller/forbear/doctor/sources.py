"""Find the tools of an object: functions, lists and controllers here, all else through the entry-point group of tool sources.

Nothing is called here but the sources themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from forbear.doctor.functions import of_function
from forbear.doctor.seen import Concern, Finding, Found, FoundTool, ToolSource, Weight
from forbear.errors import ConfigError
from forbear.runtime.controller import Controller
from forbear.store.sqlite import SqliteStore

__all__ = ["SOURCES", "found_on", "sources"]

SOURCES: Final = "forbear.tool_sources"
_MAX_DEPTH: Final = 4


def sources() -> tuple[list[ToolSource], list[str]]:
    """Return the installed sources, and the extras of those whose framework is not installed."""
    known: dict[str, EntryPoint] = {}
    for entry in entry_points(group=SOURCES):
        known.setdefault(entry.value, entry)
    loaded: list[ToolSource] = []
    missing: list[str] = []
    for entry in sorted(known.values(), key=lambda one: one.name):
        try:
            loaded.append(cast("ToolSource", entry.load()))
        except ModuleNotFoundError:
            missing += entry.extras
    return loaded, missing


def found_on(target: object, *, name: str, known: Sequence[ToolSource], missing: Sequence[str] = ()) -> Found:
    """Return the tools of an object.

    Args:
        target: A controller, a function, what a source knows, or a list or mapping of such.
        name: What it is called, for the error.
        known: The sources.
        missing: Extras that are not installed, named by the error.

    Raises:
        ConfigError: nobody knows such an object.
    """
    found = _walk(target, known, 0)
    if found is None:
        more = f"; more kinds are known with pip install 'forbear[{','.join(sorted(missing))}]'" if missing else ""
        raise ConfigError(
            f"target: {name!r} is no function, list of tools, controller, or tool, node or graph of an installed "
            f"framework{more}"
        )
    # A controller that is inside declares its tools, and says nothing about what this object has.
    names = {tool.name for tool in found.tools}
    for controller in dict.fromkeys(found.controllers):
        declares = of_controller(controller)
        own = tuple(one for one in declares.tools if one.name in names)
        found = together([found, replace(declares, tools=own, declared=tuple(one.name for one in declares.tools))])
    return _once(found)


def _walk(target: object, known: Sequence[ToolSource], depth: int) -> Found | None:
    if isinstance(target, Controller):
        return of_controller(target)
    if isinstance(target, Mapping):
        named = cast("Mapping[object, object]", target)
        target = [_named_function(key, value) or value for key, value in named.items()]
    if isinstance(target, Found):
        return target
    if isinstance(target, (list, tuple, set, frozenset)):
        parts = [_walk(one, known, depth + 1) for one in cast("Sequence[object]", target)] if depth < _MAX_DEPTH else []
        return None if not parts or None in parts else together([one for one in parts if one is not None])
    of_source = next((found for source in known if (found := source(target)) is not None), None)
    return of_function(target) if of_source is None else of_source


def _named_function(key: object, value: object) -> Found | None:
    """Return a function under the name that a mapping gives it, as `execute` takes it."""
    if not isinstance(key, str) or not key:
        return None
    found = of_function(value)
    return None if found is None else replace(found, tools=tuple(replace(tool, name=key) for tool in found.tools))


def together(parts: Sequence[Found]) -> Found:
    """Return several findings as one."""
    return Found(
        tools=tuple(tool for part in parts for tool in part.tools),
        findings=tuple(finding for part in parts for finding in part.findings),
        governed=any(part.governed for part in parts),
        controllers=tuple(one for part in parts for one in part.controllers),
        declared=tuple(dict.fromkeys(name for part in parts for name in part.declared)),
        store=next((part.store for part in parts if part.store), ""),
        modules=tuple(dict.fromkeys(name for part in parts for name in part.modules)),
    )


def of_controller(controller: Controller) -> Found:
    """Return what a controller declares, and what it runs by itself without a declaration."""
    box = controller.engine.tools
    tools = [
        FoundTool(
            name=policy.name,
            kind="declared tool",
            input_schema=_named(box.parameters(policy.name), policy.required),
            is_guessed=box.arguments(policy.name) is None,
            remote=policy.trust == "remote",
            governed=True,
            policy=policy,
        )
        for policy in box.policies()
    ]
    store = controller.store
    kept = "" if not isinstance(store, SqliteStore) else "memory" if store.is_in_memory else "file"
    return Found(tools=tuple(tools), governed=True, store=kept)


def _named(names: tuple[str, ...], required: tuple[str, ...]) -> Mapping[str, object]:
    """Return a schema that knows names only."""
    properties: dict[str, dict[str, object]] = {name: {} for name in names}
    return {"properties": properties, "required": list(required)}


def _once(found: Found) -> Found:
    """Keep the first tool of each name; a second, different one of the same name is a finding."""
    kept: dict[str, FoundTool] = {}
    findings = list(found.findings)
    for tool in found.tools:
        first = kept.setdefault(tool.name, tool)
        if first.policy is None and tool.policy is not None:
            kept[tool.name] = replace(first, policy=tool.policy, governed=True)
        elif first.policy is not None and tool.policy is None:
            kept[tool.name] = replace(tool, policy=first.policy, governed=True)
        elif first.input_schema != tool.input_schema:
            findings.append(
                Finding(
                    concern=Concern.TWO_DEFINITIONS,
                    weight=Weight.RISK,
                    where=tool.name,
                    message="two different tools have this name",
                )
            )
    return replace(found, tools=tuple(kept.values()), findings=tuple(dict.fromkeys(findings)))
