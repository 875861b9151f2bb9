"""`govern`: what the function received, what its caller gets, and what builders see of it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import sqlite3
import threading
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from tenacity import retry

import forbear
from forbear import Controller, Refused, in_run
from forbear.errors import ConfigError, StoreError, UsageError
from forbear.testing.clock import ManualClock

Opener = Callable[..., Controller]
# Called here with what its types forbid, too.
govern: Any = forbear.govern

FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")
SECRET = "tok-QX19"

if typing.TYPE_CHECKING:
    from fractions import Fraction as OnlyForCheckers


def told(answer: Any) -> Any:
    """Return the error object of a refusal."""
    assert isinstance(answer, str), answer
    return json.loads(answer)["error"]


@pytest.fixture
def placed() -> Any:
    """Note what the function received."""
    return []


@pytest.fixture
def place(placed: Any) -> Any:
    """Make a write."""

    def place_order(desk: str, qty: int = 1, *, note: str | None = None) -> dict[str, object]:
        """Place an order."""
        placed.append((desk, qty, note))
        if desk == "frozen":
            raise FROZEN
        if desk == "broken":
            raise RuntimeError(f"token={SECRET}")
        return {"id": len(placed)}

    return place_order


WRITE = {"effect": "write", "target": "desk", "run": "r"}

# ---- answers --------------------------------------------------------------------------------------------------------


def test_a_value_is_the_very_object(controller: Controller) -> None:
    """A call that completes gives what the function returned, also where that is None or empty."""
    for value in ({"id": 1}, None, "", [], object()):
        governed = govern(lambda value=value: value, controller, name="tool", effect="read", run="r", bind=False)
        assert governed() is value


def test_a_refusal_is_returned_as_text_and_stays(controller: Controller, place: Any, placed: Any) -> None:
    """A refusal is a value, never an exception, and nothing that it covers is executed again."""
    governed = govern(place, controller, **WRITE)
    assert told(governed("frozen"))["code"] == "DESK_FROZEN"
    assert told(governed(desk="frozen", qty=5))["recovery"] == "do_not_retry"
    assert placed == [("frozen", 1, None)]
    assert governed("north") == {"id": 2}


def test_a_refusal_may_be_a_dict(controller: Controller, place: Any) -> None:
    """`refusals="dict"` gives the same view as a dict."""
    governed = govern(place, controller, refusals="dict", **WRITE)
    assert governed("frozen")["error"]["code"] == "DESK_FROZEN"
    with pytest.raises(UsageError, match="refusals"):
        govern(place, controller, refusals="json")


@pytest.mark.parametrize("refusals", ["text", "dict"])
def test_no_text_of_an_exception_is_in_what_the_caller_gets(controller: Controller, place: Any, refusals: Any) -> None:
    """Exception text never reaches the substitute, neither at the failure nor at the calls that it blocks."""
    governed = govern(place, controller, refusals=refusals, **WRITE)
    for _ in range(3):
        assert SECRET not in str(governed("broken"))


def test_the_same_call_however_it_is_passed(controller: Controller, place: Any, placed: Any) -> None:
    """Positions, keywords and defaults that are written out make no other call."""
    governed = govern(place, controller, repeatable=False, **WRITE)
    values = [governed("north"), governed(desk="north"), governed("north", 1), governed("north", qty=1, note=None)]
    assert values == [{"id": 1}] * 4
    assert placed == [("north", 1, None)]


def test_a_call_that_does_not_fit_the_signature_is_repaired_by_the_model(
    controller: Controller, place: Any, placed: Any
) -> None:
    """Missing, unknown and double arguments are INPUT_INVALID with their names, and nothing runs."""
    governed = govern(place, controller, **WRITE)
    for answer in (governed(), governed("north", qty2=3), governed("north", desk="south"), governed(1, 2, 3, 4)):
        assert told(answer)["code"] == "INPUT_INVALID"
    assert told(governed())["invalid_fields"] == ["desk"]
    assert placed == []


def test_approval_is_a_substitute_and_the_controller_runs_the_call_when_it_is_granted(
    controller: Controller, place: Any, placed: Any
) -> None:
    """The caller is told that a person has to approve; after the yes the controller runs exactly that call."""
    from forbear import Operator

    governed = govern(place, controller, approval="always", **WRITE)
    assert told(governed("north", 2))["recovery"] == "request_approval"
    assert placed == []
    operator = Operator(controller)
    (prompt,) = operator.pending()
    operator.approve(prompt.ticket, prompt.fingerprint)
    controller.work()
    assert placed == [("north", 2, None)]
    (ready,) = controller.run("r").inbox()
    assert ready.value == {"id": 1}


def test_a_short_wait_is_waited_inside_the_call(opened: Opener, clock: ManualClock) -> None:
    """A retry that is due soon is made inside the call, once."""
    script = [Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=2, executed="no")]

    def quote(symbol: str) -> int:
        if script:
            raise script.pop()
        return 7

    controller = opened(clock=type(clock)(auto_advance=True))
    assert govern(quote, controller, effect="read", run="r")("X") == 7


# ---- sync, async, loops, threads ------------------------------------------------------------------------------------


async def test_async_functions_stay_async(controller: Controller, placed: Any) -> None:
    """The wrapper of a coroutine function is one, and behaves the same."""

    async def place_order(desk: str) -> int:
        await asyncio.sleep(0)
        placed.append(desk)
        if desk == "frozen":
            raise FROZEN
        return 5

    governed = govern(place_order, controller, **WRITE)
    assert inspect.iscoroutinefunction(governed)
    assert await governed("north") == 5
    assert told(await governed("frozen"))["code"] == "DESK_FROZEN"
    assert told(await governed("frozen"))["code"] == "DESK_FROZEN"
    assert placed == ["north", "frozen"]


async def test_a_sync_function_on_a_running_loop_is_governed_and_waits_for_nothing(
    controller: Controller, place: Any, placed: Any
) -> None:
    """Frameworks that call sync tools on the loop get an answer at once: a wait is told, not slept."""
    governed = govern(place, controller, **WRITE)
    assert governed("north") == {"id": 1}
    assert told(governed("frozen"))["code"] == "DESK_FROZEN"
    assert told(governed("frozen"))["code"] == "DESK_FROZEN"

    def quote() -> int:
        placed.append("quote")
        raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=2, executed="no")

    answer = json.loads(govern(quote, controller, effect="read", run="r")())
    assert (answer["outcome"], answer["error"]["code"]) == ("refused", "RATE_LIMITED")
    assert placed == [("north", 1, None), ("frozen", 1, None), "quote"]


async def test_a_call_that_is_in_flight_is_not_waited_for_on_the_loop(controller: Controller) -> None:
    """Waiting for an equal call could wait for the loop itself: the caller is told that it is running."""
    entered, release = threading.Event(), threading.Event()

    def slow(desk: str) -> int:
        entered.set()
        release.wait(10)
        return 1

    governed = govern(slow, controller, **WRITE)
    first = asyncio.create_task(asyncio.to_thread(governed, "north"))
    await asyncio.to_thread(entered.wait, 10)
    second = governed("north")
    release.set()
    assert told(second)["code"] == "DUPLICATE_IN_FLIGHT"
    assert await first == 1


async def test_a_cancelled_call_is_unknown_and_the_cancellation_goes_on(controller: Controller) -> None:
    """Cancelling an async write leaves it held; CancelledError is not swallowed."""
    started = asyncio.Event()

    async def place_order(desk: str) -> None:
        started.set()
        await asyncio.Event().wait()

    governed = govern(place_order, controller, **WRITE)
    task = asyncio.create_task(governed("north"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told(await governed("north"))["code"] == "OUTCOME_UNKNOWN"


async def test_what_returns_an_awaitable_without_saying_so_is_an_error_unless_it_is_said(
    controller: Controller,
) -> None:
    """A sync-looking function with an awaitable result needs `is_async=True`; nothing of it runs before."""
    ran = []

    async def work() -> int:
        ran.append(1)
        return 3

    def looks_sync() -> object:
        return work()

    with pytest.raises(UsageError, match="is_async=True"):
        govern(looks_sync, controller, name="a", effect="read", run="r")()
    assert ran == []
    assert await govern(looks_sync, controller, name="b", effect="read", run="r", is_async=True)() == 3


# ---- what may be governed -------------------------------------------------------------------------------------------


class Desk:
    """A callable object with methods."""

    def __init__(self, name: str) -> None:
        self.name_of_desk = name

    def place(self, qty: int) -> str:
        """Place here."""
        return f"{self.name_of_desk} {qty}"

    @classmethod
    def count(cls, qty: int) -> int:
        return qty

    @staticmethod
    def total(qty: int) -> int:
        return qty * 2

    def __call__(self, qty: int) -> str:
        """Call the desk."""
        return f"called {qty}"


class AsyncDesk:
    async def __call__(self, qty: int) -> int:
        return qty


def test_methods_partials_and_callable_objects(controller: Controller) -> None:
    """Everything callable that has a signature can be governed; its name and text are its own."""
    desk = Desk("north")
    options = {"effect": "read", "run": "r"}
    method = govern(desk.place, controller, **options)
    assert (method(2), method.__name__, method.__doc__) == ("north 2", "place", "Place here.")
    assert list(inspect.signature(method).parameters) == ["qty"]
    assert govern(Desk.count, controller, **options)(3) == 3
    assert govern(Desk.total, controller, **options)(3) == 6
    called = govern(desk, controller, **options)
    assert (called(1), called.__name__, called.__doc__) == ("called 1", "Desk", "Call the desk.")
    half = govern(functools.partial(desk.place, qty=4), controller, name="half", **options)
    assert (half(), half.__name__, half.__doc__) == ("north 4", "half", "Place here.")
    first = govern(functools.partial(Desk.total, 4), controller, name="first", **options)
    assert (first(), list(inspect.signature(first).parameters)) == (8, [])


async def test_an_async_callable_object_is_async(controller: Controller) -> None:
    """A callable object with an async `__call__` gives a coroutine function."""
    governed = govern(AsyncDesk(), controller, effect="read", run="r")
    assert inspect.iscoroutinefunction(governed)
    assert await governed(2) == 2


Side = Literal["buy", "sell"]


def resolvable(desk: Annotated[str, "the desk"], side: Side = "buy") -> Side:
    """Have annotations that are strings."""
    return side


def generator(n: int) -> Any:
    """Yield."""
    yield n


async def async_generator(n: int) -> Any:
    """Yield."""
    yield n


@pytest.mark.parametrize("fn", [generator, async_generator, functools.partial(generator, 1)])
def test_generators_are_refused_when_governed(controller: Controller, fn: Any) -> None:
    """What would run while its result is read cannot be governed, and the error says what to do."""
    with pytest.raises(UsageError, match=r"generator.*return a list"):
        govern(fn, controller)


def test_a_generator_that_is_returned_is_an_error(controller: Controller) -> None:
    """A function that hides a generator is found out at its call."""
    with pytest.raises(UsageError, match="returned a generator"):
        govern(lambda: generator(1), controller, name="hidden", effect="read", run="r")()


@pytest.mark.parametrize(
    ("fn", "match"),
    [
        (Desk, "is a class"),
        (5, "callable"),
        (lambda: 1, "name="),
        (retry(resolvable), "tenacity"),
    ],
)
def test_what_cannot_be_governed_is_an_error(controller: Controller, fn: Any, match: Any) -> None:
    """Classes, non-callables, nameless functions and retrying functions are refused when they are governed."""
    with pytest.raises((UsageError, ConfigError), match=match):
        govern(fn, controller)


def test_a_function_is_governed_once(controller: Controller, place: Any) -> None:
    """Governing a governed function would count everything twice."""
    with pytest.raises(UsageError, match="governed already"):
        govern(govern(place, controller), controller)


def test_two_functions_do_not_share_a_name(controller: Controller, place: Any) -> None:
    """A retry must not run another function of the same name: one of them gives up being run by the controller."""
    govern(place, controller, run="r1")
    govern(place, controller, run="r2")

    def place_order(desk: str) -> None: ...

    with pytest.raises(UsageError, match="another function"):
        govern(place_order, controller)
    govern(place_order, controller, bind=False)


def test_a_bound_executor_of_the_author_stays(controller: Controller, place: Any) -> None:
    """What the author has bound under the name is what the controller runs."""

    def own(**arguments: object) -> None: ...

    controller.bind("place_order", own)
    govern(place, controller)
    assert controller.engine.tools.executor("place_order") is own


def test_strict_asks_for_a_declaration_and_a_run(opened: Opener, place: Any) -> None:
    """A strict controller refuses an undeclared function when it is governed, and a call without a run."""
    controller = opened(strict=True)
    with pytest.raises(UsageError, match="declared"):
        govern(place, controller)
    governed = govern(place, controller, effect="write")
    with pytest.raises(UsageError, match="run"):
        governed("north")


def test_an_earlier_declaration_is_kept(controller: Controller, place: Any, placed: Any) -> None:
    """Without fields, what was declared about the name before counts."""
    controller.declare("place_order", effect="write", repeatable=False, target="desk")
    governed = govern(place, controller, run="r")
    assert (governed("north"), governed("north")) == ({"id": 1}, {"id": 1})
    assert len(placed) == 1


# ---- signature ------------------------------------------------------------------------------------------------------


def annotated(desk: Annotated[str, "the desk"], side: Side = "buy", *rest: int, **more: OnlyForCheckers) -> Side:
    """Say."""
    return side


def test_annotations_are_objects_as_far_as_they_can_be_resolved(controller: Controller) -> None:
    """Builders find resolved annotations, whatever module they look from; a checkers-only name stays as it was."""
    governed = govern(annotated, controller)
    parameters = inspect.signature(governed).parameters
    assert parameters["desk"].annotation == Annotated[str, "the desk"]
    assert parameters["side"].annotation == Side
    assert parameters["more"].annotation == "OnlyForCheckers"
    assert governed.__annotations__["return"] == Side
    assert governed.__wrapped__ is annotated
    assert (governed.__name__, governed.__doc__, governed.__module__) == ("annotated", "Say.", __name__)


def test_type_hints_of_the_wrapper_are_those_of_the_function(controller: Controller) -> None:
    """`typing.get_type_hints` gives the same for both."""
    governed = govern(resolvable, controller)
    expected = typing.get_type_hints(resolvable, include_extras=True)
    assert typing.get_type_hints(governed, include_extras=True) == expected
    assert inspect.signature(governed) == inspect.signature(resolvable, eval_str=True)


# ---- arguments ------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    desk: str = Field(alias="deskName")
    when: datetime


@dataclass
class Leg:
    symbol: str
    size: Decimal


def test_arguments_that_are_not_json_have_a_json_form(controller: Controller, clock: ManualClock) -> None:
    """Models, dataclasses, enumerations, moments and the like are part of the call by their own JSON form."""
    received = []
    rate = [Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60, executed="no")]

    def trade(order: Order, legs: list[Leg], colour: Colour, day: date, key: UUID, path: PurePosixPath,
              tags: set[str], wait_for: timedelta, *rest: Leg, **more: Order) -> str:  # fmt: skip
        received.append((order, legs, colour, day, key, path, tags, wait_for, rest, more))
        if rate:
            raise rate.pop()
        return "done"

    order = Order(deskName="north", when=datetime(2026, 1, 2, tzinfo=UTC))
    leg = Leg("X", Decimal("1.5"))
    arguments = (order, [leg], Colour.RED, date(2026, 1, 3), UUID(int=5), PurePosixPath("/a/b"), {"b", "a"},
                 timedelta(seconds=3), leg)  # fmt: skip
    governed = govern(trade, controller, effect="write", run="r")
    governed(*arguments, extra=order)
    assert received[0][0] is order
    assert received[0][1][0] is leg
    clock.advance(100)
    controller.work()
    assert controller.run("r").inbox()[0].value == "done"
    # The controller made them from JSON again.
    assert received[1] == received[0]


@pytest.mark.parametrize(
    ("value", "path"),
    [(object(), "thing"), ({"a": [object()]}, "thing/a/0"), ({1.5: 2}, "thing"), (b"\xff", "thing"), (Leg, "thing")],
)
def test_an_argument_without_a_json_form_is_named_and_nothing_runs(
    controller: Controller, value: Any, path: Any
) -> None:
    """The error names the argument and the way out, never the value."""
    ran = []

    def use(thing: object) -> None:
        ran.append(thing)

    with pytest.raises(UsageError, match=path) as raised:
        govern(use, controller, run="r")(value)
    assert ran == []
    assert "object at" not in str(raised.value)
    if path == "thing":
        assert "injected=('thing',)" in str(raised.value)


def test_an_injected_argument_is_no_part_of_the_call(controller: Controller, placed: Any) -> None:
    """What a framework supplies is passed through, and makes no other call."""

    def place_order(context: object, desk: str) -> object:
        placed.append(desk)
        return context

    governed = govern(place_order, controller, injected="context", repeatable=False, **WRITE)
    context = object()
    assert governed(context, "north") is context
    governed(object(), desk="north")
    assert placed == ["north"]
    assert controller.engine.tools.executor("place_order") is None
    with pytest.raises(ConfigError, match="contxt"):
        govern(place_order, controller, injected="contxt")


def test_a_default_that_is_not_json_is_left_to_the_function(controller: Controller) -> None:
    """A sentinel or a dependency as a default is a constant of the function; passed on purpose it is an argument."""
    missing = object()

    def find(query: str, client: object = missing) -> object:
        return client

    governed = govern(find, controller, effect="read", run="r")
    assert governed("x") is missing
    with pytest.raises(UsageError, match="client"):
        governed("x", client=object())


def test_variable_arguments_are_part_of_the_call(controller: Controller) -> None:
    """`*args` and `**kwargs` count, whichever names they have; two values under one name are an error."""
    received = []

    def note(first: int, /, *rest: int, **more: int) -> int:
        received.append((first, rest, more))
        return len(received)

    governed = govern(note, controller, effect="write", repeatable=False, run="r")
    assert [governed(1), governed(1, 2), governed(1, 2, x=3), governed(1, 2, x=3)] == [1, 2, 3, 3]
    assert received == [(1, (), {}), (1, (2,), {}), (1, (2,), {"x": 3})]
    with pytest.raises(UsageError, match="'first' is given twice"):
        governed(1, first=2)


def test_an_object_that_changes_before_it_runs_is_not_what_runs(opened: Opener, clock: ManualClock) -> None:
    """What was decided about is what runs, also where the caller's object was changed while the call waited."""
    received = []
    order = {"desk": "north"}

    def place_order(order: dict[str, str]) -> None:
        received.append(dict(order))
        if len(received) == 1:
            order["desk"] = "south"
            raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=1, executed="no")

    controller = opened(clock=type(clock)(auto_advance=True))
    govern(place_order, controller, effect="write", run="r")(order)
    assert received == [{"desk": "north"}, {"desk": "north"}]


