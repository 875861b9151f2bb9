"""What the end of an attempt means to the account: completed, refused, wait, repair, ask, unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from forbear.core.decision import Decision, Snapshot
from forbear.core.events import Cancelled, Interrupted, Lost, Returned
from forbear.core.identity import field_digest
from forbear.core.policy import ToolPolicy
from forbear.core.states import Approved, AwaitingApproval, Parked, Waiting
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import Answer, Cause, Effect, Executed, Mode, Outcome, Recovery, Scope
from forbear.testing.explore import Violation
from tests.model.account import (
    LOST,
    OBSERVE,
    SHARED,
    Account,
    Done,
    Doubt,
    Open,
    may_repeat,
    may_share,
    narrow,
    opened_of,
)


class Results(Account):
    """Notes what became of attempts."""

    __slots__ = ()

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
                    if not s.has_approver or self.nobody_is_asked(policy.limits):
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
        if envelope.executed is not Executed.NO and not may_repeat(policy, o.call):
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
            started_at=next(st.started_at for st in opened_of(s, o.action) if st.attempt == o.number)
            if opened_of(s, o.action)
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
        if declared is not None and (declared not in SHARED or may_share(policy, envelope)):
            scope = declared
        elif envelope.code == "VAULT_LOCKED" and may_share(policy, envelope):
            scope = Scope.PRINCIPAL
        scope, value = narrow(call, scope, s)
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
            if call.quota is not None and may_share(policy, envelope):
                scope = Scope.QUOTA
            elif call.target is not None and declared:
                scope = Scope.TARGET
        if scope is Scope.ACTION and declared and len(streak.waits) >= 2:
            scope = Scope.OPERATION
        scope, value = narrow(call, scope, s)
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
        started = next((st.started_at for st in opened_of(s, o.action) if st.attempt == o.number), now)
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
        self.framework |= {(key, o.call.fingerprint, now + s.policy.limits.approval_ttl)}

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

    def _cancelled(self, event: Cancelled, key: str, now: datetime, s: Snapshot) -> None:
        policy = s.policy
        opened = [o for o in self.open if o.action == key]
        if opened:
            self.done = tuple(d for d in self.done if d.action != key)
            for o in opened:
                self._close(key, o.number)
                self._free(o, keep_probe=True)
            last = opened[-1]
            if any(o.is_retry for o in opened):
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
