"""Real processes on one SQLite file, killed with SIGKILL: what was committed is there, and nothing else is."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forbear.audit.files import verify_file
from forbear.errors import StaleWrite
from forbear.ports import Commit, Row
from forbear.store.sqlite import SqliteStore, open_sqlite
from forbear.testing.clock import ManualClock

WORKER = Path(__file__).with_name("sqlite_worker.py")
TREE = "tree:run-1"

# The machine's SQLite may have the bug that the store warns about; that it warns is tested in the units.
pytestmark = pytest.mark.filterwarnings("ignore:several processes use one store:RuntimeWarning")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store of a test is."""
    return tmp_path / "forbear.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Start a worker on the store; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def start_one(mode: str, *arguments: str, at: Path = path) -> subprocess.Popen[str]:
        running.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(WORKER), mode, str(at), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        )
        return running[-1]

    yield start_one
    for worker in running:
        worker.kill()
        worker.communicate()


def heard(worker: subprocess.Popen[str]) -> str:
    """Return the next word of a worker."""
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def tell(worker: subprocess.Popen[str]) -> None:
    """Let a worker go on."""
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def kill(worker: subprocess.Popen[str]) -> None:
    """End a worker as the kernel does when memory runs out."""
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """Open the store in this process."""
    opened = open_sqlite(path, clock=ManualClock())
    yield opened
    opened.close()


def is_sound(path: Path) -> bool:
    """Let SQLite check its own file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def test_a_killed_process_leaves_its_attempt_to_be_found(store: SqliteStore, start: Start) -> None:
    """While it lives its row is nobody else's business; once it is killed the row is there, and lost."""
    worker = start("hold", "own_worker")
    assert heard(worker) == "started"
    assert [row.key for row in store.load(TREE).rows] == ["a"]
    assert list(store.lost()) == []
    kill(worker)
    assert [(row.key, row.owner, row.body) for row in store.lost()] == [("a", "own_worker", b"started")]
    assert [row.key for row in store.lost()] == ["a"]


def test_a_store_that_opens_after_the_kill_finds_it_too(path: Path, start: Start) -> None:
    """Recovery needs no process that was there before."""
    worker = start("hold", "own_worker")
    assert heard(worker) == "started"
    kill(worker)
    store = open_sqlite(path, clock=ManualClock())
    assert [row.owner for row in store.lost()] == ["own_worker"]
    store.close()
    assert is_sound(path)


def test_a_process_killed_before_its_first_commit_leaves_nothing(path: Path, store: SqliteStore, start: Start) -> None:
    """Between declaring an owner and committing there is nothing to recover, and its lock file is cleaned away."""
    worker = start("registered", "own_worker")
    assert heard(worker) == "registered"
    owners = path.with_name("forbear.db-owners")
    assert len(list(owners.glob("*.owner"))) == 1
    assert list(store.lost()) == []
    assert len(list(owners.glob("*.owner"))) == 1
    kill(worker)
    assert list(store.lost()) == []
    assert list(owners.glob("*.owner")) == []
    assert store.load(TREE).version == 0


def test_a_process_killed_inside_a_transaction_leaves_nothing_of_it(
    path: Path, store: SqliteStore, start: Start
) -> None:
    """Half a commit is no commit, and its locks are free at once."""
    worker = start("inside", "own_worker")
    assert heard(worker) == "inside"
    kill(worker)
    assert (store.load(TREE).version, list(store.load(TREE).rows), list(store.journal())) == (0, [], [])
    store.commit(Commit(expected={TREE: 0}, puts=(Row(scope=TREE, kind="action", key="b", body=b""),)))
    assert [row.key for row in store.load(TREE).rows] == ["b"]
    store.close()
    assert is_sound(path)


def test_only_one_of_two_processes_commits_what_both_decided(store: SqliteStore, start: Start) -> None:
    """Two processes that read the same version: one is stale, and its row is not there."""
    workers = [start("race", key) for key in ("a", "b")]
    assert [heard(worker) for worker in workers] == ["read", "read"]
    for worker in workers:
        tell(worker)
    said = [heard(worker) for worker in workers]
    assert sorted(said) == ["committed", "stale"]
    winner = "ab"[said.index("committed")]
    assert [row.key for row in store.load(TREE).rows] == [winner]
    assert store.load(TREE).version == 1
    with pytest.raises(StaleWrite):
        store.commit(Commit(expected={TREE: 0}))