def test_the_idempotency_key_is_the_controllers(controller: Controller) -> None:
    """The key's parameter is invisible to builders, filled by the controller, and refused from a caller."""
    received = []

    def pay(amount: int, key: str) -> int:
        received.append((amount, key))
        return 1

    governed = govern(pay, controller, effect="write", idempotency_key="key", run="r")
    assert list(inspect.signature(governed).parameters) == ["amount"]
    assert "key" not in governed.__annotations__
    assert governed(5) == 1
    assert received[0][0] == 5
    assert len(received[0][1]) == 32
    assert told(governed(amount=6, key="mine"))["code"] == "INPUT_INVALID"
    assert len(received) == 1


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_the_run_is_the_argument_then_the_context_then_missing(controller: Controller, place: Any, placed: Any) -> None:
    """An explicit run wins over `in_run`; without both the controller's rule for a missing run holds."""
    explicit = govern(place, controller, run="explicit", effect="write", target="desk")
    other = govern(place, controller, effect="write", target="desk")
    with in_run("context"):
        explicit("frozen")
        other("frozen")
        assert len(placed) == 2
        other("frozen")
        assert len(placed) == 2
    with pytest.warns(RuntimeWarning, match="without a run id"):
        other("frozen")
    assert len(placed) == 3
    with pytest.raises(UsageError, match="empty"), in_run(""):
        pass


