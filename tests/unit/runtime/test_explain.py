"""What became of a request, in words: a refusal, a wait, an unknown outcome, an approval, a halt. Never arguments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from forbear.core.vocabulary import Answer
from forbear.errors import Refused, UsageError
from forbear.runtime.controller import Controller
from forbear.runtime.explain import MAX_TOLD, Explanation
from forbear.runtime.operator import Operator
from forbear.testing.clock import ManualClock

Opener = Callable[..., Controller]
Script = Callable[..., Callable[..., object]]

SECRET = "acct-QX19"
FROZEN = Refused("DESK_FROZEN", recovery="do_not_retry")
LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=60)


@pytest.fixture
def desk(opened: Opener) -> Controller:
    """Return a controller with the tools of these tests."""
    controller = opened()
    controller.declare("send", effect="write", target="to", operation="mail.send")
    controller.declare("pay", effect="write", target="to", approval="always")
    controller.declare("find", effect="read")
    return controller


def happened(said: Explanation) -> list[str]:
    """Return the sentences of the story."""
    return [one.text for one in said.story]


def commands(said: Explanation) -> list[str]:
    """Return the commands that a person is offered, without their tickets."""
    return [" ".join(one.command.split()[:2]) for one in said.remedies if one.command]


def test_a_refusal(desk: Controller, scripted: Script) -> None:
    """What was refused, how far it reaches, what ends it, what the model read, and how a person ends it."""
    reply = desk.call("send", {"to": SECRET}, run="r", step="1", call_id="1", execute=scripted(FROZEN))
    desk.call("send", {"to": SECRET}, run="r", step="2", call_id="2", execute=scripted(1))
    said = desk.explain(reply.request_id)
    assert said.text() == (
        f"""\
{reply.request_id}: send (operation mail.send), run r

What happened
  2026-01-01T00:00:00Z  Nothing stood against the call; attempt 1 was started. <- this request
  2026-01-01T00:00:00Z  Attempt 1 was refused (DESK_FROZEN); the refusal stays. <- this request
  2026-01-01T00:00:00Z  The call did not run: what it asks for was refused before.

What holds now
  The call is closed.
  A refusal (DESK_FROZEN) covers every call on the same target. It ends when the one try that the next human \
message allows succeeds.

What the model was told
  {reply.for_model()}

