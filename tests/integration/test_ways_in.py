"""Ways in that once were broken: functions, loops, decorators and files as hostile callers use them."""

from __future__ import annotations

import ipaddress
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, HttpUrl
from tenacity import Retrying

from forbear import Controller, Next, Operator, RecoveryPolicy, Refused, aexecute, execute, govern, in_run, mark
from forbear.contract import Raised
from forbear.errors import StoreError, UsageError
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.tenacity import recovery

ONCE: dict[str, Any] = {"effect": "write", "repeatable": False}
PERSON: list[dict[str, object]] = [{"role": "user", "content": "go"}]
LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60, executed="no")


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def controller(clock: ManualClock) -> Iterator[Controller]:
    """Open a controller in memory, without a worker."""
    with Controller.open(":memory:", clock=clock, ids=SequenceIds(), worker=False) as opened:
        yield opened


def chat(*calls: tuple[str, str, dict[str, object]]) -> dict[str, object]:
    """Return a chat completion that calls tools: id, name, arguments."""
    made = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, name, arguments in calls
    ]
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": made}}]}


def results(messages: list[dict[str, object]]) -> list[object]:
    """Return what the tools answered, in order."""
    return [message["content"] for message in messages if message["role"] == "tool"]


# ---- results ---------------------------------------------------------------------------------------------------------


def tree() -> object:
    """Return a tree whose nodes know their parent."""
    root: dict[str, object] = {"name": "root"}
    root["children"] = [{"name": "a", "parent": root}, {"name": "b", "parent": root}]
    return root


def shared() -> object:
    """Return a small object that is endless when it is written out."""
    made: list[object] = ["a"]
    for _ in range(64):
        made = [made, made]
    return made


@pytest.mark.parametrize("make", [tree, shared])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_result_that_contains_itself_is_handed_on(
    controller: Controller, make: Callable[[], object], effect: str
) -> None:
    """Objects that point at each other are a result like any other: nothing walks along them without end."""
    value = make()
    controller.declare("look", effect=effect)
    for step in ("s1", "s2"):
        assert controller.call("look", {}, run="r", step=step, execute=lambda: value).value is value


# ---- what is the same call -------------------------------------------------------------------------------------------


def test_a_default_that_the_function_fills_makes_no_other_call(controller: Controller) -> None:
    """A list or a dict that stands as a default and changes with every call does not tell two equal payments apart."""
    paid: list[int] = []

    def pay(amount: int, seen: list[int] = [], *, cache: dict[str, int] = {}) -> str:  # noqa: B006 - what is tested
        seen.append(amount)
        cache[str(amount)] = len(seen)
        paid.append(amount)
        return f"paid {len(seen)}"

    governed = govern(pay, controller, run="r", **ONCE)
    assert [governed(5), governed(5), governed(amount=5)] == ["paid 1"] * 3
    assert paid == [5]


def test_a_retry_fills_the_same_default(controller: Controller, clock: ManualClock) -> None:
    """A call that the controller repeats by itself gets the very default, not a copy of what it was."""
    seen: list[int] = []
    answers: list[object] = [LATER, "ok"]

    def look(number: int, cache: list[int] = seen) -> object:
        cache.append(number)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    governed = govern(look, controller, run="r", effect="read")
    governed(1)
    clock.advance(120)
    controller.work()
    assert (seen, answers) == ([1, 1], [])


class Colour(Enum):
    """Names of members in objects."""

    RED = "red"


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (bytes, "abc"),
        (ipaddress.IPv4Address, "192.0.2.1"),
        (HttpUrl, "https://example.invalid/a"),
        (dict[int, str], {"1": "a"}),
        (dict[Colour, int], {"red": 1}),
        (dict[date, int], {"2026-01-01": 1}),
        (complex, "1j"),
    ],
    ids=str,
)
def test_values_that_a_model_can_write_reach_the_function(controller: Controller, kind: Any, written: object) -> None:
    """A tool that takes bytes, an address, a URL or an object with other keys than texts runs, and once."""
    got: list[object] = []

    def take(value: object) -> str:
        got.append(value)
        return "taken"

    take.__annotations__ = {"value": kind}
    controller.declare("take", **ONCE)
    progress = execute(chat(("1", "take", {"value": written})), PERSON, [take], controller, run="r")
    progress = execute(chat(("2", "take", {"value": written})), progress.messages, [take], controller, run="r")
    assert results(progress.messages) == ["taken", "taken"]
    (value,) = got
    assert not isinstance(value, type(written)) or isinstance(value, dict)