def test_a_new_turn_of_the_context_begins_a_turn_once(controller: Controller, place: Any, placed: Any) -> None:
    """A new turn id opens what a turn opens; the same id again opens nothing."""
    governed = govern(place, controller, effect="write", target="desk")
    for turn in ("1", "1", "2", "2"):
        with in_run("r", turn=turn):
            governed("frozen")
    assert len(placed) == 2


async def test_the_context_reaches_threads_and_tasks(controller: Controller, place: Any, placed: Any) -> None:
    """`in_run` around the agent is enough where the framework passes the context on."""
    governed = govern(place, controller, effect="write", target="desk")
    with in_run("r"):
        await asyncio.to_thread(governed, "frozen")
        await asyncio.gather(asyncio.to_thread(governed, "frozen"))
    assert len(placed) == 1


def test_what_a_governed_function_calls_is_a_childs(controller: Controller, place: Any) -> None:
    """Governed calls made inside a governed call belong to a child run, not to the run itself."""
    runs = []
    inner = govern(lambda: runs.append(1), controller, name="inner", effect="read")

    def outer() -> int:
        inner()
        return 1

    with in_run("r"):
        govern(outer, controller, effect="read")()
    tree = controller.store.load("tree:r")
    assert any(row.kind == "run" and row.key != "r" for row in tree.rows)
    assert runs == [1]


