"""Healthy work must be completely untouched: every call runs, in order, once, and gives back the very object.

Each journey runs twice: with the labels that a careful author gives, and with nothing declared at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from forbear.contract import Http, Mcp
from forbear.core.vocabulary import Answer
from forbear.errors import Refused
from tests.integration.healthy import World


@pytest.fixture(params=[True, False], ids=["labelled", "undeclared"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with labels, and one where nobody declared anything."""
    made = World(labelled=request.param)
    yield made
    made.close()


def test_parallel_writes_to_one_target_all_run(world: World) -> None:
    """Four different writes to one target in one message run side by side; none waits for another."""
    world.declare("append_row", effect="write", repeatable=False, target="sheet")
    step = world.step()
    replies = [
        world.controller.propose(
            "append_row", {"sheet": "s", "row": n}, run="run", step=step, call_id=f"c{n}", siblings=4
        )
        for n in range(4)
    ]
    for n, reply in reversed(list(enumerate(replies))):
        assert reply.attempt is not None
        value = {"row": n}
        assert world.controller.settle(reply.attempt, value).value is value


def test_pages_are_read_to_the_end(world: World) -> None:
    """Twelve pages of one listing are twelve different calls."""
    world.declare("list_orders", effect="read")
    for page in range(12):
        world.expect("list_orders", {"page": page}, {"items": [page], "next": page + 1})


def test_a_poll_is_looked_at_forty_times(world: World) -> None:
    """A job that is still running may be looked at forty times with equal arguments and equal answers."""
    world.declare("job_state", effect="read", poll={"status_field": "state", "pending": ["running"], "min_interval": 2})
    for _ in range(40):
        world.expect("job_state", {"job": "j"}, {"state": "running"})
    world.expect("job_state", {"job": "j"}, {"state": "done"})


def test_an_undeclared_poll_of_a_declared_read(world: World) -> None:
    """A read that nobody declared a poll is looked at forty times as well."""
    world.declare("job_state", effect="read")
    for _ in range(40):
        world.expect("job_state", {"job": "j"}, {"state": "running"})


def test_edit_compile_test_loop(world: World) -> None:
    """The same test command runs after every edit, though it failed each time before."""
    world.declare("run_tests", effect="read")
    world.declare("edit_file", effect="write", target="path")
    for round_number in range(12):
        world.fails("run_tests", {"suite": "all"}, ValueError(f"{12 - round_number} tests failed"))
        world.expect("edit_file", {"path": f"src/m{round_number % 3}.py", "patch": round_number}, "written")
    world.expect("run_tests", {"suite": "all"}, {"passed": 40})


def test_edit_build_loop_with_error_results(world: World) -> None:
    """The same holds where the build answers with an error flag and both tools write."""
    world.declare("build", effect="write", repeatable=True)
    world.declare("edit_file", effect="write", target="path")
    for round_number in range(10):
        failed = Mcp(is_error=True, content=({"type": "text", "text": "make: *** [all] Error 2"},))
        world.fails("build", {"target": "all"}, failed)
        world.expect("edit_file", {"path": "src/a.c", "patch": round_number}, "written")
    world.expect("build", {"target": "all"}, "ok")


def test_fifty_look_ups_with_five_misses(world: World) -> None:
    """Five misses in one message of fifty look-ups cost nothing else."""
    world.declare("get_user", effect="read")
    step = world.step()
    for number in range(50):
        if number % 10 == 3:
            world.fails("get_user", {"id": number}, Http(status=404, method="GET"), step=step, siblings=50)
        else:
            world.expect("get_user", {"id": number}, {"id": number}, step=step, siblings=50)
    world.expect("get_user", {"id": 99}, {"id": 99})


def test_look_ups_one_by_one_with_misses(world: World) -> None:
    """Misses in steps of their own between hits do not close the look-up."""
    world.declare("get_user", effect="read")
    for number in range(30):
        if number % 3 == 1:
            world.fails("get_user", {"id": number}, Http(status=404, method="GET"))
        else:
            world.expect("get_user", {"id": number}, {"id": number})


def test_forty_writes_with_four_repaired(world: World) -> None:
    """Four of forty writes name a wrong field, are repaired by the model, and run."""
    world.declare("add_contact", effect="write", repeatable=False, target="email", input_fields=["email", "phone"])
    for number in range(40):
        email = f"u{number}@x.invalid"
        if number % 10 == 4:
            wrong = Refused("INPUT_INVALID", recovery="repair_input", invalid_fields=["phone"])
            world.fails("add_contact", {"email": email, "phone": "?"}, wrong)
        world.expect("add_contact", {"email": email, "phone": str(number)}, {"id": number})


def test_an_empty_search_is_refined(world: World) -> None:
    """An empty answer is an answer; other words may be looked for at once, and the same words later."""
    world.declare("search", effect="read")
    empty: list[object] = []
    for words in ("vat rules 2026", "vat rules", "vat"):
        world.expect("search", {"q": words}, empty)
    world.expect("search", {"q": "tax"}, ["hit"])
    world.expect("search", {"q": "vat"}, ["now there"])