def test_an_argument_whose_own_code_raises_is_named(controller: Controller) -> None:
    """What an argument's own class raises is nobody's text: the error names the argument."""

    class Evil:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("aPlantedSecret0042")

    with pytest.raises(UsageError, match="argument 'thing' is not JSON: Evil does not give its JSON form") as raised:
        govern(lambda thing: thing, controller, name="use", run="r")(Evil())
    assert "Planted" not in str(raised.value)


def test_a_keyword_with_the_name_of_all_keywords_is_one_of_them(controller: Controller) -> None:
    """A model that fills the field `kwargs` of a made-up schema calls the function, as it would without a controller."""

    def find(text: str, **kwargs: object) -> object:
        return text, kwargs

    assert govern(find, controller, run="r")("a", kwargs={"page": 2}) == ("a", {"kwargs": {"page": 2}})


def test_a_model_may_write_arguments_in_any_order(controller: Controller) -> None:
    """Values go where their names say: positional-only ones by their place, all others by keyword."""

    def move(start: int, end: int = 9, /, speed: int = 1, *rest: int, **more: int) -> object:
        return start, end, speed, rest, more

    controller.declare("move", effect="read")
    progress = execute(chat(("1", "move", {"extra": 5, "speed": 3, "start": 1})), PERSON, [move], controller, run="r")
    assert results(progress.messages) == ['[1, 9, 3, [], {"extra": 5}]']


def test_a_decorator_that_takes_keywords_alone_is_called_with_keywords(controller: Controller) -> None:
    """What a model wrote reaches a function as every loop passes it, whatever stands around the function."""

    def base(sides: int) -> int:
        return sides

    @wraps(base)
    def roll(**arguments: int) -> int:
        return base(**arguments)

    progress = execute(chat(("1", "base", {"sides": 6})), PERSON, [roll], controller, run="r")
    assert results(progress.messages) == ["6"]


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_a_later_result_is_put_to_its_own_call_where_ids_are_used_twice(
    controller: Controller, clock: ManualClock
) -> None:
    """A server that numbers the calls of each message anew: what becomes ready replaces no other call's result."""
    closed = [True]

    def quote(symbol: str) -> str:
        if closed:
            raise LATER
        return f"quote of {symbol}"

    def note(text: str) -> str:
        return f"noted {text}"

    controller.declare("quote", "note", effect="read")
    tools: list[Callable[..., object]] = [quote, note]
    progress = execute(chat(("call_0", "quote", {"symbol": "A"})), PERSON, tools, controller, run="r")
    progress = execute(chat(("call_0", "note", {"text": "x"})), progress.messages, tools, controller, run="r")
    closed.clear()
    clock.advance(120)
    controller.work()
    progress = execute(chat(("call_0", "note", {"text": "y"})), progress.messages, tools, controller, run="r")
    assert results(progress.messages) == ["quote of A", "noted x", "noted y"]


