"""Real clients as tools: each sends one POST through our hooks and returns the parsed answer. Nothing is asserted here."""

from __future__ import annotations

import importlib
import importlib.util
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

BODY: dict[str, Any] = {"side": "buy", "quantity": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client: how a tool uses it, what it needs, and what it cannot tell."""

    name: str
    packages: tuple[str, ...]
    send: Callable[..., object] | None = None
    asend: Callable[..., Awaitable[object]] | None = None
    # It does not report how far an attempt came: only classes speak.
    is_watched: bool = True

    @property
    def is_installed(self) -> bool:
        return all(importlib.util.find_spec(package) is not None for package in self.packages)


def over_httpx(url: str, *, timeout: float, trust: ssl.SSLContext | None = None, headers: Any = None) -> object:
    """Post an order with httpx."""
    import httpx

    from forbear_adapters.http import over_httpx

    transport = None if trust is None else httpx.HTTPTransport(verify=trust)
    with over_httpx.client(timeout=timeout, transport=transport, headers=headers) as client:
        return client.post(f"{url}/orders", json=BODY).raise_for_status().json()


async def over_async_httpx(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Post an order with async httpx."""
    from forbear_adapters.http import over_httpx

    async with over_httpx.async_client(timeout=timeout) as client:
        return (await client.post(f"{url}/orders", json=BODY)).raise_for_status().json()


def over_httpx2(url: str, *, timeout: float) -> object:
    """Post an order with httpx2."""
    from forbear_adapters.http import over_httpx2

    with over_httpx2.client(timeout=timeout) as client:
        return client.post(f"{url}/orders", json=BODY).raise_for_status().json()


async def over_async_httpx2(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Post an order with async httpx2."""
    from forbear_adapters.http import over_httpx2

    async with over_httpx2.async_client(timeout=timeout) as client:
        return (await client.post(f"{url}/orders", json=BODY)).raise_for_status().json()


def over_requests(url: str, *, timeout: float) -> object:
    """Post an order with requests."""
    from forbear_adapters.http import over_requests

    with over_requests.session() as session:
        response = session.post(f"{url}/orders", json=BODY, timeout=timeout)
        response.raise_for_status()
        return response.json()


def over_urllib3(url: str, *, timeout: float) -> object:
    """Post an order with urllib3."""
    from forbear_adapters.http import over_requests

    with over_requests.pool_manager(timeout=timeout) as pools:
        response = pools.request("POST", f"{url}/orders", json=BODY)
        if response.status >= 300:
            # urllib3 raises nothing for a status: this is the tool's own code.
            raise RuntimeError
        return response.json()


async def over_aiohttp(url: str, *, timeout: float) -> object:  # noqa: ASYNC109 - it is the client's own
    """Post an order with aiohttp."""
    from forbear_adapters.http import over_aiohttp

    async with (
        over_aiohttp.session(timeout=timeout) as session,
        session.post(f"{url}/orders", json=BODY, allow_redirects=False) as response,
    ):
        response.raise_for_status()
        return await response.json()


def over_openai(url: str, *, timeout: float) -> object:
    """Post an order with openai."""
    openai = importlib.import_module("openai")

    from forbear_adapters.http import over_httpx2, single_attempt

    with over_httpx2.client(timeout=timeout) as http:
        client = single_attempt(openai.OpenAI(api_key="k", base_url=url, http_client=http, timeout=timeout))
        return client.chat.completions.create(model="m", messages=[]).id


def over_anthropic(url: str, *, timeout: float) -> object:
    """Post an order with anthropic."""
    anthropic = importlib.import_module("anthropic")

    from forbear_adapters.http import over_httpx2, single_attempt

    with over_httpx2.client(timeout=timeout) as http:
        client = single_attempt(anthropic.Anthropic(api_key="k", base_url=url, http_client=http, timeout=timeout))
        return client.messages.create(model="m", max_tokens=1, messages=[]).id


def over_botocore(url: str, *, timeout: float) -> object:
    """Post an order with botocore."""
    # It brings no types, and is not in every environment.
    session = importlib.import_module("botocore.session").get_session()
    config = importlib.import_module("botocore.config").Config

    from forbear_adapters.http import over_botocore, single_attempt

    client = session.create_client(
        "sns",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="k",
        aws_secret_access_key="k",
        config=config(connect_timeout=timeout, read_timeout=timeout, retries={"total_max_attempts": 1}),
    )
    over_botocore.watch(single_attempt(client))
    try:
        return client.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:t", Message="m")
    finally:
        client.close()


CLIENTS = (
    Client(name="httpx", packages=("httpx",), send=over_httpx),
    Client(name="httpx-async", packages=("httpx",), asend=over_async_httpx),
    Client(name="httpx2", packages=("httpx2",), send=over_httpx2),
    Client(name="httpx2-async", packages=("httpx2",), asend=over_async_httpx2),
    Client(name="requests", packages=("requests",), send=over_requests),
    Client(name="urllib3", packages=("requests", "urllib3"), send=over_urllib3),
    Client(name="aiohttp", packages=("aiohttp",), asend=over_aiohttp),
    Client(name="openai", packages=("openai", "httpx2"), send=over_openai),
    Client(name="anthropic", packages=("anthropic", "httpx2"), send=over_anthropic),
    Client(name="botocore", packages=("botocore",), send=over_botocore, is_watched=False),
)