def test_the_same_payment_in_a_new_turn(world: World) -> None:
    """What a person asks for again in a new message is done again."""
    world.declare("send_payment", effect="write", repeatable=False, target="to")
    world.expect("send_payment", {"to": "a", "amount": 5}, {"id": 1})
    world.controller.run("run").new_turn()
    world.expect("send_payment", {"to": "a", "amount": 5}, {"id": 2})


def test_eight_different_writes_through_one_tool(world: World) -> None:
    """Eight different writes in a row are eight writes."""
    world.declare("create_issue", effect="write", repeatable=False)
    for number in range(8):
        world.expect("create_issue", {"title": f"t{number}"}, {"id": number})


def test_sub_agents_read_the_same_thing(world: World) -> None:
    """Three children that read the same document each read it."""
    world.declare("read_doc", effect="read")
    step = world.step()
    world.controller.run("run")
    for child in ("a", "b", "c"):
        text = f"text for {child}"
        world.expect("read_doc", {"doc": "d"}, text, run=f"run/{child}", parent="run", step=step)


def test_sub_agents_write_different_things(world: World) -> None:
    """Children that write to different targets do not meet."""
    world.declare("write_part", effect="write", repeatable=False, target="part")
    world.controller.run("run")
    for number in range(6):
        world.expect("write_part", {"part": number}, {"ok": number}, run=f"run/{number % 3}", parent="run")


def test_a_write_after_a_read_of_the_same_target(world: World) -> None:
    """Reading and writing one thing by turns is work."""
    world.declare("read_file", effect="read", target="path")
    world.declare("write_file", effect="write", target="path")
    for number in range(6):
        world.expect("read_file", {"path": "a"}, f"v{number}")
        world.expect("write_file", {"path": "a", "text": f"v{number + 1}"}, True)


def test_a_long_batch_with_a_few_refusals(world: World) -> None:
    """Three refusals in one message of thirty writes to different targets stop nothing else."""
    world.declare("close_ticket", effect="write", repeatable=False, target="id")
    step = world.step()
    for number in range(30):
        if number in {4, 11, 12}:
            world.fails("close_ticket", {"id": number}, Http(status=403), step=step, siblings=30)
        else:
            world.expect("close_ticket", {"id": number}, {"closed": number}, step=step, siblings=30)
    world.expect("close_ticket", {"id": 77}, {"closed": 77})


def test_a_series_with_refusals_in_between(world: World) -> None:
    """Refusals of single targets between successes do not close the operation."""
    world.declare("close_ticket", effect="write", repeatable=False, target="id")
    for number in range(24):
        if number % 4 == 1:
            world.fails("close_ticket", {"id": number}, Http(status=403))
        else:
            world.expect("close_ticket", {"id": number}, {"closed": number})


def test_a_wanted_repeat(world: World) -> None:
    """A write whose author says that twice does no harm runs twice; so does one that nobody labelled."""
    world.declare("press_key", effect="write", repeatable=True)
    for _ in range(8):
        world.expect("press_key", {"key": "down"}, "ok")


def test_two_hundred_steps(world: World) -> None:
    """A run of two hundred steps with five tools is not a loop."""
    world.declare("read_file", "search", "list_dir", effect="read")
    world.declare("write_file", effect="write", target="path")
    world.declare("run_shell", effect="write", repeatable=True)
    for number in range(40):
        world.expect("list_dir", {"path": "src"}, ["a", "b"])
        world.expect("read_file", {"path": f"src/{number % 7}"}, "text")
        world.expect("search", {"q": f"symbol {number}"}, [number])
        world.expect("write_file", {"path": f"src/{number % 7}", "text": str(number)}, None)
        world.expect("run_shell", {"command": "make"}, "ok")


def test_streaming_results_pass_untouched(world: World) -> None:
    """A generator is handed on as it is; nobody consumes it."""
    world.declare("stream_log", effect="read")
    stream = (line for line in ["a", "b"])
    world.expect("stream_log", {"unit": "x"}, stream)
    assert list(stream) == ["a", "b"]


@pytest.mark.parametrize("value", [None, False, 0, "", 0.0, [], {}, ()], ids=repr)
def test_falsy_results_are_results(world: World, value: object) -> None:
    """Nothing, false, zero and empty texts are what the tool said, again and again."""
    world.declare("get_flag", effect="read")
    world.declare("set_flag", effect="write")
    for number in range(4):
        world.expect("get_flag", {"n": number}, value)
        world.expect("set_flag", {"n": number}, value)


