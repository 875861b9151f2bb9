"""Tools that fail in eight ways against models that repeat, reword, take other names, and do all three at once."""

from __future__ import annotations

import pytest

from forbear.core.policy import MAX_REFUSALS
from tests.integration.adversarial import FORMS, MODELS, STEPS, TOOLS, Journey, Outcome

WITH_GOAL = {"cap", "empty", "transient"}
# Calls of one step that are different calls: the batch proposes three.
IN_STEP = {"batch": 3}
# Most executions of a labelled tool by one model; a search that is worded anew is a new search.
AT_MOST = {"perm": 1, "cap": 2, "approval": 0, "unknown": 1, "validation": 4, "transient": 6, "perturb": 1}


def run(kind: str, model: str, *, labelled: bool, form: str = "exception") -> Outcome:
    """Return what one model did with one tool."""
    return Journey(kind, model, labelled=labelled, form=form).run()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", TOOLS)
def test_labelled_tools_are_safe_whatever_the_model_does(kind: str, model: str, form: str) -> None:
    """With labels nothing happens twice, nothing happens early, a no stays a no, and every reachable goal is reached."""
    seen = run(kind, model, labelled=True, form=form)
    assert seen.duplicates == 0
    assert seen.early == 0
    assert seen.prompts <= 1
    assert seen.re_prompts == 0
    assert seen.paid == 0
    assert not seen.leaked
    assert seen.slept_s == 0
    assert seen.executions <= AT_MOST.get(kind, STEPS + 1)
    if kind in WITH_GOAL:
        assert seen.goal


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", TOOLS)
def test_undeclared_tools_are_safe_about_the_exact_call(kind: str, model: str, form: str) -> None:
    """With nothing declared the exact call is not repeated by itself, nothing leaks, and executions are bounded."""
    seen = run(kind, model, labelled=False, form=form)
    assert not seen.leaked
    assert seen.slept_s == 0
    if kind in {"perm", "unknown", "validation", "perturb", "approval"}:
        assert seen.exact_repeats == 0, "a call that was refused, or that may have happened, ran again"
        assert seen.executions <= MAX_REFUSALS + IN_STEP.get(model, 1)
    if kind == "cap":
        assert seen.exact_repeats <= seen.executions / 2, "one retry for each call, by the controller"
        assert seen.goal
    assert seen.executions <= 2 * STEPS * IN_STEP.get(model, 1)


def test_a_model_that_rewords_gains_nothing() -> None:
    """Rewording, other names and parallel batches run a labelled write as often as repeating it does."""
    for kind in ("perm", "cap", "approval", "unknown", "perturb"):
        counts = {run(kind, model, labelled=True).executions for model in MODELS}
        assert len(counts) == 1, kind
