"""What is answered where the store cannot be written. A governed call does not run then; an observed one does.

Nothing is decided here: there is no state to decide on.
"""

from __future__ import annotations

import json
from typing import Final

from forbear.audit.record import About, piece_of
from forbear.audit.redact import Scrub, secret_values
from forbear.contract import Raw
from forbear.core.values import Envelope
from forbear.core.vocabulary import COMPLETED, Answer, Executed, Outcome, Recovery
from forbear.observe.notice import Unrecorded
from forbear.runtime.calls import arguments_of, build, frozen_arguments
from forbear.runtime.effects import keep
from forbear.runtime.engine import Ask, Engine
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import payload
from forbear.runtime.steps import Executor, Flow, Perform, Signals, perform, transact

# Not the core's rules: no decision was made.
RULE_BROKEN: Final = Unrecorded.PROPOSED
RULE_UNRECORDED: Final = Unrecorded.RETURNED
CODE: Final = "CONTROLLER_BROKEN"


def broken_reply(engine: Engine, ask: Ask) -> Reply:
    """Return the answer to a call that did not run because nothing could be decided; observers are told."""
    told = Envelope(outcome=Outcome.FAILED, executed=Executed.NO, code=CODE, recovery=Recovery.DO_NOT_RETRY)
    reply = Reply(
        answer=Answer.BLOCKED,
        rule=RULE_BROKEN,
        envelope=engine.envelope(told, engine.ids.request_id()),
        tool=ask.tool,
        run=ask.run,
        step=ask.step,
        call_id=ask.call_id,
    )
    _tell(engine, reply, RULE_BROKEN)
    return reply


def _tell(engine: Engine, reply: Reply, rule: Unrecorded, attempt: int = 0) -> None:
    """Tell observers of a reply that no decision stands behind; no lock is held here."""
    if engine.observing is not None:
        engine.observing.unrecorded(reply, rule, attempt)
        engine.tell()


def broken_flow(engine: Engine, ask: Ask, error: Exception) -> Flow[Reply]:
    """Answer a call that did not run because nothing could be decided, and leave operators a record of why."""
    reply = broken_reply(engine, ask)
    yield from record_flow(engine, reply, ask.arguments, error)
    return reply


def record_flow(engine: Engine, reply: Reply, arguments: object, error: Exception) -> Flow[None]:
    """Keep what made the controller fail with the evidence: the journal cannot be written, and the request id is told.

    Never raises for evidence that cannot be kept either.
    """
    if engine.world.evidence is None:
        return

    def make(key: bytes) -> bytes:
        policy = engine.tools.known_policy(reply.tool)
        given, readable = arguments_of(arguments)
        about = About(
            request_id=reply.envelope.request_id,
            run=reply.run,
            principal="",
            tool=reply.tool,
            source="",
            step=reply.step,
            call_id=reply.call_id,
            attempt=0,
            fingerprint="",
            policy=policy.digest,
            how="controller_failed",
            code=reply.envelope.code,
            outcome=reply.envelope.outcome.value,
            trace_id=engine.trace_id(),
            labels=engine.labels,
            arguments=json.dumps(given, sort_keys=True, default=_type_name) if readable else "",
        )
        scrub = Scrub(secret_values(given, policy.secret) if readable else ())
        return piece_of(about, key=key, raw=None, error=error, trail=None, scrub=scrub)

    yield from transact(keep(reply.envelope.request_id, make, quiet=True), None)


def _type_name(value: object) -> str:
    return type(value).__name__


def unrecorded_reply(engine: Engine, attempt: Attempt, raw: Raw, *, rule: Unrecorded = RULE_UNRECORDED) -> Reply:
    """Return what a tool said although it could not be recorded yet (it is, before the tree's next decision)."""
    policy = engine.tools.known_policy(attempt.tool)
    value = payload(raw)
    judged = engine.judging(attempt, policy, raw, value=value, kept=False)(engine.clock.now())
    envelope = engine.envelope(judged.envelope, attempt.request_id)
    completed = envelope.outcome in COMPLETED and value is not None
    reply = Reply(
        answer=Answer.EXECUTED,
        rule=rule,
        envelope=envelope,
        tool=attempt.tool,
        run=attempt.run,
        step=attempt.step,
        call_id=attempt.call_id,
        value=value[0] if completed and value is not None else None,
    )
    _tell(engine, reply, rule, attempt.number)
    return reply


def ungoverned_flow(engine: Engine, ask: Ask, executor: Executor, signals: Signals) -> Flow[Reply]:
    """Run an observed tool although nothing could be recorded: observing changes nothing for the caller."""
    policy = engine.tools.known_policy(ask.tool)
    call = build(policy, ask.arguments, run=ask.run, step=ask.step, call_id=ask.call_id, source=ask.source)
    given, readable = arguments_of(ask.arguments)
    attempt = Attempt(
        tool=ask.tool,
        arguments=frozen_arguments(call) if readable else given,
        number=0,
        run=ask.run,
        step=ask.step,
        call_id=ask.call_id,
        fingerprint=call.fingerprint,
        request_id=engine.ids.request_id(),
        started_at=engine.clock.now(),
        root=ask.run,
        call=call,
    )
    ended = yield from perform(Perform(attempt=attempt, executor=executor, signals=signals))
    if ended.error is not None:
        raise ended.error
    assert ended.raw is not None
    return unrecorded_reply(engine, attempt, ended.raw, rule=RULE_BROKEN)
