"""What may be imported where, beyond what import contracts can say. No test of behaviour lives here."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import forbear

PACKAGE = Path(forbear.__file__).parent
CORE = sorted((PACKAGE / "core").rglob("*.py"))
CORE_MAY_IMPORT = {
    "__future__",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "hashlib",
    "json",
    "re",
    "types",
    "typing",
    "unicodedata",
}
FRAMEWORKS = ("langgraph", "langchain", "langchain_core", "mcp", "fastmcp", "tenacity", "typer", "rich")


def imported_modules(source: str) -> set[str]:
    """Return the dotted names that a source text imports, also inside functions and type-checking blocks."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def core_may_import(name: str) -> bool:
    """Say whether a core module may import this dotted name."""
    if name in {"forbear.errors", "forbear.core"} or name.startswith("forbear.core."):
        return True
    return name.split(".", maxsplit=1)[0] in CORE_MAY_IMPORT


@pytest.mark.parametrize("path", CORE, ids=[path.relative_to(PACKAGE).as_posix() for path in CORE])
def test_core_imports_only_the_allowed_modules(path: Path) -> None:
    """A module of the core imports itself, the errors and twelve harmless modules: no I/O, clock or randomness."""
    forbidden = {name for name in imported_modules(path.read_text("utf-8")) if not core_may_import(name)}
    assert forbidden == set()


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from os import environ",
        "import forbear.runtime",
        "from . import policy",
        "def f():\n import random",
    ],
)
def test_the_allowlist_rejects_what_it_should(source: str) -> None:
    """The check above sees plain, from-, relative and function-level imports, so that it cannot pass by blindness."""
    assert not all(core_may_import(name) for name in imported_modules(source))


@pytest.mark.parametrize("path", CORE, ids=[path.relative_to(PACKAGE).as_posix() for path in CORE])
def test_every_core_module_is_importable_by_its_own_name(path: Path) -> None:
    """Each file of the core loads as the module that its place says, without needing another one loaded first."""
    name = ".".join(("forbear", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    assert importlib.import_module(name).__file__ == str(path)


def test_import_forbear_loads_no_framework() -> None:
    """`import forbear` loads neither a framework nor the libraries of the command line."""
    program = f"import sys, forbear; print([m for m in {FRAMEWORKS!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
