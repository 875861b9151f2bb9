"""Commands by which a person answers: approve, deny, revise, edit, resolve, lift, allow; and `init`, which makes the token.

They show what is answered, ask, and hand the answer to `forbear.Operator`, which checks ticket, fingerprint and time.
Nothing is decided here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from forbear.cli.desk import BEGINNING, TOKEN, Actor, At, Desk, Json, Token, at_desk, at_store, print_json, ticket_of
from forbear.cli.show import block, console, instant
from forbear.cli.terminal import escaped, note
from forbear.errors import UsageError

if TYPE_CHECKING:
    from forbear.runtime.pending import Pending
    from forbear.runtime.reply import Reply

PROMPT = frozenset({"approval"})

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; for scripts.")]
Fingerprint = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="DIGEST", help="The call that is meant; another one is refused."),
]
Asked = Annotated[str, typer.Argument(metavar="TICKET", help=BEGINNING, autocompletion=ticket_of("approval"))]


class VerdictWord(StrEnum):
    """What a person says about an unknown outcome."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    CANNOT_TELL = "cannot_tell"


# ---- what is asked before an answer is given ------------------------------------------------------------------------


def _prompt(desk: Desk, ticket: str, fingerprint: str | None) -> Pending:
    """Return the prompt of a ticket, if it is still about the call that is meant."""
    prompt = desk.one(ticket, PROMPT, "an open prompt")
    if fingerprint is not None and fingerprint != prompt.fingerprint:
        raise UsageError("--fingerprint: the prompt is about another call; nothing was answered")
    return prompt


def _confirm(desk: Desk, shown: Pending | None, question: str, *, yes: bool) -> None:
    """Show what is answered and ask; outside a terminal the question must have been answered by ``--yes``."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("--yes: must be passed where no terminal can ask")
    if shown is not None:
        out = console()
        out.print(block(shown, _hold_of(desk, shown), desk.now, out.width))
        out.print()
    typer.confirm(question, abort=True, err=True)


def _hold_of(desk: Desk, shown: Pending) -> Pending | None:
    """Return the hold that goes with a call."""
    return None if shown.kind == "hold" else desk.hold(shown.ticket)


def _names_the_call(*, yes: bool, fingerprint: str | None) -> None:
    if yes and fingerprint is None:
        raise UsageError("--fingerprint: must be passed with --yes, so that exactly the call that is meant is answered")


def _said(reply: Reply | None, words: str, *, as_json: bool, **more: object) -> None:
    """Say that an answer was taken."""
    if not as_json:
        typer.echo(escaped(words))
        return
    told = {} if reply is None else {"answer": reply.answer.value, "rule": reply.rule, "request_id": reply.request_id}
    print_json({"said": words, **told, **more})


def _until(desk: Desk, ticket: str) -> str:
    """Say until when a yes can be spent; "" where it was spent already."""
    granted = next((one for one in desk.operator.find(ticket) if one.kind == "granted"), None)
    return "" if granted is None or granted.due_at is None else f", before {instant(granted.due_at)}"


# ---- commands -------------------------------------------------------------------------------------------------------


def approve(
    ticket: Asked,
    *,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    fingerprint: Fingerprint = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Say yes to exactly one call: it is shown, you are asked, and one start may spend the yes."""
    _names_the_call(yes=yes, fingerprint=fingerprint)
    with at_desk(store, token, actor) as desk:
        prompt = _prompt(desk, ticket, fingerprint)
        _confirm(desk, prompt, "Approve exactly this call?", yes=yes)
        reply = desk.operator.approve(prompt.ticket, prompt.fingerprint)
        words = f"approved: {prompt.tool} may start once{_until(desk, prompt.ticket)}"
        _said(reply, words, as_json=as_json, ticket=prompt.ticket)