What a person can do
  end a refusal early: forbear lift {reply.ticket}"""
    )


def test_a_blocked_call_names_the_refusal_that_covers_it(desk: Controller, scripted: Script) -> None:
    """Another call under the hold is told which request placed it, and reads what it was told itself."""
    first = desk.call("send", {"to": SECRET}, run="r", step="1", call_id="1", execute=scripted(FROZEN))
    blocked = desk.call("send", {"to": SECRET, "n": 2}, run="r", step="2", call_id="2", execute=scripted(1))
    said = desk.explain(blocked.request_id)
    assert happened(said) == ["The call did not run: what it asks for was refused before."]
    assert any(f"It came from another call (send, {first.request_id})." in line for line in said.now)
    assert "DESK_FROZEN" in said.told
    assert commands(said) == ["forbear lift"]


def test_a_wait(desk: Controller, clock: ManualClock, scripted: Script) -> None:
    """A wait says when the retry is due, and that nothing is to be done; afterwards it says that it ran."""
    reply = desk.call("send", {"to": SECRET}, run="r", step="1", call_id="1", execute=scripted(LATER))
    said = desk.explain(reply.request_id)
    assert happened(said)[-1] == (
        "Attempt 1 was told to come later (RATE_LIMITED); the controller retries once by itself."
    )
    assert said.now[0].startswith("The call waits, and the controller retries it. It is due at 2026-01-01T00:01:0")
    assert said.now[1].startswith("A wait (RATE_LIMITED) covers every call on the same target. It ends at 2026-01-01T")
    assert [one.text for one in said.remedies] == ["nothing: the controller runs the call when it is due"]
    assert said.told == reply.for_model()
    desk.bind("send", scripted({"sent": 1}))
    clock.advance(timedelta(minutes=2))
    desk.work()
    after = desk.explain(reply.request_id)
    assert happened(after)[-2:] == [
        "The time had come: the one retry was started, as attempt 2.",
        "Attempt 2 completed.",
    ]
    assert [one.is_asked for one in after.story] == [True, True, False, False]
    assert after.now == ("The call is completed; it is not done again by the controller.",)


def test_an_unknown_outcome(desk: Controller, scripted: Script) -> None:
    """A write that may have happened is said to be held, and both verdicts are offered; a verdict is said, too."""
    reply = desk.call("send", {"to": SECRET}, run="r", step="1", call_id="1", execute=scripted(TimeoutError(SECRET)))
    said = desk.explain(reply.request_id)
    assert "may or may not have happened (OUTCOME_UNKNOWN)" in happened(said)[-1]
    assert said.now[0] == (
        "It is not known whether the call happened. Nothing looks for it any more: a person has to say."
    )
    assert [one.command for one in said.remedies] == [
        f"forbear resolve {reply.ticket} applied",
        f"forbear resolve {reply.ticket} not_applied",
    ]
    Operator(desk, actor="Sam").resolve(reply.ticket or "", "applied")
    assert happened(desk.explain(reply.request_id))[-1] == "It is known that the write happened (said by Sam)."


def test_an_approval(desk: Controller, scripted: Script) -> None:
    """An open question says until when and how it is answered; afterwards who answered and that the yes was spent."""
    desk.bind("pay", scripted({"paid": 1}))
    reply = desk.call("pay", {"to": SECRET}, run="r", step="1", call_id="1")
    said = desk.explain(reply.request_id)
    assert said.now == (
        f"A person is asked about the call. The question ({reply.ticket}) expires at 2026-01-02T00:00:00Z.",
    )
    assert commands(said) == ["forbear approve", "forbear deny", "forbear revise", "forbear edit"]
    operator = Operator(desk, actor="Sam")
    (prompt,) = operator.pending()
    operator.approve(prompt.ticket, prompt.fingerprint)
    granted = desk.explain(reply.request_id)
    assert granted.now == (
        "The call is approved, and the approval is not spent. The approval expires at 2026-01-01T00:05:00Z.",
    )
    desk.work()
    assert happened(desk.explain(reply.request_id)) == [
        "The author's rule wants a person to approve the call; a person was asked.",
        "Sam approved exactly this call.",
        "The approval was spent: attempt 1 was started with exactly the approved call.",
        "Attempt 1 completed.",
    ]


def test_a_denial(desk: Controller, scripted: Script) -> None:
    """A no says who said it and that only a person ends it."""
    reply = desk.call("pay", {"to": SECRET}, run="r", step="1", call_id="1", execute=scripted(1))
    operator = Operator(desk, actor="Sam")
    (prompt,) = operator.pending()
    operator.deny(prompt.ticket, prompt.fingerprint)
    said = desk.explain(reply.request_id)
    assert happened(said)[-1] == "Sam said no."
    assert said.now[1] == "A denial (USER_DENIED) covers every call on the same target. It ends only by a person."
    operator.lift(reply.ticket or "")
    assert happened(desk.explain(reply.request_id))[-1] == "Sam lifted the hold USER_DENIED of pay."


def test_a_halt(desk: Controller, scripted: Script) -> None:
    """A run whose tool use is over says so, and how a person lets it go on."""
    refuse = scripted(FROZEN)
    replies = [
        desk.call("send", {"to": n % 2}, run="r", step=str(n), call_id=str(n), execute=refuse) for n in range(20)
    ]
    reply = next(one for one in replies if one.answer is Answer.HALTED)
    said = desk.explain(reply.request_id)
    assert (
        "The tool use of run r is over (BLOCKED). That ends with the next human message, or by an operator." in said.now
    )
    assert said.remedies[-1].command == "forbear lift --run r"
    desk.run("r").new_turn()
    after = desk.explain(reply.request_id)
    assert happened(after)[-1] == "A new human message came."
    assert not any("tool use" in line for line in after.now)


def test_a_read_that_succeeded(desk: Controller, scripted: Script) -> None:
    """A plain success is explained, too, although its journal line was not written yet."""
    reply = desk.call("find", {"q": SECRET}, run="r", step="1", call_id="1", execute=scripted({"rows": 1}))
    said = desk.explain(reply.request_id)
    assert happened(said) == ["Nothing stood against the call; attempt 1 was started.", "Attempt 1 completed."]
    assert said.told == "The tool's own result, unchanged."
    assert [one.text for one in said.remedies] == ["nothing needs to be done"]


def test_no_argument_and_no_text_of_others_is_told(desk: Controller, scripted: Script) -> None:
    """Whatever happened to a call, neither its arguments nor what a tool raised is in the explanation."""
    for n, outcome in enumerate([FROZEN, LATER, TimeoutError(SECRET), ValueError(SECRET), {"value": SECRET}]):
        to = f"{SECRET}{n}"
        reply = desk.call("send", {"to": to}, run="r", step=str(n), call_id=str(n), execute=scripted(outcome))
        assert SECRET not in desk.explain(reply.request_id).text()


def test_equal_happenings_in_a_row_are_counted(desk: Controller, scripted: Script) -> None:
    """Twelve proposals of a waiting call are one line with their number."""
    first = desk.call("send", {"to": SECRET}, run="r", step="0", call_id="0", execute=scripted(LATER))
    for step in range(1, 4):
        desk.call("send", {"to": SECRET}, run="r", step=str(step), call_id=str(step), execute=scripted(LATER))
    said = desk.explain(first.request_id)
    assert said.story[-1].times == 3
    assert "(3 times, until 2026-01-01T00:00:00Z)" in said.text()


def test_of_a_long_story_the_middle_is_left_out(desk: Controller, clock: ManualClock, scripted: Script) -> None:
    """A story is bounded: its beginning, its end and what is asked about stay, and the rest is counted."""
    tool = scripted({"rows": 1})
    asked = ""
    for n in range(60):
        reply = desk.call("find", {}, run="r", step=str(n), call_id=str(n), execute=tool)
        asked = reply.request_id if n == 30 else asked
        clock.advance(2)
    said = desk.explain(asked)
    assert len(said.story) + said.left_out == 120
    assert len(said.story) == MAX_TOLD + 2
    assert sum(one.is_asked for one in said.story) == 2
    assert f"({said.left_out} more in between are left out)" in said.text()


def test_a_run_explains_requests_of_its_tree_alone(desk: Controller, scripted: Script) -> None:
    """A run's handle says nothing about another tree, and nobody anything about a request that is not known."""
    desk.run("child", parent="r")
    reply = desk.call("send", {"to": SECRET}, run="child", step="1", call_id="1", execute=scripted(FROZEN))
    assert desk.run("r").explain(reply.request_id).path == ("r", "child")
    with pytest.raises(UsageError, match="of this run"):
        desk.run("another").explain(reply.request_id)
    for unknown in ("act_none", ""):
        with pytest.raises(UsageError, match="not in the journal"):
            desk.explain(unknown)


def test_only_lifts_that_concern_the_call_are_told(desk: Controller, scripted: Script) -> None:
    """A lift of another call's hold is no part of the story; one of the hold that was told, or of the run's halt, is."""
    refuse = scripted(FROZEN)
    mine = desk.call("send", {"to": "a"}, run="r", step="1", call_id="1", execute=refuse)
    other = desk.call("send", {"to": "b"}, run="r", step="2", call_id="2", execute=refuse)
    blocked = desk.call("send", {"to": "a", "n": 2}, run="r", step="3", call_id="3", execute=refuse)
    operator = Operator(desk, actor="Sam")
    operator.lift(other.ticket or "")
    assert not [one for one in happened(desk.explain(mine.request_id)) if "lifted" in one]
    assert happened(desk.explain(other.request_id))[-1] == "Sam lifted the hold DESK_FROZEN of send."
    operator.lift(mine.ticket or "")
    for reply in (mine, blocked):
        assert [one for one in happened(desk.explain(reply.request_id)) if "lifted" in one] == [
            "Sam lifted the hold DESK_FROZEN of send."
        ]
