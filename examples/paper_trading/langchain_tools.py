"""The desk's tools as LangChain tools.

They behave as LangChain's own MCP loader does: an ``isError`` result becomes an error message with the text that came,
structured content travels as the message's artifact, and transport trouble is raised. No judgement happens here.
"""

from __future__ import annotations

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from mcp import types

from examples.paper_trading.desk import Desk


class DeskRefused(ToolException):
    """The desk answered with ``isError``; the message is the text that came."""


async def langchain_tools(desk: Desk) -> list[BaseTool]:
    """Return all tools of the desk for a LangChain model and a LangGraph node."""
    return [_as_tool(desk, tool) for tool in await desk.listed()]


def _as_tool(desk: Desk, tool: types.Tool) -> BaseTool:
    async def call(**arguments: object) -> tuple[str, object]:
        result = await desk.call(tool.name, arguments)
        text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
        if result.is_error:
            raise DeskRefused(text)
        return text, result.structured_content

    return StructuredTool(
        name=tool.name,
        description=tool.description or tool.name,
        args_schema=tool.input_schema,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