# ---- what breaks ----------------------------------------------------------------------------------------------------


class Broken:
    """A store that fails at one operation from a moment on."""

    def __init__(self, store: object, error: Exception) -> None:
        self._store = store
        self._error = error
        self.broken: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> object:
        if name in self.broken:
            raise self._error
        return getattr(self._store, name)


@pytest.fixture
def breakable(opened: Opener) -> Any:
    """Open controllers whose store can be broken."""
    made = []

    def make(error: Exception) -> tuple[Controller, Broken]:
        controller = opened()
        store: Any = Broken(controller.engine.store, error)
        controller.engine.store = store
        controller.engine.world.store = store
        made.append(store)
        return controller, store

    yield make
    for store in made:
        store.broken = frozenset()


@pytest.mark.parametrize(
    "error", [StoreError("disk is gone"), sqlite3.OperationalError(SECRET), ZeroDivisionError(SECRET)]
)
@pytest.mark.parametrize("kind", ["sync", "async", "loop"])
def test_a_broken_controller_runs_no_tool(breakable: Any, error: Any, kind: Any) -> None:
    """Whatever fails before the decision is stored, the function does not run and no foreign text gets out."""
    controller, store = breakable(error)
    ran = []

    def place_order(desk: str) -> None:
        ran.append(desk)

    async def aplace_order(desk: str) -> None:
        ran.append(desk)

    governed = govern(aplace_order if kind == "async" else place_order, controller, **WRITE)
    store.broken = frozenset({"load", "fetch", "commit", "generation"})

    async def on_loop() -> object:
        return governed("north")

    def call() -> object:
        if kind == "sync":
            return governed("north")
        return asyncio.run(governed("north") if kind == "async" else on_loop())

    if isinstance(error, StoreError):
        answer = call()
    else:
        with pytest.warns(RuntimeWarning, match="the tool did not run"):
            answer = call()
    assert told(answer)["code"] == "CONTROLLER_BROKEN"
    assert SECRET not in str(answer)
    assert ran == []


