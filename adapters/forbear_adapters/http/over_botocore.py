"""Hooks of botocore that record each attempt and its status. It does not say how far an attempt came.

botocore tells before it sends and after an answer was read; in between only the class of an exception speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from forbear.contract import Exchange, header_pairs
from forbear_adapters.http.bridge import begin

__all__ = ["watch"]

_SENDING: ContextVar[Exchange | None] = ContextVar("forbear_botocore", default=None)


def watch(client: Any) -> None:
    """Record every attempt that a client of botocore or boto3 makes in a governed call."""
    events = client.meta.events
    events.register_first("before-send", _before)
    events.register_first("response-received", _after)


def _before(request: Any, **_more: object) -> None:
    _SENDING.set(begin(str(request.method), request.url))


def _after(response_dict: Mapping[str, Any] | None = None, **_more: object) -> None:
    exchange = _SENDING.get()
    if exchange is not None and response_dict is not None:
        exchange.answered(response_dict["status_code"], header_pairs(response_dict["headers"]))
