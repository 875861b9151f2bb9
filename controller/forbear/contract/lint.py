"""The lint over every text that a model may see: one short line that never invites another attempt. Fixes nothing."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

MAX_TEXT: Final = 200

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\bmailto:|\bdata:[a-z]", re.IGNORECASE)
# Phrases that invite another attempt, another way round, or a search for other authority.
_INVITES: Final = (
    r"\b(?:re-?)?tr(?:y|ies|ied|ying)\b",
    r"\bretr(?:y|ies|ied|ying)\b",
    r"\bagain\b",
    r"\bre-?(?:send|sent|sending|submit\w*|issue\w*|run|peat\w*|phras\w*|word\w*|attempt\w*|do)\b",
    r"\banother (?:attempt|tool|way|approach|method|account|key|token|credential|time)\b",
    r"\b(?:different|other|alternat\w+) (?:tool|way|approach|method|account|key|token|credential|wording)s?\b",
    r"\b(?:work ?around|bypass\w*|circumvent\w*)\b",
    (
        r"\b(?:check|provide|supply|enter|find|use|rotate|search for) (?:your|the|a|an|new|other|valid)? ?"
        r"(?:\w+ )?(?:credential|password|token|api key|key|secret)s?\b"
    ),
    r"\bplease\b",
    r"\bkeep (?:going|calling|asking)\b",
    r"\bignore (?:all|any|the|previous|prior)\b",
)
# Cc control, Cf format (bidi, zero width, tags), Cs surrogates, Co private, Zl and Zp line separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the compiled patterns; compiling them costs more than importing this module."""
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in _INVITES)


def lint_text(text: str) -> list[str]:
    """Return why a text may not be shown to a model; empty = it may.

    The findings name rules, never the text.
    """
    findings: list[str] = []
    if not text.strip():
        findings.append("empty")
    if len(text) > MAX_TEXT:
        findings.append(f"longer than {MAX_TEXT} characters")
        text = text[:MAX_TEXT]
    if any(unicodedata.category(character) in _UNSEEN for character in text):
        findings.append("control, bidi or zero-width character, or more than one line")
    plain = unicodedata.normalize("NFKC", text)
    if _URL.search(plain):
        findings.append("URL")
    if any(pattern.search(plain) for pattern in _patterns()):
        findings.append("invites another attempt")
    return findings
