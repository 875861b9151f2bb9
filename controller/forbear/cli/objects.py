"""Find the object that ``MODULE:OBJECT`` names. Importing the module is all that happens; what the object is, its user asks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from forbear.errors import ConfigError, UsageError


def find(target: str) -> object:
    """Return the object, looked for in the current folder, too.

    Raises:
        ConfigError: there is no such module or object, or reading it raised; the message names the class of what it raised.
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
            raise _raised("importing", module, error) from error
        raise ConfigError(f"target: there is no module {error.name!r}") from None
    except (Exception, SystemExit) as error:
        # A script without a guard leaves with its own text.
        raise _raised("importing", module, error) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"target: module {module!r} has no {name!r}") from None
        except Exception as error:
            raise _raised("reading", target, error) from error
    return found


def _raised(what: str, where: str, error: BaseException) -> ConfigError:
    return ConfigError(f"target: {what} {where!r} raised {type(error).__name__}")
