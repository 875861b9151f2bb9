"""The parts of the adapters' kit that need no graph: imports, retry detection, messages, answers of people, runs."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tenacity
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from forbear.contract.retries import retrying_library, without_retries
from forbear_adapters._kit.extras import Extra
from forbear_adapters._kit.lines import Line, Once, user_line
from forbear_adapters._kit.messages import content_of, is_halted, message_id, messages_of, step_of, turn_of
from forbear_adapters._kit.pause import Prompt, decisions, payload
from forbear_adapters._kit.runs import inside, run_of
from forbear_adapters.langchain.mapping import forced_by

# ---- optional imports -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "missing", "says"),
    [
        ("langgraph", "langgraph", 'pip install "forbear[langgraph]"'),
        ("langgraph", "langchain_core", 'pip install "forbear[langgraph]"'),
        ("langchain", "langchain", 'pip install "forbear[langchain]"'),
        ("langchain", "langgraph", 'pip install "forbear[langchain]"'),
    ],
)
def test_a_missing_extra_is_answered_with_the_exact_install_command(extra: str, missing: str, says: str) -> None:
    """Importing an adapter without its framework says what to type."""
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "try:\n"
        f"    import forbear_adapters.{extra}\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert says in done.stdout


def test_another_missing_module_is_not_blamed_on_the_extra() -> None:
    """A fault of our own, or of the application, stays what it is."""
    with pytest.raises(ModuleNotFoundError, match="unrelated") as caught, Extra("langgraph"):
        raise ModuleNotFoundError("No module named 'unrelated'", name="unrelated")
    assert "pip install" not in str(caught.value)


# ---- retries inside -------------------------------------------------------------------------------------------------


def _plain(n: int) -> int:
    """Return n."""
    return n


def _traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return traced


def test_a_retry_is_seen_at_any_depth_of_decorators() -> None:
    """Tenacity under a tracer, over a tracer, on a method, on an async function; not on a plain or traced function."""
    retry = tenacity.retry(stop=tenacity.stop_after_attempt(2))

    async def later(n: int) -> int:
        return n

    class Desk:
        @retry
        def order(self, n: int) -> int:
            return n

    for function in (retry(_plain), _traced(retry(_plain)), retry(_traced(_plain)), retry(later), Desk().order):
        assert retrying_library(function) == "tenacity"
    for function in (_plain, _traced(_plain), later, len, functools.partial(_plain, 1)):
        assert retrying_library(function) is None


def test_a_retry_is_taken_off_where_nothing_else_is_lost() -> None:
    """The function under it is returned; with a decorator on top nothing is returned."""
    retry = tenacity.retry(stop=tenacity.stop_after_attempt(2))
    traced = _traced(_plain)
    assert without_retries(retry(_plain)) is _plain
    assert without_retries(retry(retry(_plain))) is _plain
    assert without_retries(retry(traced)) is traced
    assert without_retries(_plain) is _plain
    assert without_retries(_traced(retry(_plain))) is None
    assert without_retries(retry(_traced(retry(_plain)))) is None


def test_other_retry_libraries_are_seen_by_the_module_their_wrapper_runs_in() -> None:
    """The globals of a wrapper cannot be copied by `functools.wraps`, unlike its name."""
    namespace: dict[str, Any] = {"__name__": "backoff._sync", "functools": functools}
    exec(  # noqa: S102 - makes a function whose module is another one
        "def wrap(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return f(*a, **k)\n    return inner",
        namespace,
    )
    assert retrying_library(namespace["wrap"](_plain)) == "backoff"


# ---- lines ----------------------------------------------------------------------------------------------------------


def test_a_warning_is_given_once_and_names_lines() -> None:
    """One object warns once about one thing, with the line that built it."""
    once = Once(Line("app.py", 7))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        once.warn("a", "something")
        once.warn("a", "something")
        once.warn("b", "else")
    assert [str(one.message) for one in caught] == ["something (built at app.py:7)", "else (built at app.py:7)"]
    assert caught[0].filename == __file__
    assert user_line() is not None


# ---- messages -------------------------------------------------------------------------------------------------------


def _call(call_id: str, name: str = "order") -> ToolCall:
    return ToolCall(name=name, args={}, id=call_id)


def test_turn_step_and_siblings_come_from_the_messages() -> None:
    """The turn is the last human message, the step the AI message that made the call."""
    old = AIMessage("", tool_calls=[_call("c1"), _call("c2")], id="a1")
    new = AIMessage("", tool_calls=[_call("c3")], id="a2")
    messages: list[AnyMessage] = [HumanMessage("x", id="h1"), old, HumanMessage("y", id="h2"), new]
    assert turn_of(messages) == "h2"
    assert turn_of([HumanMessage("x"), AIMessage("y"), HumanMessage("z")]) == "human:2"
    assert turn_of([AIMessage("y")]) is None
    summary = HumanMessage("a summary", id="s1", additional_kwargs={"lc_source": "summarization"})
    assert turn_of([HumanMessage("x", id="h1"), summary]) == "h1"
    assert turn_of([summary]) is None
    assert (step_of(messages, [_call("c3")]).name, step_of(messages, [_call("c2")]).name) == ("a2", "a1")
    assert step_of(messages, [_call("c2")]).calls == ("c1", "c2")
    same: list[AnyMessage] = [AIMessage("", tool_calls=[_call("c1")]), ToolMessage("x", tool_call_id="c1")]
    names = {step_of([*same * n, same[0]], [_call("c1")]).name for n in range(3)}
    assert len(names) == 3
    unknown = step_of(messages, [_call("c9")])
    assert unknown.calls == ("c9",)
    assert unknown.name == step_of([], [_call("c9")]).name


@pytest.mark.parametrize("metadata", [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}])
def test_only_the_last_call_of_a_cut_off_message_is_truncated(metadata: dict[str, Any]) -> None:
    """A model writes its calls in order; where one did not parse, that is the unfinished one."""
    cut = AIMessage("", tool_calls=[_call("c1"), _call("c2")], id="a", response_metadata=metadata)
    assert step_of([cut], [_call("c1")]).truncated == {"c2"}
    bad: Any = {"name": "order", "args": "{", "id": "c3", "error": None, "type": "invalid_tool_call"}
    broken = AIMessage("", tool_calls=[_call("c1")], invalid_tool_calls=[bad], id="a", response_metadata=metadata)
    step = step_of([broken], [_call("c1")])
    assert step.truncated == {"c3"}
    assert step.unparsed == (("c3", "order", "{"),)
    whole = AIMessage("", tool_calls=[_call("c1")], id="a", response_metadata={"finish_reason": "tool_calls"})
    assert step_of([whole], [_call("c1")]).truncated == frozenset()


def test_messages_are_found_in_every_shape_of_state() -> None:
    """A list, a mapping, an object; nothing where there are none."""

    class State:
        messages = (HumanMessage("x"),)

    held: list[object] = [[HumanMessage("x")], {"messages": [HumanMessage("x")]}, State()]
    for state in held:
        assert len(messages_of(state, "messages")) == 1
    empty: list[object] = [{}, {"messages": None}, object(), None]
    for state in empty:
        assert messages_of(state, "messages") == ()


def test_a_halt_is_read_from_the_answers_to_the_last_calls_only() -> None:
    """An old halt of an earlier turn or message does not end anything."""
    ask = AIMessage("", tool_calls=[_call("c1")], id="a1")
    halted = ToolMessage("x", tool_call_id="c1", response_metadata={"forbear": {"answer": "halted"}})
    fine = ToolMessage("x", tool_call_id="c1")
    again = AIMessage("", tool_calls=[_call("c2")], id="a2")
    assert is_halted([ask, halted])
    assert is_halted([ask, halted, fine])
    assert is_halted([ask, halted, AIMessage("for you")])
    assert not is_halted([ask, fine])
    assert not is_halted([ask, halted, HumanMessage("go on")])
    assert not is_halted([ask, halted, again, fine])
    assert is_halted([ask, halted, again], skip="a2")
    assert not is_halted([])


def test_message_ids_are_known_beforehand_and_apart() -> None:
    """The same in every process; another one for another step or call."""
    assert message_id("s", "c") == message_id("s", "c")
    assert len({message_id("s", "c"), message_id("s", "d"), message_id("t", "c")}) == 3


@pytest.mark.parametrize("value", ["x", {"a": "ü"}, [1], [], ["a"], [{"type": "text", "text": "a"}], None, 1.5, True])
def test_recorded_values_are_written_like_fresh_ones(value: object) -> None:
    """A result from the record reads like the same result from the tool."""
    from langchain_core.tools import StructuredTool

    def give(n: int) -> object:
        return value if n else None

    made = StructuredTool.from_function(func=give, name="give", description="x")
    fresh = made.invoke({"type": "tool_call", "name": "give", "args": {"n": 1}, "id": "c"})
    assert content_of(json.loads(json.dumps(value))) == fresh.content


@pytest.mark.parametrize(
    ("choice", "forces"),
    [
        (None, None),
        ("auto", None),
        ("none", None),
        ("any", "any"),
        ("required", "required"),
        ("order", "order"),
        (True, "any"),
        ({"type": "function", "function": {"name": "order"}}, "order"),
        ({"type": "tool", "name": "order"}, "order"),
        ({"type": "any"}, "any"),
        ({"type": "auto"}, None),
        (7, None),
    ],
)
def test_what_a_tool_choice_forces(choice: object, forces: str | None) -> None:
    """Every vendor's way to say it is one word."""
    assert forced_by(choice) == forces


