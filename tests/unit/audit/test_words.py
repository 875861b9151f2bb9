"""Every rule, cause, scope, end and phase has its words, and the words are plain sentences."""

from __future__ import annotations

import string
from typing import get_args

import pytest

from forbear.audit.words import CAUSES, ENDS, NOTES, PHASES, SCOPES, SENTENCES, sentence
from forbear.core.rules import Rule
from forbear.core.states import Phase
from forbear.core.vocabulary import Cause, End, Scope
from forbear.runtime import drift, token

FACTS = {"tool", "code", "attempt", "actor", "by", "fields", "lifted"}


def test_every_rule_has_a_sentence() -> None:
    """The table is complete: no decision is left without words."""
    assert SENTENCES.keys() == set(Rule)


def test_every_other_line_of_the_journal_has_a_sentence() -> None:
    """Lines that are no decisions about calls are in the table of notes."""
    written = {
        drift.NOTED,
        drift.CHANGED,
        drift.LOOSENED,
        drift.REFUSED,
        token.TOKEN_MADE,
        token.TOKEN_REPLACED,
        token.REFUSED,
    }
    assert written == NOTES.keys()


def test_holds_and_phases_have_words() -> None:
    """Each cause, scope and end of a hold, and each phase of an action, is said."""
    assert CAUSES.keys() == set(Cause)
    assert SCOPES.keys() == set(Scope)
    assert ENDS.keys() == set(End)
    assert PHASES.keys() == {phase.__name__ for phase in get_args(Phase)}


@pytest.mark.parametrize("rule", [*SENTENCES, *NOTES])
def test_a_sentence_is_one_plain_line(rule: str) -> None:
    """A sentence begins with a capital, ends with a full stop, is short, and names known facts only."""
    text = NOTES.get(rule) or SENTENCES[Rule(rule)]
    named = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    assert named <= FACTS
    said = sentence(rule, {"tool": "pay", "code": "RATE_LIMITED", "attempt": 2, "actor": "Sam"})
    assert said[0].isupper()
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) <= 110


@pytest.mark.parametrize("rule", [*SENTENCES, *NOTES])
def test_a_line_that_lacks_a_fact_is_still_said(rule: str) -> None:
    """A journal line of which nothing but the rule is known does not fail."""
    assert sentence(rule, {}).endswith(".")


def test_sentences_of_different_rules_differ_unless_they_mean_the_same() -> None:
    """Two rules share a sentence only where they are one thing in two phases."""
    texts = [*SENTENCES.values(), *NOTES.values()]
    assert {text for text in texts if texts.count(text) > 1} == {
        SENTENCES[Rule.WAITING_JOINED],
        SENTENCES[Rule.WAITING_WOKE_EARLY],
    }


def test_a_rule_of_a_later_release_is_named() -> None:
    """A journal that a later release wrote is explained as far as it is known."""
    assert sentence("waiting.woke.brand_new", {}) == "Rule 'waiting.woke.brand_new', which this release does not know."
