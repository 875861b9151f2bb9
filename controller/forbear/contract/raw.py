"""What came back from a tool, before anybody judged it, as frozen values. Nothing here decides or cleans anything.

A repr shows no text of others: it is what ends up in logs and crash reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, cast

Headers = tuple[tuple[str, str], ...]

# Only so many header fields are looked at; behind them, and up to `MAX_SEEN`, those that may say when to come back.
MAX_HEADERS: Final = 2000
MAX_SEEN: Final = 20_000
_LONGEST: Final = 64
_TELLING: Final = frozenset(
    "retry-after retry-after-ms x-ms-retry-after-ms ratelimit ratelimit-reset ratelimit-remaining x-ratelimit-reset "
    "x-ratelimit-remaining x-rate-limit-reset x-rate-limit-remaining grpc-retry-pushback-ms date age".split()
)


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


# A member that was not there, where null would be a value.
ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Value:
    """A Python value that a tool returned."""

    value: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What is known about the client under the tool. ``None`` = not known, which proves nothing."""

    single_attempt: bool | None = None
    follow_redirects: bool | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that a tool raised.

    `phase` is one of build, pool, connect, write, read, response, response_body, execute, in_tool, before_send,
    after_send, unknown: how far the call had come, by a marker that somebody trustworthy set.
    """

    error: BaseException = field(repr=False)
    phase: str = "unknown"
    client: Client | None = None
    # What a client of ours was answered below the exception, which may hide it.
    seen: Http | None = None
    # A client of ours watched every step: no byte of the last request left.
    unsent: bool = False
    # A mistake of the tool's own code, whatever it had sent before.
    own_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedFacts:
    """An exception reduced to what may be looked at. Text of the exception is kept out on purpose."""

    # "package.Class" of the exception and its bases, nearest first (only the first segment of the module counts).
    names: tuple[str, ...]
    phase: str = "unknown"
    # The same for every cause, outermost first.
    chain: tuple[tuple[str, ...], ...] = ()
    errno: int | None = None
    client: Client | None = None
    # Watched step by step: no byte of the last request left, whatever the class says.
    unsent: bool = False
    # A mistake of the tool's own code, whatever it had sent before.
    own_code: bool = False
    sqlstate: str | None = None
    # HTTP evidence that the exception carries; None = none.
    status: int | None = None
    headers: Headers = field(default=(), repr=False)
    body: object = field(default="", repr=False)
    # A signal that a framework raises to steer itself (interrupt, retry, cancellation scope).
    control_flow: bool = False
    # SQLAlchemy's statement that the connection is gone.
    connection_invalidated: bool = False
    # Module in which it was raised, where that was recorded.
    raised_by: str = ""
    # Full "module.Class" names of the exception and its bases, for the policy's exact exception rules.
    exact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What the adapter knows about the request that it sent."""

    # The author declared that the same request twice does no harm.
    idempotent: bool = False
    # A key that the upstream honours went with it.
    idempotency_key: bool = False
    # The status belongs to a later hop of a followed redirect.
    redirected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """An HTTP answer. `body` is text, bytes, or the object that somebody already parsed."""

    status: int
    headers: Headers = field(default=(), repr=False)
    body: object = field(default="", repr=False)
    method: str = ""
    request: RequestFacts = RequestFacts()
    # The upstream says that something was applied before it failed.
    effects_before_failure: bool = False
    # What is spoken over HTTP, where the caller knows it: "mcp" (a 404 means that the session is gone), "graphql", "".
    protocol: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mcp:
    """A CallToolResult (or one of the other results of MCP 2026-07-28)."""

    is_error: bool = False
    content: tuple[object, ...] = field(default=(), repr=False)
    structured: object = field(default=ABSENT, repr=False)
    # None = absent (older servers).
    result_type: object = field(default=None, repr=False)
    input_requests: object = field(default=ABSENT, repr=False)
    request_state: object = field(default=ABSENT, repr=False)
    # Status of a task result.
    status: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpError:
    """A JSON-RPC error. `origin` is server, sdk (made locally by the client), or unknown."""

    code: object = field(repr=False)
    data: object = field(default=None, repr=False)
    origin: str = "server"
    # The tool's name is in the server's current list.
    tool_listed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpc:
    """A gRPC status: the code's name or number, the decoded google.rpc details, trailing metadata."""

    code: str | int
    details: tuple[object, ...] = field(default=(), repr=False)
    trailing_metadata: Headers = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """How a program ended."""

    # None = it has none: a signal ended it, it was not started, or nobody knows.
    exit_status: int | None = None
    # Number of the signal that ended it; 0 = one whose number is not known.
    signal: int | None = None
    # False = it could not be started.
    started: bool = True
    # It was stopped because its time was over.
    timed_out: bool = False
    # It runs a command elsewhere (ssh), so that its 255 is its own failure; None = not known, which proves nothing.
    carrier: bool | None = None
    # CARRIER: a session was opened, so that the command may have begun; None = not known.
    session: bool | None = None
    # CARRIER: the other side's host key is the known one; None = not known.
    identity_accepted: bool | None = None
    # What it printed as its result; never read where it failed, except by the author's text rules.
    output: object = field(default="", repr=False)


Raw = Value | Raised | RaisedFacts | Http | Mcp | McpError | Grpc | Process


def header_pairs(headers: object) -> Headers:
    """Return header fields as pairs of text: from a mapping, pairs, or a client's header object; bounded, never raises.

    Bytes are read as Latin-1. What is not text is left out.
    """
    items: object = headers
    if not isinstance(headers, (list, tuple)):
        # httpx and starlette keep repeated fields apart in multi_items.
        method = cast("object", getattr(headers, "multi_items", None) or getattr(headers, "items", None))
        items = method() if callable(method) else headers
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes)):
        return ()
    pairs: list[tuple[str, str]] = []
    # Anything may be among them; each is looked at before it is read.
    for item in islice(cast("Iterable[tuple[object, ...] | list[object] | None]", items), MAX_SEEN):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            continue
        name = item[0] if isinstance(item[0], str) else _text(item[0])
        if name is None or (len(pairs) >= MAX_HEADERS and not is_telling(name)):
            continue
        value = _text(item[1])
        if value is not None:
            pairs.append((name, value))
            if len(pairs) >= 2 * MAX_HEADERS:
                break
    return tuple(pairs)


def is_telling(name: str) -> bool:
    """Tell whether a field may say when to come back: such fields count also behind thousands of others."""
    return len(name) < _LONGEST and name.lower() in _TELLING


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("latin-1")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return None


def mcp_result(result: object) -> Mcp:
    """Return a tool result as a value, whatever the peer sent; members of a wrong type are kept for the judge."""
    if not isinstance(result, Mapping):
        return Mcp(result_type=ABSENT)
    members = cast("Mapping[str, object]", result)
    content = members.get("content", ABSENT)
    if not members.keys() & {"content", "structuredContent", "isError", "resultType"}:
        # Not a tool result at all.
        return Mcp(result_type=ABSENT)
    return Mcp(
        is_error=members.get("isError") not in (None, False),
        content=tuple(cast("list[object]", content)) if isinstance(content, (list, tuple)) else (),
        structured=members.get("structuredContent", ABSENT),
        result_type=members.get("resultType"),
        input_requests=members.get("inputRequests", ABSENT),
        request_state=members.get("requestState", ABSENT),
        status=members.get("status"),
    )
