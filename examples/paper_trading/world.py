"""The desk's world in one SQLite file: opening it, writing a scenario into it, virtual time, and reading what happened.

Shared by the server, which serves it, and by the demo, which sets the scene and counts. What a tool does with the world
is not here, and neither is anything of forbear's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

JsonObject = Mapping[str, object]

SCHEMA = Path(__file__).with_name("schema.sql")
MORNING = datetime(2026, 9, 5, 14, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 9, 6, 0, 0, tzinfo=UTC)
"""When the daily order limit starts again: ten hours after `MORNING`."""

INSTRUMENTS = (
    ("ACME", "Acme Industries", "industry", 120, 1),
    ("BOLT", "Bolt Energy", "energy", 45, 1),
    ("CRUX", "Crux Mining", "materials", 18, 10),
    ("DELT", "Delta Freight", "industry", 77, 1),
    ("ECHO", "Echo Audio", "consumer", 33, 1),
    ("FLUX", "Flux Water", "utilities", 52, 1),
    ("GRID", "Grid Networks", "utilities", 64, 1),
    ("HALO", "Halo Optics", "health", 210, 1),
    ("IRIS", "Iris Imaging", "health", 98, 1),
    ("JADE", "Jade Hotels", "consumer", 27, 1),
    ("KITE", "Kite Airlines", "consumer", 15, 10),
    ("LYNX", "Lynx Rail", "industry", 88, 1),
    ("MICA", "Mica Glass", "materials", 41, 1),
    ("NOVA", "Nova Chips", "technology", 305, 1),
    ("OPAL", "Opal Foods", "consumer", 39, 1),
    ("ZETA", "Zeta Biotech", "health", 9, 100),
)


class FaultKind(StrEnum):
    """How the desk misbehaves."""

    UNAVAILABLE = "unavailable"
    """Answers 503 before anything happened."""
    SILENT_AFTER_COMMIT = "silent_after_commit"
    """Commits, then does not answer while the client listens."""
    EXIT_AFTER_COMMIT = "exit_after_commit"
    """Commits, then the server process ends and the stream closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of misbehaviour of one operation, for a number of calls."""

    operation: str
    kind: FaultKind
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What the world looks like before a journey begins; the default is a quiet morning."""

    now: datetime = MORNING
    frozen: bool = False
    disabled: tuple[str, ...] = ()
    daily_limit: int = 25
    orders_today: int = 0
    reset_at: datetime = MIDNIGHT
    opens_at: datetime = MORNING - timedelta(hours=1)
    approval_above: int = 1_000
    cash: int = 100_000
    fills_after: timedelta = timedelta(seconds=14)
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One call that reached the server."""

    id: int
    at: datetime
    tool: str
    operation: str
    arguments: str
    """As JSON text, as received."""
    outcome: str
    code: str | None
    reset_at: datetime | None
    effect: bool
    """Whether the world is different afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question that reached the person, and the answer."""

    at: datetime
    amount: int
    destination: str
    yes: bool
    ledger_before: int
    """Id of the last execution that had happened when the person answered; 0 if none."""


def stamp(at: datetime) -> str:
    """Write an instant as the database and the contract write it."""
    if at.tzinfo is None:
        raise ValueError("a naive time is not an instant")
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(text: str) -> datetime:
    """Read what `stamp` wrote."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


