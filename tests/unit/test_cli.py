"""The command line: exit codes, one-line errors, commands added by packages. What commands compute is tested elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from forbear.cli import main
from forbear.cli.terminal import one_line

SIGNAL = {
    "id": "S1",
    "input": {"kind": "http", "method": "GET", "status": 403, "headers": [], "body": ""},
    "effect": "read",
    "now": "2026-01-05T12:00:00Z",
    "expected": {"recovery": "do_not_retry", "retry_at": None, "certain": True},
}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable folder, to install packages of others into."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(packages: Path, entry: str, module: str = "") -> None:
    """Install the distribution `desk-tools` with one command."""
    folder = packages / "desk_tools-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: desk-tools\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text(f"[forbear.commands]\n{entry}\n", "utf-8")
    (packages / "forbear_desk_commands.py").write_text(module, "utf-8")
    sys.modules.pop("forbear_desk_commands", None)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["vectors"]], ids=["alone", "help", "group"])
def test_asked_for_nothing_it_explains_itself(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`forbear` alone, or a group of commands alone, prints what there is and is no error."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "Commands" in out
    assert err == ""


def test_version_names_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    """`forbear --version` prints one line that starts with the name."""
    assert main(["--version"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("forbear")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["bogus"], "bogus"),
        (["--bogus"], "--bogus"),
        (["vectors", "run"], "files"),
        (["vectors", "run", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["vectors", "run", "--bogus", "x"], "--bogus"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Misuse answers with one line on stderr that names what is wrong, nothing on stdout, and exit code 2."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("forbear: ")
    assert named in line


def test_an_added_command_gets_its_arguments_untouched(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function that a package added runs as a command, and what follows `--` reaches it as it stands."""
    install(
        packages,
        "desk = forbear_desk_commands:desk",
        "def desk(words: list[str], loud: bool = False) -> None:\n    print(words, loud)\n",
    )
    assert main(["desk", "--loud", "--", "--version", "x"]) == 0
    assert capsys.readouterr().out == "['--version', 'x'] True\n"


def test_an_added_group_runs_and_its_exit_code_counts(packages: Path) -> None:
    """A typer app that a package added keeps its own commands and exit codes."""
    module = (
        "import typer\napp = typer.Typer()\n\n@app.command()\ndef one() -> None:\n    raise typer.Exit(7)\n\n"
        "@app.command()\ndef two() -> None:\n    pass\n"
    )
    install(packages, "desk = forbear_desk_commands:app", module)
    assert main(["desk", "one"]) == 7
    assert main(["desk", "two"]) == 0


