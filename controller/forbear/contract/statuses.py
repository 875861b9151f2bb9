"""What an HTTP status says about execution, as a table (RFC 9110, 6585, 8470, 4918, 7725). No header or body is read."""

from __future__ import annotations

from typing import Final

from forbear.core.vocabulary import Recovery

_STOP: Final = Recovery.DO_NOT_RETRY
_WAIT: Final = Recovery.RETRY_AFTER
_REPAIR: Final = Recovery.REPAIR_INPUT
_LOOK: Final = Recovery.INSPECT_OUTCOME

# status -> (class for a read, class for a write, code).
STATUSES: Final[dict[int, tuple[Recovery, Recovery, str]]] = {
    400: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    401: (_STOP, _STOP, "AUTH_FAILED"),
    402: (_STOP, _STOP, "UPSTREAM_REFUSED"),
    403: (_STOP, _STOP, "ACCESS_DENIED"),
    404: (_REPAIR, _REPAIR, "NOT_FOUND"),
    405: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    406: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    407: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    409: (_WAIT, _LOOK, "CONFLICT"),
    410: (_STOP, _STOP, "NOT_FOUND"),
    411: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    412: (_REPAIR, _REPAIR, "CONFLICT"),
    413: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    414: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    415: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    416: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    417: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    421: (_WAIT, _WAIT, "TEMPORARY_FAILURE"),
    422: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    423: (_STOP, _STOP, "UPSTREAM_REFUSED"),
    424: (_STOP, _STOP, "UPSTREAM_REFUSED"),
    425: (_WAIT, _WAIT, "TEMPORARY_FAILURE"),
    426: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    428: (_REPAIR, _REPAIR, "CONFLICT"),
    429: (_WAIT, _WAIT, "RATE_LIMITED"),
    431: (_REPAIR, _REPAIR, "INPUT_INVALID"),
    451: (_STOP, _STOP, "ACCESS_DENIED"),
    501: (_STOP, _STOP, "UPSTREAM_REFUSED"),
    505: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
    508: (_STOP, _STOP, "UPSTREAM_REFUSED"),
    511: (_STOP, _STOP, "TOOL_MISCONFIGURED"),
}
# Nothing is said about execution: a read is tried once more, a write may have happened. 460 is AWS's and 52x are
# Cloudflare's; 529 is "overloaded" where it is used.
UNKNOWN_OUTCOME: Final = frozenset({408, 460, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
TIMEOUTS: Final = frozenset({408, 460, 504, 522, 524})


def class_of_status(status: int) -> Recovery:
    """Return the class that a status alone has for a write."""
    row = STATUSES.get(status)
    return row[1] if row is not None else _LOOK
