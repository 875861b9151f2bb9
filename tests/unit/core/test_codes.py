"""Every code that the core can say has a text in the built-in catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

import forbear.core
from forbear.contract import builtin_catalogue

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