def test_no_update_of_concurrent_processes_is_lost(path: Path, store: SqliteStore, start: Start) -> None:
    """Three processes and this one count on one row as fast as they can; every count and journal line is there."""
    before = store.generation()
    workers = [start("count", "60") for _ in range(3)]
    outputs = [worker.communicate()[0].split() for worker in workers]
    numbers = sorted(int(word) for output in outputs for word in output if word != "stale")
    assert numbers == list(range(1, 181))
    assert (store.load(TREE).version, store.load(TREE).rows[0].body) == (180, b"180")
    assert [one.at_us for _, one in store.journal(limit=1000)] == list(range(1, 181))
    assert store.generation() != before
    store.close()
    assert is_sound(path)
    assert verify_file(path).is_intact


def test_what_was_acknowledged_survives_a_kill_at_any_moment(path: Path, start: Start) -> None:
    """Processes that are killed while they commit lose nothing that they had reported, and the file stays sound."""
    reported = 0
    for after in range(1, 9):
        worker = start("count", "100000")
        for _ in range(after * 7):
            reported = int(heard(worker))
        kill(worker)
        assert worker.stdout is not None
        reported = max([reported, *(int(word) for word in worker.stdout.read().split()[:-1] if word.isdigit())])
        store = open_sqlite(path, clock=ManualClock())
        stored = int(store.load(TREE).rows[0].body)
        assert stored >= reported
        assert [one.at_us for _, one in store.journal(limit=10**6)] == list(range(1, stored + 1))
        assert store.load(TREE).version == stored
        reported = stored
        store.close()
        assert is_sound(path)
        # Whatever was cut short left a chain without a gap.
        report = verify_file(path)
        assert (report.is_intact, report.lines) == (True, stored)


def test_opening_a_store_twice_in_one_process_keeps_sqlites_own_locks(path: Path, store: SqliteStore) -> None:
    """Another process that closes the file does not believe that it was the last, and leaves the log in place."""
    store.commit(Commit(expected={TREE: 0}, puts=(Row(scope=TREE, kind="run", key="a", body=b""),)))
    open_sqlite(path, clock=ManualClock()).close()
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute('SELECT count(*) FROM entity')); c.close()"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1,)"
    assert path.with_name("forbear.db-wal").exists()
    store.commit(Commit(expected={TREE: 1}, puts=(Row(scope=TREE, kind="run", key="b", body=b""),)))
    assert len(store.load(TREE).rows) == 2


def test_a_full_disk_stores_nothing_by_half(path: Path, store: SqliteStore, start: Start) -> None:
    """The operating system refuses the write: nothing of the commit is there, and it works once there is space."""
    store.commit(Commit(expected={TREE: 0}, puts=(Row(scope=TREE, kind="run", key="first", body=b""),)))
    worker = start("fill", str(400_000))
    assert [heard(worker) for _ in range(3)] == ["StoreError", "1", "22"]
    assert worker.wait() == 0
    assert (store.load(TREE).version, len(store.load(TREE).rows), len(store.journal())) == (2, 22, 1)
    store.close()
    assert is_sound(path)


def test_a_forked_child_keeps_nobody_alive(store: SqliteStore, start: Start) -> None:
    """A child cannot use its parent's store, opens its own, and does not hold the dead parent's locks."""
    worker = start("fork", "own_parent")
    assert [heard(worker) for _ in range(2)] == ["refused", "1"]
    assert list(store.lost()) == []
    kill(worker)
    assert [row.owner for row in store.lost()] == ["own_parent"]
    store.commit(Commit(expected={TREE: 1}, puts=(Row(scope=TREE, kind="run", key="b", body=b""),)))


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that an ordinary user can reach (root's temporary folders are closed)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_a_store_that_may_not_be_written_is_not_opened(public: Path, start: Start) -> None:
    """A read-only folder, or a file or lock of somebody else, is a StoreError, and nothing was made or changed."""
    public.chmod(0o555)
    assert heard(start("as_nobody", at=public / "forbear.db")) == "StoreError"
    assert list(public.iterdir()) == []
    public.chmod(0o755)
    open_sqlite(public / "forbear.db", clock=ManualClock()).close()
    public.chmod(0o777)
    (public / "forbear.db-lock").unlink()
    (public / "forbear.db").chmod(0o444)
    before = (public / "forbear.db").read_bytes()
    assert heard(start("as_nobody", at=public / "forbear.db")) == "StoreError"
    assert (public / "forbear.db").read_bytes() == before
    public.chmod(0o755)
