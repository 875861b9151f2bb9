"""What a program may ask for: load, the time, a row, save. One effect is one crash point. Nothing is performed here."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from forbear.core.decision import Decision, PutKnown
from forbear.core.states import Action, Run
from forbear.core.values import Call
from forbear.ports import JournalLine, Row, ScopeRows
from forbear.runtime.live import LiveTree

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Bring a tree up to date with the store, with the actions and the known call that the event is about."""

    root: str
    actions: tuple[str, ...] = ()
    known: str = ""
    # The call that the event is about; None = the event is about the tree.
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Read the present instant, once for one decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Read one row, live or not."""

    scope: str
    kind: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Write a piece of evidence; the answer is the digest that the journal line carries."""

    request_id: str
    # Makes the piece with the key of argument digests.
    make: Callable[[bytes], bytes]
    # Nobody is warned where it cannot be written: the answer says already that the controller is broken.
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Commit a decision with its journal line, then apply it to the working set; False = somebody committed first."""

    live: LiveTree
    # None = only rows of the runtime change (a child run is entered, results are handed out): no journal line.
    decision: Decision | None = None
    now: datetime
    event: str
    # The call that the event is about; None = the event is about the tree.
    call: Call | None = None
    run: str = ""
    attempt: int = 0
    policy: str = ""
    request_id: str = ""
    actor: str = ""
    puts: tuple[Row, ...] = ()
    drops: tuple[tuple[str, str, str], ...] = ()
    # Runs that are entered without a decision; scopes that nobody may have written yet.
    runs: tuple[Run, ...] = ()
    # What is remembered without a decision: by what a call was answered, and of the action itself.
    remembers: tuple[PutKnown | Action, ...] = ()
    first: tuple[str, ...] = ()
    # The tool is only observed: nothing is scheduled for it.
    observed: bool = False
    # Digest of the evidence about what ended the attempt; boundaries that its execution reached.
    evidence: str = ""
    boundaries: tuple[str, ...] = ()
    # Kept in memory and journalled with the next batch (declared reads that start or succeed).
    volatile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Belong:
    """Let a tree that was never used draw from the quotas of this principal."""

    live: LiveTree
    principal: str


@dataclass(frozen=True, slots=True)
class ReadScope:
    """Read the live rows of a scope that belongs to no tree."""

    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRow:
    """Store a row of a scope that belongs to no tree; False = somebody wrote the scope since `version`."""

    row: Row
    version: int = 0
    journal: tuple[JournalLine, ...] = ()


Effect = Load | ReadClock | Fetch | Keep | Save | Belong | ReadScope | PutRow
Program = Generator[Effect, object, T]


# Typed wrappers: `yield` gives back an object, a wrapper says which.


def load(root: str, *, actions: tuple[str, ...] = (), known: str = "", call: Call | None = None) -> Program[LiveTree]:
    """Return the tree as the store has it now."""
    got = yield Load(root=root, actions=actions, known=known, call=call)
    assert isinstance(got, LiveTree)
    return got


def read_clock() -> Program[datetime]:
    """Return the present instant."""
    got = yield ReadClock()
    assert isinstance(got, datetime)
    return got


def fetch(scope: str, kind: str, key: str) -> Program[Row | None]:
    """Return one row."""
    got = yield Fetch(scope=scope, kind=kind, key=key)
    assert got is None or isinstance(got, Row)
    return got


def keep(request_id: str, make: Callable[[bytes], bytes], *, quiet: bool = False) -> Program[str]:
    """Return the digest of a piece of evidence that was written."""
    got = yield Keep(request_id=request_id, make=make, quiet=quiet)
    assert isinstance(got, str)
    return got


def belong(live: LiveTree, principal: str) -> Program[None]:
    """Let a tree that was never used draw from the quotas of this principal."""
    yield Belong(live=live, principal=principal)


def read_scope(scope: str) -> Program[ScopeRows]:
    """Return the live rows of a scope."""
    got = yield ReadScope(scope)
    assert isinstance(got, ScopeRows)
    return got


def put_row(row: Row, *, version: int = 0, journal: tuple[JournalLine, ...] = ()) -> Program[bool]:
    """Return whether the row was stored: nobody wrote its scope since this version (0 = nobody ever did)."""
    got = yield PutRow(row=row, version=version, journal=journal)
    return got is True


def save(effect: Save) -> Program[bool]:
    """Return whether the decision was committed."""
    got = yield effect
    return got is True
