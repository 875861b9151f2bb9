"""Questions and answers: approvals, noes, edits, and verdicts about unknown writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from forbear.core.decision import AskHuman, Decision, Snapshot
from forbear.core.events import Denied, Edited, Granted, Inspected, Revised
from forbear.core.states import AwaitingApproval
from forbear.core.values import Call
from forbear.core.vocabulary import Cause, Effect, Scope, Verdict
from forbear.testing.explore import Violation
from tests.model.account import APPROVAL, BOUNDED, OWED, Done, Prompt, Yes, narrow
from tests.model.results import Results


class People(Results):
    """Judges who is asked, and notes what people and checks say."""

    __slots__ = ()

    def _ask(self, command: AskHuman, now: datetime, before: Snapshot, after: Snapshot) -> None:
        action = after.actions[command.action]
        limits = before.policy.limits
        self.prompts = tuple(p for p in self.prompts if p.action != command.action or now < p.expires_at)
        if not before.has_approver:
            raise Violation(APPROVAL, "a person is asked although nobody can answer")
        if any(p.action == command.action for p in self.prompts):
            raise Violation(BOUNDED, "a second question about one call")
        if self.nobody_is_asked(limits):
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
        self.noes_in_turn += 1
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
        scope, value = narrow(call, scope, s)
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
