from __future__ import annotations

import pytest

from forbear.contract import Value
from forbear.core.vocabulary import Answer
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.runtime.reply import Reply
from forbear.runtime.where import Where


@pytest.fixture
def asking(controller: Controller) -> Controller:
    """A controller with one gated write, and two runs of one tree."""
    controller.declare("pay", effect="write", repeatable=False, approval="always", target="to")
    controller.run("root")
    for run in ("a", "b"):
        controller.run(run, parent="root")
    return controller


def propose(controller: Controller, run: str, call_id: str, *, reproposes: bool = False) -> Reply:
    """Propose the same payment in a run."""
    return controller.propose(
        "pay", {"to": "x"}, run=run, parent="root", step=call_id, call_id=call_id, reproposes=reproposes
    )


def prompts(operator: Operator) -> list[tuple[str, str, str]]:
    """Return run, ticket and fingerprint of the open prompts."""
    return [(one.run, one.ticket, one.fingerprint) for one in operator.pending() if one.kind == "approval"]


def test_a_yes_asks_on_their_own_about_the_runs_that_had_joined(asking: Controller) -> None:
    """A person's yes is for the run that asked first; the other run gets a prompt of its own."""
    operator = Operator(asking)
    first, second = propose(asking, "a", "a1"), propose(asking, "b", "b1")
    assert first.ticket == second.ticket
    [(_, ticket, fingerprint)] = prompts(operator)
    operator.approve(ticket, fingerprint)
    [(run, other, _)] = prompts(operator)
    assert (run, other == ticket) == ("b", False)
    assert [reply.run for reply in asking.due() if reply.attempt is not None] == ["a"]


def test_a_proposal_of_another_run_does_not_spend_the_yes(asking: Controller) -> None:
    """Where the framework proposes again, only the run that was asked about starts."""
    operator = Operator(asking)
    propose(asking, "a", "a1", reproposes=True)
    [(_, ticket, fingerprint)] = prompts(operator)
    operator.approve(ticket, fingerprint)
    other = propose(asking, "b", "b1", reproposes=True)
    assert other.answer is Answer.NEEDS_APPROVAL
    assert other.ticket != ticket
    mine = propose(asking, "a", "a2", reproposes=True)
    assert mine.attempt is not None


@pytest.mark.parametrize("labels", [{"effect": "write", "target": "to"}, {"effect": "write"}, {}], ids=str)
def test_an_unknown_payment_of_one_run_holds_the_approved_one_of_the_other(
    asking: Controller, labels: dict[str, object]
) -> None:
    """Being asked about on its own passes no hold: what may have happened is not repeated, whoever approved it."""
    asking.declare("pay", approval="always", **labels)
    operator = Operator(asking)
    propose(asking, "a", "a1")
    propose(asking, "b", "b1")
    [(_, ticket, fingerprint)] = prompts(operator)
    operator.approve(ticket, fingerprint)
    [started] = [reply for reply in asking.due() if reply.attempt is not None]
    assert started.attempt is not None
    asking.run("a", parent="root").cancel("a1", acknowledged=False)
    [(_, other, print_of_other)] = prompts(operator)
    operator.approve(other, print_of_other)
    assert [reply for reply in asking.due() if reply.attempt is not None] == []


@pytest.mark.parametrize("first", ["root", "kid"])
@pytest.mark.parametrize("starts", ["root", "kid"])
def test_two_runs_with_a_yes_each_never_have_one_write_in_flight_twice(first: str, starts: str) -> None:
    """Whoever was asked first and whoever starts first: one execution, and the other run is given its result."""
    where: dict[str, Where] = {
        "root": {"run": "root", "step": "s", "call_id": "a", "reproposes": True},
        "kid": {"run": "kid", "parent": "root", "step": "k", "call_id": "b", "reproposes": True},
    }
    order = [first, "kid" if first == "root" else "root"]
    later = "kid" if starts == "root" else "root"
    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("pay", effect="write", repeatable=False, target="to", approval="always")
        controller.run("root")
        operator = Operator(controller)
        for name in order:
            assert controller.propose("pay", {"to": "x"}, **where[name]).answer == "needs_approval"
            for prompt in operator.pending():
                if prompt.kind == "approval":
                    operator.approve(prompt.ticket, prompt.fingerprint or "", actor="owner")
        begun = controller.propose("pay", {"to": "x"}, **where[starts])
        assert begun.attempt is not None
        meanwhile = controller.propose("pay", {"to": "x"}, **where[later])
        assert (meanwhile.answer, meanwhile.attempt) == ("blocked", None)
        controller.settle(begun.attempt, Value({"id": "p1"}))
        after = controller.propose("pay", {"to": "x"}, **where[later])
        assert (after.answer, after.attempt, after.value) == ("delivered", None, {"id": "p1"})