def test_a_missing_extra_answers_with_the_install_command(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command whose extra is not installed says how to install it, on one line, without a traceback."""
    install(packages, "desk = forbear_desk_commands:app [paper,real]", "import a_library_that_is_not_installed\n")
    assert main(["desk"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "forbear: command 'desk' needs pip install 'desk-tools[paper,real]'\n"


def test_help_names_added_commands_without_importing_them(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists commands of extras that are not installed, since it imports none of them."""
    install(packages, "desk = forbear_desk_commands:app [paper]", "raise SystemExit(9)\n")
    assert main([]) == 0
    assert "forbear desk" in capsys.readouterr().out


def test_an_added_command_that_is_none_is_refused(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An entry point that is neither an app nor a function is an error that names the entry point."""
    install(packages, "desk = forbear_desk_commands:app", "app = 3\n")
    assert main(["desk"]) == 2
    assert "forbear_desk_commands:app" in capsys.readouterr().err


def test_an_added_command_cannot_replace_a_built_in_one(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package cannot put its own `vectors` in place of the product's."""
    install(packages, "vectors = forbear_desk_commands:app", "def app() -> None:\n    print('taken over')\n")
    assert main(["vectors"]) == 0
    assert "taken over" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["envelope", "catalogue", "policy"])
def test_a_schema_is_printed_as_it_is_committed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `forbear schema NAME` prints is, byte for byte, the committed file."""
    assert main(["schema", name]) == 0
    committed = Path(__file__).parents[2] / "docs" / "reference" / "schema" / f"{name}.schema.json"
    assert capsys.readouterr().out == committed.read_text("utf-8")


def test_all_schemas_come_in_one_object_or_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name every schema is printed by its file name, and the same are written with `--into`."""
    assert main(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["schema", "--into", str(tmp_path)]) == 0
    assert {path.name: json.loads(path.read_text("utf-8")) for path in tmp_path.iterdir()} == printed


GOOD = """
[codes.DESK_CLOSED_FOR_AUDIT]
category = "domain"
recovery = "do_not_retry"
behaviour = "Stop and report."
text = "The desk is closed for an audit."
"""


def written(path: Path, text: str) -> str:
    """Write a file and return its name."""
    path.write_text(text, "utf-8")
    return str(path)


def test_a_good_catalogue_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A catalogue without a finding is exit code 0 and one line."""
    assert main(["catalog", "check", written(tmp_path / "codes.toml", GOOD)]) == 0
    assert capsys.readouterr().out == "0 findings in 1 file\n"


def test_a_finding_names_file_code_and_rule_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finding is one unwrapped line, however long the path, and the exit code is 1."""
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    name = written(folder / "codes.toml", GOOD.replace("is closed", "is closed, try again") + '[codes."x\\u001b[2J"]\n')
    assert main(["catalog", "check", name]) == 1
    *findings, closing = capsys.readouterr().out.splitlines()
    assert closing == f"{len(findings)} findings in 1 file"
    assert all(line.startswith(f"{name}: ") for line in findings)
    assert any("DESK_CLOSED_FOR_AUDIT text: invites another attempt" in line for line in findings)
    assert "\x1b" not in "".join(findings)


def test_a_rendered_catalogue_is_markdown_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`catalog render` prints Markdown source when its output is no terminal, for a file and for the built-in codes."""
    assert main(["catalog", "render", written(tmp_path / "codes.toml", GOOD)]) == 0
    assert "| `DESK_CLOSED_FOR_AUDIT` | `do_not_retry` |" in capsys.readouterr().out
    assert main(["catalog", "render"]) == 0
    assert "| `AUTH_FAILED` |" in capsys.readouterr().out


def test_a_difference_that_breaks_clients_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed class breaks clients; a changed text does not."""
    old = written(tmp_path / "old.toml", GOOD)
    text = written(tmp_path / "text.toml", GOOD.replace("an audit", "its audit"))
    recovery = written(tmp_path / "recovery.toml", GOOD.replace("do_not_retry", "retry_after"))
    assert main(["catalog", "diff", old, text]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 change, 0 breaking clients"
    assert main(["catalog", "diff", old, recovery]) == 1
    first, closing = capsys.readouterr().out.splitlines()
    assert first.startswith("breaks clients  DESK_CLOSED_FOR_AUDIT recovery: ")
    assert closing == "1 change, 1 breaking clients"


@pytest.mark.parametrize("command", [["catalog", "render"], ["catalog", "diff"]])
def test_a_broken_catalogue_is_one_line_and_exit_code_2(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no catalogue is named by field and rule, without a traceback."""
    bad = written(tmp_path / "bad.toml", "[codes.DESK_CLOSED]\ntext = 3\n")
    assert main([*command, *[bad] * (2 if command[1] == "diff" else 1)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "forbear: catalogue code 'DESK_CLOSED': 'text' must be a string\n"


@pytest.mark.parametrize("command", [["catalog", "render"], ["catalog", "diff"]])
def test_a_file_of_another_kind_is_no_empty_catalogue(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two policy files do not differ in no code: they hold none, and a gate that compares them must not pass."""
    policy = written(tmp_path / "policy.toml", '[tools.pay]\neffect = "write"\n')
    assert main([*command, *[policy] * (2 if command[1] == "diff" else 1)]) == 2
    assert capsys.readouterr() == ("", "forbear: a catalogue must hold a table 'codes'\n")


def test_a_file_that_is_not_text_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A binary file is an error about its encoding, without a traceback and without its content."""
    path = tmp_path / "codes.toml"
    path.write_bytes(b"\xffsecret")
    assert main(["catalog", "check", str(path)]) == 2
    assert capsys.readouterr().err == "forbear: a file is not UTF-8: invalid start byte at byte 0\n"


def test_vectors_that_pass_print_only_the_closing_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of vectors that all hold prints nothing but the count, and the exit code is 0."""
    path = tmp_path / "signals.jsonl"
    path.write_text(json.dumps(SIGNAL) + "\n", "utf-8")
    assert main(["vectors", "run", str(path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_the_vectors_of_the_reference_page_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader who copies the page's file of vectors sees what the page says."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text("utf-8")
    block = page.partition("## Vector files")[2].partition("```json\n")[2].partition("```")[0]
    path = tmp_path / "mine.jsonl"
    path.write_text(block, "utf-8")
    assert main(["vectors", "run", str(path)]) == 0
    said = capsys.readouterr().out.strip()
    assert said == "2 passed, 0 failed"
    assert said in page


def test_vectors_that_fail_print_a_line_each_and_exit_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each failing case is one line (id, event, expected, got), the closing line counts cases, the exit code is 1."""
    wrong = SIGNAL | {"id": "S2", "expected": {"recovery": "request_approval", "retry_at": None}}
    path = tmp_path / "signals.jsonl"
    path.write_text("\n".join([json.dumps(SIGNAL), json.dumps(wrong), "not JSON"]), "utf-8")
    assert main(["vectors", "run", str(path)]) == 1
    *failures, closing = capsys.readouterr().out.splitlines()
    assert closing == "1 passed, 2 failed"
    assert [line.split("  ")[0] for line in failures] == ["S2", "signals.jsonl:3"]
    assert "request_approval" in failures[0]


def test_what_a_vector_says_in_vain_is_a_note_beside_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt member fails nothing and is said on the error stream; the report stays as it is."""
    call = {"id": "c1", "tool": "t", "args": {}, "polcy": {"verdict": "deny"}}
    journey = {
        "id": "J1",
        "t0": "2026-01-01T00:00:00Z",
        "tool": {"name": "t", "effect": "read"},
        "events": [{"at": 0, "call": call}],
        "expected": [{"event": 0, "decision": "execute"}],
    }
    path = tmp_path / "journeys.jsonl"
    path.write_text(json.dumps(journey), "utf-8")
    assert main(["vectors", "run", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out == "1 passed, 0 failed\n"
    assert said.err == "note: J1: events[0].call: 'polcy' is no member of the format and was not used\n"


def test_one_line_escapes_what_could_move_the_cursor() -> None:
    """Control, bidirectional and zero-width characters of a file never reach the terminal as such."""
    assert one_line("a\n b\x1b[2J\u202e\u200b") == "a b\\x1b[2J\\u202e\\u200b"
