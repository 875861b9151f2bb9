"""Spans and metrics as an SDK exports them: the seven questions, over-blocking, and the span around a call."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from forbear import Operator, Refused, UsageError
from forbear.contract import Value
from forbear.observe.words import INSTRUMENTS, SPAN


def refuse(**_arguments: object) -> object:
    """Refuse with a code that no catalogue holds."""
    raise Refused("DESK_FROZEN", recovery="do_not_retry")


def limited(**_arguments: object) -> object:
    """Refuse for half a minute."""
    raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=30)


class OnceLimited:
    """A tool that is limited once and works then."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, **arguments: object) -> object:
        self.calls += 1
        return limited(**arguments) if self.calls == 1 else "done"


# ---- spans ----------------------------------------------------------------------------------------------------------


def test_a_call_gets_one_span_and_the_tool_runs_in_it(opened: Any, telemetry: Any) -> None:
    """A call without a span of the framework gets one by the GenAI conventions; what the tool does is its child."""
    controller = opened(telemetry.observer())
    controller.declare("quote", effect="read")

    def quote(n: int) -> int:
        with telemetry.tracer.start_as_current_span("http"):
            return n

    controller.call("quote", {"n": 1}, run="r", step="s", call_id="call_7", execute=quote)
    inner, outer = telemetry.finished()
    assert inner.parent.span_id == outer.context.span_id
    assert outer.name == "execute_tool quote"
    assert outer.status.status_code is StatusCode.UNSET
    attributes = dict(outer.attributes)
    assert attributes.pop("forbear.request_id").startswith("act_")
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "quote",
        "gen_ai.tool.call.id": "call_7",
        "forbear.rule": "running.returned.completed",
        "forbear.answer": "executed",
        "forbear.outcome": "success",
        "forbear.executed": "yes",
        "forbear.operation": "quote",
        "forbear.run": "r",
    }
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_span_of_a_framework_is_enriched_not_doubled(opened: Any, telemetry: Any) -> None:
    """Where the current span records an `execute_tool`, it is described and no second one is opened."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write")
    with telemetry.tracer.start_as_current_span("tool", attributes={"gen_ai.operation.name": "execute_tool"}):
        controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    (span,) = telemetry.finished()
    assert span.name == "tool"
    assert span.attributes["forbear.recovery"] == "do_not_retry"
    assert span.attributes["error.type"] == "_OTHER"
    assert span.status.status_code is StatusCode.UNSET


def test_a_call_inside_a_tool_has_a_span_of_its_own(opened: Any, telemetry: Any) -> None:
    """A tool that makes a governed call does not have its own span overwritten by it."""
    controller = opened(telemetry.observer())

    def outer() -> object:
        return controller.call("inner", {}, run="child", step="s", execute=lambda: 1).value

    controller.declare("outer", "inner", effect="write")
    controller.call("outer", {}, run="r", step="s", execute=outer)
    inner, own = telemetry.finished()
    assert [span.attributes["gen_ai.tool.name"] for span in (inner, own)] == ["inner", "outer"]
    assert inner.parent.span_id == own.context.span_id


def test_a_blocked_call_is_an_error_with_its_code(opened: Any, telemetry: Any) -> None:
    """`error.type` is the code where the catalogue holds it; a status never has a text; no exception is recorded."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write", approval=lambda _arguments: "deny")
    controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    (span,) = telemetry.finished()
    assert span.attributes["error.type"] == "POLICY_DENIED"
    assert span.attributes["forbear.rule"] == "start.gate.denied"
    assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())


def test_a_wait_and_a_prompt_are_no_errors(opened: Any, telemetry: Any) -> None:
    """A call that goes on later has no `error.type`."""
    controller = opened(telemetry.observer())
    controller.declare("ask", effect="write", approval="always")
    controller.declare("limited", effect="write")
    controller.call("ask", {"n": 1}, run="r", step="s", execute=refuse)
    controller.call("limited", {"n": 1}, run="r", step="s", execute=limited, wait=False)
    assert [span.attributes["forbear.answer"] for span in telemetry.finished()] == ["needs_approval", "pending"]
    assert all("error.type" not in span.attributes for span in telemetry.finished())


