"""A grant is bound to what the person saw: another policy makes it void."""

from __future__ import annotations

from pathlib import Path

from forbear import Controller, Operator


def test_a_grant_is_void_once_the_tools_policy_has_changed(tmp_path: Path) -> None:
    """A yes that was given under one policy starts nothing under another: the call is asked about again."""
    sent: list[int] = []

    def send(amount: int) -> str:
        sent.append(amount)
        return "sent"

    with Controller.open(tmp_path / "f.db", worker=False) as controller:
        controller.declare("send", effect="write", repeatable=False, approval="always")
        first = controller.call("send", {"amount": 5}, run="r", execute=send)
        assert first.answer == "needs_approval"
        operator = Operator(controller)
        (prompt,) = operator.pending()
        assert prompt.fingerprint is not None
        operator.approve(prompt.ticket, prompt.fingerprint, actor="owner")
        controller.declare("send", effect="write", repeatable=False, approval="always", target="amount")
        again = controller.call("send", {"amount": 5}, run="r", execute=send)
        assert again.answer == "needs_approval"
        assert sent == []
        asked = [one for one in operator.pending() if one.kind == "approval"]
        assert [one.ticket for one in asked] != [prompt.ticket]


def test_a_long_turn_of_different_writes_keeps_its_tree_small(tmp_path: Path) -> None:
    """What a turn remembers of its writes is bounded: the thousandth write stores no more than the hundredth."""
    with Controller.open(tmp_path / "f.db", worker=False) as controller:
        controller.declare("save", effect="write", target="key")
        sizes: dict[int, int] = {}
        for number in range(300):
            reply = controller.call("save", {"key": number}, run="r", execute=lambda key: {"key": key})
            assert reply.answer == "executed"
            if number in (100, 299):
                rows = controller.engine.store.load("tree:r").rows
                sizes[number] = sum(len(row.body) for row in rows if row.kind == "tree")
        assert sizes[299] <= sizes[100] + 200
