"""One process that uses a store and is killed in the middle. Run as a script by test_sqlite_kill.py; no test is here.

    sqlite_worker.py MODE PATH [ARGUMENT]

It says on standard output how far it has come, one word a line, and waits for standard input where it is to be killed.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import cast

from forbear.errors import StaleWrite, StoreError
from forbear.ports import Commit, JournalLine, Row
from forbear.runtime.clock import SystemClock
from forbear.store.sqlite import SqliteStore, open_sqlite
from forbear.testing.clock import SequenceIds

TREE = "tree:run-1"


def say(word: object) -> None:
    """Tell the test, at once."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def wait() -> None:
    """Wait to be told to go on, or to be killed."""
    sys.stdin.readline()


def line(number: int) -> JournalLine:
    """Return a journal line about a number."""
    return JournalLine(
        at_us=number, scope=TREE, run="run-1", rule="a.b.c", tool="t", action="a", request_id="", body=b"{}"
    )


def started(owner: str, key: str = "a") -> Row:
    """Return a row with an open attempt of an owner."""
    return Row(scope=TREE, kind="action", key=key, body=b"started", owner=owner)


def hold(store: SqliteStore, owner: str) -> None:
    """Start an attempt and be killed during it."""
    store.register(owner)
    store.commit(Commit(expected={TREE: store.load(TREE).version}, puts=(started(owner),)))
    say("started")
    wait()


def registered(store: SqliteStore, owner: str) -> None:
    """Be killed between declaring an owner and the first commit."""
    store.register(owner)
    say("registered")
    wait()


def inside(store: SqliteStore, owner: str) -> None:
    """Be killed inside a write transaction, with half of it written."""

    class Stopping:
        def __getattr__(self, name: str) -> object:
            if name == "kind":
                say("inside")
                wait()
            return TREE if name == "scope" else None

    store.register(owner)
    stopping = cast("Row", Stopping())
    change = Commit(expected={TREE: store.load(TREE).version}, puts=(started(owner), stopping), journal=(line(1),))
    store.commit(change)


def count(store: SqliteStore, times: str) -> None:
    """Add 1 to a stored number so many times, and say each number once it is stored."""
    done = 0
    while done < int(times):
        read = store.load(TREE)
        number = 1 + (int(read.rows[0].body) if read.rows else 0)
        row = Row(scope=TREE, kind="run", key="n", body=str(number).encode())
        try:
            store.commit(Commit(expected={TREE: read.version}, puts=(row,), journal=(line(number),)))
        except StaleWrite:
            say("stale")
        else:
            say(number)
            done += 1


def race(store: SqliteStore, key: str) -> None:
    """Commit once at the version that was read before the other process committed."""
    version = store.load(TREE).version
    say("read")
    wait()
    try:
        store.commit(Commit(expected={TREE: version}, puts=(started("own_1", key),)))
    except StaleWrite:
        say("stale")
    else:
        say("committed")


def fill(store: SqliteStore, limit: str) -> None:
    """Commit under a limit of file size, as on a disk that is full; then without it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    rows = tuple(Row(scope=TREE, kind="result", key=f"{n}", body=b"x" * 60_000) for n in range(20))
    try:
        store.commit(Commit(expected={TREE: 1}, puts=(*rows, started("own_1")), journal=(line(1),)))
    except StoreError as error:
        say(type(error).__name__)
    else:
        say("committed")
    say(len(store.load(TREE).rows))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.commit(Commit(expected={TREE: 1}, puts=(*rows, started("own_1")), journal=(line(1),)))
    say(len(store.load(TREE).rows))


def fork(store: SqliteStore, owner: str) -> None:
    """Fork with an attempt open, and be killed while the child lives on."""
    store.register(owner)
    store.commit(Commit(expected={TREE: 0}, puts=(started(owner),)))
    child = os.fork()
    if child == 0:
        try:
            store.load(TREE)
        except StoreError:
            say("refused")
        store.close()
        own = open_sqlite(sys.argv[2], clock=SystemClock())
        say(len(own.load(TREE).rows))
        own.close()
        sys.stdin.read()
        os._exit(0)
    wait()


def as_nobody(path: str) -> None:
    """Open a store whose folder or file may not be written, without the rights of root."""
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        open_sqlite(path, clock=SystemClock())
    except StoreError as error:
        say(type(error).__name__)
    else:
        say("opened")


def main(mode: str, path: str, argument: str = "") -> None:
    """Do one thing with the store at a path."""
    if mode == "as_nobody":
        as_nobody(path)
        return
    store = open_sqlite(Path(path), clock=SystemClock())
    work = {
        "hold": hold,
        "registered": registered,
        "inside": inside,
        "count": count,
        "race": race,
        "fill": fill,
        "fork": fork,
    }
    work[mode](store, argument or SequenceIds().owner())
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
