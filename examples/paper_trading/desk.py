"""The client side of the desk: one server process over stdio, and its tools as plain functions.

No judgement happens here, and no framework is known: the same tools for LangChain are in `langchain_tools`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client, types

from forbear.contract import Mcp, mcp_result

ToolFunction = Callable[..., Awaitable[Mcp]]

READ_TIMEOUT_S = 20.0
"""Real seconds that a call may take where the journey says nothing else; far above what a loaded machine needs."""

ROOT = Path(__file__).resolve().parents[2]


class Desk:
    """A running server over one world file. Usable from any task of the event loop that entered it."""

    def __init__(self, path: Path) -> None:
        """Name the world file; the server starts on first use."""
        self._path = path.resolve()
        self._owner: asyncio.Task[None] | None = None
        self._session: asyncio.Future[ClientSession] | None = None
        self._leave = asyncio.Event()
        self.timeouts: Mapping[str, float] = {}
        """Read time-out by tool, in real seconds."""

    async def __aenter__(self) -> Self:
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._disconnect()

    async def call(self, name: str, arguments: Mapping[str, object]) -> types.CallToolResult:
        """Send one call and return what came back; a server that is gone is started again, the call is not repeated.

        Raises:
            MCPError: No answer within the read time-out, or the stream closed. Whether the call took effect is unknown.
        """
        session = await self._connected()
        try:
            return await session.call_tool(
                name, dict(arguments), read_timeout_seconds=self.timeouts.get(name, READ_TIMEOUT_S)
            )
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                await self._disconnect()
            raise

    async def listed(self) -> list[types.Tool]:
        """Return all tools as the desk lists them."""
        return list((await (await self._connected()).list_tools()).tools)

    async def functions(self) -> dict[str, ToolFunction]:
        """Return all tools as functions, which is all that a loop without a framework needs.

        Each gives the MCP result as it came, so that whoever judges it sees what the server said.
        """
        return {tool.name: self._function(tool.name) for tool in await self.listed()}

    def _function(self, name: str) -> ToolFunction:
        async def call(**arguments: object) -> Mcp:
            result = await self.call(name, arguments)
            return mcp_result(result.model_dump(mode="json", by_alias=True, exclude_none=True))

        call.__name__ = name
        return call

    async def _connected(self) -> ClientSession:
        if self._owner is None or self._session is None or self._owner.done():
            self._leave = asyncio.Event()
            self._session = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(self._session, self._leave))
        return await asyncio.shield(self._session)

    async def _disconnect(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            self._leave.set()
            await asyncio.wait([owner])
            owner.exception()

    async def _own(self, session: asyncio.Future[ClientSession], leave: asyncio.Event) -> None:
        """Hold the connection in one task: its scopes must be left by the task that entered them."""
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "examples.paper_trading.server", str(self._path)], cwd=ROOT
        )
        try:
            with _nowhere() as nowhere:
                async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as opened:
                    await opened.initialize()
                    session.set_result(opened)
                    await leave.wait()
        except Exception as error:
            if session.done():
                raise
            session.set_exception(error)


def _nowhere() -> TextIO:
    """Return where the server's own log goes: nobody reads it here."""
    return Path(os.devnull).open("w", encoding="utf-8")
