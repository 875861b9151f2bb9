"""Starts, proposals and wake-ups against the account: what may run, and what must."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import Decision, Execute, Snapshot
from forbear.core.events import Event, Proposed, TreeEvent, Woke
from forbear.core.rules import Rule
from forbear.core.states import Approved, AwaitingApproval, Parked, Waiting
from forbear.core.values import Call
from forbear.core.vocabulary import Answer, Cause, Effect, Gate, Mode, Scope
from forbear.testing.explore import Violation
from tests.model.account import (
    APPROVAL,
    BOUNDED,
    HEALTHY,
    LOST,
    OBSERVE,
    REPAIR,
    RETRY,
    STOP,
    UNKNOWN,
    Account,
    Ban,
    Open,
    Steps,
    Yes,
    may_repeat,
    narrow,
    who,
)


class Starts(Account):
    """Judges whatever starts, or should have started."""

    __slots__ = ()

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
        again = may_repeat(policy, call)
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
            raise Violation(promise, f"{who(event)} starts under {ban.cause.name} on {ban.scope.value}")
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
            if not granted and not self._is_asked_by_framework(action, call.fingerprint, now):
                used = dict(self.retries).get(action, 0)
                # A retry in which the tool asked, and nobody answered in time, is made again.
                is_again = used and any(entry[:2] == (action, call.fingerprint) for entry in self.framework)
                used += not is_again
                self.retries = (*(r for r in self.retries if r[0] != action), (action, used))
                if used > self._retries_allowed(action, call, s.policy):
                    raise Violation(RETRY, f"{used} retries in one turn")

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
        passed_on = self._is_asked_by_framework(command.action, call.fingerprint, now)
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
                scope, value = narrow(call, Scope.RULE, s)
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
                    Rule.APPROVAL_PROMPTS_SPENT: self.nobody_is_asked(limits),
                }
                if gate is Gate.ALLOW or not due[decision.rule]:
                    raise Violation(HEALTHY, f"stopped without a reason by {decision.rule.value}")
                self._put(self._ban(Cause.EXHAUSTED, Scope.ACTION, call.action, call, ends_with_turn=True))
            case _:
                pass

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
            if decision.answer not in (Answer.BLOCKED, Answer.STOPPED, Answer.HALTED):
                raise Violation(HEALTHY, "a malformed call is not blocked")
            return
        self._judge_proposal(event, now, decision, s)

    def _judge_proposal(self, event: Proposed, now: datetime, decision: Decision, s: Snapshot) -> None:
        call = event.call
        answer = decision.answer
        phase = s.actions[call.action].phase if call.action in s.actions else None
        own = any(a.call.base == call.action and a.call.run == call.run for a in s.actions.values())
        if own and answer is not Answer.DELIVERED:
            return  # this run's call is asked about on its own: its starts are judged, and what it owes
        opened = [o for o in self.open if o.action == call.action]
        if opened:
            shared = [o for o in opened if (o.call.run, o.call.step) == (call.run, call.step)]
            if shared and (call.effect is Effect.READ or not may_repeat(s.policy, call)):
                if answer is not Answer.DELIVERED:
                    raise Violation(HEALTHY, f"equal calls of one step do not share one execution: {answer}")
                return
            if all(o.call.run != call.run for o in opened) and call.verdict.gate is Gate.ASK:
                return  # it needs a yes of its own
            if not may_repeat(s.policy, call):
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

    def _is_delivered(self, event: Proposed, now: datetime, decision: Decision, s: Snapshot) -> bool:
        """Judge an equal call after a completed one; say whether it was answered from the record."""
        call, policy = event.call, s.policy
        done = next((d for d in self.done if d.action == call.action), None)
        if done is None:
            return False
        same_step = (done.run, done.step) == (call.run, call.step)
        due = same_step and (done.is_read or not may_repeat(policy, call))
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
        if due and decision.answer not in (Answer.DELIVERED, Answer.HALTED):
            raise Violation(HEALTHY, f"a completed call is not delivered but {decision.answer}")
        if due:
            self.done = tuple(changed if d is done else d for d in self.done)
        return due

    def _woke(self, event: Woke, key: str, now: datetime, decision: Decision, s: Snapshot) -> None:
        self.wakes = frozenset(entry for entry in self.wakes if entry[0] != key or entry[1] > now)
        phase = s.actions[key].phase if key in s.actions else None
        executes = any(isinstance(c, Execute) for c in decision.commands)
        expired = [p for p in self.prompts if p.action == key and now >= p.expires_at]
        self.prompts = tuple(p for p in self.prompts if p not in expired)
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
