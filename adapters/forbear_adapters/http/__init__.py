"""HTTP clients under a tool: transports and hooks that record how far each request came.

Import the module of your client: `over_httpx`, `over_httpx2`, `over_requests` (and urllib3), `over_aiohttp`,
`over_botocore`. What needs no client is here.
"""

from __future__ import annotations

from forbear_adapters.http.clients import hidden_retries, single_attempt
from forbear_adapters.http.keys import keyed
from forbear_adapters.http.mapping import http_result

__all__ = ["hidden_retries", "http_result", "keyed", "single_attempt"]
