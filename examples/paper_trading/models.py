"""Chat models that follow a script: one that listens, and three that do not.

Like any model they see nothing but messages, and what they do next is a function of those alone: nothing is kept between
calls or runs. What they want is a list of wishes; how they take a refusal is a habit. Journeys and counts are not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from examples.paper_trading.world import JsonObject

STEPS = 12
"""Model steps in one turn before a scripted model gives up."""


class Habit(StrEnum):
    """How a model takes an answer that is not what it wanted."""

    REPEAT = "repeat"
    """Calls again, exactly the same."""
    REWORD = "reword"
    """Calls again with other spaces, letter case, number types and a note."""
    SWITCH = "switch"
    """Calls again under the tool's other names."""
    BEHAVE = "behave"
    """Does what the result says it may do, and reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One thing that the model wants done."""

    tool: str
    arguments: JsonObject
    others: tuple[tuple[str, JsonObject], ...] = ()
    """The same thing under other names: tool and arguments."""
    repaired: JsonObject = field(default_factory=dict[str, object])
    """What the model would put into a field if it is told that the field is wrong."""
    check: tuple[str, JsonObject] | None = None
    """The look-up that tells whether it has happened: tool and arguments."""
    until: tuple[str, str] | None = None
    """A poll: the field and the value that are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What one tool message says to a model that reads it."""

    structured: bool
    """Whether it is in the contract's form."""
    ok: bool
    empty: bool = False
    pending: bool = False
    recovery: str | None = None
    fields: tuple[str, ...] = ()
    body: JsonObject = field(default_factory=dict[str, object])


def heard(message: ToolMessage) -> Heard:
    """Read a tool message as a model reads it: by the contract where there is one, else by how it sounds."""
    text = message.text
    body = _json(text)
    if "ok" not in body:
        sounds_bad = not text.strip() or any(
            word in text.lower() for word in ("denied", "error", "no such", "declined")
        )
        return Heard(structured=False, ok=message.status != "error" and not sounds_bad, body=body)
    error = body.get("error")
    error = error if isinstance(error, dict) else {}
    fields = error.get("invalid_fields")
    names = tuple(_name(item) for item in fields) if isinstance(fields, list) else ()
    recovery = error.get("recovery")
    return Heard(
        structured=True,
        ok=body["ok"] is True,
        empty=body.get("outcome") == "empty",
        pending=body.get("outcome") == "pending",
        recovery=recovery if isinstance(recovery, str) else None,
        fields=names,
        body=body,
    )


