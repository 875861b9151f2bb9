"""What the design promises (section 6, promises 1 to 8) and what it owes, judged on every step of a history.

Written from the design's text, not from the code: it keeps its own account of refusals, waits, doubts, grants and
prompts, and compares each decision with it. It reads the core's types as a vocabulary and calls none of its functions,
except for the digests that calls carry. The obligations look into the snapshot; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from forbear.core.decision import Announce, AskHuman, Decision, Execute, Inspect, Snapshot, WakeAt
from forbear.core.events import (
    Cancelled,
    Denied,
    Edited,
    Event,
    Granted,
    Inspected,
    Interrupted,
    Lifted,
    Lost,
    Proposed,
    Reconnected,
    Returned,
    Revised,
    RunRestarted,
    TreeEvent,
    TurnBegan,
    Woke,
)
from forbear.core.identity import field_digest
from forbear.core.policy import ToolPolicy
from forbear.core.rules import Rule
from forbear.core.states import (
    Action,
    Approved,
    AwaitingApproval,
    Hold,
    Parked,
    Running,
    Started,
    Unknown,
    Waiting,
)
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import (
    Answer,
    Cause,
    Effect,
    Executed,
    Gate,
    Mode,
    Outcome,
    Recovery,
    Scope,
    Trust,
    Verdict,
)
from forbear.testing.explore import Violation

STOP = "1 stop is final"
RETRY = "2 bounded retry"
APPROVAL = "3 approval is exact and spent"
UNKNOWN = "4 unknown is not repeated"
LOST = "5 nothing is lost"
REPAIR = "6 the same input after repair_input"
BOUNDED = "7 bounded"
HEALTHY = "8 completed is completed and healthy work is untouched"
OBSERVE = "observe changes nothing"
OWED = "owed"

COMPLETED = (Outcome.SUCCESS, Outcome.EMPTY, Outcome.ALREADY_SATISFIED, Outcome.PARTIAL)
SHARED = (Scope.QUOTA, Scope.PRINCIPAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """One reason why covered calls may not run, by the monitor's own account."""

    cause: Cause
    scope: Scope
    value: str
    # Action whose answer caused it, its operation and its tool.
    by: str
    operation: str
    tool: str
    until: datetime | None = None
    # TIME: from here on nothing may be late any more (margin and jitter are at most a fifth of the wait).
    latest: datetime | None = None
    ends_with_turn: bool = False
    # REFUSAL: this turn's probe is used; it was told (again) in this turn.
    probed: bool = True
    told_now: bool = True
    # The attempt that answers for it: the probe of a refusal, the claimed retry of a time.
    holder: tuple[str, int] | None = None
    exempt: tuple[str, ...] = ()
    # REPAIR: named fields and what they held.
    fields: tuple[tuple[str, str], ...] = ()
    # REPAIR: tool and arguments whose completion in `run` ends it.
    before: tuple[str, str] | None = None
    run: str = ""
    # REPAIR without named fields: another write completed since.
    loosened: bool = False
    writes_only: bool = False
    # DENIAL: "ask" = covers what a rule would ask or deny, "deny" = what it would deny.
    gated: str = ""
    placed_at: datetime | None = None
    # REFUSAL: its code; one code's end says nothing about another's.
    code: str = ""
    # REPAIR: the same input may run again after another write (it is bounded).
    may_repeat: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Yes:
    """A person's yes that is not spent."""

    ticket: str
    fingerprint: str
    run: str
    expires_at: datetime
    # Given back by an execution that had no effect.
    is_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An attempt that has no outcome yet."""

    action: str
    number: int
    call: Call
    yes: Yes | None = None
    # The one repetition with the same idempotency key.
    by_key: bool = False
    # It answers for a refusal until a time.
    is_retry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question that a person can answer."""

    action: str
    ticket: str
    fingerprint: str
    run: str
    rule: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An unknown write."""

    action: str
    number: int
    started_at: datetime
    absent_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The last outcome of an action was a completed one."""

    action: str
    run: str
    step: str
    started_at: datetime
    is_read: bool
    finished: bool | None
    target: str | None
    old: bool = False
    # Another write completed since; another action wrote to the same declared target since.
    written: bool = False
    overwritten: bool = False
    replays: int = 0
    # The run was restarted: one delivery is owed.
    owed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Refusals of one code from one operation in a row."""

    operation: str
    code: str
    count: int
    step: str
    waits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Consecutive steps of one run in which nothing moved."""

    run: str
    step: str
    blocked: int = 0
    idle: int = 0
    blocked_in_turn: int = 0
    calls_in_turn: int = 0
    calls_in_run: int = 0
    # The step that is being counted: calls seen, whether all of them were blocked, whether all were idle.
    seen: int = 0
    siblings: int = 1
    all_blocked: bool = True
    all_idle: bool = True


