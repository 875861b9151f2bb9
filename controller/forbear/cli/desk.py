"""An operator's place at a store: which store, whose token, what a ticket means. Commands are in `answers`, `reading`.

Nothing is decided here, and nothing of a store is printed here.
"""

from __future__ import annotations

import getpass
import json
import re
import sys
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forbear.cli.terminal import note
from forbear.errors import ForbearError, NotOperator, UsageError

if TYPE_CHECKING:
    from forbear.runtime.controller import Controller
    from forbear.runtime.operator import Operator
    from forbear.runtime.pending import Pending

STORE = "FORBEAR_STORE"
ACTOR = "FORBEAR_ACTOR"
TOKEN = "FORBEAR_TOKEN"  # noqa: S105 - a variable's name
# So many characters of a ticket at least stand for it: "tkt_" and four of its own.
SHORTEST = 8
# So many calls, and so many holds, are offered where nothing of a ticket is typed yet.
MOST = 200

# Shells evaluate what a completion prints: names of others are reduced to characters that mean nothing to any of them.
_UNSAFE = re.compile(r"[^A-Za-z0-9_. -]")

At = Annotated[
    str | None,
    typer.Option(
        "--store", envvar=STORE, metavar="PATH|URL", help="The store; default: the user's own.", rich_help_panel="Store"
    ),
]
BEGINNING = f"The ticket, or its beginning ({SHORTEST} characters at least)."
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN",
        help="The operator token, where the store has one; it is asked for on a terminal.",
        rich_help_panel="Store",
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--actor",
        envvar=ACTOR,
        metavar="NAME",
        help="Who answers, for the record; default: the user.",
        rich_help_panel="Store",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@dataclass(frozen=True, slots=True)
class Desk:
    """One open store, and who is at it."""

    controller: Controller
    operator: Operator

    @property
    def now(self) -> datetime:
        """Return the present instant of the store's clock."""
        return self.controller.engine.clock.now()

    def one(self, ticket: str, kinds: frozenset[str], what: str) -> Pending:
        """Return the one thing of these kinds that waits under a ticket, or under the beginning of one.

        Raises:
            UsageError: there is none, or the beginning fits several tickets.
        """
        if ticket.startswith("act_"):
            raise UsageError(
                f"ticket {ticket!r}: is a request id; 'forbear pending' shows the ticket that goes with it"
            )
        if len(ticket) < SHORTEST:
            raise UsageError(f"ticket: must be at least {SHORTEST} characters long")
        found = [one for one in self.operator.find(ticket) if one.kind in kinds]
        if not found:
            raise UsageError(f"ticket {ticket!r}: is not that of {what} (unknown, or over already)")
        if len(found) > 1:
            raise UsageError(f"ticket {ticket!r}: {len(found)} tickets begin like this")
        return found[0]

    def hold(self, ticket: str) -> Pending | None:
        """Return the hold that carries a ticket."""
        return next((one for one in self.operator.find(ticket) if one.kind == "hold"), None)


@contextmanager
def at_store(store: str | None, *, actor: str | None = None, makes: bool = False) -> Generator[Desk]:
    """Open a store for reading, or for answers where it has no operator token.

    Args:
        store: Path or URL; None = the user's own.
        actor: Who answers.
        makes: A store that is not there is made.

    Raises:
        UsageError: there is no such store.
        StoreError: it cannot be opened.
    """
    # Imported when a command runs: `forbear --help` stays fast.
    from forbear.runtime.controller import Controller
    from forbear.runtime.operator import Operator

    if not makes:
        _must_exist(store)
    with _warnings_in_one_line():
        controller = Controller.open(store, worker=False)
    with controller:
        yield Desk(controller, Operator(controller, actor=actor or _user()))


@contextmanager
def at_desk(store: str | None, token: str | None, actor: str | None) -> Generator[Desk]:
    """Open a store for answers; its token is asked for where it has one, none was given, and a person is there.

    Raises:
        NotOperator: the store has another token, or one and none was given.
    """
    from forbear.runtime.operator import Operator

    with at_store(store, actor=actor) as desk:
        if not desk.operator.has_token:
            yield desk
            return
        if not token:
            if not sys.stdin.isatty():
                raise NotOperator(f"token: the store has an operator token; set {TOKEN} or pass --token")
            token = typer.prompt("Operator token", hide_input=True, err=True)
        yield Desk(desk.controller, Operator(desk.controller, actor=actor or _user(), token=token))


def _must_exist(store: str | None) -> None:
    if store is None or "://" not in store:
        store_file(store)


def store_file(store: str | None) -> Path:
    """Return the file of a store that is a file.

    Raises:
        UsageError: it is not there, or it is a folder.
    """
    from forbear.store.sqlite import default_path

    path = default_path() if store is None else Path(store)
    if path.is_dir():
        raise UsageError(f"store {str(path)!r}: is a folder; name the file in it")
    if not path.exists():
        raise UsageError(f"store {str(path)!r}: is not there; a controller or 'forbear init' makes it")
    return path


@contextmanager
def _warnings_in_one_line() -> Generator[None]:
    """Say in one line each what is warned about while a store is opened."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        note(str(warning.message))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


def ticket_of(*kinds: str) -> Callable[[typer.Context, str], Iterable[tuple[str, str]]]:
    """Return the shell completion of a ticket of these kinds: tickets of the store, with tool and run."""

    def complete(context: typer.Context, incomplete: str) -> Iterable[tuple[str, str]]:
        store = context.params.get("store")
        try:
            _must_exist(store)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with at_store(store) as desk:
                    # As much of a ticket as is there is looked up by the store's index.
                    found = desk.operator
                    waiting = found.find(incomplete, whole=False) if incomplete else found.pending(limit=MOST)
            return [
                (one.ticket, _UNSAFE.sub("_", f"{one.kind} {one.tool} in run {one.run}"))
                for one in waiting
                if one.kind in kinds and one.ticket.startswith(incomplete) and not _UNSAFE.search(one.ticket)
            ]
        except (ForbearError, OSError):
            # In the middle of a command line there is nobody to tell.
            return []

    return complete


def print_json(value: object) -> None:
    """Print a value as JSON: instants in RFC 3339, other characters than ASCII escaped."""
    typer.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: object) -> object:
    from forbear.core.view import instant_text

    if isinstance(value, datetime):
        return instant_text(value)
    raise TypeError
