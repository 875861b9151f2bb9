"""What the end of an attempt leaves behind: the boundaries that it reached, and the makings of a piece of evidence.

What is in a piece is `forbear.audit.record`'s business, and where it goes the working set's. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from forbear.audit.record import About, piece_of
from forbear.audit.redact import Scrub, secret_values
from forbear.contract import Http, Raised, RaisedFacts, Trail
from forbear.core.events import Event, Returned
from forbear.core.policy import ToolPolicy
from forbear.core.vocabulary import COMPLETED, Effect
from forbear.runtime.live import LiveTree
from forbear.runtime.reply import Attempt
from forbear.runtime.steps import Ended, How

if TYPE_CHECKING:
    from forbear.runtime.engine import Engine

_MICROSECOND: Final = timedelta(microseconds=1)
# The framework's own interrupt, and a tool that was never called: nobody outside said anything.
_SILENT: Final = frozenset({How.SIGNAL, How.NEVER_CALLED})


class Left:
    """What one attempt left behind; `forbear.runtime.program.Leaves`."""

    __slots__ = ("_attempt", "_ended", "_engine", "_policy")

    def __init__(self, engine: Engine, attempt: Attempt, ended: Ended, policy: ToolPolicy) -> None:
        self._engine = engine
        self._attempt = attempt
        self._ended = ended
        self._policy = policy

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Return the boundaries that the execution reached."""
        trail = self._ended.trail
        return () if trail is None else trail.reached

    def piece(self, live: LiveTree, event: Event, now: datetime) -> Callable[[bytes], bytes] | None:
        """Return what makes a piece of evidence: of everything but a plain success of which no request was seen."""
        ended = self._ended
        if self._engine.world.evidence is None or ended.how in _SILENT:
            return None
        envelope = event.envelope if isinstance(event, Returned) else None
        if envelope is not None and envelope.outcome in COMPLETED and not self._speaks(ended.trail):
            return None
        about = self._about(live.tree.principal, now, event)

        def make(key: bytes) -> bytes:
            scrub = Scrub((*secret_values(self._attempt.arguments, self._policy.secret), *self._keys()))
            return piece_of(about, key=key, raw=ended.raw, error=ended.error, trail=ended.trail, scrub=scrub)

        return make

    def _speaks(self, trail: Trail | None) -> bool:
        """Say whether a success is worth a piece: where its requests went, or what was raised all the same."""
        raw = self._ended.raw
        if isinstance(raw, (Raised, RaisedFacts)) or (isinstance(raw, Http) and raw.status >= 400):
            return True
        return trail is not None and bool(trail.exchanges) and self._policy.effect is not Effect.READ

    def _keys(self) -> tuple[str, ...]:
        """Return the upstream's idempotency key, which may open something there."""
        key = self._policy.idempotency_key
        value = None if key is None else self._attempt.arguments.get(key.argument)
        trail = self._ended.trail
        own = None if trail is None or trail.key is None else trail.key[1]
        return tuple(one for one in (value, own) if isinstance(one, str) and one)

    def _about(self, principal: str, now: datetime, event: Event) -> About:
        attempt, engine = self._attempt, self._engine
        envelope = event.envelope if isinstance(event, Returned) else None
        return About(
            request_id=attempt.request_id,
            run=attempt.run,
            principal=principal,
            tool=attempt.tool,
            source=attempt.call.source,
            step=attempt.step,
            call_id=attempt.call_id,
            attempt=attempt.number,
            fingerprint=attempt.fingerprint,
            policy=self._policy.digest,
            how=self._ended.how.value,
            code="" if envelope is None else envelope.code,
            outcome="" if envelope is None else envelope.outcome.value,
            duration_us=max((now - attempt.started_at) // _MICROSECOND, 0),
            trace_id=engine.trace_id(),
            labels=engine.labels,
            arguments=attempt.call.arguments,
        )
