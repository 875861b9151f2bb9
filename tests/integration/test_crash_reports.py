"""Crash reports: reporters write down every frame's variables, and what a tool said is in none of them.

The store fails after the tool ran, so that an error of the controller's own leaves while a result is in hand.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from rich.console import Console
from rich.traceback import Traceback

from forbear import Controller, Refused, govern
from forbear.contract import Grpc, Http, Raised, header_pairs, mcp_result
from forbear.errors import StoreError
from forbear.ports import Commit, Store
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds
from tests.integration.hostile import SECRET, leaks


class BreakingStore:
    """A store whose disk fails from a given moment on, with an error that has a cause."""

    def __init__(self) -> None:
        self._store = open_sqlite(":memory:", clock=ManualClock())
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, change: Commit) -> None:
        """Fail, or store."""
        if self.fails:
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise StoreError("the store cannot be written") from error
        self._store.commit(change)


def raising() -> object:
    """Raise one's own error over another one."""
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise ValueError(f"bad {SECRET}") from error


def refusing() -> object:
    """Refuse in words of its own."""
    raise Refused("POSITION_LIMIT_REACHED", safe_message=f"x {SECRET}")


def losing() -> object:
    """Lose the connection."""
    raise ConnectionError(f"https://u:{SECRET}@h/")


SAYS: dict[str, Callable[[], object]] = {
    "raises": raising,
    "refuses": refusing,
    "loses the connection": losing,
    "answers 403": lambda: Http(status=403, headers=header_pairs([("X-A", SECRET)]), body=SECRET),
    "answers MCP": lambda: mcp_result({"isError": True, "content": [{"type": "text", "text": SECRET}]}),
    "answers gRPC": lambda: Grpc(code="UNKNOWN", trailing_metadata=(("x", SECRET),)),
    "speaks the contract": lambda: {"ok": False, "error": {"code": "A_B", "recovery": "do_not_retry", "x": SECRET}},
    "returns a value": lambda: {"a": SECRET},
    "returns a text": lambda: SECRET,
}


@pytest.fixture
def store() -> BreakingStore:
    """A store that works until it is told to fail."""
    return BreakingStore()


@pytest.fixture
def controller(store: BreakingStore) -> Iterator[Controller]:
    """A controller on it."""
    opened = Controller.open(store=cast("Store", store), clock=ManualClock(), ids=SequenceIds(), worker=False)
    opened.declare("t", effect="write")
    yield opened
    store.fails = False
    opened.close()


def breaking(store: BreakingStore, says: str) -> Callable[..., object]:
    """Return a tool that runs while the disk fills up."""

    def tool(**_: Any) -> object:
        store.fails = True
        return SAYS[says]()

    return tool


def by_call(controller: Controller, store: BreakingStore, says: str) -> None:
    """Make the call, in this thread."""
    controller.call("t", {"n": 1}, run="r", step="s", execute=breaking(store, says), wait=False)


def by_acall(controller: Controller, store: BreakingStore, says: str) -> None:
    """Make the call, in a task."""

    async def tool(**_: Any) -> object:
        return breaking(store, says)()

    asyncio.run(controller.acall("t", {"n": 1}, run="r", step="s", execute=tool, wait=False))


def by_halves(controller: Controller, store: BreakingStore, says: str) -> None:
    """Propose, run and settle by oneself."""
    reply = controller.propose("t", {"n": 1}, run="r", step="s")
    assert reply.attempt is not None
    try:
        # What the application holds is its own; nothing of it is held here when the settling fails.
        ended: list[object] = [breaking(store, says)()]
    except Exception as error:  # noqa: BLE001 - whatever the tool raised
        ended = [Raised(error)]
    controller.settle(reply.attempt, ended.pop())


def by_work(controller: Controller, store: BreakingStore, says: str) -> None:
    """Let the controller make a call that became due."""
    clock = cast("ManualClock", controller.engine.clock)
    controller.call("t", {"n": 1}, run="r", step="s", execute=lambda **_: Http(status=429), wait=False)
    controller.bind("t", breaking(store, says))
    due = controller.next_due_at
    assert due is not None
    clock.advance(due - clock.now())
    controller.work()


