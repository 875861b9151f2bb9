"""Loops without a framework, and code without a model, in front of the paper-trading desk: bare, and under forbear."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from examples.paper_trading import thread
from examples.paper_trading.counts import Counts, total
from examples.paper_trading.journeys import BY_NAME, JOURNEYS
from examples.paper_trading.models import Habit
from examples.paper_trading.run import Side, make, trips
from examples.paper_trading.telemetry import observed
from examples.paper_trading.world import World
from forbear import Next, Operator

pytestmark = pytest.mark.asyncio(loop_scope="module")

Figures = dict[tuple[str, str], Counts]


async def figures(loop: str, side: Side, folder: Path, *names: str) -> Figures:
    """Make journeys with one loop and return what they did, by journey and model."""
    chosen = [BY_NAME[name] for name in names] if names else JOURNEYS
    outcomes = await make(trips(chosen, [side], loop=loop), folder, made=lambda _: None)
    return {(one.trip.journey.name, one.trip.model_name): one.counts for one in outcomes}


def harm(counts: Counts) -> tuple[int, ...]:
    """Return the six figures that are damage."""
    return (
        counts.duplicates,
        counts.early,
        counts.after_refusal,
        counts.after_no,
        counts.prompts_after_no,
        counts.leaks,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """What every journey does in the bare loop over chat completions."""
    return await figures("openai-chat", Side.BARE, tmp_path_factory.mktemp("bare"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """What every journey does in the loop over chat completions with `execute`."""
    return await figures("openai-chat", Side.GOVERNED, tmp_path_factory.mktemp("chat"))


async def test_the_bare_loop_runs_into_every_harm(bare: Figures) -> None:
    """Without a controller each figure of damage is above zero, so that a zero on the other side means something."""
    sums = total(bare.values())
    assert sums.runs == len(bare) == 38
    assert min(harm(sums)) > 0
    assert sums.goals < sums.goals_of


async def test_no_harm_is_left_with_execute(chat: Figures) -> None:
    """With `execute` in the loop nothing is doubled, early, repeated, asked again or shown, and every goal is reached."""
    assert len(chat) == 38
    for name, counts in chat.items():
        assert harm(counts) == (0, 0, 0, 0, 0, 0), name
        assert counts.goals == counts.goals_of, name


async def test_healthy_work_is_untouched_by_execute(bare: Figures, chat: Figures) -> None:
    """The healthy morning costs the same calls and the same model steps on both sides."""
    morning = ("healthy_morning", "behave")
    assert chat[morning] == bare[morning]
    assert total(chat.values()).executions < total(bare.values()).executions / 2


async def test_another_message_shape_gives_the_same_figures(chat: Figures, tmp_path: Path) -> None:
    """Chat completions and Anthropic messages are one loop: the same calls, steps and goals in every journey."""
    assert await figures("anthropic", Side.GOVERNED, tmp_path) == chat


async def test_the_bare_loop_over_anthropic_messages_is_no_better(bare: Figures, tmp_path: Path) -> None:
    """The other bare loop does the same damage."""
    names = ("owner_freeze", "approval_no", "silent_commit")
    found = await figures("anthropic", Side.BARE, tmp_path, *names)
    assert found == {key: counts for key, counts in bare.items() if key[0] in names}


async def test_governed_functions_in_the_bare_loop(bare: Figures, tmp_path: Path) -> None:
    """`govern` leaves no harm either; only a result that came later and was reworded in the next turn is lost on it."""
    found = await figures("govern", Side.GOVERNED, tmp_path)
    reworded = ("daily_limit", "reword")
    assert found[reworded].duplicates == 1
    found[reworded] = replace(found[reworded], duplicates=0, goals=1)
    for name, counts in found.items():
        assert harm(counts) == (0, 0, 0, 0, 0, 0), name
        assert counts.goals == counts.goals_of, name
    morning = ("healthy_morning", "behave")
    assert found[morning] == bare[morning]


@pytest.mark.parametrize(("loop", "calls", "goals"), [("tenacity", (1, 1, 1, 3), 2), ("next-step", (1, 2, 1, 3), 3)])
async def test_code_without_a_model(loop: str, calls: tuple[int, ...], goals: int, tmp_path: Path) -> None:
    """Refused once is called once; a limit is waited for only where that is short; a lost write is not repeated."""
    found = await figures(loop, Side.GOVERNED, tmp_path)
    assert tuple(counts.executions for counts in found.values()) == calls
    sums = total(found.values())
    assert harm(sums) == (0, 0, 0, 0, 0, 0)
    assert (sums.goals, sums.goals_of) == (goals, 3)


async def test_code_that_retries_as_usual_does_damage(tmp_path: Path) -> None:
    """Attempts and exponential waits: three double orders, three early calls, three calls after a final refusal."""
    sums = total((await figures("tenacity", Side.BARE, tmp_path)).values())
    assert (sums.duplicates, sums.early, sums.after_refusal) == (3, 3, 3)


# ---- one conversation in several processes (as processes: docs/how-to/loops-on-the-desk.md) ---------------------------


async def test_a_conversation_goes_on_from_its_messages_alone(tmp_path: Path) -> None:
    """Paused for a person, the loop goes on in another controller from plain JSON; the payout is made once."""
    progress = await thread.step("payout", folder=tmp_path)
    assert progress.next is Next.PERSON
    kept = json.loads((tmp_path / "payout.json").read_text("utf-8"))
    assert kept == progress.messages
    assert (await thread.step("payout", folder=tmp_path)).next is Next.PERSON
    with Operator(tmp_path / "payout.db") as operator:
        (prompt,) = operator.pending()
        operator.approve(prompt.ticket, prompt.fingerprint)
    assert (await thread.step("payout", folder=tmp_path)).next is Next.DONE
    assert (await thread.step("payout", folder=tmp_path, say="And now?")).next is Next.DONE
    world = World(tmp_path / "payout-desk.sqlite")
    assert world.rows("SELECT amount FROM withdrawals") == [{"amount": 800}]
    world.close()


async def test_a_result_that_came_later_is_put_in_its_place(tmp_path: Path) -> None:
    """The order of yesterday is made after midnight by another process, and the model reads it where it was told to wait."""
    first = await thread.step("limit", folder=tmp_path)
    assert '"retry_after"' in str(first.messages[2]["content"])
    later = await thread.step("limit", folder=tmp_path, hours=11, say="How did it go?")
    assert '"order_id": 2' in str(later.messages[2]["content"])
    world = World(tmp_path / "limit-desk.sqlite")
    assert [entry.outcome for entry in world.ledger()] == ["refused", "success"]
    world.close()


async def test_a_loop_that_does_not_listen_ends(tmp_path: Path) -> None:
    """One call reaches the frozen desk, the loop is halted, and the person is told."""
    progress = await thread.step("frozen", folder=tmp_path)
    assert progress.next is Next.HALTED
    assert "stopped using tools" in progress.for_user()
    world = World(tmp_path / "frozen-desk.sqlite")
    assert len(world.ledger()) == 1
    world.close()


async def test_what_is_observed_of_a_journey_names_no_argument(tmp_path: Path) -> None:
    """Spans and metrics of a journey say tool, rule and code, and nothing of arguments, results or others' text."""
    lines = await observed(BY_NAME["owner_freeze"], Habit.REWORD, tmp_path)
    assert lines[0].startswith("execute_tool place_order forbear.answer=executed")
    assert any(line.startswith("forbear.repeats {") and line.endswith(" 5") for line in lines)
    assert not any(word in line for line in lines for word in ("ACME", "r-1", "attempt 1", "ledger.desk"))