@dataclass(slots=True, kw_only=True)
class Monitor:
    """The account. Every field is a value; `judge` returns a changed copy and never changes this one."""

    open: tuple[Open, ...] = ()
    last: tuple[tuple[str, int], ...] = ()
    bans: tuple[Ban, ...] = ()
    yes: tuple[Yes, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    wakes: frozenset[tuple[str, datetime]] = frozenset()
    # Actions whose tool asked for a person, and no person answered yet; actions whose tool asked in this turn.
    must_ask: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    framework: frozenset[tuple[str, str]] = frozenset()
    doubts: tuple[Doubt, ...] = ()
    keys_used: frozenset[str] = frozenset()
    # Action -> fingerprint that was refused with retry_after and had no other answer since.
    waits: tuple[tuple[str, str], ...] = ()
    retries: tuple[tuple[str, int], ...] = ()
    temporary: frozenset[str] = frozenset()
    empty_looks: tuple[tuple[str, int], ...] = ()
    streaks: tuple[Streak, ...] = ()
    repairs: tuple[tuple[str, int, str], ...] = ()
    repaired: tuple[tuple[str, int], ...] = ()
    done: tuple[Done, ...] = ()
    halted: tuple[tuple[str, str], ...] = ()
    steps: tuple[Steps, ...] = ()
    blocks: tuple[tuple[str, int, str], ...] = ()
    noes: int = 0
    denials: tuple[tuple[str, int], ...] = ()
    # (run, fingerprint) -> step, action, number and state of the newest call, where calls can be resumed.
    sent: tuple[tuple[str, str, str, str, int, str], ...] = ()
    same: tuple[tuple[str, str, int], ...] = ()
    checks: tuple[tuple[str, int], ...] = ()
    observed: frozenset[str] = frozenset()
    # Of the start that is being judged.
    is_retry: bool = False

    # ---- the one entry ----------------------------------------------------------------------------------------------

    def judge(
        self,
        event: Event | TreeEvent,
        key: str,
        now: datetime,
        decision: Decision,
        before: Snapshot,
        after: Snapshot,
        lifted: Hold | None = None,
    ) -> Monitor:
        """Return the account after one decision.

        Raises:
            Violation: a promise does not hold.
        """
        m = copy(self)
        policy = before.policy
        observed = policy.mode is Mode.OBSERVE
        if observed:
            m.observed |= {policy.name}
        match event:
            case Proposed():
                m._proposed(event, now, decision, before)
            case Returned():
                m._returned(event, key, now, decision, policy, before)
            case Interrupted():
                m._interrupted(event, key, now, before)
            case Lost():
                m._lost(event, key, now, before)
            case Cancelled():
                m._cancelled(event, key, now, before)
            case Woke():
                m._woke(event, key, now, decision, before)
            case Granted() | Denied() | Revised() | Edited():
                m._answered(event, key, now, decision, before)
            case Inspected():
                m._inspected(event, key, now, before)
            case Reconnected():
                m._reconnected(key, now, before)
            case TurnBegan():
                m._turn()
            case RunRestarted():
                m.done = tuple(replace(d, owed=not d.is_read) for d in m.done)
            case Lifted():
                m._lift(event, lifted)
        for command in decision.commands:
            match command:
                case Execute():
                    m._execute(command, event, now, before)
                case AskHuman():
                    m._ask(command, now, before, after)
                    if observed:
                        raise Violation(OBSERVE, "a person is asked about an observed call")
                case WakeAt():
                    m.wakes = m.wakes | {(command.action, command.at)}
                case Inspect():
                    if observed:
                        raise Violation(OBSERVE, "an observed call is inspected")
                case _:
                    pass
        if isinstance(event, Proposed):
            m._count_step(event, decision, policy, before)
        if any(isinstance(command, Announce) for command in decision.commands) and not isinstance(event, Proposed):
            m._ready()
        m._rule(event, decision, before)
        # After its time a wait only keeps order; where nobody answers for it, the core may end it.
        held = {(h.scope, h.value) for h in after.holds.values() if h.cause is Cause.TIME}
        m.bans = tuple(
            b
            for b in m.bans
            if b.cause is not Cause.TIME
            or b.holder is not None
            or b.until is None
            or now < b.until
            or (b.scope, b.value) in held
        )
        for action, _ in m.waits:
            kept = isinstance(after.actions[action].phase, (Waiting, Running))
            if not kept and isinstance(before.actions[action].phase, Waiting):
                # Something else came of it: what starts later is no retry.
                m.waits = tuple(w for w in m.waits if w[0] != action)
        m._owes(after, now, decision)
        return m

    # ---- what covers a call -----------------------------------------------------------------------------------------

    @staticmethod
    def covers(ban: Ban, call: Call, principal: str) -> bool:
        """Say whether a ban is about a call (design section 5)."""
        if call.tool in ban.exempt or (ban.writes_only and call.effect is Effect.READ):
            return False
        gate = call.verdict.gate
        if ban.gated == "deny" and gate in (Gate.ALLOW, Gate.ASK):
            return False
        if ban.gated == "ask" and gate is Gate.ALLOW:
            return False
        values = {
            Scope.ACTION: ban.value in (call.action, call.common),
            Scope.TARGET: ban.value == call.target or (call.target is None and call.operation == ban.operation),
            Scope.OPERATION: ban.value == call.operation or ban.tool == call.tool,
            Scope.RULE: ban.value == call.verdict.rule
            or (gate is Gate.UNAVAILABLE and call.operation == ban.operation),
            Scope.QUOTA: ban.value == call.quota,
            Scope.RUN: ban.value == call.run,
            Scope.TURN: ban.value == call.run,
            Scope.PRINCIPAL: ban.value == principal,
        }
        if not values[ban.scope]:
            return False
        return all(field_digest(call.arguments, name) == held for name, held in ban.fields)

    def against(self, call: Call, now: datetime, s: Snapshot) -> list[Ban]:
        """Return the bans that stand in the way of a call now."""
        return [
            ban for ban in self.bans if self.covers(ban, call, s.tree.principal) and not self._lets_pass(ban, now, s)
        ]

    @staticmethod
    def _lets_pass(ban: Ban, now: datetime, s: Snapshot) -> bool:
        if ban.cause is Cause.REFUSAL:
            if ban.until is not None:
                return now >= ban.until
            if ban.holder is not None:
                return False
            old = ban.placed_at is not None and now >= ban.placed_at + s.policy.limits.max_shared_hold
            return not ban.probed or (ban.scope in SHARED and old)
        if ban.cause is Cause.TIME:
            return ban.until is not None and now >= ban.until and ban.holder is None
        return ban.cause is Cause.REPAIR and ban.loosened

    def _put(self, ban: Ban) -> None:
        """Add a ban; the same reason on the same scope is one ban, and a time moves later only."""
        same = [b for b in self.bans if _same_ban(b, ban)]
        for old in same:
            if ban.cause is Cause.TIME and old.until is not None and ban.until is not None:
                latest = max(old.latest or old.until, ban.latest or ban.until)
                ban = replace(ban, until=max(old.until, ban.until), latest=latest, holder=old.holder)
            if ban.cause is Cause.REFUSAL:
                # A probe that is still open answers for it.
                ban = replace(ban, holder=old.holder)
        self.bans = (*(b for b in self.bans if b not in same), ban)

    # ---- starts -----------------------------------------------------------------------------------------------------

    def _execute(self, command: Execute, event: Event | TreeEvent, now: datetime, s: Snapshot) -> None:
        call, action, number = command.call, command.action, command.attempt
        policy = s.policy
        observed = policy.mode is Mode.OBSERVE
        if number <= dict(self.last).get(action, 0):
            raise Violation(LOST, f"attempt number {number} is used twice")
        if observed and not isinstance(event, Proposed):
            raise Violation(OBSERVE, "the controller starts an observed call by itself")
        if action != call.action:
            raise Violation(APPROVAL, "the executed call is another action")
        again = _may_repeat(policy, call)
        opened = [o for o in self.open if o.action == action]
        self.is_retry = False
        if not observed:
            if opened and not again:
                raise Violation(UNKNOWN, "an action that may not be repeated is started while it is in flight")
            self._judge_start(command, event, now, s)
        by_key = any(d.action == action for d in self.doubts)
        if by_key:
            self.keys_used = self.keys_used | {action}
        yes = self._spend(command, now, s) if not observed else None
        self.open = (
            *self.open,
            Open(action=action, number=number, call=call, yes=yes, by_key=by_key, is_retry=self.is_retry),
        )
        self.is_retry = False
        st = next((st for st in self.steps if st.run == call.run), Steps(run=call.run, step=""))
        st = replace(st, calls_in_turn=st.calls_in_turn + 1, calls_in_run=st.calls_in_run + 1)
        self.steps = (*(other for other in self.steps if other.run != call.run), st)
        self.last = (*(entry for entry in self.last if entry[0] != action), (action, number))
        self.done = tuple(d for d in self.done if d.action != action)
        self.framework = frozenset(entry for entry in self.framework if entry[0] != action)
        self.sent = tuple(
            (run, fp, step, a, number if (run, fp, step) == (call.run, call.fingerprint, call.step) else n, "")
            if (run, fp, step) == (call.run, call.fingerprint, call.step)
            else (run, fp, step, a, n, state)
            for run, fp, step, a, n, state in self.sent
        )

    def _judge_start(self, command: Execute, event: Event | TreeEvent, now: datetime, s: Snapshot) -> None:
        call, action, number = command.call, command.action, command.attempt
        by_key = any(d.action == action for d in self.doubts)
        for ban in self.against(call, now, s):
            if ban.cause is Cause.UNKNOWN and by_key:
                self._judge_key(action, call, now, s)
                continue
            promise = {Cause.UNKNOWN: UNKNOWN, Cause.TIME: RETRY, Cause.REPAIR: REPAIR, Cause.BUDGET: BOUNDED}.get(
                ban.cause, STOP
            )
            raise Violation(promise, f"{_who(event)} starts under {ban.cause.name} on {ban.scope.value}")
        taken: list[Ban] = []
        for ban in self.bans:
            if self.covers(ban, call, s.tree.principal):
                if ban.cause is Cause.REFUSAL and ban.until is None:
                    ban = replace(ban, holder=(action, number), probed=True)  # noqa: PLW2901
                elif ban.cause is Cause.REFUSAL:
                    continue
                elif ban.cause is Cause.TIME:
                    ban = replace(ban, holder=(action, number))  # noqa: PLW2901
            taken.append(ban)
        self.bans = tuple(taken)
        waiting = dict(self.waits)
        own = any(
            b.cause is Cause.TIME and b.by == action and b.told_now and b.holder == (action, number) for b in taken
        )
        if action in waiting and isinstance(event, Woke) and waiting[action] != call.fingerprint:
            raise Violation(RETRY, "the retry is not exactly the refused call")
        self.waits = tuple(w for w in self.waits if w[0] != action)
        self.is_retry = action in waiting or own
        if self.is_retry:
            # A new yes, or the framework's own question, makes it another start.
            granted = any(
                (y.fingerprint, y.run) == (call.fingerprint, call.run) and not y.is_back and now < y.expires_at
                for y in self.yes
            )
            if not granted and (action, call.fingerprint) not in self.framework:
                used = dict(self.retries).get(action, 0) + 1
                self.retries = (*(r for r in self.retries if r[0] != action), (action, used))
                if used > self._retries_allowed(action, call, s.policy):
                    raise Violation(RETRY, f"{used} retries in one turn")

    def _retries_allowed(self, action: str, call: Call, policy: ToolPolicy) -> int:
        named = policy.limits.max_retries
        if named is not None:
            return named
        return 2 if action in self.temporary and call.effect is Effect.READ and _may_repeat(policy, call) else 1

    def _judge_key(self, action: str, call: Call, now: datetime, s: Snapshot) -> None:
        key = s.policy.idempotency_key
        doubt = next(d for d in self.doubts if d.action == action)
        if key is None or action in self.keys_used:
            raise Violation(UNKNOWN, "an unknown write is repeated without a key that is still good")
        if now - doubt.started_at >= key.valid_for:
            raise Violation(UNKNOWN, "an unknown write is repeated after its key expired")
        standing = s.actions[action].call
        if standing.fingerprint != call.fingerprint:
            raise Violation(UNKNOWN, "the repetition with the same key is another call")

    def _spend(self, command: Execute, now: datetime, s: Snapshot) -> Yes | None:
        call = command.call
        mine = (y for y in self.yes if y.fingerprint == call.fingerprint and y.run == call.run and now < y.expires_at)
        found = next(mine, None)
        gated = call.verdict.gate is not Gate.ALLOW
        passed_on = (command.action, call.fingerprint) in self.framework
        if found is None:
            if gated and not passed_on:
                raise Violation(APPROVAL, f"a call that the rule would {call.verdict.gate.value} starts without a yes")
            if command.action in self.must_ask:
                raise Violation(APPROVAL, "a call whose tool asked for a person starts without a yes")
            return None
        self.yes = tuple(y for y in self.yes if y is not found)
        self.must_ask -= {command.action}
        return found

    def _rule(self, event: Event | TreeEvent, decision: Decision, s: Snapshot) -> None:
        """Note what the author's rule, or its absence, said about a start; each verdict must have its reason."""
        if not isinstance(event, (Proposed, Woke)) or s.policy.mode is Mode.OBSERVE:
            return
        call, limits = event.call, s.policy.limits
        gate = call.verdict.gate
        match decision.rule:
            case Rule.POLICY_DENIED:
                if gate is not Gate.DENY:
                    raise Violation(HEALTHY, "denied although the rule does not deny")
                scope, value = _narrow(call, Scope.RULE, s)
                self._put(replace(self._ban(Cause.DENIAL, scope, value, call), gated="deny"))
            case Rule.CHECKER_PARKED:
                if gate is not Gate.UNAVAILABLE:
                    raise Violation(HEALTHY, "kept for a checker that is not down")
                count = dict(self.checks).get(call.action, 0) + 1
                self.checks = (*(c for c in self.checks if c[0] != call.action), (call.action, count))
                if count > limits.checker_retry:
                    raise Violation(BOUNDED, f"a checker that is down is asked {count} times")
            case Rule.CHECKER_DOWN | Rule.APPROVAL_NO_APPROVER | Rule.APPROVAL_PROMPTS_SPENT:
                due = {
                    Rule.CHECKER_DOWN: dict(self.checks).get(call.action, 0) >= limits.checker_retry,
                    Rule.APPROVAL_NO_APPROVER: not s.has_approver,
                    Rule.APPROVAL_PROMPTS_SPENT: self.noes >= limits.max_prompts,
                }
                if gate is Gate.ALLOW or not due[decision.rule]:
                    raise Violation(HEALTHY, f"stopped without a reason by {decision.rule.value}")
                self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, call.action, call, ends_with_turn=True))
            case _:
                pass

    # ---- proposals --------------------------------------------------------------------------------------------------

    def _proposed(self, event: Proposed, now: datetime, decision: Decision, s: Snapshot) -> None:
        call = event.call
        executes = any(isinstance(c, Execute) for c in decision.commands)
        expired = any(p.action == call.action and now >= p.expires_at for p in self.prompts)
        if expired and decision.rule not in (Rule.RUN_HALTED, Rule.INPUT_MALFORMED):
            self.prompts = tuple(p for p in self.prompts if p.action != call.action)
            self.must_ask -= {call.action}
        self._expire(call.action, now, s)
        if decision.answer is None:
            raise Violation(LOST, "a proposal gets no answer")
        if decision.answer is Answer.EXECUTED and not executes:
            raise Violation(LOST, "a proposal is answered as executed, and nothing executes")
        if decision.answer is not Answer.EXECUTED and executes:
            raise Violation(LOST, f"a proposal executes and is answered as {decision.answer.value}")
        is_empty = decision.told is None or (not decision.told.code and decision.told.recovery is not None)
        if is_empty and decision.answer not in (Answer.EXECUTED, Answer.DELIVERED):
            raise Violation(LOST, "a proposal gets an empty answer")
        if s.policy.mode is Mode.OBSERVE:
            if not executes:
                raise Violation(OBSERVE, f"an observed call is answered as {decision.answer.value}")
            return
        resumed = next(
            (e for e in self.sent if (e[0], e[1], e[2]) == (call.run, call.fingerprint, call.step) and e[4]), None
        )
        record = any(d.action == call.action for d in self.done)
        if resumed is not None and record and decision.answer is Answer.DELIVERED:
            self.done = tuple(replace(d, owed=False) if d.action == call.action else d for d in self.done)
            return
        if resumed is not None and (resumed[5] or self._is_open(resumed[3], resumed[4])):
            if decision.answer is not Answer.DELIVERED:
                raise Violation(HEALTHY, f"a resumed call is not delivered but {decision.answer.value}")
            return
        if any(run == call.run for run, _ in self.halted):
            if decision.answer is not Answer.HALTED:
                raise Violation(BOUNDED, "a call of a halted run is not answered as halted")
            return
        if call.malformed:
            if decision.answer not in (Answer.BLOCKED, Answer.HALTED):
                raise Violation(HEALTHY, "a malformed call is not blocked")
            return
        self._judge_proposal(event, now, decision, s)

    def _is_open(self, action: str, number: int) -> bool:
        return any(o.action == action and o.number == number for o in self.open)

    def _judge_proposal(self, event: Proposed, now: datetime, decision: Decision, s: Snapshot) -> None:
        call = event.call
        answer = decision.answer
        phase = s.actions[call.action].phase if call.action in s.actions else None
        opened = [o for o in self.open if o.action == call.action]
        if opened:
            shared = [o for o in opened if (o.call.run, o.call.step) == (call.run, call.step)]
            if shared and (call.effect is Effect.READ or not _may_repeat(s.policy, call)):
                if answer is not Answer.DELIVERED:
                    raise Violation(HEALTHY, f"equal calls of one step do not share one execution: {answer}")
                return
            if all(o.call.run != call.run for o in opened) and call.verdict.gate is Gate.ASK:
                return  # it needs a yes of its own
            if not _may_repeat(s.policy, call):
                if answer not in (Answer.BLOCKED, Answer.HALTED):
                    raise Violation(UNKNOWN, f"a call in flight is answered as {answer}")
                return
            if call.verdict.gate is not Gate.ALLOW:
                return
        elif isinstance(phase, (Waiting, Parked, AwaitingApproval, Approved)):
            # Kept by the controller; that something comes of it is owed below.
            return
        if not opened and self._is_delivered(event, now, decision, s):
            return
        if answer is Answer.DELIVERED:
            raise Violation(HEALTHY, "a call is delivered from the record that should run")
        against = self.against(call, now, s)
        if against:
            if answer is Answer.EXECUTED:
                return  # judged as a start
            timed = all(ban.cause is Cause.TIME for ban in against)
            near = all(
                ban.until is None or ban.until - now <= s.policy.limits.max_wait - timedelta(minutes=2)
                for ban in against
            )
            if timed and near and answer is not Answer.PENDING and answer is not Answer.HALTED:
                raise Violation(HEALTHY, f"under time alone a call is {answer}")
            if not timed and answer not in (Answer.BLOCKED, Answer.STOPPED, Answer.HALTED):
                raise Violation(STOP, f"under a ban that time does not end a call is {answer}")
            return
        if call.verdict.gate is Gate.ALLOW and answer not in (Answer.EXECUTED, Answer.HALTED):
            if self._waits_its_turn(call, now, s) and answer is Answer.PENDING:
                return
            if self._budget_is_spent(call, s):
                return
            raise Violation(HEALTHY, f"nothing stands against a call, and it is {answer} by {decision.rule.value}")

    def _budget_is_spent(self, call: Call, s: Snapshot) -> bool:
        steps = next((st for st in self.steps if st.run == call.run), None)
        if steps is None:
            return False
        spent = False
        for limits in (s.limits, s.policy.limits):
            for limit, used in (
                (limits.max_calls_per_turn, steps.calls_in_turn),
                (limits.max_calls_per_run, steps.calls_in_run),
            ):
                spent = spent or (limit is not None and used >= limit)
        return spent

    def _waits_its_turn(self, call: Call, now: datetime, s: Snapshot) -> bool:
        """A time hold is over: whoever waits for it goes first, and nobody before margin and jitter are over."""
        for ban in self.bans:
            if ban.cause is Cause.TIME and self.covers(ban, call, s.tree.principal):
                if ban.latest is not None and now < ban.latest:
                    return True
                for other in s.actions.values():
                    if other.key == call.action or not isinstance(other.phase, (Waiting, Parked)):
                        continue
                    if self.covers(ban, other.call, s.tree.principal):
                        return True
        return False

    def _is_delivered(self, event: Proposed, now: datetime, decision: Decision, s: Snapshot) -> bool:
        """Judge an equal call after a completed one; say whether it was answered from the record."""
        call, policy = event.call, s.policy
        done = next((d for d in self.done if d.action == call.action), None)
        if done is None:
            return False
        same_step = (done.run, done.step) == (call.run, call.step)
        due = same_step and (done.is_read or not _may_repeat(policy, call))
        changed = done
        if not due and done.owed:
            due, changed = True, replace(done, owed=False)
        poll = policy.poll
        if not due and poll is not None and done.finished is False and now < done.started_at + poll.min_interval:
            if decision.answer is not Answer.PENDING:
                raise Violation(HEALTHY, f"a poll before its interval is {decision.answer}")
            self.done = tuple(d for d in self.done if d.action != call.action)
            return True
        fresh = not done.old and not done.written
        due = due or (poll is not None and done.finished is True and fresh)
        due = due or (policy.repeatable is False and not done.old and not done.overwritten)
        if not due and policy.limits.replay_completed > 0 and done.is_read and fresh:
            if done.replays >= policy.limits.replay_completed:
                if decision.answer not in (Answer.STOPPED, Answer.HALTED):
                    raise Violation(BOUNDED, f"one replay too many is {decision.answer}")
                self.done = tuple(d for d in self.done if d.action != call.action)
                self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, call.action, call, ends_with_turn=True))
                return True
            due, changed = True, replace(done, replays=done.replays + 1)
        own = any(a.call.base == call.action and a.call.run == call.run for a in s.actions.values())
        if due and own and decision.answer in (Answer.NEEDS_APPROVAL, Answer.EXECUTED):
            return True  # this run's call is asked about on its own; a person's yes is judged as a start
        if due and decision.answer not in (Answer.DELIVERED, Answer.HALTED):
            raise Violation(HEALTHY, f"a completed call is not delivered but {decision.answer}")
        if due:
            self.done = tuple(changed if d is done else d for d in self.done)
        return due

    @staticmethod
    def _ban(
        cause: Cause,
        scope: Scope,
        value: str,
        call: Call,
        *,
        ends_with_turn: bool = False,
        until: datetime | None = None,
    ) -> Ban:
        return Ban(
            cause=cause,
            scope=scope,
            value=value,
            by=call.action,
            operation=call.operation,
            tool=call.tool,
            ends_with_turn=ends_with_turn,
            until=until,
            run=call.run,
        )

    # ---- results ----------------------------------------------------------------------------------------------------

    def _close(self, key: str, number: int) -> Open | None:
        found = next((o for o in self.open if o.action == key and o.number == number), None)
        if found is not None:
            self.open = tuple(o for o in self.open if o is not found)
        return found

    def _free(self, o: Open, *, keep_probe: bool) -> None:
        """The attempt answers for nothing any more."""
        self.bans = tuple(
            replace(ban, holder=None, probed=ban.probed and (keep_probe or ban.told_now))
            if ban.holder == (o.action, o.number)
            else ban
            for ban in self.bans
        )

    def _returned(
        self, event: Returned, key: str, now: datetime, decision: Decision, policy: ToolPolicy, s: Snapshot
    ) -> None:
        o = self._close(key, event.attempt)
        envelope = event.envelope
        if o is None:
            doubt = next((d for d in self.doubts if d.action == key and d.number == event.attempt), None)
            if doubt is None or any(other.action == key for other in self.open):
                if decision.changes:
                    raise Violation(LOST, "a result of an answered attempt changes something")
                return
            # The late result of an unknown write is its truth.
            call = s.actions[key].call
            by_key = key in self.keys_used
            if not by_key:
                self._end_doubt(key)
            o = Open(action=key, number=event.attempt, call=call, by_key=by_key)
        elif decision.answer is None:
            raise Violation(LOST, "the caller of an attempt gets no answer")
        if policy.mode is Mode.OBSERVE:
            if decision.answer not in (Answer.EXECUTED, None):
                raise Violation(OBSERVE, f"the result of an observed call is answered as {decision.answer}")
            if self._meaning(o, envelope, policy) is None and o.call.effect is not Effect.READ:
                self._wrote(o.call)
            return
        self._settle(o, event, now, policy, s)
        if o.yes is not None and envelope.executed is Executed.NO and o.yes.expires_at > now:
            self.yes = (*self.yes, replace(o.yes, is_back=True))
        self._ready()

    def _ready(self) -> None:
        """Something became ready: a run that was only waiting goes on."""
        runs = {run for run, reason in self.halted if reason == "WAITING"}
        self.halted = tuple(h for h in self.halted if h[0] not in runs)
        self.steps = tuple(replace(st, idle=0) if st.run in runs else st for st in self.steps)

    def _settle(self, o: Open, event: Returned, now: datetime, policy: ToolPolicy, s: Snapshot) -> None:
        call, envelope = o.call, event.envelope
        meaning = self._meaning(o, envelope, policy)
        self.waits = tuple(w for w in self.waits if w[0] != o.action)
        empty = envelope.outcome is Outcome.EMPTY and policy.empty_means == "unknown" and meaning is None
        if meaning is not Recovery.RETRY_AFTER:
            self.bans = tuple(b for b in self.bans if not (b.cause is Cause.TIME and b.holder == (o.action, o.number)))
        if meaning is None:
            self.bans = tuple(
                b for b in self.bans if not (b.cause is Cause.REFUSAL and b.holder == (o.action, o.number))
            )
            if o.by_key:
                self._end_doubt(o.action)
            if empty:
                self._empty(o, policy, s)
            else:
                self._complete(o, event, now, policy, s)
            return
        self.done = tuple(d for d in self.done if d.action != o.action)
        stays = meaning in (Recovery.DO_NOT_RETRY, Recovery.USE_ALTERNATIVE)
        self._free(o, keep_probe=stays)
        match meaning:
            case Recovery.DO_NOT_RETRY | Recovery.USE_ALTERNATIVE:
                self._refuse(o, envelope, policy, now, s)
            case Recovery.RETRY_AFTER:
                self._wait(o, envelope, policy, now, s)
            case Recovery.REPAIR_INPUT:
                self._repair(o, envelope, policy, s)
            case Recovery.REQUEST_APPROVAL:
                # Where another attempt is under way, or nobody else can be asked, the call cannot be kept.
                crowded = any(other.action == o.action for other in self.open)
                crowded = crowded or len(self.prompts) >= policy.limits.max_open_prompts
                if o.action in self.asked or crowded:
                    self._refuse(o, envelope, policy, now, s)
                else:
                    self.asked |= {o.action}
                    self.must_ask |= {o.action}
                    if not s.has_approver or self.noes >= policy.limits.max_prompts:
                        self.must_ask -= {o.action}
                        self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, o.action, call, ends_with_turn=True))
            case Recovery.INSPECT_OUTCOME:
                said = envelope.recovery is Recovery.INSPECT_OUTCOME
                code = (envelope.code if said else "") or "OUTCOME_UNKNOWN"
                self._doubt(o, code, now, policy, s)

    @staticmethod
    def _meaning(o: Open, envelope: Envelope, policy: ToolPolicy) -> Recovery | None:
        """Return the class that a result means, or None for a completed one (design sections 2, 5 and decision 5)."""
        is_read = o.call.effect is Effect.READ
        recovery = envelope.recovery
        if recovery is None:
            return None
        if o.by_key:
            return Recovery.INSPECT_OUTCOME
        if is_read:
            if recovery is Recovery.INSPECT_OUTCOME or envelope.effects_before_failure:
                return Recovery.DO_NOT_RETRY
            return recovery
        if envelope.effects_before_failure:
            return Recovery.INSPECT_OUTCOME
        if envelope.executed is not Executed.NO and not _may_repeat(policy, o.call):
            return Recovery.INSPECT_OUTCOME
        return recovery

    def _complete(self, o: Open, event: Returned, now: datetime, policy: ToolPolicy, s: Snapshot) -> None:
        call = o.call
        is_read = call.effect is Effect.READ
        self.streaks = tuple(st for st in self.streaks if st.operation != call.operation)
        self._free(o, keep_probe=False)
        if is_read:
            mine = (call.target or call.operation, call.operation)
            self.repairs = tuple(r for r in self.repairs if r[0] not in mine)
        else:
            self._wrote(call)
        self.bans = tuple(b for b in self.bans if not (b.before == (call.tool, call.arguments) and b.run == call.run))
        done = Done(
            action=o.action,
            run=call.run,
            step=call.step,
            started_at=next(st.started_at for st in _opened(s, o.action) if st.attempt == o.number)
            if _opened(s, o.action)
            else now,
            is_read=is_read,
            finished=event.finished,
            target=call.target,
        )
        self.done = (*(d for d in self.done if d.action != o.action), done)
        if not is_read:
            self.sent = tuple(
                (run, fp, step, a, n, "completed") if (a, n) == (o.action, o.number) else (run, fp, step, a, n, state)
                for run, fp, step, a, n, state in self.sent
            )
        if event.digest:
            self._count_same(o, event.digest, policy, s)

    def _count_same(self, o: Open, digest: str, policy: ToolPolicy, s: Snapshot) -> None:
        """Count equal results with nothing between them (looks of these explorations are never a second apart)."""
        last = next((entry for entry in self.same if entry[0] == o.action), None)
        count = last[2] + 1 if last is not None and last[1] == digest else 1
        self.same = (*(entry for entry in self.same if entry[0] != o.action), (o.action, digest, count))
        limit = policy.limits.max_same_results
        if limit is not None and count >= limit:
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, o.action, o.call, ends_with_turn=True))

    def _wrote(self, call: Call) -> None:
        """A write completed: what depended on other work may have changed."""
        self.repairs = ()
        self.same = tuple(entry for entry in self.same if entry[0] == call.action)
        self.bans = tuple(
            replace(b, loosened=b.may_repeat)
            if b.by != call.action
            and b.cause is Cause.REPAIR
            and b.scope is Scope.ACTION
            and not b.fields
            and b.before is None
            and not b.exempt
            else b
            for b in self.bans
        )
        self.done = tuple(
            replace(
                d,
                written=d.written or d.action != call.action,
                overwritten=d.overwritten
                or (
                    (d.action != call.action and call.target_declared and call.target is not None)
                    and d.target == call.target
                ),
            )
            for d in self.done
        )

    def _empty(self, o: Open, policy: ToolPolicy, s: Snapshot) -> None:
        looks = dict(self.empty_looks).get(o.action, 0)
        if looks >= policy.empty_retry.looks:
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, o.action, o.call, ends_with_turn=True))
            return
        self.empty_looks = (*(e for e in self.empty_looks if e[0] != o.action), (o.action, looks + 1))

    def _refuse(self, o: Open, envelope: Envelope, policy: ToolPolicy, now: datetime, s: Snapshot) -> None:
        call = o.call
        scope = Scope.ACTION if call.effect is Effect.UNDECLARED else Scope.TARGET
        declared = policy.constraints.get(envelope.constraint or "")
        if declared is not None and (declared not in SHARED or _may_share(policy, envelope)):
            scope = declared
        elif envelope.code == "VAULT_LOCKED" and _may_share(policy, envelope):
            scope = Scope.PRINCIPAL
        scope, value = _narrow(call, scope, s)
        ban = self._ban(Cause.REFUSAL, scope, value, call, until=envelope.reset_at)
        exempt = envelope.alternative_tools if envelope.recovery is Recovery.USE_ALTERNATIVE else ()
        self._put(replace(ban, exempt=exempt, placed_at=now, code=envelope.code))
        self._count_refusal(o, envelope.code, policy, s)

    def _count_refusal(self, o: Open, code: str, policy: ToolPolicy, s: Snapshot) -> None:
        streak = self._streak(o, code)
        step = f"{o.call.run}/{o.call.step}"
        count = streak.count if streak.step == step else streak.count + 1
        limit = policy.limits.max_refusals
        if limit is None:
            limit = 3 if o.call.effect is Effect.WRITE else 8
        self._keep(replace(streak, count=min(count, limit), step=step))
        if count >= limit:
            self._put(self._ban(Cause.EXHAUSTED, Scope.OPERATION, o.call.operation, o.call, ends_with_turn=True))

    def _streak(self, o: Open, code: str) -> Streak:
        found = next((st for st in self.streaks if st.operation == o.call.operation and st.code == code), None)
        if found is not None:
            return found
        return Streak(operation=o.call.operation, code=code, count=0, step="", waits=frozenset())

    def _keep(self, streak: Streak) -> None:
        self.streaks = (*(st for st in self.streaks if st.operation != streak.operation), streak)

    def _wait(self, o: Open, envelope: Envelope, policy: ToolPolicy, now: datetime, s: Snapshot) -> None:
        call, limits = o.call, policy.limits
        if envelope.reset_at is None and limits.on_unknown_reset == "stop":
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, o.action, call, ends_with_turn=True))
            return
        until = envelope.reset_at if envelope.reset_at is not None else now + limits.default_wait
        streak = self._streak(o, envelope.code)
        streak = replace(streak, waits=streak.waits | {o.action})
        self._keep(streak)
        scope = Scope.ACTION
        declared = call.effect is not Effect.UNDECLARED
        if not (envelope.temporary and envelope.reset_at is None):
            if call.quota is not None and _may_share(policy, envelope):
                scope = Scope.QUOTA
            elif call.target is not None and declared:
                scope = Scope.TARGET
        if scope is Scope.ACTION and declared and len(streak.waits) >= 2:
            scope = Scope.OPERATION
        scope, value = _narrow(call, scope, s)
        until = max(until, now + timedelta(seconds=1))
        room = min(max((until - now) / 5, timedelta(seconds=1)), timedelta(seconds=60))
        self._put(replace(self._ban(Cause.TIME, scope, value, call, until=until), latest=until + room))
        self.waits = (*self.waits, (o.action, call.fingerprint))
        self.temporary = self.temporary | {o.action} if envelope.temporary else self.temporary - {o.action}
        spent = dict(self.retries).get(o.action, 0) >= self._retries_allowed(o.action, call, policy)
        if spent or until - now > limits.max_wait:
            self._count_refusal(o, envelope.code, policy, s)
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, o.action, call, ends_with_turn=True))
            # What starts in the next turn is no retry of this.
            self.waits = tuple(w for w in self.waits if w[0] != o.action)

    def _repair(self, o: Open, envelope: Envelope, policy: ToolPolicy, s: Snapshot) -> None:
        call = o.call
        names = tuple(f.name for f in envelope.invalid_fields)
        declared = call.effect is not Effect.UNDECLARED
        before = (
            None if envelope.precondition is None else (envelope.precondition.tool, envelope.precondition.arguments)
        )
        ban = self._ban(Cause.REPAIR, Scope.ACTION, o.action, call, ends_with_turn=True)
        # A named field that changes makes it another action: this one waits for the turn or the precondition.
        times = dict(self.repaired).get(o.action, 0) + 1
        self.repaired = (*(r for r in self.repaired if r[0] != o.action), (o.action, times))
        most = policy.limits.max_same_results if policy.limits.max_same_results is not None else 30
        # While the same call is under way elsewhere, only the turn or the precondition ends it.
        alone = all(other.action != o.action for other in self.open)
        ban = replace(ban, may_repeat=times < most and alone)
        self._put(replace(ban, before=before, exempt=("named",) if names else ()))
        if names and call.target is not None and declared:
            fields = tuple((name, field_digest(call.arguments, name)) for name in names)
            self._put(replace(ban, scope=Scope.TARGET, value=call.target, fields=fields, before=before))
        where = call.target if call.target is not None and declared else call.operation
        scope = Scope.TARGET if call.target is not None and declared else Scope.OPERATION
        step = f"{call.run}/{call.step}"
        count, last = next(((n, at) for value, n, at in self.repairs if value == where), (0, ""))
        count = count if last == step else count + 1
        self.repairs = (*(r for r in self.repairs if r[0] != where), (where, count, step))
        limit = policy.limits.max_repairs
        if limit is None:
            limit = 3 if names else 8
        if count >= limit:
            self._put(self._ban(Cause.EXHAUSTED, scope, where, call, ends_with_turn=True))

    def _doubt(self, o: Open, code: str, now: datetime, policy: ToolPolicy, s: Snapshot) -> None:
        """A write may have happened."""
        call = o.call
        if call.effect is Effect.UNDECLARED:
            scope, value = Scope.ACTION, call.action
        elif call.target is not None:
            scope, value = Scope.TARGET, call.target
        else:
            scope, value = Scope.OPERATION, call.operation
        started = next((st.started_at for st in _opened(s, o.action) if st.attempt == o.number), now)
        standing = next((d for d in self.doubts if d.action == o.action), None)
        if standing is not None:
            started = standing.started_at
        doubt = Doubt(action=o.action, number=o.number, started_at=started)
        self.doubts = (*(d for d in self.doubts if d.action != o.action), doubt)
        for other in [other for other in self.open if other.action == o.action]:
            # Nothing runs on behind a doubt: their results still belong to their callers.
            self._close(o.action, other.number)
            self._free(other, keep_probe=True)
        self._put(replace(self._ban(Cause.UNKNOWN, scope, value, call), writes_only=True))
        self._count_refusal(o, code, policy, s)

    def _end_doubt(self, action: str) -> None:
        self.doubts = tuple(d for d in self.doubts if d.action != action)
        self.keys_used -= {action}
        mine = [b for b in self.bans if b.cause is Cause.UNKNOWN and b.by == action]
        self.bans = tuple(b for b in self.bans if b not in mine)

    # ---- attempts that end without an answer ------------------------------------------------------------------------

    def _interrupted(self, event: Interrupted, key: str, now: datetime, s: Snapshot) -> None:
        o = self._close(key, event.attempt)
        if o is None:
            return
        if o.by_key:
            self._doubt(o, "OUTCOME_UNKNOWN", now, s.policy, s)
            return
        self._free(o, keep_probe=False)
        self.done = tuple(d for d in self.done if d.action != key)
        for other in [other for other in self.open if other.action == key]:
            self._close(key, other.number)
            self._free(other, keep_probe=True)
        self.framework |= {(key, o.call.fingerprint)}

    def _lost(self, event: Lost, key: str, now: datetime, s: Snapshot) -> None:
        o = self._close(key, event.attempt)
        if o is None:
            return
        self._free(o, keep_probe=True)
        self.done = tuple(d for d in self.done if d.action != key)
        if o.is_retry:
            self._forget_wait(key)
        if o.call.effect is not Effect.READ and s.policy.mode is not Mode.OBSERVE:
            self._doubt(o, "OUTCOME_UNKNOWN", now, s.policy, s)

    def _forget_wait(self, key: str) -> None:
        """What was refused until a time had its one retry, and nobody knows what came of it."""
        self.waits = tuple(w for w in self.waits if w[0] != key)
        self.bans = tuple(replace(b, told_now=False) if b.cause is Cause.TIME and b.by == key else b for b in self.bans)

    def _cancelled(self, event: Cancelled, key: str, now: datetime, s: Snapshot) -> None:
        policy = s.policy
        opened = [o for o in self.open if o.action == key]
        if opened:
            self.done = tuple(d for d in self.done if d.action != key)
            for o in opened:
                self._close(key, o.number)
                self._free(o, keep_probe=True)
            last = opened[-1]
            self._forget_wait(key)
            if last.by_key or not (event.acknowledged or last.call.effect is Effect.READ):
                self._doubt(last, "OUTCOME_UNKNOWN", now, policy, s)
            return
        phase = s.actions[key].phase if key in s.actions else None
        if isinstance(phase, (Waiting, Parked, AwaitingApproval, Approved)):
            call = s.actions[key].call
            self.done = tuple(d for d in self.done if d.action != key)
            self.prompts = tuple(p for p in self.prompts if p.action != key)
            self.yes = tuple(y for y in self.yes if (y.fingerprint, y.run) != (call.fingerprint, call.run))
            self.waits = tuple(w for w in self.waits if w[0] != key)
            self.must_ask -= {key}
            self.framework = frozenset(entry for entry in self.framework if entry[0] != key)
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, key, call, ends_with_turn=True))

    def _expire(self, key: str, now: datetime, s: Snapshot) -> None:
        """A yes that was not used in time is over; so is the question of a tool that asked."""
        standing = s.actions.get(key)
        if standing is None:
            return
        call = standing.call
        mine = [y for y in self.yes if (y.fingerprint, y.run) == (call.fingerprint, call.run)]
        late = [y for y in mine if now >= y.expires_at]
        self.yes = tuple(y for y in self.yes if y not in late)
        if late and len(late) == len(mine):
            self.must_ask -= {key}

    # ---- time -------------------------------------------------------------------------------------------------------

    def _woke(self, event: Woke, key: str, now: datetime, decision: Decision, s: Snapshot) -> None:
        self.wakes = frozenset(entry for entry in self.wakes if entry[0] != key or entry[1] > now)
        phase = s.actions[key].phase if key in s.actions else None
        executes = any(isinstance(c, Execute) for c in decision.commands)
        self.prompts, expired = _split(self.prompts, lambda p: p.action == key and now >= p.expires_at)
        if expired:
            self.must_ask -= {key}
        self._expire(key, now, s)
        if isinstance(phase, (Waiting, Parked)):
            due = phase.retry_at if isinstance(phase, Waiting) else phase.run_at
            if now < due:
                if executes:
                    raise Violation(RETRY, "a kept call starts before its time")
                return
            unattended = (
                event.call.effect is not Effect.READ
                and s.tree.turn > phase.turn
                and now - phase.since_at > s.policy.limits.max_unattended
            )
            if unattended:
                if executes:
                    raise Violation(HEALTHY, "a write that waited long runs although the human has spoken since")
                self.waits = tuple(w for w in self.waits if w[0] != key)
                return
            gate = event.call.verdict.gate
            observed = s.policy.mode is Mode.OBSERVE
            if executes or gate is not Gate.ALLOW or observed or self.against(event.call, now, s):
                return
            if not self._waits_its_turn(event.call, now, s) and not self._budget_is_spent(event.call, s):
                raise Violation(
                    HEALTHY, f"a kept call is due, nothing is against it, and it does not run: {decision.rule.value}"
                )

    def _reconnected(self, key: str, now: datetime, s: Snapshot) -> None:
        phase = s.actions[key].phase if key in s.actions else None
        if isinstance(phase, Waiting) and phase.not_accepted:
            self.bans = tuple(
                replace(b, until=now) if b.cause is Cause.TIME and b.scope is Scope.ACTION and b.value == key else b
                for b in self.bans
            )

    # ---- people -----------------------------------------------------------------------------------------------------

    def _ask(self, command: AskHuman, now: datetime, before: Snapshot, after: Snapshot) -> None:
        action = after.actions[command.action]
        limits = before.policy.limits
        self.prompts = tuple(p for p in self.prompts if p.action != command.action or now < p.expires_at)
        if not before.has_approver:
            raise Violation(APPROVAL, "a person is asked although nobody can answer")
        if any(p.action == command.action for p in self.prompts):
            raise Violation(BOUNDED, "a second question about one call")
        if self.noes >= limits.max_prompts:
            raise Violation(BOUNDED, "one question too many after so many noes")
        phase = action.phase
        if not isinstance(phase, AwaitingApproval) or phase.ticket != command.ticket:
            raise Violation(OWED, "a question is asked that nobody waits for")
        self.prompts = (
            *self.prompts,
            Prompt(
                action=command.action,
                ticket=command.ticket,
                fingerprint=action.call.fingerprint,
                run=action.call.run,
                rule=phase.rule,
                expires_at=phase.expires_at,
            ),
        )
        if len(self.prompts) > limits.max_open_prompts:
            raise Violation(BOUNDED, "too many open questions")

    def _answered(
        self, event: Granted | Denied | Revised | Edited, key: str, now: datetime, decision: Decision, s: Snapshot
    ) -> None:
        prompt = next((p for p in self.prompts if p.action == key), None)
        fits = (
            prompt is not None
            and event.ticket == prompt.ticket
            and event.fingerprint == prompt.fingerprint
            and now < prompt.expires_at
        )
        if prompt is None or not fits:
            if decision.changes or decision.commands:
                raise Violation(APPROVAL, "an answer that fits no open question changes something")
            return
        if not decision.changes:
            raise Violation(APPROVAL, "an answer that fits an open question changes nothing")
        call = s.actions[key].call
        self.prompts = tuple(p for p in self.prompts if p is not prompt)
        self.must_ask -= {key}
        ttl = s.policy.limits.grant_ttl
        match event:
            case Granted():
                self.yes = (
                    *self.yes,
                    Yes(ticket=prompt.ticket, fingerprint=prompt.fingerprint, run=prompt.run, expires_at=now + ttl),
                )
                self._after_yes(call, s)
                # Until the yes is spent or expires, a tool that asked has its answer.
                if prompt.rule.startswith("tool:"):
                    self.must_ask |= {key}
            case Edited():
                self._edited(event, key, prompt, now + ttl, s)
            case Denied():
                self._denied(call, prompt, s)
            case Revised():
                ban = self._ban(Cause.REPAIR, Scope.ACTION, key, call, ends_with_turn=True)
                self._put(replace(ban, exempt=("named",)))

    def _after_yes(self, call: Call, s: Snapshot) -> None:
        self.noes = 0
        self.denials = tuple(d for d in self.denials if d[0] != call.operation)
        gone = [
            b
            for b in self.bans
            if b.cause is Cause.DENIAL and b.gated != "deny" and self.covers(b, call, s.tree.principal)
        ]
        # The rule's hold ends with what it said about its own call (decision 6).
        own = {b.by for b in gone if b.scope is Scope.RULE}
        gone.extend(b for b in self.bans if b.cause is Cause.DENIAL and b.scope is Scope.ACTION and b.by in own)
        self.bans = tuple(b for b in self.bans if b not in gone)

    def _edited(self, event: Edited, key: str, prompt: Prompt, expires_at: datetime, s: Snapshot) -> None:
        made = event.call
        standing = s.actions[key].call
        self._after_yes(made, s)
        busy = any(o.action == made.action for o in self.open) or any(d.action == made.action for d in self.doubts)
        once = s.policy.repeatable is False
        busy = busy or (once and any(d.action == made.action and not d.old for d in self.done))
        if made.action != key:
            self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, key, standing, ends_with_turn=True))
            if busy:
                return
            self.prompts = tuple(p for p in self.prompts if p.action != made.action)
            self.waits = tuple(w for w in self.waits if w[0] != made.action)
            self.yes = tuple(y for y in self.yes if (y.fingerprint, y.run) != (made.fingerprint, made.run))
            if made.tool != standing.tool:
                return
        self.yes = (
            *self.yes,
            Yes(ticket=prompt.ticket, fingerprint=made.fingerprint, run=made.run, expires_at=expires_at),
        )

    def _denied(self, call: Call, prompt: Prompt, s: Snapshot) -> None:
        self.noes += 1
        count = dict(self.denials).get(call.operation, 0) + 1
        self.denials = (*(d for d in self.denials if d[0] != call.operation), (call.operation, count))
        named = prompt.rule and prompt.rule != "always" and not prompt.rule.startswith("tool:")
        if named:
            ban = self._ban(Cause.DENIAL, Scope.RULE, prompt.rule, call)
            self._put(replace(ban, gated="ask", code=call.action))
            # Exactly this call stays refused, whatever the rule says later.
            self._put(self._ban(Cause.DENIAL, Scope.ACTION, call.action, call))
            return
        scope = Scope.ACTION if call.effect is Effect.UNDECLARED else Scope.TARGET
        scope, value = _narrow(call, scope, s)
        self._put(self._ban(Cause.DENIAL, scope, value, call))
        if scope is Scope.ACTION and count >= 2:
            ban = self._ban(Cause.DENIAL, Scope.OPERATION, call.operation, call, ends_with_turn=True)
            self._put(replace(ban, gated="ask"))

    def _inspected(self, event: Inspected, key: str, now: datetime, s: Snapshot) -> None:
        doubt = next((d for d in self.doubts if d.action == key), None)
        if doubt is None or any(o.action == key for o in self.open):
            return
        call = s.actions[key].call
        if event.verdict is Verdict.APPLIED:
            self._end_doubt(key)
            self.streaks = tuple(st for st in self.streaks if st.operation != call.operation)
            self._wrote(call)
            done = Done(
                action=key,
                run=call.run,
                step=call.step,
                started_at=doubt.started_at,
                is_read=False,
                finished=None,
                target=call.target,
            )
            self.done = (*(d for d in self.done if d.action != key), done)
            self.sent = tuple(
                (run, fp, step, a, n, "completed") if (a, n) == (key, doubt.number) else (run, fp, step, a, n, state)
                for run, fp, step, a, n, state in self.sent
            )
        elif event.verdict is Verdict.NOT_APPLIED:
            first = doubt.absent_at
            if event.source == "person" or (first is not None and now - first >= s.policy.limits.settle):
                self._end_doubt(key)
            elif first is None:
                self.doubts = tuple(replace(d, absent_at=now) if d is doubt else d for d in self.doubts)

    # ---- the tree ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self.bans = tuple(
            replace(b, probed=b.cause is not Cause.REFUSAL, told_now=False) for b in self.bans if not b.ends_with_turn
        )
        self.prompts = ()
        self.must_ask = frozenset()
        self.asked = frozenset()
        self.framework = frozenset()
        self.retries = ()
        self.empty_looks = ()
        self.checks = ()
        self.streaks = ()
        self.repairs = ()
        self.repaired = ()
        self.done = tuple(replace(d, old=True, owed=False, replays=0) for d in self.done)
        self.halted = ()
        self.steps = tuple(
            replace(st, blocked=0, idle=0, blocked_in_turn=0, calls_in_turn=0, all_blocked=True, seen=0, all_idle=True)
            for st in self.steps
        )
        self.noes = 0
        self.denials = ()
        self.same = ()

    def _lift(self, event: Lifted, hold: Hold | None) -> None:
        if event.run is not None:
            self.halted = tuple(h for h in self.halted if h[0] != event.run)
            self.steps = tuple(
                replace(st, blocked=0, idle=0, blocked_in_turn=0) if st.run == event.run else st for st in self.steps
            )
        if hold is None:
            return
        gone = [
            b
            for b in self.bans
            if (b.cause, b.scope, b.value) == (hold.cause, hold.scope, hold.value)
            and (b.cause is not Cause.REPAIR or b.fields == hold.fields)
            and (b.cause is not Cause.REFUSAL or b.code == hold.code)
            and (b.cause is not Cause.DENIAL or not b.code or b.code == hold.action)
        ]
        if hold.cause is Cause.DENIAL and hold.scope is Scope.RULE:
            mine = (Cause.DENIAL, Scope.ACTION, hold.action)
            gone.extend(b for b in self.bans if (b.cause, b.scope, b.by) == mine)
        self.bans = tuple(b for b in self.bans if b not in gone)
        if hold.cause is Cause.EXHAUSTED:
            actions = {b.by for b in gone}
            self.retries = tuple(r for r in self.retries if r[0] not in actions)
        self.streaks = tuple(st for st in self.streaks if st.operation != hold.operation)
        self.repairs = tuple(r for r in self.repairs if r[0] != hold.value)
        if hold.cause is Cause.DENIAL:
            self.noes = 0
            self.denials = tuple(d for d in self.denials if d[0] != hold.operation)
        if hold.cause is Cause.UNKNOWN:
            # An operator took it on himself.
            for action in {b.by for b in gone}:
                self._end_doubt(action)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _count_step(self, event: Proposed, decision: Decision, policy: ToolPolicy, s: Snapshot) -> None:
        call = event.call
        answer = decision.answer
        if decision.rule.value.startswith("any.proposed.known"):
            return
        if any(run == call.run for run, _ in self.halted):
            return
        found = next((st for st in self.steps if st.run == call.run), None)
        st = found if found is not None else Steps(run=call.run, step="")
        if st.step == call.step and not st.seen:
            # More calls than the step was said to hold: they can only show that something moved.
            moved = answer is Answer.EXECUTED
            st = replace(st, blocked=0 if moved else st.blocked, idle=0 if moved else st.idle)
            self.steps = (*(other for other in self.steps if other.run != call.run), st)
            return
        if st.step != call.step:
            st = _closed(st) if st.seen else st
            st = replace(st, step=call.step, seen=0, all_blocked=True, all_idle=True)
        executes = answer is Answer.EXECUTED
        barred = answer in (Answer.BLOCKED, Answer.STOPPED, Answer.HALTED) and decision.blocked_step
        idle = not executes and decision.idle_step
        st = replace(
            st,
            siblings=max(st.siblings, call.siblings) if st.seen else call.siblings,
            seen=st.seen + 1,
            all_blocked=st.all_blocked and barred,
            all_idle=st.all_idle and idle,
        )
        if st.seen >= st.siblings:
            st = replace(_closed(st), seen=0)
        self._judge_blocks(event, decision, policy, s)
        limits = s.limits
        spent = (
            st.blocked >= limits.max_blocked_steps
            or st.blocked_in_turn >= limits.max_blocked_per_turn
            or st.idle >= limits.max_idle_steps
        )
        if policy.mode is not Mode.OBSERVE and not executes:
            if spent and answer is not Answer.HALTED:
                raise Violation(BOUNDED, f"the run goes on after {st.blocked} blocked and {st.idle} idle steps")
            held = decision.ticket is not None and decision.rule.value.startswith("start.")
            if answer is Answer.HALTED and not spent and not held:
                raise Violation(HEALTHY, "the run is halted too early")
        if answer is Answer.HALTED:
            idle_only = st.blocked < limits.max_blocked_steps and st.blocked_in_turn < limits.max_blocked_per_turn
            reason = "WAITING" if idle_only and st.idle >= limits.max_idle_steps else "BLOCKED"
            self.halted = (*(h for h in self.halted if h[0] != call.run), (call.run, reason))
        self.steps = (*(other for other in self.steps if other.run != call.run), st)

    def _judge_blocks(self, event: Proposed, decision: Decision, policy: ToolPolicy, s: Snapshot) -> None:
        """The second blocked step under one hold is a stop for what the hold covers."""
        answer, ticket = decision.answer, decision.ticket
        if answer not in (Answer.BLOCKED, Answer.STOPPED) or not ticket or not decision.blocked_step:
            return
        step = f"{event.call.run}/{event.call.step}"
        count, last = next(((n, at) for t, n, at in self.blocks if t == ticket), (0, ""))
        count = count if last == step else count + 1
        self.blocks = (*(b for b in self.blocks if b[0] != ticket), (ticket, min(count, 2), step))
        if count > policy.limits.max_blocked_before_stop and answer is Answer.BLOCKED:
            raise Violation(BOUNDED, f"blocked step {count} under one hold is not a stop")

    # ---- obligations ------------------------------------------------------------------------------------------------

    def _owes(self, after: Snapshot, now: datetime, decision: Decision) -> None:
        asking: set[str] = set()
        for action in after.actions.values():
            if action.call.tool in self.observed:
                if isinstance(action.phase, AwaitingApproval):
                    raise Violation(OBSERVE, "an observed call waits for a person")
                continue
            self._owes_action(action, after, now)
            if isinstance(action.phase, AwaitingApproval) and not action.phase.by_framework:
                asking.add(action.phase.ticket)
                if action.phase.ticket not in {p.ticket for p in self.prompts}:
                    raise Violation(OWED, "an action waits for an answer to a question that nobody was asked")
        if asking != set(after.tree.open_prompts) or len(after.tree.open_prompts) != len(asking):
            raise Violation(OWED, "open_prompts are not the prompts that are open")
        for prompt in self.prompts:
            if prompt.ticket not in asking and now < prompt.expires_at:
                raise Violation(OWED, "a question is open that no action waits for")
        for hold in after.holds.values():
            if not hold.observed:
                self._owes_hold(hold, after)
            elif decision.answer is Answer.BLOCKED and hold.ticket == decision.ticket:
                raise Violation(OBSERVE, "a hold from an observed tool blocks")
        # Forget what nothing can ask about any more.
        standing = {hold.ticket for hold in after.holds.values()}
        self.blocks = tuple(b for b in self.blocks if b[0] in standing)
        self.wakes = frozenset(wake for wake in self.wakes if wake[1] == _due(after.actions[wake[0]]))
        for ban in self.bans:
            if ban.cause is Cause.UNKNOWN and not any(
                h.cause is Cause.UNKNOWN and (h.scope, h.value) == (ban.scope, ban.value) for h in after.holds.values()
            ):
                raise Violation(OWED, "an unknown write without a hold")

    def _owes_action(self, action: Action, after: Snapshot, now: datetime) -> None:
        phase = action.phase
        due = _due(action)
        if isinstance(phase, Unknown):
            known = not any(d.action == action.key for d in self.doubts)
            if known and phase.hold in after.holds:
                raise Violation(OWED, "an action is unknown although the truth is known")
        if isinstance(phase, Running) and not phase.open:
            raise Violation(OWED, "running without an open attempt")
        if due is not None and (action.key, due) not in self.wakes:
            raise Violation(OWED, f"{type(phase).__name__} without a wake-up at its time")
        mine = {o.number for o in self.open if o.action == action.key}
        theirs = {st.attempt for st in phase.open} if isinstance(phase, Running) else set[int]()
        if mine != theirs:
            raise Violation(LOST, f"open attempts are {sorted(mine)}, the action knows {sorted(theirs)}")

    def _owes_hold(self, hold: Hold, after: Snapshot) -> None:
        if hold.claim is not None:
            action = after.actions.get(hold.claim.action)
            opened = action.phase.open if action is not None and isinstance(action.phase, Running) else ()
            if hold.claim.attempt not in {st.attempt for st in opened}:
                raise Violation(OWED, f"a hold ({hold.cause.name}) is claimed by an attempt that is not open")
        for key in hold.parked:
            action = after.actions.get(key)
            if action is None or not isinstance(action.phase, (Waiting, Parked)):
                raise Violation(OWED, "a call is in a queue and does not wait")
        reasons = {(b.scope, b.value) for b in self.bans if b.cause is Cause.UNKNOWN}
        if hold.cause is Cause.UNKNOWN and (hold.scope, hold.value) not in reasons:
            raise Violation(OWED, "a hold for an unknown write whose truth is known")


