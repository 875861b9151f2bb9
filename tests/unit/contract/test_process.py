"""How programs end: real programs are run, and each way to end has its class. Nothing that they print is read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from forbear.contract import Process, Raised, ended, facts_of, tool_policy
from forbear.core.vocabulary import Executed, Outcome, Recovery

UNKNOWN, RETRY, STOP, REPAIR = (
    Recovery.INSPECT_OUTCOME,
    Recovery.RETRY_AFTER,
    Recovery.DO_NOT_RETRY,
    Recovery.REPAIR_INPUT,
)
SECRET = "PLANTED-SECRET-0001"

# command line; the return code that was measured; class for a read, for a write.
PROGRAMS: dict[str, tuple[list[str], int, Recovery | None, Recovery | None]] = {
    "success": (["true"], 0, None, None),
    "an error": (["false"], 1, REPAIR, REPAIR),
    "wrong usage": (["sh", "-c", "exit 2"], 2, REPAIR, REPAIR),
    "256 is 0": (["sh", "-c", "exit 256"], 0, None, None),
    "found, not executable": (["sh", "-c", "/etc/passwd"], 126, REPAIR, REPAIR),
    "not found": (["sh", "-c", "/no/such"], 127, REPAIR, REPAIR),
    "an exception of Python": ([sys.executable, "-c", "1/0"], 1, REPAIR, REPAIR),
    "killed": (["sh", "-c", "kill -9 $$"], -9, RETRY, UNKNOWN),
    "interrupted": (["sh", "-c", "kill -2 $$"], -2, RETRY, UNKNOWN),
    "killed under a shell": (["sh", "-c", "sh -c 'kill -9 $$'; exit $?"], 137, RETRY, UNKNOWN),
    "ended by timeout(1)": (["timeout", "0.1", "sleep", "60"], 124, RETRY, UNKNOWN),
    "-1, or ssh": (["sh", "-c", "exit 255"], 255, REPAIR, REPAIR),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_program(judge: Any, name: str) -> None:
    """The return code is what was measured, and a run that raises means the same as one that is handed over."""
    command, code, read, write = PROGRAMS[name]
    finished = subprocess.run(command, capture_output=True, check=False)
    assert finished.returncode == code
    end = ended(code, carrier=False, output="printed")
    assert judge(end).recovery is read
    assert judge(end, "write").recovery is write
    if code != 0:
        error = subprocess.CalledProcessError(code, command, output=SECRET, stderr=SECRET)
        assert judge(Raised(error, "in_tool"), "write") == judge(ended(code, carrier=False), "write")


def test_a_write_that_may_have_run_is_unknown(judge: Any) -> None:
    """Signals and time-outs say nothing about what a program had done; an exit status is its answer."""
    for end in (Process(signal=9), Process(timed_out=True), Process(), Process(exit_status=255)):
        assert (judge(end, "write").recovery, judge(end, "write").executed) == (UNKNOWN, Executed.UNKNOWN)
        assert judge(end).recovery is RETRY
    assert judge(Process(timed_out=True), "write").outcome is Outcome.TIMEOUT
    assert judge(Process(exit_status=1), tool_policy("t", effect="write", atomic=False)).recovery is UNKNOWN


def test_what_never_began_did_nothing(judge: Any) -> None:
    """A program that could not be started, a session that was not opened, a host that is another one: nothing ran."""
    missing = judge(Process(started=False), "write")
    assert (missing.recovery, missing.code, missing.executed) == (STOP, "TOOL_MISCONFIGURED", Executed.NO)
    for end in (
        Process(exit_status=255, carrier=True, session=False),
        Process(timed_out=True, carrier=True, session=False),
        Process(signal=15, carrier=True, session=False),
    ):
        closed = judge(end, "write")
        assert (closed.recovery, closed.code, closed.executed) == (RETRY, "NOT_SENT", Executed.NO)
    other = judge(Process(exit_status=255, carrier=True, session=False, identity_accepted=False), "write")
    assert (other.recovery, other.code, other.executed) == (STOP, "IDENTITY_UNVERIFIED", Executed.NO)


@pytest.mark.parametrize(
    ("command", "recovery"),
    [
        (["ssh", "host", "deploy"], UNKNOWN),
        (["/usr/bin/scp", "a", "b"], UNKNOWN),
        ([b"/usr/bin/ssh", b"host"], UNKNOWN),
        ("ssh host deploy", UNKNOWN),
        ([], UNKNOWN),
        (["make"], REPAIR),
    ],
)
def test_whose_255_it_is(judge: Any, command: Any, recovery: Recovery) -> None:
    """255 is ssh's own failure; of a program that is known to be another one it is an answer."""
    error = subprocess.CalledProcessError(255, command, output=SECRET)
    assert judge(Raised(error), "write").recovery is recovery


def test_the_end_of_its_time(judge: Any) -> None:
    """A time-out that subprocess raises is one of the program, and nothing that it printed is looked at."""
    envelope = judge(Raised(subprocess.TimeoutExpired(["deploy", SECRET], 5, output=SECRET)), "write")
    assert (envelope.recovery, envelope.outcome) == (UNKNOWN, Outcome.TIMEOUT)


def test_the_authors_own_rules_come_first(judge: Any) -> None:
    """A text rule reads what was printed as the result; an exception rule is asked before an exit status."""
    policy = tool_policy("t", effect="read", text_rules=[{"prefix": "0 matches", "outcome": "empty"}])
    assert judge(ended(1, carrier=False, output=b"0 matches"), policy).outcome is Outcome.EMPTY
    policy = tool_policy(
        "t",
        effect="write",
        exception_rules=[{"exception": "subprocess.CalledProcessError", "recovery": "do_not_retry"}],
    )
    assert judge(Raised(subprocess.CalledProcessError(1, ["x"])), policy).recovery is STOP


def test_nothing_printed_is_empty_for_a_read_only(judge: Any) -> None:
    """A read that prints nothing found nothing; a write that prints nothing was done."""
    for nothing in ("", b"", None):
        assert judge(ended(0, output=nothing)).outcome is Outcome.EMPTY
        assert judge(ended(0, output=nothing), "write").outcome is Outcome.SUCCESS


class ProcessError(Exception):
    """asyncssh's error, by name."""

    __module__ = "asyncssh.process"

    def __init__(self, status: int | None, by: tuple[str, bool, str, str] | None) -> None:
        super().__init__(SECRET)
        self.exit_status = status
        self.exit_signal = by


def test_asyncssh_tells_the_command_apart(judge: Any) -> None:
    """Its status is the command's own, 255 included; a signal, or no status at all, is unknown."""
    assert judge(Raised(ProcessError(255, None)), "write").recovery is REPAIR
    assert judge(Raised(ProcessError(-1, ("KILL", False, "", ""))), "write").recovery is UNKNOWN
    assert judge(Raised(ProcessError(None, None)), "write").recovery is UNKNOWN


def test_no_text_of_a_program_is_taken() -> None:
    """The facts of an exception about a program hold no word of its command or output."""
    facts = facts_of(Raised(subprocess.CalledProcessError(1, ["x", SECRET], output=SECRET, stderr=SECRET)))
    assert SECRET not in repr(facts)