WAYS = {"call": by_call, "acall": by_acall, "halves": by_halves, "work": by_work}


def report(error: BaseException) -> list[str]:
    """Return what reporters make of an error: with variables, in the standard library's way and in rich's."""
    printed = io.StringIO()
    shown = Traceback.from_exception(
        type(error), error, error.__traceback__, show_locals=True, locals_max_string=10_000, locals_max_length=1_000
    )
    Console(file=printed, width=1000).print(shown)
    written = traceback.TracebackException.from_exception(error, capture_locals=True)
    return ["".join(traceback.format_exception(error)), "".join(written.format()), printed.getvalue(), repr(error)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("says", SAYS)
def test_a_crash_report_shows_nothing_that_a_tool_said(
    says: str, way: str, controller: Controller, store: BreakingStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the controller's own leaves without a variable of its frames, and still says where it arose."""
    with pytest.raises(StoreError) as raised:
        WAYS[way](controller, store, says)
    error = raised.value
    sys.excepthook(type(error), error, error.__traceback__)
    with tempfile.TemporaryFile(mode="w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        dumped = file.read()
    shown = report(error)
    assert leaks([*shown, capsys.readouterr().err, dumped]) == []
    assert "forbear.runtime." in "".join(error.__notes__)
    assert any(way_of in shown[0] for way_of in ("by_call", "by_acall", "by_halves", "by_work"))


def test_a_result_in_a_frame_would_be_found() -> None:
    """The reporters do show variables: a search that finds nothing elsewhere proves something."""

    def holding(said: str) -> None:
        raise StoreError(f"{len(said)} characters")

    with pytest.raises(StoreError) as raised:
        holding(SECRET)
    assert len(leaks(report(raised.value))) == 2


class Steering(Exception):
    """What a framework steers itself with."""


@pytest.mark.parametrize("kind", [Steering, KeyboardInterrupt])
def test_what_passes_through_keeps_its_frames(controller: Controller, kind: type[BaseException]) -> None:
    """A framework's exception comes out as it went in: the same object, with the frames of the tool."""

    def tool(**_: Any) -> object:
        raise kind

    with pytest.raises(kind) as raised:
        controller.call("t", {"n": 1}, run="r", step="s", execute=tool, signals=(Steering,), wait=False)
    assert raised.traceback[-1].name == "tool"
    assert not hasattr(raised.value, "__notes__")


def test_an_applications_own_error_is_left_alone(controller: Controller, store: BreakingStore) -> None:
    """An error that the application was handling keeps its frames, when the controller fails meanwhile."""

    def failing() -> None:
        raise LookupError("ours")

    def handling() -> None:
        try:
            failing()
        except LookupError:
            controller.call("t", {"n": 1}, run="r", step="s", execute=lambda **_: 1, wait=False)

    store.fails = True
    with pytest.raises(StoreError) as raised:
        handling()
    context = raised.value.__context__
    while context is not None and not isinstance(context, LookupError):
        context = context.__context__
    assert context is not None
    assert [frame.name for frame in traceback.extract_tb(context.__traceback__)][-1] == "failing"


def test_a_mistake_of_the_controller_itself_is_an_answer_without_its_words(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind `govern` a bug is an answer; its text, which may hold anything, is in no answer and no warning."""

    def broken(*_: Any, **__: Any) -> object:
        raise RuntimeError(f"unexpected {SECRET}")

    ran: list[int] = []

    def record(n: int) -> None:
        ran.append(n)

    governed = govern(record, controller, name="t", run="r")
    monkeypatch.setattr("forbear.runtime.program.decide", broken)
    with pytest.warns(RuntimeWarning, match="RuntimeError") as warned:
        answer = governed(n=1)
    assert ran == []
    assert leaks([str(answer), repr(answer), *(str(one.message) for one in warned)]) == []
    monkeypatch.setattr("forbear.runtime.program.decide", None)
    with pytest.raises(TypeError) as raised:
        controller.call("t", {"n": 2}, run="r", step="s", execute=lambda **_: 1, wait=False)
    assert [entry.name for entry in raised.traceback] == [
        "test_a_mistake_of_the_controller_itself_is_an_answer_without_its_words"
    ]
    assert "forbear.runtime.program:" in "".join(raised.value.__notes__)
