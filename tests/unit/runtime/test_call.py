"""`call` and `acall`: what the caller gets, and what the tools received."""

from __future__ import annotations

import asyncio
import threading
import warnings
from datetime import timedelta
from typing import Any

import pytest

from forbear.core.vocabulary import Answer, Outcome, Recovery
from forbear.errors import ConfigError, Refused, UsageError

RATE = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=2)
FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry")


def rules(controller: Any) -> Any:
    """Return the rules of the journal."""
    return [line.rule for _, line in controller.store.journal(limit=1000)]


def actions(controller: Any, run: Any = "r") -> Any:
    """Return the live action rows of a run."""
    return [row for row in controller.store.load(f"tree:{run}").rows if row.kind == "action"]


@pytest.fixture
def desk(controller: Any) -> Any:
    """Declare a read and a write."""
    controller.declare("find", effect="read")
    controller.declare("place", effect="write", target="id")
    return controller


def test_the_value_is_the_very_object_that_the_tool_returned(desk: Any, scripted: Any) -> None:
    """A successful value passes through unchanged, the very object."""
    value = {"rows": [1, 2]}
    tool = scripted(value)
    for name in ("find", "place"):
        reply = desk.call(name, {"id": 1}, run="r", execute=tool)
        assert reply.value is value
        assert reply.answer is Answer.EXECUTED
        assert reply.ok
    assert tool.received == [{"id": 1}, {"id": 1}]


def test_a_refused_call_does_not_run_again_and_the_second_block_is_a_stop(desk: Any, scripted: Any) -> None:
    """Stop is final: after a refusal nothing covered by it executes, and other work goes on."""
    tool = scripted(FROZEN, {"ok": True})
    first = desk.call("place", {"id": 1}, run="r", execute=tool)
    assert first.envelope.recovery is Recovery.DO_NOT_RETRY
    assert first.value is None
    answers = [desk.call("place", {"id": 1, "note": n}, run="r", execute=tool).answer for n in range(2)]
    assert answers == [Answer.BLOCKED, Answer.STOPPED]
    assert tool.count == 1
    assert desk.call("place", {"id": 2}, run="r", execute=scripted({"id": 9})).ok


def test_a_refusal_is_told_from_the_catalogue_and_leaks_no_text_of_the_tool(desk: Any, scripted: Any) -> None:
    """Exception text reaches neither the model nor the person."""
    reply = desk.call("place", {"id": 1}, run="r", execute=scripted(ValueError("token=tok-QX19")))
    for text in (reply.for_model(), reply.for_user(), repr(reply)):
        assert "tok-QX19" not in text
        assert text


def test_a_short_wait_is_waited_inside_the_call_and_the_retry_answers_it(
    opened: Any, clock: Any, scripted: Any
) -> None:
    """A retry that is due within `inline_wait` runs inside the call, once, not before its time."""
    controller = opened(clock=type(clock)(auto_advance=True))
    controller.declare("place", effect="write", target="id")
    started = controller.engine.clock.now()
    tool = scripted(RATE, {"id": 7})
    reply = controller.call("place", {"id": 1}, run="r", execute=tool)
    assert reply.value == {"id": 7}
    assert tool.count == 2
    assert controller.engine.clock.now() >= started + timedelta(seconds=2)
    assert controller.next_due_at is None


def test_a_failure_without_a_time_is_waited_for_inside_the_call(opened: Any, clock: Any, scripted: Any) -> None:
    """`default_wait` is as long as `inline_wait`: the margin of the retry does not send it to the worker."""
    controller = opened(clock=type(clock)(auto_advance=True))
    controller.declare("find", effect="read")
    tool = scripted(TimeoutError("slow"), {"id": 7})
    assert controller.call("find", {"id": 1}, run="r", execute=tool).value == {"id": 7}
    assert tool.count == 2


def test_a_wait_is_not_waited_where_the_caller_says_so(desk: Any, clock: Any, scripted: Any) -> None:
    """`wait=False` answers at once with the ticket, and the store keeps the wake-up."""
    tool = scripted(RATE, {"id": 7})
    reply = desk.call("place", {"id": 1}, run="r", execute=tool, wait=False)
    assert (reply.answer, reply.retry_at) == (Answer.PENDING, desk.next_due_at)
    again = desk.call("place", {"id": 1}, run="r", execute=tool, wait=False)
    assert (again.answer, again.ticket, again.suppressed) == (Answer.PENDING, reply.ticket, True)
    assert tool.count == 1


