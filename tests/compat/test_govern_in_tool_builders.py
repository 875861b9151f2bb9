"""`govern` unchanged in the tool builders of libraries: of those that are installed here (see `python -m tests.compat`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pytest

from forbear import Controller, Refused, govern, in_run
from tests.compat.builders import LIBRARIES, Builder, case_id, load
from tests.compat.subjects import SECRET, made, made_with_context

CASES = [
    pytest.param(name, kind, id=f"{case_id(name)}-{kind}")
    for name, library in LIBRARIES.items()
    if library.is_installed()
    for kind in library.kinds
]
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def controller() -> Iterator[Controller]:
    """Open a controller in memory."""
    with Controller.open(":memory:", worker=False) as opened:
        yield opened


class Built:
    """A governed function as a library's tool."""

    def __init__(self, name: str, kind: str, controller: Controller, *, run: str | None = "thread-1") -> None:
        self.received: list[str] = []
        self.raw = made(self.received, kind)
        self.builder: Builder = LIBRARIES[name].build()
        self.governed = govern(self.raw, controller, run=run, effect="write", target="desk")
        self.tool = self.builder.tool(self.governed)

    async def call(self, **arguments: object) -> str:
        return str(await self.builder.call(self.tool, arguments))


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_the_schema_is_that_of_the_function(name: str, kind: str, controller: Controller) -> None:
    """The model is told about the governed function what it is told about the function itself."""
    built = Built(name, kind, controller)
    governed = await built.builder.schema(built.tool)
    for argument in ("desk", "qty", "side"):
        assert argument in str(governed)
    try:
        raw = LIBRARIES[name].build()
        expected = await raw.schema(raw.tool(built.raw))
    except Exception:  # noqa: BLE001 - some builders fail on the raw function, whose annotations are strings
        return
    assert governed == expected


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_an_allowed_call_runs_and_gives_its_value(name: str, kind: str, controller: Controller) -> None:
    """A call that nothing stands against runs once and the model gets what the function returned."""
    built = Built(name, kind, controller)
    assert "order 1" in await built.call(desk="north", qty=2)
    assert built.received == ["north"]


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_a_refusal_is_told_and_stays(name: str, kind: str, controller: Controller) -> None:
    """A refused call is answered with the contract's view, and is not executed a second time, however it is written."""
    built = Built(name, kind, controller)
    first = await built.call(desk="frozen")
    assert "DESK_FROZEN" in first
    assert "do_not_retry" in first
    assert "DESK_FROZEN" in await built.call(desk="frozen", qty=1)
    assert "DESK_FROZEN" in await built.call(desk="frozen", qty=2)
    assert built.received == ["frozen"]
    assert "order 2" in await built.call(desk="south")


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_no_text_of_an_exception_reaches_the_model(name: str, kind: str, controller: Controller) -> None:
    """What the function raised is replaced, and nothing of its text gets through the library."""
    built = Built(name, kind, controller)
    answer = await built.call(desk="broken")
    assert SECRET not in answer
    assert "request_id" in answer


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_the_run_of_the_context_reaches_the_tool(name: str, kind: str, controller: Controller) -> None:
    """`in_run` around the agent is enough, except where the library loses the context: there is a warning then."""
    built = Built(name, kind, controller, run=None)
    with in_run("thread-1"):
        if kind in LIBRARIES[name].loses_context:
            with pytest.warns(RuntimeWarning, match="without a run id"):
                await built.call(desk="north")
            return
        await built.call(desk="frozen")
    with in_run("thread-2"):
        await built.call(desk="frozen")
    with in_run("thread-1"):
        await built.call(desk="frozen")
    assert built.received == ["frozen", "frozen"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=f"{case_id(name)}-sync")
        for name, library in LIBRARIES.items()
        if library.is_installed() and library.context is not None
    ],
)
async def test_a_parameter_that_the_library_fills_is_no_part_of_the_call(name: str, controller: Controller) -> None:
    """The library's context is filled, hidden from the model, and makes no other call of a refused one."""
    library = LIBRARIES[name]
    assert library.context is not None
    parameter, module, kind = library.context
    annotation: object = getattr(load(module), kind)
    if kind == "InjectedToolCallId":
        annotation = Annotated[str, annotation]
    received: list[str] = []
    fn = made_with_context(received, parameter, annotation)
    governed = govern(fn, controller, run="r", effect="write")
    builder = library.build()
    tool = builder.tool(governed)
    assert parameter not in str(await builder.schema(tool))
    for _ in range(2):
        assert "DESK_FROZEN" in str(await builder.call(tool, {"desk": "north"}))
    assert received == ["north"]


@pytest.mark.skipif(not LIBRARIES["FastMCP"].is_installed(), reason="FastMCP is not installed here")
async def test_a_tool_that_is_declared_to_return_a_dict_gives_a_dict(controller: Controller) -> None:
    """FastMCP checks results against the return type: `refusals="dict"` passes that check, for a value and a refusal."""

    def place_order(desk: str) -> dict[str, object]:
        if desk == "frozen":
            raise Refused("DESK_FROZEN", recovery="do_not_retry", executed="no")
        return {"id": 1}

    governed = govern(place_order, controller, run="r", refusals="dict", effect="write", target="desk")
    builder = LIBRARIES["FastMCP"].build()
    tool = builder.tool(governed)
    assert '"id":1' in str(await builder.call(tool, {"desk": "north"})).replace(" ", "")
    assert "DESK_FROZEN" in str(await builder.call(tool, {"desk": "frozen"}))
