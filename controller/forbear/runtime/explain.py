"""What became of one request, in words: what happened, what holds now and what ends it, what was told, what a person can do.

It is read from the journal, which holds no arguments, and from the state as it stands. Nothing is decided or changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast

from forbear.audit.words import CAUSES, ENDS, PHASES, SCOPES, sentence
from forbear.core.decision import Snapshot
from forbear.core.holds import matches
from forbear.core.rules import Rule
from forbear.core.states import Action, Approved, AwaitingApproval, Halt, Hold, Parked, Phase, Unknown, Waiting
from forbear.core.values import Envelope
from forbear.core.view import instant_text, view_text
from forbear.core.vocabulary import COMPLETED, Answer, Cause, Executed, Outcome, Recovery
from forbear.errors import UsageError
from forbear.ports import JournalLine, Store
from forbear.runtime.asked import Frame
from forbear.runtime.effects import Program, load
from forbear.runtime.engine import Engine
from forbear.runtime.pending import path_flow, policy_flow
from forbear.runtime.steps import Flow, transact
from forbear.store.codec import from_us

PAGE: Final = 1000
# So many happenings are told; of a longer story the middle is left out.
MAX_TOLD: Final = 60
_TREE: Final = frozenset({Rule.TURN_BEGAN, Rule.RUN_RESTARTED, Rule.LIFTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened, or several equal ones in a row."""

    at: datetime
    # The last of `times` equal ones.
    until_at: datetime
    text: str
    rule: str
    request_id: str
    times: int = 1
    # It belongs to the request that is explained, not to another one about the same call.
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something that a person can do, and the command that does it ("" = there is no command)."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of one request."""

    request_id: str
    tool: str
    operation: str
    # Runs from the root to the one that proposed the call.
    path: tuple[str, ...]
    story: tuple[Happening, ...]
    # What was left out of a long story.
    left_out: int
    now: tuple[str, ...]
    told: str
    remedies: tuple[Remedy, ...]

    def text(self) -> str:
        """Return the whole explanation as plain text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"{self.request_id}: {self.tool} (operation {self.operation}), run {' > '.join(self.path)}"]
        lines += ["", "What happened"]
        for one in self.story:
            lines.append(f"  {instant_text(one.at)}  {words_of(one)}")
        if self.left_out:
            lines.append(f"  ({self.left_out} more in between are left out)")
        lines += ["", "What holds now", *(f"  {line}" for line in self.now)]
        lines += ["", "What the model was told", f"  {self.told}"]
        lines += ["", "What a person can do"]
        lines += [f"  {one.text}" + (f": {one.command}" if one.command else "") for one in self.remedies]
        return lines


def words_of(one: Happening) -> str:
    """Return the sentence of a happening, with how often it came, and a mark where it is what is asked about."""
    often = f" ({one.times} times, until {instant_text(one.until_at)})" if one.times > 1 else ""
    return f"{one.text}{often}{' <- this request' if one.is_asked else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What stands about one action at one moment."""

    action: Action | None = None
    holds: tuple[Hold, ...] = ()
    halted: Halt | None = None


def explain_flow(engine: Engine, request_id: str, *, root: str | None = None) -> Flow[Explanation]:
    """Explain what became of a request.

    Args:
        engine: The controller's parts.
        request_id: As the model, a reply or the journal has it.
        root: The tree that the request must belong to; None = any.

    Raises:
        UsageError: the journal does not know the request, or it belongs to another tree.
    """
    engine.world.batch.flush()
    if request_id.startswith("tkt_"):
        raise UsageError(
            f"request id {request_id!r}: is a ticket; a request id begins with 'act_', beside it in what waits"
        )
    own = [line for _, line in _lines(engine.store, request_id=request_id)]
    asked = next((line for line in own if line.action), None)
    if asked is None or (root is not None and asked.scope != f"tree:{root}"):
        raise UsageError(f"request id {request_id!r}: is not in the journal" + ("" if root is None else " of this run"))
    tree = asked.scope.removeprefix("tree:")
    story = _story(engine.store, asked)
    policy = yield from policy_flow(engine, asked.tool)
    tickets = frozenset(str(facts_of(line).get("ticket") or "") for line in own) - {""}
    standing = yield from transact(_standing(tree, asked, tickets, engine.frame(policy)), tree)
    told, left_out = _happenings(story, request_id)
    return Explanation(
        request_id=request_id,
        tool=asked.tool,
        operation=policy.operation or asked.tool if standing.action is None else standing.action.call.operation,
        path=(yield from path_flow(tree, asked.run)),
        story=told,
        left_out=left_out,
        now=tuple(_now(standing, asked.run, asked.action)),
        told=_told(engine, own, standing, request_id),
        remedies=tuple(_remedies(standing, asked.run)),
    )


