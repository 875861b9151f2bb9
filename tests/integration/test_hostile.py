"""Hostile models, tools and callers against the public API: each test is a way in which a promise once was broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from forbear import Controller, Operator, Refused, Reply
from forbear.errors import UsageError
from forbear.testing.clock import ManualClock, SequenceIds
from forbear_adapters.langgraph import RecoveryToolNode, recovery_condition

SECRET = "aPlantedSecret0042"


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def controller(clock: ManualClock) -> Iterator[Controller]:
    """Open a controller in memory, without a worker."""
    with Controller.open(":memory:", clock=clock, ids=SequenceIds(), worker=False) as opened:
        yield opened


class World:
    """A tool, and every call that it received."""

    def __init__(self, result: object = "ok") -> None:
        self.result = result
        self.received: list[dict[str, object]] = []

    def __call__(self, **arguments: object) -> object:
        self.received.append(arguments)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


# ---- 1: a duplicate write --------------------------------------------------------------------------------------------


def in_langgraph(controller: Controller, tool: Callable[..., object], spellings: list[dict[str, object]]) -> list[str]:
    """Let a model propose a tool once a step, in these spellings, and return the answers that it read."""
    said = [
        AIMessage("", tool_calls=[{"name": tool.__name__, "args": args, "id": f"c{n}"}], id=f"m{n}")
        for n, args in enumerate(spellings)
    ]
    model = GenericFakeChatModel(messages=iter([*said, AIMessage("done")]))

    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", think)
    graph.add_node("tools", RecoveryToolNode([tool], controller))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_conditional_edges("tools", recovery_condition)
    end = graph.compile().invoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": "t1"}})
    return [str(message.content) for message in end["messages"] if isinstance(message, ToolMessage)]


SPELLINGS: list[dict[str, object]] = [
    {"order": 7},
    {"order": "7"},
    {"order": 7, "qty": 1},
    {"order": 7.0},
    {"order": 7, "more": 3},
]


@pytest.mark.parametrize(
    "policy",
    [{}, {"effect": "write", "repeatable": False}, {"effect": "write", "target": "order"}],
    ids=["undeclared", "untargeted", "targeted"],
)
def test_another_spelling_that_the_framework_converts_is_no_other_write(
    controller: Controller, policy: dict[str, object]
) -> None:
    """What LangChain makes the same call of ("7" and 7, a default, a name it drops) does not repeat an unknown write."""
    sent: list[int] = []

    def place(order: int, qty: int = 1) -> str:
        """Place an order."""
        sent.append(order)
        raise TimeoutError

    if policy:
        controller.declare("place", **policy)
    in_langgraph(controller, place, SPELLINGS)
    assert sent == [7]


def test_another_spelling_of_a_completed_write_is_delivered_from_the_record(controller: Controller) -> None:
    """A write that must not be repeated in a turn is not repeated in other words that mean the same call."""
    sent: list[int] = []

    def place(order: int, qty: int = 1) -> str:
        """Place an order."""
        sent.append(order)
        return f"placed {order}"

    controller.declare("place", effect="write", repeatable=False)
    assert in_langgraph(controller, place, SPELLINGS) == ["placed 7"] * len(SPELLINGS)
    assert sent == [7]


def test_an_idempotency_key_that_a_model_writes_makes_no_other_call(controller: Controller) -> None:
    """The controller writes the upstream's key, so what a model writes there cannot tell two payments apart."""
    world = World()
    controller.declare("pay", effect="write", repeatable=False, idempotency_key="key")
    for step in ("s1", "s2", "s3"):
        controller.call("pay", {"amount": 5, "key": f"of {step}"}, run="r", step=step, execute=world)
    assert len(world.received) == 1


# ---- 3: approval ------------------------------------------------------------------------------------------------------


def test_the_approval_rule_judges_what_runs(controller: Controller) -> None:
    """An argument that says one thing to the rule and another when it is frozen does not run on the rule's yes."""

    class Shifty(dict[str, object]):
        def get(self, key: str, default: object = None) -> object:
            return 1

    world = World()
    controller.declare("pay", effect="write", approval=lambda call: "ask" if call.get("amount") == 5000 else "allow")
    reply = controller.call("pay", Shifty(amount=5000), run="r", execute=world)
    assert (reply.answer, world.received) == ("needs_approval", [])


# ---- 4: a reachable goal ---------------------------------------------------------------------------------------------


def test_calls_that_nobody_comes_for_do_not_keep_a_quota_closed(controller: Controller, clock: ManualClock) -> None:
    """Waiting calls that nothing runs and nobody proposes again do not keep the principal's other calls out for ever."""
    limited = True

    def look(**_: object) -> str:
        if limited:
            raise Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
        return "ok"

    controller.declare("look", effect="read", quota="api")
    for number in range(7):
        controller.call("look", {"id": number}, run="r", step=f"a{number}", execute=look)
    limited = False
    clock.advance(59)
    assert controller.call("look", {"id": 98}, run="r", step="early", execute=look).answer == "pending"
    clock.advance(120)
    answers = [
        controller.call("look", {"id": number}, run="r", step=f"b{number}", execute=look).answer
        for number in range(100, 103)
    ]
    assert answers == ["executed"] * 3


