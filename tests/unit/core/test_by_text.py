"""Sentences of the design that journeys written from its text alone found the core to break, or to leave open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from forbear.core.events import Woke
from forbear.core.rules import Rule
from forbear.core.states import Stopped, Waiting
from forbear.core.vocabulary import Answer, Executed
from tests.model.calls import RESULTS, T0, call
from tests.model.cases import READ
from tests.unit.core.test_decide import Story


@pytest.mark.parametrize(
    ("executed", "rule"), [(Executed.UNKNOWN, Rule.RETURNED_RETRY_EXHAUSTED), (Executed.NO, Rule.RETURNED_WAIT)]
)
def test_a_read_that_bills_is_never_repeated_by_the_controller_after_it_may_have_run(
    executed: Executed, rule: Rule
) -> None:
    """`repeatable = False` (section 3) outranks the retry of a read that timed out; one that never ran waits as usual."""
    billed = replace(READ, repeatable=False)
    story, made = Story(billed), call(billed, {"desk": "a"})
    story.propose(made)
    assert story.result(made, replace(RESULTS["wait-down"](T0), executed=executed)).rule is rule
    if executed is Executed.UNKNOWN:
        assert isinstance(story.s.actions[made.action].phase, Stopped)
        assert story.propose(made).answer is Answer.BLOCKED
    else:
        assert isinstance(story.s.actions[made.action].phase, Waiting)
        assert story.feed(made, Woke(call=made), timedelta(seconds=10)).rule is Rule.EXECUTED_AS_RETRY
