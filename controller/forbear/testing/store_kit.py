"""What every store must do, as tests that anybody can run against their own: subclass, and give a fixture `opener`.

    class TestMine(SharedStoreKit):
        @pytest.fixture
        def opener(self, tmp_path):
            ...  # return a function; each call opens the same database; close what was opened afterwards

`StoreKit` needs one open store at a time; `SharedStoreKit` adds what holds between two on one database. No test sleeps,
reads the real time or imports pytest. What a store's own files look like is not tested here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from forbear.errors import ForbearError, StaleWrite, StoreError, UsageError
from forbear.ports import Commit, JournalLine, Row, Store

__all__ = ["Opener", "SharedStoreKit", "StoreKit"]

Opener = Callable[[], Store]

TREE = "tree:run-1"
OTHER = "tree:run-2"
QUOTA = "principal:acme"


def row(
    key: str,
    body: bytes = b"{}",
    *,
    scope: str = TREE,
    kind: str = "action",
    due_us: int | None = None,
    owner: str | None = None,
    ticket: str | None = None,
    request_id: str | None = None,
    live: bool = True,
) -> Row:
    """Return a row whose columns are of no interest but those that are given."""
    return Row(
        scope=scope,
        kind=kind,
        key=key,
        body=body,
        due_us=due_us,
        owner=owner,
        ticket=ticket,
        request_id=request_id,
        live=live,
    )


def line(number: int, *, scope: str = TREE, request_id: str = "", action: str = "a" * 32) -> JournalLine:
    """Return a journal line that can be told from others by its instant."""
    return JournalLine(
        at_us=number,
        scope=scope,
        run="run-1",
        rule="fresh.proposed.start",
        tool="place_order",
        action=action,
        request_id=request_id,
        body=f"line {number}".encode(),
    )


def put(store: Store, *rows: Row) -> None:
    """Commit rows at the versions that their scopes have now."""
    store.commit(Commit(expected={one.scope: store.load(one.scope).version for one in rows}, puts=rows))


def refused(kind: type[ForbearError], action: Callable[[], object]) -> None:
    """Assert that something raises an error of a kind."""
    try:
        action()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def keys(rows: Sequence[Row]) -> list[str]:
    """Return the keys of rows in order."""
    return [one.key for one in rows]


def count_up(store: Store, times: int) -> None:
    """Add 1 to a stored number so many times, as the runtime does: read, decide, commit, and again where it lost."""
    done = 0
    while done < times:
        read = store.load(TREE)
        number = int(read.rows[0].body) if read.rows else 0
        try:
            store.commit(
                Commit(
                    expected={TREE: read.version}, puts=(row("n", str(number + 1).encode()),), journal=(line(number),)
                )
            )
        except StaleWrite:
            continue
        done += 1


def in_threads(*work: Callable[[], object]) -> None:
    """Do several things at the same time; an error of any of them is raised here."""
    errors: list[BaseException] = []

    def guarded(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class StoreKit:
    """The promises of one open store."""

    # ---- rows and versions ------------------------------------------------------------------------------------------

    def test_a_scope_that_was_never_written_is_empty(self, opener: Opener) -> None:
        """Nothing and version 0 is what an unknown scope, key, ticket or request has."""
        store = opener()
        read = store.load(TREE)
        assert (read.version, list(read.rows)) == (0, [])
        assert store.fetch(TREE, "action", "a") is None
        assert store.by_ticket("tkt_1") is None
        assert (list(store.tickets()), list(store.lost()), list(store.due(2**62, 10))) == ([], [], [])
        assert store.next_due_us() is None
        assert list(store.journal()) == []

    def test_a_row_comes_back_as_it_was(self, opener: Opener) -> None:
        """Every column of a row is stored, whatever its texts and bytes are."""
        store = opener()
        full = row(
            "run\x1fstep\x1f\N{SNOWMAN}",
            bytes(range(256)),
            kind="hold",
            due_us=1_767_225_600_000_001,
            owner="own_'\"; --",
            ticket="tkt_1",
            request_id="act_1",
        )
        put(store, full, row("b", b""), row("c", b"x" * 200_000))
        assert list(store.load(TREE).rows) == [full, row("b", b""), row("c", b"x" * 200_000)]
        assert store.fetch(TREE, "hold", full.key) == full

    def test_texts_that_differ_are_different_keys(self, opener: Opener) -> None:
        """Case, spaces, an empty text and a NUL are all part of a key; so are scope and kind."""
        store = opener()
        rows = [row(key, key.encode()) for key in ("a", "A", " a", "a ", "", "a\x00", "a\x00b")]
        rows += [row("a", b"kind", kind="hold"), row("a", b"scope", scope=OTHER)]
        put(store, *rows)
        assert [store.fetch(one.scope, one.kind, one.key) for one in rows] == rows

    def test_a_commit_bumps_each_written_scope_by_one(self, opener: Opener) -> None:
        """However many rows it has, a commit adds one to the scopes that it writes and nothing to those it relied on."""
        store = opener()
        put(store, row("q", scope=QUOTA))
        store.commit(Commit(expected={TREE: 0, OTHER: 0, QUOTA: 1}, puts=(row("a"), row("b"), row("c", scope=OTHER))))
        assert [store.load(scope).version for scope in (TREE, OTHER, QUOTA)] == [1, 1, 1]
        store.commit(Commit(expected={TREE: 1}, drops=((TREE, "action", "a"),), puts=(row("b"),)))
        assert store.load(TREE).version == 2

    def test_journal_lines_alone_bump_nothing(self, opener: Opener) -> None:
        """A decision that changed no row makes no other writer reload."""
        store = opener()
        put(store, row("a"))
        store.commit(Commit(expected={TREE: 1}, journal=(line(1),)))
        store.commit(Commit(expected={}, journal=(line(2),)))
        store.commit(Commit(expected={}))
        assert store.load(TREE).version == 1
        assert len(store.journal()) == 2

    def test_a_put_replaces_the_row_of_its_key(self, opener: Opener) -> None:
        """Columns that the new row leaves empty are empty afterwards."""
        store = opener()
        put(store, row("a", b"old", due_us=5, owner="own_1", ticket="tkt_1", request_id="act_1"))
        put(store, row("a", b"new"))
        assert list(store.load(TREE).rows) == [row("a", b"new")]
        assert store.next_due_us() is None
        assert store.by_ticket("tkt_1") is None
        assert list(store.lost()) == []

    def test_a_dropped_row_is_gone(self, opener: Opener) -> None:
        """A drop removes exactly its row, and an absent row can be dropped."""
        store = opener()
        put(store, row("a", due_us=1), row("b"), row("a", kind="hold"), row("a", scope=OTHER))
        store.commit(Commit(expected={TREE: 1}, drops=((TREE, "action", "a"), (TREE, "action", "never"))))
        assert store.fetch(TREE, "action", "a") is None
        assert keys(store.load(TREE).rows) == ["b", "a"]
        assert keys(store.load(OTHER).rows) == ["a"]
        assert store.next_due_us() is None

    def test_a_row_may_be_dropped_and_put_in_one_commit(self, opener: Opener) -> None:
        """Drops come before puts."""
        store = opener()
        put(store, row("a", b"old"))
        store.commit(Commit(expected={TREE: 1}, drops=((TREE, "action", "a"),), puts=(row("a", b"new"),)))
        assert store.fetch(TREE, "action", "a") == row("a", b"new")

    def test_rows_that_are_not_live_are_only_fetched(self, opener: Opener) -> None:
        """A row leaves its scope's snapshot when it stops being live, and returns when it is live again."""
        store = opener()
        put(store, row("a", ticket="tkt_1"), row("b"))
        put(store, row("a", ticket="tkt_1", live=False))
        assert keys(store.load(TREE).rows) == ["b"]
        assert store.fetch(TREE, "action", "a") == row("a", ticket="tkt_1", live=False)
        assert store.by_ticket("tkt_1") is None
        assert list(store.tickets()) == []
        put(store, row("a", ticket="tkt_1"))
        assert sorted(keys(store.load(TREE).rows)) == ["a", "b"]
        assert store.by_ticket("tkt_1") == row("a", ticket="tkt_1")

    # ---- all or nothing ---------------------------------------------------------------------------------------------

    def test_a_stale_commit_writes_nothing(self, opener: Opener) -> None:
        """One scope at another version refuses the whole commit: rows, drops, versions and journal."""
        store = opener()
        put(store, row("a", b"first"))
        put(store, row("a", b"second"))
        for expected in ({TREE: 1, OTHER: 0}, {TREE: 0, OTHER: 0}, {TREE: 3, OTHER: 0}, {TREE: 2, OTHER: 1}):
            change = Commit(
                expected=expected,
                puts=(row("b", scope=OTHER), row("a", b"third")),
                drops=((TREE, "action", "a"),),
                journal=(line(1),),
            )
            refused(StaleWrite, partial(store.commit, change))
        assert store.load(TREE).version == 2
        assert list(store.load(TREE).rows) == [row("a", b"second")]
        assert (store.load(OTHER).version, list(store.load(OTHER).rows)) == (0, [])
        assert list(store.journal()) == []

    def test_a_scope_that_was_only_relied_on_makes_a_commit_stale_too(self, opener: Opener) -> None:
        """What a decision looked at is checked, not only what it changes."""
        store = opener()
        put(store, row("hold", scope=QUOTA))
        refused(StaleWrite, lambda: store.commit(Commit(expected={TREE: 0, QUOTA: 0}, puts=(row("a"),))))
        assert store.load(TREE).version == 0

    def test_a_scope_that_was_not_read_cannot_be_written(self, opener: Opener) -> None:
        """A put or a drop outside `expected` is refused, and nothing is written."""
        store = opener()
        put(store, row("b", scope=OTHER))
        refused(UsageError, lambda: store.commit(Commit(expected={TREE: 0}, puts=(row("a"), row("b", scope=OTHER)))))
        refused(UsageError, lambda: store.commit(Commit(expected={TREE: 0}, drops=((OTHER, "action", "b"),))))
        assert (store.load(TREE).version, store.load(OTHER).version) == (0, 1)

    def test_a_commit_that_cannot_be_stored_writes_nothing(self, opener: Opener) -> None:
        """A text that is not Unicode, or an integer beyond 64 bits, in the last row undoes the first."""
        store = opener()
        put(store, row("a", b"first"))
        for wrong in (row("\ud800"), row("b", due_us=2**63), row("b", owner="\udfff")):
            change = Commit(expected={TREE: 1}, puts=(row("a", b"second"), wrong), journal=(line(1),))
            refused(StoreError, partial(store.commit, change))
        assert list(store.load(TREE).rows) == [row("a", b"first")]
        assert store.load(TREE).version == 1
        assert list(store.journal()) == []
        put(store, row("a", b"third"))
        assert store.load(TREE).version == 2

    def test_no_update_of_another_thread_is_lost(self, opener: Opener) -> None:
        """Threads that read, decide and commit one row at the same time all count."""
        store = opener()
        in_threads(*[lambda: count_up(store, 25)] * 4)
        assert (store.load(TREE).version, store.load(TREE).rows[0].body) == (100, b"100")
        assert [one.at_us for _, one in store.journal(limit=1000)] == list(range(100))

    # ---- time -------------------------------------------------------------------------------------------------------

    def test_due_rows_come_earliest_first(self, opener: Opener) -> None:
        """A row is due at its very microsecond, live or not, and `limit` cuts the latest."""
        store = opener()
        put(
            store,
            row("late", due_us=30),
            row("first", due_us=10, live=False),
            row("second", due_us=20, scope=OTHER),
            row("never"),
        )
        assert store.next_due_us() == 10
        assert keys(store.due(9, 10)) == []
        assert keys(store.due(10, 10)) == ["first"]
        assert keys(store.due(30, 10)) == ["first", "second", "late"]
        assert keys(store.due(30, 2)) == ["first", "second"]
        assert keys(store.due(30, 0)) == []
        assert store.due(20, 10)[1] == row("second", due_us=20, scope=OTHER)

    def test_a_row_that_moves_is_due_at_its_new_time_only(self, opener: Opener) -> None:
        """The earliest due instant follows what is stored."""
        store = opener()
        put(store, row("a", due_us=10), row("b", due_us=20))
        put(store, row("a", due_us=30))
        assert store.next_due_us() == 20
        assert keys(store.due(25, 10)) == ["b"]
        assert keys(store.due(30, 10)) == ["b", "a"]

    # ---- tickets ----------------------------------------------------------------------------------------------------

    def test_tickets_come_in_the_order_in_which_they_were_given(self, opener: Opener) -> None:
        """An update keeps a ticket's place; a new ticket on an old row goes to the end; `kind` chooses."""
        store = opener()
        numbers = count(1)

        def step(*rows: Row) -> None:
            expected = {one.scope: store.load(one.scope).version for one in rows}
            store.commit(Commit(expected=expected, puts=rows, journal=(line(next(numbers)),)))

        step(row("plain"))
        step(row("a", ticket="tkt_1"))
        step(row("b", ticket="tkt_2", scope=OTHER, kind="hold"))
        step(row("c", ticket="tkt_3"))
        step(row("a", b"updated", ticket="tkt_1"))
        assert keys(store.tickets()) == ["a", "b", "c"]
        step(row("a", ticket="tkt_4"), row("plain", ticket="tkt_5"))
        assert sorted(keys(store.tickets())[:2]) == ["b", "c"]
        assert sorted(keys(store.tickets())[2:]) == ["a", "plain"]
        assert keys(store.tickets("hold")) == ["b"]
        assert keys(store.tickets("prompt")) == []

    def test_only_the_tickets_that_are_asked_for_are_given(self, opener: Opener) -> None:
        """By the beginning of a ticket, by scope, by kind, and so many at most: always the oldest first."""
        store = opener()
        for one in (
            row("a", ticket="tkt_11"),
            row("b", ticket="tkt_12", scope=OTHER, kind="hold"),
            row("c", ticket="tkt_2"),
            row("d", ticket="tkt_11", kind="hold"),
            row("e", ticket="tkt_1\u00e9", scope=OTHER),
        ):
            put(store, one)
        every = keys(store.tickets())
        assert sorted(every) == ["a", "b", "c", "d", "e"]
        assert sorted(keys(store.tickets(beginning="tkt_1"))) == ["a", "b", "d", "e"]
        assert sorted(keys(store.tickets(beginning="tkt_11"))) == ["a", "d"]
        assert keys(store.tickets("hold", beginning="tkt_11")) == ["d"]
        assert keys(store.tickets(beginning="tkt_3")) == []
        assert sorted(keys(store.tickets(scope=OTHER))) == ["b", "e"]
        assert keys(store.tickets("hold", scope=OTHER)) == ["b"]
        assert keys(store.tickets(beginning="tkt_12", scope="tree:nobody")) == []
        for limit in range(7):
            assert keys(store.tickets(limit=limit)) == every[:limit]
        assert len(store.tickets(beginning="tkt_", limit=2)) == len(store.tickets(scope=OTHER, limit=2)) == 2

    def test_a_ticket_finds_its_row(self, opener: Opener) -> None:
        """Exactly the live row that carries it, in any scope."""
        store = opener()
        put(store, row("a", ticket="tkt_1"), row("b", ticket="tkt_2", scope=OTHER))
        assert store.by_ticket("tkt_2") == row("b", ticket="tkt_2", scope=OTHER)
        assert store.by_ticket("tkt_") is None
        put(store, row("b", ticket="tkt_3", scope=OTHER))
        assert store.by_ticket("tkt_2") is None

    # ---- owners -----------------------------------------------------------------------------------------------------

    def test_rows_of_an_owner_that_never_registered_are_lost(self, opener: Opener) -> None:
        """A crash between register and commit, or before register, leaves nothing that looks alive."""
        store = opener()
        store.register("own_me")
        put(
            store,
            row("mine", owner="own_me"),
            row("lost", owner="own_gone", scope=OTHER),
            row("past", owner="own_gone", live=False),
            row("free"),
        )
        assert list(store.lost()) == [row("lost", owner="own_gone", scope=OTHER)]

    def test_registering_twice_is_harmless(self, opener: Opener) -> None:
        """One process may declare itself again, and several names."""
        store = opener()
        for owner in ("own_1", "own_2", "own_1", "../own/\x00'"):
            store.register(owner)
        put(store, row("a", owner="own_1"), row("b", owner="own_2"), row("c", owner="own_3"))
        assert keys(store.lost()) == ["c"]
        assert keys(store.lost()) == ["c"]

    # ---- journal ----------------------------------------------------------------------------------------------------

    def test_the_journal_keeps_every_line_in_order(self, opener: Opener) -> None:
        """Lines come back as they were, with rising numbers, in pages and by request."""
        store = opener()
        lines = [line(n, request_id=f"act_{n % 2}", scope=TREE if n < 4 else OTHER) for n in range(1, 7)]
        store.commit(Commit(expected={}, journal=tuple(lines[:4])))
        store.commit(Commit(expected={}, journal=tuple(lines[4:])))
        read = store.journal()
        numbers = [seq for seq, _ in read]
        assert [one for _, one in read] == lines
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        assert list(store.journal(after=numbers[1], limit=2)) == list(read[2:4])
        assert list(store.journal(after=numbers[-1])) == []
        assert list(store.journal(limit=0)) == []
        assert [one.at_us for _, one in store.journal(request_id="act_1")] == [1, 3, 5]
        assert [one.at_us for _, one in store.journal(request_id="act_1", after=numbers[0], limit=1)] == [3]

    def test_the_journal_is_read_by_action(self, opener: Opener) -> None:
        """The lines of one action, of none, and of one action in one request are found, in pages."""
        store = opener()
        lines = [line(n, request_id=f"act_{n % 2}", action="" if n % 3 == 0 else "b" * 32) for n in range(1, 9)]
        store.commit(Commit(expected={}, journal=tuple(lines)))
        first = next(seq for seq, _ in store.journal())
        assert [one.at_us for _, one in store.journal(action="b" * 32)] == [1, 2, 4, 5, 7, 8]
        assert [one.at_us for _, one in store.journal(action="b" * 32, after=first, limit=2)] == [2, 4]
        assert [one.at_us for _, one in store.journal(action="")] == [3, 6]
        assert [one.at_us for _, one in store.journal(action="b" * 32, request_id="act_1")] == [1, 5, 7]
        assert list(store.journal(action="c" * 32)) == []

    # ---- life -------------------------------------------------------------------------------------------------------

    def test_own_commits_leave_the_generation_as_it_is(self, opener: Opener) -> None:
        """A cache of this process stays valid through this process's own commits, from any thread."""
        store = opener()
        before = store.generation()
        put(store, row("a"))
        in_threads(lambda: put(store, row("b")))
        assert store.generation() == before

    def test_a_closed_store_refuses_everything(self, opener: Opener) -> None:
        """Closing twice is harmless; nothing can be read or written afterwards."""
        store = opener()
        put(store, row("a"))
        store.close()
        store.close()
        for use in (
            lambda: store.load(TREE),
            lambda: store.fetch(TREE, "action", "a"),
            lambda: store.commit(Commit(expected={TREE: 1}, puts=(row("a"),))),
            lambda: store.due(1, 1),
            store.next_due_us,
            lambda: store.by_ticket("tkt_1"),
            store.tickets,
            store.lost,
            lambda: store.register("own_1"),
            store.generation,
            store.journal,
        ):
            refused(StoreError, use)


