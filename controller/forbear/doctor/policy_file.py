"""Write proposals as a policy file in TOML, to be edited. What is proposed is decided in `guesses`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from forbear.core.vocabulary import Effect
from forbear.doctor.guesses import Guess, Proposal

__all__ = ["policy_text"]

HEAD: Final = """\
# Proposed by `forbear doctor`: guesses from names, schemas and hints. No tool was called to find them out.
# Read every line. A line that starts with "# " and a field is a guess that would loosen something, or that only you can
# confirm: take the "# " away where it is true. What is not declared is treated with care: started at most once.
# Load it with `controller.declare_from("policy.toml")`.

version = 1
"""
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH: Final = 118


def policy_text(proposals: Sequence[Proposal]) -> str:
    """Return a policy file; it can be loaded as it is."""
    reads = [one for one in proposals if one.effect is Effect.READ]
    writes = [one for one in proposals if one.effect is Effect.WRITE]
    rest = [one for one in proposals if one.effect is Effect.UNDECLARED]
    lines = [HEAD]
    for title, group in (("reads", reads), ("writes", writes), ("no sign of either", rest)):
        if group:
            lines.append(f"# --- {title} {'-' * (_WIDTH - len(title) - 7)}\n")
            lines += [_table(one) for one in group]
    return "\n".join(lines)


def _table(proposal: Proposal) -> str:
    rows = [f"[tools.{_key(proposal.tool.name)}]"]
    if proposal.effect is Effect.UNDECLARED:
        rows.append('# effect = "…"  # neither its name nor a hint says whether it reads or writes')
    rows += [_row(guess) for guess in proposal.guesses]
    return "\n".join(rows) + "\n"


def _row(guess: Guess) -> str:
    mark = "" if guess.active else "# "
    return f"{mark}{guess.field} = {toml_value(guess.value)}  # {'seen' if guess.is_seen else 'guess'}: {_comment(guess.reason)}"


def _comment(text: str) -> str:
    return "".join(mark if mark.isprintable() else " " for mark in text)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it: a text, a list or an inline table."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return "{ " + ", ".join(f"{_key(name)} = {toml_value(one)}" for name, one in members.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(one) for one in cast("Sequence[object]", value)) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML forbids as it is.
    return json.dumps(text).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.match(name) else _text(name)
