"""Take what is known to be secret out of a text. The patterns are a backstop behind allowlists, not the boundary.

Nothing is kept, shown or judged here.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Final, cast
from urllib.parse import quote, quote_plus

__all__ = ["HIDDEN", "Scrub", "secret_values"]

HIDDEN: Final = "[hidden]"
# A secret shorter than this cannot be cut out of a text without tearing it: then the text is not kept at all.
MIN_SECRET: Final = 3
MAX_SECRETS: Final = 64
# A shorter line of a secret may be any word of a text.
_LEAST_LINE: Final = 8
_WITHHELD: Final = "[withheld: a secret of this call is too short to be cut out]"


_PATTERNS: Final = (
    # user information and query values of a URL
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/@]{1,512}@"), rf"\1{HIDDEN}@"),
    (re.compile(r"([?&][^\s=&#?]{1,64}=)[^\s&#\"'<>]{1,4096}"), rf"\1{HIDDEN}"),
    # credentials by their scheme, or by the name of the field that they are in
    (re.compile(r"(?i)\b(bearer|basic|negotiate|token|apikey)[ \t]{1,4}[A-Za-z0-9._~+/=-]{6,4096}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"(?i)((?:authorization|cookie|password|passwd|passphrase|secret|token|api[-_]?key|access[-_]?key|signature)"
            r"\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)[^\s\"',;&}\\]{1,4096}"
        ),
        rf"\1{HIDDEN}",
    ),
)
_KEY_BEGINS: Final = "-----BEGIN "
_KEY_ENDS: Final = "-----END "


def secret_values(arguments: Mapping[str, object], names: Iterable[str]) -> tuple[str, ...]:
    """Return the values of the arguments with these names, at any depth, as texts."""
    wanted = frozenset(names)
    found: dict[str, None] = {}
    if wanted:
        _collect(arguments, wanted, found, inside=False, depth=16)
    return tuple(found)[:MAX_SECRETS]


def _collect(value: object, wanted: frozenset[str], found: dict[str, None], *, inside: bool, depth: int) -> None:
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for name, member in cast("Mapping[object, object]", value).items():
            _collect(member, wanted, found, inside=inside or name in wanted, depth=depth - 1)
    elif isinstance(value, (list, tuple)):
        for member in cast("list[object]", value):
            _collect(member, wanted, found, inside=inside, depth=depth - 1)
    elif inside and value is not None and not isinstance(value, bool):
        found.setdefault(str(value))


class Scrub:
    """Takes out of a text what must not be kept.

    Args:
        secrets: Values that are known to be secret; they are found in clear, quoted, percent-encoded, in hexadecimal and
            in base64, also behind other bytes (a user's name), in upper or lower case, and line by line.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = [one for one in secrets if one]
        self._withholds = any(len(one) < MIN_SECRET for one in known)
        forms: set[str] = set()
        lines = [line for one in known for line in _lines(one)]
        for one in dict.fromkeys((*known, *lines)):
            forms |= {one, quote(one, safe=""), quote(one), quote_plus(one), json.dumps(one)[1:-1], repr(one)[1:-1]}
            raw = one.encode("utf-8", "surrogatepass")
            forms.add(raw.hex())
            forms.update(_in_base64(raw))
        # The longest first: a form may be part of another one.
        found = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        self._forms = re.compile(found, re.IGNORECASE) if found else None

    def __call__(self, text: str, limit: int) -> str:
        """Return at most `limit` characters of a text, without what must not be kept."""
        if self._withholds:
            return _WITHHELD
        # What is cut is cut after the secrets are out, or half of one could stay at the end.
        kept = text[: 4 * limit + 4096]
        if self._forms is not None:
            kept = self._forms.sub(HIDDEN, kept)
        kept = _without_keys(kept)
        for pattern, by in _PATTERNS:
            kept = pattern.sub(by, kept)
        return kept[:limit].encode("utf-8", "replace").decode()


def _lines(secret: str) -> list[str]:
    """Return the lines of a secret that has several, where a line is long enough to say something."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) >= _LEAST_LINE] if len(lines) > 1 else []


def _in_base64(raw: bytes) -> list[str]:
    """Return how bytes look in base64, wherever they begin, without the characters that depend on their neighbours."""
    found: list[str] = []
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        for encode in (b64encode, urlsafe_b64encode):
            text = encode(b"\0" * before + raw).decode().rstrip("=")
            if len(text) > shared + 8:
                found.append(text[shared:-2])
    return found


def _without_keys(text: str) -> str:
    """Take out private keys and certificates in their text form."""
    parts: list[str] = []
    while True:
        before, begins, rest = text.partition(_KEY_BEGINS)
        parts.append(before)
        if not begins:
            return "".join(parts)
        parts.append(HIDDEN)
        _, ends, text = rest.partition(_KEY_ENDS)
        if not ends:
            return "".join(parts)
        text = text.partition("-----")[2]
