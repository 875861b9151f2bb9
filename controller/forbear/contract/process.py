"""Judge how a program ended: exit status, signal, time-out, and what is known of the connection that carried it.

Measured with real programs and a real sshd (docs/reference/programs.md). What a program printed is never read, except by
the author's own text rules.
"""

from __future__ import annotations

from subprocess import CalledProcessError, TimeoutExpired
from typing import Final, cast

from forbear.contract import findings as f
from forbear.contract.body import is_empty, text_of
from forbear.contract.case import Case
from forbear.contract.findings import found
from forbear.contract.raw import Process
from forbear.contract.rules import answered_error, by_text
from forbear.core.values import Envelope
from forbear.core.vocabulary import Outcome, Recovery

# What `timeout` exits with when it ended the program, and ssh for every failure of its own.
_TIMED_OUT: Final = 124
_CARRIER_FAILED: Final = 255
# A shell exits with this and the signal's number where its command was ended by one.
_BY_SIGNAL: Final = range(129, 193)
# Programs that run a command elsewhere, by file name.
_CARRIERS: Final = frozenset({"ssh", "scp", "sftp", "rsync", "autossh", "mosh", "plink"})


def classify_process(end: Process, case: Case) -> Envelope:
    """Return what the end of a program means."""
    if end.started is False:
        return found(Recovery.DO_NOT_RETRY, "TOOL_MISCONFIGURED", outcome=Outcome.FAILED)
    status = end.exit_status
    if end.identity_accepted is False and status != 0:
        return found(Recovery.DO_NOT_RETRY, "IDENTITY_UNVERIFIED")
    failed = status == _CARRIER_FAILED and end.carrier is not False
    if end.timed_out or end.signal is not None or status is None or failed:
        if end.session is False:
            # The connection never came so far that a command could begin.
            return found(
                Recovery.RETRY_AFTER, "NOT_SENT", outcome=Outcome.FAILED, temporary=True, not_accepted=True
            )  # fmt: skip
        outcome = Outcome.TIMEOUT if end.timed_out else Outcome.UNKNOWN
        return f.no_answer(case.effect, may_repeat=case.may_repeat, outcome=outcome)
    ruled = by_text(case, text_of(end.output), end.output)
    if ruled is not None:
        return ruled
    if status == 0:
        nothing = end.output in (None, "", b"") or is_empty(end.output)
        return f.EMPTY if nothing and not case.writes else f.SUCCESS
    if status == _TIMED_OUT or status in _BY_SIGNAL:
        outcome = Outcome.TIMEOUT if status == _TIMED_OUT else Outcome.UNKNOWN
        return f.no_answer(case.effect, may_repeat=case.may_repeat, outcome=outcome)
    return answered_error(case)


def process_error(error: BaseException) -> Process | None:
    """Return the end of a program that an exception stands for, or None. Its output and command stay unread.

    Of the command only the first word's file name is looked at, to know what its exit status means.
    """
    if isinstance(error, TimeoutExpired):
        return Process(timed_out=True, carrier=_carrier(cast("object", error.cmd)))
    if isinstance(error, CalledProcessError):
        return ended(error.returncode, carrier=_carrier(cast("object", error.cmd)))
    if type(error).__module__.partition(".")[0] == "asyncssh" and type(error).__name__ == "ProcessError":
        # The library tells the command's end apart from its own; without a status the connection was lost.
        status, by = getattr(error, "exit_status", None), getattr(error, "exit_signal", None)
        known = status if isinstance(status, int) and status >= 0 else None
        return Process(exit_status=known, signal=0 if by else None, carrier=False)
    return None


def ended(returncode: int | None, *, carrier: bool | None = None, output: object = "") -> Process:
    """Return the end of a program by the return code of `subprocess` or `asyncio`: negative = ended by that signal.

    Args:
        returncode: The code; None = the program did not end.
        carrier: The program runs a command elsewhere (ssh), so that its 255 is its own failure; None = not known.
        output: What it printed as its result.
    """
    if returncode is not None and returncode < 0:
        return Process(signal=-returncode, carrier=carrier, output=output)
    return Process(exit_status=returncode, carrier=carrier, output=output)


def _carrier(command: object) -> bool | None:
    """Tell whether a command runs another one elsewhere; None where it is a line for a shell."""
    first: object = cast("tuple[object, ...] | list[object]", command)[0] if _is_list(command) else None
    if isinstance(first, bytes):
        first = first.decode("ascii", "replace")
    return first.rpartition("/")[2] in _CARRIERS if isinstance(first, str) else None


def _is_list(command: object) -> bool:
    return isinstance(command, (list, tuple)) and len(cast("list[object]", command)) > 0
