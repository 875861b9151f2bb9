"""The monitor's account of a history: what may not run and why, who was asked, what is open. No event is judged here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from forbear.core.decision import Snapshot
from forbear.core.events import Event, Proposed, TreeEvent
from forbear.core.identity import field_digest
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.states import Action, Approved, AwaitingApproval, Parked, Running, Started, Unknown, Waiting
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Cause, Effect, Gate, Outcome, Scope, Trust

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
class Account:
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
    # Action, fingerprint, and until when a tool's question through the framework stands.
    framework: frozenset[tuple[str, str, datetime]] = frozenset()
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
    noes_in_turn: int = 0
    denials: tuple[tuple[str, int], ...] = ()
    # (run, fingerprint) -> step, action, number and state of the newest call, where calls can be resumed.
    sent: tuple[tuple[str, str, str, str, int, str], ...] = ()
    same: tuple[tuple[str, str, int], ...] = ()
    checks: tuple[tuple[str, int], ...] = ()
    observed: frozenset[str] = frozenset()
    # Of the start that is being judged.
    is_retry: bool = False

    def nobody_is_asked(self, limits: Limits) -> bool:
        """So many noes since the last yes: nobody is asked; a human message opens one more question."""
        return self.noes >= limits.max_prompts and self.noes_in_turn > 0

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
        same = [b for b in self.bans if same_ban(b, ban)]
        for old in same:
            if ban.cause is Cause.TIME and old.until is not None and ban.until is not None:
                latest = max(old.latest or old.until, ban.latest or ban.until)
                ban = replace(ban, until=max(old.until, ban.until), latest=latest, holder=old.holder)
            if ban.cause is Cause.REFUSAL:
                # A probe that is still open answers for it.
                ban = replace(ban, holder=old.holder)
        self.bans = (*(b for b in self.bans if b not in same), ban)

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

    def _is_asked_by_framework(self, action: str, fingerprint: str, now: datetime) -> bool:
        return any(entry[:2] == (action, fingerprint) and now < entry[2] for entry in self.framework)

    def _is_open(self, action: str, number: int) -> bool:
        return any(o.action == action and o.number == number for o in self.open)

    def _ready(self) -> None:
        """Something became ready: a run that was only waiting goes on."""
        runs = {run for run, reason in self.halted if reason == "WAITING"}
        self.halted = tuple(h for h in self.halted if h[0] not in runs)
        self.steps = tuple(replace(st, idle=0) if st.run in runs else st for st in self.steps)

    def _end_doubt(self, action: str) -> None:
        # What starts after the verdict repeats what was unknown, not what was refused before it.
        self._forget_wait(action)
        self.doubts = tuple(d for d in self.doubts if d.action != action)
        self.keys_used -= {action}
        mine = [b for b in self.bans if b.cause is Cause.UNKNOWN and b.by == action]
        self.bans = tuple(b for b in self.bans if b not in mine)

    def _forget_wait(self, key: str) -> None:
        """What was refused until a time had its one retry, and nobody knows what came of it."""
        self.waits = tuple(w for w in self.waits if w[0] != key)
        self.bans = tuple(replace(b, told_now=False) if b.cause is Cause.TIME and b.by == key else b for b in self.bans)

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

    def _retries_allowed(self, action: str, call: Call, policy: ToolPolicy) -> int:
        named = policy.limits.max_retries
        if named is not None:
            return named
        return 2 if action in self.temporary and call.effect is Effect.READ and may_repeat(policy, call) else 1

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

    def _streak(self, o: Open, code: str) -> Streak:
        found = next((st for st in self.streaks if st.operation == o.call.operation and st.code == code), None)
        if found is not None:
            return found
        return Streak(operation=o.call.operation, code=code, count=0, step="", waits=frozenset())

    def _keep(self, streak: Streak) -> None:
        self.streaks = (*(st for st in self.streaks if st.operation != streak.operation), streak)


def due_at(action: Action) -> datetime | None:
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


def closed(st: Steps) -> Steps:
    """Return the steps of a run after its open one was counted."""
    return replace(
        st,
        blocked=st.blocked + 1 if st.all_blocked else 0,
        blocked_in_turn=st.blocked_in_turn + st.all_blocked,
        idle=st.idle + 1 if st.all_idle else 0,
    )


def same_ban(one: Ban, other: Ban) -> bool:
    """Say whether two bans are the same reason on the same scope."""
    mine = (one.cause, one.scope, one.value, one.fields, one.code)
    theirs = (other.cause, other.scope, other.value, other.fields, other.code)
    return mine == theirs and (one.cause is not Cause.UNKNOWN or one.by == other.by)


def who(event: Event | TreeEvent) -> str:
    """Say who makes a start, for messages."""
    return "a proposal" if isinstance(event, Proposed) else f"the controller (on {type(event).__name__})"


def may_repeat(policy: ToolPolicy, call: Call) -> bool:
    """Say whether the author declared that the same call twice does no harm."""
    return policy.repeatable if policy.repeatable is not None else call.effect is Effect.READ


def may_share(policy: ToolPolicy, envelope: Envelope) -> bool:
    """Say whether a result may close something for other runs."""
    listed = policy.shared_codes
    return policy.trust is Trust.OWNED or envelope.code in listed or str(envelope.http_status) in listed


def narrow(call: Call, scope: Scope, s: Snapshot) -> tuple[Scope, str]:
    """Return a scope and its value for a call; what the call does not have becomes the action."""
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


def opened_of(s: Snapshot, action: str) -> tuple[Started, ...]:
    """Return the attempts that the core holds open."""
    found = s.actions.get(action)
    return found.phase.open if found is not None and isinstance(found.phase, Running) else ()
