"""Vendor profiles: the conventions of one service as data. Rules are matched here; what vendors do is in the TOML files.

A profile may name codes, statuses, header fields and message tests. A rule that names its statuses is taken as the
vendor's word; one that does not can only make the neutral reading stricter. Users load their own files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from forbear.contract import findings as f
from forbear.contract import time as t
from forbear.contract.body import UNREADABLE, first, is_mapping, point, text_of, xml_codes
from forbear.contract.case import Case
from forbear.contract.catalogue import is_code
from forbear.contract.findings import found, stricter, timed
from forbear.contract.hints import Ends, Fields, base_of
from forbear.contract.http import neutral
from forbear.contract.limits import misspelt
from forbear.contract.profile_times import Times, read_times
from forbear.contract.raw import ABSENT, Http
from forbear.contract.rules import code_texts, fields_in
from forbear.contract.words import outcome_of, recovery_of
from forbear.core.values import Envelope
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import ConfigError

_FOLDER: Final = Path(__file__).parent / "profiles"
_MAX_MESSAGE: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One convention: all matchers that are set must hold; the first rule that matches decides."""

    status: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    # A header field that must be there, and how its value must begin.
    header: str = ""
    prefix: str = ""
    # Lower-case words that a message must hold (free text is only ever read for these).
    text: tuple[str, ...] = ()
    # Pointers of which one must find something that is not empty; `least`: a number at least this large.
    when: tuple[str, ...] = ()
    least: int | None = None
    read: Recovery | None = None
    write: Recovery | None = None
    outcome: Outcome | None = None
    code: str = ""
    # Seconds that the vendor documents where the answer names no time.
    wait: int | None = None
    # Times in the answer belong to something else.
    no_time: bool = False

    def matches(
        self, status: int, codes: frozenset[str], messages: tuple[str, ...], fields: Fields, body: object
    ) -> bool:
        """Tell whether an answer is of this kind."""
        if self.status and status not in self.status:
            return False
        if self.codes and not self.codes & codes:
            return False
        if self.header:
            values = [value.strip().lower() for value in fields.all(self.header)]
            if not any(value.startswith(self.prefix) for value in values):
                return False
        if self.text and not any(words in message for words in self.text for message in messages):
            return False
        return not self.when or any(self._is_there(value) for pointer in self.when for value in point(body, pointer))

    def _is_there(self, value: object) -> bool:
        if self.least is not None:
            return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= self.least
        return value not in (None, "", [], {}, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The conventions of one vendor or dialect."""

    name: str
    rules: tuple[Rule, ...] = ()
    # Where codes and messages are found, and in which header fields.
    codes_at: tuple[str, ...] = ()
    code_headers: tuple[str, ...] = ()
    messages_at: tuple[str, ...] = ()
    # What stands around a code: the part after and the part before these characters counts.
    code_after: str = ""
    code_before: str = ""
    xml_codes: bool = False
    # A 2xx answer must be JSON; anything else is no answer.
    json: bool = False
    # A 2xx answer is an error where this pointer finds this value ("non_empty" = anything).
    error_at: str = ""
    error_is: object = None
    # Statuses at which a code that no rule names proves nothing.
    unknown_codes_at: frozenset[int] = frozenset()
    # A header field whose value "false" forbids a second execution.
    veto: str = ""
    times: Times = field(default_factory=Times)

    def judge(self, http: Http, case: Case, fields: Fields, neutral_ends: Ends, body: object) -> Envelope:
        """Return what an answer means by this vendor's conventions, and by the neutral rules where they are silent."""
        ends = self.times.ends(fields, base_of(fields, case.now), neutral_ends, body)
        status = http.status
        done = 200 <= status <= 299
        is_error = not done or self._flags_error(body)
        codes = self._codes(http, fields, body)
        said: Envelope | None = None
        if is_error or self.error_at == "":
            said = self._ruled(http, case, fields, ends, body, codes)
        if said is None and done:
            said = self._unexplained(http, case, body, is_error=is_error)
        if said is None and codes and status in self.unknown_codes_at:
            said = f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
        if said is None:
            said = neutral(http, case, fields, ends, body)
        return self._vetoed(said, case, fields)

    def _flags_error(self, body: object) -> bool:
        if not self.error_at:
            return False
        value = first(body, self.error_at)
        if self.error_is == "non_empty":
            return value is not ABSENT and value not in (None, "", [], {})
        return type(value) is type(self.error_is) and value == self.error_is

    def _codes(self, http: Http, fields: Fields, body: object) -> frozenset[str]:
        texts = list(code_texts(value for pointer in self.codes_at for value in point(body, pointer)))
        texts.extend(value for name in self.code_headers for value in fields.all(name))
        if self.xml_codes and body is UNREADABLE:
            texts.extend(xml_codes(text_of(http.body)))
        return frozenset(self._bare(text) for text in texts)

    def _bare(self, text: str) -> str:
        if self.code_after:
            text = text.rpartition(self.code_after)[2]
        if self.code_before:
            text = text.partition(self.code_before)[0]
        return text.strip()

    def _ruled(
        self, http: Http, case: Case, fields: Fields, ends: Ends, body: object, codes: frozenset[str]
    ) -> Envelope | None:
        messages = tuple(
            value[:_MAX_MESSAGE].lower()
            for pointer in self.messages_at
            for value in point(body, pointer)
            if isinstance(value, str)
        )
        # Inside a success only a rule that names the status, or an answer that flags itself, is more than data.
        only_named = 200 <= http.status <= 299 and not self._flags_error(body)
        for rule in self.rules:
            if only_named and not rule.status:
                continue
            if not rule.matches(http.status, codes, messages, fields, body):
                continue
            recovery = rule.write if case.writes else rule.read
            if recovery is None:
                if rule.outcome is not None:
                    return _completed(rule.outcome)
                continue
            envelope = _envelope(rule, recovery, case, body)
            hint = None if rule.no_time else ends.hint()
            if hint is None and rule.wait is not None:
                hint = t.Base(case.now).after(rule.wait * 1000)
            # Costs that no refill can pay are the input's fault.
            if recovery is Recovery.RETRY_AFTER and self.times.never_enough(body):
                envelope, hint = found(Recovery.REPAIR_INPUT), None
            envelope = timed(envelope, hint)
            return envelope if rule.status else stricter(envelope, neutral(http, case, fields, ends, body))
        return None

    def _unexplained(self, http: Http, case: Case, body: object, *, is_error: bool) -> Envelope | None:
        """Judge a 2xx answer that is an error by its body, or no answer at all."""
        if is_error:
            return f.unknown(case.effect, code="" if case.writes else "UPSTREAM_REFUSED")
        if self.json and http.status not in (204, 205) and body is UNREADABLE:
            return f.no_answer(case.effect, may_repeat=case.may_repeat)
        return None

    def _vetoed(self, envelope: Envelope, case: Case, fields: Fields) -> Envelope:
        if not self.veto or envelope.recovery is not Recovery.RETRY_AFTER:
            return envelope
        if (fields.first(self.veto) or "").lower() != "false":
            return envelope
        if case.writes and envelope.executed is not Executed.NO:
            return found(Recovery.INSPECT_OUTCOME)
        return replace(
            envelope, recovery=Recovery.DO_NOT_RETRY, code="UPSTREAM_REFUSED", reset_at=None, temporary=False
        )


def _completed(outcome: Outcome) -> Envelope:
    if outcome is Outcome.EMPTY:
        return f.EMPTY
    if outcome is Outcome.ALREADY_SATISFIED:
        return f.ALREADY
    return f.PARTIAL if outcome is Outcome.PARTIAL else f.SUCCESS


def _envelope(rule: Rule, recovery: Recovery, case: Case, body: object) -> Envelope:
    named = fields_in(case, body) if recovery is Recovery.REPAIR_INPUT else ()
    if recovery is Recovery.RETRY_AFTER and rule.code == "TEMPORARY_FAILURE":
        executed = Executed.NO if case.writes else Executed.UNKNOWN
        return found(recovery, rule.code, executed=executed, outcome=Outcome.FAILED, temporary=True)
    code = rule.code if recovery is not Recovery.INSPECT_OUTCOME or rule.code in _LOOKING else "OUTCOME_UNKNOWN"
    return found(recovery, code, outcome=rule.outcome, fields=named)


_LOOKING: Final = frozenset({"CONFLICT", "PARTIAL_SUCCESS", "STILL_RUNNING"})
_RULE_KEYS: Final = (
    "status", "codes", "header", "prefix", "text", "when", "least", "read", "write", "recovery", "outcome", "code",
    "wait", "no_time",
)  # fmt: skip
_KEYS: Final = (
    "name", "about", "extends", "rules", "codes_at", "code_headers", "messages_at", "code_after", "code_before",
    "xml_codes", "json", "error_at", "error_is", "unknown_codes_at", "veto", "times",
)  # fmt: skip


def _strings(profile: str, key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[object]", value)):
        raise ConfigError(f"profile {profile!r}: {key!r} must be a string or a list of strings")
    return tuple(cast("list[str]", value))


def _statuses(profile: str, key: str, value: object) -> frozenset[int]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(one, int) and 100 <= one <= 599 for one in listed):
        raise ConfigError(f"profile {profile!r}: {key!r} must hold statuses of 100 to 599")
    return frozenset(cast("list[int]", listed))


def _class(profile: str, table: Mapping[str, object], key: str) -> Recovery | None:
    word = table.get(key, table.get("recovery"))
    recovery = recovery_of(word)
    if word is not None and recovery is None:
        raise ConfigError(f"profile {profile!r}: {key!r} must be one of {', '.join(Recovery)}")
    return recovery


def _rule(profile: str, value: object) -> Rule:
    if not is_mapping(value):
        raise ConfigError(f"profile {profile!r}: a rule must be a table")
    table = value
    for key in table:
        if key not in _RULE_KEYS:
            raise misspelt(f"profile {profile!r}: rule key", key, _RULE_KEYS)
    code = table.get("code", "")
    if not isinstance(code, str) or (code and not is_code(code)):
        raise ConfigError(f"profile {profile!r}: 'code' must be UPPER_SNAKE")
    outcome = outcome_of(table.get("outcome"))
    read, write = _class(profile, table, "read"), _class(profile, table, "write")
    if read is None and write is None and outcome is None:
        raise ConfigError(f"profile {profile!r}: a rule must say 'recovery', 'read', 'write' or 'outcome'")
    wait, least = table.get("wait"), table.get("least")
    if not all(one is None or (isinstance(one, int) and one >= 0) for one in (wait, least)):
        raise ConfigError(f"profile {profile!r}: 'wait' and 'least' must be whole numbers")
    built = Rule(
        status=_statuses(profile, "status", table["status"]) if "status" in table else frozenset(),
        codes=frozenset(_strings(profile, "codes", table.get("codes", []))),
        header=str(table.get("header", "")).lower(),
        prefix=str(table.get("prefix", "")).lower(),
        text=tuple(words.lower() for words in _strings(profile, "text", table.get("text", []))),
        when=_strings(profile, "when", table.get("when", [])),
        least=cast("int | None", least),
        read=read,
        write=write,
        outcome=outcome,
        code=code,
        wait=cast("int | None", wait),
        no_time=table.get("no_time") is True,
    )
    if not (built.status or built.codes or built.header or built.text or built.when):
        raise ConfigError(f"profile {profile!r}: a rule must have something to match")
    return built


def read_profile(text: str, *, name: str) -> Profile:
    """Return the profile that a TOML text describes.

    Raises:
        ConfigError: it is not TOML, or a key has a wrong name or value.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"profile {name!r} must be TOML") from error
    for key in document:
        if key not in _KEYS:
            raise misspelt(f"profile {name!r}: key", key, _KEYS)
    extends = document.get("extends")
    base = load_profile(extends) if isinstance(extends, str) else Profile(name=name)
    rules = document.get("rules", [])
    if not isinstance(rules, list):
        raise ConfigError(f"profile {name!r}: 'rules' must be a list of tables")
    own: dict[str, Any] = {}
    for key in ("codes_at", "code_headers", "messages_at"):
        if key in document:
            own[key] = _strings(name, key, document[key])
    for key in ("code_after", "code_before", "error_at", "veto"):
        if key in document:
            own[key] = str(document[key])
    for key in ("xml_codes", "json"):
        if key in document:
            own[key] = document[key] is True
    if "error_is" in document:
        own["error_is"] = document["error_is"]
    if "unknown_codes_at" in document:
        own["unknown_codes_at"] = _statuses(name, "unknown_codes_at", document["unknown_codes_at"])
    if "times" in document:
        own["times"] = read_times(name, document["times"])
    return replace(
        base,
        name=name,
        rules=(*(_rule(name, rule) for rule in cast("list[object]", rules)), *base.rules),
        **own,
    )


def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that ship with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def _builtin(name: str) -> Profile:
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    return read_profile(text, name=name)


def load_profile(source: Path | str) -> Profile:
    """Return a profile of the package by name, or one of your own by path.

    Raises:
        ConfigError: there is no such profile, or its file is wrong.
    """
    if isinstance(source, Path):
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"profile {source.stem!r} cannot be read as UTF-8") from error
        return read_profile(text, name=source.stem)
    if source not in profile_names():
        raise misspelt("profile", source, profile_names())
    return _builtin(source)
