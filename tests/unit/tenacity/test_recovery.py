"""tenacity decorators that obey recovery classes: what the tool received, how long was waited, what the caller gets."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

import pytest
from tenacity import AsyncRetrying, Retrying, retry

import forbear_adapters.tenacity
from forbear import Outcome, Recovery, RecoveryPolicy, Refused
from forbear.errors import ConfigError
from forbear.testing.clock import ManualClock
from forbear_adapters.tenacity import retry_on

# Called here with what its types forbid, too.
recovery: Any = forbear_adapters.tenacity.recovery

SOON = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=2, executed="no")
LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60, executed="no")
FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")


class Tool:
    """Answers from a script and counts its calls."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.count = 0

    def __call__(self) -> object:
        self.count += 1
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def later(self) -> object:
        return self()


class State(TypedDict):
    """A graph's state."""

    done: NotRequired[bool]


class Slept:
    """Stands for tenacity's sleep: notes the seconds and moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.clock.advance(seconds)

    async def later(self, seconds: float) -> None:
        self(seconds)


@pytest.fixture
def clock() -> Any:
    """Make a clock that stands still."""
    return ManualClock()


@pytest.fixture
def slept(clock: ManualClock) -> Any:
    """Stand for tenacity's sleep."""
    return Slept(clock)


def parts(clock: ManualClock, **fields: Any) -> Any:
    """Return the parts of a decorator on a clock."""
    options = {name: fields.pop(name) for name in ("gives", "inline_wait") if name in fields}
    return recovery(RecoveryPolicy(clock=clock, **fields), **options)


def run(tool: Any, clock: ManualClock, slept: Slept, *, mode: Any, **fields: Any) -> Any:
    """Run a tool under the decorator, sync or async."""
    if mode == "sync":
        return retry(sleep=slept, **parts(clock, **fields))(tool.__call__)()
    wrapped = retry(sleep=slept.later, **parts(clock, **fields))(tool.later)
    return asyncio.run(wrapped())


BOTH = pytest.mark.parametrize("mode", ["sync", "async"])


