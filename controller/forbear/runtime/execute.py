"""`execute`: the tool half of an agent loop without a framework. Reads a model's calls, answers them, says what is next.

All state between invocations is the list of messages (plain JSON) and the controller's store. Message shapes are in
`codecs`; nothing is decided here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from forbear.core.identity import digest
from forbear.core.values import Envelope
from forbear.core.vocabulary import Answer, Executed, Outcome
from forbear.errors import Refused, UsageError
from forbear.runtime.calls import arguments_of
from forbear.runtime.codecs import Codec, Message, Proposed, Result, codec_for, message_of
from forbear.runtime.controller import Controller
from forbear.runtime.function import Function
from forbear.runtime.govern import declared_function
from forbear.runtime.perform import run_flow
from forbear.runtime.places import turn_flow
from forbear.runtime.plain import NotJson, plain
from forbear.runtime.reply import Reply
from forbear.runtime.runs import RunHandle
from forbear.runtime.steps import Executor, Signals
from forbear.runtime.through import Passed, Shot, acall_tool, bind_in_run, call_tool, executor_of, on_loop, value_of
from forbear.runtime.where import Where

__all__ = ["Next", "Progress", "Tools", "aexecute", "execute"]

# Functions by their own names, or by the names that the model knows.
Tools = Mapping[str, Callable[..., object]] | Sequence[Callable[..., object]]

# Stands for every tool that a model calls and nobody has: so they are counted, and end.
UNKNOWN_TOOL: Final = "unknown_tool"


class Next(StrEnum):
    """What the loop does now."""

    # Call the model with `messages`.
    MODEL = "model"
    # Store `messages` and wait for a person: `waiting` says for what. Then execute(None, messages, …).
    PERSON = "person"
    # The model gave its final answer.
    DONE = "done"
    # The run's tool use is over: show `for_user()`. A new message of the person opens it again.
    HALTED = "halted"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress:
    """Where the loop stands after one `execute`."""

    next: Next
    # The conversation: the model's message and the results that there are, plain JSON, ready for the next request.
    messages: list[Message]
    # Answers to the calls of this step, in their order.
    replies: tuple[Reply, ...] = ()
    # Those of them that a person has to approve first.
    waiting: tuple[Reply, ...] = ()
    # Results of earlier calls that became ready since. Where the conversation still has the call, its result was replaced.
    ready: tuple[Reply, ...] = ()
    # The next request must not force a tool call.
    clear_forced: bool = False

    def for_user(self) -> str:
        """Return what a person should know of this step, a paragraph a line; "" where there is nothing to tell."""
        if self.next is Next.HALTED:
            halts = [reply.for_user() for reply in self.replies if reply.answer is Answer.HALTED]
            return halts[0] if halts else "The agent stopped using tools."
        return "\n".join(dict.fromkeys(said for reply in self.replies if (said := reply.for_user())))


def execute(
    response: object,
    messages: Sequence[Mapping[str, object]],
    tools: Tools,
    controller: Controller,
    *,
    run: str,
    codec: str | Codec = "openai-chat",
    turn: str | None = None,
    forced: bool = False,
    pause: bool = True,
    signals: Signals = (),
) -> Progress:
    """Answer the tool calls of a model's response, one after the other, and say what is next.

    Args:
        response: What the client library returned (or its message, or its JSON). None = go on where `messages` end:
            a person wrote, a person approved, a process was restarted.
        messages: The conversation so far, as the next request takes it, objects of the client library among them. It is
            not changed.
        tools: The functions. What is declared about them is declared on the controller, by name.
        controller: The controller.
        run: Id of the agent's run (its thread).
        codec: ``"openai-chat"``, ``"openai-responses"``, ``"anthropic"``, ``"litellm"``, or an own one.
        turn: Opaque id of the human message that is being answered; default: the number of messages of the person. Pass
            it where the conversation is shortened.
        forced: The request made the model call a tool.
        pause: Calls that need approval stay without a result until a person has answered (`Next.PERSON`). False: the
            model is told and goes on; the controller runs the call when it is approved and its result comes later.
        signals: Exceptions that pass through.

    Raises:
        UsageError: the API was used wrongly, or an event loop is running in this thread.
    """
    if on_loop():
        raise UsageError("execute: an event loop is running in this thread, use aexecute")
    step = _Step(controller, tools, run, codec_for(codec), turn, pause=pause, forced=forced, signals=signals)
    asked = step.begin(response, messages)
    replies: list[Reply] = []
    for one in asked:
        shot = Shot()
        try:
            replies.append(call_tool(controller, one.tool, one.arguments, one.executor(shot), shot, signals, one.where))
        except Passed as passed:
            raise passed.error from None
        step.note(one, replies[-1], shot)
    return step.end(replies)


async def aexecute(
    response: object,
    messages: Sequence[Mapping[str, object]],
    tools: Tools,
    controller: Controller,
    *,
    run: str,
    codec: str | Codec = "openai-chat",
    turn: str | None = None,
    forced: bool = False,
    pause: bool = True,
    signals: Signals = (),
) -> Progress:
    """Do what `execute` does, in a task: the calls of a message at the same time, functions that are not async in threads.

    An exception that passes through is raised when all calls of the message have ended.
    """
    step = _Step(controller, tools, run, codec_for(codec), turn, pause=pause, forced=forced, signals=signals)
    asked = step.begin(response, messages)

    async def one_call(one: _Asked) -> Reply:
        shot = Shot()
        execute_one = one.executor(shot, threaded=True)
        try:
            reply = await acall_tool(controller, one.tool, one.arguments, execute_one, shot, signals, one.where)
        except Passed as passed:
            raise passed.error from None
        step.note(one, reply, shot)
        return reply

    replies = await asyncio.gather(*(one_call(one) for one in asked), return_exceptions=True)
    failed = next((reply for reply in replies if isinstance(reply, BaseException)), None)
    if failed is not None:
        raise failed
    return step.end([reply for reply in replies if isinstance(reply, Reply)])


# ---- one step -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """One call that has no result yet."""

    proposed: Proposed
    # Place in the order of the message's calls.
    place: int
    tool: str
    arguments: object
    where: Where
    executor: _MakesExecutor


# Called with a Shot, and `threaded=` where the caller is async.
_MakesExecutor = Callable[..., Executor]


class _Step:
    """One invocation: what the messages say, what was answered."""

    def __init__(
        self,
        controller: Controller,
        tools: Tools,
        run: str,
        codec: Codec,
        turn: str | None,
        *,
        pause: bool,
        forced: bool,
        signals: Signals,
    ) -> None:
        if not run:
            raise UsageError("run: must not be empty")
        self.controller = controller
        self.codec = codec
        self.pause = pause
        self.forced = forced
        self.signals = signals
        self._turn = turn
        self._functions = _functions(tools, controller, run)
        self._handle: RunHandle = controller.run(run)
        self._results: dict[int, Result] = {}
        self._ready: list[Reply] = []
        self.messages: list[Message] = []
        # Index after the message that holds the calls.
        self._at = 0
        self._is_final = False

    # ---- before the calls -------------------------------------------------------------------------------------------

    def begin(self, response: object, messages: Sequence[Mapping[str, object]]) -> list[_Asked]:
        """Take in the response, bring the conversation up to date, and return the calls that have no result."""
        codec = self.codec
        before = [message_of(message) for message in messages]
        turn = self._turn if self._turn is not None else str(codec.turns(before))
        self._begin_turn(turn)
        if response is None:
            self.messages = before
            proposed, self._at = codec.calls(before, cut=False)
            self._catch_up()
            is_said = bool(before) and before[-1].get("role") == "assistant"
            self._is_final = is_said and (not proposed or self._at < len(before))
            self._place_ready(proposed)
            if proposed and codec.turns(self.messages[self._at :]):
                self._give_up(proposed)
                return []
        else:
            added, cut = codec.read(response)
            added = self._told_apart(before, added, turn)
            self.messages = [*before, *added]
            proposed, at = codec.calls(added, cut=cut)
            self._at = len(before) + at
            self._is_final = not proposed and not codec.unfinished(response)
        done = codec.answered(self.messages[self._at :])
        name = self._name(turn, proposed)
        return [
            self._asked(one, place, name, siblings=len(proposed), turn=turn)
            for place, one in enumerate(proposed)
            if one.call_id not in done
        ]

    def _begin_turn(self, turn: str) -> None:
        """Say that the person has written, where that is new; a child run's person is another agent."""
        if self._handle.root == self._handle.id and turn != "0":
            engine = self.controller.engine
            run_flow(turn_flow(engine, self._handle.root, turn), engine)

    def _told_apart(self, before: Sequence[Message], added: list[Message], turn: str) -> list[Message]:
        """Give calls without an id, or with one that is taken, an id of their own.

        Some servers number the calls of each message anew, or not at all. Results are put where their id is: two calls
        of one id would get each other's. The same response after the same messages gets the same ids.
        """
        codec = self.codec
        proposed, _ = codec.calls(added, cut=False)
        taken = set(codec.answered(before))
        ids: list[str] = []
        for place, one in enumerate(proposed):
            made = one.call_id
            if not made or made in taken:
                made = f"call_{digest('call', turn, str(len(before)), str(place), one.call_id)[:24]}"
            taken.add(made)
            ids.append(made)
        if codec.rename is None or ids == [one.call_id for one in proposed]:
            return added
        return codec.rename(added, ids)

    def _name(self, turn: str, proposed: Sequence[Proposed]) -> str:
        """Return the step's id: the same when the same messages are executed again, after a pause or a crash."""
        place = sum(message.get("role") == "assistant" for message in self.messages[: self._at])
        return digest("step", turn, str(place), *(one.call_id for one in proposed))

    def _asked(self, one: Proposed, place: int, step: str, *, siblings: int, turn: str) -> _Asked:
        where: Where = {
            "run": self._handle.id,
            "step": step,
            "call_id": one.call_id,
            "siblings": siblings,
            "forced": self.forced,
            "truncated": one.truncated,
            "turn": turn,
            "reproposes": self.pause,
        }
        function = self._functions.get(one.tool)
        arguments, readable = arguments_of(one.arguments)
        if function is None:
            return _Asked(
                proposed=one,
                place=place,
                tool=UNKNOWN_TOOL,
                arguments={"name": one.tool},
                where=where,
                executor=self._no_tool,
            )
        if one.truncated or not readable:
            # Never runs: the controller refuses it before.
            return _Asked(
                proposed=one, place=place, tool=one.tool, arguments=one.arguments, where=where, executor=self._no_tool
            )
        bound = function.read(arguments)

        def executor(shot: Shot, *, threaded: bool = False) -> Executor:
            return executor_of(function, bound, shot, self.signals, threaded=threaded)

        return _Asked(
            proposed=one, place=place, tool=one.tool, arguments=bound.arguments, where=where, executor=executor
        )

    def _no_tool(self, shot: Shot, *, threaded: bool = False) -> Executor:
        if not self.controller.engine.tools.is_declared(UNKNOWN_TOOL):
            self.controller.declare(UNKNOWN_TOOL, effect="read")
        return _unavailable

    # ---- results of earlier calls -----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Put results that became ready into the place of what the model was told before."""
        for reply in self._handle.inbox():
            self._ready.append(reply)
            if not reply.call_id:
                continue
            made = self.codec.replace(self.messages, _result(reply.call_id, reply, _text(reply, Shot())))
            if made is not None:
                self.messages = made

    def _open(self, proposed: Sequence[Proposed]) -> list[Proposed]:
        done = self.codec.answered(self.messages[self._at :])
        return [one for one in proposed if one.call_id not in done]

    def _place_ready(self, proposed: Sequence[Proposed]) -> None:
        """Answer calls that have no result yet with what became of them meanwhile: changed by a person, expired."""
        told = {reply.call_id: reply for reply in self._ready}
        self._add([(one, told[one.call_id]) for one in self._open(proposed) if one.call_id in told])

    def _give_up(self, proposed: Sequence[Proposed]) -> None:
        """Answer calls that waited for approval when the person wrote something else instead: they do not run."""
        given_up: list[tuple[Proposed, Reply]] = []
        for one in self._open(proposed):
            cancelled = self._handle.cancel(one.call_id) if one.call_id else []
            given_up.append((one, next(iter(cancelled), None) or self._cancelled(one)))
        self._add(given_up)

    def _add(self, answers: Sequence[tuple[Proposed, Reply]]) -> None:
        results = [_result(one.call_id, reply, _text(reply, Shot()), is_custom=one.is_custom) for one, reply in answers]
        self.messages = self.codec.add(self.messages, self._at, results)

    def _cancelled(self, one: Proposed) -> Reply:
        engine = self.controller.engine
        told = Envelope(outcome=Outcome.CANCELLED, executed=Executed.NO, code="CANCELLED")
        envelope = engine.envelope(told, engine.ids.request_id())
        return Reply(answer=Answer.BLOCKED, rule="", envelope=envelope, tool=one.tool, run=self._handle.id)

    # ---- after the calls --------------------------------------------------------------------------------------------

    def note(self, one: _Asked, reply: Reply, shot: Shot) -> None:
        """Keep the result of one call; one that a person has to approve first has none."""
        if isinstance(shot.error, UsageError):
            raise shot.error
        if reply.answer is Answer.NEEDS_APPROVAL and self.pause:
            return
        call = one.proposed
        self._results[one.place] = _result(call.call_id, reply, _text(reply, shot), is_custom=call.is_custom)

    def end(self, replies: Sequence[Reply]) -> Progress:
        """Return where the loop stands."""
        # In the order of the calls, whichever ended first.
        results = [self._results[place] for place in sorted(self._results)]
        self.messages = self.codec.add(self.messages, self._at, results)
        self._catch_up()
        waiting = tuple(reply for reply in replies if reply.answer is Answer.NEEDS_APPROVAL) if self.pause else ()
        if any(reply.answer is Answer.HALTED for reply in replies) or self._handle.halted:
            following = Next.HALTED
        elif waiting:
            following = Next.PERSON
        else:
            following = Next.DONE if self._is_final and not replies else Next.MODEL
        return Progress(
            next=following,
            messages=self.messages,
            replies=tuple(replies),
            waiting=waiting,
            ready=tuple(self._ready),
            clear_forced=any(reply.clear_forced for reply in replies),
        )


