"""The own error text of a tool whose author declared `error_text = "shown"` (a compiler, a shell), as a model may see it.

It stands beside the catalogue's message, never instead of it, and decides nothing. An upstream's text (an HTTP or gRPC
answer, a JSON-RPC error) is never a tool's own.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from subprocess import CalledProcessError, TimeoutExpired
from typing import Final, cast

from forbear.contract.case import Case
from forbear.contract.lint import MAX_TEXT, lint_text
from forbear.contract.mcp import first_text
from forbear.contract.raised import facts_of, is_protocol_error
from forbear.contract.raw import Mcp, Process, Raised, Raw, Value
from forbear.contract.scrub import HIDDEN, Scrub, secret_values
from forbear.core.values import Envelope
from forbear.core.view import MAX_REFUSAL_BYTES, view_text
from forbear.core.vocabulary import Trust
from forbear.errors import Refused

# The name that the text has among a view's fields.
FIELD: Final = "error_text"
# Characters that are looked at, and lines that are shown.
_MAX_READ: Final = 4096
_MAX_LINES: Final = 8
# Bytes of a view that are kept free for the request id and what the core adds.
_ROOM: Final = 112
_LEAST: Final = 16

_LINES: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Colours, cursor movements, links and titles of a terminal.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)|\x1b[@-_]"
)
_URL: Final = re.compile(r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:|data:[a-z])\S*")
# Control, format (bidi, zero width), surrogates, private use, not assigned.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def with_own_words(envelope: Envelope, raw: Raw, case: Case) -> Envelope:
    """Return a refusal with the tool's own error text among its fields, where the author wants it shown."""
    if case.policy.error_text != "shown" or case.policy.trust is Trust.REMOTE:
        return envelope
    said = _said(raw)
    if not said.strip():
        return envelope
    room = min(MAX_TEXT, MAX_REFUSAL_BYTES - _ROOM - len(view_text(envelope).encode()))
    text = _shown(said, case, room)
    if not text:
        case.counts.replaced_texts += 1
        return envelope
    return replace(envelope, safe_fields=(*envelope.safe_fields, (FIELD, text)))


def _said(raw: Raw) -> str:
    """Return what the tool itself said, "" where nothing of it is its own."""
    match raw:
        case Raised():
            return _raised(raw)
        case Process():
            return _text(raw.output)
        case Mcp():
            return _text(first_text(raw.content))
        case Value():
            return _text(raw.value)
        case _:
            return ""


def _raised(raw: Raised) -> str:
    error = raw.error
    if isinstance(error, (CalledProcessError, TimeoutExpired)):
        # Its own text is the command line; what the program said is beside it.
        return _text(cast("object", error.stderr)) or _text(cast("object", error.output))
    if isinstance(error, Refused) or is_protocol_error(error) or facts_of(raw).status is not None:
        return ""
    try:
        return str(error)[:_MAX_READ]
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        return ""


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:_MAX_READ]).decode("utf-8", "replace")
    return value[:_MAX_READ] if isinstance(value, str) else ""


def _shown(said: str, case: Case, room: int) -> str:
    """Return the lines of a text that may be shown, as one line of at most `room` bytes; "" = none."""
    secrets = secret_values(case.arguments, case.policy.secret)
    # A secret is looked for as it is and as it looks among what can be seen.
    scrub = Scrub((*secrets, *filter(None, map(_plainly, secrets))))
    clean = scrub(_plainly(_ESCAPES.sub("", said)), _MAX_READ)
    shown: list[str] = []
    for line in clean.split("\n"):
        kept = " ".join(_URL.sub(HIDDEN, line).split())
        if kept and len(shown) < _MAX_LINES and not lint_text(kept[:MAX_TEXT]):
            shown.append(kept)
    text = _cut(" | ".join(shown), room)
    # Lines that are harmless alone may not be so together.
    return "" if (len(text) < _LEAST and text != " | ".join(shown)) or lint_text(text) else text


def _plainly(text: str) -> str:
    """Return a text without what cannot be seen, its lines ended by one character."""
    return "\n".join(map(_visible, _LINES.split(text)))


def _visible(line: str) -> str:
    return "".join(one for one in line.expandtabs(1) if unicodedata.category(one) not in _UNSEEN)


def _cut(text: str, room: int) -> str:
    """Return a text in at most `room` bytes of JSON, with a mark where something is missing."""
    if len(text) <= room and _size(text) <= room:
        return text
    kept = text[: max(room - 3, 0)]
    while kept and _size(kept) > room - 3:
        kept = kept[:-1]
    return f"{kept.rstrip()}\u2026" if kept else ""


def _size(text: str) -> int:
    """Return the bytes that a text takes inside a JSON string."""
    return len(text.encode("utf-8", "replace")) + sum(one in '"\\' for one in text)