@BOTH
def test_a_value_passes_through_the_very_object(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """A success costs one call, no wait, and gives the very object."""
    value = {"id": 1}
    tool = Tool(value)
    assert run(tool, clock, slept, mode=mode, effect="read") is value
    assert (tool.count, slept.seconds) == (1, [])


@BOTH
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_refusal_is_never_executed_again_and_is_returned(
    clock: ManualClock, slept: Slept, mode: Any, effect: Any
) -> None:
    """`do_not_retry`: one call, the envelope instead of an exception."""
    tool = Tool(FROZEN)
    envelope = run(tool, clock, slept, mode=mode, effect=effect)
    assert (envelope.code, envelope.recovery, tool.count) == ("DESK_FROZEN", Recovery.DO_NOT_RETRY, 1)
    assert slept.seconds == []


@BOTH
def test_a_refusal_that_is_returned_is_one_too(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """A tool that answers in the contract's form is obeyed like one that raises."""
    refused = {"ok": False, "outcome": "refused", "executed": "no",
               "error": {"code": "DESK_FROZEN", "recovery": "do_not_retry"}}  # fmt: skip
    tool = Tool(refused)
    assert run(tool, clock, slept, mode=mode, effect="write").code == "DESK_FROZEN"
    assert tool.count == 1


@BOTH
def test_a_short_wait_is_waited_once_and_not_cut_short(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """`retry_after` within `inline_wait`: one more call, not before the named time."""
    tool = Tool(SOON, {"id": 1})
    assert run(tool, clock, slept, mode=mode, effect="write") == {"id": 1}
    assert tool.count == 2
    assert len(slept.seconds) == 1
    assert slept.seconds[0] >= 2


@BOTH
def test_the_second_refusal_of_a_retry_is_the_end(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """A retry that is refused again is not retried: RETRY_EXHAUSTED after two calls."""
    tool = Tool(SOON)
    envelope = run(tool, clock, slept, mode=mode, effect="write")
    assert (envelope.code, envelope.recovery, tool.count) == ("RETRY_EXHAUSTED", Recovery.DO_NOT_RETRY, 2)


@BOTH
def test_a_long_wait_is_not_waited(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """Beyond `inline_wait` the envelope comes back at once and names the time."""
    tool = Tool(LATER)
    envelope = run(tool, clock, slept, mode=mode, effect="write")
    assert envelope.recovery is Recovery.RETRY_AFTER
    assert envelope.reset_at == clock.now() + timedelta(seconds=60)
    assert (tool.count, slept.seconds) == (1, [])


@BOTH
def test_a_temporary_failure_without_a_time_is_tried_again_as_it_stands(
    clock: ManualClock, slept: Slept, mode: Any
) -> None:
    """`default_wait` is as long as `inline_wait`: the margin of the retry does not make it too long to be waited for."""
    tool = Tool(TimeoutError("slow"), {"id": 1})
    assert run(tool, clock, slept, mode=mode, effect="read") == {"id": 1}
    assert tool.count == 2
    assert 5 <= slept.seconds[0] <= 6


def test_inline_wait_is_the_callers_choice(clock: ManualClock, slept: Slept) -> None:
    """A longer `inline_wait` waits longer."""
    tool = Tool(LATER, 5)
    assert run(tool, clock, slept, mode="sync", effect="write", inline_wait=timedelta(minutes=2)) == 5
    assert slept.seconds[0] >= 60


@BOTH
def test_a_lost_write_is_not_repeated_and_a_lost_read_is(clock: ManualClock, slept: Slept, mode: Any) -> None:
    """A timeout of a write may have been carried out; of a read it costs nothing but time."""
    write = Tool(TimeoutError("slow"), {"id": 1})
    envelope = run(write, clock, slept, mode=mode, effect="write")
    assert (envelope.outcome, write.count) == (Outcome.UNKNOWN, 1)
    read = Tool(TimeoutError("slow"), {"id": 1})
    assert run(read, clock, slept, mode=mode, effect="read") == {"id": 1}
    assert read.count == 2


@BOTH
@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_is_no_answer_goes_on(clock: ManualClock, slept: Slept, mode: Any, error: Any) -> None:
    """Cancellation and KeyboardInterrupt are neither retried nor turned into a value."""
    tool = Tool(error)
    with pytest.raises(type(error)):
        run(tool, clock, slept, mode=mode, effect="read")
    assert tool.count == 1


@pytest.mark.parametrize("gives", ["text", "dict", "envelope"])
def test_no_text_of_an_exception_gets_out(clock: ManualClock, slept: Slept, gives: Any) -> None:
    """Exception text is in none of the forms that a call may give."""
    given = run(Tool(ValueError("token=tok-QX19")), clock, slept, mode="sync", effect="write", gives=gives)
    assert "tok-QX19" not in repr(given)
    assert "tok-QX19" not in str(given)
    if gives == "text":
        assert json.loads(given)["ok"] is False
    if gives == "dict":
        assert given["ok"] is False


def test_statistics_count_attempts(clock: ManualClock, slept: Slept) -> None:
    """Tenacity's statistics stay true: two attempts, and the time that was waited."""
    tool = Tool(SOON, 1)

    call: Any = retry(sleep=slept, **parts(clock, effect="write"))(tool.__call__)
    assert call() == 1
    assert call.statistics["attempt_number"] == 2
    assert call.statistics["idle_for"] == pytest.approx(sum(slept.seconds))


def test_one_decorator_serves_many_calls(clock: ManualClock, slept: Slept) -> None:
    """Nothing of one call is remembered in the decorator's parts."""
    shared = parts(clock, effect="write")
    tools = [Tool(SOON, 1), Tool(FROZEN), Tool(SOON, 2)]
    results: list[Any] = [Retrying(sleep=slept, **shared)(tool) for tool in tools]
    assert (results[0], results[1].code, results[2]) == (1, "DESK_FROZEN", 2)
    assert [tool.count for tool in tools] == [2, 1, 2]


async def test_calls_that_overlap_do_not_meet(clock: ManualClock, slept: Slept) -> None:
    """Two calls of one decorator at the same time keep their own attempts."""
    shared = parts(clock, effect="write")
    tools = [Tool(SOON, 1), Tool(SOON, 2)]
    results: list[Any] = await asyncio.gather(
        *(AsyncRetrying(sleep=slept.later, **shared)(tool.later) for tool in tools)
    )
    assert results == [1, 2]
    assert [tool.count for tool in tools] == [2, 2]


def test_wrong_options_are_errors_when_built() -> None:
    """A misspelt field, an unknown form, and two sources of rules are refused at once."""
    with pytest.raises(ConfigError, match="efect"):
        recovery(efect="read")
    with pytest.raises(ConfigError, match="gives"):
        recovery(gives="json")
    with pytest.raises(ConfigError, match="policy"):
        recovery(RecoveryPolicy(), effect="read")


@pytest.mark.parametrize(
    ("error", "effect", "after", "expected"),
    [
        (FROZEN, "write", 60, False),
        (SOON, "write", 60, True),
        (SOON, "write", 1, False),
        (TimeoutError(), "write", 60, False),
        (TimeoutError(), "read", 60, True),
        (ValueError(), "read", 60, False),
    ],
)
def test_retry_on_is_true_only_for_what_may_run_after_that_time(
    clock: ManualClock, error: Any, effect: Any, after: Any, expected: Any
) -> None:
    """The predicate says yes only where one more attempt after `after` seconds is allowed."""
    predicate = retry_on(RecoveryPolicy(effect=effect, clock=clock), after=timedelta(seconds=after))
    assert predicate(error) is expected


def test_langgraph_obeys_the_predicate() -> None:
    """A LangGraph node that was refused runs once; one that may run again runs twice."""
    from langgraph.graph import START, StateGraph
    from langgraph.types import RetryPolicy

    policy = RetryPolicy(
        max_attempts=2,
        initial_interval=0.001,
        jitter=False,
        retry_on=retry_on(after=timedelta(seconds=10), effect="write"),
    )
    for tool, expected in ((Tool(FROZEN), 1), (Tool(SOON, {"done": True}), 2)):

        def node(_state: State, tool: Tool = tool) -> object:
            return tool()

        graph: Any = StateGraph(State)
        graph.add_node("node", node, retry_policy=policy)
        graph.add_edge(START, "node")
        compiled = graph.compile()
        if expected == 1:
            with pytest.raises(Refused):
                compiled.invoke({})
        else:
            compiled.invoke({})
        assert tool.count == expected
