"""What a person sees and answers; from the agent's process and from another one, which executes nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from forbear.core.vocabulary import Answer, Outcome
from forbear.errors import Refused, StoreError, UsageError
from forbear.runtime.display import HIDDEN, shown, visible
from forbear.runtime.operator import Operator
from forbear.testing.clock import SequenceIds


def rules(controller: Any) -> Any:
    """Return the rules of the journal."""
    return [line.rule for _, line in controller.store.journal(limit=1000)]


@pytest.fixture
def path(tmp_path: Any) -> Any:
    """Return where the store is."""
    return tmp_path / "forbear.db"


@pytest.fixture
def agent(opened: Any, path: Any) -> Any:
    """Open the agent's controller."""
    controller = opened(path)
    controller.declare("pay", effect="write", target="to", approval="always", secret=["card"], ignore=["memo"])
    controller.declare("find", effect="read")
    return controller


@pytest.fixture
def other(agent: Any, path: Any, clock: Any) -> Any:
    """An operator on the same file with nothing declared, as a second process has it."""
    with Operator(path, clock=clock, ids=SequenceIds(start=900_000), actor="sam") as operator:
        yield operator


def prompt(operator: Any) -> Any:
    """Return the open prompt."""
    return next(one for one in operator.pending() if one.kind == "approval")


def test_the_prompt_shows_the_frozen_arguments_and_hides_secrets(agent: Any, other: Any, scripted: Any) -> None:
    """An approver sees escaped data with type and length, the run's path, the rule and how many prompts came before."""
    agent.run("sub", parent="main")
    arguments = {"to": "acct\u202e7", "n": 3, "card": "4111-1111", "note": "x" * 900, "deep": {"card": "4222"}}
    agent.call("pay", {"to": "a", "n": 1}, run="main", execute=scripted(1))
    agent.call("pay", arguments, run="sub", execute=scripted(1))
    first, second = [one for one in other.pending() if one.kind == "approval"]
    assert (first.prompts_before, second.prompts_before) == (0, 1)
    assert (second.tool, second.rule, second.path) == ("pay", "always", ("main", "sub"))
    by_name = {one.name: one for one in second.arguments}
    assert by_name["to"].text == "acct\\u202e7"
    assert (by_name["n"].type, by_name["n"].text) == ("number", "3")
    assert (by_name["note"].cut, by_name["note"].length) == (True, 900)
    assert by_name["card"].text == HIDDEN
    assert "4111" not in repr(second)
    assert "4222" not in repr(second)


@pytest.mark.parametrize("char", ["\u200b", "\u202e", "\x00", "\n", "\u2028", "\U000e0041", "\ud800", "\u0301"])
def test_characters_that_cannot_be_seen_are_written_out(char: Any) -> None:
    """Control, bidi, zero-width, combining and tag characters are visible as escapes."""
    assert visible(f"a{char}b").isprintable()
    assert char not in visible(f"a{char}b")


def test_a_backslash_cannot_imitate_an_escape() -> None:
    r"""The text `\u202e` and the character are shown differently."""
    assert visible("\\u202e") != visible("\u202e")


def test_every_json_type_is_named() -> None:
    """Type and length of each argument are said."""
    seen = shown('{"a":null,"b":true,"c":1.5,"d":"xy","e":[1,2],"f":{"k":1}}', ())
    assert [(one.type, one.length) for one in seen] == [
        ("null", 0), ("boolean", 1), ("number", 3), ("text", 2), ("list", 2), ("object", 1),
    ]  # fmt: skip


def test_a_grant_from_another_process_is_executed_by_the_agents_process(agent: Any, other: Any, scripted: Any) -> None:
    """The operator's process executes nothing; the agent's notices and runs the frozen call once."""
    tool = scripted({"paid": 1})
    agent.bind("pay", tool)
    agent.call("pay", {"to": "a", "n": 1}, run="r")
    asked = prompt(other)
    other.approve(asked.ticket, asked.fingerprint)
    assert tool.count == 0
    assert [reply.value for reply in agent.work()] == [{"paid": 1}]
    assert tool.received == [{"n": 1, "to": "a"}]
    assert b"sam" in next(line.body for _, line in agent.store.journal() if line.rule == "awaiting_approval.granted")


def test_an_answer_names_exactly_the_call_that_was_shown(agent: Any, other: Any, scripted: Any, clock: Any) -> None:
    """A wrong fingerprint, a spent or unknown ticket and an expired prompt are errors that change nothing."""
    agent.call("pay", {"to": "a", "n": 1}, run="r", execute=scripted(1))
    asked = prompt(other)
    before = rules(agent)
    for ticket, fingerprint, rule in ((asked.ticket, "0" * 32, "fingerprint"), ("tkt_no", asked.fingerprint, "ticket")):
        for answer in (other.approve, other.deny, other.revise):
            with pytest.raises(UsageError, match=rule):
                answer(ticket, fingerprint)
    assert rules(agent) == before
    other.deny(asked.ticket, asked.fingerprint)
    with pytest.raises(UsageError, match="answered already"):
        other.approve(asked.ticket, asked.fingerprint)
    agent.call("pay", {"to": "b", "n": 1}, run="q", execute=scripted(1))
    asked = prompt(other)
    clock.advance(timedelta(hours=24))
    with pytest.raises(UsageError, match="expired"):
        other.approve(asked.ticket, asked.fingerprint)


