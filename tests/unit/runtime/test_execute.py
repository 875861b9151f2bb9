"""`execute`: an agent loop without a framework, over the message shapes of four client libraries."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from forbear import Answer, Controller, Next, Operator, Refused, aexecute, execute
from forbear.errors import ConfigError, UsageError
from forbear.runtime.codecs import CODECS
from forbear.testing.clock import ManualClock

Opener = Callable[..., Controller]

FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")
LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60, executed="no")
SECRET = "tok-QX19"


# ---- the shapes -----------------------------------------------------------------------------------------------------


class Chat:
    """OpenAI chat completions; LiteLLM gives the same."""

    codec = "openai-chat"

    @staticmethod
    def response(*calls: Any, text: Any = None, cut: Any = False) -> Any:
        message = {"role": "assistant", "content": text, "annotations": []}
        if calls:
            message["tool_calls"] = [
                {
                    "id": i,
                    "type": "function",
                    "function": {"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)},
                }
                for i, n, a in calls
            ]
        return {"id": "x", "choices": [{"index": 0, "finish_reason": "length" if cut else "stop", "message": message}]}

    @staticmethod
    def results(messages: Any) -> Any:
        return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}

    @staticmethod
    def is_valid(messages: Any) -> Any:
        """Say whether the API would take it: each call is answered right after its message, in order."""
        for at, message in enumerate(messages):
            ids = [call["id"] for call in message.get("tool_calls", ())]
            following = messages[at + 1 : at + 1 + len(ids)]
            if {m.get("tool_call_id") for m in following} != set(ids):
                return False
        return True


class Litellm(Chat):
    codec = "litellm"


class Responses:
    """OpenAI responses."""

    codec = "openai-responses"

    @staticmethod
    def response(*calls: Any, text: Any = None, cut: Any = False) -> Any:
        output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs", "summary": []}]
        if text is not None:
            output.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        output += [
            {"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": n,
             "arguments": a if isinstance(a, str) else json.dumps(a)}
            for i, n, a in calls
        ]  # fmt: skip
        return {"id": "resp", "status": "incomplete" if cut else "completed", "output": output}

    @staticmethod
    def results(messages: Any) -> Any:
        return {m["call_id"]: m["output"] for m in messages if m.get("type") == "function_call_output"}

    @staticmethod
    def is_valid(messages: Any) -> Any:
        calls = [m["call_id"] for m in messages if m.get("type") == "function_call"]
        return set(Responses.results(messages)) == set(calls)


class Anthropic:
    """Anthropic messages."""

    codec = "anthropic"

    @staticmethod
    def response(*calls: Any, text: Any = None, cut: Any = False) -> Any:
        content: list[dict[str, Any]] = [] if text is None else [{"type": "text", "text": text}]
        content += [
            {"type": "tool_use", "id": i, "name": n, "input": a if isinstance(a, dict) else {}} for i, n, a in calls
        ]
        return {"id": "msg", "type": "message", "role": "assistant", "content": content, "usage": {"input_tokens": 1},
                "stop_reason": "max_tokens" if cut else "tool_use"}  # fmt: skip

    @staticmethod
    def results(messages: Any) -> Any:
        return {b["tool_use_id"]: b["content"] for b in Anthropic.blocks(messages)}

    @staticmethod
    def blocks(messages: Any) -> Any:
        return [
            block
            for m in messages
            if m["role"] == "user" and isinstance(m["content"], list)
            for block in m["content"]
            if block["type"] == "tool_result"
        ]

    @staticmethod
    def is_valid(messages: Any) -> Any:
        for at, message in enumerate(messages):
            if message["role"] != "assistant" or not isinstance(message["content"], list):
                continue
            ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            following = messages[at + 1]["content"] if at + 1 < len(messages) else []
            if ids and {block.get("tool_use_id") for block in following[: len(ids)]} != set(ids):
                return False
        return True


SHAPES = pytest.mark.parametrize("shape", [Chat, Litellm, Responses, Anthropic], ids=lambda shape: shape.codec)


def said(text: Any = "go") -> Any:
    """Return a message of the person."""
    return {"role": "user", "content": text}


class Desk:
    """A world with functions, and what they received."""

    def __init__(self) -> None:
        self.received: list[object] = []
        self.script: dict[str, Any] = {}

    def place_order(self, desk: str, qty: int = 1) -> dict[str, object]:
        """Place an order."""
        self.received.append((desk, qty))
        answer = self.script.get(desk)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if isinstance(answer, BaseException):
            raise answer
        return {"id": len(self.received)}

    def find(self, query: str) -> list[str]:
        self.received.append(query)
        return [query]

    @property
    def tools(self) -> Any:
        return [self.place_order, self.find]


@pytest.fixture
def desk() -> Any:
    """Make a world."""
    return Desk()


@pytest.fixture
def ready(controller: Controller) -> Any:
    """Declare the world's tools."""
    controller.declare("find", effect="read")
    controller.declare("place_order", effect="write", target="desk")
    return controller


