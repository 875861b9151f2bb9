"""Is a journal whole? Reads sealed lines and evidence from anywhere and says what does not fit. Nothing is repaired.

Whoever can write the file can also seal anew what he changed: that, and lines cut off the end, show only against a
count and a head that were noted elsewhere before. `docs/reference/record.md` has the table of what is found how.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, cast

from forbear.audit.evidence import LOST, digest_of
from forbear.errors import UsageError
from forbear.store.chain import START, digest_unsealed, read_chain, seal
from forbear.store.offline import SealedLine

__all__ = ["Checkpoint", "Finding", "Report", "Wrong", "evidence_of", "read_checkpoint", "verify"]

_MARK: Final = b'"evidence":'
# What is wrong is listed up to here; the rest is counted.
MAX_FINDINGS: Final = 1000
# Characters of a seal in hexadecimal.
_HEAD: Final = 64

# Returns the evidence that a request's line refers to by digest, or None.
FindEvidence = Callable[[str, str], bytes | None]


class Wrong(StrEnum):
    """What does not fit."""

    # Numbers are left out: lines were taken out.
    MISSING = "missing"
    # A seal does not fit its lines: they, their order, or the seal were changed.
    CHANGED = "changed"
    # A seal does not follow the one that it should: lines were put in, taken out, or sealed anew.
    BROKEN = "broken"
    # The lines are of another store.
    FOREIGN = "foreign"
    # Lines that no writer sealed.
    UNSEALED = "unsealed"
    # The journal ends before the checkpoint.
    CUT_OFF = "cut_off"
    # The line of the checkpoint has another seal.
    REWRITTEN = "rewritten"
    # Evidence is not what the line refers to, or is about another request.
    EVIDENCE_CHANGED = "evidence_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that does not fit, in the lines from `first` to `last`."""

    wrong: Wrong
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How many lines a journal had, and the seal of the last one, noted outside."""

    count: int
    head: str

    def __str__(self) -> str:
        return f"{self.count}:{self.head}"


def read_checkpoint(text: str) -> Checkpoint:
    """Return a checkpoint from ``COUNT:HEAD``.

    Raises:
        UsageError: it is not of that form.
    """
    count, colon, head = text.strip().partition(":")
    if not (colon and count.isascii() and count.isdigit() and head and set(head) <= set("0123456789abcdef")):
        raise UsageError("checkpoint: must be COUNT:HEAD, as 'forbear audit verify' prints it in its last line")
    if len(head) != _HEAD:
        short = "cut off" if len(head) < _HEAD else "too long"
        raise UsageError(
            f"checkpoint: its HEAD is {short}: {len(head)} of {_HEAD} characters; pass the whole line that "
            "'forbear audit verify' printed"
        )
    return Checkpoint(count=int(count), head=head)


@dataclass(slots=True, kw_only=True)
class Report:
    """What `verify` saw."""

    lines: int = 0
    # Seal of the last line, hex; "" = there is none.
    head: str = ""
    # Writers: chains that begin in this journal.
    epochs: int = 0
    # Lines from before there was a chain, covered by the first seal as they were then.
    unsealed: int = 0
    # Evidence that lines refer to and that is as it was; that is not there (any more); that could not be written.
    evidence: int = 0
    missing: int = 0
    lost: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    # Findings beyond those that are listed.
    more: int = 0

    @property
    def is_intact(self) -> bool:
        """Say whether everything that is there fits; evidence may be missing (it is kept for a shorter time)."""
        return not self.findings

    @property
    def checkpoint(self) -> Checkpoint:
        """Return what to note elsewhere."""
        return Checkpoint(count=self.lines, head=self.head)

    def found(self, wrong: Wrong, first: int, last: int) -> None:
        """Note something that does not fit."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(wrong=wrong, first=first, last=last))
        else:
            self.more += 1


def verify(
    lines: Iterable[SealedLine],
    *,
    store: str,
    checkpoint: Checkpoint | None = None,
    find: FindEvidence | None = None,
) -> Report:
    """Check every line of a journal.

    Args:
        lines: All lines, in the order of their numbers.
        store: The name of the store that they are said to be of.
        checkpoint: Count and head that were noted before.
        find: Finds evidence; None = evidence is not looked at.
    """
    check = _Check(store, checkpoint)
    for one in lines:
        check.take(one)
        if find is not None:
            _look(check.report, one, find)
    return check.end()