# ---- the story ------------------------------------------------------------------------------------------------------


def _lines(
    store: Store, *, request_id: str | None = None, action: str | None = None
) -> Sequence[tuple[int, JournalLine]]:
    found: list[tuple[int, JournalLine]] = []
    while True:
        page = store.journal(after=found[-1][0] if found else 0, limit=PAGE, request_id=request_id, action=action)
        found.extend(page)
        if len(page) < PAGE:
            return found


def _story(store: Store, asked: JournalLine) -> list[JournalLine]:
    """Return the lines about the call in this tree, and what its people did after the first of them."""
    own = [(seq, line) for seq, line in _lines(store, action=asked.action) if line.scope == asked.scope]
    first = own[0][0]
    tickets = {str(facts_of(line).get("ticket") or "") for _, line in own} - {""}
    around = [
        (seq, line)
        for seq, line in _lines(store, action="")
        if seq > first and line.scope == asked.scope and line.rule in _TREE and _concerns(line, asked, tickets)
    ]
    return [line for _, line in sorted([*own, *around], key=lambda pair: pair[0])]


def _concerns(line: JournalLine, asked: JournalLine, tickets: set[str]) -> bool:
    """Say whether a line of the tree is about a call: a lift is, of its own hold, of one that it was told, of its run."""
    if line.rule != Rule.LIFTED:
        return True
    facts = facts_of(line)
    ticket = facts.get("lifted")
    if ticket is None:
        return line.run == asked.run
    return ticket in tickets or facts.get("lifted_action") == asked.action


def _happenings(story: Sequence[JournalLine], request_id: str) -> tuple[tuple[Happening, ...], int]:
    found: list[Happening] = []
    for line in (half for whole in story for half in halves(whole)):
        facts = facts_of(line)
        at = from_us(line.at_us)
        one = Happening(
            at=at,
            until_at=at,
            text=sentence(line.rule, {"tool": line.tool, **facts}),
            rule=line.rule,
            request_id=line.request_id,
            is_asked=line.request_id == request_id,
        )
        last = found[-1] if found else None
        if last is not None and (last.text, last.is_asked) == (one.text, one.is_asked):
            found[-1] = replace(last, until_at=at, times=last.times + 1)
        else:
            found.append(one)
    over = len(found) - MAX_TOLD
    if over <= 0:
        return tuple(found), 0
    # What is asked about is never left out; the oldest and the newest stay.
    half = MAX_TOLD // 2
    kept = [one for n, one in enumerate(found) if n < half or n >= len(found) - half or one.is_asked]
    return tuple(kept), len(found) - len(kept)


def facts_of(line: JournalLine) -> Mapping[str, object]:
    """Return what a journal line carries beside its columns; a line that is no JSON object carries nothing."""
    try:
        parsed: object = json.loads(line.body)
    except ValueError:
        return {}
    return cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}


def halves(line: JournalLine) -> tuple[JournalLine, ...]:
    """Return the beginning and the end of a read that one line says both of (see lane.line_of), else the line."""
    facts = facts_of(line)
    began = facts.get("began_us")
    if not isinstance(began, int):
        return (line,)
    said = {"event": "Proposed", "before": facts.get("before"), "after": "Running", "attempt": facts.get("attempt")}
    return replace(line, at_us=began, rule=Rule.EXECUTED, body=json.dumps(said).encode()), line


# ---- what stands ----------------------------------------------------------------------------------------------------


def _standing(root: str, asked: JournalLine, tickets: frozenset[str], frame: Frame) -> Program[_Standing]:
    live = yield from load(root, actions=(asked.action,))
    action = live.actions.get(asked.action)
    run = live.runs.get(asked.run)
    return _Standing(
        action=action,
        holds=_covering(frame(live), action, tickets),
        halted=None if run is None else run.halted,
    )


def _covering(snapshot: Snapshot, action: Action | None, tickets: frozenset[str]) -> tuple[Hold, ...]:
    """Return the holds that cover a call; of one that never ran nothing is kept but the ticket that it was told."""
    found = [
        hold
        for hold in snapshot.holds.values()
        if hold.ticket in tickets or (action is not None and matches(hold, action.call, snapshot))
    ]
    return tuple(sorted(found, key=lambda hold: (hold.cause, hold.key)))


def _now(standing: _Standing, run: str, action: str) -> list[str]:
    lines: list[str] = []
    if standing.action is not None:
        lines.append(_phase(standing.action.phase))
    lines.extend(_hold(hold, action) for hold in standing.holds)
    if standing.halted is not None:
        lines.append(
            f"The tool use of run {run} is over ({standing.halted.reason}). "
            "That ends with the next human message, or by an operator."
        )
    return lines or ["Nothing stands against the call."]


