"""The page of clients and faults: measured when it is written, and compared with each run of the tests.

`python -m tests.docs.clients_table` prints it; `--write` writes it, and needs every client and server.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from tests.integration.faults import CASES, COMMON, SUBJECTS, Backends, Measured, Subject, backends, measured

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
SHORT = {"inspect_outcome": "look", "retry_after": "wait", "do_not_retry": "stop"}
HTTP_ONLY = tuple(name for name in CASES if name not in COMMON)
HEAD = """# Clients and faults

What a failed call of each client means, measured on loopback: one governed tool sends one order with a real client, to a server
that misbehaves. Made and measured by `python -m tests.docs.clients_table --write`; every run of the tests measures it again
(`tests/integration/test_clients.py`).

A cell is: what happens to a *write* · how far the request came, as far as anybody watched · orders that arrived.

- **wait** (`retry_after`): it certainly did not run, and is tried once more. **look** (`inspect_outcome`): it may have run, and is held
  until that is known. **stop** (`do_not_retry`).
- A *read* waits in every row, but for a wrong certificate (as the write), a redirect that was not followed (stop), and half a head
  with `urllib`, whose empty body the tool cannot parse (`repair_input`).
- How far: `connect` (a hook of ours saw that nothing was sent), `sent` (a first byte may have left), `answered` (a head was received);
  `attempted`: the hook sees attempts and no steps; `-`: no hook, only the exception speaks.
- Postgres, Redis (or Valkey) and the gRPC server are real ones behind a relay: each order that arrived was carried out,
  once, and the answer was lost on the way back.

"""
TAIL = """
## What the rows say

- **No hook, no "not sent".** A class alone proves nothing about the requests before the last one, so that `urllib`, `asyncio` and grpcio
  look where the others wait. Hooks: [HTTP](../../adapters/forbear_adapters/http/README.md),
  [databases](../../adapters/forbear_adapters/databases/README.md).
- **grpcio** gives one status for "nobody listened" and "carried out, answer lost": `UNAVAILABLE`, and `DEADLINE_EXCEEDED` for both
  time-outs. It says in prose only that a certificate was not accepted.
- **psycopg and SQLAlchemy**: libpq too says in prose only that a certificate was not accepted; nothing was sent, so that it is
  tried once more, and then is over. psycopg has no time-out for an answer: give the tool a `timeout`.
- **redis-py** and the SDKs are shown with their own retries switched off; `forbear doctor` names the switches.
- **mcp** is a session of its own for each call, over a client of `forbear_adapters.http`. In a session that outlives the call, mcp 2
  answers a broken connection by cancelling the task: a write is then unknown.
"""


def cell(got: Measured) -> str:
    """Return what a cell says."""
    recovery = got.reply.envelope.recovery
    return f"{SHORT.get(str(recovery), str(recovery))} · {got.phase} · {got.arrivals}"


def cell_of(page: str, subject: Subject, fault: str) -> str:
    """Return what the page says of a client and a fault."""
    name = subject.name
    columns: list[str] = []
    for line in page.splitlines():
        cells = [one.strip() for one in line.strip("|").split("|")]
        if cells[0] == "client":
            columns = cells
        elif cells[0].partition(" ")[0] == name and fault in columns:
            return cells[columns.index(fault)]
    return ""


def is_measured_with(page: str, subject: Subject) -> bool:
    """Tell whether the page was measured with the release that is installed."""
    return f"| {_versioned(subject)} |" in page


def _table(faults: tuple[str, ...], rows: dict[str, dict[str, str]]) -> str:
    lines = [f"| client | {' | '.join(faults)} |", "|---" * (len(faults) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells.get(one, '') for one in faults)} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def _versioned(subject: Subject) -> str:
    if not subject.client.packages:
        return f"{subject.name} (Python {sys.version_info.major}.{sys.version_info.minor})"
    package = {"grpc": "grpcio", "urllib3": "urllib3"}.get(subject.name.partition("-")[0], subject.client.packages[0])
    return f"{subject.name} {version(package)}"


def page(behind: Backends) -> str:
    """Measure everything and return the page."""
    rows = {
        _versioned(subject): {name: cell(measured(subject, name, "write", behind)) for name in subject.cases}
        for subject in SUBJECTS
        if not behind.missing(subject)
    }
    http = {name: cells for name, cells in rows.items() if "500" in cells}
    return f"{HEAD}{_table(COMMON, rows)}\n## HTTP alone\n\n{_table(HTTP_ONLY, http)}{TAIL}"


def main(arguments: list[str]) -> int:
    """Print or write the page."""
    with backends() as behind:
        missing = [f"{subject.name}: {behind.missing(subject)}" for subject in SUBJECTS if behind.missing(subject)]
        for line in missing:
            print(line, file=sys.stderr)
        if "--write" in arguments and missing:
            return 1
        made = page(behind)
    if "--write" in arguments:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