class World:
    """The database file of one desk. One object per process and thread."""

    def __init__(self, path: Path) -> None:
        """Open the file; a new one gets the schema and the quiet morning."""
        self.path = path
        self.sql = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.sql.row_factory = sqlite3.Row
        self.sql.execute("PRAGMA journal_mode = WAL")
        self.sql.execute("PRAGMA synchronous = OFF")
        if not self.sql.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self.sql.executescript(SCHEMA.read_text(encoding="utf-8"))
            self.reset(Scenario())

    def close(self) -> None:
        """Close the connection; the file stays."""
        self.sql.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside visible at once, or nothing of it."""
        self.sql.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.sql.execute("ROLLBACK")
            raise
        self.sql.execute("COMMIT")

    def reset(self, scenario: Scenario) -> None:
        """Empty the world and set the scene of `scenario`."""
        tables = [row[0] for row in self.sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        with self.transaction():
            for table in tables:
                # The names come from the schema file; a name cannot be a parameter.
                self.sql.execute(f'DELETE FROM "{table}"')  # noqa: S608
            self.sql.execute("INSERT INTO clock VALUES (1, ?)", (stamp(scenario.now),))
            self.sql.execute(
                "INSERT INTO desk VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    scenario.frozen,
                    scenario.daily_limit,
                    scenario.orders_today,
                    stamp(scenario.reset_at),
                    stamp(scenario.opens_at),
                    scenario.approval_above,
                    scenario.cash,
                    int(scenario.fills_after.total_seconds()),
                ),
            )
            self.sql.executemany(
                "INSERT INTO instruments VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, row[0] not in scenario.disabled) for row in INSTRUMENTS],
            )
            self.sql.executemany(
                "INSERT INTO faults VALUES (?, ?, ?)",
                [(fault.operation, fault.kind, fault.times) for fault in scenario.faults],
            )
            # An order of somebody else's: this agent's key may see it and may not cancel it.
            self.sql.execute(
                "INSERT INTO orders VALUES (1, 'house-1', 'NOVA', 'buy', 5, ?, NULL, NULL, 'house')",
                (stamp(scenario.now - timedelta(hours=1)),),
            )

    # -- virtual time

    @property
    def now(self) -> datetime:
        """What time it is on the desk."""
        return instant(self.sql.execute("SELECT now FROM clock").fetchone()[0])

    def advance(self, by: timedelta) -> datetime:
        """Move the desk's clock forward, in whole seconds, and return the new time."""
        return self.advance_to(self.now + by)

    def advance_to(self, at: datetime) -> datetime:
        """Move the desk's clock to `at`, rounded up to a whole second; it never goes back."""
        whole = at.replace(microsecond=0) + timedelta(seconds=at.microsecond > 0)
        later = max(self.now, whole)
        self.sql.execute("UPDATE clock SET now = ?", (stamp(later),))
        return later

    # -- the person

    def person_answered(self, *, amount: int, destination: str, yes: bool) -> None:
        """Record what the person was asked and said; a yes is good for one withdrawal of exactly this kind."""
        self.sql.execute(
            "INSERT INTO prompts (at, amount, destination, answer, ledger_before)"
            " SELECT (SELECT now FROM clock), ?, ?, ?, coalesce(max(id), 0) FROM ledger",
            (amount, destination, "yes" if yes else "no"),
        )

    def prompts(self) -> tuple[Prompt, ...]:
        """Everything that the person was asked, in order."""
        return tuple(
            Prompt(
                at=instant(row["at"]),
                amount=row["amount"],
                destination=row["destination"],
                yes=row["answer"] == "yes",
                ledger_before=row["ledger_before"],
            )
            for row in self.sql.execute("SELECT * FROM prompts ORDER BY id")
        )

    # -- what happened

    def ledger(self) -> tuple[Execution, ...]:
        """Every call that reached the server, in order."""
        return tuple(
            Execution(
                id=row["id"],
                at=instant(row["at"]),
                tool=row["tool"],
                operation=row["operation"],
                arguments=row["arguments"],
                outcome=row["outcome"],
                code=row["code"],
                reset_at=instant(row["reset_at"]) if row["reset_at"] else None,
                effect=bool(row["effect"]),
            )
            for row in self.sql.execute("SELECT * FROM ledger ORDER BY id")
        )

    def rows(self, query: str, *values: object) -> list[dict[str, object]]:
        """Answer one SELECT, for goals and tests."""
        return [dict(row) for row in self.sql.execute(query, values)]

    def count(self, query: str, *values: object) -> int:
        """Answer one SELECT of a single number, for goals and tests."""
        return int(self.sql.execute(query, values).fetchone()[0])