class _Check:
    """One pass over a journal."""

    def __init__(self, store: str, checkpoint: Checkpoint | None) -> None:
        self.report = Report()
        self._store = store
        self._checkpoint = checkpoint
        self._next = 1
        # Lines since the last seal: of a commit, and those that say no epoch.
        self._group: list[SealedLine] = []
        self._loose: list[SealedLine] = []
        # Epoch -> its last seal.
        self._heads: dict[int, bytes] = {}
        # Number, epoch and seal of the last sealed line.
        self._last: tuple[int, int, bytes] | None = None

    def take(self, one: SealedLine) -> None:
        if one.seq != self._next:
            self._close_group()
            self.report.found(Wrong.MISSING, self._next, one.seq - 1)
        self._next = one.seq + 1
        self.report.lines += 1
        self.report.head = "" if one.seal is None else one.seal.hex()
        if one.epoch is None:
            self._close_group()
            self._loose.append(one)
        else:
            self._group.append(one)
            if one.seal is not None:
                self._sealed(one, one.epoch, one.seal)
                self._group = []
        if (
            self._checkpoint is not None
            and one.seq == self._checkpoint.count
            and self.report.head != self._checkpoint.head
        ):
            self.report.found(Wrong.REWRITTEN, 1, one.seq)

    def _close_group(self) -> None:
        """Lines of a commit whose seal did not come."""
        if self._group:
            self.report.found(Wrong.CHANGED, self._group[0].seq, self._group[-1].seq)
            self._group = []

    def _close_loose(self) -> None:
        if self._loose:
            self.report.found(Wrong.UNSEALED, self._loose[0].seq, self._loose[-1].seq)
            self._loose = []

    def _sealed(self, one: SealedLine, epoch: int, sealed: bytes) -> None:
        first, lines = self._group[0].seq, [member.line for member in self._group]
        link = read_chain(one.chain)
        due = seal(one.before, epoch=epoch, first=first, chain=one.chain, lines=lines)
        known = self._heads.get(epoch)
        if link is None or due != sealed or any(member.epoch != epoch for member in self._group):
            self.report.found(Wrong.CHANGED, first, one.seq)
        elif known is None:
            if epoch != first or one.before != START:
                self.report.found(Wrong.BROKEN, first, one.seq)
            elif link.store != self._store:
                self.report.found(Wrong.FOREIGN, first, one.seq)
        elif one.before != known or link.store:
            self.report.found(Wrong.BROKEN, first, one.seq)
        if link is not None:
            self._check_place(one, epoch, first, follows=link.follows, unsealed=link.unsealed)
        if known is None:
            self.report.epochs += 1
        self._close_loose()
        self._heads[epoch] = sealed
        self._last = (one.seq, epoch, sealed)

    def _check_place(
        self,
        one: SealedLine,
        epoch: int,
        first: int,
        *,
        follows: tuple[int, int, bytes] | None,
        unsealed: tuple[int, bytes] | None,
    ) -> None:
        """Check that a seal names what comes before it, where that is another writer's, or nobody's."""
        last = self._last
        if self._loose and last is None and unsealed == digest_unsealed(loose.line for loose in self._loose):
            self.report.unsealed = len(self._loose)
            self._loose = []
        elif unsealed is not None:
            self.report.found(Wrong.UNSEALED, 1, first - 1)
        due = None if last is None or last[1] == epoch else last
        # After a line that nobody sealed there is nothing to name.
        if follows != due and not self._loose:
            self.report.found(Wrong.BROKEN, first, one.seq)

    def end(self) -> Report:
        self._close_group()
        self._close_loose()
        report = self.report
        if self._checkpoint is not None and self._next <= self._checkpoint.count:
            report.found(Wrong.CUT_OFF, self._next, self._checkpoint.count)
        return report


# ---- evidence -------------------------------------------------------------------------------------------------------


def evidence_of(body: bytes) -> str:
    """Return the digest of the evidence that a line refers to; "" = it refers to none."""
    if _MARK not in body:
        return ""
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(parsed, dict):
        return ""
    found = cast("dict[str, object]", parsed).get("evidence")
    return found if isinstance(found, str) else ""


def _look(report: Report, one: SealedLine, find: FindEvidence) -> None:
    """Look at the evidence of one line."""
    digest = evidence_of(one.line.body)
    if not digest:
        return
    if digest == LOST:
        report.lost += 1
        return
    body = find(one.line.request_id, digest)
    if body is None:
        report.missing += 1
    elif digest_of(body) != digest:
        report.found(Wrong.EVIDENCE_CHANGED, one.seq, one.seq)
    else:
        report.evidence += 1
