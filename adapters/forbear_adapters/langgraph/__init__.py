"""LangGraph: `RecoveryToolNode` in the place of `ToolNode`, `recovery_condition` in the place of the edge after it."""

from __future__ import annotations

from forbear_adapters._kit.extras import Extra

with Extra("langgraph"):
    from forbear_adapters.langgraph.bridge import RecoveryToolNode
    from forbear_adapters.langgraph.mapping import recovery_condition
    from forbear_adapters.langgraph.ready import adeliver_ready, deliver_ready

__all__ = ["RecoveryToolNode", "adeliver_ready", "deliver_ready", "recovery_condition"]
