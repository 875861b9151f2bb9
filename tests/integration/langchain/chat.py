"""A chat model that follows a script, for `create_agent`. No test lives here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tests.integration.langgraph.support import Says, says


class Scripted(BaseChatModel):
    """Says the n-th line of its script at the n-th step, then "done"; counts how often it is asked."""

    script: list[Any]
    again: bool = False
    prefix: str = "m"
    # New message and call ids at every call, as real models make them.
    fresh: bool = False
    asked: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.asked.append([message for message in messages if isinstance(message, ToolMessage)])
        step = sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in messages)
        if step >= len(self.script) and not self.again:
            said = AIMessage("done", id=f"{self.prefix}end{len(messages)}")
        else:
            line = self.script[min(step, len(self.script) - 1)]
            prefix = f"{self.prefix}{len(self.asked)}_" if self.fresh else self.prefix
            said = line if isinstance(line, AIMessage) else says(step, line, prefix=prefix)
        return ChatResult(generations=[ChatGeneration(message=said)])


def model(*script: Says | AIMessage, again: bool = False, prefix: str = "m", fresh: bool = False) -> Scripted:
    """Return a scripted model."""
    return Scripted(script=list(script), again=again, prefix=prefix, fresh=fresh, asked=[])