@pytest.mark.parametrize(("effect", "code"), [("write", "OUTCOME_UNKNOWN"), ("read", "INTERNAL_ERROR")])
def test_a_controller_that_breaks_after_the_tool_ran_says_so(breakable: Any, effect: Any, code: Any) -> None:
    """The tool ran and its end could not be recorded: the caller is not told that nothing happened."""
    controller, store = breakable(ZeroDivisionError(SECRET))

    def place_order(desk: str) -> None:
        store.broken = frozenset({"commit", "load", "fetch", "generation"})
        raise Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")

    governed = govern(place_order, controller, effect=effect, target="desk", run="r")
    with pytest.warns(RuntimeWarning, match="end was not recorded"):
        answer = governed("north")
    assert told(answer)["code"] == code
    assert json.loads(answer)["executed"] == "unknown"


# ---- frameworks' own exceptions, observing --------------------------------------------------------------------------


def test_signals_of_frameworks_pass_through(controller: Controller) -> None:
    """An exception that a framework steers itself with comes out untouched: known ones, and those that are named."""
    from langgraph.errors import GraphInterrupt

    class Mine(Exception):
        pass

    for error, signals in ((GraphInterrupt(()), ()), (Mine(), (Mine,)), (KeyboardInterrupt(), ())):

        def ask(error: BaseException = error) -> None:
            raise error

        governed = govern(
            ask, controller, name=type(error).__name__, signals=signals, effect="write", run="r", bind=False
        )
        with pytest.raises(type(error)) as raised:
            governed()
        assert raised.value is error


