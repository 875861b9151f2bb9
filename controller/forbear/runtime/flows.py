"""The whole story of a call, written once: where it belongs, propose, run, settle, wait, wake. No I/O of its own.

Each function is a flow (steps.py). What is decided is the core's; a flow only keeps the order: commit, then act.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from forbear.contract import Raw
from forbear.core.decision import Inspect
from forbear.core.events import Cancelled, Interrupted, Lost, TurnBegan, Woke
from forbear.core.identity import digest
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, Running
from forbear.core.values import Call
from forbear.core.vocabulary import COMPLETED, Answer, Mode
from forbear.errors import StoreError, UsageError
from forbear.runtime.broken import broken_reply, ungoverned_flow, unrecorded_reply
from forbear.runtime.calls import arguments_of, build, frozen_arguments, judge, unjudged
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.inspection import looked_flow
from forbear.runtime.leaving import Left
from forbear.runtime.notes import keep
from forbear.runtime.perform import INSIDE
from forbear.runtime.program import (
    Decided,
    actions_of,
    adopt,
    find_root,
    keep_secret,
    look,
    note_policy,
    own,
    propose,
    settle,
    tell,
    tell_tree,
)
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import is_recorded, payload
from forbear.runtime.rows import stored
from forbear.runtime.steps import (
    Ended,
    Executor,
    Flow,
    How,
    Pause,
    Perform,
    Signals,
    judge_by,
    perform,
    transact,
    wait_for,
)

# A call waits inside itself so often at most (retries, parked again behind others).
MAX_INLINE_WAITS: Final = 8
MAX_ROOTS: Final = 100_000
# End of the id of the run in which the controller looks for the outcomes of a tree.
CHECKS: Final = "\x1fchecks"


# ---- where a run belongs --------------------------------------------------------------------------------------------


def place_flow(engine: Engine, run: str, parent: str | None, principal: str | None) -> Flow[str]:
    """Return the root of a run's tree; the first sight of a child run enters it there.

    Raises:
        UsageError: the run belongs to another tree, or its tree draws from another principal.
    """
    root = engine.roots.get(run)
    if root is None:
        root = yield from _find_root(engine, run, parent)
        if len(engine.roots) >= MAX_ROOTS:
            engine.roots.clear()
        engine.roots[run] = root
    elif parent is not None and (parent == run or (yield from place_flow(engine, parent, None, None)) != root):
        raise UsageError(f"run {run!r}: belongs to the tree of {root!r}, its parent must be one of that tree")
    if principal is not None and root == run and not (yield from transact(own(root, principal), root)):
        raise UsageError(f"run {run!r}: draws from another principal already")
    return root


def _find_root(engine: Engine, run: str, parent: str | None) -> Flow[str]:
    inside = INSIDE.get()
    outer = inside if inside is not None and inside.owner is engine and inside.run != run else None
    found = yield from transact(find_root(run), None)
    if parent is None and outer is None:
        return found.link or run
    if found.link is not None:
        if parent is not None and (yield from place_flow(engine, parent, None, None)) != found.link:
            raise UsageError(f"run {run!r}: belongs to the tree of {found.link!r}")
        return found.link
    if parent is None:
        assert outer is not None
        if found.is_root:
            # It was a run of its own before it was started from inside a call, and stays one.
            return run
        parent, root = outer.run, outer.root
    elif parent == run:
        raise UsageError(f"run {run!r}: cannot be its own parent")
    else:
        if found.is_root:
            raise UsageError(f"run {run!r}: was started without a parent and cannot get one")
        root = yield from place_flow(engine, parent, None, None)
    if not (yield from transact(adopt(root, run, parent), root)):
        raise UsageError(f"run {run!r}: belongs to another tree")
    return root


def turn_flow(engine: Engine, root: str, turn: str | None) -> Flow[bool]:
    """Begin a turn of the root run; an opaque id that was seen before begins nothing."""
    mark = "" if turn is None else digest("turn", turn)
    live = engine.world.peek(root)
    if mark and live is not None and mark in live.turns:
        return False
    frame = engine.frame(ToolPolicy(name=""))
    program = tell_tree(root, frame, lambda now: TurnBegan(at=now), turn=mark)
    began = (yield from transact(program, root)) is not None
    live = engine.world.peek(root)
    if live is not None and turn is not None:
        live.lane.turn_began(turn)
    return began


def recover_flow(engine: Engine, root: str) -> Flow[None]:
    """Take notice of the tree's attempts whose process died, and settle what the store could not take before."""
    for row in engine.take_lost(root):
        action = stored(row, Action)
        if not isinstance(action.phase, Running):
            continue
        policy = engine.tools.known_policy(action.call.tool)
        for started in action.phase.open:
            if started.owner != row.owner:
                continue
            request_id = engine.ids.request_id()
            asked = engine.asked(root, action.call, policy, request_id=request_id)
            event = Lost(attempt=started.attempt, ticket=engine.ids.ticket(), request_id=request_id)
            engine.answer((yield from transact(tell(asked, event, attempt=started.attempt), root)), asked)
    while engine.unsettled:
        attempt, ended = engine.unsettled.popleft()
        yield from end_flow(engine, attempt, ended)


