"""`forbear doctor` and `forbear describe`: what `forbear.doctor` found about a project's tools, printed. Nothing is judged here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forbear.cli.objects import find
from forbear.cli.terminal import FOUND, OK, count, note, say
from forbear.errors import ConfigError, ForbearError, UsageError

if TYPE_CHECKING:
    from forbear.doctor.examine import Diagnosis
    from forbear.doctor.seen import Found

_STYLES: Final = {"risk": "bold red", "note": "yellow", "yes": "green", "no": "bold red", "cannot be seen": "dim"}


def doctor(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:OBJECT",
            help='Tools, a node, a graph or a controller; or "mcp:COMMAND ARG..."; or a ListToolsResult as a .json file.',
        ),
    ],
    *,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="What is declared already.")
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Write the proposed policy to this new file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Propose what to declare about a project's tools, and name what is risky. Calls no tool; exits with 1 on a risk."""
    from forbear.contract import policies_from_toml
    from forbear.doctor.examine import diagnose

    if write is not None and write.exists():
        raise UsageError("--write: the file exists already, and is yours to edit")
    declared = {} if policy is None else policies_from_toml(policy)
    found, done, modules = read(target)
    if not found.tools:
        raise ConfigError("target: has no tools")
    diagnosis = diagnose(found, done=done, modules=modules, policies=declared)
    if write is not None:
        write.write_text(diagnosis.policy, "utf-8")
        note(f"{write.name} written; read every line before you load it")
    if as_json:
        typer.echo(json.dumps(diagnosis.as_json(), indent=2))
    else:
        _print(diagnosis, write=write)
    raise typer.Exit(FOUND if diagnosis.is_risky else OK)


def read(target: str) -> tuple[Found, str, list[str]]:
    """Return what a target holds, what reading it did, and the modules to read.

    Raises:
        ConfigError: the target cannot be read, or nobody knows such an object.
        UsageError: the target has another form.
    """
    from forbear.doctor import mcp_list
    from forbear.doctor.sources import found_on, sources

    if target.startswith("mcp:"):
        try:
            command = shlex.split(target.removeprefix("mcp:"))
        except ValueError:
            raise UsageError("target: mcp:COMMAND has an open quote") from None
        if not command:
            raise UsageError("target: must be mcp:COMMAND ARG...")
        done = f"{Path(command[0]).name} was started, asked for its list of tools, and stopped. No tool was called."
        return mcp_list.from_command(command), done, []
    if target.endswith(".json"):
        path = Path(target)
        if not path.is_file():
            raise ConfigError(f"target: there is no file {target!r}")
        return mcp_list.from_file(path), f"{path.name} was read. No tool was called.", []
    module = target.partition(":")[0]
    known, missing = sources()
    held = find(target)
    try:
        found = found_on(held, name=target.partition(":")[2], known=known, missing=missing)
    except ForbearError:
        raise
    except Exception as error:
        # An object that cannot be looked at here (a proxy outside of its request).
        raise ConfigError(f"target: reading {target!r} raised {type(error).__name__}") from error
    return found, f"{module} was imported, which ran its top-level code. No tool was called.", [module]


# ---- for people -----------------------------------------------------------------------------------------------------


def _print(diagnosis: Diagnosis, *, write: Path | None) -> None:
    from forbear.doctor.examine import effect_of
    from forbear.doctor.questions import QUESTIONS

    say((diagnosis.done, "italic"), indent=0)
    say(("", ""))
    say((f"{count(len(diagnosis.proposals), 'tool')}", "bold"), (": declared or guessed effect, and why", ""))
    for one in diagnosis.proposals:
        guess = next((guess for guess in one.guesses if guess.field == "effect"), None)
        declared = one.tool.policy is not None
        why = "declared" if declared else f"guess: {guess.reason}" if guess is not None else "no sign of either"
        say((f"  {one.tool.name}  ", "bold"), (f"{effect_of(one)}  ", "cyan"), (why, "dim"), indent=6)
    say(("", ""))
    say(("The four questions", "bold"), (", as far as a policy answers them", ""))
    for key, question in QUESTIONS.items():
        said: dict[str, list[str]] = {}
        for name, answers in diagnosis.answers.items():
            said.setdefault(str(getattr(answers, key)), []).append(name)
        say((f"  {question}", ""))
        for answer, names in said.items():
            whom = "all" if len(names) == len(diagnosis.answers) > 1 else ", ".join(names)
            say((f"    {answer}: ", "cyan" if answer != "not declared" else "yellow"), (whom, ""), indent=6)
    say(("", ""))
    risks = sum(finding.weight == "risk" for finding in diagnosis.findings)
    say((count(risks, "risk"), "bold red" if risks else "bold green"))
    for finding in diagnosis.findings:
        mark = (f"  {finding.weight}  ", _STYLES[finding.weight])
        say(mark, (finding.where, "bold"), (f": {finding.message}", ""), indent=8)
        if finding.change:
            say((f"        {finding.change}", "cyan"), indent=8)
    say(("", ""))
    say(("Checklist", "bold"))
    for point in diagnosis.points:
        say((f"  {point.number:2}  ", ""), (f"{point.holds}  ", _STYLES[point.holds]), (point.question, ""), indent=8)
        say((f"        {point.reason}", "dim"), indent=8)
    if write is None and any(one.tool.policy is None for one in diagnosis.proposals):
        say(("", ""))
        say(("Proposed policy", "bold"), (" (--write policy.toml puts it into a file)", "dim"))
        say(("", ""))
        for line in diagnosis.policy.splitlines():
            say((line, "dim" if line.startswith("#") else ""))


# ---- describe -------------------------------------------------------------------------------------------------------


def describe(
    policy: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="A policy file.")],
    tool: Annotated[str | None, typer.Argument(help="Which tool; none = all.")] = None,
    description: Annotated[str, typer.Option(help="What the tool's description says already.")] = "",
) -> None:
    """Print tool descriptions that say what may be answered and what is of no use, from a policy file."""
    from forbear.contract import policies_from_toml
    from forbear.contract.describe import describe as text_of
    from forbear.contract.limits import nearest

    policies = policies_from_toml(policy)
    if tool is not None and tool not in policies:
        near = nearest(tool, tuple(policies))
        raise ConfigError(
            f"tool {tool!r}: is not declared in {policy.name!r}{f'; nearest is {near!r}' if near else ''}"
        )
    for name, one in policies.items():
        if tool in (None, name):
            said = text_of(description, one)
            typer.echo(said if tool is not None else f"{name}: {said}")


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("doctor")(doctor)
    app.command("describe")(describe)