def test_the_two_halves_are_one_span(opened: Any, telemetry: Any, clock: Any) -> None:
    """A call that its caller executes gets a span from its start to its settlement; a blocked one gets a span, too."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write")
    reply = controller.propose("pay", {"n": 1}, run="r", step="s", call_id="c")
    assert telemetry.finished() == []
    clock.advance(timedelta(seconds=2))
    controller.settle(reply.attempt, Value({"error": {"code": "DESK_FROZEN", "recovery": "do_not_retry"}, "ok": False}))
    (span,) = telemetry.finished()
    assert span.end_time - span.start_time == 2_000_000_000
    controller.propose("pay", {"n": 1}, run="r", step="s2", call_id="c2")
    assert telemetry.finished()[1].attributes["forbear.rule"] == "start.held.refusal"


def test_async_calls_at_the_same_time_keep_their_spans(opened: Any, telemetry: Any) -> None:
    """Each task's tool runs in the span of its own call, also when the task is cancelled."""
    controller = opened(telemetry.observer())
    controller.declare("slow", effect="write")

    async def slow(n: int) -> int:
        mine = trace.get_current_span()
        await asyncio.sleep(0)
        assert trace.get_current_span() is mine
        if n == 2:
            raise asyncio.CancelledError
        return n

    async def main() -> list[Any]:
        calls = [controller.acall("slow", {"n": n}, run="r", step="s", execute=slow) for n in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    *_, last = asyncio.run(main())
    assert isinstance(last, asyncio.CancelledError)
    spans = telemetry.finished()
    assert len({span.context.span_id for span in spans}) == 3
    assert sorted(span.attributes.get("error.type", "") for span in spans) == ["", "", "_OTHER"]


def test_retries_of_the_worker_have_spans(opened: Any, telemetry: Any, clock: Any) -> None:
    """What the controller starts by itself is traced like a call."""
    controller = opened(telemetry.observer())
    controller.declare("limited", effect="write")
    controller.bind("limited", OnceLimited())
    controller.call("limited", {"n": 1}, run="r", step="s", call_id="c", wait=False)
    clock.advance(timedelta(minutes=1))
    controller.work()
    assert [span.attributes["forbear.answer"] for span in telemetry.finished()] == ["pending", "executed"]


def test_spans_can_be_left_out(opened: Any, telemetry: Any) -> None:
    """Metrics alone cost a succeeding read nothing but two lines of its journal batch."""
    controller = opened(telemetry.observer(spans="none"))
    controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    assert telemetry.finished() == []
    with pytest.raises(UsageError, match="spans"):
        telemetry.observer(spans="some")


# ---- metrics: the seven questions -----------------------------------------------------------------------------------


def test_refusal_rate_by_tool_and_code_and_empty_rate(opened: Any, telemetry: Any) -> None:
    """Executions are counted by tool, outcome and code, so that a rate has both its numbers."""
    controller = opened(telemetry.observer())
    controller.declare("quote", effect="read")
    controller.declare("pay", effect="write")
    for n in range(5):
        controller.call("quote", {"n": n}, run="q", execute=lambda n: {"price": n})
    controller.call("quote", {"n": 9}, run="q", execute=lambda n: [])
    controller.call("pay", {"n": 1}, run="r", step="s", execute=limited, wait=False)
    controller.call("pay", {"n": 2}, run="r2", step="s", execute=lambda n: n)
    controller.close()
    assert telemetry.number("forbear.attempts", tool="quote") == 6
    assert telemetry.number("forbear.attempts", tool="quote", outcome="empty") == 1
    assert telemetry.number("forbear.attempts", tool="pay") == 2
    assert telemetry.number("forbear.attempts", tool="pay", code="RATE_LIMITED", recovery="retry_after") == 1


def test_repeats_after_each_refusal(opened: Any, telemetry: Any) -> None:
    """Proposals of what was refused are counted by the code that they were refused with; other calls are not."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write")
    for n in range(4):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", execute=lambda n: _denied())
    controller.call("pay", {"n": 2}, run="r", step="s9", execute=lambda n: n)
    assert telemetry.number("forbear.repeats", tool="pay", recovery="do_not_retry", code="ACCESS_DENIED") == 3
    assert telemetry.number("forbear.held", tool="pay", rule="start.held.refusal") == 3
    assert telemetry.number("forbear.held", answer="blocked") == 1


def _denied() -> object:
    raise Refused("ACCESS_DENIED", recovery="do_not_retry")


def test_time_to_recovery(opened: Any, telemetry: Any, clock: Any) -> None:
    """From the first refusal of an action to its completion; a repaired call makes its tool's refusal good."""
    controller = opened(telemetry.observer())
    controller.declare("limited", effect="write")
    controller.bind("limited", OnceLimited())
    controller.call("limited", {"n": 1}, run="r", step="s", wait=False)
    clock.advance(timedelta(seconds=60))
    controller.work()
    controller.declare("pay", effect="write")
    controller.call("pay", {"amount": "x"}, run="p", step="s", execute=lambda amount: _invalid())
    clock.advance(timedelta(seconds=5))
    controller.call("pay", {"amount": 1}, run="p", step="t", execute=lambda amount: amount)
    times = {found["error.type"]: number for found, number in telemetry.points()["forbear.recovery.time"]}
    assert times == {"RATE_LIMITED": (1, 60.0), "INPUT_INVALID": (1, 5.0)}


def _invalid() -> object:
    raise Refused("INPUT_INVALID", recovery="repair_input", invalid_fields=("amount",))


def test_escalations_and_their_answers(opened: Any, telemetry: Any) -> None:
    """Prompts and outcomes that only a person can settle are counted, and what became of prompts."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write", approval="always")
    controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    prompt = Operator(controller).pending()[0]
    Operator(controller).deny(prompt.ticket, prompt.fingerprint)
    assert telemetry.number("forbear.escalations", tool="pay", reason="approval") == 1
    assert telemetry.number("forbear.answers", tool="pay", rule="awaiting_approval.denied") == 1


def test_holds_that_a_person_lifted(opened: Any, telemetry: Any) -> None:
    """Over-blocking shows: lifted holds are counted by tool, cause and code."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write", target="n")
    controller.call("pay", {"n": 1}, run="r", step="s", execute=lambda n: _denied())
    ticket = next(row.ticket for row in controller._engine.store.tickets("hold"))
    Operator(controller).lift(ticket)
    assert telemetry.number("forbear.lifts", tool="pay", cause="refusal", code="ACCESS_DENIED") == 1