@pytest.fixture
def asking(controller: Controller) -> Any:
    """Declare them so that orders need approval."""
    controller.declare("find", effect="read")
    controller.declare("place_order", effect="write", target="desk", approval="always")
    return controller


@pytest.fixture
def loop(desk: Desk) -> Any:
    """Execute a response, and check what holds for every step."""

    def run(shape: Any, response: Any, messages: Any, controller: Controller, **options: Any) -> Any:
        kept = copy.deepcopy(messages)
        progress = execute(response, messages, desk.tools, controller, run="r", codec=shape.codec, **options)
        assert messages == kept
        # State is plain JSON.
        assert json.loads(json.dumps(progress.messages)) == progress.messages
        return progress

    return run


# ---- calls and results ----------------------------------------------------------------------------------------------


@SHAPES
def test_calls_are_answered_in_order_and_the_model_is_next(
    ready: Controller, desk: Desk, loop: Any, shape: Any
) -> None:
    """Every call gets one result where the API wants it, in the order of the calls; a final answer ends the loop."""
    calls = (("1", "find", {"query": "a"}), ("2", "place_order", {"desk": "north", "qty": 2}))
    progress = loop(shape, shape.response(*calls, text="I look."), [said()], ready)
    assert progress.next is Next.MODEL
    assert shape.is_valid(progress.messages)
    assert list(shape.results(progress.messages).items()) == [("1", '["a"]'), ("2", '{"id": 2}')]
    assert desk.received == ["a", ("north", 2)]
    last = loop(shape, shape.response(text="Done."), progress.messages, ready)
    assert (last.next, last.replies, last.for_user()) == (Next.DONE, (), "")
    assert loop(shape, None, last.messages, ready).next is Next.DONE
    assert loop(shape, None, [*last.messages, said("more")], ready).next is Next.MODEL


@SHAPES
def test_a_refusal_is_an_error_result_and_stays(ready: Controller, desk: Desk, loop: Any, shape: Any) -> None:
    """The model is told once per call; what was refused does not run again, in this message or a later one."""
    desk.script["frozen"] = FROZEN
    messages = [said()]
    for number in range(3):
        call = (str(number), "place_order", {"desk": "frozen", "qty": number})
        messages = loop(shape, shape.response(call), messages, ready).messages
    assert desk.received == [("frozen", 0)]
    for text in shape.results(messages).values():
        assert json.loads(text)["error"]["code"] == "DESK_FROZEN"
    if shape is Anthropic:
        assert all(block["is_error"] for block in Anthropic.blocks(messages))


@SHAPES
def test_no_text_of_an_exception_is_in_the_messages(ready: Controller, desk: Desk, loop: Any, shape: Any) -> None:
    """Exception text never reaches the conversation."""
    desk.script["broken"] = RuntimeError(f"token={SECRET}")
    call = ("1", "place_order", {"desk": "broken"})
    progress = loop(shape, shape.response(call), [said()], ready)
    assert SECRET not in json.dumps(progress.messages) + progress.for_user()
    assert shape.results(progress.messages)["1"]