@pytest.mark.parametrize("ids", [("", ""), ("c", "c")])
def test_calls_without_ids_of_their_own_are_paused_and_resumed(controller: Controller, ids: tuple[str, str]) -> None:
    """Two calls of one id, or none: the approved one runs when it is approved, and its result is its own."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    def note(text: str) -> str:
        return f"noted {text}"

    controller.declare("pay", approval="always", **ONCE)
    tools: list[Callable[..., object]] = [pay, note]
    response = chat((ids[0], "pay", {"amount": 7}), (ids[1], "note", {"text": "x"}))
    progress = execute(response, PERSON, tools, controller, run="r")
    assert progress.next is Next.PERSON
    (prompt,) = Operator(controller).pending()
    Operator(controller).approve(prompt.ticket, prompt.fingerprint)
    progress = execute(None, json.loads(json.dumps(progress.messages)), tools, controller, run="r")
    assert (progress.next, paid) == (Next.MODEL, [7])
    assert sorted(map(str, results(progress.messages))) == ["noted x", "paid 7"]


def test_the_same_response_after_the_same_messages_is_the_same_calls(controller: Controller) -> None:
    """A step that is executed twice, because the process died in between, makes no second payment."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    for _ in range(2):
        execute(chat(("", "pay", {"amount": 7}), ("", "pay", {"amount": 8})), PERSON, [pay], controller, run="r")
    assert paid == [7, 8]


class Part(BaseModel):
    """A block of a client library's message."""

    type: str
    id: str
    name: str
    input: dict[str, object]


class Message(BaseModel):
    """A client library's message."""

    role: str = "assistant"
    content: list[Part]


@pytest.mark.parametrize("whole", [True, False])
def test_objects_of_a_client_library_are_read_in_the_conversation_too(controller: Controller, whole: bool) -> None:
    """A message that the caller appended as the library's object holds the same calls as its JSON."""
    part = Part(type="tool_use", id="1", name="look", input={"number": 1})
    message: Any = Message(content=[part]) if whole else {"role": "assistant", "content": [part]}
    progress = execute(
        None, [*PERSON, message], {"look": lambda number: f"saw {number}"}, controller, run="r", codec="anthropic"
    )
    assert progress.next is Next.MODEL
    assert json.loads(json.dumps(progress.messages[-1]))["content"][0]["content"] == "saw 1"


def test_a_function_call_behind_a_search_of_the_server_is_answered(controller: Controller) -> None:
    """All calls of one response are answered, whatever the API's own tools did between them."""
    output = [
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"n": 1}'},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "function_call", "call_id": "2", "name": "look", "arguments": '{"n": 2}'},
    ]
    progress = execute(
        {"status": "completed", "output": output},
        PERSON,
        {"look": lambda n: f"saw {n}"},
        controller,
        run="r",
        codec="openai-responses",
    )
    said = {item["call_id"]: item["output"] for item in progress.messages if item.get("type") == "function_call_output"}
    assert said == {"1": "saw 1", "2": "saw 2"}


def test_a_turn_that_the_server_paused_is_not_the_final_answer(controller: Controller) -> None:
    """A response that stopped in the middle of the server's own tools goes back to the model."""
    response = {
        "role": "assistant",
        "stop_reason": "pause_turn",
        "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
    }
    assert execute(response, PERSON, [], controller, run="r", codec="anthropic").next is Next.MODEL


def test_a_call_in_the_form_before_tools_is_an_error(controller: Controller) -> None:
    """A response that calls a function in a form that is not read is no final answer."""
    message = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    with pytest.raises(UsageError, match="function_call"):
        execute({"choices": [{"message": message}]}, PERSON, [], controller, run="r")


