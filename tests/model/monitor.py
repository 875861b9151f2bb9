"""What the design promises (section 6, promises 1 to 8) and what it owes, judged on every step of a history.

Written from the design's text, not from the code: it keeps its own account of refusals, waits, doubts, grants and
prompts, and compares each decision with it. It reads the core's types as a vocabulary and calls none of its functions,
except for the digests that calls carry. The obligations look into the snapshot; nothing else does.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import datetime

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
from forbear.core.policy import ToolPolicy
from forbear.core.states import Action, AwaitingApproval, Hold, Parked, Running, Unknown, Waiting
from forbear.core.vocabulary import Answer, Cause, End, Mode, Scope
from forbear.testing.explore import Violation
from tests.model.account import BOUNDED, HEALTHY, LOST, OBSERVE, OWED, Steps, closed, due_at
from tests.model.people import People
from tests.model.starts import Starts


class Monitor(Starts, People):
    """The account with its one entry. `judge` returns a changed copy and never changes this one."""

    __slots__ = ()

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
                m._turn(after)
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

    def _turn(self, after: Snapshot) -> None:
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
        self.noes_in_turn = 0
        self.denials = ()
        self.same = ()
        # What the controller does not keep waiting is proposed anew: then it is no retry.
        self.waits = tuple(w for w in self.waits if isinstance(after.actions[w[0]].phase, Waiting))

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
        if hold.cause is Cause.BUDGET:
            self.halted = tuple(h for h in self.halted if h[0] != hold.run or h[1] != "BUDGET")
            self.steps = tuple(_renewed(st, hold) if st.run == hold.run else st for st in self.steps)
        if hold.cause is Cause.UNKNOWN:
            # An operator took it on himself.
            for action in {b.by for b in gone}:
                self._end_doubt(action)

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
            st = closed(st) if st.seen else st
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
            st = replace(closed(st), seen=0)
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
            budgets = {h.scope for h in s.holds.values() if h.cause is Cause.BUDGET and h.value == call.run}
            if budgets & {Scope.RUN, Scope.TURN} and not call.forced:
                reason = "BUDGET"
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
                asked = action.phase.ticket in {p.ticket for p in self.prompts}
                if not asked and now < action.phase.expires_at:
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
        self.wakes = frozenset(wake for wake in self.wakes if wake[1] == due_at(after.actions[wake[0]]))
        for ban in self.bans:
            if ban.cause is Cause.UNKNOWN and not any(
                h.cause is Cause.UNKNOWN and (h.scope, h.value) == (ban.scope, ban.value) for h in after.holds.values()
            ):
                raise Violation(OWED, "an unknown write without a hold")

    def _owes_action(self, action: Action, after: Snapshot, now: datetime) -> None:
        phase = action.phase
        due = due_at(action)
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
            # A shared hold names the tree too; there is one here.
            action = after.actions.get(key.rpartition("\x1f")[2])
            if action is None or not isinstance(action.phase, (Waiting, Parked)):
                raise Violation(OWED, "a call is in a queue and does not wait")
        reasons = {(b.scope, b.value) for b in self.bans if b.cause is Cause.UNKNOWN}
        if hold.cause is Cause.UNKNOWN and (hold.scope, hold.value) not in reasons:
            raise Violation(OWED, "a hold for an unknown write whose truth is known")


def _renewed(steps: Steps, hold: Hold) -> Steps:
    """Return the counts of a run whose spent budget an operator lifted."""
    if hold.scope is Scope.RUN or (hold.scope is Scope.OPERATION and hold.end is End.RUN):
        steps = replace(steps, calls_in_run=0)
    if hold.scope is not Scope.RUN:
        steps = replace(steps, calls_in_turn=0)
    return replace(steps, blocked=0, idle=0)