def test_a_long_wait_is_pending_and_never_waited_inside_the_call(desk: Any, scripted: Any) -> None:
    """Beyond `inline_wait` the model gets `pending` and goes on."""
    tool = scripted(Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60))
    reply = desk.call("place", {"id": 1}, run="r", execute=tool)
    assert reply.answer is Answer.PENDING
    assert "waits" in reply.for_user()


LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)


def test_a_write_that_the_run_was_never_told_of_is_delivered_in_a_later_turn(
    desk: Any, clock: Any, scripted: Any
) -> None:
    """The controller made the retry while nobody looked: the model that asks again gets its result, once."""
    tool = scripted(LATER, {"id": 7}, {"id": 8})
    desk.bind("place", tool)
    desk.call("place", {"id": 1}, run="r", step="1")
    clock.advance(120)
    desk.work()
    desk.run("r").new_turn()
    reply = desk.call("place", {"id": 1}, run="r", step="2", call_id="c")
    assert (reply.answer, reply.value, reply.step, reply.call_id) == (Answer.DELIVERED, {"id": 7}, "2", "c")
    assert tool.count == 2
    assert desk.run("r").inbox() == []
    assert desk.call("place", {"id": 1}, run="r", step="3").value == {"id": 8}


def test_only_the_write_itself_is_delivered_and_only_where_nobody_was_told(
    desk: Any, clock: Any, scripted: Any
) -> None:
    """Another write runs; after the inbox was read an equal one in a new turn is wanted, and runs; so does a read."""
    desk.declare("find", effect="read")
    tool, find = scripted(LATER, {"id": 7}), scripted(LATER, {"at": 1}, {"at": 2})
    desk.bind("place", tool)
    desk.bind("find", find)
    desk.call("place", {"id": 1}, run="r", step="1")
    desk.call("find", {}, run="r", step="1")
    clock.advance(120)
    desk.work()
    desk.run("r").new_turn()
    assert desk.call("place", {"id": 2}, run="r", step="2").answer is Answer.EXECUTED
    assert desk.call("find", {}, run="r", step="2").value == {"at": 2}
    assert {one.tool for one in desk.run("r").inbox()} == {"place", "find"}
    assert desk.call("place", {"id": 1}, run="r", step="3").answer is Answer.EXECUTED


def made_unread(desk: Any, clock: Any, tool: Any) -> None:
    """Let the controller complete a write that its run is told of in no turn, and begin the next turn."""
    desk.bind("place", tool)
    desk.call("place", {"id": 1}, run="r", step="1", call_id="a")
    clock.advance(120)
    desk.work()
    desk.run("r").new_turn()


def test_a_write_that_nobody_was_told_of_answers_a_replay_and_every_equal_call_of_the_step(
    opened: Any, clock: Any, scripted: Any, tmp_path: Any
) -> None:
    """The call that got the result is known by it: proposed again, here or after a restart, it does not run."""
    tool = scripted(LATER, {"id": 7}, {"id": 8})
    for again in (False, True):
        desk = opened(tmp_path / "s.db", clock=clock)
        desk.declare("place", effect="write", target="id")
        if not again:
            made_unread(desk, clock, tool)
        for call_id in ("c", "c", "d"):
            reply = desk.call("place", {"id": 1}, run="r", step="2", call_id=call_id, siblings=2, execute=tool)
            assert (reply.answer, reply.value) == (Answer.DELIVERED, {"id": 7})
        assert tool.count == 2
        desk.close()


@pytest.mark.parametrize(("repeatable", "runs"), [(True, 4), (None, 3), (False, 2)])
def test_what_is_told_late_counts_as_a_success_of_the_turn(
    desk: Any, clock: Any, scripted: Any, repeatable: Any, runs: int
) -> None:
    """An equal call after it is judged like one after a success of this turn; where twice does no harm, all run."""
    desk.declare("place", effect="write", target="id", repeatable=repeatable)
    tool = scripted(LATER, {"id": 7}, {"id": 8})
    made_unread(desk, clock, tool)
    replies = [desk.call("place", {"id": 1}, run="r", step=str(n), call_id=f"c{n}") for n in (2, 3)]
    assert tool.count == runs
    assert replies[0].value == {"id": 8 if repeatable else 7}
    desk.run("r").new_turn()
    desk.run("r").inbox()
    assert desk.call("place", {"id": 1}, run="r", step="4", call_id="c4").answer is Answer.EXECUTED


