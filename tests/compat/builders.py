"""How sixteen libraries build a tool of a Python function, show its schema to a model, and call it.

Nothing is imported before it is used: each library is installed in an environment of its own. No test lives here.
"""

from __future__ import annotations

import importlib.util
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

Fn = Callable[..., Any]
Arguments = Mapping[str, object]


class Builder:
    """One library."""

    # What is installed, and the module that shows that it is.
    packages: ClassVar[tuple[str, ...]]
    module: ClassVar[str]
    # Kinds of functions that the library takes.
    kinds: ClassVar[tuple[str, ...]] = ("sync", "async")
    # Kinds of functions that the library calls in a thread without the caller's context.
    loses_context: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def tool(self, fn: Fn) -> Any:
        """Return the library's tool."""

    @abstractmethod
    async def schema(self, tool: Any) -> Any:
        """Return what the model is told about the arguments."""

    @abstractmethod
    async def call(self, tool: Any, arguments: Arguments) -> Any:
        """Call the tool as the library's own loop does, and return what it gave."""

    @classmethod
    def is_installed(cls) -> bool:
        """Say whether the library is there."""
        top, _, rest = cls.module.partition(".")
        if importlib.util.find_spec(top) is None:
            return False
        try:
            return not rest or importlib.util.find_spec(cls.module) is not None
        except ModuleNotFoundError:
            return False


def _is_async(fn: Fn) -> bool:
    import inspect

    return inspect.iscoroutinefunction(fn)


class PydanticAi(Builder):
    packages = ("pydantic-ai-slim",)
    module = "pydantic_ai"

    def tool(self, fn: Fn) -> Any:
        from pydantic_ai import Agent
        from pydantic_ai.models.function import FunctionModel

        self.asked: list[Any] = []
        self.arguments: Arguments = {}

        def model(messages: Any, info: Any) -> Any:
            from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

            self.asked.append(info.function_tools)
            parts = [part for message in messages for part in message.parts if part.part_kind == "tool-return"]
            if parts:
                return ModelResponse(parts=[TextPart(str(parts[-1].content))])
            return ModelResponse(parts=[ToolCallPart(fn.__name__, dict(self.arguments))])

        return Agent(FunctionModel(model), tools=[fn])

    async def schema(self, tool: Any) -> Any:
        from pydantic_ai.tools import Tool

        (made,) = tool._function_toolset.tools.values()
        return Tool(made.function).function_schema.json_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        self.arguments = arguments
        return (await tool.run("go")).output


class GoogleAdk(Builder):
    packages = ("google-adk",)
    module = "google.adk.tools"

    def tool(self, fn: Fn) -> Any:
        from google.adk.tools import FunctionTool

        return FunctionTool(fn)

    async def schema(self, tool: Any) -> Any:
        declaration = tool._get_declaration()
        return declaration.model_dump(mode="json", exclude_none=True)

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await tool.run_async(args=dict(arguments), tool_context=None)