class SharedStoreKit(StoreKit):
    """What also holds where several stores, in one process or in several, use one database."""

    def test_what_was_committed_is_there_after_a_restart(self, opener: Opener) -> None:
        """Rows, versions and journal outlive the store that wrote them."""
        first = opener()
        put(first, row("a", b"body", due_us=1, ticket="tkt_1", request_id="act_1"))
        first.commit(Commit(expected={}, journal=(line(1),)))
        first.close()
        second = opener()
        assert second.load(TREE) == opener().load(TREE)
        assert second.load(TREE).version == 1
        assert list(second.load(TREE).rows) == [row("a", b"body", due_us=1, ticket="tkt_1", request_id="act_1")]
        assert [one for _, one in second.journal()] == [line(1)]

    def test_the_second_of_two_writers_is_told(self, opener: Opener) -> None:
        """Both read the same version; the first commit wins, and the other is stale and writes nothing."""
        first, second = opener(), opener()
        assert first.load(TREE).version == second.load(TREE).version == 0
        first.commit(Commit(expected={TREE: 0}, puts=(row("a", b"first"),)))
        refused(StaleWrite, lambda: second.commit(Commit(expected={TREE: 0}, puts=(row("a", b"second"),))))
        assert list(second.load(TREE).rows) == [row("a", b"first")]

    def test_the_generation_changes_when_another_store_has_committed(self, opener: Opener) -> None:
        """It tells a process that its cache is old, and says nothing more until the next foreign commit."""
        first, second = opener(), opener()
        before = first.generation()
        put(second, row("a"))
        after = first.generation()
        assert after != before
        put(first, row("b"))
        assert first.generation() == after

    def test_no_update_of_another_store_is_lost(self, opener: Opener) -> None:
        """Stores that read, decide and commit one row at the same time all count."""
        stores = [opener() for _ in range(3)]
        in_threads(*[partial(count_up, store, 20) for store in stores])
        assert stores[0].load(TREE).rows[0].body == b"60"
        numbers = [seq for seq, _ in stores[1].journal(limit=1000)]
        assert len(numbers) == len(set(numbers)) == 60

    def test_an_owner_lives_as_long_as_its_store(self, opener: Opener) -> None:
        """Another store sees the rows of a living owner as held, and as lost once its store is closed."""
        first, second = opener(), opener()
        first.register("own_1")
        second.register("own_2")
        put(first, row("a", owner="own_1"))
        put(second, row("b", owner="own_2"))
        assert (keys(first.lost()), keys(second.lost())) == ([], [])
        first.close()
        assert keys(second.lost()) == ["a"]
        assert keys(second.lost()) == ["a"]

    def test_a_living_owner_cannot_be_registered_elsewhere(self, opener: Opener) -> None:
        """Two processes never share a name; a dead one's name is free."""
        first, second = opener(), opener()
        first.register("own_1")
        refused(UsageError, lambda: second.register("own_1"))
        first.close()
        second.register("own_1")
        put(second, row("a", owner="own_1"))
        assert list(second.lost()) == []
