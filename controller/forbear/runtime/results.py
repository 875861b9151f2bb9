"""Facts about a raw result that the core needs beside its envelope: digest, poll status, recorded form. No judgment."""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from typing import cast

from forbear.contract import ABSENT, Http, Mcp, Process, Raw, Value
from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import Effect

# Results that are larger (marshalled, in bytes) are not compared for "no progress": the bound is on the work.
MAX_COMPARED = 256 * 1024
_TEXTS = frozenset({str, bytes, bytearray})
_NESTING = frozenset({dict, list, tuple, set, frozenset})
# The format without references, so that equal values have equal bytes.
_PLAIN_MARSHAL = 2


def payload(raw: Raw) -> tuple[object] | None:
    """Return what the tool gave back, in a tuple, or None where it gave nothing back."""
    if isinstance(raw, Value):
        return (raw.value,)
    if isinstance(raw, Http):
        return (raw.body,)
    if isinstance(raw, Process):
        return (raw.output,)
    if isinstance(raw, Mcp):
        return (raw.structured if raw.structured is not ABSENT else list(raw.content),)
    return None


def digest_of(value: object) -> str:
    """Return a digest by which equal results are recognised in this process, or "".

    Only plain data has one. A mapping's order counts: a result that changes its order is taken for another one. After
    a restart the count of equal results begins again (the hash is salted by the process).
    """
    try:
        if not is_small(value, MAX_COMPARED):
            return ""
        # What marshal cannot take it refuses by itself.
        raw = marshal.dumps(cast("str", value), _PLAIN_MARSHAL)
    except (ValueError, RecursionError, RuntimeError):
        # RuntimeError: another thread changes it meanwhile.
        return ""
    return f"{hash(raw):x}" if len(raw) <= MAX_COMPARED else ""


def is_small(value: object, limit: int) -> bool:
    """Say whether plain data has at most so many members, each counted as often as it would be written.

    Writers without references write what is shared again and again, and what contains itself twice without end.
    """
    if type(value) in _TEXTS:
        return len(cast("str", value)) <= limit
    if type(value) not in _NESTING:
        return True
    left = limit
    todo = [cast("dict[object, object] | list[object]", value)]
    for one in todo:
        left -= len(one)
        if left < 0:
            return False
        members: Iterable[object] = one.values() if isinstance(one, dict) else one
        nested = [member for member in members if type(member) in _NESTING]
        if nested:
            todo += cast("list[list[object]]", nested)
    return True


def is_recorded(policy: ToolPolicy) -> bool:
    """Say whether completed results of this tool are kept: writes, and reads with `replay_completed` or `poll`."""
    return policy.effect is not Effect.READ or policy.limits.replay_completed > 0 or policy.poll is not None
