"""How sixteen libraries build a tool of a Python function, show its schema to a model, and call it.

Nothing is imported before it is used: each library is installed in an environment of its own. No test lives here.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Fn = Callable[..., Any]
Arguments = Mapping[str, object]


def load(module: str) -> Any:
    """Import a library when it is used. By name: type checkers cannot see it where it is not installed."""
    return importlib.import_module(module)


class Builder:
    """How one library makes tools."""

    @abstractmethod
    def tool(self, fn: Fn) -> Any:
        """Return the library's tool."""

    @abstractmethod
    async def schema(self, tool: Any) -> Any:
        """Return what the model is told about the arguments."""

    @abstractmethod
    async def call(self, tool: Any, arguments: Arguments) -> Any:
        """Call the tool as the library's own loop does, and return what it gave."""


def _is_async(fn: Fn) -> bool:
    return inspect.iscoroutinefunction(fn)


class PydanticAi(Builder):
    def tool(self, fn: Fn) -> Any:
        self.arguments: Arguments = {}

        def model(messages: Any, info: Any) -> Any:
            shapes = load("pydantic_ai.messages")
            results = [part for message in messages for part in message.parts if part.part_kind == "tool-return"]
            if results:
                return shapes.ModelResponse(parts=[shapes.TextPart(str(results[-1].content))])
            return shapes.ModelResponse(parts=[shapes.ToolCallPart(fn.__name__, dict(self.arguments))])

        return load("pydantic_ai").Agent(load("pydantic_ai.models.function").FunctionModel(model), tools=[fn])

    async def schema(self, tool: Any) -> Any:
        (made,) = tool._function_toolset.tools.values()
        return load("pydantic_ai.tools").Tool(made.function).function_schema.json_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        self.arguments = arguments
        return (await tool.run("go")).output


