"""Commands that look at files: schemas, catalogues of codes, test vectors. They call the layer that knows and print."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from forbear.cli.terminal import FOUND, OK, count, one_line, say

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Files = Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, readable=True)]


class Schema(StrEnum):
    """The forms that have a JSON Schema."""

    ENVELOPE = "envelope"
    CATALOGUE = "catalogue"
    POLICY = "policy"


def schema(
    name: Annotated[Schema | None, typer.Argument(help="Which one; none = all, in one object by file name.")] = None,
    into: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, writable=True, help="Write the files to this folder.")
    ] = None,
) -> None:
    """Print the JSON Schema of an envelope, a catalogue file or a policy file."""
    from forbear.contract.schema import schema_text, schemas

    chosen = {file: form for file, form in schemas().items() if name is None or file == f"{name}.schema.json"}
    if into is not None:
        for file, form in chosen.items():
            (into / file).write_text(schema_text(form), "utf-8")
            typer.echo(str(into / file))
        return
    document: dict[str, object] = {**chosen} if name is None else chosen[f"{name}.schema.json"]
    typer.echo(schema_text(document), nl=False)


catalog = typer.Typer(help="Check, render and compare catalogues of codes.", no_args_is_help=True)


@catalog.command("check")
def catalog_check(files: Files) -> None:
    """Lint catalogue files: print one line per finding and exit with 1 if there is any."""
    from forbear.contract.catalogue_files import check

    found = [(path, finding) for path in files for finding in check(path)]
    for path, finding in found:
        say(
            (f"{path}: ", "dim"),
            (f"{finding.code} " if finding.code else "", "bold"),
            (f"{finding.rule}: ", "cyan"),
            (finding.message, ""),
        )
    say((f"{count(len(found), 'finding')} in {count(len(files), 'file')}", "bold red" if found else "bold green"))
    raise typer.Exit(FOUND if found else OK)


@catalog.command("render")
def catalog_render(
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, readable=True, help="None = the built-in catalogue.")
    ] = None,
) -> None:
    """Print a catalogue as Markdown: laid out on a terminal, as its source to a file."""
    from rich.console import Console
    from rich.markdown import Markdown

    from forbear.contract.catalogue_files import render

    text = render(file)
    if sys.stdout.isatty():
        Console().print(Markdown(text))
    else:
        typer.echo(text, nl=False)


@catalog.command("diff")
def catalog_diff(old: File, new: File) -> None:
    """Say how two versions of a catalogue differ; exit with 1 if a difference breaks clients."""
    from forbear.contract.catalogue_files import diff

    changes = diff(old, new)
    for change in changes:
        mark = ("breaks clients  ", "bold red") if change.breaking else ("safe            ", "green")
        say(mark, (f"{change.code} ", "bold"), (f"{change.kind}: ", "cyan"), (change.message, ""))
    breaking = sum(change.breaking for change in changes)
    say((f"{count(len(changes), 'change')}, {breaking} breaking clients", "bold red" if breaking else "bold green"))
    raise typer.Exit(FOUND if breaking else OK)


vectors = typer.Typer(help="Run test vectors: whole stories and single signals.", no_args_is_help=True)


@vectors.command("run")
def vectors_run(files: Files) -> None:
    """Run vector files (journeys or signals) and print one line per failing case: id, event, expected, got."""
    from rich.console import Console
    from rich.progress import Progress

    from forbear.testing.vectors import run as run_vectors

    # On a terminal only, and gone when done: what is printed to a file is the failures and the closing line.
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("vectors", total=None)
        report = run_vectors(files, progress=lambda done, total: bar.update(task, completed=done, total=total))
    for note in report.notes:
        typer.echo(one_line(f"note: {note}"), err=True)
    for failure in report.failures:
        cells = (failure.id, failure.event, failure.expected, failure.got)
        typer.echo("  ".join(one_line(cell) for cell in cells))
    failed = sum(1 for _ in groupby(report.failures, key=lambda failure: failure.id))
    typer.echo(f"{report.passed} passed, {failed} failed")
    raise typer.Exit(FOUND if failed else OK)


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("schema")(schema)
    app.add_typer(catalog, name="catalog")
    app.add_typer(vectors, name="vectors")
