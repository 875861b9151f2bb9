"""The table of rules and their sentences, made from the code; `python -m tests.docs.rules_table` writes it."""

from __future__ import annotations

from pathlib import Path

from forbear.audit.words import NOTES, SENTENCES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"
HEAD = """# Rules

Every decision names one rule. It is in the reply (`reply.rule`), in the journal, and is what `forbear explain` says in words.
A name is `phase.event.guard`; `any` is every phase, `start` is whoever starts a call, `tree` is about no single call.
In braces are facts of the decision: the attempt, the code, who answered.
Made from the code by `python -m tests.docs.rules_table`.

| rule | what happened |
|---|---|
"""
NOTES_HEAD = """
Lines of the journal that are no decisions about calls:

| line | what happened |
|---|---|
"""


def table() -> str:
    """Return the page."""
    rows = "".join(f"| `{rule.value}` | {text} |\n" for rule, text in SENTENCES.items())
    notes = "".join(f"| `{name}` | {text} |\n" for name, text in NOTES.items())
    return f"{HEAD}{rows}{NOTES_HEAD}{notes}"


if __name__ == "__main__":
    PAGE.write_text(table(), "utf-8")