def _functions(tools: Tools, controller: Controller, run: str) -> dict[str, Function]:
    """Return the functions by name, each bound, so that the controller can run what is due."""
    if callable(tools):
        raise UsageError("tools: must be a list of functions, or a mapping of name to function")
    named: Iterable[tuple[str | None, Callable[..., object]]]
    named = tools.items() if isinstance(tools, Mapping) else ((None, fn) for fn in tools)
    made: dict[str, Function] = {}
    for name, fn in named:
        function = declared_function(fn, controller, name=name, fields={})
        if function.injected:
            raise UsageError(
                f"tool {function.name!r}: nobody fills its parameter {min(function.injected)!r} here; pass a function "
                "that needs only what the model writes"
            )
        made[function.name] = function
        bind_in_run(controller, function, run)
    return made


def _unavailable(**_arguments: object) -> object:
    raise Refused("TOOL_UNAVAILABLE", recovery="do_not_retry", executed="no")


def _result(call_id: str, reply: Reply, text: str, *, is_custom: bool = False) -> Result:
    is_error = not reply.ok and reply.answer not in (Answer.PENDING, Answer.NEEDS_APPROVAL)
    return Result(call_id=call_id, text=text, is_error=is_error, is_custom=is_custom)


def _text(reply: Reply, shot: Shot) -> str:
    """Return what the model reads: a text as it is, any other value as JSON, else the controller's view."""
    found = shot.value if reply.would is not None and shot.value is not None else value_of(reply, shot)
    value = None if found is None else found[0]
    if isinstance(value, str) and value:
        return value
    if value not in (None, ""):
        try:
            return json.dumps(plain(value, "result"), ensure_ascii=False)
        except NotJson:
            pass
    return reply.for_model()