def test_a_lost_write_is_unknown_and_is_not_repeated(desk: Any, scripted: Any) -> None:
    """A timeout of a write is `inspect_outcome`; nothing on its target executes before a verdict."""
    tool = scripted(TimeoutError("read timed out"))
    reply = desk.call("place", {"id": 1}, run="r", execute=tool)
    assert reply.envelope.outcome is Outcome.UNKNOWN
    assert desk.call("place", {"id": 1}, run="r", execute=tool).answer is Answer.BLOCKED
    assert tool.count == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_an_exception_that_is_no_answer_is_committed_as_unknown_before_it_goes_on(
    desk: Any, scripted: Any, error: Any
) -> None:
    """BaseException around a started write records `unknown` before it propagates."""
    tool = scripted(error)
    with pytest.raises(type(error)):
        desk.call("place", {"id": 1}, run="r", execute=tool)
    assert rules(desk)[-1] == "running.lost.write"
    assert desk.call("place", {"id": 1}, run="r", execute=tool).answer is Answer.BLOCKED
    assert tool.count == 1


def test_a_framework_signal_passes_through_and_the_call_may_be_proposed_again(desk: Any, scripted: Any) -> None:
    """The framework's own interrupt is re-raised untouched; its re-proposal runs."""

    class Interrupt(Exception):
        pass

    signal = Interrupt()
    tool = scripted(signal, {"id": 5})
    with pytest.raises(Interrupt) as raised:
        desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool, signals=(Interrupt,))
    assert raised.value is signal
    again = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool, signals=(Interrupt,))
    assert again.value == {"id": 5}


def test_a_replayed_write_is_delivered_from_the_record(desk: Any, scripted: Any) -> None:
    """The same run, step, call id and arguments again is answered from the record, not executed."""
    tool = scripted({"id": 9, "fills": [1.5, None]})
    first = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    again = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    assert first.ok
    assert (again.answer, again.value) == (Answer.DELIVERED, {"id": 9, "fills": [1.5, None]})
    assert tool.count == 1


def test_a_result_that_has_no_json_form_is_already_satisfied_when_replayed(desk: Any, scripted: Any) -> None:
    """What cannot be kept as JSON is delivered as `already_satisfied`, RESULT_NOT_KEPT; never executed again."""
    tool = scripted(object())
    desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    desk.call("place", {"id": 2}, run="r", step="t", call_id="d", execute=scripted(1))
    again = desk.call("place", {"id": 1}, run="r", step="s", call_id="c", execute=tool)
    assert (again.envelope.outcome, again.envelope.reason) == (Outcome.ALREADY_SATISFIED, "RESULT_NOT_KEPT")
    assert again.value is None
    assert tool.count == 1


def test_equal_reads_of_one_step_share_one_execution_and_the_object(desk: Any, scripted: Any) -> None:
    """Equal calls of one step share one execution; every answer but the first is suppressed."""
    value = {"price": 3}
    tool = scripted(value)
    first = desk.call("find", {"id": 1}, run="r", step="s", call_id="a", siblings=2, execute=tool)
    second = desk.call("find", {"id": 1}, run="r", step="s", call_id="b", siblings=2, execute=tool)
    assert (first.value is value, second.value is value) == (True, True)
    assert (first.suppressed, second.suppressed) == (False, True)
    assert tool.count == 1


def test_equal_calls_at_the_same_time_join_in_threads(desk: Any, scripted: Any) -> None:
    """A call whose equal is in flight waits for its result in this process."""
    entered, release = threading.Event(), threading.Event()

    def slow(**_: object) -> object:
        entered.set()
        release.wait(10)
        return {"n": 1}

    replies = []
    options = {"run": "r", "step": "s", "siblings": 2, "execute": slow}
    threads = [
        threading.Thread(target=lambda c=c: replies.append(desk.call("place", {"id": 1}, call_id=c, **options)))
        for c in ("a", "b")
    ]
    threads[0].start()
    entered.wait(10)
    threads[1].start()
    while not any(flight._waiting for flight in desk.engine.world.peek("r").flights.values()):
        threads[1].join(0.01)
    release.set()
    for thread in threads:
        thread.join(10)
    assert [reply.value for reply in replies] == [{"n": 1}, {"n": 1}]
    assert sorted(reply.suppressed for reply in replies) == [False, True]


