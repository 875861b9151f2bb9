"""The command `forbear`: reads arguments, calls one function of the layer that knows, prints what it returns.

Nothing is decided here, and nothing is written by other layers to the terminal. Commands of adapters are found through
the entry-point group ``forbear.commands``. Every error is one line on stderr and exit code 2; a check that ran and found
something exits with 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from forbear.errors import ConfigError, ForbearError

__all__ = ["main"]

COMMANDS = "forbear.commands"
OK, FOUND, MISUSE = 0, 1, 2

ABOUT = """A deterministic recovery controller for AI agents' tool calls.

It stands between a model that proposes tool calls and the code that executes them: \
what was refused stays refused, what may have happened is not repeated, \
and what should be tried later is tried once, by the controller."""

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Files = Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, readable=True)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a check found something, 2 misuse or broken input.

    Args:
        argv: The arguments without the program's name; None = those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    app = application()
    added = added_commands(app)
    try:
        if arguments and arguments[0] in added:
            return run(load(added[arguments[0]]), arguments[1:], called=f"forbear {arguments[0]}")
        return run(app, arguments, called="forbear")
    except typer.TyperException as error:
        # Asked without a command, typer prints its help and raises this with no message.
        return complain(message) if (message := error.format_message()) else OK
    except ForbearError as error:
        return complain(str(error))
    except UnicodeDecodeError as error:
        return complain(f"a file is not UTF-8: {error.reason} at byte {error.start}")
    except OSError as error:
        return complain(f"{error.filename!r}: {error.strerror}" if error.filename else f"{error.strerror}")
    except typer.Abort:
        return complain("stopped", code=FOUND)


def complain(message: str, *, code: int = MISUSE) -> int:
    """Print one line on stderr and return the exit code."""
    typer.echo(f"forbear: {one_line(message)}", err=True)
    return code


def one_line(text: object) -> str:
    """Return a text as one printable line: white space runs become a space, other control characters are escaped."""
    return escaped(" ".join(str(text).split()))


def escaped(text: str) -> str:
    """Return a text with every character that a terminal might obey, and every invisible one, made visible."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def run(app: typer.Typer, arguments: list[str], *, called: str) -> int:
    """Run a typer app and return its exit code instead of leaving the process."""
    result: object = typer.main.get_command(app)(args=arguments, prog_name=called, standalone_mode=False)
    return result if isinstance(result, int) else OK


# --- commands of adapters ------------------------------------------------------------------------------------------


def added_commands(app: typer.Typer) -> dict[str, EntryPoint]:
    """Return the commands that installed packages add, by name, and name them in the help, which imports none of them.

    A command of the core cannot be replaced.
    """
    own = {group.name for group in app.registered_groups} | {command.name for command in app.registered_commands}
    added = {entry.name: entry for entry in entry_points(group=COMMANDS) if entry.name not in own}
    if added:
        lines = [f"forbear {name}: {install_command(entry)}" for name, entry in sorted(added.items())]
        app.info.epilog = "Added commands, and what installs what they need: " + "; ".join(lines)
    return added


def load(entry: EntryPoint) -> typer.Typer:
    """Import an added command.

    Raises:
        ConfigError: its extra is not installed (the message is the command that installs it), or it is no command.
    """
    try:
        command: object = entry.load()
    except ImportError as error:
        raise ConfigError(f"command {entry.name!r} needs {install_command(entry)}") from error
    if isinstance(command, typer.Typer):
        return command
    if not callable(command):
        raise ConfigError(f"command {entry.name!r}: entry point {entry.value!r} must be a typer app or a function")
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    return app


def install_command(entry: EntryPoint) -> str:
    """Return the pip command that installs what an added command needs."""
    name = entry.dist.name if entry.dist else "forbear"
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    return f"pip install '{name}{extras}'"


# --- commands of the core ------------------------------------------------------------------------------------------


def application() -> typer.Typer:
    """Build the typer app with the commands of the core."""
    app = typer.Typer(help=ABOUT, no_args_is_help=True, add_completion=False)
    app.callback()(options)
    app.command("classify")(classify)
    app.command("schema")(schema)
    app.add_typer(catalog, name="catalog")
    app.add_typer(vectors, name="vectors")
    return app


def show_version(asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        try:
            typer.echo(f"forbear {version('forbear')}")
        except PackageNotFoundError:
            typer.echo("forbear, not installed: run from its sources")
        raise typer.Exit(OK)


def options(
    show: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Accept the options that come before a command."""
    del show  # its callback did the work


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


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def say(*parts: tuple[str, str]) -> None:
    """Print one line of (text, style) parts: coloured on a terminal, never wrapped, nothing in it read as markup."""
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=True).print(Text.assemble(*((escaped(text), style) for text, style in parts)))


class DeclaredEffect(StrEnum):
    """What may be declared about a tool's effect."""

    READ = "read"
    WRITE = "write"


def classify(
    tool: Annotated[str, typer.Option(help="The tool's name in the policy file.")],
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, readable=True, help="The result; none = stdin.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="A policy file in TOML.")
    ] = None,
    effect: Annotated[DeclaredEffect | None, typer.Option(help="Without a policy: what is declared.")] = None,
    profile: Annotated[str | None, typer.Option(help="The vendor whose conventions apply.")] = None,
    now: Annotated[str | None, typer.Option(help="The instant of receipt (RFC 3339); none = now.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what one result means: its class, what decided, when it would be tried again, what the model would see.

    The result is JSON in the form of `input` in a signal vector: kind http, exception, mcp, grpc, process or value.
    """
    from forbear.contract import builtin_catalogue, load_profile, policies_from_toml, tool_policy
    from forbear.contract.explain import explain, members_of
    from forbear.contract.time import iso_instant
    from forbear.runtime.clock import SystemClock
    from forbear.testing.signals import signal_from

    raw, named = signal_from(sys.stdin.read() if file is None else file.read_text("utf-8"))
    at = SystemClock().now() if now is None else iso_instant(now)
    if at is None:
        raise ConfigError("--now must be an RFC 3339 time")
    if policy is not None and effect is not None:
        raise ConfigError("--effect is for a tool without --policy")
    declared = {} if policy is None else policies_from_toml(policy)
    if policy is not None and tool not in declared:
        raise ConfigError(f"policy file: tool {tool!r} is not declared in it")
    vendor = profile or named
    said = explain(
        raw,
        policy=declared.get(tool) or tool_policy(tool, **({} if effect is None else {"effect": effect.value})),
        arguments={},
        now=at,
        catalogue=builtin_catalogue(),
        profile=None if vendor is None else (vendor, load_profile(vendor)),
    )
    members = members_of(said)
    if as_json:
        typer.echo(json.dumps(members))
        return
    for name, value in members.items():
        say((f"{name:<11}", "dim"), ("-" if value is None else value, ""))


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
    for failure in report.failures:
        cells = (failure.id, failure.event, failure.expected, failure.got)
        typer.echo("  ".join(one_line(cell) for cell in cells))
    failed = sum(1 for _ in groupby(report.failures, key=lambda failure: failure.id))
    typer.echo(f"{report.passed} passed, {failed} failed")
    raise typer.Exit(FOUND if failed else OK)