# ---- small readings -------------------------------------------------------------------------------------------------


def _due(action: Action) -> datetime | None:
    """Return when the controller must look at an action again."""
    phase = action.phase
    match phase:
        case Waiting():
            return phase.retry_at
        case Parked():
            return phase.run_at
        case AwaitingApproval():
            return None if phase.by_framework else phase.expires_at
        case Approved():
            return phase.grant.expires_at if phase.run_at is None else phase.run_at
        case Unknown():
            return phase.inspect_at
        case _:
            return None


def _closed(st: Steps) -> Steps:
    return replace(
        st,
        blocked=st.blocked + 1 if st.all_blocked else 0,
        blocked_in_turn=st.blocked_in_turn + st.all_blocked,
        idle=st.idle + 1 if st.all_idle else 0,
    )


def _same_ban(one: Ban, other: Ban) -> bool:
    mine = (one.cause, one.scope, one.value, one.fields, one.code)
    theirs = (other.cause, other.scope, other.value, other.fields, other.code)
    return mine == theirs and (one.cause is not Cause.UNKNOWN or one.by == other.by)


def _who(event: Event | TreeEvent) -> str:
    return "a proposal" if isinstance(event, Proposed) else f"the controller (on {type(event).__name__})"


def _split(prompts: tuple[Prompt, ...], gone: Callable[[Prompt], bool]) -> tuple[tuple[Prompt, ...], bool]:
    kept = tuple(prompt for prompt in prompts if not gone(prompt))
    return kept, len(kept) != len(prompts)


def _may_repeat(policy: ToolPolicy, call: Call) -> bool:
    return policy.repeatable if policy.repeatable is not None else call.effect is Effect.READ


def _may_share(policy: ToolPolicy, envelope: Envelope) -> bool:
    listed = policy.shared_codes
    return policy.trust is Trust.OWNED or envelope.code in listed or str(envelope.http_status) in listed


def _narrow(call: Call, scope: Scope, s: Snapshot) -> tuple[Scope, str]:
    values = {
        Scope.ACTION: call.common,
        Scope.TARGET: call.target,
        Scope.OPERATION: call.operation,
        Scope.RULE: call.verdict.rule or None,
        Scope.QUOTA: call.quota,
        Scope.RUN: call.run,
        Scope.TURN: call.run,
        Scope.PRINCIPAL: s.tree.principal,
    }
    value = values[scope]
    return (scope, value) if value is not None else (Scope.ACTION, call.common)


def _opened(s: Snapshot, action: str) -> tuple[Started, ...]:
    found = s.actions.get(action)
    return found.phase.open if found is not None and isinstance(found.phase, Running) else ()