@SHAPES
def test_a_message_that_was_cut_off_runs_all_but_its_last_call(
    ready: Controller, desk: Desk, loop: Any, shape: Any
) -> None:
    """The last call of a truncated message is not executed: nobody knows what it would have been."""
    calls = (("1", "find", {"query": "a"}), ("2", "place_order", {"desk": "north"}))
    progress = loop(shape, shape.response(*calls, cut=True), [said()], ready)
    assert desk.received == ["a"]
    assert json.loads(shape.results(progress.messages)["2"])["error"]["code"] == "INPUT_TRUNCATED"


@pytest.mark.parametrize("shape", [Chat, Responses])
def test_arguments_that_do_not_parse_are_repaired_by_the_model(
    ready: Controller, desk: Desk, loop: Any, shape: Any
) -> None:
    """Text that is no JSON object never reaches a function."""
    for text in ('{"desk": ', "[1]", '"north"', "null"):
        progress = loop(shape, shape.response((text, "place_order", text)), [said()], ready)
        assert json.loads(shape.results(progress.messages)[text])["error"]["code"] == "INPUT_INVALID"
    assert desk.received == []


@SHAPES
def test_a_call_is_the_same_however_its_arguments_are_written(
    ready: Controller, desk: Desk, loop: Any, shape: Any
) -> None:
    """A "5" for 5, or a default that is written out, does not get past a refusal."""
    desk.script["frozen"] = Refused("AMOUNT_TOO_LARGE", recovery="repair_input", executed="no", invalid_fields=["qty"])
    messages = [said()]
    written = (
        {"desk": "frozen"},
        {"desk": "frozen", "qty": 1},
        {"desk": "frozen", "qty": "1"},
        {"qty": 1.0, "desk": "frozen"},
    )
    for number, arguments in enumerate(written):
        messages = loop(shape, shape.response((str(number), "place_order", arguments)), messages, ready).messages
    assert desk.received == [("frozen", 1)]


@SHAPES
def test_values_that_do_not_fit_are_named(ready: Controller, desk: Desk, loop: Any, shape: Any) -> None:
    """A value of a wrong type, a missing and an unknown argument never reach the function; their names are told."""
    calls = [("1", "place_order", {"desk": "north", "qty": "many"}), ("2", "place_order", {"qty": 1}),
             ("3", "place_order", {"desk": "north", "colour": "red"})]  # fmt: skip
    progress = loop(shape, shape.response(*calls), [said()], ready)
    errors = [json.loads(text)["error"] for text in shape.results(progress.messages).values()]
    assert [error["code"] for error in errors] == ["INPUT_INVALID"] * 3
    assert errors[0]["invalid_fields"] == ["qty"]
    assert desk.received == []


@SHAPES
def test_a_tool_that_nobody_has_is_answered_and_counted(ready: Controller, loop: Any, shape: Any) -> None:
    """A model that keeps calling tools that do not exist is stopped like any other."""
    messages, following = [said()], None
    for number in range(40):
        progress = loop(shape, shape.response((str(number), f"nope_{number}", {})), messages, ready)
        messages, following = progress.messages, progress.next
        if following is Next.HALTED:
            break
    assert following is Next.HALTED
    assert "TOOL_UNAVAILABLE" in shape.results(messages)["0"]


def test_an_unknown_tool_does_not_break_a_strict_controller(opened: Opener, desk: Desk, loop: Any) -> None:
    """A model cannot crash the loop of a strict controller by inventing a name."""
    controller = opened(strict=True)
    with pytest.raises(UsageError, match="declared"):
        loop(Chat, Chat.response(), [said()], controller)
    controller.declare("find", "place_order", effect="read")
    progress = loop(Chat, Chat.response(("1", "nope", {})), [said()], controller)
    assert "TOOL_UNAVAILABLE" in Chat.results(progress.messages)["1"]


@SHAPES
def test_a_halt_ends_the_loop_until_the_person_writes(ready: Controller, desk: Desk, loop: Any, shape: Any) -> None:
    """A model that only asks for what was refused is halted; a new message opens the run again."""
    desk.script["frozen"] = FROZEN
    messages = [said()]
    progress: Any = None
    for number in range(20):
        progress = loop(
            shape, shape.response((str(number), "place_order", {"desk": "frozen", "qty": number})), messages, ready
        )
        messages = progress.messages
        if progress.next is Next.HALTED:
            break
    assert progress.next is Next.HALTED
    assert "stopped using tools" in progress.for_user()
    assert desk.received == [("frozen", 0)]
    assert shape.is_valid(messages)
    assert loop(shape, None, messages, ready).next is Next.HALTED
    assert loop(shape, None, [*messages, said("go on")], ready).next is Next.MODEL


