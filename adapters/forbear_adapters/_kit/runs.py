"""Which run a LangChain or LangGraph call belongs to: its thread, or a child where it runs inside another governed call.

Run ids come from the application's config only, never from anything that a model wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple, cast

from langchain_core.messages import AnyMessage

__all__ = ["inside", "run_of", "thread_of"]


class Within(NamedTuple):
    """The governed call that this code runs in."""

    thread: str | None
    run: str
    call_id: str


_WITHIN: ContextVar[Within | None] = ContextVar("forbear_within", default=None)


class inside:  # noqa: N801 - reads as a statement
    """Mark what runs in this block as part of a governed call: agents that it starts are children of `run`."""

    __slots__ = ("_token", "_within")

    def __init__(self, thread: str | None, run: str, call_id: str) -> None:
        self._within = Within(thread, run, call_id)

    def __enter__(self) -> None:
        """Enter the call."""
        self._token = _WITHIN.set(self._within)

    def __exit__(self, *_error: object) -> None:
        """Leave the call."""
        _WITHIN.reset(self._token)


def thread_of(config: Mapping[str, object]) -> str | None:
    """Return the thread id of a config, or None."""
    found = cast("Mapping[str, object]", config.get("configurable") or {}).get("thread_id")
    return None if found is None else str(found)


def run_of(config: Mapping[str, object], messages: Sequence[AnyMessage], step: str) -> tuple[str, bool]:
    """Return the run that a call of this config belongs to, and whether the config named it.

    An agent that is started inside a governed call without a thread of its own gets a run of its own, named after that
    call, so that it is the same run when the call is entered again after a pause. Where nothing names the run it is
    the conversation that begins with the first message, which lasts as long as one invocation; without message ids it
    is this `step` alone.
    """
    thread, within = thread_of(config), _WITHIN.get()
    if within is not None and thread in (None, within.thread):
        return f"{within.run}/{within.call_id}", True
    if thread is not None:
        return thread, True
    return f"invocation:{next((message.id for message in messages if message.id), None) or step}", False
