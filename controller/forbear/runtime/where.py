"""Where a proposal comes from: the keyword arguments that all ways into a controller share. Nothing else is here."""

from __future__ import annotations

from typing import TypedDict


class Where(TypedDict, total=False):
    """Where a proposal comes from. Everything is optional; a missing `run` is one warning."""

    # Id of the agent's run (its thread). Inside a governed call a new run is a child of that call's run.
    run: str | None
    # Run that this run is a child of.
    parent: str | None
    # The account whose quotas the run draws from; default: its root run.
    principal: str | None
    # Id of the model's message; default: the call is a step of its own.
    step: str | None
    # The framework's id of this call, by which a replay is recognised.
    call_id: str | None
    # Where the tool comes from ("" = this process).
    source: str
    # How many calls the step holds.
    siblings: int
    # The framework makes the model call this tool.
    forced: bool
    # The model's message was cut off.
    truncated: bool
    # Opaque id of the root run's turn; a new one begins a turn.
    turn: str | None
    # The framework proposes an approved call again by itself.
    reproposes: bool
