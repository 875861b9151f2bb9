"""Every exception that crosses forbear's edge lives here; decisions about calls are values and never live here."""

from __future__ import annotations

import math
from datetime import datetime
from difflib import get_close_matches

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
    """Base of the errors that forbear raises for misuse or broken infrastructure.

    When: never itself; one of the kinds below is.

    Do: catch it where everything that forbear raises by itself is to be told apart from what tools raise.
    """


class UsageError(ForbearError):
    """The caller used the API wrongly: the message names the argument and the rule. Nothing was executed or stored.

    When: an argument is missing or has a wrong form; `call` is used on a running event loop; a tool has no executor; a run
    belongs to another tree; a ticket is unknown, answered already or has expired; a fingerprint is that of another call.

    Do: correct the call that the message names. An answer that came too late needs nothing: the ticket is over.
    """


class ConfigError(UsageError):
    """A policy, limit or catalogue entry is wrong: the message names the field and the rule, and the file if there is one.

    When: tools are declared, bound or governed, a policy file or a catalogue is loaded, a controller is opened, an adapter
    is built; and at the first call of a write whose `inspect` names a tool that is not declared as a read.

    Do: correct the field; where a known name is near, the message says which. `forbear doctor --policy FILE` finds more.
    """


class ContractError(ForbearError):
    """A text that should be in the contract's form is not: the message names the field and the rule, never a value.

    When: an envelope is read (`forbear.contract.read_envelope`, test vectors), above all in strict mode. Never in a
    governed call: there a result that is not in the form is classified.

    Do: correct the tool that wrote it; `forbear schema envelope` prints the form.
    """


class StoreError(ForbearError):
    """The store cannot be opened, read or written. A governed call does not run when this is raised.

    When: the disk is full, the file or its folder cannot be written, it is no database of forbear, or the store is closed.
    If a tool had run already, its end is committed before the next decision about its run.

    Do: make the store usable again; nothing is lost, and the same call may be proposed again. With `on_broken="block"` a
    call answers `CONTROLLER_BROKEN` instead, and observers get `forbear.broken`.
    """


class StaleWrite(StoreError):
    """Another writer committed first: reload and decide again. Raised by stores, handled by the runtime.

    When: two writers changed one run at the same time. Only who writes a store of their own sees it.

    Do: nothing; the controller reads again and decides again.
    """


class SchemaTooNew(StoreError):
    """The database was written by a newer release of forbear; it was not touched.

    When: a store is opened, also by a command.

    Do: use the newer release, or another store. There is no way back to an older form.
    """


class NotOperator(ForbearError):
    """The store has an operator token, and what only an operator may do was tried without it. Nothing was changed.

    When: a person's answer is given (approve, deny, revise, edit, resolve, lift), by `Operator`, a command or a resumed
    graph, or evidence is asked for, with no token or another one. The journal says that it was tried.

    Do: pass the token that `forbear init` printed: `Operator(..., token=...)`, `FORBEAR_TOKEN`, and in a graph
    `operator=Operator(controller, token=...)`. Keep it where the agent cannot read it.
    """


class RunHalted(ForbearError):
    """The run's tool use is over (opt-in: only raised where an adapter was asked to raise it).

    When: `on_halt="raise"` was asked for, and a call was answered `halted`. The message is the text for the person.

    Do: show it to the person. A new human message, or `forbear lift --run RUN`, lets the run go on.
    """


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

# What `Refused` takes: fields of the contract's `error` object, their other names, and what stands beside it.
_FIELDS = (
    "recovery constraint limit remaining reset_at retry_after_seconds invalid_fields precondition alternative_tools "
    "required_permission approval_url http_status operation safe_message effects_before_failure "
    "action retry_at field_errors message outcome executed"
).split()


def _check_refusal(code: object, fields: dict[str, object]) -> None:
    """Reject what a tool's author mistyped: read as unknown, it would be obeyed as something else."""
    if not isinstance(code, str) or not code.isascii() or not code.replace("_", "A").isalnum() or code != code.upper():
        raise UsageError("Refused: the code must be UPPER_SNAKE, such as 'DESK_FROZEN'")
    for name in fields:
        if name not in _FIELDS:
            near = get_close_matches(name, _FIELDS, n=1, cutoff=0.5)
            hint = f"; nearest is {near[0]!r}" if near else ""
            raise UsageError(f"Refused {code!r}: field {name!r} is not known{hint}")
    recovery = fields.get("recovery", fields.get("action"))
    if recovery is not None and recovery not in _RECOVERIES:
        raise UsageError(f"Refused {code!r}: recovery must be one of {', '.join(sorted(_RECOVERIES)[:6])}, …")
    for name in ("reset_at", "retry_at"):
        at = fields.get(name)
        if isinstance(at, datetime) and at.tzinfo is None:
            raise UsageError(f"Refused {code!r}: {name} must be timezone-aware")
        if at is not None and not isinstance(at, datetime) and not (isinstance(at, str) and _names_an_instant(at)):
            raise UsageError(f"Refused {code!r}: {name} must be an aware datetime or RFC 3339 text with a zone")
    seconds = fields.get("retry_after_seconds")
    if seconds is not None and not _is_a_delay(seconds):
        raise UsageError(f"Refused {code!r}: retry_after_seconds must be a number of seconds, 0 or more")


def _is_a_delay(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _names_an_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


class Refused(Exception):
    """Raised by a tool to speak the contract from Python: a tool's word for "no", not an error of ours.

    When: your tools raise it, with a code of the catalogue and what is known about the way on.

    Do: let it go through; the controller around the tool answers the call. It reaches a caller only where no controller
    stands around the tool.

    Fields: `recovery` (without it the class that the catalogue gives the code, else `do_not_retry`), `reset_at` (an aware
    datetime or RFC 3339 text), `retry_after_seconds`, `invalid_fields` (names), `constraint`, `limit`, `remaining`,
    `precondition` (`{"tool": …, "args": {…}}`), `alternative_tools`, `required_permission`, `approval_url`, `http_status`,
    `operation`, `safe_message`, `effects_before_failure`; `outcome` and `executed` ("no", "yes", "unknown"). Another one is a
    `UsageError`. What the policy does not allow is not shown.

    Args:
        code: A catalogue code in ``UPPER_SNAKE`` form.
        **fields: Fields of the contract's ``error`` object, by name.

    Raises:
        UsageError: the code is not ``UPPER_SNAKE``, a field is not known, the class is not one of the six, a time names
            no instant, or a delay is no number of seconds.

    Example:
        >>> raise Refused("DESK_FROZEN_BY_OWNER", constraint="desk_status")  # doctest: +SKIP
    """

    def __init__(self, code: str, /, **fields: object) -> None:
        _check_refusal(code, fields)
        super().__init__(code)
        self.code = code
        self.fields = fields