async def test_signals_pass_through_async_functions_too(controller: Controller) -> None:
    """The same in a task."""
    from langgraph.errors import GraphInterrupt

    async def ask() -> None:
        raise GraphInterrupt(())

    with pytest.raises(GraphInterrupt):
        await govern(ask, controller, effect="write", run="r")()


def test_observing_changes_nothing_for_the_caller(opened: Opener, place: Any, placed: Any) -> None:
    """In observe mode values and exceptions are the function's own, also where arguments have no JSON form."""
    controller = opened(mode="observe")
    governed = govern(place, controller, **WRITE)
    for _ in range(3):
        with pytest.raises(Refused) as raised:
            governed("frozen")
        assert raised.value is FROZEN
    assert governed("north") == {"id": 4}
    assert len(placed) == 4

    def use(thing: object) -> object:
        return thing

    thing = object()
    assert govern(use, controller, effect="read", run="r")(thing) is thing


async def test_observing_changes_nothing_for_async_callers(opened: Opener) -> None:
    """The same for coroutine functions."""
    controller = opened(mode="observe")

    async def use(thing: object) -> object:
        if thing == "frozen":
            raise FROZEN
        return thing

    governed = govern(use, controller, effect="write", run="r")
    for _ in range(2):
        with pytest.raises(Refused):
            await governed("frozen")
    thing = object()
    assert await governed(thing) is thing


