"""Judge exceptions by class, cause chain and phase evidence; never by text. What a class proves is a table.

"Certainly not sent" is a short allow-list, and holds only for one attempt without a followed redirect.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, cast

from forbear.contract import findings as f
from forbear.contract.body import parsed
from forbear.contract.case import Case
from forbear.contract.findings import found
from forbear.contract.http import classify_http
from forbear.contract.profiles import load_profile
from forbear.contract.raw import Http, RaisedFacts
from forbear.contract.rules import answered_error, by_exception, by_status
from forbear.contract.words import recovery_of
from forbear.core.values import Envelope
from forbear.core.vocabulary import Effect, Executed, Outcome, Recovery

_HERE: Final = Path(__file__).parent
_STOP: Final = Recovery.DO_NOT_RETRY
_WAIT: Final = Recovery.RETRY_AFTER
_REPAIR: Final = Recovery.REPAIR_INPUT
_LOOK: Final = Recovery.INSPECT_OUTCOME

_BEFORE: Final = frozenset({"build", "before_send"})
_CONNECTING: Final = frozenset({"pool", "connect", "before_send"})
_CLAIMABLE: Final = frozenset({"build", "pool", "connect", "before_send", "unknown"})
_AFTER: Final = frozenset({"write", "read", "response", "response_body", "execute", "after_send"})
# Connection refused, reset, unreachable, timed out, broken pipe, not connected (Linux and BSD numbers).
_NETWORK_ERRNO: Final = frozenset({32, 50, 51, 52, 53, 54, 57, 60, 61, 64, 65, 100, 101, 103, 104, 107, 110, 111, 113})

# Client packages of one vendor only: their exceptions name the profile.
_VENDORS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "botocore": "aws",
    "stripe": "stripe",
    "slack_sdk": "slack",
    "github": "github",
    "githubkit": "github",
    "notion_client": "notion",
    "twilio": "twilio",
}

# Packages whose own exceptions tell how one statement ended. An exception of anybody else that carries or wraps a
# SQLSTATE says nothing about the statements before it.
_DATABASES: Final = frozenset(
    {"psycopg", "psycopg2", "psycopg_pool", "asyncpg", "pg8000", "aiopg", "sqlalchemy", "django", "peewee", "tortoise"}
)

# Causes that are looked at; more of them prove nothing.
_MAX_CHAIN: Final = 16

Row = tuple[Recovery, Recovery, str]


@dataclass(frozen=True, slots=True)
class Classes:
    """The table of what classes prove."""

    kinds: dict[str, frozenset[str]]
    answered: dict[str, Row]
    sqlstates: dict[str, Row]
    sqlstate_classes: dict[str, str]
    # Bare class names, for records that do not name the module.
    bare: dict[str, tuple[str, ...]]

    def known(self, name: str) -> bool:
        """Tell whether the table says anything about a class."""
        return name in self.answered or any(name in members for members in self.kinds.values())


def _rows(table: object) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name, (read, write, code) in cast("dict[str, tuple[str, str, str]]", table).items():
        for_read, for_write = recovery_of(read), recovery_of(write)
        assert for_read is not None, name
        assert for_write is not None, name
        rows[name] = (for_read, for_write, code)
    return rows


@cache
def classes() -> Classes:
    """Return the table that ships with the package."""
    text = (_HERE / "exception_classes.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    kinds = {
        name: frozenset(cast("list[str]", members)) for name, members in document.items() if isinstance(members, list)
    }
    answered = _rows(document["answered"])
    bare: dict[str, list[str]] = {}
    for name in (*(one for members in kinds.values() for one in sorted(members)), *answered):
        package, _, short = name.partition(".")
        listed = bare.setdefault(short, [])
        # The standard library and httpx's family come first where several packages share a name.
        listed.insert(0, name) if package in ("httpx", "builtins", "asyncio", "socket", "ssl") else listed.append(name)
    return Classes(
        kinds,
        answered,
        _rows(document["sqlstate"]),
        cast("dict[str, str]", document["sqlstate_classes"]),
        {short: tuple(names) for short, names in bare.items()},
    )


def _resolve(names: tuple[str, ...], table: Classes) -> str:
    """Return the nearest base that the table knows, else the class itself."""
    for name in names:
        package, _, short = name.partition(".")
        if not package and short in table.bare:
            return table.bare[short][0]
        if table.known(name):
            return name
    return names[0] if names else ""


def classify_exception(facts: RaisedFacts, case: Case) -> Envelope:
    """Return what a raised exception means."""
    ruled = by_exception(case, facts.exact)
    if ruled is not None:
        return ruled
    table = classes()
    path = [_resolve(names, table) for names in (facts.names, *facts.chain[:_MAX_CHAIN])]
    own = path[0]

    def is_a(kind: str, name: str = own) -> bool:
        return name in table.kinds[kind]

    if facts.control_flow or is_a("control_flow"):
        return found(Recovery.REQUEST_APPROVAL, outcome=Outcome.PENDING, executed=Executed.UNKNOWN)
    if is_a("cancelled"):
        if case.writes:
            return found(_LOOK)
        return found(_STOP, "CANCELLED", outcome=Outcome.CANCELLED, executed=Executed.UNKNOWN)
    if is_a("group"):
        transport = path[1:] and all(_is_transport(name, table) for name in path[1:])
        return f.no_answer(case.effect) if transport else f.unknown(case.effect)
    if is_a("repair_signal") and not (case.writes and not facts.unsent and _is_behind(path, table)):
        # "Failed" that was made of a broken connection says nothing about what the other side did.
        return answered_error(case)
    early = _before_sending(facts, case, path, table)
    if early is not None:
        return early
    if facts.status is not None:
        return _status(facts, case)
    said = _server(facts, case, path, table)
    if said is not None:
        return said
    return _transport(facts, case, path, table)


def _is_transport(name: str, table: Classes) -> bool:
    kinds = table.kinds
    return any(name in kinds[kind] for kind in ("not_sent", "not_sent_at_connect", "wrapper", "no_answer"))


def _is_behind(path: list[str], table: Classes) -> bool:
    """Tell whether a broken connection or a missing answer is among the causes."""
    return any(_is_transport(name, table) and name not in table.kinds["neutral_cause"] for name in path[1:])


def _may_claim(facts: RaisedFacts) -> bool:
    """Tell whether "not sent" may be claimed: one attempt, no followed redirect, or our own marker."""
    if facts.phase not in _CLAIMABLE:
        return False
    client = facts.client
    if client is None:
        return facts.phase == "before_send"
    return client.single_attempt is True and client.follow_redirects is False


def _was_contradicted(facts: RaisedFacts) -> bool:
    """Tell whether something says that an earlier attempt or hop may have been carried out."""
    client = facts.client
    repeated = client is not None and (client.single_attempt is False or client.follow_redirects is True)
    return repeated or facts.phase in _AFTER


def _before_sending(facts: RaisedFacts, case: Case, path: list[str], table: Classes) -> Envelope | None:
    """Judge what fails before anything is sent: validation, building, certificates."""
    own = path[0]
    kinds = table.kinds
    if own in kinds["validation"] and facts.phase in ("build", "before_send", "in_tool"):
        return found(_REPAIR, "INPUT_INVALID")
    certified = [index for index, name in enumerate(path) if name in kinds["certificate"]]
    if certified and all(_is_transport(name, table) or name in kinds["certificate"] for name in path[: certified[0]]):
        if _was_contradicted(facts):
            return f.no_answer(case.effect) if case.writes else found(_STOP, "IDENTITY_UNVERIFIED")
        return found(_STOP, "IDENTITY_UNVERIFIED")
    if own in kinds["redirects"]:
        return f.unknown(case.effect)
    code = "AUTH_FAILED" if own in kinds["credentials"] else "TOOL_MISCONFIGURED"
    if own in kinds["credentials"] or own in kinds["misconfigured"]:
        if facts.phase in _BEFORE or _may_claim(facts) or not case.writes:
            return found(_STOP, code, outcome=Outcome.FAILED)
        return f.unknown(case.effect)
    if facts.phase == "build" or (facts.phase == "before_send" and not _is_transport(own, table)):
        return found(_STOP, code, outcome=Outcome.FAILED)
    return None


def _status(facts: RaisedFacts, case: Case) -> Envelope:
    """Judge an exception that carries an HTTP status."""
    if case.writes and facts.client is not None and _was_contradicted(replace(facts, phase="unknown")):
        return found(_LOOK)
    assert facts.status is not None
    vendor = _VENDORS.get(facts.names[0].partition(".")[0]) if facts.names else None
    if case.profile is None and vendor is not None:
        case = replace(case, profile=load_profile(vendor))
    envelope = classify_http(Http(status=facts.status, headers=facts.headers, body=facts.body), case)
    if envelope.recovery is None and facts.status < 400 and by_status(case, facts.status, parsed(facts.body)) is None:
        # Answered, and the client could not use the answer: whatever the status says, no result reached anybody.
        return f.no_answer(case.effect, may_repeat=case.may_repeat)
    return envelope


def _row(row: Row, case: Case) -> Envelope:
    recovery, code = row[1] if case.writes else row[0], row[2]
    if recovery is _LOOK:
        return found(_LOOK, code)
    if recovery is _WAIT:
        return found(_WAIT, code, outcome=Outcome.FAILED, temporary=True)
    return found(recovery, code)


def _server(facts: RaisedFacts, case: Case, path: list[str], table: Classes) -> Envelope | None:
    """Judge the answers of databases and the like: SQLSTATE (own, or by a cause's class), else the class."""
    if facts.connection_invalidated:
        return f.no_answer(case.effect, may_repeat=case.may_repeat)
    state = facts.sqlstate
    if state is None:
        for names in (facts.names, *facts.chain[:_MAX_CHAIN]):
            package, _, short = names[0].partition(".") if names else ("", "", "")
            if package in ("psycopg", "psycopg2", "asyncpg") and state is None:
                state = table.sqlstate_classes.get(short)
    if state is not None and case.writes and not is_of_database(facts):
        return None
    if state is not None:
        row = table.sqlstates.get(state) or table.sqlstates.get(state[:2])
        return _row(row, case) if row is not None else f.unknown(case.effect)
    own = path[0]
    if own in table.answered:
        return _row(table.answered[own], case)
    return None


def is_of_database(facts: RaisedFacts) -> bool:
    """Tell whether an exception is a database client's own; a record without a module is taken at its word."""
    return not facts.names or any(name.partition(".")[0] in ("", *_DATABASES) for name in facts.names)


def _transport(facts: RaisedFacts, case: Case, path: list[str], table: Classes) -> Envelope:
    """Judge broken connections and timeouts, and what remains."""
    own = path[0]
    network = own in ("builtins.OSError", "OSError") and facts.errno in _NETWORK_ERRNO
    is_transport = _is_transport(own, table) and (network or own != "builtins.OSError" or facts.phase in _CONNECTING)
    own_code = facts.phase == "in_tool" and (
        not is_transport or (own.endswith("JSONDecodeError") and case.effect is not Effect.WRITE)
    )
    if case.effect is Effect.WRITE and not case.may_repeat and own == "builtins.OSError":
        # A missing file may be the second thing that a declared write did.
        own_code = False
    # A read may have sent what it likes: its own mistake stays one that other input repairs.
    own_code = own_code or (facts.own_code and not case.writes and not is_transport)
    behind = _is_behind(path, table)
    if own_code and not behind:
        return answered_error(case)
    outcome = Outcome.TIMEOUT if "Timeout" in own or own.endswith("TimeoutError") else Outcome.UNKNOWN
    if not is_transport:
        if behind:
            return f.no_answer(case.effect) if not case.writes else f.unknown(case.effect)
        if case.writes and case.may_repeat:
            # Twice does no harm: nobody has to find out whether it happened (decision 43).
            return found(_REPAIR, "TOOL_ERROR", outcome=Outcome.FAILED, executed=Executed.UNKNOWN)
        return f.unknown(case.effect)
    if (facts.unsent or _not_sent(facts, path, table)) and _may_claim(facts):
        return found(_WAIT, "NOT_SENT", outcome=Outcome.FAILED, temporary=True, not_accepted=True)
    return f.no_answer(case.effect, may_repeat=case.may_repeat, outcome=outcome)


def _not_sent(facts: RaisedFacts, path: list[str], table: Classes) -> bool:
    """Tell whether the classes prove that nothing reached the server application (if there was one attempt)."""
    kinds = table.kinds

    def proves(name: str) -> bool:
        early = facts.phase in _CONNECTING
        return name in kinds["not_sent"] or (early and name in kinds["not_sent_at_connect"])

    decisive = [index for index, name in enumerate(path) if name not in kinds["wrapper"]]
    if not decisive or not proves(path[decisive[0]]):
        return False
    return all(
        proves(name) or name in kinds["wrapper"] or name in kinds["neutral_cause"] or name not in kinds["no_answer"]
        for name in path[decisive[0] + 1 :]
    )
