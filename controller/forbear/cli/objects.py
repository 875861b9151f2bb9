"""Find the object that ``MODULE:OBJECT`` names. Importing the module is all that happens; what the object is, its user asks."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from forbear.errors import ConfigError, ForbearError, UsageError


def find(target: str) -> object:
    """Return the object, looked for in the current folder, too.

    Raises:
        ConfigError: there is no such module or object, or reading it raised; the message names the class of what it raised.
        UsageError: the target has another form.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise UsageError(
            "target: must be MODULE:OBJECT, such as 'shop:tools'; shop.py in this folder is the module 'shop'"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module)
    except ForbearError:
        raise
    except (Exception, SystemExit) as error:
        # A script without a guard leaves with its own text.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise ConfigError(f"target: there is no module {missing!r}") from None
        raise ConfigError(f"target: importing {module!r} {_raised(error)}") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"target: module {module!r} has no {name!r}") from None
        except Exception as error:
            raise ConfigError(f"target: reading {target!r} {_raised(error)}") from error
    return found


def made_by(function: Callable[[], object], target: str) -> object:
    """Return what the function that a target names returns.

    Raises:
        ConfigError: it raised.
    """
    try:
        return function()
    except ForbearError:
        raise
    except Exception as error:
        raise ConfigError(f"target: calling {target.partition(':')[2]!r} {_raised(error)}") from error


def _raised(error: BaseException) -> str:
    """Say what the application's code raised, and where: never its text, which may hold anything."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"raised {type(error).__name__} at {Path(error.filename).name}:{error.lineno or '?'}"
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"raised {type(error).__name__}{at}"