# ---- answers of people ----------------------------------------------------------------------------------------------


def _prompt(number: int) -> Prompt:
    return Prompt(ticket=f"t{number}", fingerprint=f"f{number}", call_id=f"c{number}", view={"tool": "order"})


def test_an_answer_counts_only_with_the_ticket_and_the_fingerprint_of_an_open_prompt() -> None:
    """Everything else answers nothing: another ticket, another fingerprint, a bare yes, a list, an unknown word."""
    prompts = [_prompt(1), _prompt(2)]
    yes = {"decision": "approve", "fingerprint": "f1"}
    assert [d.prompt.ticket for d in decisions({"t1": yes}, prompts)] == ["t1"]
    assert [d.word for d in decisions({"ticket": "t1", **yes}, prompts)] == ["approve"]
    both = {"t2": {"decision": "deny", "fingerprint": "f2"}, "t1": yes, "t9": yes}
    assert [(d.prompt.ticket, d.word) for d in decisions(both, prompts)] == [("t1", "approve"), ("t2", "deny")]
    nothing: list[object] = [
        True,
        "yes",
        ["approve"],
        None,
        yes,
        {"t2": yes},
        {"t1": "approve"},
        {"t1": {"decision": "maybe", "fingerprint": "f1"}},
        {"t1": {"decision": ["approve"], "fingerprint": "f1"}},
        {"t1": {"fingerprint": "f1"}},
        {"t1": {"decision": "edit", "fingerprint": "f1"}},
    ]
    for answer in nothing:
        assert decisions(answer, prompts) == []