async def test_equal_calls_at_the_same_time_join_in_tasks(desk: Any, scripted: Any) -> None:
    """The same on an event loop."""
    release = asyncio.Event()
    calls = []

    async def slow(**arguments: object) -> object:
        calls.append(arguments)
        await release.wait()
        return {"n": 1}

    options = {"run": "r", "step": "s", "siblings": 2, "execute": slow}
    tasks = [asyncio.create_task(desk.acall("place", {"id": 1}, call_id=c, **options)) for c in ("a", "b")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    release.set()
    replies = await asyncio.gather(*tasks)
    assert [reply.value for reply in replies] == [{"n": 1}, {"n": 1}]
    assert len(calls) == 1


async def test_a_cancelled_task_leaves_an_unknown_write_and_a_fresh_read(desk: Any) -> None:
    """CancelledError of a running write is unknown before it goes on; a read may simply be proposed again."""

    async def hang(**_: object) -> object:
        await asyncio.Event().wait()
        return None

    for name, rule in (("place", "running.cancelled.unknown"), ("find", "running.cancelled.nothing_landed")):
        task = asyncio.create_task(desk.acall(name, {"id": 1}, run=name, execute=hang))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rules(desk)[-1] == rule


async def test_a_task_that_is_cancelled_while_it_waits_inside_its_call_cancels_the_retry(
    opened: Any, scripted: Any
) -> None:
    """A cancelled wait is no retry any more: the call is stopped until a new turn."""
    controller = opened()
    controller.declare("place", effect="write", target="id")
    tool = scripted(RATE, {"id": 1})
    task = asyncio.create_task(controller.acall("place", {"id": 1}, run="r", execute=tool))
    for _ in range(10):
        await asyncio.sleep(0)
    assert controller.engine.clock.sleepers == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert controller.next_due_at is None
    assert rules(controller)[-1] == "waiting.cancelled.stopped"


async def test_call_on_a_running_loop_is_a_loud_error(desk: Any, scripted: Any) -> None:
    """`call` never blocks an event loop."""
    with pytest.raises(UsageError, match="acall"):
        desk.call("find", {}, run="r", execute=scripted(1))


async def test_an_async_approval_rule_works_under_acall_only(controller: Any, scripted: Any) -> None:
    """A rule may be async; the sync call says so instead of guessing."""

    async def rule(arguments: Any) -> Any:
        return ("ask", "large") if arguments["n"] > 5 else "allow"

    controller.declare("pay", effect="write", approval=rule)
    assert (await controller.acall("pay", {"n": 1}, run="r", execute=scripted(1))).ok
    asked = await controller.acall("pay", {"n": 9}, run="r", execute=scripted(1))
    assert asked.answer is Answer.NEEDS_APPROVAL
    with pytest.raises(UsageError, match="async"):
        controller.propose("pay", {"n": 9}, run="r")


def test_a_checker_that_raises_is_no_verdict_and_the_call_does_not_run(controller: Any, scripted: Any) -> None:
    """A failing checker parks the call, and blocks it when it stays down; never a yes."""

    def rule(_arguments: Any) -> None:
        raise RuntimeError("secret-text")

    controller.declare("pay", effect="write", approval=rule)
    tool = scripted(1)
    first = controller.call("pay", {"n": 1}, run="r", execute=tool, wait=False)
    assert (first.answer, first.envelope.code) == (Answer.PENDING, "CHECKER_UNAVAILABLE")
    assert tool.count == 0


def test_a_missing_run_id_is_one_warning_that_names_the_line(controller: Any, scripted: Any) -> None:
    """Calls without a run are runs of their own, and the caller is told once."""
    with pytest.warns(RuntimeWarning, match=r"test_call\.py:\d+") as caught:
        controller.call("find", {}, execute=scripted(1))
    controller.call("find", {}, execute=scripted(1))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_strict_makes_a_missing_run_and_an_undeclared_tool_errors(opened: Any, scripted: Any) -> None:
    """`strict=True` leaves nothing to guessing."""
    controller = opened(strict=True)
    controller.declare("find", effect="read")
    with pytest.raises(UsageError, match="run"):
        controller.call("find", {}, execute=scripted(1))
    with pytest.raises(UsageError, match="'other'"):
        controller.call("other", {}, run="r", execute=scripted(1))


def test_a_value_that_is_no_json_is_named_by_its_path_and_never_shown(desk: Any, scripted: Any) -> None:
    """An argument without a JSON form is a UsageError with the path, never the value."""
    tool = scripted(1)
    with pytest.raises(UsageError, match="'a/0/b'") as error:
        desk.call("find", {"a": [{"b": {"secret-value"}}]}, run="r", execute=tool)
    assert "secret-value" not in str(error.value)
    assert tool.count == 0


def test_arguments_as_json_text_are_read_and_unreadable_ones_are_blocked(desk: Any, scripted: Any) -> None:
    """A text that is no JSON object is INPUT_INVALID; a truncated message is INPUT_TRUNCATED; neither runs."""
    tool = scripted(1)
    assert desk.call("find", '{"id": 3}', run="r", execute=tool).ok
    assert tool.received == [{"id": 3}]
    for arguments, code in (('{"id": ', "INPUT_INVALID"), ("[1]", "INPUT_INVALID")):
        assert desk.call("find", arguments, run="r", execute=tool).envelope.code == code
    cut = desk.call("find", {"id": 4}, run="r", truncated=True, execute=tool)
    assert (cut.answer, cut.envelope.code) == (Answer.BLOCKED, "INPUT_TRUNCATED")
    assert tool.count == 1


def test_missing_required_arguments_are_named(controller: Any, scripted: Any) -> None:
    """A call without a required argument is blocked, and the names are told."""
    controller.declare("pay", effect="write", required=["amount", "to"])
    reply = controller.call("pay", {"to": "x"}, run="r", execute=scripted(1))
    assert reply.envelope.code == "INPUT_INVALID"
    assert [field.name for field in reply.envelope.invalid_fields] == ["amount"]


def test_a_misspelt_field_is_an_error(controller: Any) -> None:
    """A misspelt policy field names the nearest one."""
    with pytest.raises(ConfigError, match="repeatable"):
        controller.declare("find", effect="read", repeateble=False)


def test_the_decorator_declares_binds_and_returns_the_function(controller: Any) -> None:
    """`tool` registers executor and policy and returns the same function."""

    def quote(symbol: str) -> dict[str, str]:
        return {"symbol": symbol}

    assert controller.tool(effect="read")(quote) is quote
    assert controller.call("quote", {"symbol": "X"}, run="r").value == {"symbol": "X"}


def test_a_tool_without_an_executor_is_an_error_before_anything_is_decided(desk: Any) -> None:
    """Nothing is stored about a call that nobody could run."""
    with pytest.raises(UsageError, match="executor"):
        desk.call("find", {}, run="r")
    assert rules(desk) == []


def test_policies_come_from_a_mapping_and_from_toml(controller: Any, scripted: Any, tmp_path: Any) -> None:
    """All ways of declaring build the same policy."""
    path = tmp_path / "policy.toml"
    path.write_text('[tools.pay]\neffect = "write"\ntarget = "to"\n')
    one = controller.declare({"pay": {"effect": "write", "target": "to"}})
    assert controller.declare_from(path) == one


def test_an_idempotency_key_goes_into_its_argument_only_at_execution(
    controller: Any, clock: Any, scripted: Any
) -> None:
    """The key is stable until the action completes, changes after it, and appears nowhere else."""
    controller.declare("pay", effect="write", idempotency_key="idem")
    wait = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
    tool = scripted(wait, {"id": 1}, {"id": 2})
    controller.bind("pay", tool)
    controller.call("pay", {"n": 1}, run="r", step="a", call_id="1")
    clock.advance(120)
    controller.work()
    assert [reply.value for reply in controller.run("r").inbox()] == [{"id": 1}]
    controller.call("pay", {"n": 1}, run="r", step="b", call_id="2")
    keys = [call["idem"] for call in tool.received]
    assert keys[0] == keys[1] != keys[2]
    stored = b"".join(row.body for row in controller.store.load("tree:r").rows)
    journal = b"".join(line.body for _, line in controller.store.journal(limit=100))
    assert not any(key.encode() in stored + journal for key in keys)


def test_a_tool_with_a_timeout_is_given_up_and_its_late_answer_is_the_truth(opened: Any) -> None:
    """Where the author declared a timeout the call answers `unknown`; what the tool says later settles it."""
    controller = opened()
    controller.declare("pay", effect="write", limits={"timeout": 0.01})
    release, settled = threading.Event(), threading.Event()
    controller.engine.on_ready = lambda _reply: settled.set()

    def slow(**_: object) -> object:
        release.wait(10)
        return {"id": 1}

    reply = controller.call("pay", {"n": 1}, run="r", execute=slow)
    assert reply.envelope.outcome is Outcome.UNKNOWN
    release.set()
    assert settled.wait(10)
    assert rules(controller)[-1] == "unknown.returned.late"
    assert [ready.value for ready in controller.run("r").inbox()] == [{"id": 1}]


def test_a_new_turn_id_begins_a_turn_once(desk: Any, scripted: Any) -> None:
    """An id of the root run that was not seen before begins a turn; an older one that comes again does not."""
    for turn in ("m1", "m1", "m2", "m1"):
        desk.call("find", {"t": turn}, run="r", turn=turn, execute=scripted(1))
    assert rules(desk).count("tree.turn_began") == 2
    desk.call("find", {}, run="child", parent="r", turn="m9", execute=scripted(1))
    assert rules(desk).count("tree.turn_began") == 2


def test_a_run_that_starts_inside_a_governed_call_is_a_child(desk: Any, scripted: Any) -> None:
    """Refusals hold for the whole run tree, also where nobody passed a parent."""
    tool = scripted(FROZEN)

    def outer(**_: object) -> object:
        return desk.call("place", {"id": 1}, run="sub", execute=tool).answer

    desk.call("place", {"id": 1}, run="main", execute=scripted(FROZEN))
    assert desk.call("find", {}, run="main", execute=outer).value is Answer.BLOCKED
    assert tool.count == 0
    assert desk.run("sub").root == "main"


def test_a_run_belongs_to_one_tree(desk: Any, opened: Any) -> None:
    """A run's tree is fixed when it is first seen, also for another process."""
    desk.run("child", parent="a")
    assert desk.run("grandchild", parent="child").root == "a"
    with pytest.raises(UsageError, match="tree"):
        desk.run("child", parent="b")
    with pytest.raises(UsageError, match="own parent"):
        desk.run("x", parent="x")


def test_a_quota_holds_all_runs_of_a_principal(controller: Any, scripted: Any) -> None:
    """What one run's quota refuses, another run of the same principal does not try."""
    controller.declare("send", effect="write", quota="mail", target="to")
    tool = scripted(Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60), 1)
    controller.call("send", {"to": "a"}, run="r1", principal="acct", execute=tool)
    other = controller.call("send", {"to": "b"}, run="r2", principal="acct", execute=tool)
    assert other.answer is Answer.PENDING
    assert controller.call("send", {"to": "c"}, run="r3", principal="else", execute=tool).ok
    with pytest.raises(UsageError, match="principal"):
        controller.run("r1", principal="else")
    assert tool.count == 2


