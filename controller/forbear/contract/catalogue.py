"""The catalogue of codes: what each means, its life cycle, its recovery, and the one text that a model may see for it.

The built-in entries are data (`catalogue.toml`); projects add their own in TOML. Checking, rendering and comparing of
catalogue files are in `catalogue_files.py`. Nothing here looks at a result.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, cast

from forbear.contract.findings import CODES
from forbear.contract.lint import MAX_TEXT, lint_text
from forbear.contract.words import outcome_of, recovery_of
from forbear.core.values import Envelope
from forbear.core.vocabulary import Outcome, Recovery
from forbear.errors import ConfigError

_HERE: Final = Path(__file__).parent
CODE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*", re.ASCII)
MAX_CODE: Final = 63
PLACEHOLDERS: Final = frozenset({"limit", "remaining", "reset_at", "fields"})
CATEGORIES: Final = (
    "auth", "access", "denial", "approval", "vault", "rate", "quota", "temporary", "not sent", "unknown", "input",
    "precondition", "not found", "conflict", "cancelled", "exhausted", "budget", "no progress", "duplicate", "checker",
    "controller", "upstream", "internal", "domain",
)  # fmt: skip
# A text that says this speaks of what the controller will do, which hangs on the class.
_PROMISE: Final = "controller"
_MAX_FIELDS: Final = 6
_FIELD: Final = re.compile(r"[A-Za-z0-9_.\[\]/$#-]{1,64}", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


def is_code(text: object) -> bool:
    """Tell whether a text has the form of a code: ``UPPER_SNAKE``, at most 63 characters (as in AIP-193)."""
    return isinstance(text, str) and len(text) <= MAX_CODE and CODE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One code."""

    code: str
    text: str
    # Sentences that are added where every value that they name is known.
    details: tuple[str, ...] = ()
    # "controller" or "any".
    owner: str = "any"
    category: str = "domain"
    # active, deprecated or removed.
    status: str = "active"
    # What the class is where the result does not say it; None = the code of a completed result.
    recovery: Recovery | None = None
    outcome: Outcome | None = None
    # What the caller is expected to do; for documents.
    behaviour: str = ""
    replacement: str | None = None
    # ISO date on which a deprecated code goes away.
    removal_date: str | None = None


def placeholders(template: str) -> frozenset[str]:
    """Return the names that a template takes."""
    return frozenset(_PLACEHOLDER.findall(template))


def _values(envelope: Envelope) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, number in (("limit", envelope.limit), ("remaining", envelope.remaining)):
        if number is not None:
            values[name] = str(number)[:24]
    if envelope.reset_at is not None:
        values["reset_at"] = instant_text(envelope.reset_at)
    names = [field.name for field in envelope.invalid_fields[:_MAX_FIELDS] if _FIELD.fullmatch(field.name)]
    if names:
        values["fields"] = ", ".join(names)
    return values


def instant_text(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC, with a fraction only where it has one."""
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The codes that a controller knows."""

    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])

    def get(self, code: str) -> Entry | None:
        """Return the entry of a code, or None."""
        return self.entries.get(code)

    def text(self, code: str, envelope: Envelope) -> str:
        """Return the text that a model sees for a code: never empty, lint clean whatever the envelope holds."""
        entry = self.entries.get(code)
        recovery = envelope.recovery
        if entry is not None and recovery not in (None, entry.recovery) and _PROMISE in entry.text.lower():
            # It says what the controller does for another class than this result has.
            entry = self.entries.get(CODES[recovery])
        if entry is None:
            entry = self.entries.get("UPSTREAM_REFUSED", _LAST_RESORT)
        text = entry.text
        values = _values(envelope) if entry.details else {}
        for detail in entry.details:
            if placeholders(detail) <= values.keys():
                longer = f"{text} {_PLACEHOLDER.sub(lambda match: values[match[1]], detail)}"
                if len(longer) <= MAX_TEXT and not lint_text(longer):
                    text = longer
        return text

    def recovery(self, code: str) -> Recovery | None:
        """Return the class that a code has where a result does not name one."""
        entry = self.entries.get(code)
        return entry.recovery if entry is not None else None

    def is_controllers(self, code: str) -> bool:
        """Tell whether only the controller may say this code."""
        entry = self.entries.get(code)
        return entry is not None and entry.owner == "controller"

    def with_entries(self, entries: Mapping[str, Entry]) -> Catalogue:
        """Return this catalogue with a project's codes.

        Raises:
            ConfigError: a code is already taken by a built-in entry.
        """
        for code in entries:
            if code in self.entries:
                raise ConfigError(f"catalogue code {code!r} is already taken: a code keeps its meaning")
        return Catalogue({**self.entries, **entries})


