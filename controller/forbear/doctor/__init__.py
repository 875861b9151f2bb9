"""Read a project's tools, propose what to declare about them, and name what is risky. No tool is ever called here.

Sources of frameworks are found through the entry-point group ``forbear.tool_sources``; they use the names below.
"""

from __future__ import annotations

from forbear.doctor.examine import Diagnosis, diagnose
from forbear.doctor.seen import Concern, Finding, Found, FoundTool, ToolSource, Weight

__all__ = ["Concern", "Diagnosis", "Finding", "Found", "FoundTool", "ToolSource", "Weight", "diagnose"]