# ---- approval -------------------------------------------------------------------------------------------------------

TWO = (("1", "place_order", {"desk": "north", "qty": 2}), ("2", "find", {"query": "a"}))


@SHAPES
@pytest.mark.parametrize("answer", ["approve", "deny", "edit"])
def test_a_pause_for_approval_is_resumed_from_plain_json(
    asking: Controller, desk: Desk, loop: Any, shape: Any, answer: Any
) -> None:
    """The other calls run, the gated one waits without a result; the stored messages are all that a resume needs."""
    progress = loop(shape, shape.response(*TWO), [said()], asking)
    assert progress.next is Next.PERSON
    assert [reply.tool for reply in progress.waiting] == ["place_order"]
    assert "approval" in progress.for_user()
    assert desk.received == ["a"]
    stored = json.dumps(progress.messages)
    # Looking again asks nobody twice, and runs nothing.
    assert loop(shape, None, json.loads(stored), asking).next is Next.PERSON
    operator = Operator(asking)
    (prompt,) = [one for one in operator.pending() if one.kind == "approval"]
    assert prompt.ticket == progress.waiting[0].ticket
    if answer == "edit":
        operator.edit(prompt.ticket, prompt.fingerprint, {"desk": "north", "qty": 1}, reproposes=False)
        asking.work()
    else:
        getattr(operator, answer)(prompt.ticket, prompt.fingerprint)
    resumed = loop(shape, None, json.loads(stored), asking)
    assert resumed.next is Next.MODEL
    assert shape.is_valid(resumed.messages)
    assert set(shape.results(resumed.messages)) == {"1", "2"}
    text = shape.results(resumed.messages)["1"]
    match answer:
        case "approve":
            assert desk.received == ["a", ("north", 2)]
            assert json.loads(text) == {"id": 2}
        case "deny":
            assert desk.received == ["a"]
            assert json.loads(text)["error"]["code"] == "USER_DENIED"
        case _:
            assert desk.received == ["a", ("north", 1)]
            assert json.loads(text)["changed_by"] == "person"


@SHAPES
def test_a_message_instead_of_an_answer_takes_the_question_back(
    asking: Controller, desk: Desk, loop: Any, shape: Any
) -> None:
    """A person who writes something else is not asked again; the open calls are answered and do not run."""
    paused = loop(shape, shape.response(*TWO), [said()], asking)
    progress = loop(shape, None, [*paused.messages, said("never mind")], asking)
    assert progress.next is Next.MODEL
    assert json.loads(shape.results(progress.messages)["1"])["outcome"] == "cancelled"
    assert desk.received == ["a"]
    assert [one for one in Operator(asking).pending() if one.kind == "approval"] == []
    assert shape.is_valid(progress.messages)
    assert progress.messages[-1] == said("never mind")


def test_a_person_who_writes_at_once_finds_results_in_front_of_the_text(
    asking: Controller, desk: Desk, loop: Any
) -> None:
    """An application that keeps one user message for all: results of an Anthropic message come before the text."""
    paused = loop(Anthropic, Anthropic.response(TWO[0]), [said()], asking)
    for content in ("never mind", [{"type": "text", "text": "never mind"}]):
        progress = loop(Anthropic, None, [*paused.messages, {"role": "user", "content": content}], asking)
        kinds = [block["type"] for block in progress.messages[-1]["content"]]
        assert kinds == ["tool_result", "text"]


@SHAPES
def test_without_a_pause_the_result_comes_later(asking: Controller, desk: Desk, loop: Any, shape: Any) -> None:
    """`pause=False`: the model is told and goes on; after the yes the controller runs the call and replaces the result."""
    progress = loop(shape, shape.response(*TWO), [said()], asking, pause=False)
    assert (progress.next, progress.waiting) == (Next.MODEL, ())
    assert json.loads(shape.results(progress.messages)["1"])["error"]["recovery"] == "request_approval"
    operator = Operator(asking)
    (prompt,) = [one for one in operator.pending() if one.kind == "approval"]
    operator.approve(prompt.ticket, prompt.fingerprint)
    asking.work()
    assert desk.received == ["a", ("north", 2)]
    later = loop(shape, shape.response(text="Done."), progress.messages, asking)
    assert [reply.value for reply in later.ready] == [{"id": 2}]
    assert json.loads(shape.results(later.messages)["1"]) == {"id": 2}