def _phase(phase: Phase) -> str:
    said = PHASES[type(phase).__name__]
    match phase:
        case Waiting():
            return f"{said} It is due at {instant_text(phase.retry_at)}."
        case Parked():
            return f"{said} It is due at {instant_text(phase.run_at)}."
        case AwaitingApproval():
            return f"{said} The question ({phase.ticket}) expires at {instant_text(phase.expires_at)}."
        case Approved():
            return f"{said} The approval expires at {instant_text(phase.grant.expires_at)}."
        case Unknown():
            if phase.inspect_at is None:
                return f"{said} Nothing looks for it any more: a person has to say."
            return f"{said} The controller looks for it at {instant_text(phase.inspect_at)}."
        case _:
            return said


def _hold(hold: Hold, action: str) -> str:
    cause = CAUSES[hold.cause]
    ends = f"at {instant_text(hold.ends_at)}" if hold.ends_at is not None else ENDS[hold.end]
    said = f"{cause[0].upper()}{cause[1:]} ({hold.code}) covers {SCOPES[hold.scope]}. It ends {ends}."
    if hold.action != action and hold.told.request_id:
        said += f" It came from another call ({hold.tool}, {hold.told.request_id})."
    return said


# ---- what was told --------------------------------------------------------------------------------------------------


def _told(engine: Engine, own: Sequence[JournalLine], standing: _Standing, request_id: str) -> str:
    """Return what the model was told for a request, as it is kept, else in the catalogue's words."""
    kept = _kept(standing, request_id)
    if kept is not None:
        return view_text(engine.envelope(kept, request_id))
    said = [facts for line in own if (facts := facts_of(line)).get("answer")]
    if not said:
        return "Nothing."
    last = said[-1]
    code, answer = str(last.get("code") or ""), str(last["answer"])
    outcome = _outcome(last.get("outcome"))
    if not code and outcome in COMPLETED:
        return "The tool's own result, unchanged."
    if not code:
        return "The recorded result." if answer == Answer.DELIVERED else f"Nothing yet (answer: {answer})."
    told = Envelope(
        outcome=outcome,
        executed=Executed(str(last.get("executed") or Executed.UNKNOWN)),
        code=code,
        recovery=None if not last.get("recovery") else Recovery(str(last["recovery"])),
    )
    return view_text(engine.envelope(told, request_id))


def _outcome(word: object) -> Outcome:
    return Outcome(str(word)) if word else Outcome.PENDING


def _kept(standing: _Standing, request_id: str) -> Envelope | None:
    told: list[Envelope | None] = [hold.told for hold in standing.holds]
    if standing.action is not None:
        told.append(getattr(standing.action.phase, "told", None))
    if standing.halted is not None:
        told.append(standing.halted.told)
    return next((one for one in told if one is not None and one.request_id == request_id and one.code), None)


# ---- what a person can do -------------------------------------------------------------------------------------------


def _remedies(standing: _Standing, run: str) -> list[Remedy]:
    found: list[Remedy] = []
    phase = None if standing.action is None else standing.action.phase
    if isinstance(phase, AwaitingApproval):
        if phase.by_framework:
            found.append(Remedy(text="answer through the framework that asked"))
        else:
            ticket = phase.ticket
            found += [
                Remedy(text="look at the call and say yes", command=f"forbear approve {ticket}"),
                Remedy(text="say no", command=f"forbear deny {ticket}"),
                Remedy(text="ask for another call", command=f"forbear revise {ticket}"),
                Remedy(text="change the call", command=f"forbear edit {ticket} --set NAME=JSON"),
            ]
    elif isinstance(phase, Unknown):
        found += [
            Remedy(text="say that it happened", command=f"forbear resolve {phase.ticket} applied"),
            Remedy(text="say that it did not happen", command=f"forbear resolve {phase.ticket} not_applied"),
        ]
    elif isinstance(phase, (Waiting, Parked)):
        found.append(Remedy(text="nothing: the controller runs the call when it is due"))
    found += [
        Remedy(text=f"end {CAUSES[hold.cause]} early", command=f"forbear lift {hold.ticket}")
        for hold in standing.holds
        if hold.ticket and not _ends_by_itself(hold, phase)
    ]
    if standing.halted is not None:
        found.append(Remedy(text="let the run use tools again", command=f"forbear lift --run {run}"))
    return found or [Remedy(text="nothing needs to be done")]


def _ends_by_itself(hold: Hold, phase: Phase | None) -> bool:
    """Return whether the call's own phase ends a hold: an outcome is said, not lifted; a wait has its own time."""
    if hold.cause is Cause.UNKNOWN:
        return isinstance(phase, Unknown)
    return hold.cause is Cause.TIME and isinstance(phase, (Waiting, Parked))