# ---- contexts of frameworks -----------------------------------------------------------------------------------------


def test_contexts_of_frameworks_are_found_by_their_annotations(controller: Controller) -> None:
    """What a framework fills differs in every call and is no part of it; nobody has to name it."""
    from fastmcp import Context
    from langchain.tools import InjectedToolCallId, ToolRuntime

    received: list[str] = []

    def place_order(
        desk: str, context: Context, runtime: ToolRuntime[None, Any], call_id: Annotated[str, InjectedToolCallId],
        maybe: Context | None = None, marked: Annotated[str, InjectedToolCallId()] = "",
    ) -> str:  # fmt: skip
        received.append(call_id)
        return call_id

    place_order.__annotations__ = {"desk": str, "context": Context, "runtime": ToolRuntime[None, Any],
                                   "call_id": Annotated[str, InjectedToolCallId], "maybe": Context | None,
                                   "marked": Annotated[str, InjectedToolCallId()]}  # fmt: skip
    governed = govern(place_order, controller, repeatable=False, **WRITE)
    for call_id in ("1", "2"):
        assert governed("north", object(), object(), call_id, object(), call_id) == "1"
    assert received == ["1"]
    assert controller.engine.tools.executor("place_order") is None


def test_a_run_of_the_context_that_was_left_is_not_used_by_a_worker(controller: Controller) -> None:
    """A governed call that runs in a context with another run's id belongs to its own call, not to that run."""
    inner = govern(lambda: 1, controller, name="inner", effect="read")

    def outer() -> int:
        return int(inner())

    governed = govern(outer, controller, effect="read", run="mine")
    with in_run("other"):
        assert governed() == 1
    assert controller.store.load("tree:other").rows == ()
    with in_run("mine"):
        assert governed() == 1