# ---- later results, crashes -----------------------------------------------------------------------------------------


@SHAPES
def test_a_deferred_result_is_replaced_where_the_call_is(
    ready: Controller, desk: Desk, clock: ManualClock, loop: Any, shape: Any
) -> None:
    """A long wait is told at once; when the controller has made the call its result takes that place."""
    desk.script["busy"] = [LATER]
    progress = loop(shape, shape.response(("1", "place_order", {"desk": "busy"})), [said()], ready)
    assert progress.next is Next.MODEL
    assert progress.replies[0].answer is Answer.PENDING
    assert json.loads(shape.results(progress.messages)["1"])["error"]["code"] == "RATE_LIMITED"
    if shape is Anthropic:
        assert "is_error" not in Anthropic.blocks(progress.messages)[0]
    clock.advance(100)
    ready.work()
    assert len(desk.received) == 2
    later = loop(shape, None, [*progress.messages, said("and?")], ready)
    assert json.loads(shape.results(later.messages)["1"]) == {"id": 2}
    assert [reply.call_id for reply in later.ready] == ["1"]
    assert later.next is Next.MODEL


def test_a_result_whose_call_is_gone_is_handed_over(
    ready: Controller, desk: Desk, clock: ManualClock, loop: Any
) -> None:
    """Where the conversation was shortened the result is in `ready`, and nothing else changes."""
    desk.script["busy"] = [LATER]
    loop(Chat, Chat.response(("1", "place_order", {"desk": "busy"})), [said()], ready)
    clock.advance(100)
    ready.work()
    progress = loop(Chat, None, [said("and?")], ready, turn="2")
    assert [reply.value for reply in progress.ready] == [{"id": 2}]
    assert progress.messages == [said("and?")]


@SHAPES
def test_a_message_that_is_executed_again_after_a_crash_repeats_no_write(
    opened: Opener, tmp_path: Path, desk: Desk, loop: Any, shape: Any
) -> None:
    """The process dies before the results are stored: the same message again delivers what was done."""
    path = tmp_path / "store.db"
    calls = (("1", "place_order", {"desk": "north"}), ("2", "place_order", {"desk": "south"}))
    for _ in range(2):
        controller = opened(path)
        controller.declare("place_order", effect="write", target="desk")
        progress = loop(shape, shape.response(*calls), [said()], controller)
        assert shape.results(progress.messages) == {"1": '{"id": 1}', "2": '{"id": 2}'}
        controller.close()
    assert len(desk.received) == 2


def test_equal_ids_in_two_messages_are_two_calls(ready: Controller, desk: Desk, loop: Any) -> None:
    """Servers that count call ids from zero in every message do not get old results."""
    messages = [said()]
    for _ in range(2):
        messages = loop(Chat, Chat.response(("call_0", "find", {"query": "a"})), messages, ready).messages
    assert desk.received == ["a", "a"]


def test_the_turn_is_the_number_of_messages_of_the_person(ready: Controller, desk: Desk, loop: Any) -> None:
    """What ends with a turn ends when the person has written, not when the model is called again."""
    desk.script["frozen"] = FROZEN
    call = ("1", "place_order", {"desk": "frozen"})
    messages = loop(Chat, Chat.response(call), [said()], ready).messages
    messages = loop(Chat, Chat.response(call), messages, ready).messages
    assert len(desk.received) == 1
    loop(Chat, Chat.response(call), [*messages, said("try now")], ready)
    assert len(desk.received) == 2


def test_results_of_an_anthropic_message_are_no_turn(ready: Controller) -> None:
    """User messages that only carry results were written by nobody."""
    messages = [said(), {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}]  # fmt: skip
    codec = CODECS["anthropic"]
    assert codec.turns(messages) == 1
    assert codec.turns([*messages, said()]) == 2