class Lazy(Mapping[str, object]):
    """A result that is read when somebody looks at it, after its connection was closed."""

    def __getitem__(self, key: str) -> object:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError(SECRET)

    def __len__(self) -> int:
        raise RuntimeError(SECRET)


class Shut:
    """A result whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


def test_a_write_whose_result_cannot_be_read_ends_in_a_recorded_outcome(controller: Controller) -> None:
    """The object that a write returned raises when it is looked at: the outcome is unknown, and it can be resolved."""
    controller.declare("pay", effect="write", repeatable=False)
    reply = controller.call("pay", {"amount": 5}, run="r", step="s1", execute=World(Lazy()))
    assert (reply.envelope.code, reply.envelope.executed) == ("OUTCOME_UNKNOWN", "unknown")
    assert reply.ticket is not None
    assert SECRET not in reply.for_model() + reply.for_user() + repr(reply)
    Operator(controller).resolve(reply.ticket, "not_applied")
    assert controller.call("pay", {"amount": 5}, run="r", step="s2", execute=World()).ok


def test_a_read_whose_result_cannot_be_read_is_answered(controller: Controller) -> None:
    """A read on the short way whose object raises is a refusal like any other, not an exception of the tool's object."""
    controller.declare("look", effect="read")
    reply = controller.call("look", {}, run="r", step="s1", execute=World(Lazy()))
    assert not reply.ok
    assert SECRET not in reply.for_model() + repr(reply)


# ---- 5: a leak -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Shut(), [Shut()], {"a": Shut()}], ids=["bare", "listed", "named"])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_value_without_a_text_form_is_answered_without_its_exception(
    controller: Controller, value: object, effect: str
) -> None:
    """A value whose text cannot be made is said to be there, and what it raises reaches nobody."""
    controller.declare("look", effect=effect)
    reply = controller.call("look", {}, run="r", execute=World(value))
    assert reply.value is value
    assert '"outcome":"success"' in reply.for_model()


def test_the_text_form_of_an_attempt_names_no_arguments(controller: Controller) -> None:
    """An attempt that is logged shows neither secret arguments nor the upstream's idempotency key."""
    controller.declare("pay", effect="write", secret=["token"], idempotency_key="key")
    reply = controller.propose("pay", {"token": SECRET}, run="r")
    assert reply.attempt is not None
    assert SECRET not in repr(reply.attempt)
    assert str(reply.attempt.arguments["key"]) not in repr(reply.attempt)


# ---- 6: healthy work, and clear errors -------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, object]:
    """Return an object of objects."""
    made: dict[str, object] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    "arguments",
    ["[" * 100_000, '{"a":' * 20_000 + "1" + "}" * 20_000, '{"a":1e999}', '{"a":NaN}', {"a": math.nan}, {"a": 10**5000}, nested(100)],
    ids=["unclosed", "deep text", "infinite", "nan", "nan value", "digits", "deep"],
)  # fmt: skip
@pytest.mark.parametrize("effect", ["read", "write"])
def test_json_that_a_model_can_write_and_nobody_can_take_is_answered(
    controller: Controller, arguments: object, effect: str
) -> None:
    """Endless nesting and numbers without a form are an input to repair; they end no run with an exception."""
    world = World()
    controller.declare("look", effect=effect)
    reply = controller.call("look", arguments, run="r", execute=world)
    assert (reply.answer, reply.envelope.code, world.received) == ("blocked", "INPUT_INVALID", [])


@pytest.mark.parametrize("name", ["run", "step", "call_id", "turn", "source", "parent", "principal"])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_id_that_is_no_text_is_a_clear_error_and_harms_no_other_call(
    controller: Controller, name: str, effect: str
) -> None:
    """A number as an id is told to the caller before anything runs, and the next call is as if it had not been."""
    world = World()
    controller.declare("look", effect=effect)
    controller.call("look", {"id": 0}, run="r", step="s0", execute=world)
    where: dict[str, Any] = {"run": "r", "step": "s1", name: 7}
    with pytest.raises(UsageError, match=f"{name}: must be a text"):
        controller.call("look", {"id": 1}, execute=world, **where)
    assert controller.call("look", {"id": 2}, run="r", step="s2", execute=world).ok
    assert [call["id"] for call in world.received] == [0, 2]


@pytest.mark.parametrize("value", [0, False, "", None, [], {}], ids=repr)
def test_a_falsy_value_is_a_value(controller: Controller, value: object) -> None:
    """A tool that returns something falsy has completed, and its caller gets that very value."""
    reply: Reply = controller.call("look", {}, run="r", execute=World(value))
    assert reply.ok
    assert reply.value is value


@pytest.mark.xfail(strict=True, reason="a target is type-tagged (design section 5): 7 and '7' are two targets")
def test_a_target_in_another_type_is_the_same_target(controller: Controller) -> None:
    """Without a framework's schema, a model that writes "7" for 7 does not leave the hold of an unknown write."""
    world = World(TimeoutError())
    controller.declare("place", effect="write", target="order")
    controller.call("place", {"order": 7}, run="r", step="s1", execute=world)
    controller.call("place", {"order": "7"}, run="r", step="s2", execute=world)
    assert len(world.received) == 1
