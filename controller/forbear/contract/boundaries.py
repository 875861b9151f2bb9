"""What one execution reached, written down while it runs by adapters and tools. Nothing is judged, sent or kept here.

The runtime sets `EXECUTION` around every execution. A client of ours opens an `Exchange` for each request and says how
far it came; a tool may call `mark`. Where an adapter watches every step, what it did not see did not happen.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from forbear.contract.raw import Client, Headers, Http, Raised, RequestFacts
from forbear.errors import UsageError

# Requests of one execution that are written down one by one; beyond, they only count.
MAX_EXCHANGES: Final = 64
# Answers that say that nothing was begun, so that a later request of the same execution is the first that counts.
_NOT_BEGUN: Final = frozenset({401, 403, 407, 421, 425, 429})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Boundary(StrEnum):
    """How far a call came (design section 11), in order."""

    VALIDATED = "validated"
    CREDENTIAL_SELECTED = "credential_selected"
    AUTHORIZED = "authorized"
    CONNECTION_STARTED = "connection_started"
    REQUEST_SENT = "request_sent"
    RESPONSE_RECEIVED = "response_received"
    RESULT_RETURNED = "result_returned"


# Before these nothing has left the process.
_OUTSIDE: Final = frozenset(
    {Boundary.CONNECTION_STARTED, Boundary.REQUEST_SENT, Boundary.RESPONSE_RECEIVED, Boundary.RESULT_RETURNED}
)


class Step(StrEnum):
    """How far one request came. The words are those of `Raised.phase`."""

    POOL = "pool"
    CONNECT = "connect"
    # Bytes of the request may have left.
    WRITE = "write"
    READ = "read"
    RESPONSE = "response"
    RESPONSE_BODY = "response_body"


_ORDER: Final = tuple(Step)


# Neither has a repr of its fields: they hold what may be somebody's secret.
@dataclass(slots=True, eq=False, repr=False)
class Exchange:
    """One request, from a client's transport. Written by one thread at a time."""

    trail: Trail
    method: str = ""
    step: Step = Step.POOL
    # The client reports every step: what was not reported did not happen.
    watched: bool = False
    status: int | None = None
    headers: Headers = ()
    # Where it went, as the client has it; only evidence is made of it, which keeps host and path template.
    url: str = ""
    key_sent: bool = False

    def reach(self, step: Step) -> None:
        """Say that the request came so far; it never goes back."""
        if _ORDER.index(step) <= _ORDER.index(self.step):
            return
        self.step = step
        if step is Step.CONNECT:
            self.trail.mark(Boundary.CONNECTION_STARTED)
        elif step is Step.WRITE:
            # As soon as a first byte may have left.
            self.trail.mark(Boundary.REQUEST_SENT)
        elif step is Step.RESPONSE:
            self.trail.mark(Boundary.RESPONSE_RECEIVED)

    def answered(self, status: int, headers: Headers) -> None:
        """Keep what was answered: it stays known where a client hides it."""
        self.status, self.headers = status, headers
        self.reach(Step.RESPONSE)

    @property
    def is_unsent(self) -> bool:
        """Say whether certainly no byte of the request left."""
        return self.watched and self.step in (Step.POOL, Step.CONNECT)

    @property
    def was_not_begun(self) -> bool:
        """Say whether certainly nothing was begun: no byte left, or the answer says so."""
        return self.is_unsent or self.status in _NOT_BEGUN


