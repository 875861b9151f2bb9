"""`forbear audit`: check, read and export the record of a store. It reads files, also copies, and changes nothing.

What is whole is judged by `forbear.audit`. Evidence is printed only to whoever has the store's operator token.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from forbear.cli.desk import Actor, At, Json, Token, at_desk, print_json, store_file
from forbear.cli.terminal import FOUND, count, escaped
from forbear.errors import UsageError

if TYPE_CHECKING:
    from forbear.audit.files import Entry
    from forbear.audit.verify import Report

# Seconds between looks of `tail --follow`.
POLL = 0.5

audit_ = typer.Typer(help="Check, read and export the record of a store, or of a copy.", no_args_is_help=True)

Evidence = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="FILE", help="The evidence; default: beside the store.", rich_help_panel="Store"
    ),
]
RequestId = Annotated[str, typer.Argument(metavar="REQUEST_ID", help="As the model saw it: act_…")]


@audit_.command()
def verify(
    *,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="COUNT:HEAD", help="What an earlier check printed.")
    ] = None,
    require_evidence: Annotated[
        bool, typer.Option("--require-evidence", help="Missing evidence is a failure, too.")
    ] = False,
    store: At = None,
    evidence: Evidence = None,
    as_json: Json = False,
) -> None:
    """Check that the record is whole, and print count and head to note elsewhere."""
    from forbear.audit.files import verify_file
    from forbear.audit.verify import read_checkpoint

    noted = None if checkpoint is None else read_checkpoint(checkpoint)
    report = verify_file(_file(store), evidence=evidence, checkpoint=noted)
    fails = not report.is_intact or (require_evidence and bool(report.missing or report.lost))
    if as_json:
        print_json({**asdict(report), "intact": report.is_intact, "checkpoint": str(report.checkpoint)})
    else:
        _print_report(report, checked=noted is not None)
    if fails:
        raise typer.Exit(FOUND)


def _print_report(report: Report, *, checked: bool) -> None:
    for one in report.findings:
        where = f"line {one.first}" if one.first == one.last else f"lines {one.first} to {one.last}"
        typer.echo(f"{where}: {_WRONG[one.wrong.value]}")
    if report.more:
        typer.echo(f"and {report.more} more")
    state = "whole" if report.is_intact else "NOT whole"
    typer.echo(f"{count(report.lines, 'line')} of {count(report.epochs, 'writer')}: {state}")
    if report.unsealed:
        typer.echo(f"{count(report.unsealed, 'line')} from before the journal was chained, as they were then")
    if report.evidence or report.missing or report.lost:
        pieces = count(report.evidence, "piece")
        typer.echo(f"evidence: {pieces} as written, {report.missing} not there, {report.lost} could not be written")
    if report.is_intact and report.lines:
        if not checked:
            typer.echo("lines cut off the end, or a record replaced whole, show only against a checkpoint")
        typer.echo(f"checkpoint {report.checkpoint}")


_WRONG = {
    "missing": "taken out",
    "changed": "do not fit their seal: lines were changed, moved, or their seal was",
    "broken": "do not follow what they should: lines were put in, taken out, or sealed anew",
    "foreign": "are of another store",
    "unsealed": "were sealed by nobody",
    "cut_off": "were there at the checkpoint and are not any more",
    "rewritten": "are not those of the checkpoint",
    "evidence_changed": "refer to evidence that was changed",
}


@audit_.command()
def show(
    request_id: RequestId,
    *,
    store: At = None,
    evidence: Evidence = None,
    token: Token = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Show what is recorded about one request, with its evidence: what others said, which no model ever sees."""
    from forbear.audit.files import of_request, protected_record

    path = _file(store)
    _may_see_evidence(store, token, actor)
    found, loose = of_request(path, request_id, evidence=evidence)
    if not found and not loose:
        raise UsageError(f"request {request_id!r}: is not in this record")
    if as_json:
        lines = [entry.plain() | {"record": protected_record(entry)} for entry in found]
        print_json({"lines": lines, "without_a_line": loose})
        return
    for entry in found:
        _print_entry(entry)
    for piece in loose:
        typer.echo("evidence that no line refers to (the process ended before it was decided about):")
        _print_fields(piece, "    ")


@audit_.command()
def tail(
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many lines from the end.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until SIGINT or SIGTERM.")] = False,
    store: At = None,
    as_json: Json = False,
) -> None:
    """Print the last lines of the journal, one a line, without evidence."""
    from forbear.audit.files import entries, last_line

    path = _file(store)
    after = max(last_line(path) - lines, 0)
    with _until_stopped() as stopped:
        while True:
            for entry in entries(path, after=after, with_evidence=False):
                after = entry.line.seq
                typer.echo(json.dumps(entry.plain()) if as_json else _one_line(entry))
            if not follow or stopped.wait(POLL):
                return


@audit_.command()
def export(
    *,
    after: Annotated[int, typer.Option("--after", metavar="NUMBER", min=0, help="Only lines above this one.")] = 0,
    with_evidence: Annotated[bool, typer.Option("--with-evidence", help="With what others said.")] = False,
    store: At = None,
    evidence: Evidence = None,
    token: Token = None,
    actor: Actor = None,
) -> None:
    """Print the journal as JSON lines: every column with its seal, so that it can be checked elsewhere."""
    from forbear.audit.files import entries

    path = _file(store)
    if with_evidence:
        _may_see_evidence(store, token, actor)
    for entry in entries(path, evidence=evidence, after=after, with_evidence=with_evidence):
        typer.echo(json.dumps(entry.plain(whole=True), separators=(",", ":")))


# ---- what the commands share ----------------------------------------------------------------------------------------


def _file(store: str | None) -> Path:
    if store is not None and "://" in store:
        raise UsageError("--store: must be a file; the record of another store is checked where it is kept")
    return store_file(store)


def _may_see_evidence(store: str | None, token: str | None, actor: str | None) -> None:
    """Let nobody see evidence who does not have the store's token; trying without it is journalled.

    Raises:
        NotOperator: the store has another token, or one and none was given.
    """
    with at_desk(store, token, actor):
        pass


def _print_entry(entry: Entry) -> None:
    typer.echo(_one_line(entry))
    _print_fields(entry.facts, "    ")
    if entry.state == "missing":
        typer.echo("    evidence: not there (any more)")
    elif entry.state == "lost":
        typer.echo("    evidence: could not be written")
    elif entry.evidence is not None:
        typer.echo("    evidence:")
        _print_fields(entry.evidence, "        ")


def _print_fields(fields: dict[str, object], indent: str) -> None:
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        typer.echo(f"{indent}{escaped(name)}: {escaped(text)}")


def _one_line(entry: Entry) -> str:
    from forbear.core.view import instant_text
    from forbear.store.codec import from_us

    one = entry.line
    code = entry.facts.get("code")
    parts = [instant_text(from_us(one.line.at_us)), str(one.seq), one.line.rule, one.line.tool, str(code or "")]
    parts += [one.line.run, one.line.request_id]
    return "  ".join(escaped(part) for part in parts if part)


@contextmanager
def _until_stopped() -> Generator[threading.Event]:
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(audit_, name="audit", rich_help_panel="Operators")
