"""Read the google.rpc.Status of a gRPC call's trailing metadata, without a protobuf library. Nothing is judged here.

Only what decides is read, in the form that JSON gives it (RetryInfo's delay, ErrorInfo's reason and domain, names of fields of
a BadRequest, how many quotas of a QuotaFailure): no message, description or value of metadata leaves this module. Bytes are a
stranger's: whatever is not a well-formed Status of the call's own code within the bounds says nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, cast

from forbear.contract.raw import MAX_SEEN

DETAILS: Final = "grpc-status-details-bin"
# Bytes: servers and proxies cap all trailing metadata at 8 to 16 KiB by default.
MAX_STATUS: Final = 64 * 1024
# Of one repeated field; of one message, of all fields; and characters of one text.
MAX_REPEATED: Final = 32
MAX_FIELDS: Final = 256
MAX_TEXT: Final = 128

_TYPES: Final = "type.googleapis.com/google.rpc."
_NANOS: Final = 1_000_000_000
# Protobuf's own bound of a Duration, ten thousand years.
_MAX_SECONDS: Final = 315_576_000_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Number of a field -> what it held, in order: an unsigned integer, or bytes.
Message = dict[int, list[int | bytes]]


class MalformedError(Exception):
    """These bytes are no message."""


def _varint(held: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned integer of at most 64 bits, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(held):
            raise MalformedError
        byte = held[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise MalformedError


def message(held: bytes) -> Message:
    """Return the fields of a message by number; those of fixed width are passed over.

    Raises:
        MalformedError: it is cut, holds a group or an unknown wire type, or has too many fields.
    """
    fields: Message = {}
    at = 0
    for _ in range(MAX_FIELDS):
        if at == len(held):
            return fields
        key, at = _varint(held, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedError
        if kind == _VARINT:
            value, at = _varint(held, at)
            fields.setdefault(number, []).append(value)
            continue
        if kind == _BYTES:
            size, at = _varint(held, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if size < 0 or size > len(held) - at:
            raise MalformedError
        if kind == _BYTES:
            fields.setdefault(number, []).append(held[at : at + size])
        at += size
    raise MalformedError


def _number(fields: Message, number: int) -> int:
    """Return the last value of a field, read as a signed integer; 0 = absent."""
    held = [value for value in fields.get(number, ()) if isinstance(value, int)]
    if not held:
        return 0
    return held[-1] - 2**64 if held[-1] >= 2**63 else held[-1]


def _blobs(fields: Message, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)][:MAX_REPEATED]


def _text(fields: Message, number: int) -> str:
    """Return the last text of a field, "" where there is none or it is long or no UTF-8."""
    held = _blobs(fields, number)
    try:
        text = held[-1].decode() if held else ""
    except UnicodeDecodeError:
        return ""
    return text if len(text) <= MAX_TEXT else ""


def _last(fields: Message, number: int) -> Message:
    held = _blobs(fields, number)
    return message(held[-1]) if held else {}


def _retry_info(fields: Message) -> dict[str, object]:
    if 1 not in fields:
        return {}
    delay = _last(fields, 1)
    seconds, nanos = _number(delay, 1), _number(delay, 2)
    if not 0 <= seconds <= _MAX_SECONDS or not 0 <= nanos < _NANOS:
        # A duration that protobuf does not allow, or that is over.
        return {}
    return {"retryDelay": f"{seconds}.{nanos:09}s"}


def _error_info(fields: Message) -> dict[str, object]:
    names = [_text(message(entry), 1) for entry in _blobs(fields, 3)]
    return {"reason": _text(fields, 1), "domain": _text(fields, 2), "metadata": {name: "" for name in names if name}}


def _bad_request(fields: Message) -> dict[str, object]:
    names = [_text(message(entry), 1) for entry in _blobs(fields, 1)]
    return {"fieldViolations": [{"field": name} for name in names if name]}


def _quota_failure(fields: Message) -> dict[str, object]:
    return {"violations": [{} for _ in _blobs(fields, 1)]}


_READ: Final = {
    "RetryInfo": _retry_info,
    "ErrorInfo": _error_info,
    "BadRequest": _bad_request,
    "QuotaFailure": _quota_failure,
}


def _detail(held: bytes) -> dict[str, object] | None:
    """Return a packed detail as JSON has it, None where its kind decides nothing."""
    packed = message(held)
    kind = _text(packed, 1)
    read = _READ.get(kind.removeprefix(_TYPES)) if kind.startswith(_TYPES) else None
    if read is None:
        return None
    return {"@type": kind, **read(_last(packed, 2))}


def status_details(held: bytes, code: int) -> tuple[dict[str, object], ...]:
    """Return the details of a serialized google.rpc.Status; () where it says nothing.

    Args:
        held: The bytes.
        code: The number of the call's own status code; a Status of another code is not the call's.
    """
    if len(held) > MAX_STATUS:
        return ()
    try:
        status = message(held)
        if _number(status, 1) != code:
            return ()
        found = [_detail(detail) for detail in _blobs(status, 3)]
    except MalformedError:
        return ()
    return tuple(detail for detail in found if detail is not None)


def details_of(metadata: object, code: object) -> tuple[dict[str, object], ...]:
    """Return the details in a call's trailing metadata, which is pairs of a name and text or bytes; never raises.

    Args:
        metadata: The pairs, as grpcio has them.
        code: The number of the call's own status code.
    """
    if not isinstance(metadata, Iterable) or isinstance(metadata, (str, bytes)) or not isinstance(code, int):
        return ()
    pairs = islice(cast("Iterable[tuple[object, ...] | list[object] | None]", metadata), MAX_SEEN)
    named = [pair[1] for pair in pairs if isinstance(pair, (tuple, list)) and len(pair) == 2 and pair[0] == DETAILS]
    statuses = [status for status in named if isinstance(status, bytes)]
    # Two of them contradict each other, or are one that somebody added.
    return status_details(statuses[0], code) if len(statuses) == 1 else ()
