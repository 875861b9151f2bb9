"""What is hashed of the journal and how its lines hang together. Pure: nothing is read or written here.

The lines of one commit are sealed together: the last of them carries a hash over all of them, over the seal that the
same writer set before (one chain a writer epoch), and over `chain`, a short JSON text. In it the first seal of an epoch
names store and writer; a seal that does not follow its writer's own last one directly names the seal that it follows.
So the last seal of the journal stands for every line before it, whoever wrote it.

A line's number is part of what is hashed, numbers have no gaps, and a commit is all or nothing: what is changed, moved,
inserted or taken out breaks a seal. Cutting off the end breaks none; that is found against a number and a hash that
somebody noted elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, cast

from forbear.ports import JournalLine

__all__ = ["FORM", "START", "Link", "chain_text", "digest_unsealed", "line_text", "read_chain", "seal"]

# First word of what is hashed; another form would get another number.
FORM: Final = "forbear.journal.1"
# What the first seal of an epoch follows.
START: Final = bytes(32)
# Line breaks in the text of a line.
_FIELDS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What the text `chain` of a seal says."""

    # Set on the first seal of an epoch.
    store: str = ""
    writer: str = ""
    # Number, epoch and seal of the line before the commit, where another writer wrote it.
    follows: tuple[int, int, bytes] | None = None
    # Lines before the first seal of all, from a release that sealed none: how many, and their digest.
    unsealed: tuple[int, bytes] | None = None


def line_text(line: JournalLine) -> str:
    r"""Return the fields of a line but its body, one a line, so that no two journal lines have one text.

    A field that holds a line break itself (a framework's id may) makes the text begin with ``e``: then a backslash is
    written as two and a line break as ``\n``.
    """
    text = (
        f"{line.at_us} {len(line.body)}\n{line.scope}\n{line.run}\n{line.rule}\n{line.tool}\n{line.action}\n"
        f"{line.request_id}\n"
    )
    return text if text.count("\n") == _FIELDS else _escaped(line)


def _escaped(line: JournalLine) -> str:
    fields = (line.scope, line.run, line.rule, line.tool, line.action, line.request_id)
    kept = "\n".join(field.replace("\\", "\\\\").replace("\n", "\\n") for field in fields)
    return f"e{line.at_us} {len(line.body)}\n{kept}\n"


def seal(before: bytes, *, epoch: int, first: int, chain: str, lines: Sequence[JournalLine]) -> bytes:
    """Return the hash over one commit's lines (SHA-256, 32 bytes).

    Args:
        before: The writer's seal before this one, or `START`.
        epoch: Number of the writer's first line.
        first: Number of the first of these lines.
        chain: The seal's JSON text, "" where it has none.
        lines: In order; the numbers of the rest follow from the first.
    """
    parts = [f"{FORM} {epoch} {first} {len(lines)} {len(chain)}\n{chain}\n".encode(), before]
    for line in lines:
        parts.append(line_text(line).encode())
        parts.append(line.body)
    return sha256(b"".join(parts)).digest()


def digest_unsealed(lines: Iterable[JournalLine]) -> tuple[int, bytes]:
    """Return how many lines there are, and a digest of them: what the first seal says of lines that nobody sealed."""
    hashed = sha256(FORM.encode())
    count = 0
    for line in lines:
        hashed.update(line_text(line).encode())
        hashed.update(line.body)
        count += 1
    return count, hashed.digest()


def chain_text(link: Link) -> str:
    """Return the JSON text of a link, "" where it says nothing."""
    said: dict[str, object] = {}
    if link.store:
        said["store"] = link.store
        said["writer"] = link.writer
    if link.follows is not None:
        seq, epoch, sealed = link.follows
        said["follows"] = [seq, epoch, sealed.hex()]
    if link.unsealed is not None:
        count, digest = link.unsealed
        said["unsealed"] = [count, digest.hex()]
    return json.dumps(said, separators=(",", ":")) if said else ""


def read_chain(text: str) -> Link | None:
    """Return what the JSON text of a seal says; None = it is not what a writer of this release writes."""
    if not text:
        return Link()
    try:
        parsed: object = json.loads(text)
        if not isinstance(parsed, dict):
            return None
        said = cast("dict[str, object]", parsed)
        store, writer = said.get("store", ""), said.get("writer", "")
        if not isinstance(store, str) or not isinstance(writer, str):
            return None
        return Link(
            store=store, writer=writer, follows=_follows(said.get("follows")), unsealed=_unsealed(said.get("unsealed"))
        )
    except ValueError:
        return None


def _follows(value: object) -> tuple[int, int, bytes] | None:
    match value:
        case None:
            return None
        case [int() as seq, int() as epoch, str() as sealed]:
            return seq, epoch, bytes.fromhex(sealed)
        case _:
            raise ValueError("not a link")


def _unsealed(value: object) -> tuple[int, bytes] | None:
    match value:
        case None:
            return None
        case [int() as count, str() as digest]:
            return count, bytes.fromhex(digest)
        case _:
            raise ValueError("not a link")
