"""What a crash report may show of the controller's own failures: where they arose, and no value that was in hand.

Reporters write down the local variables of every frame, and the frames in here hold what tools returned and raised. So
an error of the controller's own leaves without its frames; a note names their places. Exceptions that only pass
through (a tool's, a framework's, an application's hook's) are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final

from forbear.errors import ForbearError

__all__ = ["bare"]

_OURS: Final = ("forbear", "forbear_adapters")
_MAX_CHAIN: Final = 16
_MAX_PLACES: Final = 16


def bare(error: Exception, signals: tuple[type[BaseException], ...] = ()) -> None:
    """Take the frames off an error of the controller's own, and off what it was made of; name their places instead.

    To be followed by a plain ``raise``: the traceback then begins with the caller.

    Args:
        error: What leaves.
        signals: Exceptions that a framework steers itself with; they pass through untouched.
    """
    if isinstance(error, signals):
        return
    places = tuple(_places(error.__traceback__))
    if not places or not (isinstance(error, ForbearError) or _is_ours(places[-1])):
        return
    seen: set[int] = set()
    # What an error was made from is the store's; what it merely came after may be the application's.
    waiting: list[tuple[BaseException, bool]] = [(error, True)]
    while waiting and len(seen) < _MAX_CHAIN:
        one, is_part = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        places = tuple(_places(one.__traceback__))
        # A traceback begins where the exception was caught.
        if places and (is_part or _is_ours(places[0])):
            one.__traceback__ = None
            one.add_note("in " + " > ".join(places[-_MAX_PLACES:]))
        if one.__context__ is not None:
            waiting.append((one.__context__, False))
        if one.__cause__ is not None:
            # Last in, first out: a cause is its error's context, too.
            waiting.append((one.__cause__, is_part))


def _places(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield f"{traceback.tb_frame.f_globals.get('__name__', '')}:{traceback.tb_lineno}"
        traceback = traceback.tb_next


def _is_ours(place: str) -> bool:
    return place.partition(":")[0].partition(".")[0] in _OURS
