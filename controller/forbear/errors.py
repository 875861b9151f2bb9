"""Every exception that crosses forbear's edge lives here; decisions about calls are values and never live here."""

from __future__ import annotations

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


class Refused(Exception):
    """Raised by a tool to speak the contract from Python: a tool's word for "no", not an error of ours.

    Args:
        code: A catalogue code in ``UPPER_SNAKE`` form.
        **fields: Fields of the contract's ``error`` object (``recovery``, ``reset_at``, ``invalid_fields``, ...).

    Example:
        >>> raise Refused("DESK_FROZEN_BY_OWNER", constraint="desk_status")  # doctest: +SKIP
    """

    def __init__(self, code: str, /, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields = fields