class Desk:
    """An agent of one conversation, whose methods are its tools."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.closed = True

    def quote(self, symbol: str) -> str:
        """Give a quote."""
        if self.closed:
            raise LATER
        return f"{symbol} for {self.owner}"


async def test_methods_of_another_object_in_every_conversation(controller: Controller, clock: ManualClock) -> None:
    """Each conversation brings its own object: each call, and each retry by the controller, is made on its own one."""
    controller.declare("quote", effect="read")
    desks = {run: Desk(run) for run in ("a", "b", "c")}
    talks: dict[str, list[dict[str, object]]] = {}
    for run, desk in desks.items():
        response = chat(("1", "quote", {"symbol": "X"}))
        talks[run] = (await aexecute(response, PERSON, [desk.quote], controller, run=run)).messages
        desk.closed = False
    clock.advance(120)
    await controller.awork()
    for run, desk in desks.items():
        progress = await aexecute(None, talks[run], [desk.quote], controller, run=run)
        assert results(progress.messages) == [f"X for {run}"]


# ---- runs do not meet -------------------------------------------------------------------------------------------------


def test_what_becomes_ready_for_one_person_is_given_to_no_other(controller: Controller, clock: ManualClock) -> None:
    """Two people ask for the same thing without arguments and wait: each is given the own answer."""
    controller.declare("balance", effect="read")

    def closed() -> None:
        raise LATER

    for person in ("alice", "bob"):
        controller.call("balance", {}, run=person, step="s1", call_id="c", execute=closed)
    clock.advance(120)
    numbers = iter(range(2))
    controller.bind("balance", lambda: {"number": next(numbers)})
    ran = {reply.run: reply.value for reply in controller.work()}
    assert len(ran) == 2
    assert {person: controller.run(person).inbox()[0].value for person in ran} == ran


def test_two_people_who_pay_the_same_use_two_idempotency_keys(controller: Controller) -> None:
    """The upstream makes both payments, and repeats neither: a key belongs to the action of one tree."""
    keys: dict[str, set[object]] = {}
    controller.declare("pay", effect="write", idempotency_key="key")

    def pay(amount: int, key: str) -> str:
        keys.setdefault(person, set()).add(key)
        return "paid"

    for person in ("alice", "bob"):
        controller.call("pay", {"amount": 5}, run=person, step="s1", execute=pay)
    assert [len(used) for used in keys.values()] == [1, 1]
    assert keys["alice"].isdisjoint(keys["bob"])


def test_how_far_one_persons_call_came_says_nothing_about_anothers(controller: Controller) -> None:
    """A boundary that one open call reached is no evidence about an equal call of another run."""
    opened = {}
    for person in ("alice", "bob"):
        reply = controller.propose("pay", {"amount": 5}, run=person, step="s1")
        assert reply.attempt is not None
        opened[person] = reply.attempt
    with controller.inside(opened["alice"]):
        mark("request_sent")
    said = controller.settle(opened["bob"], Raised(ValueError("no such account"), phase="in_tool"))
    assert said.envelope.code == "TOOL_ERROR"
    said = controller.settle(opened["alice"], Raised(ValueError("no such account"), phase="in_tool"))
    assert said.envelope.code == "OUTCOME_UNKNOWN"


# ---- decorators ------------------------------------------------------------------------------------------------------


def test_no_retry_before_its_time_where_the_clock_moves_between_the_questions() -> None:
    """A wait that is a hair too long for `inline_wait` is no wait of zero seconds."""

    class Ticking(ManualClock):
        def now(self) -> Any:
            self.advance(0.001)
            return super().now()

    clock = Ticking()
    calls: list[object] = []
    slept: list[float] = []

    def look() -> str:
        calls.append(clock.now())
        raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=3, executed="no")

    for inline in range(3000, 5000, 1):
        calls.clear()
        parts: Any = recovery(RecoveryPolicy(effect="read", clock=clock), inline_wait=timedelta(milliseconds=inline))
        Retrying(**parts, sleep=slept.append)(look)
        assert len(calls) == 1 or slept.pop() >= 3


def test_a_refusal_in_a_block_is_not_swallowed() -> None:
    """Code that follows `for attempt in Retrying(…)` does not go on as if the block had completed."""
    parts: Any = recovery(effect="write")
    went_on: list[bool] = []

    def block() -> None:
        for attempt in Retrying(**parts):
            with attempt:
                raise Refused("DESK_FROZEN", recovery="do_not_retry")
        went_on.append(True)

    with pytest.raises(Refused):
        block()
    assert not went_on


# ---- the store's files -----------------------------------------------------------------------------------------------


def gone(path: Path) -> None:
    """Delete the database."""
    path.unlink()


def lock(path: Path) -> None:
    """Delete the lock file, as somebody does who takes it for a left-over."""
    path.with_name(path.name + "-lock").unlink()


def log(path: Path) -> None:
    """Delete the write-ahead log."""
    path.with_name(path.name + "-wal").unlink()


def replaced(path: Path) -> None:
    """Put a copy into its place, as a restored backup is."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def moved(path: Path) -> None:
    """Move the folder away."""
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("how", [gone, lock, log, replaced, moved])
def test_nothing_runs_where_the_stores_files_are_not_where_others_find_them(
    tmp_path: Path, how: Callable[[Path], None]
) -> None:
    """What would be written into a file that nobody finds any more is not begun: it would be done a second time."""
    path = tmp_path / "state" / "forbear.db"
    ran: list[int] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", **ONCE)
        controller.call("pay", {"amount": 1}, run="r", step="s1", execute=pay)
        how(path)
        with pytest.raises(StoreError, match="must stay where it was opened"):
            controller.call("pay", {"amount": 2}, run="r", step="s2", execute=pay)
        assert governed_answer(controller, pay) == "CONTROLLER_BROKEN"
    assert ran == [1]


