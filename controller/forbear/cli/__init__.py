"""The command `forbear`: reads arguments, calls one function of the layer that knows, prints what it returns.

Nothing is decided here, and nothing is written by other layers to the terminal. Commands of adapters are found through
the entry-point group ``forbear.commands``. Every error is one line on stderr and exit code 2; a check that ran and found
something exits with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Annotated

import typer

from forbear.cli import answers, audit, checks, classified, doctor, reading, worker
from forbear.cli.terminal import FOUND, OK, complain
from forbear.errors import ConfigError, ForbearError

__all__ = ["main"]

COMMANDS = "forbear.commands"

ABOUT = """A deterministic recovery controller for AI agents' tool calls.

It stands between a model that proposes tool calls and the code that executes them: \
what was refused stays refused, what may have happened is not repeated, \
and what should be tried later is tried once, by the controller."""


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
        return complain(plain(message)) if (message := error.format_message()) else OK
    except ForbearError as error:
        return complain(str(error))
    except UnicodeDecodeError as error:
        return complain(f"a file is not UTF-8: {error.reason} at byte {error.start}")
    except OSError as error:
        return complain(f"{error.filename!r}: {error.strerror}" if error.filename else f"{error.strerror}")
    except typer.Abort:
        return complain("stopped", code=FOUND)


def plain(message: str) -> str:
    """Return a message of typer's without the words of the library that it validates with."""
    return message.replace(": Value error, ", ": ")


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
    app = typer.Typer(help=ABOUT, no_args_is_help=True, add_completion=True)
    app.callback()(options)
    reading.add_to(app)
    answers.add_to(app)
    worker.add_to(app)
    audit.add_to(app)
    checks.add_to(app)
    classified.add_to(app)
    doctor.add_to(app)
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