def test_a_no_stays_a_no_until_a_person_lifts_it(agent: Any, other: Any, scripted: Any) -> None:
    """After a denial the same target is not asked about again; lifting it lets a call be asked about."""
    tool = scripted(1)
    agent.bind("pay", tool)
    agent.call("pay", {"to": "a", "n": 1}, run="r")
    asked = prompt(other)
    assert other.deny(asked.ticket, asked.fingerprint).answer is Answer.BLOCKED
    assert [reply.envelope.code for reply in agent.run("r").inbox()] == ["USER_DENIED"]
    again = agent.call("pay", {"to": "a", "n": 2}, run="r")
    assert (again.answer, again.envelope.code) == (Answer.BLOCKED, "USER_DENIED")
    (hold,) = [one for one in other.pending() if one.kind == "hold"]
    other.lift(hold.ticket)
    with pytest.raises(UsageError, match="hold"):
        other.lift(hold.ticket)
    assert agent.call("pay", {"to": "a", "n": 2}, run="r").answer is Answer.NEEDS_APPROVAL
    assert tool.count == 0


def test_revise_tells_the_note_and_lets_another_call_be_asked_about(agent: Any, other: Any, scripted: Any) -> None:
    """Changes requested: other arguments may be asked about; a note is one plain line."""
    agent.bind("pay", scripted(1))
    agent.call("pay", {"to": "a", "n": 1}, run="r")
    asked = prompt(other)
    for note in ("see https://evil.invalid", "try again"):
        with pytest.raises(UsageError, match="note"):
            other.revise(asked.ticket, asked.fingerprint, note=note)
    other.revise(asked.ticket, asked.fingerprint, note="At most 5 without a receipt.")
    (told,) = agent.run("r").inbox()
    assert "At most 5" in told.for_model()
    assert agent.call("pay", {"to": "a", "n": 9}, run="r").answer is Answer.NEEDS_APPROVAL


def test_an_edited_call_runs_instead_and_the_original_is_superseded(agent: Any, other: Any, scripted: Any) -> None:
    """What the person wrote runs, exactly; what the model proposed does not."""
    tool = scripted({"paid": 1})
    agent.bind("pay", tool)
    agent.call("pay", {"to": "a", "n": 100}, run="r")
    asked = prompt(other)
    other.edit(asked.ticket, asked.fingerprint, {"to": "a", "n": 5})
    agent.work()
    assert tool.received == [{"n": 5, "to": "a"}]
    assert agent.call("pay", {"to": "a", "n": 100}, run="r").answer is Answer.BLOCKED


def test_what_a_person_wrote_is_told_without_secrets_at_any_depth(agent: Any, other: Any, scripted: Any) -> None:
    """The model reads which arguments ran; what the author declared secret is hidden in them, inside others too."""
    agent.declare("pay", effect="write", approval="always", secret=["pin", "card"])
    agent.bind("pay", scripted({"paid": 1}))
    agent.call("pay", {"to": {"pin": "old-XQ71"}, "n": 100}, run="r")
    asked = prompt(other)
    other.edit(asked.ticket, asked.fingerprint, {"to": {"pin": "pin-XQ72", "name": "Ada"}, "card": "4111-XQ73", "n": 5})
    agent.work()
    (told,) = agent.run("r").inbox()
    assert "Ada" in told.for_model()
    assert "XQ7" not in told.for_model() + told.for_user() + repr(told.effective)


def test_an_edit_into_another_tool_is_another_question(agent: Any, other: Any, scripted: Any) -> None:
    """A person who names another tool is asked about that call."""
    agent.bind("find", scripted(1))
    agent.call("pay", {"to": "a"}, run="r", execute=scripted(1))
    asked = prompt(other)
    other.edit(asked.ticket, asked.fingerprint, {"q": 1}, tool="find")
    assert prompt(other).tool == "find"


def test_a_person_resolves_an_unknown_write(agent: Any, other: Any, scripted: Any) -> None:
    """A verdict of a person counts at once, and the run is told."""
    agent.declare("send", effect="write", target="to")
    agent.call("send", {"to": "a"}, run="r", execute=scripted(TimeoutError()))
    (unknown,) = [one for one in other.pending() if one.kind == "unknown"]
    with pytest.raises(UsageError, match="verdict"):
        other.resolve(unknown.ticket, "perhaps")
    other.resolve(unknown.ticket, "applied")
    with pytest.raises(UsageError, match="resolved already"):
        other.resolve(unknown.ticket, "applied")
    (told,) = agent.run("r").inbox()
    assert told.envelope.outcome is Outcome.ALREADY_SATISFIED


