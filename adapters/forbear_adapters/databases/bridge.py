"""What the hooks have in common: write down that a connection is being made, and that something is sent. No client is imported.

Each command or statement is one request of the execution, so that "not sent" is claimed only where nothing went before it.
No statement, no parameter and no credential is taken.
"""

from __future__ import annotations

from typing import Final

from forbear.contract import Exchange, Step, current_trail

__all__ = ["connects", "place", "sends"]

_CONNECT: Final = "CONNECT"


def place(scheme: str, host: object, port: object) -> str:
    """Return where a connection goes, as a URL of host and port only."""
    name = host if isinstance(host, str) and host and not host.startswith("/") else "localhost"
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def connects(url: str) -> None:
    """Write down that a connection is being made in a governed call; until something is sent, nothing has left."""
    trail = current_trail()
    if trail is not None:
        _open(trail.begin(_CONNECT, url)).reach(Step.CONNECT)


def sends(method: str, url: str) -> None:
    """Write down that a command is being sent in a governed call: its first byte may have left from here on."""
    trail = current_trail()
    if trail is None:
        return
    last = trail.exchanges[-1] if trail.exchanges else None
    if last is None or last.method != _CONNECT or last.step is not Step.CONNECT:
        last = _open(trail.begin(method, url))
    # The first command on a connection goes on where connecting ended.
    last.method = method
    last.reach(Step.WRITE)


def _open(exchange: Exchange) -> Exchange:
    exchange.watched = True
    return exchange