class Strands(Builder):
    packages = ("strands-agents",)
    module = "strands"

    def tool(self, fn: Fn) -> Any:
        from strands import tool

        return tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.tool_spec["inputSchema"]["json"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        use = {"toolUseId": "1", "name": tool.tool_name, "input": dict(arguments)}
        events = [event async for event in tool.stream(use, {})]
        return events[-1]


class AgentFramework(Builder):
    packages = ("agent-framework-core",)
    module = "agent_framework"

    def tool(self, fn: Fn) -> Any:
        from agent_framework import tool

        return tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.parameters()

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return " ".join(content.text for content in await tool.invoke(arguments=dict(arguments)))


class LlamaIndex(Builder):
    packages = ("llama-index-core",)
    module = "llama_index.core"

    def tool(self, fn: Fn) -> Any:
        from llama_index.core.tools import FunctionTool

        return FunctionTool.from_defaults(async_fn=fn) if _is_async(fn) else FunctionTool.from_defaults(fn=fn)

    async def schema(self, tool: Any) -> Any:
        return tool.metadata.get_parameters_dict()

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return (await tool.acall(**arguments)).content


class Smolagents(Builder):
    packages = ("smolagents",)
    module = "smolagents"
    kinds = ("sync",)

    def tool(self, fn: Fn) -> Any:
        from smolagents import tool

        return tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.inputs

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        import asyncio

        return await asyncio.to_thread(tool, **arguments)


class Agno(Builder):
    packages = ("agno",)
    module = "agno"

    def tool(self, fn: Fn) -> Any:
        from agno.tools.function import Function

        made = Function.from_callable(fn)
        made.process_entrypoint()
        return made

    async def schema(self, tool: Any) -> Any:
        return tool.parameters

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        from agno.tools.function import FunctionCall

        return (await FunctionCall(function=tool, arguments=dict(arguments)).aexecute()).result


class Haystack(Builder):
    packages = ("haystack-ai",)
    module = "haystack"
    kinds = ("sync",)

    def tool(self, fn: Fn) -> Any:
        from haystack.tools import create_tool_from_function

        return create_tool_from_function(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.parameters

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return tool.invoke(**arguments)


class CrewAi(Builder):
    packages = ("crewai",)
    module = "crewai"
    kinds = ("sync",)

    def tool(self, fn: Fn) -> Any:
        from crewai.tools import tool

        return tool(fn.__name__)(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args_schema.model_json_schema()["properties"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        import asyncio

        return await asyncio.to_thread(tool.run, **arguments)


class AutoGen(Builder):
    packages = ("autogen-core",)
    module = "autogen_core"
    loses_context = ("sync",)

    def tool(self, fn: Fn) -> Any:
        from autogen_core.tools import FunctionTool

        return FunctionTool(fn, description="Place an order.")

    async def schema(self, tool: Any) -> Any:
        return tool.schema["parameters"]["properties"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        from autogen_core import CancellationToken

        return tool.return_value_as_string(await tool.run_json(dict(arguments), CancellationToken()))


class SemanticKernel(Builder):
    packages = ("semantic-kernel",)
    module = "semantic_kernel"

    def tool(self, fn: Fn) -> Any:
        from semantic_kernel import Kernel
        from semantic_kernel.functions import kernel_function

        self.kernel = Kernel()
        return self.kernel.add_function(plugin_name="desk", function=kernel_function(fn))

    async def schema(self, tool: Any) -> Any:
        return {parameter.name: parameter.schema_data for parameter in tool.parameters}

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        from semantic_kernel.functions import KernelArguments

        return str(await self.kernel.invoke(tool, arguments=KernelArguments(**arguments)))


class Anthropic(Builder):
    packages = ("anthropic",)
    module = "anthropic"

    def tool(self, fn: Fn) -> Any:
        from anthropic import beta_async_tool, beta_tool

        return beta_async_tool(fn) if _is_async(fn) else beta_tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.input_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        given = tool.call(dict(arguments))
        return await given if hasattr(given, "__await__") else given


class LangChain(Builder):
    packages = ("langchain",)
    module = "langchain"

    def tool(self, fn: Fn) -> Any:
        from langchain.tools import tool

        return tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return (
            await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": dict(arguments)})
        ).content


class OpenAiAgents(Builder):
    packages = ("openai-agents",)
    module = "agents"

    def tool(self, fn: Fn) -> Any:
        from agents import function_tool

        return function_tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.params_json_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        from agents.tool_context import ToolContext

        # A strict schema makes the model write every argument.
        text = json.dumps({"qty": 1, "side": "buy", **arguments})
        context = ToolContext(context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=text)
        return await tool.on_invoke_tool(context, text)


class FastMcp(Builder):
    packages = ("fastmcp",)
    module = "fastmcp"

    def tool(self, fn: Fn) -> Any:
        from fastmcp import FastMCP

        server = FastMCP("desk")
        server.tool(fn)
        return server

    async def schema(self, tool: Any) -> Any:
        from fastmcp import Client

        async with Client(tool) as client:
            (listed,) = await client.list_tools()
        return listed.input_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        from fastmcp import Client

        async with Client(tool) as client:
            (listed,) = await client.list_tools()
            return (await client.call_tool(listed.name, dict(arguments))).content[0].text


class Dspy(Builder):
    packages = ("dspy",)
    module = "dspy"

    def tool(self, fn: Fn) -> Any:
        import dspy

        return dspy.Tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await tool.acall(**arguments) if _is_async(tool.func) else tool(**arguments)


def case_id(name: str) -> str:
    """Return a library's name as a test id that pytest can select by."""
    return name.replace(" ", "_")


BUILDERS: dict[str, type[Builder]] = {
    "Pydantic AI": PydanticAi,
    "Google ADK": GoogleAdk,
    "Strands Agents": Strands,
    "Agent Framework": AgentFramework,
    "LlamaIndex": LlamaIndex,
    "smolagents": Smolagents,
    "Agno": Agno,
    "Haystack": Haystack,
    "CrewAI": CrewAi,
    "AutoGen": AutoGen,
    "Semantic Kernel": SemanticKernel,
    "Anthropic": Anthropic,
    "LangChain": LangChain,
    "OpenAI Agents": OpenAiAgents,
    "FastMCP": FastMcp,
    "DSPy": Dspy,
}
