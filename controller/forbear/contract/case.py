"""What a raw result is judged against: the tool's policy, the call's arguments, the clock, the catalogue, the vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from forbear.contract.catalogue import Catalogue
from forbear.contract.hints import Ends, Fields
from forbear.contract.raw import Http
from forbear.core.policy import ToolPolicy
from forbear.core.values import Envelope
from forbear.core.vocabulary import Effect, Trust


class Conventions(Protocol):
    """What a vendor's profile can do; see `profiles.py`."""

    def judge(self, http: Http, case: Case, fields: Fields, neutral_ends: Ends, body: object) -> Envelope:
        """Return what an HTTP answer means by the vendor's conventions, else by the neutral rules."""
        ...


@dataclass(slots=True)
class Counts:
    """How often something of a tool's own envelope was not taken over. The caller owns it; metrics read it."""

    dropped_fields: int = 0
    replaced_texts: int = 0
    refused_codes: int = 0
    unknown_codes: int = 0
    unreadable_envelopes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One judgment's surroundings."""

    policy: ToolPolicy
    arguments: Mapping[str, object]
    # Aware UTC, the instant of receipt.
    now: datetime
    catalogue: Catalogue
    # Conventions of a vendor or dialect, where one was registered; None = neutral rules only.
    profile: Conventions | None = None
    counts: Counts = field(default_factory=Counts)
    # The result is a protocol's answer, not the value of an in-process function.
    answered_remotely: bool = False

    @property
    def effect(self) -> Effect:
        """What the author declared about the tool's effect."""
        return self.policy.effect

    @property
    def writes(self) -> bool:
        """Whether the call must be treated like a write."""
        return self.policy.effect is not Effect.READ

    @property
    def may_repeat(self) -> bool:
        """Whether a second execution does no harm, by the author's declaration alone."""
        return not self.writes or self.policy.repeatable is True

    @property
    def speaks_contract(self) -> bool:
        """Whether contract words in a result are obeyed; otherwise they are data."""
        declared = self.policy.speaks_contract
        if declared is not None:
            return declared
        return self.policy.trust is Trust.OWNED and not self.answered_remotely