def governed_answer(controller: Controller, pay: Callable[[int], str]) -> object:
    """Return the code that a governed function answers."""
    return json.loads(govern(pay, controller, run="r")(3))["error"]["code"]


# ---- healthy work ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [{"effect": "read"}, {}, {"effect": "write", "repeatable": True}], ids=str)
def test_a_missing_file_is_made_and_then_read(controller: Controller, labels: dict[str, Any]) -> None:
    """A coding agent looks for a file, makes it, and looks at it: the second look runs."""
    files: dict[str, str] = {}

    def read_file(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(2, "No such file", path)
        return files[path]

    if labels:
        controller.declare("read_file", **labels)
    controller.declare("write_file", effect="write", target="path")
    look = govern(read_file, controller, run="r")
    look("README.md")
    made = govern(lambda path, text: files.update({path: text}), controller, name="write_file", run="r")
    made("README.md", "hello")
    assert look("README.md") == "hello"


def test_a_missing_file_leaves_a_declared_write_unknown(controller: Controller) -> None:
    """A payment whose receipt cannot be filed may have been made: it is not repeated."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        raise FileNotFoundError(2, "No such file", "receipts/1")

    governed = govern(pay, controller, run="r", **ONCE)
    assert json.loads(governed(5))["error"]["code"] == "OUTCOME_UNKNOWN"
    governed(5)
    governed(6)
    assert paid == [5]


def test_a_shell_that_does_no_harm_twice_is_not_held_by_one_failure(controller: Controller, clock: ManualClock) -> None:
    """A command that failed without a reason closes that command until something was changed, and no other one."""
    ran: list[str] = []

    def shell(command: str) -> str:
        ran.append(command)
        if command == "make" and "sed" not in ran:
            raise RuntimeError("exit status 2")
        return "done"

    governed = govern(shell, controller, run="r", effect="write", repeatable=True)
    for command in ("make", "make", "sed", "make", "cat"):
        clock.advance(2)
        governed(command)
    assert ran == ["make", "sed", "make", "cat"]


def in_thread(thread: threading.Thread) -> None:
    """Run a thread to its end."""
    thread.start()
    thread.join()


def test_threads_of_a_block_need_their_run(controller: Controller) -> None:
    """A plain thread does not inherit the block's run, and says so once."""
    governed = govern(lambda amount: amount, controller, name="pay", **ONCE)
    thread = threading.Thread(target=governed, args=(1,))
    with in_run("r"), pytest.warns(RuntimeWarning, match="call without a run id"):
        in_thread(thread)


def test_equal_calls_of_two_people_wait_in_two_places(controller: Controller, clock: ManualClock) -> None:
    """A quota that ten people share keeps five calls for later, equal or not, and releases them one by one."""
    closed = [True]

    def look() -> str:
        if closed:
            raise LATER
        ran.append(clock.now())
        return "seen"

    ran: list[object] = []
    controller.declare("look", effect="read", quota="api")
    controller.bind("look", look)
    kept = [
        controller.call("look", {}, run=f"r{n}", principal="account", step="s1").ticket is not None for n in range(10)
    ]
    closed.clear()
    clock.advance(55)
    for _ in range(40):
        clock.advance(0.5)
        controller.work()
    assert sum(kept) == 5
    assert len(set(ran)) == len(ran) == 5