# ---- client libraries' objects --------------------------------------------------------------------------------------


class Model(BaseModel):
    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, object]] | None = None


def test_objects_of_clients_are_read_like_their_json(ready: Controller, desk: Desk) -> None:
    """Models, attribute objects and `to_dict` objects give the same messages as plain JSON."""
    wire = Chat.response(("1", "find", {"query": "a"}))
    expected = execute(wire, [said()], desk.tools, ready, run="json").messages
    as_model = Model(tool_calls=wire["choices"][0]["message"]["tool_calls"])
    as_attributes = SimpleNamespace(choices=[SimpleNamespace(finish_reason="stop", message=as_model)])

    class Dictlike:
        def to_dict(self) -> Any:
            return wire

    for number, response in enumerate((as_model, as_attributes, Dictlike())):
        progress = execute(response, [said()], desk.tools, ready, run=str(number))
        assert progress.messages == expected


def test_custom_tools_take_their_text_as_one_argument(controller: Controller) -> None:
    """OpenAI's free-text tools: the text is the argument `input`, and the result has the custom type."""
    received = []

    def shell(input: str) -> str:  # noqa: A002 - the API's word
        received.append(input)
        return "ok"

    controller.declare("shell", effect="write")
    chat = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}],
    }
    assert execute(chat, [said()], [shell], controller, run="a").messages[-1]["content"] == "ok"
    item = {"type": "custom_tool_call", "call_id": "1", "name": "shell", "input": "pwd"}
    made = execute([item], [said()], [shell], controller, run="b", codec="openai-responses").messages[-1]
    assert made == {"type": "custom_tool_call_output", "call_id": "1", "output": "ok"}
    assert received == ["ls", "pwd"]


@pytest.mark.parametrize(
    ("codec", "response"),
    [
        ("openai-chat", {"choices": []}),
        ("openai-chat", said()),
        ("anthropic", said()),
        ("anthropic", {"role": "assistant"}),
        ("openai-responses", {"id": 1}),
        ("openai-chat", 3j),
    ],
)
def test_what_is_no_response_is_an_error(ready: Controller, desk: Desk, codec: Any, response: Any) -> None:
    """A wrong object is named before anything runs."""
    with pytest.raises(UsageError, match="response"):
        execute(response, [said()], desk.tools, ready, run="r", codec=codec)


def test_wrong_options_are_errors(ready: Controller, desk: Desk) -> None:
    """An unknown codec and an empty run are refused."""
    with pytest.raises(UsageError, match="codec"):
        execute(None, [], desk.tools, ready, run="r", codec="gpt")
    with pytest.raises(UsageError, match="run"):
        execute(None, [], desk.tools, ready, run="")


def test_tools_may_be_named_by_the_author(controller: Controller) -> None:
    """A mapping gives functions the names that the model knows."""
    progress = execute(
        Chat.response(("1", "desk.find", {})), [said()], {"desk.find": lambda: "found"}, controller, run="r"
    )
    assert Chat.results(progress.messages) == {"1": "found"}


@dataclass
class Leg:
    symbol: str


def returning(value: object) -> Callable[[], object]:
    """Make a tool that returns this."""
    return lambda: value


def test_results_are_text_or_json(controller: Controller) -> None:
    """Texts go as they are, models and dataclasses as JSON, None and what has no JSON form as the controller's words."""
    values = {"text": "x", "leg": Leg("A"), "model": Model(), "none": None, "empty": "", "object": object()}
    tools = {name: returning(value) for name, value in values.items()}
    calls: list[tuple[str, str, dict[str, Any]]] = [(name, name, {}) for name in values]
    results = Chat.results(execute(Chat.response(*calls), [said()], tools, controller, run="r").messages)
    assert results["text"] == "x"
    assert json.loads(results["leg"]) == {"symbol": "A"}
    assert json.loads(results["model"])["role"] == "assistant"
    assert all(json.loads(results[name])["ok"] for name in ("none", "empty"))
    assert results["object"]


# ---- async ----------------------------------------------------------------------------------------------------------


