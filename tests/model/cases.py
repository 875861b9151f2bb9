"""The small worlds that are explored: one case for each family of policies, so that each stays small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from forbear.core.policy import EmptyRetry, IdempotencyKey, Inspection, Limits, Poll, ToolPolicy
from forbear.core.values import Call
from forbear.core.vocabulary import Effect, Mode, Scope, Trust
from tests.model.calls import ALLOW, ALWAYS, ASK, CHILD, DENY, DOWN, LOOSE, Case, call

DESK = (("desk", "desk"),)
WRITE = ToolPolicy(name="order", effect=Effect.WRITE, repeatable=False, operation="trade", target=DESK)
ALIAS = replace(WRITE, name="alias")
PLAIN = ToolPolicy(name="order", effect=Effect.WRITE, operation="trade")
READ = ToolPolicy(name="look", effect=Effect.READ)
BARE = ToolPolicy(name="bare")


def _words(*names: str) -> frozenset[str]:
    return frozenset(names)


def _calls(**made: Call) -> dict[str, Call]:
    return made


def _cases() -> Iterable[Case]:
    yield from _refusals()
    yield from _waits()
    yield from _doubts()
    yield from _repairs()
    yield from _approvals()
    yield from _records()
    yield from _bounds()


A1 = {"desk": "a", "size": 1}
A2 = {"desk": "a", "size": 2}
C1 = {"desk": "c", "size": 1}


def _refusals() -> Iterable[Case]:
    yield Case(
        name="refusal",
        about="a declared write with a target, and its alias on the same target",
        tools=(WRITE, ALIAS),
        calls=_calls(A=call(WRITE, A1), B=call(ALIAS, A2)),
        results={"": ("ok", "refused", "alternative")},
        also=_words("turns", "lifts"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="refusal-other",
        about="a refusal on one target leaves another target alone; three in a row of one code close the operation",
        tools=(replace(WRITE, repeatable=None, limits=Limits(max_refusals=2)),),
        calls=_calls(A=call(WRITE, A1), C=call(WRITE, C1)),
        results={"": ("ok", "refused", "denied")},
        also=_words("turns", "lost"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="refusal-until",
        about="refusals that name their end, and one whose constraint is declared for the operation",
        tools=(replace(WRITE, constraints={"desk_status": Scope.OPERATION}),),
        calls=_calls(A=call(WRITE, A1), C=call(WRITE, C1)),
        results={"": ("ok", "refused-until", "refused-desk")},
        also=_words("turns", "ticks"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="refusal-shared",
        about="a locked vault closes the principal for an owned tool, and a read of a remote one only itself",
        tools=(
            WRITE,
            replace(READ, trust=Trust.REMOTE, constraints={"desk_status": Scope.PRINCIPAL}),
        ),
        calls=_calls(A=call(WRITE, A1), R=call(READ, {"desk": "a"})),
        results={"A": ("ok", "vault"), "R": ("ok", "vault", "refused-desk")},
        also=_words("turns", "leap", "lost"),
        attempts=2,
        starts=3,
        memory=timedelta(hours=2),
    )
    yield Case(
        name="undeclared",
        about="a tool that nobody labelled: nothing wider than the exact call is held",
        tools=(BARE,),
        calls=_calls(A=call(BARE, {"size": 1}), B=call(BARE, {"size": 2})),
        results={"": ("ok", "refused", "unknown", "wait")},
        also=_words("turns", "lost"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="probe",
        about="the one probe of a new turn may be refused, wait, ask, be lost, be cancelled or be interrupted",
        tools=(replace(READ, operation="look", target=DESK),),
        calls=_calls(A=call(replace(READ, target=DESK), {"desk": "a"})),
        results={"": ("ok", "refused", "wait-no-reset", "asks", "repair")},
        also=_words("turns", "lost", "cancel", "framework", "people"),
        attempts=3,
    )


def _waits() -> Iterable[Case]:
    yield Case(
        name="retry",
        about="a declared write refused until a time, and another call on its target",
        tools=(WRITE,),
        calls=_calls(A=call(WRITE, A1), B=call(WRITE, A2)),
        results={"": ("ok", "wait", "refused")},
        also=_words("turns", "ticks", "cancel", "lost"),
        attempts=3,
        starts=3,
    )
    yield Case(
        name="retry-child",
        about="the same waiting call of a child run, an operator, and late results",
        tools=(WRITE,),
        calls=_calls(A=call(WRITE, A1), cA=call(WRITE, A1, run=CHILD)),
        results={"": ("ok", "wait", "wait-far", "wait-no-reset")},
        also=_words("turns", "ticks", "lifts", "hostile"),
        attempts=3,
    )
    yield Case(
        name="retry-unattended",
        about="a write that waited long while the human spoke is offered again; a read runs",
        tools=(WRITE, READ),
        calls=_calls(A=call(WRITE, A1), R=call(READ, {"desk": "a"})),
        results={"": ("ok", "wait")},
        also=_words("turns", "leap"),
        attempts=2,
        memory=timedelta(hours=2),
    )
    yield Case(
        name="retry-quota",
        about="two reads and a write share a quota; the tool is owned",
        tools=(READ, WRITE),
        calls=_calls(
            R=call(READ, {"desk": "a"}, quota="q"),
            S=call(READ, {"desk": "b"}, quota="q"),
            A=call(WRITE, A1, quota="q"),
        ),
        results={"": ("ok", "wait")},
        also=_words("lost"),
        attempts=2,
        starts=4,
    )
    yield Case(
        name="retry-remote",
        about="a remote tool whose code the policy does not list closes no shared quota",
        tools=(
            replace(READ, trust=Trust.REMOTE),
            replace(READ, name="listed", trust=Trust.REMOTE, shared_codes=("RATE_LIMITED",)),
        ),
        calls=_calls(
            R=call(READ, {"desk": "a"}, quota="q"),
            L=call(replace(READ, name="listed"), {"desk": "a"}, quota="q"),
        ),
        results={"": ("ok", "wait")},
        attempts=2,
        also=_words("cancel"),
    )
    yield Case(
        name="retry-operation",
        about="writes without a target: the second different call that one code refuses closes the operation",
        tools=(PLAIN, replace(READ, operation="trade")),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2), R=call(replace(READ, operation="trade"), {"desk": "a"})),
        results={"": ("ok", "wait"), "R": ("ok", "wait-down")},
        also=_words("turns"),
        attempts=3,
        starts=4,
    )
    yield Case(
        name="retry-temporary",
        about="temporary failures: a read has two retries, a call that was never accepted is due when it reconnects",
        tools=(READ, PLAIN),
        calls=_calls(R=call(READ, {"desk": "a"}), A=call(PLAIN, A1)),
        results={"": ("ok", "wait-down", "wait-no-reset"), "A": ("wait-down", "wait-unsure", "wait-partly")},
        also=_words("ticks", "reconnect"),
        attempts=4,
        starts=5,
    )
    yield Case(
        name="retry-none",
        about="never wait without a named time, and no retry at all",
        tools=(replace(WRITE, limits=Limits(on_unknown_reset="stop", max_retries=0)),),
        calls=_calls(A=call(WRITE, A1)),
        results={"": ("ok", "wait", "wait-no-reset")},
        also=_words("turns"),
        attempts=3,
    )
    yield Case(
        name="parallel",
        about="a read with several open attempts, one of which is refused, waits, asks, or comes back empty",
        tools=(replace(READ, empty_means="unknown"),),
        calls=_calls(R=call(READ, {"desk": "a"}), cR=call(READ, {"desk": "a"}, run=CHILD)),
        results={"": ("ok", "empty", "wait", "refused", "repair", "asks")},
        also=_words("lost", "cancel"),
        attempts=3,
    )
    yield Case(
        name="parallel-write",
        about="a write that may be repeated, gated by a rule, with several open attempts",
        tools=(replace(PLAIN, repeatable=True),),
        calls=_calls(A=call(PLAIN, A1)),
        verdicts={"A": (ALLOW, ASK, DENY)},
        results={"": ("ok", "wait-unsure", "unknown", "asks")},
        also=_words("cancel", "framework", "people", "inspect"),
        attempts=3,
    )


def _doubts() -> Iterable[Case]:
    yield Case(
        name="unknown",
        about="an unknown write, its alias on the same target, and a read of the same operation",
        tools=(replace(WRITE, inspect=Inspection(tool="look"), limits=Limits(inspect_attempts=2)), ALIAS, READ),
        calls=_calls(A=call(WRITE, A1), B=call(ALIAS, A2)),
        results={"A": ("ok", "unknown", "refused"), "B": ("ok", "unknown")},
        also=_words("lost", "cancel", "inspect", "ticks", "turns"),
        attempts=2,
        starts=2,
        memory=timedelta(seconds=10),
    )
    yield Case(
        name="unknown-wide",
        about="an unknown write without a target closes the operation's writes; refused and partly done writes may be one",
        tools=(PLAIN, replace(READ, operation="trade")),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2), R=call(replace(READ, operation="trade"), {"desk": "a"})),
        results={
            "": ("ok", "unknown"),
            "B": ("refused-unsure", "repair-unsure", "wait-partly", "partly", "wait-unsure"),
            "R": ("ok", "unknown"),
        },
        also=_words("turns", "lifts", "hostile"),
        attempts=2,
        starts=3,
        memory=timedelta(seconds=10),
    )
    yield Case(
        name="unknown-key",
        about="an unknown write may be repeated once with the same idempotency key",
        tools=(
            replace(
                WRITE,
                idempotency_key=IdempotencyKey(argument="key", valid_for=timedelta(hours=1)),
                inspect=Inspection(tool="look"),
                limits=Limits(inspect_attempts=2),
            ),
        ),
        calls=_calls(A=call(WRITE, A1), B=call(WRITE, A2)),
        verdicts={"A": (ALLOW, ASK)},
        results={"A": ("ok", "unknown", "wait", "refused"), "B": ("ok", "unknown")},
        also=_words("lost", "inspect", "leap", "cancel", "framework"),
        attempts=3,
        starts=3,
        memory=timedelta(hours=2),
    )
    yield Case(
        name="unknown-key-only",
        about="a key and no check: after the repetition a person is told",
        tools=(replace(WRITE, idempotency_key=IdempotencyKey(argument="key"), limits=Limits(inspect_attempts=1)),),
        calls=_calls(A=call(WRITE, A1), cA=call(WRITE, A1, run=CHILD)),
        results={"": ("ok", "unknown")},
        also=_words("inspect", "resume", "hostile", "turns"),
        attempts=3,
        memory=timedelta(seconds=10),
    )


def _repairs() -> Iterable[Case]:
    yield Case(
        name="repair",
        about="named fields: the same field on the same target is not repaired by other words",
        tools=(replace(WRITE, limits=Limits(max_repairs=2)),),
        calls=_calls(
            A=call(WRITE, {**A1, "memo": "x"}),
            B=call(WRITE, {**A1, "memo": "y"}),
            C=call(WRITE, A2),
        ),
        results={"": ("ok", "repair-size")},
        also=_words("turns", "lifts"),
        attempts=2,
        starts=4,
    )
    yield Case(
        name="repair-unnamed",
        about="no named field: another completed write may have repaired it; the same input is bounded",
        tools=(
            replace(PLAIN, limits=Limits(max_repairs=3, max_same_results=2)),
            replace(PLAIN, name="other", operation="other"),
        ),
        calls=_calls(A=call(PLAIN, A1), W=call(replace(PLAIN, name="other", operation="other"), A1)),
        results={"": ("ok", "repair"), "W": ("ok",)},
        also=_words("turns"),
        attempts=3,
        starts=5,
    )
    yield Case(
        name="repair-first",
        about="a precondition: met when that call completed in this run",
        tools=(WRITE, replace(READ, name="prepare")),
        calls=_calls(
            A=call(WRITE, A1),
            P=call(replace(READ, name="prepare"), {"desk": "a"}),
            cP=call(replace(READ, name="prepare"), {"desk": "a"}, run=CHILD),
        ),
        results={"": ("ok", "repair-first"), "P": ("ok",), "cP": ("ok",)},
        also=_words("turns"),
        attempts=2,
        starts=4,
    )


def _approvals() -> Iterable[Case]:
    gated = replace(WRITE, approval="always")
    yield Case(
        name="approval",
        about="a call that a person must approve always; a child's equal call; hostile answers",
        tools=(gated,),
        calls=_calls(A=call(gated, A1), cA=call(gated, A1, run=CHILD)),
        verdicts={"A": (ALWAYS,), "cA": (ALWAYS,)},
        results={"": ("ok", "wait", "wait-unsure")},
        also=_words("people", "turns", "hostile", "cancel", "lost", "reproposes", "revise"),
        attempts=2,
    )
    yield Case(
        name="approval-target",
        about="two gated calls, one prompt at a time: after a no nobody is asked again in this turn",
        tools=(replace(gated, limits=Limits(max_prompts=1, max_open_prompts=1)),),
        calls=_calls(A=call(gated, A1), B=call(gated, C1)),
        verdicts={"A": (ALWAYS,), "B": (ALWAYS,)},
        results={"": ("ok", "refused")},
        also=_words("people", "turns", "lifts"),
        attempts=2,
        starts=3,
    )
    again = replace(PLAIN, repeatable=True)
    yield Case(
        name="approval-repeat",
        about="a gated write that may be repeated: what becomes of the yes when the call must wait",
        tools=(again,),
        calls=_calls(A=call(again, A1), cA=call(again, A1, run=CHILD)),
        verdicts={"A": (ALWAYS,), "cA": (ALWAYS,)},
        results={"": ("wait", "wait-unsure")},
        also=_words("people", "leap"),
        attempts=2,
    )
    yield Case(
        name="approval-rule",
        about="a rule that allows, asks, denies, or is down",
        tools=(replace(PLAIN, limits=Limits(max_prompts=2)),),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2)),
        verdicts={"A": (ASK, DENY), "B": (ALLOW, ASK, DOWN)},
        results={"": ("ok",)},
        also=_words("people", "turns"),
        attempts=1,
        starts=2,
    )
    yield Case(
        name="approval-down",
        about="a checker that stays down: asked about, where the policy says so",
        tools=(replace(PLAIN, limits=Limits(on_checker_down="ask")),),
        calls=_calls(A=call(PLAIN, A1)),
        verdicts={"A": (ALLOW, DOWN, DENY)},
        results={"": ("ok", "wait")},
        also=_words("people", "turns", "ticks"),
        attempts=2,
    )
    yield Case(
        name="approval-nobody",
        about="nobody can answer",
        tools=(PLAIN,),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2)),
        verdicts={"A": (ASK,)},
        results={"": ("ok", "asks")},
        also=_words("turns", "lifts"),
        attempts=2,
        has_approver=False,
    )
    yield Case(
        name="approval-bare",
        about="undeclared calls behind a rule without a name: two noes in a row and the operation asks nobody",
        tools=(replace(BARE, operation="bare"),),
        calls=_calls(A=call(BARE, {"size": 1}), B=call(BARE, {"size": 2}), C=call(BARE, {"size": 3})),
        verdicts={"A": (ALWAYS,), "B": (ALWAYS,), "C": (ALWAYS, ALLOW)},
        results={"": ("ok",)},
        also=_words("people", "turns", "lifts"),
        attempts=1,
        starts=1,
    )
    yield Case(
        name="approval-tool",
        about="the tool itself asks for approval, once per turn; prompts are bounded",
        tools=(replace(PLAIN, limits=Limits(max_open_prompts=1)),),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2)),
        results={"": ("ok", "asks")},
        also=_words("people", "turns", "cancel"),
        attempts=3,
        starts=4,
    )
    yield Case(
        name="approval-framework",
        about="the tool raises the framework's own interrupt, and the framework proposes the call again",
        tools=(PLAIN,),
        calls=_calls(A=call(PLAIN, A1)),
        verdicts={"A": (ALLOW, ASK)},
        results={"": ("ok", "refused")},
        also=_words("framework", "people", "turns", "cancel", "hostile"),
        attempts=3,
    )
    gates = replace(gated, ignore=("memo",))
    yield Case(
        name="approval-edit",
        about="a person edits the call: same action in other words, another call, another tool",
        tools=(gates, replace(PLAIN, name="other", operation="other")),
        calls=_calls(
            A=call(gates, {**A1, "memo": "x"}),
            M=call(gates, {**A1, "memo": "y"}),
            B=call(gates, A2),
            O=call(replace(PLAIN, name="other", operation="other"), A1),
        ),
        verdicts={"A": (ALWAYS,), "M": (ALWAYS,), "B": (ALWAYS,)},
        results={"": ("ok", "unknown")},
        also=_words("people", "edit", "turns"),
        attempts=1,
        starts=2,
    )
    yield Case(
        name="approval-edit-wait",
        about="a person edits a call into one that waits already",
        tools=(WRITE,),
        calls=_calls(A=call(WRITE, A1), B=call(WRITE, A2)),
        verdicts={"A": (ALWAYS,)},
        results={"": ("ok", "wait")},
        also=_words("people", "edit", "leap"),
        attempts=2,
        starts=3,
    )

    yield Case(
        name="hostile",
        about="every event in every phase: late, duplicate, spurious and forged ones",
        tools=(replace(gated, limits=Limits(max_repairs=2)),),
        calls=_calls(A=call(gated, A1), B=call(gated, A2)),
        verdicts={"A": (ALLOW, ALWAYS)},
        results={"": ("ok", "wait", "repair", "refused", "unknown")},
        also=_words(
            "people", "framework", "lost", "cancel", "inspect", "reconnect", "revise", "edit", "hostile", "leap"
        ),
        attempts=2,
        starts=2,
    )

    polled = replace(READ, poll=Poll(status_field="status", pending=("open",)))
    yield Case(
        name="hostile-kept",
        about="the same events while a call is kept for later",
        tools=(polled,),
        calls=_calls(R=call(polled, {"desk": "a"})),
        verdicts={"R": (ALLOW, ALWAYS)},
        results={"": ("ok",)},
        also=_words(
            "people", "framework", "lost", "cancel", "inspect", "reconnect", "revise", "edit", "hostile", "poll"
        ),
        attempts=2,
        memory=timedelta(seconds=1),
    )


def _records() -> Iterable[Case]:
    yield Case(
        name="once",
        about="a write that is declared not repeatable is delivered from the record until the turn or another write",
        tools=(WRITE,),
        calls=_calls(A=call(WRITE, A1), B=call(WRITE, A2), cA=call(WRITE, A1, run=CHILD)),
        results={"": ("ok", "satisfied")},
        also=_words("turns", "restart"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="resume",
        about="the framework runs a step again with the same ids; a run starts again from its beginning",
        tools=(replace(WRITE, repeatable=True), replace(BARE, repeatable=None)),
        calls=_calls(A=call(WRITE, A1), U=call(BARE, {"size": 1})),
        results={"": ("ok", "unknown", "repair")},
        also=_words("resume", "restart", "lost", "turns", "inspect"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="batch",
        about="equal calls of one step share one execution",
        tools=(PLAIN, READ),
        calls=_calls(A=call(PLAIN, A1), R=call(READ, {"desk": "a"})),
        results={"": ("ok", "refused")},
        also=_words("batch"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="poll",
        about="looks at something that is not finished: parked until the interval, then delivered from the record",
        tools=(replace(READ, poll=Poll(status_field="status", pending=("open",))), PLAIN),
        calls=_calls(R=call(READ, {"desk": "a"}), A=call(PLAIN, A1)),
        results={"": ("ok",), "R": ("ok", "refused")},
        also=_words("poll", "turns", "ticks", "cancel"),
        attempts=3,
        starts=4,
        memory=timedelta(seconds=1),
    )
    yield Case(
        name="replay",
        about="an equal read is delivered from the record so many times, then it is no progress",
        tools=(replace(READ, limits=Limits(replay_completed=2)), PLAIN),
        calls=_calls(R=call(READ, {"desk": "a"}), A=call(PLAIN, A1)),
        results={"": ("ok",)},
        also=_words("turns", "lifts"),
        attempts=3,
        starts=4,
    )
    yield Case(
        name="empty",
        about="an empty answer that may be a throttle is looked at once more",
        tools=(replace(READ, empty_means="unknown"), replace(READ, name="plain")),
        calls=_calls(R=call(READ, {"desk": "a"}), E=call(replace(READ, name="plain"), {"desk": "a"})),
        results={"": ("ok", "empty")},
        also=_words("turns", "ticks", "cancel"),
        attempts=3,
        starts=4,
    )
    yield Case(
        name="progress",
        about="equal results with nothing between them are no progress; a write in between is one",
        tools=(replace(READ, limits=Limits(max_same_results=2)), replace(PLAIN, limits=Limits(max_same_results=2))),
        calls=_calls(R=call(READ, {"desk": "a"}), A=call(PLAIN, A1)),
        results={"": ("ok",)},
        also=_words("turns", "digest"),
        attempts=4,
        starts=5,
    )


def _bounds() -> Iterable[Case]:
    yield Case(
        name="steps",
        about="blocked and idle steps end a run's tool use; a result that becomes ready ends a wait",
        tools=(WRITE, READ),
        calls=_calls(
            A=call(WRITE, A1),
            R=call(READ, {"desk": "a"}),
            X=call(WRITE, A2, malformed="INPUT_INVALID"),
        ),
        results={"": ("ok",), "A": ("wait", "refused")},
        limits=Limits(max_blocked_steps=3, max_idle_steps=4, max_blocked_per_turn=5),
        also=_words("turns", "lifts"),
        attempts=2,
        starts=3,
    )
    yield Case(
        name="steps-two",
        about="steps of two calls count once",
        tools=(WRITE, READ),
        calls=_calls(A=call(WRITE, A1), R=call(READ, {"desk": "a"})),
        results={"": ("ok",), "A": ("refused",)},
        limits=Limits(max_blocked_steps=2, max_idle_steps=3, max_blocked_per_turn=4),
        also=_words("batch"),
        attempts=1,
        starts=2,
    )
    yield Case(
        name="waiting-halt",
        about="a run that only waits for a person is halted, and the answer ends that",
        tools=(replace(WRITE, approval="always"),),
        calls=_calls(A=call(WRITE, A1), cA=call(WRITE, A1, run=CHILD)),
        verdicts={"A": (ALWAYS,), "cA": (ALWAYS,)},
        results={"": ("ok",)},
        limits=Limits(max_blocked_steps=2, max_idle_steps=2),
        also=_words("people", "revise", "leap"),
        attempts=1,
    )
    yield Case(
        name="forced",
        about="a forced call that is held ends the run's tool use",
        tools=(WRITE,),
        calls=_calls(A=call(WRITE, A1, forced=True), B=call(WRITE, A2)),
        results={"": ("ok", "refused")},
        also=_words("turns", "lifts"),
        attempts=1,
        starts=2,
    )
    whole = replace(LOOSE, max_calls_per_turn=1, max_calls_per_run=2)
    yield Case(
        name="budget",
        about="calls of a run and of a turn are bounded",
        tools=(READ, PLAIN),
        calls=_calls(R=call(READ, {"desk": "a"}), A=call(PLAIN, A1)),
        results={"": ("ok", "wait")},
        limits=whole,
        also=_words("turns", "lifts"),
        attempts=3,
    )
    yield Case(
        name="budget-tool",
        about="calls of an operation are bounded in a turn and in a run",
        tools=(replace(PLAIN, limits=Limits(max_calls_per_turn=1, max_calls_per_run=2)),),
        calls=_calls(A=call(PLAIN, A1), B=call(PLAIN, A2)),
        results={"": ("ok",)},
        also=_words("turns", "lifts"),
        attempts=3,
    )
    seen = replace(WRITE, mode=Mode.OBSERVE, inspect=Inspection(tool="look"))
    yield Case(
        name="observe",
        about="an observed tool beside an enforced one on the same target",
        tools=(seen, replace(ALIAS, mode=Mode.ENFORCE)),
        calls=_calls(A=call(seen, A1), B=call(ALIAS, A2)),
        verdicts={"A": (ALLOW, ALWAYS)},
        results={"": ("ok", "refused", "wait", "asks", "unknown")},
        limits=Limits(max_blocked_steps=2),
        also=_words("turns", "resume"),
        attempts=2,
        starts=3,
    )


CASES: tuple[Case, ...] = tuple(_cases())

__all__ = [
    "ALLOW",
    "ALWAYS",
    "ASK",
    "BARE",
    "CASES",
    "DENY",
    "DOWN",
    "LOOSE",
    "PLAIN",
    "READ",
    "EmptyRetry",
    "IdempotencyKey",
    "Inspection",
    "Limits",
    "Mode",
    "Poll",
    "Trust",
    "timedelta",
]