# ---- propose --------------------------------------------------------------------------------------------------------


def ready_flow(engine: Engine, ask: Ask, policy: ToolPolicy) -> Flow[str]:
    """Know what a decision needs to know beforehand: the run's place, dead attempts of its tree, the noted policy."""
    root = yield from place_flow(engine, ask.run, ask.parent, ask.principal)
    yield from recover_flow(engine, root)
    if engine.noted.get(policy.name) != policy.digest:
        yield from transact(note_policy(policy), None)
        engine.noted[policy.name] = policy.digest
    return root


def prepare_flow(engine: Engine, ask: Ask, policy: ToolPolicy) -> Flow[None]:
    """Make a run and its tree known here, so that its next reads need not look anything up."""
    root = yield from ready_flow(engine, ask, policy)
    if ask.turn is not None and ask.run == root:
        yield from turn_flow(engine, root, ask.turn)
    yield from transact(actions_of(root), root)


def propose_flow(engine: Engine, ask: Ask) -> Flow[Reply]:
    """Decide about a proposal; the reply holds an open attempt where it may run."""
    policy = engine.tools.policy(ask.tool)
    root = yield from ready_flow(engine, ask, policy)
    if policy.idempotency_key is not None:
        yield from secret_flow(engine)
    if ask.turn is not None and ask.run == root:
        yield from turn_flow(engine, root, ask.turn)
    request_id = engine.ids.request_id()
    call = build(
        policy,
        ask.arguments,
        run=ask.run,
        step=ask.step or ask.call_id or request_id,
        call_id=ask.call_id,
        source=ask.source,
        siblings=ask.siblings,
        forced=ask.forced,
        truncated=ask.truncated,
    )
    if not call.malformed and not unjudged(policy):
        arguments, _ = arguments_of(ask.arguments)
        call = judge(call, (yield from judge_by(policy, arguments)))
    asked = engine.asked(root, call, policy, request_id=request_id, reproposes=ask.reproposes)
    program = propose(asked, ticket=engine.ids.ticket())
    decided = yield from transact(program, root)
    return engine.answer(decided, asked)


def secret_flow(engine: Engine) -> Flow[None]:
    """Load the key of idempotency keys, or make it; it is the same for every process on the store."""
    if not engine.has_secret():
        new = (engine.ids.request_id() + engine.ids.ticket()).encode()
        engine.use_secret((yield from transact(keep_secret(new), None)))


# ---- settle ---------------------------------------------------------------------------------------------------------


def settle_flow(engine: Engine, attempt: Attempt, raw: Raw, ended: Ended) -> Flow[Reply]:
    """Judge what an attempt returned and decide what it means; `ended` is how it ended, for the record."""
    policy = engine.tools.known_policy(attempt.tool)
    value = payload(raw)
    # What the controller ran by itself has no caller who gets the value: it is kept for the run.
    recorded = attempt.by_controller or is_recorded(policy)
    result = keep(value[0]) if value is not None and recorded else None
    if attempt.by_controller:
        engine.hold_value(attempt, value)
    asked = engine.asked(attempt.root, attempt.call, policy, request_id=attempt.request_id)
    program = settle(
        asked,
        attempt.number,
        judge=engine.judging(attempt, policy, raw, value=value, kept=result is not None),
        result=result,
        value=value,
        announce=attempt.by_controller,
        leaves=Left(engine, attempt, ended, policy),
    )
    decided = yield from transact(program, attempt.root)
    reply = _landed(attempt, decided, engine.answer(decided, asked, value=value))
    if reply.envelope.outcome in COMPLETED and attempt.tool in engine.tools.checks and not is_check(attempt.run):
        yield from looked_flow(engine, attempt, None if value is None else value[0])
    return reply


def is_check(run: str) -> bool:
    """Say whether a run is the controller's own, in which it looks for outcomes."""
    return run.endswith(CHECKS)


