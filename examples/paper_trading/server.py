"""The desk as an MCP server over stdio: ``python -m examples.paper_trading.server DESK.sqlite``.

Lists the tools, runs each call in one transaction with its ledger row, and misbehaves as the scenario says. What the
tools do is in `reading` and `trading`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from examples.paper_trading.arguments import Unusable
from examples.paper_trading.catalog import BY_NAME, TOOLS, DeskTool
from examples.paper_trading.replies import BARE_503, Reply, complaint, refused
from examples.paper_trading.world import FaultKind, JsonObject, World, stamp

SILENCE_S = 30.0
"""How long a silent call says nothing, in real seconds; its client has long stopped listening and cancelled it."""


def build(world: World) -> Server[dict[str, object]]:
    """Return the server over one world."""

    async def list_tools(
        _: ServerRequestContext[dict[str, object]], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.as_tool() for tool in TOOLS])

    async def call_tool(
        _: ServerRequestContext[dict[str, object]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, "Unknown tool")
        reply, fault = execute(world, tool, params.arguments or {})
        if fault is FaultKind.EXIT_AFTER_COMMIT:
            os._exit(1)
        if fault is FaultKind.SILENT_AFTER_COMMIT:
            await asyncio.sleep(SILENCE_S)
        return reply.as_result()

    return Server("paper-desk", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def execute(world: World, tool: DeskTool, arguments: JsonObject) -> tuple[Reply, FaultKind | None]:
    """Run one call and commit it with its ledger row; return the reply and how the desk misbehaves after that."""
    with world.transaction():
        fault = _next_fault(world, tool)
        if fault is FaultKind.UNAVAILABLE:
            reply = complaint("503 Service Unavailable", code=BARE_503)
        else:
            try:
                reply = tool.run(world, arguments)
            except Unusable as unusable:
                fields = {"invalid_fields": [unusable.field]}
                reply = refused("INVALID_ARGUMENT", "repair_input", message="Not usable.", fields=fields)
            if not reply.effect:
                fault = None
        if fault is not None:
            world.sql.execute("UPDATE faults SET remaining = remaining - 1 WHERE operation = ?", (tool.family,))
        row = world.sql.execute(
            "INSERT INTO ledger (at, tool, operation, arguments, outcome, code, reset_at, effect)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                stamp(world.now),
                tool.name,
                tool.family,
                json.dumps(arguments, sort_keys=True),
                reply.outcome,
                reply.code,
                None if reply.reset_at is None else stamp(reply.reset_at),
                reply.effect,
            ),
        ).fetchone()
    return reply.with_request_id(f"req_{row['id']:05x}"), fault


def _next_fault(world: World, tool: DeskTool) -> FaultKind | None:
    row = world.sql.execute("SELECT kind FROM faults WHERE operation = ? AND remaining > 0", (tool.family,)).fetchone()
    return None if row is None else FaultKind(row["kind"])


async def serve(path: Path) -> None:
    """Serve the desk in `path` until the client closes the stream."""
    world = World(path)
    server = build(world)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
    world.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
