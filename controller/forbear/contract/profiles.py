"""Vendor profiles: conventions of one service as data, loadable by users. Filled by `profiles/*.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from forbear.contract.case import Case
from forbear.contract.hints import Ends, Fields
from forbear.contract.raw import Http
from forbear.core.values import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The conventions of one vendor or dialect."""

    name: str

    def judge(self, http: Http, case: Case, fields: Fields, ends: Ends, body: object) -> Envelope | None:
        """Return what an answer means by this vendor's conventions; None = neutral rules."""
        return None


def load_profile(name: str) -> Profile:
    return Profile(name=name)