@pytest.mark.parametrize(
    "value",
    [
        "Error: 0 errors found",
        "error handling was improved",
        {"error": None, "rows": 3},
        {"errors": [], "data": {"a": 1}},
        {"status": "failed jobs: none"},
        ["403 Forbidden is documented here"],
        {"retry_after": 30, "recovery": "a chapter title"},
        "permission denied entries: 0",
    ],
    ids=range(8),
)
def test_results_with_alarming_words_are_results(world: World, value: object) -> None:
    """Prose is never parsed to decide."""
    world.declare("read_log", effect="read")
    world.declare("run_report", effect="write", repeatable=True)
    for number in range(3):
        world.expect("read_log", {"n": number}, value)
        world.expect("run_report", {"n": number}, value)


def test_a_shell_whose_exit_text_repeats(world: World) -> None:
    """Different commands with the same failing output are different commands."""
    world.declare("shell", effect="write", repeatable=True)
    for number in range(30):
        world.expect("shell", {"command": f"grep -r needle dir{number}"}, "exit code 1")
    for _ in range(12):
        world.expect("shell", {"command": "make test"}, "exit code 2: 3 tests failed")
        world.expect("shell", {"command": "sed -i s/a/b/ x"}, "exit code 0")


def test_a_read_is_made_again_after_the_wait(world: World) -> None:
    """A call that is proposed after its limit ended is the retry, and it runs."""
    world.declare("get_quote", effect="read")
    reply = world.do("get_quote", {"s": "A"}, Http(status=429, headers=(("Retry-After", "5"),)))
    assert reply.answer is Answer.PENDING
    world.clock.advance(30)
    world.expect("get_quote", {"s": "A"}, {"price": 1})
    world.expect("get_quote", {"s": "A"}, {"price": 2})


def test_two_runs_of_two_people_do_not_meet(world: World) -> None:
    """The same write in two runs is two writes."""
    world.declare("create_note", effect="write", repeatable=False)
    world.expect("create_note", {"t": "x"}, {"id": 1}, run="alice")
    world.expect("create_note", {"t": "x"}, {"id": 2}, run="bob")


def test_types_and_forms_of_arguments_are_told_apart(world: World) -> None:
    """One, one point nought, true and "1" are four writes, and so are two spellings of one letter."""
    world.declare("put", effect="write", repeatable=False)
    for value in (1, 1.0, True, "1", "\u00e9", "e\u0301", None, [1], {"a": 1}):
        world.expect("put", {"v": value}, {"ok": True})


def test_on_off_on(world: World) -> None:
    """A write that undoes another one may be done again."""
    world.declare("set_light", effect="write", repeatable=False, target="lamp")
    for state in ("on", "off", "on", "off", "on"):
        world.expect("set_light", {"lamp": "l", "state": state}, {"state": state})


def test_other_calls_go_on_while_one_is_open(world: World) -> None:
    """A call that is still running holds up no other call."""
    world.declare("long_job", effect="write", repeatable=False, target="job")
    world.declare("get_time", effect="read")
    opened = world.controller.propose("long_job", {"job": 1}, run="run", step=world.step(), call_id="long")
    assert opened.attempt is not None
    for number in range(10):
        world.expect("get_time", {"zone": number}, number)
        world.expect("long_job", {"job": 100 + number}, {"ok": number})
    value = {"done": 1}
    assert world.controller.settle(opened.attempt, value).value is value


def test_a_missing_thing_is_reported_and_the_rest_is_done(world: World) -> None:
    """Deleting ten things of which two are gone deletes eight."""
    world.declare("delete_item", effect="write", repeatable=False, target="id")
    for number in range(10):
        if number in {3, 7}:
            world.fails("delete_item", {"id": number}, LookupError("no such item"))
        else:
            world.expect("delete_item", {"id": number}, {"deleted": number})


def test_a_tool_that_fails_once_in_its_own_code(world: World) -> None:
    """After a call failed in the tool's code, other arguments run at once."""
    world.declare("convert", effect="read")
    world.fails("convert", {"v": "x"}, ValueError("cannot"))
    world.expect("convert", {"v": "12"}, 12)
    world.expect("convert", {"v": "13"}, 13)


def test_forced_tool_choice_that_works(world: World) -> None:
    """A forced tool that answers is never the end of a run."""
    world.declare("classify", effect="read")
    for number in range(6):
        world.expect("classify", {"n": number}, "label", forced=True)


async def test_twenty_tasks_at_once(world: World) -> None:
    """Twenty different calls of one message run at the same time, each with its own result."""
    world.declare("fetch", effect="read")
    step = world.step()

    async def one(number: int) -> None:
        value = {"n": number}

        async def execute(n: int) -> object:
            await asyncio.sleep(0)
            return value

        reply = await world.controller.acall(
            "fetch", {"n": number}, execute=execute, run="run", step=step, call_id=f"t{number}", siblings=20
        )
        assert reply.answer is Answer.EXECUTED
        assert reply.value is value

    await asyncio.gather(*(one(number) for number in range(20)))
