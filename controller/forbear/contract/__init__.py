"""Everything that turns the outside world into the core's values and back. Decisions about calls never live here."""

from __future__ import annotations

from forbear.contract.boundaries import Boundary, Exchange, Step, Trail, current_trail, mark, recording, witnessed
from forbear.contract.case import Counts
from forbear.contract.catalogue import Catalogue, Entry, builtin_catalogue, load_catalogue
from forbear.contract.classify import classify, poll_finished
from forbear.contract.declare import from_mcp_annotations, policies_from_mapping, policies_from_toml, tool_policy
from forbear.contract.declared_fields import allow, ask, deny
from forbear.contract.envelope import is_contract, read_counted, read_envelope, write_envelope
from forbear.contract.limits import limits
from forbear.contract.lint import lint_text
from forbear.contract.process import ended
from forbear.contract.profiles import Profile, load_profile, profile_names
from forbear.contract.raised import facts_of, phase_of
from forbear.contract.raw import (
    ABSENT,
    Client,
    Grpc,
    Http,
    Mcp,
    McpError,
    Process,
    Raised,
    RaisedFacts,
    Raw,
    RequestFacts,
    Value,
    header_pairs,
    mcp_result,
)

__all__ = [
    "ABSENT",
    "Boundary",
    "Catalogue",
    "Client",
    "Counts",
    "Entry",
    "Exchange",
    "Grpc",
    "Http",
    "Mcp",
    "McpError",
    "Process",
    "Profile",
    "Raised",
    "RaisedFacts",
    "Raw",
    "RequestFacts",
    "Step",
    "Trail",
    "Value",
    "allow",
    "ask",
    "builtin_catalogue",
    "classify",
    "current_trail",
    "deny",
    "ended",
    "facts_of",
    "from_mcp_annotations",
    "header_pairs",
    "is_contract",
    "limits",
    "lint_text",
    "load_catalogue",
    "load_profile",
    "mark",
    "mcp_result",
    "phase_of",
    "policies_from_mapping",
    "policies_from_toml",
    "poll_finished",
    "profile_names",
    "read_counted",
    "read_envelope",
    "recording",
    "tool_policy",
    "witnessed",
    "write_envelope",
]
