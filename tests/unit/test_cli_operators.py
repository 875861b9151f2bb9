"""The commands of operators, in this process: what they print, what they refuse, and how they exit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from forbear import Controller, NotOperator, Refused
from forbear.cli import main
from forbear.cli.show import span
from forbear.store.sqlite import default_path

SECRET = "4111-1111-1111-1111"
LATER = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=3600)


def raises(error: Exception) -> Callable[..., object]:
    """Return a tool that raises."""

    def tool(**_: object) -> object:
        raise error

    return tool


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a store in the environment; it is not there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("FORBEAR_TOKEN", raising=False)
    path = tmp_path / "desk.db"
    monkeypatch.setenv("FORBEAR_STORE", str(path))
    return path


@pytest.fixture
def left(path: Path) -> dict[str, str]:
    """Leave a question, an unknown outcome, a wait and a refusal behind; return their request ids."""
    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", effect="write", target="to", approval="always", secret=["card"])
        controller.declare("send", "ship", effect="write", target="to")
        controller.run("sub", parent="main")
        words = {"to": "acct\u202e7 \x1b[31m", "n": 25, "card": SECRET, "note": "long " * 200, "odd": {"a": ["x"]}}
        return {
            "approval": controller.call("pay", words, run="sub", call_id="1", execute=raises(LATER)).request_id,
            "unknown": controller.call(
                "send", {"to": "a"}, run="main", call_id="2", execute=raises(TimeoutError())
            ).request_id,
            "wait": controller.call("send", {"to": "b"}, run="main", call_id="3", execute=raises(LATER)).request_id,
            "hold": controller.call(
                "ship", {"to": "c"}, run="main", call_id="4", execute=raises(Refused("DESK_FROZEN"))
            ).request_id,
        }


Output = pytest.CaptureFixture[str]


def waiting(capsys: Output) -> dict[str, dict[str, Any]]:
    """Return what waits, by kind."""
    capsys.readouterr()
    assert main(["pending", "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return {one["kind"]: one for one in found}


def refused(capsys: Output, *arguments: str, code: int = 2) -> str:
    """Run a command that must fail; return its one line on stderr."""
    capsys.readouterr()
    assert main(list(arguments)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("forbear: ").rstrip("\n")


# ---- what waits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
def test_what_waits_fits_the_terminal(
    width: int, left: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """At both widths all lines fit, and no control character is printed."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["pending"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 question · 1 unknown outcome · 1 waiting call · 2 holds\n")
    assert all(cell_len(line) <= width for line in out.splitlines())
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_question_shows_exactly_what_is_asked(left: dict[str, str], capsys: Output) -> None:
    """Tool, run path, rule, fingerprint and every argument with type and length; a secret is hidden, a cut is marked."""
    assert main(["pending", "--kind", "approval"]) == 0
    out = capsys.readouterr().out
    for said in (
        "approve?  pay",
        "asked by  rule always, run main > sub",
        "card  text, 19    (hidden)",
        "n     number      25",
        'odd   object, 1   {"a": ["x"]}',
        'to    text, 12    "acct\\u202e7 \\u001b[31m"',
        "... cut here; --whole shows all of it",
        "expires 20",
        waiting(capsys)["approval"]["fingerprint"],
    ):
        assert said in out
    assert SECRET not in out


def test_with_whole_nothing_is_cut(left: dict[str, str], capsys: Output) -> None:
    """Every character of an argument is shown where that is asked for."""
    assert main(["pending", "--kind", "approval", "--whole"]) == 0
    out = capsys.readouterr().out
    assert "cut here" not in out
    assert "".join(out.split()).count("long") == 200


