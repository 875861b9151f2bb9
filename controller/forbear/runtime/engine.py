"""What all flows of one controller share: store, clock, tools, working set; and how a decision becomes a reply.

Nothing is decided here and no tool is run here. Flows are in `flows.py`, the public object is in `controller.py`.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Final

from forbear.audit.evidence import EvidenceStore
from forbear.contract import Catalogue, Http, Raised, Raw, Trail, classify, poll_finished
from forbear.core.decision import AskHuman, Inspect, Snapshot, WakeAt
from forbear.core.events import Returned
from forbear.core.identity import digest
from forbear.core.policy import Limits, ToolPolicy
from forbear.core.states import Unknown
from forbear.core.values import Call, Envelope
from forbear.core.vocabulary import COMPLETED, Answer, Executed, Outcome
from forbear.observe.notice import Observer
from forbear.ports import Clock, Ids, Row, Store
from forbear.runtime.asked import Asked, Decided, Frame
from forbear.runtime.calls import arguments_from, frozen_arguments
from forbear.runtime.display import HIDDEN, without
from forbear.runtime.live import LiveTree
from forbear.runtime.memory import WorkingSet
from forbear.runtime.notes import Ready, result_key, result_of
from forbear.runtime.observing import Observing
from forbear.runtime.reply import Attempt, Reply
from forbear.runtime.results import digest_of
from forbear.runtime.rows import opened_line, tree_scope
from forbear.runtime.standing import RESULT_NOT_KEPT, recorded, standing, told_of
from forbear.runtime.steps import Ended
from forbear.runtime.tools import Toolbox
from forbear.runtime.warn import warn_beside

MAX_HELD_VALUES: Final = 256
# Actions of which it is remembered which message asked for their last result.
MAX_LOOKS: Final = 4096
# An attempt: the root of its tree, its action (the same for equal calls of other trees), its number.
Which = tuple[str, str, int]
# Codes that the core puts in the place of the tool's own, whose text would say something else.
REPLACED: Final = frozenset({"RETRY_EXHAUSTED", "NO_RESET_GIVEN", "WAIT_EXCEEDS_LIMIT"})
_OPEN = Envelope(outcome=Outcome.PENDING, executed=Executed.UNKNOWN)


class UnreadableResult(Exception):
    """A tool returned an object that raised when it was looked at: nobody knows what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One proposal as the caller made it."""

    tool: str
    arguments: object
    run: str
    parent: str | None = None
    principal: str | None = None
    step: str = ""
    call_id: str = ""
    source: str = ""
    siblings: int = 1
    forced: bool = False
    truncated: bool = False
    turn: str | None = None
    reproposes: bool = False


class Engine:
    """One controller's parts. Everything in it may be used from several threads and tasks."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        tools: Toolbox,
        limits: Limits,
        catalogue: Catalogue,
        approver: bool,
        strict: bool,
        threads: ThreadPoolExecutor | None,
        evidence: EvidenceStore | None = None,
        labels: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.tools = tools
        self.limits = limits
        self.catalogue = catalogue
        self.has_approver = approver
        self.strict = strict
        self.threads = threads
        self.owner = ids.owner()
        store.register(self.owner)
        self.world = WorkingSet(store, clock)
        self.world.evidence = evidence
        # The application's closed labels; every writer's lines are preceded by them.
        self.labels: Mapping[str, str] = labels or {}
        if self.labels:
            self.world.batch.lines.append(opened_line(clock.now(), self.owner, self.labels))
        # Names the trace that a call belongs to; set by whoever observes.
        self.trace_id: Callable[[], str] = _no_trace
        self.closed = False
        # Runs that were seen, and the root of their tree.
        self.roots: dict[str, str] = {}
        # Calls that wait inside `call` for their own retry; the worker leaves them alone.
        self.inline: Counter[tuple[str, str]] = Counter()
        # Attempts that ended while the store could not be written.
        self.unsettled: deque[tuple[Attempt, Ended]] = deque()
        # Attempts of dead processes, by root, that nobody has taken notice of yet.
        self.lost: dict[str, list[Row]] = {}
        self.lost_lock = threading.Lock()
        # Called when something was scheduled or asked, so that a worker runs.
        self.on_work: Callable[[], None] = _no_work
        self.on_ready: Callable[[Reply], None] | None = None
        # Called with what a tool answered after its timeout (set by the flows, which settle it).
        self.on_late: Callable[[Attempt, Ended], None] | None = None
        # Who is told of decisions, and what they are still to be told; None = nobody, nothing ever.
        self.observing: Observing | None = None
        self.untold: Sized = ()
        # The operator token that the application has, for policies that are looser than what the store has.
        self.token = token
        # Digests of the policies that the store knows to be in use.
        self.noted: dict[str, str] = {}
        # What the controller's own executions returned, until the store's record is all that is left of it.
        self.held_values: OrderedDict[Which, tuple[object]] = OrderedDict()
        # The message in which an action's last compared result was asked for, by root and action.
        self._looks: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        # How far executions came that their callers ran and have not settled yet.
        self._trails: OrderedDict[Which, Trail] = OrderedDict()
        self._secret = b""

    # ---- what decisions are made on ---------------------------------------------------------------------------------

    def frame(self, policy: ToolPolicy) -> Frame:
        """Return what makes the core's view of a tree for an event about a tool."""

        def make(live: LiveTree) -> Snapshot:
            return live.snapshot(policy, self.limits, self.owner, has_approver=self.has_approver)

        return make

    def asked(
        self,
        root: str,
        call: Call,
        policy: ToolPolicy,
        *,
        request_id: str = "",
        actor: str = "",
        reproposes: bool = False,
        note: str = "",
    ) -> Asked:
        """Return the common part of every procedure about one action."""
        return Asked(
            root=root,
            call=call,
            frame=self.frame(policy),
            policy=policy,
            request_id=request_id,
            actor=actor,
            reproposes=reproposes,
            note=note,
        )

    def note_lost(self) -> None:
        """Ask the store for attempts whose process is dead; flows take notice of them before they decide."""
        rows = self.store.lost()
        with self.lost_lock:
            self.lost.clear()
            for row in rows:
                if row.kind == "action" and row.scope.startswith("tree:"):
                    self.lost.setdefault(row.scope.removeprefix("tree:"), []).append(row)

    def lost_of(self, root: str) -> list[Row]:
        """Return the lost attempts of a tree. They stay until it is decided about them: nobody decides before that."""
        if not self.lost:
            return []
        with self.lost_lock:
            return list(self.lost.get(root, ()))

    def noticed(self, root: str, row: Row) -> None:
        """Forget a lost attempt that was decided about, by this caller or by one beside it."""
        with self.lost_lock:
            left = [one for one in self.lost.get(root, ()) if one is not row]
            if left:
                self.lost[root] = left
            else:
                self.lost.pop(root, None)

    def late(self, attempt: Attempt, ended: Ended) -> None:
        """Feed what a tool answered after its timeout."""
        if self.on_late is not None:
            self.on_late(attempt, ended)

    def observe(self, observers: Sequence[Observer]) -> None:
        """Tell these of every decision from now on.

        Raises:
            UsageError: one of them is no observer.
        """
        if not observers:
            return
        self.observing = Observing(observers, self.tools, self.catalogue, self.clock)
        self.untold = self.observing.untold
        self.world.observing = self.observing
        self.trace_id = self.observing.trace_id
        self.world.batch.on_written = self.observing.written

    def tell(self) -> None:
        """Tell observers what was committed; no lock is held."""
        if self.untold and self.observing is not None:
            self.observing.drain()

    # ---- from decisions to replies ----------------------------------------------------------------------------------

    def judging(
        self, attempt: Attempt, policy: ToolPolicy, raw: Raw, *, value: tuple[object] | None, kept: bool
    ) -> Callable[[datetime], Returned]:
        """Return what judges a raw result at the instant of its decision."""
        ticket = self.ids.ticket()
        arguments = frozen_arguments(attempt.call)
        if attempt.has_key and isinstance(raw, Http):
            raw = replace(raw, request=replace(raw.request, idempotency_key=True))

        compared: str | None = None

        def judge(now: datetime) -> Returned:
            nonlocal compared
            try:
                said = classify(raw, policy=policy, arguments=arguments, now=now, catalogue=self.catalogue)
                finished = poll_finished(policy, value[0]) if said.outcome in COMPLETED and value is not None else None
            except Exception:  # noqa: BLE001 - the tool's object: what it raises is neither an answer nor anybody's text
                lost = Raised(UnreadableResult())
                said = classify(lost, policy=policy, arguments=arguments, now=now, catalogue=self.catalogue)
                finished = None
            envelope = replace(said, request_id=attempt.request_id)
            completed = envelope.outcome in COMPLETED
            if compared is None and completed and value is not None:
                # Once: a decision that lost a race is made again.
                compared = self._compared(attempt, value)
            return Returned(
                attempt=attempt.number,
                envelope=envelope,
                digest=(compared or "") if completed else "",
                kept=kept and completed,
                finished=finished,
                ticket=ticket,
            )

        return judge

    def _compared(self, attempt: Attempt, value: tuple[object]) -> str:
        """Return the digest of a result, "" where an equal call of the same message was answered before.

        A model that asks for fifteen equal things in one message has seen no result in between: they are one look.
        """
        action, step = (attempt.root, attempt.action), (attempt.run, attempt.step)
        if self._looks.get(action) == step:
            return ""
        self._looks.pop(action, None)
        self._looks[action] = step
        while len(self._looks) > MAX_LOOKS:
            self._looks.popitem(last=False)
        return digest_of(value[0])

    def answer(
        self,
        decided: Decided,
        asked: Asked,
        *,
        value: tuple[object] | None = None,
        by_controller: bool = False,
    ) -> Reply:
        """Return the reply to an event; where the decision answers nobody, what the action's phase says."""
        decision = decided.decision
        self.drain_ready()
        if any(isinstance(command, (WakeAt, AskHuman, Inspect)) for command in decision.commands):
            self.on_work()
        elif self.on_ready is not None and decided.action is not None and isinstance(decided.action.phase, Unknown):
            # A person may say elsewhere what became of it.
            self.on_work()
        execute = decided.execute
        call = asked.call if execute is None else execute.call
        answer, told = decision.answer, decision.told
        ticket, retry_at = decision.ticket, decision.retry_at
        if answer is None:
            answer, told, ticket, retry_at = standing(decided, told)
        attempt = None
        joins = None
        if execute is not None:
            attempt = self._attempt(decided, asked, call, execute.attempt, by_controller=by_controller)
            told = None
        elif decided.join is not None:
            joins = (decided.join.action, decided.join.attempt)
        envelope = self.envelope(told or told_of(decided, attempt), asked.request_id)
        if answer is Answer.DELIVERED and joins is None:
            value, envelope = recorded(decided, envelope)
        elif envelope.outcome not in COMPLETED or attempt is not None:
            value = None
        return Reply(
            answer=answer,
            rule=decision.rule,
            envelope=envelope,
            tool=call.tool,
            run=call.run,
            step=call.step,
            call_id=call.call_id,
            value=None if value is None else value[0],
            ticket=ticket,
            retry_at=retry_at if answer is Answer.PENDING else None,
            suppressed=decision.suppressed,
            clear_forced=decision.clear_forced,
            attempt=attempt,
            joins=joins,
            flight=decided.flight,
            action=asked.call.action,
            would=decision.would,
            completed=decided.completed,
            pending=decided.pending,
            effective=self._effective(call.tool, call.arguments) if call.edited and attempt is None else None,
        )

    def hold_value(self, attempt: Attempt, value: tuple[object] | None) -> None:
        """Keep the very object that an execution by the controller returned, for this process; bounded."""
        if value is None:
            return
        self.held_values[_which(attempt)] = value
        while len(self.held_values) > MAX_HELD_VALUES:
            self.held_values.popitem(last=False)

    def keep_trail(self, attempt: Attempt, trail: Trail) -> None:
        """Keep how far an execution came until whoever ran it settles it; bounded."""
        self._trails[_which(attempt)] = trail
        while len(self._trails) > MAX_HELD_VALUES:
            self._trails.popitem(last=False)

    def take_trail(self, attempt: Attempt) -> Trail | None:
        """Return how far an execution came that is settled now, once."""
        return self._trails.pop(_which(attempt), None) if self._trails else None

    def drain_ready(self) -> None:
        """Call the application about what became ready since; the results stay in the run's inbox all the same."""
        fresh = self.world.fresh_ready
        while fresh:
            try:
                root, ready = fresh.popleft()
            except IndexError:
                return
            if self.on_ready is None:
                continue
            try:
                row = self.store.fetch(tree_scope(root), "result", result_key(ready.action, ready.attempt))
                self.on_ready(self.ready_reply(root, ready, row))
            except Exception as error:  # noqa: BLE001 - the application's function; nothing is lost by its failure
                warn_beside(
                    f"on_ready raised {type(error).__name__}: the result stays in the inbox of its run", stacklevel=2
                )

    def ready_reply(self, root: str, ready: Ready, row: Row | None) -> Reply:
        """Return the reply that a run of a tree is given later, with what was recorded of the result."""
        envelope = self.envelope(ready.told, "")
        value: object = None
        if envelope.outcome in COMPLETED:
            held = self.held_values.get((root, ready.action, ready.attempt))
            if held is not None:
                value = held[0]
            elif row is not None:
                value = result_of(row)
            else:
                envelope = replace(envelope, outcome=Outcome.ALREADY_SATISFIED, reason=RESULT_NOT_KEPT)
        return Reply(
            answer=ready.answer,
            rule=ready.rule,
            envelope=envelope,
            tool=ready.tool,
            run=ready.run,
            step=ready.step,
            call_id=ready.call_id,
            value=value,
            ticket=ready.ticket or None,
            action=ready.action,
            effective=self._effective(ready.tool, ready.effective) if ready.effective else None,
        )

    def _effective(self, tool: str, arguments: str) -> Mapping[str, object]:
        """Return the arguments that ran instead of the proposed ones, without those that are secret."""
        secret = self.tools.known_policy(tool).secret
        found = arguments_from(arguments)
        return {name: HIDDEN if name in secret else without(value, secret) for name, value in found.items()}

    def envelope(self, told: Envelope, request_id: str) -> Envelope:
        """Return an envelope as it is told: with the catalogue's text where it has none, and a request id."""
        message = told.safe_message
        if told.code and (message is None or told.code in REPLACED):
            message = self.catalogue.text(told.code, told)
        if message is told.safe_message and told.request_id:
            return told
        return replace(told, safe_message=message, request_id=told.request_id or request_id)

    def _attempt(self, decided: Decided, asked: Asked, call: Call, number: int, *, by_controller: bool) -> Attempt:
        arguments = frozen_arguments(call)
        key = asked.policy.idempotency_key
        if key is not None:
            arguments[key.argument] = self._key(asked.root, call, decided.completions)
        return Attempt(
            tool=call.tool,
            arguments=arguments,
            number=number,
            run=call.run,
            step=call.step,
            call_id=call.call_id,
            fingerprint=call.fingerprint,
            request_id=asked.request_id,
            started_at=decided.now,
            root=asked.root,
            call=call,
            by_controller=by_controller,
            has_key=key is not None,
        )

    def _key(self, root: str, call: Call, completions: int) -> str:
        """Return the upstream's idempotency key: the same until the action completes; it says nothing to anybody else.

        Equal calls of two trees are two actions: with one key, the second one's payment would never be made.
        """
        assert self._secret, "the secret is loaded before a call with a key is decided about"
        text = digest("idempotency", root, call.action, str(completions)).encode()
        return blake2b(text, key=self._secret, digest_size=16).hexdigest()

    def has_secret(self) -> bool:
        """Say whether the key of idempotency keys was loaded."""
        return bool(self._secret)

    def use_secret(self, secret: bytes) -> None:
        """Set the key of idempotency keys (64 bytes at most)."""
        self._secret = secret[:64]


def _which(attempt: Attempt) -> Which:
    return attempt.root, attempt.action, attempt.number


def _no_trace() -> str:
    """Name no trace: nobody observes."""
    return ""


def _no_work() -> None:
    """Do nothing: there is no worker."""