def test_a_halted_run_is_told_to_the_person_with_what_was_done(desk: Any, scripted: Any) -> None:
    """A halt names its reason, what was completed and what is pending, to the person too."""
    desk.call("find", {}, run="r", execute=scripted(1))
    tool = scripted(FROZEN)
    desk.call("place", {"id": 1}, run="r", execute=tool)
    answers = [desk.call("place", {"id": 1, "n": n}, run="r", execute=tool).answer for n in range(20)]
    assert answers[-1] is Answer.HALTED
    assert desk.run("r").halted
    again = desk.call("find", {"other": 1}, run="r", execute=scripted(1))
    assert again.answer is Answer.HALTED
    assert "find" in again.for_user()
    assert '"completed"' in again.for_model()
    assert len(again.for_model().encode()) <= 480
    desk.run("r").new_turn()
    assert desk.call("find", {"other": 1}, run="r", execute=scripted(1)).ok


def test_observe_mode_changes_nothing_for_the_caller(opened: Any, scripted: Any) -> None:
    """An observed tool runs whatever is answered; what would have been answered is in the journal."""
    controller = opened(mode="observe")
    controller.declare("place", effect="write", target="id")
    tool = scripted(FROZEN, RATE, {"id": 3})
    for _ in range(2):
        controller.call("place", {"id": 1}, run="r", execute=tool)
    last = controller.call("place", {"id": 1}, run="r", execute=tool)
    assert last.value == {"id": 3}
    assert tool.count == 3
    assert any(b'"would":"blocked"' in line.body for _, line in controller.store.journal())
    assert controller.next_due_at is None


def test_no_warning_is_raised_by_an_ordinary_call(desk: Any, scripted: Any) -> None:
    """Ordinary use is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert desk.call("find", {}, run="r", execute=scripted(1)).ok
