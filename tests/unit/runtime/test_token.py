"""The operator token: made once, shown once, stored as a digest; without it nothing is answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forbear.errors import NotOperator, UsageError
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.runtime.pending import Pending
from forbear.testing.clock import ManualClock, SequenceIds

Opener = Callable[..., Controller]
# A tool that answers from a script (conftest).
Script = Callable[..., Callable[..., object]]


@pytest.fixture
def agent(opened: Opener) -> Controller:
    """Return a controller with a gated write and a plain one."""
    controller = opened()
    controller.declare("pay", effect="write", target="to", approval="always")
    controller.declare("send", effect="write", target="to")
    return controller


@pytest.fixture
def token(agent: Controller) -> str:
    """Give the store a token."""
    return Operator(agent).make_token()


def rules(controller: Controller) -> list[str]:
    """Return the rules of the journal."""
    return [line.rule for _, line in controller.store.journal(limit=1000)]


def asked(agent: Controller, scripted: Script) -> Pending:
    """Leave a prompt open and return it."""
    agent.call("pay", {"to": "a"}, run="r", execute=scripted(1))
    return next(one for one in Operator(agent).pending() if one.kind == "approval")


def test_without_a_token_the_embedding_application_is_the_operator(agent: Controller, scripted: Script) -> None:
    """A store that has no token is answered by whoever has it open."""
    operator = Operator(agent)
    prompt = asked(agent, scripted)
    assert (operator.has_token, operator.may_answer) == (False, True)
    operator.approve(prompt.ticket, prompt.fingerprint)
    assert rules(agent)[-1] == "awaiting_approval.granted"


@pytest.mark.parametrize("given", [None, "", "fbo_" + "0" * 64])
def test_with_a_token_nothing_is_answered_without_it(
    agent: Controller, token: str, given: str | None, scripted: Script
) -> None:
    """Approve, deny, revise, edit, resolve and lift refuse whoever has no token, another one, or an empty one."""
    prompt = asked(agent, scripted)
    agent.call("send", {"to": "b"}, run="r", execute=scripted(TimeoutError()))
    before = Operator(agent).pending()
    unknown = next(one.ticket for one in before if one.kind == "unknown")
    operator = Operator(agent)
    operator._token = given
    answers = (
        lambda: operator.approve(prompt.ticket, prompt.fingerprint),
        lambda: operator.deny(prompt.ticket, prompt.fingerprint),
        lambda: operator.revise(prompt.ticket, prompt.fingerprint),
        lambda: operator.edit(prompt.ticket, prompt.fingerprint, {"to": "c"}),
        lambda: operator.resolve(unknown, "applied"),
        lambda: operator.lift(unknown),
        lambda: operator.make_token(replace=True),
    )
    for answer in answers:
        with pytest.raises(NotOperator, match="token"):
            answer()
    assert Operator(agent).pending() == before
    assert rules(agent)[-len(answers) :] == ["operator.refused"] * len(answers)


def test_a_wrong_token_is_noticed_when_it_is_passed(agent: Controller, token: str) -> None:
    """An object with a wrong token is never made; with the right one it is."""
    with pytest.raises(NotOperator):
        Operator(agent, token=token + "0")
    assert Operator(agent, token=token).may_answer


def test_the_right_token_answers(agent: Controller, token: str, scripted: Script) -> None:
    """Whoever has the token answers as before, also in another object than the one that made it."""
    prompt = asked(agent, scripted)
    Operator(agent, token=token, actor="sam").deny(prompt.ticket, prompt.fingerprint)
    assert rules(agent)[-1] == "awaiting_approval.denied"


def test_what_is_pending_is_shown_to_everybody(agent: Controller, token: str, scripted: Script) -> None:
    """Reading what waits needs no token."""
    asked(agent, scripted)
    assert [one.kind for one in Operator(agent).pending()] == ["approval"]


def test_only_a_keyed_digest_is_stored(agent: Controller, token: str) -> None:
    """Neither the token nor an unkeyed digest of it is in the store or the journal, and equal tokens differ there."""
    rows = agent.store.load("operator").rows
    stored = b"".join(row.body for row in rows) + b"".join(line.body for _, line in agent.store.journal())
    assert token.encode() not in stored
    assert token.removeprefix("fbo_").encode() not in stored
    (first,) = rows
    second = Operator(agent, token=token).make_token(replace=True)
    assert second != token
    (row,) = (row for row in agent.store.load("operator").rows if row.kind == "token")
    assert row.body != first.body


def test_a_replaced_token_opens_nothing_any_more(agent: Controller, token: str) -> None:
    """After a replacement only the new token counts."""
    new = Operator(agent, token=token).make_token(replace=True)
    with pytest.raises(NotOperator):
        Operator(agent, token=token)
    assert Operator(agent, token=new).may_answer
    assert [rule for rule in rules(agent) if "token" in rule] == ["operator.token_made", "operator.token_replaced"]


def test_a_token_is_made_once(agent: Controller, token: str) -> None:
    """A second token needs to be asked for, and there must be one to replace."""
    with pytest.raises(UsageError, match="has one already"):
        Operator(agent, token=token).make_token()


def test_there_must_be_one_to_replace(agent: Controller) -> None:
    """A store without a token has none to replace."""
    with pytest.raises(UsageError, match="none to replace"):
        Operator(agent).make_token(replace=True)


def test_a_token_of_another_process_counts_at_once(
    opened: Opener, clock: ManualClock, tmp_path: Path, scripted: Script
) -> None:
    """An operator that was opened before the token was made needs it, too."""
    path = tmp_path / "forbear.db"
    agent = opened(path)
    agent.declare("pay", effect="write", target="to", approval="always")
    early = Operator(agent)
    agent.call("pay", {"to": "a"}, run="r", execute=scripted(1))
    (prompt,) = early.pending()
    with Operator(path, clock=clock, ids=SequenceIds(start=900_000)) as other:
        other.make_token()
    with pytest.raises(NotOperator):
        early.approve(prompt.ticket, prompt.fingerprint)


def test_a_token_does_not_take_the_place_of_the_key_of_idempotency_keys(agent: Controller, token: str) -> None:
    """A store with a token still makes its other secret when it is first needed, and keeps it."""
    agent.declare("put", effect="write", idempotency_key="idem")
    keys: list[object] = []
    agent.call("put", {"n": 1}, run="r", execute=lambda n, idem: keys.append(idem))
    assert keys[0]
    assert agent.store.fetch("keys", "secret", "idempotency") is not None
