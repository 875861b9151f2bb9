"""What the commands print with: lines that a terminal cannot be tricked by, colours only where there is a terminal.

No command and no decision lives here.
"""

from __future__ import annotations

import sys

import typer

OK, FOUND, MISUSE = 0, 1, 2


def complain(message: str, *, code: int = MISUSE) -> int:
    """Print one line on stderr and return the exit code."""
    typer.echo(f"forbear: {one_line(message)}", err=True)
    return code


def note(message: str) -> None:
    """Print one line on stderr that is no error: dim on a terminal."""
    typer.secho(f"forbear: {one_line(message)}", err=True, dim=sys.stderr.isatty() or None)


def one_line(text: object) -> str:
    """Return a text as one printable line: white space runs become a space, other control characters are escaped."""
    return escaped(" ".join(str(text).split()))


def escaped(text: str) -> str:
    """Return a text with every character that a terminal might obey, and every invisible one, made visible."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def say(*parts: tuple[str, str], indent: int | None = None) -> None:
    """Print one line of (text, style) parts: coloured on a terminal, and nothing in it read as markup.

    Args:
        *parts: Texts with their styles.
        indent: On a terminal, break between words at its width, and begin what follows so far in; None = never break
            (what is to be copied). In a file a line stays a line.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    text = Text.assemble(*((escaped(text), style) for text, style in parts))
    if indent is None or not console.is_terminal or text.cell_len <= console.width:
        console.print(text)
        return
    first, *more = text.wrap(console, console.width, no_wrap=False)
    console.print(first)
    rest = Text(" ").join(more)
    for line in rest.wrap(console, max(console.width - indent, 20)):
        console.print(Text(" " * indent) + line)