def test_scripts_get_everything_that_waits(left: dict[str, str], capsys: Output) -> None:
    """`--json` holds each thing with its kind, ticket, times in RFC 3339 and whole arguments, in ASCII."""
    found = waiting(capsys)
    assert found.keys() == {"approval", "unknown", "wait", "hold"}
    assert found["wait"]["due_at"].endswith("Z")
    assert found["approval"]["path"] == ["main", "sub"]
    (note,) = [one for one in found["approval"]["arguments"] if one["name"] == "note"]
    assert (note["cut"], note["text"]) == (False, "long " * 200)
    assert SECRET not in json.dumps(found)


def test_much_that_waits_is_shown_in_part(left: dict[str, str], capsys: Output) -> None:
    """With a limit the oldest calls and holds come, and stderr says that there may be more; scripts get everything."""
    assert main(["pending", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 question · 1 hold\n")
    assert err == "forbear: the oldest 1 of a kind are shown; there may be more (--limit NUMBER)\n"
    assert main(["pending", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) >= len(left)
    assert main(["pending"]) == 0
    assert capsys.readouterr().err == ""
    assert "--limit" in refused(capsys, "pending", "--limit", "0")


def test_what_waits_is_chosen_by_kind_and_run(left: dict[str, str], capsys: Output) -> None:
    """A run names its children, too; a kind that there is not is refused."""
    assert main(["pending", "--run", "sub"]) == 0
    assert capsys.readouterr().out.startswith("1 question\n")
    assert main(["pending", "--run", "nobody"]) == 0
    assert capsys.readouterr().out == "Nothing waits.\n"
    assert refused(capsys, "pending", "--kind", "approvals").startswith("--kind: must be one of approval, unknown,")


def test_a_store_that_is_not_there_is_not_made(path: Path, capsys: Output) -> None:
    """A mistyped path is an error, and leaves nothing behind; the user's own store is looked for where none is named."""
    assert refused(capsys, "pending") == f"store {str(path)!r}: is not there; a controller or 'forbear init' makes it"
    assert not path.exists()
    assert str(default_path()) in refused(capsys, "pending", "--store", str(default_path()))
    assert refused(capsys, "pending", "--store", "nothing://here") == (
        "path: no store for 'nothing' URLs is installed; a package adds one under 'forbear.stores'"
    )


# ---- answers --------------------------------------------------------------------------------------------------------


def test_an_answer_outside_a_terminal_says_yes_and_which_call(left: dict[str, str], capsys: Output) -> None:
    """Without a terminal nothing is answered by accident: `--yes`, and for what loosens the fingerprint, too."""
    ticket = waiting(capsys)["approval"]["ticket"]
    assert refused(capsys, "approve", ticket).startswith("--yes: must be passed")
    assert refused(capsys, "deny", ticket).startswith("--yes: must be passed")
    assert refused(capsys, "approve", ticket, "--yes").startswith("--fingerprint: must be passed with --yes")
    assert refused(capsys, "edit", ticket, "--set", "n=1", "--yes").startswith("--fingerprint: must be passed")
    assert waiting(capsys).keys() == {"approval", "unknown", "wait", "hold"}


def test_the_beginning_of_a_ticket_stands_for_it(left: dict[str, str], capsys: Output) -> None:
    """Eight characters are enough where they are one ticket's; fewer, none's and several's are refused."""
    prompt = waiting(capsys)["approval"]
    assert refused(capsys, "approve", "tkt_").startswith("ticket: must be at least 8")
    assert "is a request id; 'forbear pending' shows the ticket" in refused(capsys, "approve", left["approval"])
    assert "is a ticket; a request id begins with 'act_'" in refused(capsys, "explain", prompt["ticket"])
    assert "is not that of an open prompt" in refused(capsys, "approve", "tkt_none", "--yes", "--fingerprint", "0")
    start = prompt["ticket"][:12]
    assert main(["approve", start, "--yes", "--fingerprint", prompt["fingerprint"], "--actor", "Sam", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rule"] == "awaiting_approval.granted"
    assert said["said"].startswith("approved: pay may start once, before 20")
    assert main(["pending", "--kind", "granted"]) == 0
    assert "approved  pay" in capsys.readouterr().out
    assert main(["explain", left["approval"]]) == 0
    assert "Sam approved exactly this call." in capsys.readouterr().out


def test_a_no_is_lifted_by_its_ticket(left: dict[str, str], capsys: Output) -> None:
    """Deny closes what the rule covers; lift opens it, once."""
    ticket = waiting(capsys)["approval"]["ticket"]
    assert main(["deny", ticket, "--yes"]) == 0
    assert capsys.readouterr().out == (f"denied: pay stays closed until a person lifts it (forbear lift {ticket})\n")
    assert main(["lift", ticket, "--yes"]) == 0
    assert capsys.readouterr().out == "lifted: USER_DENIED of pay\n"
    assert "is not that of a hold" in refused(capsys, "lift", ticket, "--yes")


def test_a_note_is_checked_before_it_is_told(left: dict[str, str], capsys: Output) -> None:
    """What the model is told by a person must be one plain line."""
    ticket = waiting(capsys)["approval"]["ticket"]
    assert refused(capsys, "revise", ticket, "--yes", "--note", "see https://x.invalid").startswith("note: is ")
    assert main(["revise", ticket, "--yes", "--note", "At most 5 without a receipt."]) == 0
    assert capsys.readouterr().out == "changes requested: pay does not run like this\n"


def test_single_arguments_are_changed(left: dict[str, str], capsys: Output) -> None:
    """JSON, texts and left-out arguments; the others stay, also the hidden one; what is no change is refused."""
    prompt = waiting(capsys)["approval"]
    edit = ("edit", prompt["ticket"], "--yes", "--fingerprint", prompt["fingerprint"])
    assert refused(capsys, *edit) == "edit: must change something (--set, --text, --drop, --tool)"
    assert refused(capsys, *edit, "--set", "n").startswith("--set: must be NAME=VALUE")
    assert refused(capsys, *edit, "--set", f"n={SECRET}!") == (
        "--set: the value of 'n' must be JSON; --text takes a text"
    )
    assert refused(capsys, *edit, "--drop", "nothing") == "drop: the call has no argument 'nothing'"
    assert main([*edit, "--set", "n=5", "--text", "to=acct 7", "--drop", "odd"]) == 0
    assert capsys.readouterr().out.startswith("changed: pay may start once")
    changed = waiting(capsys)["granted"]
    assert {one["name"]: (one["type"], one["text"]) for one in changed["arguments"]} == {
        "card": ("text", "(hidden)"),
        "n": ("number", "5"),
        "note": ("text", "long " * 200),
        "to": ("text", "acct 7"),
    }


def test_an_edit_into_another_tool_asks_again(left: dict[str, str], capsys: Output) -> None:
    """Another tool is another question, under another ticket."""
    prompt = waiting(capsys)["approval"]
    edit = ["edit", prompt["ticket"], "--tool", "ship", "--yes", "--fingerprint", prompt["fingerprint"]]
    assert main(edit) == 0
    assert capsys.readouterr().out == "changed: ship is asked about\n"
    asked = waiting(capsys)["approval"]
    assert (asked["tool"], asked["ticket"] == prompt["ticket"]) == ("ship", False)


@pytest.mark.parametrize("arguments", [("resolve", "tkt_12345678", "perhaps"), ("schema", "letters")])
def test_a_word_that_is_none_of_those_is_said_plainly(arguments: tuple[str, ...], capsys: Output) -> None:
    """The message names the argument and the words, and nothing of the library that checks them."""
    said = refused(capsys, *arguments)
    assert said.startswith("Invalid value for '")
    assert "is not one of '" in said
    assert "Value error" not in said


def test_an_unknown_outcome_is_resolved(left: dict[str, str], capsys: Output) -> None:
    """A verdict ends it; a word that is none is refused."""
    ticket = waiting(capsys)["unknown"]["ticket"]
    assert "perhaps" in refused(capsys, "resolve", ticket, "perhaps")
    assert main(["resolve", ticket, "not_applied", "--yes"]) == 0
    assert capsys.readouterr().out == "resolved: send not_applied\n"
    assert "unknown" not in waiting(capsys)


def test_a_halt_is_lifted_by_its_run(path: Path, capsys: Output) -> None:
    """`run show` says why the run's tool use is over, and `lift --run` ends that, once."""
    with Controller.open(path, worker=False) as controller:
        controller.declare("send", effect="write")
        for n in range(20):
            refuse = raises(Refused("NO_SUCH_DESK"))
            controller.call("send", {"to": n % 2}, run="desk 1", step=str(n), call_id=str(n), execute=refuse)
    assert main(["run", "show", "desk 1"]) == 0
    out = capsys.readouterr().out
    assert "halted    BLOCKED since 20" in out
    assert "forbear lift --run 'desk 1'" in out
    assert "stopped   send (NO_SUCH_DESK), 1 attempt, forbear explain" in out
    assert main(["lift", "--run", "desk 1", "--yes"]) == 0
    assert capsys.readouterr().out == "lifted: run desk 1 may use tools\n"
    assert "nothing to lift: it is not halted, and a hold is lifted by its ticket" in refused(
        capsys, "lift", "--run", "desk 1", "--yes"
    )
    assert refused(capsys, "lift", "--yes") == "lift: must name a ticket or --run"


def test_a_run_shows_its_place_and_what_waits_in_it(left: dict[str, str], capsys: Output) -> None:
    """Tree, turn, counts, children and what waits in the run and its children; for scripts as JSON."""
    assert main(["run", "show", "main"]) == 0
    out = capsys.readouterr().out
    assert "children  sub" in out
    assert "calls     3 in this turn, 3 in all; 0 steps of this turn blocked" in out
    assert "approve?  pay" in out
    assert main(["run", "show", "sub", "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert (view["path"], len(view["waiting"])) == (["main", "sub"], 1)
    assert "turn      1" in out
    assert refused(capsys, "run", "show", "nobody") == "run 'nobody': is not known to the store"


# ---- explain --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["approval", "unknown", "wait", "hold"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_request_is_explained_for_a_terminal(
    kind: str, width: int, left: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Output, path: Path
) -> None:
    """Four parts, all lines but commands within the width; a named store is named in the commands, too."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("FORBEAR_STORE")
    assert main(["explain", left[kind], "--store", str(path)]) == 0
    out = capsys.readouterr().out
    heads = ["What happened  (UTC)", "What holds now", "What the model was told", "What a person can do"]
    assert [line for line in out.splitlines() if line in heads] == heads
    for line in out.splitlines():
        if line.startswith("      forbear "):
            assert line.endswith(f" --store {path}")
        else:
            assert cell_len(line) <= width
    assert SECRET not in out


def test_an_explanation_for_scripts(left: dict[str, str], capsys: Output) -> None:
    """`--json` holds the story, what holds, what was told and the commands."""
    assert main(["explain", left["hold"], "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["rule"] for one in said["story"]] == ["start.executed", "running.returned.refused"]
    assert json.loads(said["told"])["error"]["code"] == "DESK_FROZEN"
    assert said["remedies"][0]["command"].startswith("forbear lift tkt_")
    assert refused(capsys, "explain", "act_none") == "request id 'act_none': is not in the journal"


# ---- the token ------------------------------------------------------------------------------------------------------


def test_a_token_is_printed_once_and_alone_on_stdout(path: Path, capsys: Output) -> None:
    """`init` makes the store where there is none, and its stdout is the token and nothing else."""
    assert main(["init"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("fbo_")
    assert len(out) == len("fbo_") + 64 + 1
    assert "FORBEAR_TOKEN" in err
    assert "has one already" in refused(capsys, "init")
    assert "operator token" in refused(capsys, "init", "--replace")
    assert main(["init", "--replace", "--token", out.strip(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["token"] != out.strip()


def test_with_a_token_answers_need_it(left: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Every answer names the option and the variable; looking needs nothing."""
    assert main(["init"]) == 0
    token = capsys.readouterr().out.strip()
    found = waiting(capsys)
    for answer in (
        ("deny", found["approval"]["ticket"]),
        ("resolve", found["unknown"]["ticket"], "applied"),
        ("lift", found["hold"]["ticket"]),
        ("lift", "--run", "main"),
    ):
        assert refused(capsys, *answer, "--yes") == (
            "token: the store has an operator token; set FORBEAR_TOKEN or pass --token"
        )
    monkeypatch.setenv("FORBEAR_TOKEN", token)
    assert main(["deny", found["approval"]["ticket"], "--yes"]) == 0


# ---- completion -----------------------------------------------------------------------------------------------------


def completed(words: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> list[str]:
    """Return what bash would offer after these words."""
    capsys.readouterr()
    monkeypatch.setenv("_FORBEAR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    monkeypatch.delenv("_FORBEAR_COMPLETE")
    return capsys.readouterr().out.split()


def test_tickets_complete_from_the_store(left: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Each command offers the tickets that it takes; where there is no store, nothing is offered and nothing printed."""
    found = waiting(capsys)
    assert completed("forbear approve tkt_", monkeypatch, capsys) == [found["approval"]["ticket"]]
    assert completed("forbear resolve tkt_", monkeypatch, capsys) == [found["unknown"]["ticket"]]
    assert found["hold"]["ticket"] in completed("forbear lift ", monkeypatch, capsys)
    assert completed("forbear approve tkt_zz", monkeypatch, capsys) == []
    monkeypatch.setenv("FORBEAR_STORE", "/nowhere/at/all.db")
    assert completed("forbear approve tkt_", monkeypatch, capsys) == []


def test_a_completion_holds_nothing_that_a_shell_would_run(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Names of runs and tools are reduced to plain characters: zsh evaluates what a completion prints."""
    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", effect="write", approval="always")
        controller.call("pay", {"n": 1}, run="$(touch x)`touch x`\"'", execute=raises(LATER))
    monkeypatch.setenv("_FORBEAR_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "forbear approve tkt_")
    with pytest.raises(SystemExit):
        main([])
    out = capsys.readouterr().out
    assert "tkt_" in out
    assert "approval pay in run __touch x__touch x___" in out
    assert not set("$`\\;&|<>") & set(out.removeprefix("_arguments '*: :((").removesuffix("))'"))


# ---- the worker -----------------------------------------------------------------------------------------------------

APPLICATION = """
from forbear import Controller

controller = Controller.open(worker=False, path={path!r})
controller.declare("send", effect="write", target="to")
controller.bind("send", lambda to: {{"sent": to}})
nothing = 3


def made():
    return controller
"""


@pytest.mark.parametrize("name", ["controller", "made"])
def test_a_worker_does_what_is_due(
    name: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """It takes the application's controller from a module in the current folder, and says what it ran in one line."""
    soon = Refused("RATE_LIMITED", recovery="retry_after", retry_after_seconds=1)
    with Controller.open(path, worker=False, limits={"inline_wait": 0}) as controller:
        controller.declare("send", effect="write", target="to")
        reply = controller.call("send", {"to": SECRET}, run="r", call_id="1", execute=raises(soon))
        due = controller.next_due_at
    assert due is not None
    module = f"desk_app_{name}"
    (tmp_path / f"{module}.py").write_text(APPLICATION.format(path=str(path)), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("forbear.runtime.clock.SystemClock.now", lambda _self: due)
    monkeypatch.setattr("forbear.runtime.clock.SystemClock.now_us", lambda _self: int(due.timestamp() * 1_000_000) + 1)
    assert main(["worker", f"{module}:{name}", "--once"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("send executed run=r act_")
    assert out.count("\n") == 1
    assert SECRET not in out
    assert reply.ticket is not None


def test_a_worker_names_what_is_wrong_with_its_target(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A target that is none, is not there, or is no controller is one line."""
    (tmp_path / "desk_app_wrong.py").write_text(APPLICATION.format(path=":memory:"), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refused(capsys, "worker", "desk_app_wrong").startswith("target: must be MODULE:OBJECT, such as")
    assert refused(capsys, "worker", "no_such_module_here:x") == "target: there is no module 'no_such_module_here'"
    assert refused(capsys, "worker", "desk_app_wrong:other") == "target: module 'desk_app_wrong' has no 'other'"
    assert "must be a Controller" in refused(capsys, "worker", "desk_app_wrong:nothing")


def test_a_worker_refuses_a_closed_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Nothing can run for a controller that is closed: the command says so instead of leaving as if all was done."""
    (tmp_path / "desk_app_closed.py").write_text(
        "from forbear import Controller\ncontroller = Controller.open(':memory:')\ncontroller.close()\n"
        "def made():\n    return controller\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("controller", "made"):
        said = refused(capsys, "worker", f"desk_app_closed:{name}", "--once")
        assert said == f"target: the controller {name!r} is closed; leave it open for the worker"


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("\nraise RuntimeError('hunter2')\n", "x", "target: importing {!r} raised RuntimeError at {}.py:2"),
        ("def x(:\n", "x", "target: importing {!r} raised SyntaxError at {}.py:1"),
        ("import nowhere_to_be_found\n", "x", "target: importing {!r} raised ModuleNotFoundError at {}.py:1"),
        ("def x():\n    raise RuntimeError('hunter2')\n", "x", "target: calling 'x' raised RuntimeError at {1}.py:2"),
    ],
)
def test_what_the_application_raises_is_one_line_with_its_place(
    source: str, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A module that cannot be imported, or a function that raises, is told by class and line, never by its text."""
    module = f"desk_app_raises_{abs(hash((source, name)))}"
    (tmp_path / f"{module}.py").write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refused(capsys, "worker", f"{module}:{name}", "--once") == said.format(module, module)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (-5, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (86_461, "1 d"),
     (90_000, "1 d 1 h"), (3_661, "1 h 1 min")],
)  # fmt: skip
def test_a_length_of_time_is_said_in_its_two_largest_units(seconds: int, said: str) -> None:
    """Short, and never more exact than a person wants."""
    from datetime import timedelta

    assert span(timedelta(seconds=seconds)) == said


# ---- looser policies ------------------------------------------------------------------------------------------------


def test_a_looser_policy_is_shown_and_allowed(path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused to a start is listed with its looser fields, and taken by whoever has the token, nobody else."""
    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", effect="write", approval="always")
        controller.check_policies()
    assert main(["init"]) == 0
    token = capsys.readouterr().out.strip()
    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", effect="write")
        with pytest.raises(NotOperator) as refusal:
            controller.check_policies()
    assert main(["pending"]) == 0
    shown = capsys.readouterr().out
    assert "1 looser policy" in shown
    assert "field 'approval' must not let pass" in " ".join(shown.split())
    assert 'approval  text, 5  "never"' in shown
    assert "Take a looser one:  forbear allow TICKET" in shown
    ticket = waiting(capsys)["policy"]["ticket"]
    assert f"'forbear allow {ticket}'" in str(refusal.value)
    assert "token" in refused(capsys, "allow", ticket, "--yes")
    monkeypatch.setenv("FORBEAR_TOKEN", token)
    assert "must be passed where no terminal" in refused(capsys, "allow", ticket)
    assert main(["allow", ticket, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fields"] == ["approval"]
    assert waiting(capsys) == {}
    with Controller.open(path, worker=False) as controller:
        controller.declare("pay", effect="write")
        controller.check_policies()
    assert main(["audit", "tail"]) == 0
    assert [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "policy.noted", "operator.token_made", "policy.refused", "policy.loosened",
    ]  # fmt: skip
