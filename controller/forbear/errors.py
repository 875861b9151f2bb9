"""Every exception that crosses forbear's edge lives here; decisions about calls are values and never live here."""

from __future__ import annotations

from datetime import datetime

__all__ = [
    "ConfigError",
    "ContractError",
    "ForbearError",
    "NotOperator",
    "Refused",
    "RunHalted",
    "SchemaTooNew",
    "StaleWrite",
    "StoreError",
    "UsageError",
]


class ForbearError(Exception):
    """Base of the errors that forbear raises for misuse or broken infrastructure."""


class UsageError(ForbearError):
    """The caller used the API wrongly: the message names the argument and the rule. Nothing was executed or stored."""


class ConfigError(UsageError):
    """A policy, limit or catalogue entry is wrong: the message names the field and the rule."""


class ContractError(ForbearError):
    """A text that should be in the contract's form is not: the message names the field and the rule, never a value."""


class StoreError(ForbearError):
    """The store cannot be opened, read or written. A governed call does not run when this is raised."""


class StaleWrite(StoreError):
    """Another writer committed first: reload and decide again. Raised by stores, handled by the runtime."""


class SchemaTooNew(StoreError):
    """The database was written by a newer release of forbear; it was not touched."""


class NotOperator(ForbearError):
    """The store has an operator token, and what only an operator may do was tried without it. Nothing was changed."""


class RunHalted(ForbearError):
    """The run's tool use is over (opt-in: only raised where an adapter was asked to raise it)."""


_RECOVERIES = frozenset(
    {
        "do_not_retry",
        "retry_after",
        "repair_input",
        "request_approval",
        "inspect_outcome",
        "use_alternative",
        # Words of the second dialect.
        "retry_after_delay",
        "stop_and_report",
    }
)


def _check_refusal(code: object, fields: dict[str, object]) -> None:
    """Reject what a tool's author mistyped: read as unknown, it would be obeyed as something else."""
    if not isinstance(code, str) or not code.isascii() or not code.replace("_", "A").isalnum() or code != code.upper():
        raise UsageError("Refused: the code must be UPPER_SNAKE, such as 'DESK_FROZEN'")
    recovery = fields.get("recovery")
    if recovery is not None and recovery not in _RECOVERIES:
        raise UsageError(f"Refused {code!r}: recovery must be one of {', '.join(sorted(_RECOVERIES)[:6])}, …")
    for name in ("reset_at", "retry_at"):
        at = fields.get(name)
        if isinstance(at, datetime) and at.tzinfo is None:
            raise UsageError(f"Refused {code!r}: {name} must be timezone-aware")
        if at is not None and not isinstance(at, datetime) and not (isinstance(at, str) and _names_an_instant(at)):
            raise UsageError(f"Refused {code!r}: {name} must be an aware datetime or RFC 3339 text with a zone")


def _names_an_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


class Refused(Exception):
    """Raised by a tool to speak the contract from Python: a tool's word for "no", not an error of ours.

    Args:
        code: A catalogue code in ``UPPER_SNAKE`` form.
        **fields: Fields of the contract's ``error`` object (``recovery``, ``reset_at``, ``invalid_fields``, ...).

    Raises:
        UsageError: the code is not ``UPPER_SNAKE``, the class is not one of the six, or a time names no instant.

    Example:
        >>> raise Refused("DESK_FROZEN_BY_OWNER", constraint="desk_status")  # doctest: +SKIP
    """

    def __init__(self, code: str, /, **fields: object) -> None:
        _check_refusal(code, fields)
        super().__init__(code)
        self.code = code
        self.fields = fields
