"""The operator token of a store: made once, shown once, kept as a keyed digest that tells nobody the token.

What it opens is in `operator.py`. Nothing is decided about calls here, and no token is logged or stored.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final, cast

from forbear.errors import NotOperator, StoreError, UsageError
from forbear.ports import Ids, JournalLine, Row
from forbear.runtime.effects import Program, put_row, read_clock, read_scope
from forbear.store.codec import to_us

# A scope of its own: its version counts the changes of the token and the refusals, and nothing else.
SCOPE: Final = "operator"
TOKEN_MADE: Final = "operator.token_made"  # noqa: S105 - a rule's name
TOKEN_REPLACED: Final = "operator.token_replaced"  # noqa: S105 - a rule's name
REFUSED: Final = "operator.refused"
MAX_RACES: Final = 8

_KEY_BYTES: Final = 32


def new_token(ids: Ids) -> str:
    """Return a new token: ``fbo_`` and 64 hex characters (256 random bits)."""
    return f"fbo_{random_key(ids)}"


def random_key(ids: Ids) -> str:
    """Return 64 random hex characters (256 bits)."""
    return ids.request_id().removeprefix("act_") + ids.ticket().removeprefix("tkt_")


def has_token() -> Program[bool]:
    """Say whether the store has an operator token."""
    found = yield from read_scope(SCOPE)
    return _kept(found.rows) is not None


def set_token(token: str, key: str, *, old: str | None, replaces: bool) -> Program[None]:
    """Give the store a token, or another one in the place of the one that it has.

    Args:
        token: The new token.
        key: 64 random hex characters: the key of the digest that is stored.
        old: The token that the store has.
        replaces: The store has a token, and another one is wanted.

    Raises:
        UsageError: the store has a token and no other one is wanted, or it has none to replace; nothing was changed.
        NotOperator: `old` is not the token that the store has; nothing was changed but the journal.
    """
    for _ in range(MAX_RACES):
        found = yield from read_scope(SCOPE)
        kept = _kept(found.rows)
        if kept is None and replaces:
            raise UsageError("token: the store has none to replace")
        if kept is not None and not replaces:
            raise UsageError("token: the store has one already")
        if kept is not None and not _is_of(kept, old):
            yield from _refuse(old, actor="")
        now = yield from read_clock()
        body = json.dumps({"key": key, "digest": _digest(token, key)}).encode()
        rule = TOKEN_MADE if kept is None else TOKEN_REPLACED
        row = Row(scope=SCOPE, kind="token", key="token", body=body)
        if (yield from put_row(row, version=found.version, journal=(_line(now, rule, ""),))):
            return
    raise StoreError("the operator token lost its races against other writers")


def may_answer(token: str | None) -> Program[bool]:
    """Say whether this token opens the store: it is the store's, or the store has none."""
    found = yield from read_scope(SCOPE)
    kept = _kept(found.rows)
    return kept is None or _is_of(kept, token)


def check_token(token: str | None, *, actor: str) -> Program[None]:
    """Let nobody answer who does not have the store's token.

    Raises:
        NotOperator: the store has a token and this is another one, or none. The refusal was journalled.
    """
    if not (yield from may_answer(token)):
        yield from _refuse(token, actor=actor)


def _refuse(token: str | None, *, actor: str) -> Program[None]:
    """Journal that somebody without the token tried to answer, and refuse it."""
    for _ in range(MAX_RACES):
        found = yield from read_scope(SCOPE)
        counted = next((int(row.body) for row in found.rows if row.kind == "refusals"), 0)
        now = yield from read_clock()
        row = Row(scope=SCOPE, kind="refusals", key="refusals", body=str(counted + 1).encode())
        if (yield from put_row(row, version=found.version, journal=(_line(now, REFUSED, actor),))):
            break
    given = "another one" if token else "none"
    raise NotOperator(f"token: the store has an operator token, and {given} was given")


def _kept(rows: Sequence[Row]) -> tuple[str, str] | None:
    """Return key and digest of the token that the store has."""
    return next((_members(row) for row in rows if row.kind == "token"), None)


def _members(row: Row) -> tuple[str, str]:
    try:
        parsed: object = json.loads(row.body)
    except ValueError:
        raise StoreError("stored row of kind 'token' must be JSON") from None
    members = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    key, digest = members.get("key"), members.get("digest")
    if not isinstance(key, str) or not isinstance(digest, str):
        raise StoreError("stored row of kind 'token' must hold key and digest")
    return key, digest


def _is_of(kept: tuple[str, str], token: str | None) -> bool:
    key, digest = kept
    return token is not None and hmac.compare_digest(_digest(token, key), digest)


def _digest(token: str, key: str) -> str:
    return blake2b(token.encode(), key=bytes.fromhex(key)[:_KEY_BYTES], digest_size=32).hexdigest()


def _line(now: datetime, rule: str, actor: str) -> JournalLine:
    body = json.dumps({"actor": actor} if actor else {}).encode()
    return JournalLine(at_us=to_us(now), scope=SCOPE, run="", rule=rule, tool="", action="", request_id="", body=body)
