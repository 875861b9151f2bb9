"""`forbear worker`: do what is due in a store with the tools of an application. What a pass does is `Controller.work`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from forbear.cli.objects import find, made_by
from forbear.cli.terminal import note, one_line
from forbear.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from forbear.runtime.controller import Controller
    from forbear.runtime.reply import Reply

# Seconds between looks at most: another process may have answered a prompt or scheduled something earlier.
POLL = 1.0


def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="A Controller, or a function that returns one.")
    ],
    *,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, then leave.")] = False,
) -> None:
    """Run what is due for an application's controller, until SIGINT or SIGTERM; what runs then is waited for."""
    with load(target) as controller, _until_stopped() as stopped:
        while not stopped.is_set():
            _work(controller)
            if once:
                return
            stopped.wait(_pause(controller))


def load(target: str) -> Controller:
    """Return the controller that ``module:object`` names, looked for in the current folder, too.

    Raises:
        ConfigError: there is no such module or object, it is no controller, or one that is closed already.
    """
    from forbear.runtime.controller import Controller

    found = find(target)
    if not isinstance(found, Controller) and callable(found):
        found = made_by(found, target)
    if isinstance(found, Controller) and found.is_closed:
        raise ConfigError(
            f"target: the controller {target.partition(':')[2]!r} is closed; leave it open for the worker"
        )
    if not isinstance(found, Controller):
        raise ConfigError(f"target: {target.partition(':')[2]!r} must be a Controller or a function that returns one")
    return found


def _work(controller: Controller) -> None:
    try:
        for reply in controller.work():
            typer.echo(_line(reply))
    except StoreError as error:
        # What was done stays done, and what is due stays due.
        note(str(error))


def _line(reply: Reply) -> str:
    """Say what became of a due call: never its arguments or its result."""
    code = f" {reply.envelope.code}" if reply.envelope.code else ""
    return one_line(f"{reply.tool} {reply.answer}{code} run={reply.run} {reply.request_id}")


def _pause(controller: Controller) -> float:
    due = controller.next_due_at
    if due is None:
        return POLL
    left = (due - controller.engine.clock.now()) / timedelta(seconds=1)
    # What is overdue and still there cannot be done here: no busy loop.
    return POLL if left <= 0 else min(left, POLL)


@contextmanager
def _until_stopped() -> Generator[threading.Event]:
    """Let a signal end the loop after the pass that is under way; a second one ends it at once."""
    stopped = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_to(app: typer.Typer) -> None:
    """Add this command."""
    app.command("worker", rich_help_panel="Operators")(worker)