class ScriptedModel(BaseChatModel):
    """A chat model with wishes and a habit."""

    wishes: tuple[Wish, ...]
    habit: Habit
    steps: int = STEPS
    at_once: bool = False
    """Ask for all wishes that were not asked for yet in one message, as models with parallel calls do."""

    @property
    def _llm_type(self) -> str:
        return f"scripted-{self.habit}"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Accept the tools; the script names the ones that it uses."""
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        story = Story(messages)
        calls: list[ToolCall] = []
        if story.steps_this_turn < self.steps:
            for index, wish in enumerate(self.wishes):
                call = _next_call(story, index, wish, self.habit)
                if call is not None:
                    name, arguments = call
                    call_id = f"{story.steps}-{index}"
                    calls.append(ToolCall(name=name, args=story.filled_in(arguments), id=call_id, type="tool_call"))
                    if not self.at_once:
                        break
        message = AIMessage(content="" if calls else self._report(story), tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _report(self, story: Story) -> str:
        done = [wish.tool for index, wish in enumerate(self.wishes) if story.is_done(index, wish, self.habit)]
        left = [wish.tool for index, wish in enumerate(self.wishes) if not story.is_done(index, wish, self.habit)]
        return f"Done: {', '.join(done) or 'nothing'}. Not done: {', '.join(left) or 'nothing'}."


class Story:
    """The messages so far, by wish. The wish of a call is in the id that the model gave it."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """Read the messages; nothing else is known."""
        self._messages = messages
        self.steps = sum(isinstance(message, AIMessage) for message in messages)
        turn = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
        self.steps_this_turn = sum(isinstance(message, AIMessage) for message in messages[turn + 1 :])
        self._turn = turn

    def answers(self, index: int) -> list[tuple[ToolMessage, bool]]:
        """Return what came back for one wish, in order, and whether it came in this turn."""
        return [
            (message, at > self._turn)
            for at, message in enumerate(self._messages)
            if isinstance(message, ToolMessage) and message.tool_call_id.partition("-")[2] == str(index)
        ]

    def is_done(self, index: int, wish: Wish, habit: Habit) -> bool:
        """Return whether an answer satisfies the wish: for a stubborn model only one that is not empty."""
        return any(_satisfies(heard(message), wish, habit) for message, _ in self.answers(index))

    def filled_in(self, arguments: JsonObject) -> dict[str, object]:
        """Return the arguments with ``$name`` replaced by the last value of that name in any result."""
        return {key: self._last(value[1:]) if _is_name(value) else value for key, value in arguments.items()}

    def _last(self, name: str) -> object:
        for message in reversed(self._messages):
            if isinstance(message, ToolMessage):
                found = _payload(heard(message).body).get(name)
                if found is not None:
                    return found
        return name


def reworded(arguments: JsonObject, attempt: int) -> dict[str, object]:
    """Return arguments that mean the same and are never byte for byte the same as those of another attempt."""
    if attempt == 0:
        return dict(arguments)
    changed: dict[str, object] = {}
    for name, value in arguments.items():
        if name == "client_reference":
            changed[name] = value
        elif isinstance(value, str):
            cased = value.lower() if attempt % 2 else value.title()
            changed[name] = " " * (attempt % 3) + cased
        elif isinstance(value, int):
            changed[name] = (str(value), float(value), value)[attempt % 3]
        else:
            changed[name] = value
    changed["note"] = f"please, attempt {attempt}"
    return changed


def _next_call(story: Story, index: int, wish: Wish, habit: Habit) -> tuple[str, JsonObject] | None:
    """Return what the model asks for next on account of one wish, or None where it asks for nothing more."""
    if story.is_done(index, wish, habit):
        return None
    answers = story.answers(index)
    tries = len(answers)
    if habit is Habit.REPEAT:
        return wish.tool, wish.arguments
    if habit is Habit.REWORD:
        return wish.tool, reworded(wish.arguments, tries)
    if habit is Habit.SWITCH:
        ways = ((wish.tool, wish.arguments), *wish.others)
        return ways[tries % len(ways)]
    if not answers:
        return wish.tool, wish.arguments
    return _obedient_call(wish, answers)


def _obedient_call(wish: Wish, answers: list[tuple[ToolMessage, bool]]) -> tuple[str, JsonObject] | None:
    message, this_turn = answers[-1]
    last = heard(message)
    asked = len(answers)
    if wish.until is not None and last.ok:
        return wish.tool, wish.arguments
    if not last.structured and "do not ask" in message.text.lower():
        return None
    if not last.structured:
        # No class to go by: one more attempt, as "please fix your mistakes" asks for, then a report.
        return (wish.tool, wish.arguments) if asked < 2 else None
    if last.pending or last.recovery == "retry_after":
        return None if this_turn else (wish.tool, wish.arguments)
    if last.recovery == "repair_input" and asked < 3 and set(last.fields) & set(wish.repaired):
        return wish.tool, {**wish.arguments, **wish.repaired}
    if last.recovery == "inspect_outcome" and wish.check is not None:
        return wish.check
    return None


def _satisfies(answer: Heard, wish: Wish, habit: Habit) -> bool:
    if not answer.ok or (answer.empty and habit is not Habit.BEHAVE):
        return False
    if wish.until is None:
        return True
    name, value = wish.until
    return _payload(answer.body).get(name) == value


def _payload(body: JsonObject) -> Mapping[str, object]:
    payload = body.get("data")
    return payload if isinstance(payload, dict) else body


def _json(text: str) -> dict[str, object]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _name(item: object) -> str:
    return str(item.get("name", "")) if isinstance(item, dict) else str(item)


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("$")
