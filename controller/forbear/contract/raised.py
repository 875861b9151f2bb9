"""Reduce a live exception to facts, without importing any client library and without reading its text.

Only class names, numbers, header fields and bodies that were already received are taken; nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from forbear.contract.raw import Grpc, Headers, McpError, Raised, RaisedFacts, header_pairs
from forbear.contract.rpc_status import details_of

_MAX_CAUSES: Final = 16
_MAX_BASES: Final = 24
_MAX_ARGUMENTS: Final = 4
# The tool's own mistakes, where no boundary was reached (design section 5).
_OWN_CODE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
# The operating system's answer that a file is not there, or is there already (decision 42).
_FILES: Final = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
# Attributes in which libraries keep the exception behind the exception.
_HIDDEN_CAUSES: Final = ("reason", "orig", "os_error", "last_exc")


def name_of(module: str, name: str) -> str:
    """Return the name that classes are matched by: top-level package and class."""
    return f"{module.partition('.')[0]}.{name}"


def _bases(error: BaseException) -> tuple[type, ...]:
    return type(error).__mro__[:_MAX_BASES]


def _names(error: BaseException) -> tuple[str, ...]:
    return tuple(name_of(str(base.__module__), base.__name__) for base in _bases(error))


def _attribute(holder: object, name: str) -> object:
    """Return an attribute of a foreign object, or None; a property that fails has no value."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001  # a foreign property may raise anything
        return None


def _called(holder: object, name: str) -> object:
    """Return what a foreign object's method without arguments returns, or None."""
    method = _attribute(holder, name)
    try:
        return method() if callable(method) else None
    except Exception:  # noqa: BLE001  # a foreign method may raise anything
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    queue = [error]
    while queue and len(seen) <= _MAX_CAUSES:
        current = queue.pop(0)
        nearest: list[object] = [current.__cause__]
        if current.__cause__ is None and not current.__suppress_context__:
            nearest.append(current.__context__)
        nearest.extend(_attribute(current, name) for name in _HIDDEN_CAUSES)
        # httpcore keeps what it maps in the arguments, and hides it as a cause.
        held = _attribute(current, "args")
        if isinstance(held, tuple):
            nearest.extend(cast("tuple[object, ...]", held)[:_MAX_ARGUMENTS])
        members = _attribute(current, "exceptions")
        if isinstance(members, (tuple, list)):
            nearest.extend(cast("list[object]", members)[:_MAX_CAUSES])
        for cause in nearest:
            if isinstance(cause, BaseException) and id(cause) not in seen:
                seen.add(id(cause))
                queue.append(cause)
                yield cause


def phase_of(error: BaseException, *, reached: bool) -> str:
    """Return how far a call had come by itself: ``in_tool`` for the tool's own mistakes where no boundary was reached.

    Args:
        error: What the tool raised.
        reached: Somebody marked a boundary (a connection was started, bytes were sent).
    """
    return "in_tool" if not reached and isinstance(error, (*_OWN_CODE, *_FILES)) else "unknown"


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _status(error: BaseException, response: object) -> int | None:
    candidates = [
        _attribute(response, "status_code"),
        _attribute(error, "status_code"),
        _attribute(error, "status"),
        _attribute(error, "http_status"),
    ]
    if type(error).__module__.partition(".")[0] == "urllib":
        candidates.append(_attribute(error, "code"))
    if isinstance(response, dict):
        metadata = cast("dict[str, object]", response).get("ResponseMetadata")
        if isinstance(metadata, dict):
            candidates.append(cast("dict[str, object]", metadata).get("HTTPStatusCode"))
    for candidate in candidates:
        number = _number(candidate)
        if number is not None and 400 <= number <= 599:
            return number
    return None


def _evidence(error: BaseException, response: object) -> tuple[Headers, object]:
    """Return header fields and the body that an exception already holds; a body that was not read stays unread."""
    if isinstance(response, dict):
        # botocore: the error as a mapping, header fields beside it.
        members = cast("dict[str, object]", response)
        metadata, failure = members.get("ResponseMetadata"), members.get("Error")
        headers = cast("dict[str, object]", metadata).get("HTTPHeaders") if isinstance(metadata, dict) else None
        code = cast("dict[str, object]", failure).get("Code") if isinstance(failure, dict) else None
        return header_pairs(headers), {"__type": code} if isinstance(code, str) else ""
    headers = _attribute(response, "headers") or _attribute(error, "headers")
    for holder, name in ((error, "body"), (error, "json_body"), (response, "data"), (response, "_content")):
        body = _attribute(holder, name)
        if isinstance(body, (dict, list, str, bytes)) and body:
            return header_pairs(headers), cast("object", body)
    return header_pairs(headers), ""


def facts_of(raised: Raised) -> RaisedFacts:
    """Return what may be looked at of an exception."""
    error = raised.error
    causes = tuple(_causes(error))
    response = _attribute(error, "response")
    status = _status(error, response)
    headers, body = _evidence(error, response) if status is not None else ((), "")
    seen = raised.seen
    if status is None and seen is not None and 300 <= seen.status <= 599:
        # The client hides what it was answered; a client of ours below it kept status and header fields.
        status, headers = seen.status, seen.headers
    sqlstate: str | None = None
    for one in (error, *causes):
        for name in ("sqlstate", "pgcode"):
            held = _attribute(one, name)
            if sqlstate is None and isinstance(held, str) and len(held) == 5:
                sqlstate = held
    return RaisedFacts(
        names=_names(error),
        phase=raised.phase,
        chain=tuple(_names(cause) for cause in causes),
        errno=_number(_attribute(error, "errno")),
        client=raised.client,
        unsent=raised.unsent,
        own_code=raised.own_code or raised.phase == "in_tool",
        sqlstate=sqlstate,
        status=status,
        headers=headers,
        body=body,
        connection_invalidated=_attribute(error, "connection_invalidated") is True,
        raised_by=str(type(error).__module__),
        exact=tuple(f"{base.__module__}.{base.__qualname__}" for base in _bases(error)),
    )


_GRPC: Final = "grpc.RpcError"
_MCP: Final = frozenset({"mcp.McpError", "mcp.MCPError"})


def is_protocol_error(error: BaseException) -> bool:
    """Say whether an exception stands for the protocol's own error."""
    names = _names(error)
    return _GRPC in names or not _MCP.isdisjoint(names)


def protocol_error(error: BaseException) -> Grpc | McpError | None:
    """Return the protocol's own error that a client's exception stands for, or None."""
    names = _names(error)
    if _GRPC in names:
        status, metadata = _called(error, "code"), _called(error, "trailing_metadata")
        code, numbers = _attribute(status, "name"), _attribute(status, "value")
        number = cast("tuple[object, ...]", numbers)[0] if isinstance(numbers, tuple) and numbers else None
        return Grpc(
            code=code if isinstance(code, str) else "UNKNOWN",
            details=details_of(metadata, number),
            trailing_metadata=tuple(pair for pair in header_pairs(metadata) if not pair[0].endswith("-bin")),
        )
    if not _MCP.isdisjoint(names):
        held = _attribute(error, "error")
        code = _attribute(held, "code") if held is not None else _attribute(error, "code")
        # The client makes such errors itself too: nothing says who made this one.
        return McpError(code=code, data=_attribute(held, "data"), origin="unknown")
    return None