def test_would_be_answers_of_observe_mode(opened: Any, telemetry: Any) -> None:
    """Before enforcing, an operator sees which tool would have been held, and by which rule."""
    controller = opened(telemetry.observer(), mode="observe")
    controller.declare("pay", effect="write")
    for n in range(2):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", execute=lambda n: _denied())
    assert telemetry.number("forbear.would", tool="pay", would="blocked", rule="start.held.refusal") == 1
    assert telemetry.number("forbear.would") == 1


def test_unknown_codes_have_their_own_counter(opened: Any, telemetry: Any) -> None:
    """A code that the catalogue does not hold is counted by tool; its text is not told."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write")
    controller.call("pay", {"n": 1}, run="r", step="s", execute=refuse)
    assert telemetry.number("forbear.unknown_codes", tool="pay") == 1
    assert "DESK_FROZEN" not in repr(telemetry.points())


def test_tokens_and_time_of_failed_flows(opened: Any, telemetry: Any) -> None:
    """A step whose calls were refused or held is lost; one in which something completed is not."""
    controller = opened(telemetry.observer())
    controller.declare("quote", effect="read")
    controller.declare("pay", effect="write")
    run = controller.run("r")
    for n in range(3):
        controller.call("pay", {"n": 1}, run="r", step=f"s{n}", call_id=f"c{n}", execute=lambda n: _denied())
        run.usage(f"s{n}", tokens=100, seconds=1.5)
    controller.call("quote", {"n": 1}, run="q", step="t", call_id="d", execute=lambda n: n)
    controller.run("q").usage("t", tokens=70)
    controller.call("pay", {"n": 2}, run="r", step="u", call_id="e", execute=lambda n: n)
    run.usage("u", tokens=50)
    run.usage("v", tokens=5)
    assert telemetry.number("forbear.step.tokens", result="failed", tool="pay", code="ACCESS_DENIED") == 300
    assert telemetry.number("forbear.step.time", result="failed") == 4.5
    assert telemetry.number("forbear.step.tokens", result="completed") == 120
    assert telemetry.number("forbear.step.tokens", result="other") == 5


def test_attributes_are_a_closed_set(opened: Any, telemetry: Any) -> None:
    """No point and no span has an attribute that the reference does not list, whatever arguments and ids are."""
    controller = opened(telemetry.observer())
    controller.declare("pay", effect="write")
    for n in range(50):
        controller.call("pay", {"n": n}, run=f"run {n}", step=f"s{n}", call_id=f"c\n{n}", execute=refuse)
        controller.call(f"made-up-{n}", {"n": n}, run=f"r{n}", step="s", execute=refuse)
    listed = {one.name: set(one.attributes) for one in INSTRUMENTS}
    points = telemetry.points()
    for name, found in points.items():
        assert len(found) <= 4, "cardinality follows the declared tools, not the calls"
        assert all(set(attributes) <= listed[name] for attributes, _ in found)
    allowed = {one.name for one in SPAN}
    assert all(set(span.attributes) <= allowed for span in telemetry.finished())
    assert not any("gen_ai.tool.call.id" in span.attributes for span in telemetry.finished()[::2])


def test_the_record_names_the_trace(opened: Any, telemetry: Any) -> None:
    """What operators read about a refusal leads to its trace, and the other way round by the request id."""
    controller = opened(telemetry.observer())
    named: list[str] = []

    def pay(n: int) -> object:
        named.append(controller._engine.trace_id())
        return refuse()

    controller.call("pay", {"n": 1}, run="r", step="s", execute=pay)
    (span,) = telemetry.finished()
    assert named == [f"{span.context.trace_id:032x}"]
    assert controller._engine.trace_id() == ""