def deny(
    ticket: Asked,
    *,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    fingerprint: Fingerprint = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Say no: what the rule covers is not asked about again before a person lifts it."""
    with at_desk(store, token, actor) as desk:
        prompt = _prompt(desk, ticket, fingerprint)
        _confirm(desk, prompt, "Deny this call, and what its rule covers?", yes=yes)
        reply = desk.operator.deny(prompt.ticket, prompt.fingerprint)
        words = f"denied: {prompt.tool} stays closed until a person lifts it (forbear lift {prompt.ticket})"
        _said(reply, words, as_json=as_json, ticket=prompt.ticket)


def revise(
    ticket: Asked,
    *,
    note_: Annotated[str, typer.Option("--note", metavar="TEXT", help="One line that the model is told.")] = "",
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    fingerprint: Fingerprint = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Ask for changes: this call does not run, and another one may be asked about."""
    with at_desk(store, token, actor) as desk:
        prompt = _prompt(desk, ticket, fingerprint)
        _confirm(desk, prompt, "Ask for another call?", yes=yes)
        reply = desk.operator.revise(prompt.ticket, prompt.fingerprint, note=note_)
        _said(reply, f"changes requested: {prompt.tool} does not run like this", as_json=as_json, ticket=prompt.ticket)


def edit(
    ticket: Asked,
    *,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=JSON", help="An argument's new value, as JSON.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="NAME=TEXT", help="An argument's new value, a text.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", metavar="NAME", help="An argument to leave out.")] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="Another tool; it is asked about again.")
    ] = None,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    fingerprint: Fingerprint = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Change the call and say yes to the changed one; what the model proposed does not run."""
    changes = {**dict(_json_of(one) for one in set_ or ()), **dict(_pair("text", one) for one in text or ())}
    if not changes and not drop and tool is None:
        raise UsageError("edit: must change something (--set, --text, --drop, --tool)")
    _names_the_call(yes=yes, fingerprint=fingerprint)
    with at_desk(store, token, actor) as desk:
        prompt = _prompt(desk, ticket, fingerprint)
        after = desk.operator.preview(prompt.ticket, changes, drop=drop or ())
        edited = replace(prompt, arguments=after, tool=tool or prompt.tool, fingerprint="")
        _confirm(desk, edited, "Approve the call as it is here?" if tool is None else "Ask about this call?", yes=yes)
        reply = desk.operator.change(prompt.ticket, prompt.fingerprint, changes, drop=drop or (), tool=tool)
        asks = reply.ticket not in {None, prompt.ticket}
        words = f"changed: {edited.tool} " + (
            "is asked about" if asks else f"may start once{_until(desk, prompt.ticket)}"
        )
        _said(reply, words, as_json=as_json, ticket=reply.ticket or prompt.ticket)


def resolve(
    ticket: Annotated[str, typer.Argument(metavar="TICKET", help=BEGINNING, autocompletion=ticket_of("unknown"))],
    verdict: Annotated[VerdictWord, typer.Argument(help="What became of it.")],
    *,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Say what became of a write that may have happened."""
    with at_desk(store, token, actor) as desk:
        unknown = desk.one(ticket, frozenset({"unknown"}), "an unknown outcome")
        questions = {
            VerdictWord.APPLIED: "Did it happen? It is then completed and is not done again.",
            VerdictWord.NOT_APPLIED: "Did it not happen? It may then be done.",
            VerdictWord.CANNOT_TELL: "Can nobody tell? It then stays held.",
        }
        _confirm(desk, unknown, questions[verdict], yes=yes)
        reply = desk.operator.resolve(unknown.ticket, verdict.value)
        _said(reply, f"resolved: {unknown.tool} {verdict.value}", as_json=as_json, ticket=unknown.ticket)


def lift(
    ticket: Annotated[
        str | None, typer.Argument(metavar="TICKET", help=BEGINNING, autocompletion=ticket_of("hold"))
    ] = None,
    *,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="End the halt of a run instead.")] = None,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """End a hold before its time, or the halt of a run."""
    if (ticket is None) == (run is None):
        raise UsageError("lift: must name a ticket or --run")
    with at_desk(store, token, actor) as desk:
        if run is not None:
            _confirm(desk, None, f"Let run {escaped(run)} use tools again?", yes=yes)
            desk.operator.lift(run=run)
            _said(None, f"lifted: run {run} may use tools", as_json=as_json, run=run)
            return
        hold = desk.one(ticket or "", frozenset({"hold"}), "a hold")
        _confirm(desk, hold, "Lift this hold?", yes=yes)
        desk.operator.lift(hold.ticket)
        _said(None, f"lifted: {hold.code or hold.rule} of {hold.tool}", as_json=as_json, ticket=hold.ticket)


def allow(
    tickets: Annotated[
        list[str], typer.Argument(metavar="TICKET...", help=BEGINNING, autocompletion=ticket_of("policy"))
    ],
    *,
    store: At = None,
    token: Token = None,
    actor: Actor = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Let looser policies take the place of those that the store has."""
    with at_desk(store, token, actor) as desk:
        for ticket in tickets:
            policy = desk.one(ticket, frozenset({"policy"}), "a policy that waits")
            _confirm(desk, policy, f"Let the looser policy of {escaped(policy.tool)} be used?", yes=yes)
            fields = desk.operator.allow(policy.ticket, policy.fingerprint)
            words = f"allowed: {policy.tool} ({', '.join(fields)})"
            _said(None, words, as_json=as_json, ticket=policy.ticket, fields=list(fields))


def init(
    *,
    store: At = None,
    token: Token = None,
    replace_: Annotated[
        bool, typer.Option("--replace", help="Make another token; the old one opens nothing any more.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the operator token of a store and print it, this once. From then on every answer needs it."""
    if replace_:
        with at_desk(store, token, None) as desk:
            made = desk.operator.make_token(replace=True)
    else:
        with at_store(store, makes=True) as desk:
            made = desk.operator.make_token()
    if as_json:
        print_json({"token": made})
        return
    typer.echo(made)
    note(f"keep it where no agent can read it; answers take it from {TOKEN}, --token or a prompt")


def _pair(option: str, given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise UsageError(f"--{option}: must be NAME=VALUE")
    return name, value


def _json_of(given: str) -> tuple[str, object]:
    name, value = _pair("set", given)
    try:
        parsed: object = json.loads(value)
    except ValueError:
        raise UsageError(f"--set: the value of {name!r} must be JSON; --text takes a text") from None
    return name, parsed


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (approve, deny, revise, edit, resolve, lift, allow, init):
        app.command(command.__name__, rich_help_panel="Operators")(command)
