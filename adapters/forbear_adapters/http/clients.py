"""Find the retries that clients make by themselves, and switch them off. Clients are recognised, never imported.

A client that is not in the table is not known to be quiet: its requests are counted by the transports all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from forbear.errors import ConfigError

__all__ = ["hidden_retries", "single_attempt"]

T = TypeVar("T")

# SDKs made by one generator: `max_retries`, and a copy with other options.
_GENERATED: Final = frozenset({"openai", "anthropic", "cloudflare"})


def _package(client: object) -> str:
    return type(client).__module__.partition(".")[0]


def _get(holder: object, *names: str) -> Any:
    """Return what is found along a path of attributes and keys, or None."""
    for name in names:
        if isinstance(holder, dict):
            holder = cast("dict[str, object]", holder).get(name)
        else:
            holder = getattr(holder, name, None)
    return holder


def hidden_retries(client: object) -> str:
    """Return how a client repeats requests by itself, and the switch; "" where none is seen.

    Args:
        client: A client of openai, anthropic, cloudflare, botocore, slack_sdk, stripe, redis, requests, urllib3 or aiohttp.
    """
    package = _package(client)
    found = _REPORTS.get(package)
    if found is None and package in _GENERATED:
        found = _generated
    return "" if found is None else found(client)


def _generated(client: object) -> str:
    count = _get(client, "max_retries")
    return f"repeats a request {count} times: max_retries=0" if isinstance(count, int) and count > 0 else ""


def _botocore(client: object) -> str:
    most = _get(client, "meta", "config", "retries", "total_max_attempts")
    return "" if most == 1 else 'makes 3 or more attempts: Config(retries={"total_max_attempts": 1})'


def _slack(client: object) -> str:
    return "repeats a request: retry_handlers=[]" if _get(client, "retry_handlers") else ""


def _stripe(client: object) -> str:
    count = _get(client, "_requestor", "_options", "max_network_retries")
    return "repeats a request: max_network_retries=0" if isinstance(count, int) and count > 0 else ""


def _redis(client: object) -> str:
    count = _get(client, "connection_pool", "connection_kwargs", "retry", "_retries")
    return "repeats a command: retry=Retry(NoBackoff(), 0)" if count is None or count != 0 else ""


def _requests(client: object) -> str:
    adapters = cast("dict[str, object]", _get(client, "adapters") or {})
    total = [_get(adapter, "max_retries", "total") for adapter in adapters.values()]
    return "repeats a request: HTTPAdapter(max_retries=0)" if any(total) else ""


def _urllib3(client: object) -> str:
    retries = _get(client, "connection_pool_kw", "retries")
    if retries is False or _get(retries, "total") in (0, False):
        return ""
    return "repeats GET, PUT, DELETE, and any request on a TLS error: retries=False"


def _aiohttp(client: object) -> str:
    # aiohttp has no public switch; its own test client sets this one.
    repeats = _get(client, "_retry_connection") is True
    return "repeats GET, PUT and DELETE on a lost answer: session._retry_connection = False" if repeats else ""


_REPORTS: Final[dict[str, Callable[[object], str]]] = {
    "botocore": _botocore,
    "slack_sdk": _slack,
    "stripe": _stripe,
    "redis": _redis,
    "requests": _requests,
    "urllib3": _urllib3,
    "aiohttp": _aiohttp,
}


def single_attempt(client: T) -> T:
    """Return a client that makes one attempt: the same one, changed, or a copy of it.

    Raises:
        ConfigError: it repeats requests and cannot be changed; the message names the switch.
    """
    found = hidden_retries(client)
    if not found:
        return client
    package = _package(client)
    changed: Any = client
    if package in _GENERATED:
        changed = changed.with_options(max_retries=0)
    elif package == "slack_sdk":
        changed.retry_handlers.clear()
    elif package == "urllib3":
        changed.connection_pool_kw["retries"] = False
    elif package == "aiohttp":
        changed._retry_connection = False  # noqa: SLF001  # see above
    if hidden_retries(changed):
        raise ConfigError(f"client of {package!r} {found}")
    return cast("T", changed)