@dataclass(slots=True, eq=False, repr=False)
class Trail:
    """Everything that was seen of one execution, in order."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    # Header field and value of the upstream's idempotency key, where a wrapper of ours set one.
    key: tuple[str, str] | None = None
    _reached: dict[Boundary, None] = field(default_factory=dict[Boundary, None])
    _keyed: tuple[str, str] | None = None
    _uncounted: int = 0

    @property
    def reached(self) -> tuple[str, ...]:
        """Return the boundaries that were reached, in the order in which they were reached first."""
        return tuple(boundary.value for boundary in self._reached)

    @property
    def left(self) -> bool:
        """Say whether anything left the process, or may have."""
        return not self._reached.keys().isdisjoint(_OUTSIDE) or any(not one.is_unsent for one in self.exchanges)

    @property
    def key_sent(self) -> bool:
        """Say whether the idempotency key went with a request."""
        return any(one.key_sent for one in self.exchanges)

    def mark(self, boundary: Boundary) -> None:
        """Say that a boundary was reached."""
        self._reached.setdefault(boundary)

    def begin(self, method: str, url: str = "") -> Exchange:
        """Open the record of a request."""
        exchange = Exchange(self, method.upper(), url=url)
        if len(self.exchanges) < MAX_EXCHANGES:
            self.exchanges.append(exchange)
        else:
            # The last one is what counts; that there were too many is not forgotten.
            self._uncounted += 1
            self.exchanges[-1] = exchange
        return exchange

    def key_for(self, method: str, target: str) -> tuple[str, str] | None:
        """Return the header field that this request carries: the first one that changes something, and its repeats."""
        if self.key is None or method.upper() in _SAFE_METHODS:
            return None
        place = (method.upper(), target)
        if self._keyed is None:
            self._keyed = place
        return self.key if place == self._keyed else None

    def client(self) -> Client:
        """Return what may be claimed about the clients under the tool: every request of the execution was counted."""
        earlier = self.exchanges[:-1]
        return Client(
            single_attempt=self._uncounted == 0 and all(one.was_not_begun for one in earlier),
            follow_redirects=any(one.status in _REDIRECTS for one in earlier),
        )

    def answer(self) -> Http | None:
        """Return the last answer that a client of ours received, without its body."""
        if not self.exchanges or self.exchanges[-1].status is None:
            return None
        last = self.exchanges[-1]
        assert last.status is not None
        facts = RequestFacts(idempotency_key=last.key_sent, redirected=self.client().follow_redirects is True)
        return Http(status=last.status, headers=last.headers, method=last.method, request=facts)


class Execution(Protocol):
    """What `EXECUTION` holds: anything with a place for a trail, which is made when something is written down."""

    trail: Trail | None


class _Bare:
    __slots__ = ("trail",)

    def __init__(self) -> None:
        self.trail: Trail | None = Trail()


EXECUTION: ContextVar[Execution | None] = ContextVar("forbear_execution", default=None)
# Threads of one execution may write down their first step at the same time.
_MAKING: Final = threading.Lock()


def current_trail() -> Trail | None:
    """Return the trail of the execution that this code runs in; None = it runs in none."""
    execution = EXECUTION.get()
    if execution is None:
        return None
    if execution.trail is None:
        with _MAKING:
            if execution.trail is None:
                execution.trail = Trail()
    return execution.trail


def mark(boundary: Boundary | str) -> None:
    """Say that the present call reached a boundary; outside a governed call nothing happens.

    Raises:
        UsageError: there is no such boundary.
    """
    try:
        reached = Boundary(boundary)
    except ValueError:
        raise UsageError(f"mark: boundary must be one of {', '.join(Boundary)}") from None
    trail = current_trail()
    if trail is not None:
        trail.mark(reached)


@contextmanager
def recording() -> Generator[Trail]:
    """Write down what is reached in this block, for code that runs an attempt by itself; see `witnessed`."""
    execution = _Bare()
    assert execution.trail is not None
    token = EXECUTION.set(execution)
    try:
        yield execution.trail
    finally:
        EXECUTION.reset(token)


def witnessed(raised: Raised, trail: Trail | None = None) -> Raised:
    """Return an exception with what is known about how far the call had come.

    Args:
        raised: The exception; what somebody already knows about it is kept.
        trail: What was written down; None = that of the execution that this code runs in.
    """
    if trail is None:
        execution = EXECUTION.get()
        trail = None if execution is None else execution.trail
    if trail is None or raised.client is not None or raised.phase not in ("unknown", "in_tool"):
        return raised
    own_code = raised.phase == "in_tool"
    if not trail.exchanges:
        return Raised(raised.error, "unknown", own_code=own_code) if trail.left else raised
    last = trail.exchanges[-1]
    phase = last.step.value if last.watched or last.status is not None else "unknown"
    return Raised(raised.error, phase, trail.client(), trail.answer(), unsent=last.is_unsent, own_code=own_code)