async def test_async_calls_of_a_message_run_at_the_same_time(ready: Controller) -> None:
    """Coroutine functions run together, functions that are not async in threads; results keep their order."""
    entered = asyncio.Event()
    names = []

    async def find(query: str) -> str:
        if query == "first":
            await entered.wait()
        else:
            entered.set()
        return query

    def place_order(desk: str, qty: int = 1) -> str:
        names.append(threading.current_thread() is threading.main_thread())
        return desk

    calls = (("1", "find", {"query": "first"}), ("2", "find", {"query": "second"}), ("3", "place_order", {"desk": "d"}))
    progress = await aexecute(Chat.response(*calls), [said()], [find, place_order], ready, run="r")
    assert Chat.is_valid(progress.messages)
    assert list(Chat.results(progress.messages).values()) == ["first", "second", "d"]
    assert names == [False]


async def test_async_pause_and_resume(asking: Controller, desk: Desk) -> None:
    """The async loop pauses and resumes like the sync one."""
    paused = await aexecute(Chat.response(*TWO), [said()], desk.tools, asking, run="r")
    assert paused.next is Next.PERSON
    operator = Operator(asking)
    (prompt,) = [one for one in operator.pending() if one.kind == "approval"]
    operator.approve(prompt.ticket, prompt.fingerprint)
    resumed = await aexecute(None, paused.messages, desk.tools, asking, run="r")
    assert (resumed.next, desk.received) == (Next.MODEL, ["a", ("north", 2)])


async def test_the_sync_form_on_a_running_loop_is_an_error(ready: Controller, desk: Desk) -> None:
    """Blocking the loop is refused with the way out."""
    with pytest.raises(UsageError, match="aexecute"):
        execute(None, [], desk.tools, ready, run="r")


async def test_signals_pass_through_when_all_calls_have_ended(ready: Controller) -> None:
    """A framework's own exception comes out untouched, after the other calls of the message."""

    class Stop(Exception):
        pass

    ended = []

    async def find(query: str) -> str:
        if query == "stop":
            raise Stop
        await asyncio.sleep(0)
        ended.append(query)
        return query

    calls = (("1", "find", {"query": "stop"}), ("2", "find", {"query": "b"}))
    with pytest.raises(Stop):
        await aexecute(Chat.response(*calls), [said()], [find], ready, run="r", signals=(Stop,))
    assert ended == ["b"]


def test_a_tool_that_retries_inside_is_refused(controller: Controller) -> None:
    """An agent loop does not start with a tool that multiplies attempts."""
    from tenacity import retry

    with pytest.raises(ConfigError, match="tenacity"):
        execute(None, [said()], {"find": retry(returning(1))}, controller, run="r")


def test_the_model_cannot_fill_the_idempotency_key(controller: Controller) -> None:
    """The upstream's key comes from the controller; what a model writes there is no part of the call, nor another call."""
    received = []

    def pay(amount: int, key: str) -> str:
        received.append(key)
        return "paid"

    controller.declare("pay", effect="write", idempotency_key="key")
    calls = (("1", "pay", {"amount": 1, "key": "mine"}), ("2", "pay", {"amount": 1}))
    results = Chat.results(execute(Chat.response(*calls), [said()], [pay], controller, run="r").messages)
    assert (results["1"], results["2"]) == ("paid", "paid")
    assert len(received) == 1
    assert received[0] != "mine"


def test_what_the_request_forced_is_cleared_when_it_is_held(ready: Controller, desk: Desk, loop: Any) -> None:
    """A forced call of a held tool ends the run's tool use and says that the force must go."""
    desk.script["frozen"] = FROZEN
    call = ("1", "place_order", {"desk": "frozen"})
    messages = [said()]
    progress: Any = None
    for _ in range(3):
        progress = loop(Chat, Chat.response(call), messages, ready, forced=True)
        messages = progress.messages
    assert (progress.next, progress.clear_forced) == (Next.HALTED, True)


def test_signals_pass_through_the_sync_form(controller: Controller) -> None:
    """LangGraph's own exception comes out of `execute` untouched."""
    from langgraph.errors import GraphInterrupt

    error = GraphInterrupt(())

    def ask() -> None:
        raise error

    with pytest.raises(GraphInterrupt) as raised:
        execute(Chat.response(("1", "ask", {})), [said()], [ask], controller, run="r")
    assert raised.value is error


