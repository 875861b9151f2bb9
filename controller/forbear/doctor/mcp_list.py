"""Ask an MCP server for its tools over stdio, or read them from a file. No tool is called, and nothing else is asked.

JSON-RPC by hand, because the core imports no framework: one start, `initialize` where the server knows it,
`tools/list` page by page, end.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Final, cast

from forbear.doctor.seen import Found, FoundTool
from forbear.errors import ConfigError

__all__ = ["found_in", "from_command", "from_file"]

# Seconds that a server may take to answer one request; starting an interpreter with its libraries is in the first.
ANSWER_S: Final = 30.0
MAX_LINE: Final = 8 * 1024 * 1024
MAX_PAGES: Final = 100
# The last release of the protocol with a handshake, and the first without one.
HANDSHAKE: Final = "2025-11-25"
STATELESS: Final = "2026-07-28"
_CLIENT: Final = {"name": "forbear-doctor", "version": "1"}


def from_file(path: Path) -> Found:
    """Read a file with the JSON of a `ListToolsResult` (or a list of tools, or a whole JSON-RPC response).

    Raises:
        ConfigError: it is no such JSON.
    """
    try:
        document: object = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise ConfigError(f"{path.name!r}: is not JSON") from None
    return found_in(document, named=path.name)


def found_in(document: object, *, named: str) -> Found:
    """Return the tools of a `ListToolsResult`.

    Raises:
        ConfigError: it has no list of tools with names.
    """
    if isinstance(document, Mapping):
        members = cast("Mapping[str, object]", document)
        inner = members.get("result", members)
        document = cast("Mapping[str, object]", inner).get("tools") if isinstance(inner, Mapping) else None
    if not isinstance(document, list):
        raise ConfigError(f"{named!r}: must be a ListToolsResult (an object with a list 'tools')")
    return Found(tools=tuple(_tool(one, named) for one in cast("list[object]", document)))


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _tool(value: object, named: str) -> FoundTool:
    members = _members(value)
    name = members.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{named!r}: every tool must have a name")
    schema, said, description = (
        members.get("inputSchema"),
        _members(members.get("annotations")),
        members.get("description"),
    )
    return FoundTool(
        name=name,
        kind="MCP tool",
        description=description if isinstance(description, str) else "",
        input_schema=cast("Mapping[str, object]", schema) if isinstance(schema, Mapping) else None,
        read_only=_flag(said, "readOnlyHint"),
        destructive=_flag(said, "destructiveHint"),
        remote=True,
    )


def _flag(hints: Mapping[str, object], name: str) -> bool | None:
    value = hints.get(name)
    return value if isinstance(value, bool) else None


# ---- over stdio -----------------------------------------------------------------------------------------------------


def from_command(command: list[str], *, answer_s: float = ANSWER_S) -> Found:
    """Start a server, ask for its tools, and stop it.

    Raises:
        ConfigError: the command cannot be started, ends, is silent, or answers with an error.
    """
    with tempfile.TemporaryFile() as unread:
        try:
            server = subprocess.Popen(  # noqa: S603 - the command is the operator's own
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=unread, start_new_session=True
            )
        except OSError as error:
            raise ConfigError(f"mcp: cannot start {command[0]!r}: {error.strerror}") from None
        try:
            return Found(tools=tuple(_Talk(server, answer_s).tools()))
        finally:
            _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End a server the way the protocol asks: close its input, then a signal, then another."""
    for stream in (server.stdin, server.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
    for end in (None, server.terminate, server.kill):
        if end is not None:
            end()
        try:
            server.wait(2.0)
        except subprocess.TimeoutExpired:
            continue
        return


class _Talk:
    """One conversation with a server."""

    def __init__(self, server: subprocess.Popen[bytes], answer_s: float) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._write: IO[bytes] = server.stdin
        self._answer_s = answer_s
        self._lines: Queue[bytes] = Queue()
        self._number = 0
        threading.Thread(target=_read_lines, args=(server.stdout, self._lines), daemon=True).start()

    def tools(self) -> Iterator[FoundTool]:
        """Yield the server's tools, page by page."""
        hello: dict[str, object] = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
        shook = self._ask("initialize", hello) is not None
        if shook:
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        cursor: object = None
        for _ in range(MAX_PAGES):
            parameters: dict[str, object] = {} if cursor is None else {"cursor": cursor}
            if not shook:
                parameters["_meta"] = {
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientInfo": _CLIENT,
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            page = self._ask("tools/list", parameters)
            if page is None:
                raise ConfigError("mcp: the server refused to list its tools")
            yield from found_in(page, named="tools/list").tools
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return
        raise ConfigError(f"mcp: the server has more than {MAX_PAGES} pages of tools")

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._write.write(json.dumps(message).encode() + b"\n")
            self._write.flush()
        except OSError:
            raise ConfigError("mcp: the server ended") from None

    def _ask(self, method: str, parameters: dict[str, object]) -> Mapping[str, object] | None:
        """Return a result, or None where the server answers with an error."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        while True:
            try:
                line = self._lines.get(timeout=self._answer_s)
            except Empty:
                raise ConfigError(f"mcp: no answer to {method!r} within {self._answer_s:g} s") from None
            if not line:
                raise ConfigError(f"mcp: the server ended before it answered {method!r}")
            try:
                message: object = json.loads(line)
            except (ValueError, RecursionError):
                # Some servers print greetings; the protocol does not allow it, and it is no answer.
                continue
            members = _members(message)
            if members.get("id") != self._number or "method" in members:
                continue
            result = members.get("result")
            return cast("Mapping[str, object]", result) if isinstance(result, Mapping) else None


def _read_lines(stream: IO[bytes], lines: Queue[bytes]) -> None:
    """Put each line of a stream into a queue, and an empty one at its end."""
    try:
        while line := stream.readline(MAX_LINE):
            lines.put(line)
    except (OSError, ValueError):
        # The conversation is over, and its stream was closed under us.
        pass
    lines.put(b"")
