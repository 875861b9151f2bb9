"""The page of exceptions, made from their docstrings; `python -m tests.docs.exceptions_table` writes it."""

from __future__ import annotations

import inspect
from pathlib import Path

import forbear
from forbear import errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "exceptions.md"
HEAD = """# Exceptions

A refusal is a value, never an exception: what a call was answered is in its reply. These are raised for misuse and for broken
infrastructure, and by tools that speak the contract. All are in `forbear` (`from forbear import ConfigError`). Made from
their docstrings by `python -m tests.docs.exceptions_table`.

Catch `StoreError` around a call if the agent must go on without its store (or pass `on_broken="block"`, which answers instead);
fix the rest in the code that they name. On the command line each is one line on stderr and exit code 2.

"""


def public() -> list[type[BaseException]]:
    """Return every public exception, those that others inherit from first."""
    found = [getattr(forbear, name) for name in forbear.__all__]
    raised = [one for one in found if inspect.isclass(one) and issubclass(one, BaseException)]
    return sorted(raised, key=lambda one: (len(one.__mro__), errors.__all__.index(one.__name__)))


def parts(error: type[BaseException]) -> dict[str, str]:
    """Return what a docstring says: "is" (its first sentence), "When" it is raised, what to "Do", its "Fields"."""
    first, *rest = inspect.cleandoc(error.__doc__ or "").split("\n\n")
    said = {"is": " ".join(first.split())}
    for paragraph in rest:
        for word in ("When", "Do", "Fields"):
            if paragraph.startswith(f"{word}: "):
                said[word] = " ".join(paragraph.removeprefix(f"{word}: ").split())
    return said


def page() -> str:
    """Return the page."""
    sections = []
    for error in public():
        said = parts(error)
        above = error.__mro__[1].__name__
        sections.append(
            f"## `{error.__name__}`\n\nA kind of `{above}`. {said['is']}\n\n"
            f"| | |\n|---|---|\n| raised | {said['When']} |\n| what to do | {said['Do']} |\n"
            + (f"| fields | {said['Fields']} |\n" if "Fields" in said else "")
        )
    return HEAD + "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
