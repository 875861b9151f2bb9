"""The whole story of a call, written once: where it belongs, propose, run, settle, wait, wake. No I/O of its own.

Each function is a flow (steps.py). What is decided is the core's; a flow only keeps the order: commit, then act.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from forbear.core.decision import Inspect
from forbear.core.events import Cancelled, Woke
from forbear.core.policy import ToolPolicy
from forbear.core.timing import is_within
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Effect, Mode
from forbear.errors import StoreError
from forbear.runtime.broken import broken_flow, ungoverned_flow, unrecorded_reply
from forbear.runtime.calls import build, frozen_arguments, judge, unjudged
from forbear.runtime.ends import end_flow
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.lookups import hand_over, look, remember
from forbear.runtime.notes import keep
from forbear.runtime.places import ready_flow, secret_flow, turn_flow
from forbear.runtime.program import propose, tell
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import is_recorded
from forbear.runtime.steps import (
    Ended,
    Executor,
    Flow,
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


# ---- propose ----------------------------------------------------------------------------------------------------------


def propose_flow(engine: Engine, ask: Ask) -> Flow[Reply]:
    """Decide about a proposal; the reply holds an open attempt where it may run."""
    policy = engine.tools.policy(ask.tool)
    engine.tools.check_first_call(ask.tool)
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
    unread = yield from unread_flow(engine, root, call, policy)
    if unread is not None:
        return unread
    if not call.malformed and not unjudged(policy):
        # The rule judges what would run, not what the caller may still change.
        call = judge(call, (yield from judge_by(policy, frozen_arguments(call))))
    asked = engine.asked(root, call, policy, request_id=request_id, reproposes=ask.reproposes)
    program = propose(asked, ticket=engine.ids.ticket())
    decided = yield from transact(program, root)
    return engine.answer(decided, asked)


def keep_flow(engine: Engine, ask: Ask, value: object) -> Flow[bool]:
    """Keep the result of a call that completed; see `Controller.keep`."""
    policy = engine.tools.known_policy(ask.tool)
    body = keep(value)
    if body is None or not ask.call_id or is_recorded(policy):
        return body is not None and is_recorded(policy)
    root = yield from ready_flow(engine, ask, policy)
    call = build(
        policy,
        ask.arguments,
        run=ask.run,
        step=ask.step or ask.call_id,
        call_id=ask.call_id,
        source=ask.source,
        siblings=ask.siblings,
    )
    return not call.malformed and (yield from transact(remember(root, call, body), root))


def unread_flow(engine: Engine, root: str, call: Call, policy: ToolPolicy) -> Flow[Reply | None]:
    """Return the result of an equal write that the controller completed and that its run was never told.

    In a later turn it would be done again, by a model that does not know that it was done (design section 4, step 1).
    Where twice does no harm, it is done again, like a read: what was true then may not be what is asked for now.
    """
    live = engine.world.peek(root)
    if call.malformed or policy.effect is Effect.READ or policy.mode is Mode.OBSERVE or policy.repeatable is True:
        return None
    if live is not None and not live.ready and engine.world.is_current(live):
        return None
    handed = yield from transact(hand_over(root, call), root)
    if handed is None:
        return None
    ready, row = handed
    reply = engine.ready_reply(root, ready, row)
    return replace(reply, answer=Answer.DELIVERED, step=call.step, call_id=call.call_id, ticket=None)


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
    except StoreError as error:
        if observed:
            return (yield from ungoverned_flow(engine, ask, executor, signals))
        if answers_broken:
            return (yield from broken_flow(engine, ask, error))
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
    return reply.retry_at if limit > timedelta() and is_within(reply.retry_at, limit, engine.clock.now()) else None


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