def test_a_payload_is_json_and_says_how_to_answer() -> None:
    """An application can show it and build the answer from it."""
    shown: Any = json.loads(json.dumps(payload([_prompt(1)])))
    assert shown["prompts"] == [{"ticket": "t1", "fingerprint": "f1", "tool_call_id": "c1", "tool": "order"}]
    assert shown["answer_with"]["t1"]["fingerprint"] == "f1"


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_is_the_thread_or_a_child_of_the_call_that_it_runs_in() -> None:
    """A sub-agent without a thread of its own is named after the call that started it, each time the same."""
    mine: dict[str, object] = {"configurable": {"thread_id": "t1"}}
    other: dict[str, object] = {"configurable": {"thread_id": "t2"}}
    assert run_of(mine, [], "s") == ("t1", True)
    assert run_of({}, [HumanMessage("x", id="h1")], "s") == ("invocation:h1", False)
    assert run_of({"configurable": {}}, [HumanMessage("x")], "s") == ("invocation:s", False)
    with inside("t1", "t1", "c1"):
        assert run_of(mine, [], "s") == ("t1/c1", True)
        assert run_of({}, [], "s") == ("t1/c1", True)
        assert run_of(other, [], "s") == ("t2", True)
        with inside("t1", "t1/c1", "c2"):
            assert run_of(mine, [], "s") == ("t1/c1/c2", True)
    assert run_of(mine, [], "s") == ("t1", True)
