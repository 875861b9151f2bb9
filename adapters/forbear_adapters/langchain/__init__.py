"""LangChain: `RecoveryMiddleware` for `create_agent`. Put it last in the list: it must be the layer next to the tools."""

from __future__ import annotations

from forbear_adapters._kit.extras import Extra

with Extra("langchain"):
    from forbear_adapters.langchain.bridge import RecoveryMiddleware

__all__ = ["RecoveryMiddleware"]
