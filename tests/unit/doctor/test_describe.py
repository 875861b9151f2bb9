"""What is written into tool descriptions. What a controller does is tested elsewhere."""

from __future__ import annotations

import re

import pytest

from forbear.contract import lint_text, tool_policy
from forbear.contract.describe import describe
from forbear.core.policy import ToolPolicy
from forbear.errors import ConfigError

POLICIES = [
    tool_policy("bare"),
    tool_policy("find", effect="read"),
    tool_policy(
        "pay",
        effect="write",
        repeatable=False,
        approval="always",
        required=["amount"],
        alternatives=["ask_owner"],
        preconditions=["check_balance"],
        inspect={"tool": "find"},
        text_rules=[{"prefix": "no", "recovery": "do_not_retry", "code": "ACCESS_DENIED"}],
    ),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_every_sentence_may_be_shown_to_a_model(policy: ToolPolicy) -> None:
    """No added sentence invites another attempt, by the same lint as every text that a model sees."""
    said = describe("", policy)
    for sentence in re.split(r"(?<=\.) ", said):
        assert lint_text(sentence) == []


def test_it_says_what_is_declared_and_keeps_the_authors_words() -> None:
    """A write names approval, precondition, final codes, the check and the alternative; a read names none of them."""
    said = describe("Pays a bill.", POLICIES[2])
    assert said.startswith("Pays a bill. A person approves each call")
    for word in ("check_balance", "ACCESS_DENIED", "find shows whether", "ask_owner", "inspect_outcome", "amount"):
        assert word in said
    read = describe("", POLICIES[1])
    assert "inspect_outcome" not in read
    assert "An empty result is a completed look" in read


def test_a_declared_name_that_invites_is_refused() -> None:
    """A name that would make a sentence unfit for a model is an error that names the rule, not the text."""
    with pytest.raises(ConfigError, match="invites another attempt"):
        describe("", tool_policy("x", alternatives=["please retry"]))