def _landed(attempt: Attempt, decided: Decided, reply: Reply) -> Reply:
    decided.live.land(attempt.action, attempt.number, reply)
    return reply


def end_flow(engine: Engine, attempt: Attempt, ended: Ended) -> Flow[Reply]:
    """Commit how an attempt ended. The exception that ended it is the caller's to raise, afterwards.

    Raises:
        StoreError: the store cannot be written; the end is kept and committed before the tree's next decision.
    """
    try:
        return (yield from _end(engine, attempt, ended))
    except StoreError:
        engine.unsettled.append((attempt, ended))
        raise


def _end(engine: Engine, attempt: Attempt, ended: Ended) -> Flow[Reply]:
    ticket, request_id = engine.ids.ticket(), attempt.request_id
    if ended.trail is None and (trail := engine.take_trail(attempt)) is not None:
        ended = replace(ended, trail=trail)
    event: Interrupted | Cancelled | Lost
    match ended.how:
        case How.ANSWERED:
            assert ended.raw is not None
            return (yield from settle_flow(engine, attempt, ended.raw, ended))
        case How.SIGNAL:
            event = Interrupted(attempt=attempt.number, ticket=ticket)
        case How.CANCELLED:
            event = Cancelled(acknowledged=False, ticket=ticket, request_id=request_id)
        case How.NEVER_CALLED:
            event = Cancelled(acknowledged=True, ticket=ticket, request_id=request_id)
        case How.LEFT:
            event = Lost(attempt=attempt.number, ticket=ticket, request_id=request_id, died=False)
    policy = engine.tools.known_policy(attempt.tool)
    asked = engine.asked(attempt.root, attempt.call, policy, request_id=request_id)
    leaves = Left(engine, attempt, ended, policy)
    decided = yield from transact(
        tell(asked, event, attempt=attempt.number, here=True, leaves=leaves), attempt.root
    )
    return _landed(attempt, decided, engine.answer(decided, asked))


# ---- call -----------------------------------------------------------------------------------------------------------


def run_attempt(
    engine: Engine, attempt: Attempt, executor: Executor, signals: Signals, *, answers_broken: bool = False
) -> Flow[Reply]:
    """Run the tool of an open attempt, commit what that means, and let its exception go on where it is no answer."""
    timeout = engine.tools.known_policy(attempt.tool).limits.timeout
    ended = yield from perform(Perform(attempt=attempt, executor=executor, signals=signals, timeout=timeout))
    return (yield from ended_flow(engine, attempt, ended, answers_broken=answers_broken))


def ended_flow(engine: Engine, attempt: Attempt, ended: Ended, *, answers_broken: bool) -> Flow[Reply]:
    """Commit how an attempt ended, and let its exception go on where it is no answer."""
    try:
        reply = yield from end_flow(engine, attempt, ended)
    except StoreError:
        if ended.error is not None:
            raise ended.error from None
        if answers_broken and ended.raw is not None:
            return unrecorded_reply(engine, attempt, ended.raw)
        raise
    if ended.error is not None:
        raise ended.error
    return reply


def call_flow(
    engine: Engine,
    ask: Ask,
    executor: Executor,
    *,
    signals: Signals = (),
    wait: bool = True,
    answers_broken: bool = False,
) -> Flow[Reply]:
    """Propose, run, settle; wait inside the call where the wait is short, and answer.

    Raises:
        StoreError: the store cannot be written (unless `answers_broken`, or the tool is only observed).
    """
    observed = engine.tools.known_policy(ask.tool).mode is Mode.OBSERVE
    answers_broken = answers_broken or observed
    try:
        reply = yield from propose_flow(engine, ask)
    except StoreError:
        if observed:
            return (yield from ungoverned_flow(engine, ask, executor, signals))
        if answers_broken:
            return broken_reply(engine, ask)
        raise
    return (
        yield from answer_flow(
            engine, engine.roots[ask.run], reply, executor, signals=signals, wait=wait, answers_broken=answers_broken
        )
    )


def after_lane(
    engine: Engine,
    attempt: Attempt,
    ended: Ended,
    executor: Executor,
    *,
    signals: Signals,
    wait: bool,
    answers_broken: bool,
) -> Flow[Reply]:
    """Go on with a call that began on the lane and did not end well there."""
    reply = yield from ended_flow(engine, attempt, ended, answers_broken=answers_broken)
    return (
        yield from answer_flow(
            engine, attempt.root, reply, executor, signals=signals, wait=wait, answers_broken=answers_broken
        )
    )


