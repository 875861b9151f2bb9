"""What of other people's text may be kept as evidence: header fields by an allowlist, text without what is known to be secret.

The classes are those of `docs/reference/record.md`. Direct secrets are never kept; sensitive context is kept here and
goes nowhere else. The patterns below are a backstop behind that, not the boundary: evidence is protected as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from forbear.contract.scrub import HIDDEN, Scrub, secret_values

__all__ = ["HIDDEN", "MAX_HEADER_FIELDS", "Scrub", "destination_of", "header_fields", "secret_values", "template_of"]

# Characters of text that are kept of one exception, of one header field's value; header fields of one message.
MAX_VALUE: Final = 256
MAX_NAME: Final = 64
MAX_HEADER_FIELDS: Final = 64
# Header fields that are kept in clear; of every other one, name and length. Nothing that names a person, a host of the
# other side or a place in it.
_CLEAR: Final = frozenset(
    {
        "age", "allow", "cache-control", "connection", "content-encoding", "content-language", "content-length",
        "content-type", "date", "expires", "last-modified", "ratelimit", "ratelimit-policy", "request-id", "retry-after",
        "retry-after-ms", "transfer-encoding", "vary", "x-amzn-requestid", "x-correlation-id", "x-github-request-id",
        "x-ms-request-id", "x-request-id", "x-should-retry",
    }
)  # fmt: skip
_CLEAR_PREFIXES: Final = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")
_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
# A segment of a path that is a word of the interface and no identifier.
_WORD: Final = re.compile(r"v?\d{1,2}(\.\d{1,2})?|[A-Za-z][A-Za-z_-]{0,31}(\.[a-z]{2,5})?")


def header_fields(headers: Iterable[tuple[str, str]], scrub: Scrub) -> list[dict[str, object]]:
    """Return header fields as they are kept: those of the allowlist in clear, of others name and length."""
    kept: list[dict[str, object]] = []
    for name, value in headers:
        if len(kept) == MAX_HEADER_FIELDS:
            break
        lower = name.lower()
        shown = name if _FIELD_NAME.fullmatch(name) else HIDDEN
        if lower in _CLEAR or lower.startswith(_CLEAR_PREFIXES):
            kept.append({"name": shown[:MAX_NAME], "value": scrub(value, MAX_VALUE)})
        else:
            kept.append({"name": shown[:MAX_NAME], "length": len(value)})
    return kept


def destination_of(url: str) -> str:
    """Return scheme, host and port of a URL in one form, without user information; "" = it has none."""
    try:
        parts = urlsplit(url[:4096])
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if not host:
        return ""
    scheme = parts.scheme.lower()
    usual = {"http": 80, "https": 443}.get(scheme)
    name = f"[{host}]" if ":" in host else host.rstrip(".")
    return f"{scheme}://{name}" if port is None or port == usual else f"{scheme}://{name}:{port}"


def template_of(url: str) -> str:
    """Return the path of a URL with ``{}`` for every segment that is no word of an interface, and without its query."""
    try:
        path = urlsplit(url[:4096]).path
    except ValueError:
        return ""
    return "/".join(part if not part or _WORD.fullmatch(part) else "{}" for part in path.split("/")[:32])