def test_a_run_that_is_named_inside_a_call_is_a_child(controller: Controller) -> None:
    """An agent that is started inside a governed call and names its run is a child run of that name."""
    inner = govern(lambda: 1, controller, name="inner", effect="read")

    def outer() -> int:
        with in_run("sub-agent"):
            return int(inner())

    assert govern(outer, controller, effect="read", run="mine")() == 1
    assert controller.run("sub-agent").root == "mine"


# ---- corners --------------------------------------------------------------------------------------------------------


def test_a_changed_object_is_made_again_beside_what_the_framework_supplied(opened: Opener, clock: ManualClock) -> None:
    """Where the call has to be made from JSON again, injected arguments are still the framework's."""
    received: list[object] = []
    order = {"desk": "north"}

    def place_order(context: object, order: dict[str, str], *, side: str = "buy") -> None:
        received.append((context, dict(order), side))
        if len(received) == 1:
            order["desk"] = "south"
            raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=1, executed="no")

    controller = opened(clock=type(clock)(auto_advance=True))
    context = object()
    govern(place_order, controller, injected="context", effect="write", run="r")(context, order)
    assert received == [(context, {"desk": "north"}, "buy")] * 2


def test_the_idempotency_key_may_go_into_keywords(controller: Controller) -> None:
    """A function that takes any keyword gets the key among them."""
    received: list[dict[str, object]] = []

    def pay(amount: int, **more: object) -> int:
        received.append(more)
        return amount

    governed = govern(pay, controller, effect="write", idempotency_key="key", run="r")
    assert governed(5, note="x") == 5
    assert set(received[0]) == {"note", "key"}


def test_arguments_that_are_nested_too_deeply_are_named(controller: Controller) -> None:
    """A bound on nesting, not a recursion error."""
    value: list[object] = []
    for _ in range(100):
        value = [value]
    with pytest.raises(UsageError, match="nested deeper"):
        govern(lambda thing: thing, controller, name="use", run="r")(value)


def test_what_python_cannot_read_is_refused(controller: Controller) -> None:
    """A callable without a signature cannot be governed, and the error says what to do."""

    class Strange:
        __signature__ = "none"

        def __call__(self) -> None: ...

    with pytest.raises(UsageError, match="wrap it in a function"):
        govern(Strange(), controller)


async def test_an_observed_tool_on_a_loop_runs_although_the_store_is_broken(breakable: Any) -> None:
    """Observing changes nothing for the caller, also where nothing can be recorded."""
    controller, store = breakable(StoreError("disk is gone"))
    governed = govern(lambda desk: desk, controller, name="place", mode="observe", **WRITE)
    store.broken = frozenset({"load", "fetch", "commit", "generation"})
    assert governed("north") == "north"


def test_a_method_is_governed_in_its_class(controller: Controller) -> None:
    """A governed function in a class is a method; `self` is no part of the call."""

    def place(self: object, qty: int) -> tuple[object, int]:
        return self, qty

    class Shop:
        buy = govern(place, controller, name="buy", injected="self", effect="write", run="r")

    shop = Shop()
    assert shop.buy(2) == (shop, 2)
