"""Every code that the core can say has a text in the built-in catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

import forbear.core
from forbear.contract import builtin_catalogue
from forbear.core.values import Envelope, Precondition
from forbear.core.view import view
from forbear.core.vocabulary import Executed, Outcome, Recovery

SPEAKERS = frozenset({"tell", "_no_prompt", "park"})


def _words(node: ast.Call) -> list[ast.expr]:
    words = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
    return [*words, *node.args] if getattr(node.func, "id", "") in SPEAKERS else words


def _said() -> set[str]:
    """Return the codes in the core's sources: arguments of the functions that speak, and `code=` anywhere."""
    said: set[str] = set()
    for path in Path(forbear.core.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                said.update(
                    word.value
                    for word in _words(node)
                    if isinstance(word, ast.Constant) and isinstance(word.value, str)
                )
    return {word for word in said if word.isupper()}


def test_every_code_that_the_core_says_is_in_the_catalogue() -> None:
    """A code without a text would reach a model as a bare word."""
    said = _said()
    assert {"OUTCOME_UNKNOWN", "APPROVAL_REQUIRED", "CHECKER_UNAVAILABLE"} <= said
    assert said - builtin_catalogue().entries.keys() == set()


def test_a_completed_view_says_its_message_and_fields() -> None:
    """A completed result may carry a text and safe fields, and says what ends a hold that a person ends."""
    done = Envelope(
        outcome=Outcome.EMPTY,
        executed=Executed.YES,
        reason="NO_MATCHES",
        safe_message="Nothing matched.",
        safe_fields=(("page", 2),),
    )
    shown = view(done)
    assert shown["meta"] == {"reason": "NO_MATCHES", "message": "Nothing matched.", "fields": {"page": 2}}
    asks = Envelope(outcome=Outcome.REFUSED, executed=Executed.NO, recovery=Recovery.REQUEST_APPROVAL, code="ASK")
    looks = Envelope(outcome=Outcome.UNKNOWN, executed=Executed.UNKNOWN, recovery=Recovery.INSPECT_OUTCOME, code="LOST")
    first = Envelope(
        outcome=Outcome.INVALID,
        executed=Executed.NO,
        recovery=Recovery.REPAIR_INPUT,
        code="READ_FIRST",
        precondition=Precondition(tool="read", arguments="{}"),
    )
    assert [str(view(one)["error"]).count("'until'") for one in (asks, looks, first)] == [1, 1, 1]
