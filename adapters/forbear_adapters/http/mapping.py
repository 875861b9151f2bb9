"""Translate a client's response into the contract's raw result. Pure: nothing is read from a network or judged."""

from __future__ import annotations

from typing import cast

from forbear.contract import Http, RequestFacts, current_trail, header_pairs

__all__ = ["http_result"]


def http_result(response: object, *, body: object = None) -> Http:
    """Return a response of httpx, httpx2, requests, urllib3 or aiohttp as a raw result, for a tool to return.

    Args:
        response: The response. Its status, header fields and request are read; its body only where it is in memory.
        body: The body, where the client has not kept it (`await response.read()` of aiohttp).

    Raises:
        TypeError: it is no response of these clients.
    """
    status = _get(response, "status_code")
    if status is None:
        status = _get(response, "status")
    if not isinstance(status, int):
        raise TypeError("http_result: must be given a response that has a status")
    request = _get(response, "request") or _get(response, "request_info")
    method = _get(request, "method") or _get(response, "method")
    trail = current_trail()
    seen = None if trail is None else trail.answer()
    facts = RequestFacts(
        idempotency_key=seen is not None and seen.request.idempotency_key,
        redirected=bool(_get(response, "history")) or (seen is not None and seen.request.redirected),
    )
    return Http(
        status=status,
        headers=header_pairs(_get(response, "headers")),
        body=_body(response) if body is None else body,
        method=method if isinstance(method, str) else "",
        request=facts,
    )


def _get(holder: object, name: str) -> object:
    """Return an attribute, or None; httpx raises where a response has no request."""
    try:
        return cast("object", getattr(holder, name, None))
    except RuntimeError:
        return None


def _body(response: object) -> object:
    """Return a body that is in memory; one that was not read stays unread."""
    for name in ("_content", "_body"):
        held = _get(response, name)
        if isinstance(held, (bytes, str)):
            return held
    held = _get(response, "data") if type(response).__module__.startswith("urllib3") else ""
    return held if isinstance(held, (bytes, str)) else ""
