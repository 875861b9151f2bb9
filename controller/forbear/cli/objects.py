"""Find the object that ``MODULE:OBJECT`` names. Importing the module is all that happens; what the object is, its user asks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from forbear.errors import ConfigError, UsageError


def find(target: str) -> object:
    """Return the object, looked for in the current folder, too.

    Raises:
        ConfigError: there is no such module or object.
        UsageError: the target has another form.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise UsageError("target: must be MODULE:OBJECT")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"target: there is no module {error.name!r}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"target: module {module!r} has no {name!r}")
        found = getattr(found, part)
    return found