class GoogleAdk(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("google.adk.tools").FunctionTool(fn)

    async def schema(self, tool: Any) -> Any:
        declaration = tool._get_declaration()
        return declaration.model_dump(mode="json", exclude_none=True)

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await tool.run_async(args=dict(arguments), tool_context=None)


class Strands(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("strands").tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.tool_spec["inputSchema"]["json"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        use = {"toolUseId": "1", "name": tool.tool_name, "input": dict(arguments)}
        events = [event async for event in tool.stream(use, {})]
        return events[-1]


class AgentFramework(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("agent_framework").tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.parameters()

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return " ".join(content.text for content in await tool.invoke(arguments=dict(arguments)))


class LlamaIndex(Builder):
    def tool(self, fn: Fn) -> Any:
        return (
            load("llama_index.core.tools").FunctionTool.from_defaults(async_fn=fn)
            if _is_async(fn)
            else load("llama_index.core.tools").FunctionTool.from_defaults(fn=fn)
        )

    async def schema(self, tool: Any) -> Any:
        return tool.metadata.get_parameters_dict()

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return (await tool.acall(**arguments)).content


class Smolagents(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("smolagents").tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.inputs

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await asyncio.to_thread(tool, **arguments)


class Agno(Builder):
    def tool(self, fn: Fn) -> Any:
        made = load("agno.tools.function").Function.from_callable(fn)
        made.process_entrypoint()
        return made

    async def schema(self, tool: Any) -> Any:
        return tool.parameters

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return (
            await load("agno.tools.function").FunctionCall(function=tool, arguments=dict(arguments)).aexecute()
        ).result


class Haystack(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("haystack.tools").create_tool_from_function(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.parameters

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return tool.invoke(**arguments)


class CrewAi(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("crewai.tools").tool(fn.__name__)(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args_schema.model_json_schema()["properties"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await asyncio.to_thread(tool.run, **arguments)


class AutoGen(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("autogen_core.tools").FunctionTool(fn, description="Place an order.")

    async def schema(self, tool: Any) -> Any:
        return tool.schema["parameters"]["properties"]

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return tool.return_value_as_string(
            await tool.run_json(dict(arguments), load("autogen_core").CancellationToken())
        )


class SemanticKernel(Builder):
    def tool(self, fn: Fn) -> Any:
        self.kernel = load("semantic_kernel").Kernel()
        return self.kernel.add_function(
            plugin_name="desk", function=load("semantic_kernel.functions").kernel_function(fn)
        )

    async def schema(self, tool: Any) -> Any:
        return {parameter.name: parameter.schema_data for parameter in tool.parameters}

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return str(
            await self.kernel.invoke(tool, arguments=load("semantic_kernel.functions").KernelArguments(**arguments))
        )


class Anthropic(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("anthropic").beta_async_tool(fn) if _is_async(fn) else load("anthropic").beta_tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.input_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        given = tool.call(dict(arguments))
        return await given if hasattr(given, "__await__") else given


class LangChain(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("langchain.tools").tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return (
            await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": dict(arguments)})
        ).content


class OpenAiAgents(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("agents").function_tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.params_json_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        # A strict schema makes the model write every argument.
        text = json.dumps({"qty": 1, "side": "buy", **arguments})
        context = load("agents.tool_context").ToolContext(
            context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=text
        )
        return await tool.on_invoke_tool(context, text)


class FastMcp(Builder):
    def tool(self, fn: Fn) -> Any:
        server = load("fastmcp").FastMCP("desk")
        server.tool(fn)
        return server

    async def schema(self, tool: Any) -> Any:
        async with load("fastmcp").Client(tool) as client:
            (listed,) = await client.list_tools()
        return listed.input_schema

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        async with load("fastmcp").Client(tool) as client:
            (listed,) = await client.list_tools()
            return (await client.call_tool(listed.name, dict(arguments))).content[0].text


class Dspy(Builder):
    def tool(self, fn: Fn) -> Any:
        return load("dspy").Tool(fn)

    async def schema(self, tool: Any) -> Any:
        return tool.args

    async def call(self, tool: Any, arguments: Arguments) -> Any:
        return await tool.acall(**arguments) if _is_async(tool.func) else tool(**arguments)


def case_id(name: str) -> str:
    """Return a library's name as a test id that pytest can select by."""
    return name.replace(" ", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One library."""

    build: type[Builder]
    # What is installed, and the module that shows that it is.
    package: str
    module: str
    # Kinds of functions that the library takes.
    kinds: tuple[str, ...] = ("sync", "async")
    # Kinds that it calls in a thread without the caller's context.
    loses_context: tuple[str, ...] = ()
    # A parameter that the library fills: its name, and module and class of its annotation; None = not tried.
    context: tuple[str, str, str] | None = None

    def is_installed(self) -> bool:
        """Say whether the library is there."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False


LIBRARIES: dict[str, Library] = {
    "Pydantic AI": Library(
        build=PydanticAi,
        package="pydantic-ai-slim",
        module="pydantic_ai",
        context=("context", "pydantic_ai", "RunContext"),
    ),
    "Google ADK": Library(
        build=GoogleAdk,
        package="google-adk",
        module="google.adk.tools",
        context=("tool_context", "google.adk.tools", "ToolContext"),
    ),
    "Strands Agents": Library(build=Strands, package="strands-agents", module="strands"),
    "Agent Framework": Library(build=AgentFramework, package="agent-framework-core", module="agent_framework"),
    "LlamaIndex": Library(build=LlamaIndex, package="llama-index-core", module="llama_index.core"),
    "smolagents": Library(build=Smolagents, package="smolagents", module="smolagents", kinds=("sync",)),
    "Agno": Library(build=Agno, package="agno", module="agno"),
    "Haystack": Library(build=Haystack, package="haystack-ai", module="haystack", kinds=("sync",)),
    "CrewAI": Library(build=CrewAi, package="crewai", module="crewai", kinds=("sync",)),
    "AutoGen": Library(
        build=AutoGen,
        package="autogen-core",
        module="autogen_core",
        loses_context=("sync",),
        context=("cancellation_token", "autogen_core", "CancellationToken"),
    ),
    "Semantic Kernel": Library(build=SemanticKernel, package="semantic-kernel", module="semantic_kernel"),
    "Anthropic": Library(build=Anthropic, package="anthropic", module="anthropic"),
    "LangChain": Library(
        build=LangChain,
        package="langchain",
        module="langchain",
        context=("call_id", "langchain.tools", "InjectedToolCallId"),
    ),
    "OpenAI Agents": Library(
        build=OpenAiAgents, package="openai-agents", module="agents", context=("context", "agents", "RunContextWrapper")
    ),
    "FastMCP": Library(build=FastMcp, package="fastmcp", module="fastmcp", context=("context", "fastmcp", "Context")),
    "DSPy": Library(build=Dspy, package="dspy", module="dspy"),
}
