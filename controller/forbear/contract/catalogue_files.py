"""Check, render and compare catalogue files (`forbear catalog check|render|diff`). Nothing here is used at a call."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, cast

from forbear.contract.catalogue import (
    CATEGORIES,
    PLACEHOLDERS,
    Entry,
    builtin_catalogue,
    placeholders,
    read_entries,
    read_entry,
)
from forbear.contract.lint import lint_text
from forbear.core.vocabulary import COMPLETED
from forbear.errors import ConfigError

_STATUSES: Final = ("active", "deprecated", "removed")
_OWNERS: Final = ("any", "controller")
# Codes that leave the interpretation to the caller.
_BARE: Final = frozenset("ERROR FAILED FAILURE EXCEPTION UNKNOWN UNKNOWN_ERROR GENERIC_ERROR BAD OTHER".split())
# Words of an implementation, not of a domain.
_INTERNAL: Final = frozenset("EXCEPTION STACKTRACE TRACEBACK SQL NULL NPE SEGFAULT ERRNO".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a catalogue file that breaks a rule. `code` is empty where the file itself is meant."""

    code: str
    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a code between two versions of a catalogue."""

    code: str
    # added, removed, or the name of the key that changed.
    kind: str
    # A client that branches on the old meaning does something wrong now.
    breaking: bool
    message: str


def check(path: Path | str) -> list[Finding]:
    """Return what is wrong with a catalogue file; empty = nothing. Raises only what opening the file raises."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return [Finding(code="", rule="form", message="the file is not TOML")]
    codes = document.get("codes")
    if not isinstance(codes, dict) or not codes:
        return [Finding(code="", rule="form", message="the file has no table 'codes'")]
    findings = [
        Finding(code="", rule="form", message=f"{key!r} is not a key of a catalogue")
        for key in document
        if key not in ("version", "codes")
    ]
    entries: dict[str, Entry] = {}
    for code, values in cast("dict[str, object]", codes).items():
        try:
            entries[code] = read_entry(code, values)
        except ConfigError as error:
            findings.append(Finding(code=code[:64], rule="form", message=str(error)))
    builtin = builtin_catalogue().entries
    known = {**builtin, **entries}
    texts: dict[str, str] = {}
    for entry in entries.values():
        findings.extend(_findings(entry, known))
        if entry.code in builtin and entry != builtin[entry.code]:
            findings.append(Finding(code=entry.code, rule="reuse", message="a built-in code keeps its meaning"))
        if entry.owner == "controller" and entry.code not in builtin:
            findings.append(Finding(code=entry.code, rule="owner", message="'controller' is for built-in codes"))
        if entry.text in texts:
            findings.append(Finding(code=entry.code, rule="text", message=f"has the text of {texts[entry.text]!r}"))
        texts[entry.text] = entry.code
    return findings


def _findings(entry: Entry, known: Mapping[str, Entry]) -> list[Finding]:
    said: list[tuple[str, str]] = []
    segments = entry.code.split("_")
    if entry.code in _BARE:
        said.append(("name", "says nothing about the condition"))
    if any(segment.isdigit() for segment in segments):
        said.append(("name", "holds a volatile detail (a number)"))
    if _INTERNAL & set(segments):
        said.append(("name", "names an implementation, not a condition of the domain"))
    for template in (entry.text, *entry.details):
        said.extend(("text", finding) for finding in lint_text(template))
        unknown = placeholders(template) - PLACEHOLDERS
        if unknown:
            said.append(("text", f"{min(unknown)!r} is not a placeholder"))
    if placeholders(entry.text):
        said.append(("text", "a placeholder belongs into 'details', which are left out where its value is not known"))
    if not entry.behaviour:
        said.append(("behaviour", "does not say what the caller is expected to do"))
    if entry.recovery is None and entry.outcome not in COMPLETED:
        said.append(("recovery", "a refusal needs a default recovery"))
    for key, value, words in (
        ("status", entry.status, _STATUSES),
        ("owner", entry.owner, _OWNERS),
        ("category", entry.category, CATEGORIES),
    ):
        if value not in words:
            said.append((key, f"must be one of {', '.join(words)}"))
    said.extend(_life_cycle(entry, known))
    return [Finding(code=entry.code, rule=rule, message=message) for rule, message in said]


