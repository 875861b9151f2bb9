"""The record of a SQLite store as files: the journal and the evidence beside it, read without opening the store.

Works on a copy, offline. What is whole is `verify.py`'s business; terminals are not known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from forbear.audit.evidence import KIND, LOST, evidence_path, scope_of
from forbear.audit.verify import Checkpoint, Report, evidence_of, verify
from forbear.store.offline import ClosedBook, SealedLine, read_closed

__all__ = ["Entry", "entries", "last_line", "of_request", "protected_record", "verify_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a journal with the evidence that it refers to."""

    line: SealedLine
    # What the line says beside its columns; {} where it is not readable.
    facts: dict[str, object]
    # None = the line refers to none, or it is not there.
    evidence: dict[str, object] | None = None
    # "" = the line refers to none; kept, missing, lost (it could not be written).
    state: str = ""

    def plain(self, *, whole: bool = False) -> dict[str, object]:
        """Return the entry as plain values for JSON; `whole` adds the exact body, from which the seal can be computed."""
        one = self.line
        said: dict[str, object] = {
            "seq": one.seq,
            "at_us": one.line.at_us,
            "scope": one.line.scope,
            "run": one.line.run,
            "rule": one.line.rule,
            "tool": one.line.tool,
            "action": one.line.action,
            "request_id": one.line.request_id,
            "facts": self.facts,
            "body": one.line.body.decode("utf-8", "replace") if whole else None,
            "epoch": one.epoch,
            "chain": one.chain,
            "prev_hash": one.before.hex(),
            "hash": "" if one.seal is None else one.seal.hex(),
            "evidence": self.evidence,
            "evidence_state": self.state,
        }
        return {name: value for name, value in said.items() if value not in (None, "")}


def verify_file(path: Path, *, evidence: Path | None = None, checkpoint: Checkpoint | None = None) -> Report:
    """Check the record of a store.

    Args:
        path: The store's file, or a copy.
        evidence: The evidence's file; None = beside it. Where there is none, every piece counts as missing.
        checkpoint: What was noted before.

    Raises:
        StoreError: the file is not there, or is no store of forbear.
    """
    with ExitStack() as stack:
        book, pieces = _opened(stack, path, evidence)
        return verify(
            book.lines(),
            store=book.identity(),
            checkpoint=checkpoint,
            find=lambda request_id, digest: _find(pieces, request_id, digest),
        )


def entries(path: Path, *, evidence: Path | None = None, after: int = 0, with_evidence: bool = True) -> Iterator[Entry]:
    """Return the lines above a number with their evidence, in order."""
    with ExitStack() as stack:
        book, pieces = _opened(stack, path, evidence if with_evidence else None, wanted=with_evidence)
        for one in book.lines(after=after):
            yield _entry(one, pieces)


def last_line(path: Path) -> int:
    """Return the number of a journal's last line, 0 where there is none."""
    with read_closed(path) as book:
        return book.last()


def of_request(
    path: Path, request_id: str, *, evidence: Path | None = None
) -> tuple[list[Entry], list[dict[str, object]]]:
    """Return a request's lines with their evidence, and evidence about it that no line refers to (a crash left it)."""
    with ExitStack() as stack:
        book, pieces = _opened(stack, path, evidence)
        found = [_entry(one, pieces) for one in book.of_request(request_id)]
        known = {evidence_of(entry.line.line.body) for entry in found}
        kept = [] if pieces is None else pieces.rows(scope_of(request_id), KIND)
        return found, [_object(body) for digest, body in kept if digest not in known]


def protected_record(entry: Entry) -> dict[str, object] | None:
    """Return an entry with evidence in the short form that `forbear.contract.record` reads; None = it has none."""
    piece = entry.evidence
    if piece is None:
        return None
    requests = piece.get("requests")
    request = cast("dict[str, object]", requests[-1]) if isinstance(requests, list) and requests else {}
    exceptions = piece.get("exceptions")
    raised = cast("dict[str, object]", exceptions[0]) if isinstance(exceptions, list) and exceptions else {}
    reached = piece.get("boundaries")
    boundaries = cast("list[object]", reached) if isinstance(reached, list) else []
    what = "http_call" if request else "call"
    said: dict[str, object] = {
        "request_id": piece.get("request_id"),
        "event": f"{what}_{'ended' if piece.get('event') == 'answered' and not raised else 'failed'}",
        "result_code": piece.get("code") or entry.facts.get("code") or str(piece.get("outcome", "unknown")).upper(),
        "destination": request.get("destination"),
        "method": request.get("method"),
        "path_template": request.get("path_template"),
        # Where nobody wrote boundaries down, nothing is known about them.
        "bytes_sent": "request_sent" in boundaries if boundaries else None,
        "response_received": "response_received" in boundaries if boundaries else None,
        "exception_class": str(raised["class"]).rpartition(".")[2] if "class" in raised else None,
    }
    return {name: value for name, value in said.items() if value not in (None, "")}


def _opened(
    stack: ExitStack, path: Path, evidence: Path | None, *, wanted: bool = True
) -> tuple[ClosedBook, ClosedBook | None]:
    book = stack.enter_context(read_closed(path))
    file = evidence_path(path) if evidence is None else evidence
    if not wanted or (evidence is None and not file.exists()):
        return book, None
    return book, stack.enter_context(read_closed(file))


def _find(pieces: ClosedBook | None, request_id: str, digest: str) -> bytes | None:
    if pieces is None:
        return None
    return next((body for key, body in pieces.rows(scope_of(request_id), KIND) if key == digest), None)


def _entry(one: SealedLine, pieces: ClosedBook | None) -> Entry:
    digest = evidence_of(one.line.body)
    facts = _object(one.line.body)
    if not digest:
        return Entry(line=one, facts=facts)
    if digest == LOST:
        return Entry(line=one, facts=facts, state="lost")
    body = _find(pieces, one.line.request_id, digest)
    if body is None:
        return Entry(line=one, facts=facts, state="missing")
    return Entry(line=one, facts=facts, evidence=_object(body), state="kept")


def _object(body: bytes) -> dict[str, object]:
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