def test_a_verdict_of_a_person_changes_the_next_idempotency_key(agent: Any, other: Any, scripted: Any) -> None:
    """A completion that another process records counts for the key too."""
    agent.declare("send", effect="write", idempotency_key="idem", limits={"inspect_attempts": 0})
    tool = scripted(TimeoutError(), {"id": 2})
    agent.bind("send", tool)
    agent.call("send", {"to": "a"}, run="r", turn="1")
    (unknown,) = [one for one in other.pending() if one.kind == "unknown"]
    other.resolve(unknown.ticket, "applied")
    assert len(agent.run("r").inbox()) == 1
    agent.call("send", {"to": "a"}, run="r", turn="2")
    keys = [call["idem"] for call in tool.received]
    assert len(set(keys)) == 2


def test_a_halt_is_lifted_by_its_run(agent: Any, other: Any, scripted: Any) -> None:
    """An operator ends the halt of a run."""
    agent.declare("send", effect="write")
    for n in range(20):
        if agent.call("send", {"n": 1, "x": n % 2}, run="r", execute=scripted(Refused("NO"))).answer is Answer.HALTED:
            break
    assert agent.run("r").halted
    other.lift(run="r")
    assert not agent.run("r").halted
    with pytest.raises(UsageError, match="nothing to lift"):
        other.lift(run="r")
    with pytest.raises(UsageError, match="must name"):
        other.lift()


def test_waits_are_visible(agent: Any, other: Any, scripted: Any) -> None:
    """A scheduled retry is listed with its time."""
    agent.declare("send", effect="write")
    later = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)
    reply = agent.call("send", {"n": 1}, run="r", execute=scripted(later))
    (wait,) = [one for one in other.pending() if one.kind == "wait"]
    assert (wait.ticket, wait.due_at, wait.code) == (reply.ticket, reply.retry_at, "RATE_LIMITED")


def test_a_policy_that_changed_is_journalled(agent: Any, opened: Any, path: Any, scripted: Any) -> None:
    """Opening a store with another policy of a tool is a journal line."""
    agent.call("find", {}, run="r", execute=scripted(1))
    agent.call("find", {}, run="r", execute=scripted(1))
    again = opened(path)
    again.declare("find", effect="read", repeatable=False)
    again.call("find", {}, run="r", execute=scripted(1))
    assert [rule for rule in rules(again) if rule.startswith("policy.")] == ["policy.noted", "policy.changed"]


def test_the_turn_of_a_run_is_the_number_of_its_human_messages(agent: Any, scripted: Any) -> None:
    """A first message that is announced before any call is turn 1, and so is one that nobody announced."""
    for turn, run in (("h1", "told"), (None, "silent")):
        agent.call("peek", {"n": 1}, run=run, step="1", call_id="1", turn=turn, execute=scripted("a"))
        assert Operator(agent).run(run).turn == 1
        agent.run(run).new_turn()
        assert Operator(agent).run(run).turn == 2
    agent.run("first").new_turn()
    agent.call("peek", {"n": 1}, run="first", step="1", call_id="1", execute=scripted("a"))
    view = Operator(agent).run("first")
    assert (view.turn, view.calls_in_turn) == (1, 1)
    for n in range(80):
        agent.call("peek", {"n": n}, run="told", step=f"s{n}", turn=f"t{n}", execute=scripted("a"))
    assert Operator(agent).run("told").turn == 82


def test_looking_for_one_ticket_reads_no_other(agent: Any, scripted: Any, monkeypatch: Any) -> None:
    """With much that waits, a ticket, a run and a limited list read what they are about and no more rows."""
    for n in range(30):
        agent.call("pay", {"to": f"t{n}"}, run=f"r{n % 10}", step=f"{n}", call_id=f"{n}", execute=scripted(1))
    operator = Operator(agent)
    everything = operator.pending()
    read: list[int] = []
    tickets = agent.store.tickets

    def counted(*arguments: Any, **options: Any) -> Any:
        rows = tickets(*arguments, **options)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(agent.store, "tickets", counted)
    (found,) = operator.find(everything[7].ticket)
    operator.deny(found.ticket, found.fingerprint)
    assert len(operator.run("r3").waiting) == 3
    limited = [one.ticket for one in operator.pending(limit=2) if one.kind != "hold"]
    assert limited == [everything[0].ticket, everything[1].ticket]
    assert max(read) <= 3
    with pytest.raises(UsageError, match="limit: must be 1 or more"):
        operator.pending(limit=0)


@pytest.mark.parametrize("form", [str, Path], ids=["text", "path"])
def test_a_store_that_is_not_there_is_an_error_and_not_an_empty_one(tmp_path: Path, form: Any) -> None:
    """Whoever mistypes the path is not shown that nothing waits, and no file is left behind."""
    with pytest.raises(StoreError, match="is not there"):
        Operator(form(tmp_path / "typo.db"))
    assert list(tmp_path.iterdir()) == []