def _life_cycle(entry: Entry, known: Mapping[str, Entry]) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    if entry.status == "deprecated" and (entry.replacement is None or entry.removal_date is None):
        said.append(("life cycle", "a deprecated code needs 'replacement' and 'removal_date'"))
    if entry.status == "active" and (entry.replacement is not None or entry.removal_date is not None):
        said.append(("life cycle", "an active code has no 'replacement' and no 'removal_date'"))
    if entry.replacement is not None:
        other = known.get(entry.replacement)
        if other is None or other.status == "removed" or other.code == entry.code:
            said.append(("life cycle", "'replacement' must be another code that is in use"))
    if entry.removal_date is not None:
        try:
            date.fromisoformat(entry.removal_date)
        except ValueError:
            said.append(("life cycle", "'removal_date' must be a date such as 2027-01-31"))
    return said


def _entries(path: Path | str | None) -> Mapping[str, Entry]:
    if path is None:
        return builtin_catalogue().entries
    return read_entries(Path(path).read_text(encoding="utf-8"))


def render(path: Path | str | None = None) -> str:
    """Return a catalogue (None = the built-in one) as Markdown, by category.

    Raises:
        ConfigError: the file is wrong; `check` says everything that is.
    """
    entries = _entries(path)
    lines = ["# Codes", "", "Meanings never change; a code that is no longer wanted is deprecated and replaced.", ""]
    for category in (*CATEGORIES, *sorted({entry.category for entry in entries.values()} - set(CATEGORIES))):
        listed = [entry for entry in entries.values() if entry.category == category]
        if not listed:
            continue
        lines += [f"## {category.capitalize()}", "", "| code | recovery | outcome | said by | expected behaviour | life cycle |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for entry in sorted(listed, key=lambda one: one.code):
            cells = (
                f"`{entry.code}`",
                f"`{entry.recovery.value}`" if entry.recovery is not None else "",
                f"`{entry.outcome.value}`" if entry.outcome is not None else "",
                "controller" if entry.owner == "controller" else "anyone",
                entry.behaviour,
                _cycle(entry),
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cycle(entry: Entry) -> str:
    if entry.status == "active":
        return "active"
    words = [entry.status]
    if entry.removal_date is not None:
        words.append(f"until {entry.removal_date}")
    if entry.replacement is not None:
        words.append(f"use `{entry.replacement}`")
    return ", ".join(words)


# key -> what a change of it does to a client that branches on the code.
_BREAKING: Final = {
    "recovery": "clients plan by the class",
    "outcome": "clients tell results apart by the outcome",
    "owner": "who may say a code is part of its meaning",
    "category": "the condition is another one: deprecate this code and add a new one",
}
_HARMLESS: Final = ("text", "details", "behaviour", "status", "replacement", "removal_date")


def diff(old: Path | str | None, new: Path | str) -> list[Change]:
    """Return how two catalogues differ (None = the built-in one), and which differences break clients.

    Raises:
        ConfigError: a file is wrong.
    """
    before, after = _entries(old), _entries(new)
    changes: list[Change] = []
    for code in sorted({*before, *after}):
        one, other = before.get(code), after.get(code)
        if one is None:
            changes.append(Change(code=code, kind="added", breaking=False, message="new code"))
        elif other is None or (other.status == "removed" and one.status != "removed"):
            announced = one.status in ("deprecated", "removed")
            message = "removed as announced" if announced else "removed without having been deprecated"
            changes.append(Change(code=code, kind="removed", breaking=not announced, message=message))
        else:
            changes.extend(
                Change(code=code, kind=key, breaking=True, message=why)
                for key, why in _BREAKING.items()
                if getattr(one, key) != getattr(other, key)
            )
            changes.extend(
                Change(code=code, kind=key, breaking=False, message="the meaning stays")
                for key in _HARMLESS
                if getattr(one, key) != getattr(other, key)
            )
    return changes