def answer_flow(
    engine: Engine,
    root: str,
    reply: Reply,
    executor: Executor,
    *,
    signals: Signals,
    wait: bool,
    answers_broken: bool,
) -> Flow[Reply]:
    """Run what a reply orders, wait where that is short, and answer."""
    for _ in range(MAX_INLINE_WAITS):
        if reply.attempt is not None:
            reply = yield from run_attempt(engine, reply.attempt, executor, signals, answers_broken=answers_broken)
        elif reply.joins is not None:
            reply = yield from join_flow(reply)
        until = _waits_inline(engine, reply, wait=wait)
        if until is None:
            return reply
        reply = yield from _resumed(engine, root, reply, until)
    return reply


def join_flow(reply: Reply) -> Flow[Reply]:
    """Return the answer of the open attempt that answers this call too, marked as not the first."""
    assert reply.joins is not None
    flight = reply.flight
    if flight is None:
        # Another process runs it: its result is delivered when this call is proposed again.
        return replace(reply, answer=Answer.PENDING, joins=None)
    first = yield from wait_for(flight)
    return replace(
        first, suppressed=True, run=reply.run, step=reply.step, call_id=reply.call_id, joins=None, flight=None
    )


def _waits_inline(engine: Engine, reply: Reply, *, wait: bool) -> datetime | None:
    """Return until when this call waits inside itself: short waits of its own ticket, where waiting blocks nobody."""
    if not wait or reply.answer is not Answer.PENDING or reply.retry_at is None or reply.ticket is None:
        return None
    policy = engine.tools.known_policy(reply.tool)
    if policy.mode is Mode.OBSERVE:
        return None
    limit = policy.limits.inline_wait
    return reply.retry_at if reply.retry_at - engine.clock.now() <= limit and limit > timedelta() else None


def _resumed(engine: Engine, root: str, reply: Reply, until: datetime) -> Flow[Reply]:
    """Wait, then claim the retry; where somebody else has claimed it, answer with what became of it."""
    key = (root, reply.action)
    engine.inline[key] += 1
    try:
        yield Pause(until)
        woken = yield from wake_flow(engine, root, reply.action, here=True)
    except BaseException as error:
        # The wait stays scheduled: a worker makes the retry, unless the caller was cancelled.
        if isinstance(error, CancelledError):
            yield from cancel_flow(engine, root, reply.action, acknowledged=True)
        raise
    finally:
        engine.inline[key] -= 1
    if woken is None:
        return reply
    return replace(woken.reply, run=reply.run, step=reply.step, call_id=reply.call_id)


# ---- wake and cancel ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """What a due row came to: a reply, maybe with an attempt, and whether the declared check is to be run now."""

    reply: Reply
    looks: bool


def wake_flow(engine: Engine, root: str, key: str, *, here: bool) -> Flow[Woken | None]:
    """Feed `Woke` with the author's rule evaluated at this moment; the reply holds an attempt where the call may run.

    Args:
        engine: The controller's parts.
        root: Root of the action's tree.
        key: The action's key.
        here: A caller waits for this reply; otherwise what becomes ready is put into the run's inbox.
    """
    action = yield from transact(look(root, key), root)
    if action is None:
        return None
    policy = engine.tools.known_policy(action.call.tool)
    if policy.idempotency_key is not None:
        yield from secret_flow(engine)
    call: Call = action.call
    if not unjudged(policy):
        call = judge(call, (yield from judge_by(policy, frozen_arguments(call))))
    request_id = engine.ids.request_id()
    asked = engine.asked(root, call, policy, request_id=request_id)
    event = Woke(call=call, ticket=engine.ids.ticket(), request_id=request_id)
    decided = yield from transact(tell(asked, event, here=here), root)
    reply = engine.answer(decided, asked, by_controller=not here)
    looks = any(isinstance(command, Inspect) for command in decided.decision.commands)
    return Woken(reply=reply, looks=looks)


def cancel_flow(engine: Engine, root: str, key: str, *, acknowledged: bool) -> Flow[Reply | None]:
    """Cancel an action in whatever phase it is."""
    action = yield from transact(look(root, key), root)
    if action is None:
        return None
    policy = engine.tools.known_policy(action.call.tool)
    request_id = engine.ids.request_id()
    asked = engine.asked(root, action.call, policy, request_id=request_id)
    event = Cancelled(acknowledged=acknowledged, ticket=engine.ids.ticket(), request_id=request_id)
    decided = yield from transact(tell(asked, event, here=True), root)
    return engine.answer(decided, asked)