async def test_signals_pass_through_the_async_form(controller: Controller) -> None:
    """The same in a task."""
    from langgraph.errors import GraphInterrupt

    def ask() -> None:
        raise GraphInterrupt(())

    with pytest.raises(GraphInterrupt):
        await aexecute(Chat.response(("1", "ask", {})), [said()], [ask], controller, run="r")


def test_a_tool_that_needs_more_than_the_model_writes_is_refused(controller: Controller) -> None:
    """Nobody fills a framework's context here; a tool that hides an awaitable is an error, too."""
    from fastmcp import Context

    def find(context: Context) -> None: ...

    find.__annotations__ = {"context": Context, "return": None}
    with pytest.raises(UsageError, match="'context'"):
        execute(None, [said()], [find], controller, run="r")

    async def work() -> None: ...

    def hidden() -> object:
        return work()

    with pytest.raises(UsageError, match="is_async"):
        execute(Chat.response(("1", "hidden", {})), [said()], {"hidden": hidden}, controller, run="r")


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "pay", "input": {}}]},
        {"x": 1},
        {},
    ],
    ids=["anthropic", "other", "empty"],
)
def test_a_response_of_another_api_is_an_error_not_a_final_answer(response: dict[str, object]) -> None:
    """A response that a codec cannot read never looks like one without calls."""
    with Controller.open(":memory:", worker=False) as controller, pytest.raises(UsageError, match="codec="):
        execute(response, [{"role": "user", "content": "go"}], {}, controller, run="r", codec="openai-chat")


def module_place(sku: str) -> dict[str, str]:
    """Place an order, the same way for every conversation."""
    return {"sku": sku}


def test_after_a_restart_no_run_gets_the_function_of_another(
    opened: Opener, clock: ManualClock, tmp_path: Path
) -> None:
    """What waits for one user is not done with what another one's conversation brought first; its own run does it."""
    done: list[tuple[str, str]] = []

    def place_for(user: str, *, refuses: bool = False) -> Callable[..., object]:
        def place(sku: str) -> dict[str, str]:
            done.append((user, sku))
            if refuses:
                raise LATER
            return {"by": user}

        return place

    def one(controller: Controller, run: str, tool: Callable[..., object], sku: str) -> None:
        execute(Chat.response((sku, "place", {"sku": sku})), [said()], {"place": tool}, controller, run=run)

    path = tmp_path / "s.db"
    with opened(path) as controller:
        controller.declare("place", effect="write", target="sku")
        one(controller, "b", place_for("b", refuses=True), "x")
    clock.advance(120)
    with opened(path) as controller:
        controller.declare("place", effect="write", target="sku")
        one(controller, "a", place_for("a"), "y")
        assert controller.work() == []
        one(controller, "b", place_for("b"), "z")
        assert [reply.value for reply in controller.work()] == [{"by": "b"}]
    assert done == [("b", "x"), ("a", "y"), ("b", "z"), ("b", "x")]


def test_a_function_of_a_module_is_one_for_every_run(opened: Opener, clock: ManualClock, tmp_path: Path) -> None:
    """A function that cannot hold anything of a conversation does what waits, whichever run brought it."""
    path = tmp_path / "s.db"
    with opened(path) as controller:
        controller.call("module_place", {"sku": "x"}, run="b", execute=refuse, wait=False)
    clock.advance(120)
    with opened(path) as controller:
        execute(Chat.response(("1", "module_place", {"sku": "y"})), [said()], [module_place], controller, run="a")
        assert [reply.value for reply in controller.work()] == [{"sku": "x"}]


def refuse(**_: object) -> None:
    """Answer that it is too early."""
    raise LATER


def test_a_function_in_the_place_of_the_list_of_tools_is_an_error_that_says_so() -> None:
    """The usual slip is told by the argument's name, before anything is decided."""
    with (
        Controller.open(":memory:", worker=False) as controller,
        pytest.raises(UsageError, match="tools: must be a list"),
    ):
        execute(None, [{"role": "user", "content": "go"}], print, controller, run="r")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