_LAST_RESORT: Final = Entry(code="UPSTREAM_REFUSED", text="The service refused this call.")
_KEYS: Final = frozenset(
    "text details owner category status recovery outcome behaviour replacement removal_date".split()
)


def _word(code: str, values: Mapping[str, object], key: str, default: str = "") -> str:
    value = values.get(key, default)
    if not isinstance(value, str):
        raise ConfigError(f"catalogue code {code!r}: {key!r} must be a string")
    return value


def read_entry(code: str, values: object) -> Entry:
    """Return one entry of a parsed catalogue file.

    Raises:
        ConfigError: a key is unknown or has a wrong type; the message names code, key and rule.
    """
    if not is_code(code):
        raise ConfigError(f"catalogue code {code!r} must be UPPER_SNAKE with at most {MAX_CODE} characters")
    if not isinstance(values, dict):
        raise ConfigError(f"catalogue code {code!r} must be a table")
    table = cast("dict[str, object]", values)
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"catalogue code {code!r}: {key!r} is not a key of a code")
    details = table.get("details", [])
    if not isinstance(details, list) or not all(isinstance(item, str) for item in cast("list[object]", details)):
        raise ConfigError(f"catalogue code {code!r}: 'details' must be a list of strings")
    recovery, outcome = _word(code, table, "recovery"), _word(code, table, "outcome")
    if recovery and recovery_of(recovery) is None:
        raise ConfigError(f"catalogue code {code!r}: 'recovery' must be one of {', '.join(Recovery)}")
    if outcome and outcome_of(outcome) is None:
        raise ConfigError(f"catalogue code {code!r}: 'outcome' must be one of {', '.join(Outcome)}")
    removal = table.get("removal_date")
    return Entry(
        code=code,
        text=_word(code, table, "text"),
        details=tuple(cast("list[str]", details)),
        owner=_word(code, table, "owner", "any"),
        category=_word(code, table, "category", "domain"),
        status=_word(code, table, "status", "active"),
        recovery=recovery_of(recovery),
        outcome=outcome_of(outcome),
        behaviour=_word(code, table, "behaviour"),
        replacement=_word(code, table, "replacement") or None,
        removal_date=str(removal) if removal is not None else None,
    )


def read_entries(text: str) -> dict[str, Entry]:
    """Return the entries of a catalogue in TOML.

    Raises:
        ConfigError: the text is not TOML, has no table 'codes' (it is a file of another kind), or an entry is wrong.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("a catalogue must be TOML") from error
    codes = document.get("codes")
    if not isinstance(codes, dict):
        raise ConfigError("a catalogue must hold a table 'codes'")
    return {code: read_entry(code, values) for code, values in cast("dict[str, object]", codes).items()}


@cache
def builtin_catalogue() -> Catalogue:
    """Return the built-in codes."""
    text = (_HERE / "catalogue.toml").read_text(encoding="utf-8")
    return Catalogue(read_entries(text))


def load_catalogue(*paths: Path | str) -> Catalogue:
    """Return the built-in codes and those of the project's files.

    Raises:
        ConfigError: a file is wrong, fails a check that would reach a model, or takes a code that is taken.
    """
    catalogue = builtin_catalogue()
    for path in paths:
        entries = read_entries(Path(path).read_text(encoding="utf-8"))
        for entry in entries.values():
            for template in (entry.text, *entry.details):
                if findings := lint_text(template):
                    raise ConfigError(f"catalogue code {entry.code!r}: text is {findings[0]}")
                if unknown := placeholders(template) - PLACEHOLDERS:
                    raise ConfigError(f"catalogue code {entry.code!r}: {min(unknown)!r} is not a placeholder")
        catalogue = catalogue.with_entries(entries)
    return catalogue
