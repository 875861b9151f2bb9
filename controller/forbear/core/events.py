"""What can happen to an action, a run or a tree, in the past tense. Events carry facts; they decide nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The model proposed a call (or a framework proposed it again)."""

    call: Call
    # The framework proposes granted calls again by itself.
    reproposes: bool = False
    # A fresh ticket and request id for whatever this event creates.
    ticket: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """An attempt was answered."""

    attempt: int
    envelope: Envelope
    # Digest of the result, for "no progress"; "" where it was not computed.
    digest: str = ""
    # The result is kept in the store.
    kept: bool = False
    # A poll's status: None = no poll, True = finished.
    finished: bool | None = None
    ticket: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The tool raised the framework's own interrupt."""

    attempt: int
    ticket: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The process that executed an attempt is dead, or the attempt ended without an answer."""

    attempt: int
    ticket: str = ""
    request_id: str = ""
    # Died with its process (True), or cancelled / ended by an exception that is not an answer.
    died: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Somebody cancelled the call; `acknowledged` = the tool confirmed that nothing landed."""

    acknowledged: bool
    ticket: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Woke:
    """A due row of this action fired. `call` carries the author's rule evaluated again at this moment."""

    call: Call
    ticket: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A person approved exactly the call with this fingerprint."""

    ticket: str
    fingerprint: str
    actor: str
    # The framework proposes it again; otherwise the controller starts it.
    reproposes: bool
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A person said no."""

    ticket: str
    fingerprint: str
    actor: str
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """A person asked for changes: other arguments may be asked about again."""

    ticket: str
    fingerprint: str
    actor: str
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A person changed the call: `call` runs instead (or is asked about, where it is another tool)."""

    ticket: str
    fingerprint: str
    actor: str
    call: Call
    reproposes: bool
    # Ticket for the edited call's own prompt.
    new_ticket: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A read-only check, or a person, said what became of an unknown write."""

    verdict: Verdict
    # "check", "model" or "person".
    source: str
    actor: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnected:
    """The other side can be reached again."""


Event = (
    Proposed
    | Returned
    | Interrupted
    | Lost
    | Cancelled
    | Woke
    | Granted
    | Denied
    | Revised
    | Edited
    | Inspected
    | Reconnected
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegan:
    """A human message arrived at the root run."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRestarted:
    """The run was started again from its beginning; completed writes are delivered once each."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """An operator ended a hold (by its ticket or scope) or a run's halt."""

    hold: str | None
    run: str | None
    actor: str


TreeEvent = TurnBegan | RunRestarted | Lifted
