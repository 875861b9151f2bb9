"""`forbear doctor` as a command: what it reads, prints, writes and refuses. Guesses are tested beside it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from forbear.cli import main
from forbear.contract import policies_from_toml

MODULE = """
import tenacity
from forbear import Controller

ran = []

def get_order(order_id: str): ran.append("get"); return 1

@tenacity.retry
def cancel_order(order_id: str): ran.append("cancel")

def run_command(command: str): ran.append("run")

tools = [get_order, cancel_order, run_command]
controller = Controller.open(":memory:", worker=False)
controller.declare("compile", effect="read", error_text="shown")
controller.declare("pay", effect="write", approval="always", inspect={"tool": "find"}, target="to")
nothing = 7
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "doctored_desk", raising=False)
    (tmp_path / "doctored_desk.py").write_text(MODULE, "utf-8")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `forbear doctor --json`."""
    code = main(["doctor", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_functions_are_read_and_never_called(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Importing is all that happens: no tool runs, and the output says so."""
    code, said = told(capsys, "doctored_desk:tools")
    assert code == 1
    assert said["done"] == "doctored_desk was imported, which ran its top-level code. No tool was called."
    assert sys.modules["doctored_desk"].ran == []
    assert [one["name"] for one in said["tools"]] == ["get_order", "cancel_order", "run_command"]
    concerns = {(one["concern"], one["where"]) for one in said["findings"]}
    assert ("retry_inside", "cancel_order") in concerns
    assert ("no_inspection", "cancel_order") in concerns
    assert ("free_text", "run_command") in concerns
    assert ("not_governed", "all tools") in concerns
    points = {one["number"]: one["holds"] for one in said["checklist"]}
    assert points[6] == "no"
    assert points[1] == points[10] == "cannot be seen"


def test_a_controller_answers_the_questions(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is declared is answered from the policy, what is not says so, and shown error text is a risk."""
    code, said = told(capsys, "doctored_desk:controller")
    assert code == 1
    tools = {one["name"]: one["answers"] for one in said["tools"]}
    assert tools["compile"]["later"].startswith("yes, after a temporary failure")
    assert "error_text" in tools["compile"]["disclosed"]
    assert tools["pay"]["agent"].startswith("no, a person decides")
    assert tools["pay"]["changed"] == "not declared"
    assert {(one["concern"], one["where"]) for one in said["findings"]} == {
        ("error_text", "compile"),
        ("retry_inside", "doctored_desk.py:10"),
        ("unknown_name", "pay"),  # its check is not declared
    }
    points = {one["number"]: one["holds"] for one in said["checklist"]}
    assert points[1] == points[3] == points[7] == "yes"
    assert points[8] == points[9] == "no"


def test_one_function_alone_without_a_risk_exits_with_0(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A read with nothing wrong about it is no risk."""
    (desk / "doctored_desk.py").write_text("def get_order(order_id: str): ...\n", "utf-8")
    assert main(["doctor", "doctored_desk:get_order"]) == 0
    out = capsys.readouterr().out
    assert "0 risks" in out
    assert "[tools.get_order]" in out


def test_write_makes_a_new_file_and_never_an_old_one(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The proposal can be loaded as it is; a file that exists is the author's."""
    assert main(["doctor", "doctored_desk:tools", "--write", "policy.toml"]) == 1
    assert set(policies_from_toml(desk / "policy.toml")) == {"get_order", "cancel_order", "run_command"}
    assert main(["doctor", "doctored_desk:tools", "--write", "policy.toml"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_declared_policy_is_taken_from_a_file(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--policy` answers the questions of tools whose object says nothing, and leaves them out of the proposal."""
    (desk / "mine.toml").write_text('[tools.get_order]\neffect = "read"\nrequired = ["order_id"]\n', "utf-8")
    _, said = told(capsys, "doctored_desk:tools", "--policy", "mine.toml")
    tools = {one["name"]: one for one in said["tools"]}
    assert tools["get_order"]["answers"]["changed"] == "yes: order_id"
    assert tools["get_order"]["declared"] is True
    assert "get_order]" not in str(said["policy"])


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("doctored_desk", "MODULE:OBJECT"),
        ("doctored_desk:gone", "has no 'gone'"),
        ("doctored_desk:nothing", "is no function"),
        ("no_such_module_at_all:x", "no module"),
        ("mcp:", "mcp:COMMAND"),
        ("mcp:/no/such/command", "cannot start"),
        ("mcp:'open", "open quote"),
        ("gone.json", "no file"),
        ("broken.json", "not JSON"),
        ("other.json", "ListToolsResult"),
        ("raising:x", "raised ZeroDivisionError"),
    ],
)
def test_misuse_is_one_line(desk: Path, target: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is exit code 2 and one line that names it."""
    (desk / "broken.json").write_text("{", "utf-8")
    (desk / "other.json").write_text("{}", "utf-8")
    (desk / "raising.py").write_text("x = 1 / 0\n", "utf-8")
    assert main(["doctor", target]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert named in line


HOSTILE = """
class Proxy:
    def __getattr__(self, name): raise RuntimeError("aPlantedSecret0042")

def charge(amount: int): return 1

proxy = Proxy()
listed = [charge, proxy]
named = {"pay": charge, "refund": charge}
"""


@pytest.mark.parametrize("target", ["proxy", "listed", "proxy.inner"])
def test_an_object_that_raises_is_one_line(desk: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What an object raises that is only looked at is no traceback, and its text is not shown."""
    (desk / "hostile_desk.py").write_text(HOSTILE, "utf-8")
    assert main(["doctor", f"hostile_desk:{target}"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "raised RuntimeError" in said.err
    assert "Planted" not in said.out + said.err


@pytest.mark.parametrize(
    "leaves", ["raise SystemExit('aPlantedSecret0042')", "raise ImportError('aPlantedSecret0042')"]
)
def test_a_module_that_leaves_is_one_line(desk: Path, leaves: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that exits while it is imported does not end the command with its own text."""
    name = f"leaving_desk_{len(leaves)}"
    (desk / f"{name}.py").write_text(leaves, "utf-8")
    assert main(["doctor", f"{name}:tools"]) == 2
    said = capsys.readouterr()
    assert "importing" in said.err
    assert "Planted" not in said.out + said.err


def test_functions_have_the_names_that_a_mapping_gives_them(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a model calls is the key of the mapping, so the proposed policy is about it."""
    (desk / "hostile_desk.py").write_text(HOSTILE, "utf-8")
    _, found = told(capsys, "hostile_desk:named")
    assert [tool["name"] for tool in found["tools"]] == ["pay", "refund"]


def test_a_list_of_tools_in_a_file(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ListToolsResult as JSON is read like the answer of a server."""
    tools = [{"name": "send_mail", "inputSchema": {"properties": {"to": {}}}, "annotations": {"readOnlyHint": True}}]
    (desk / "tools.json").write_text(json.dumps({"tools": tools}), "utf-8")
    _, said = told(capsys, "tools.json")
    (one,) = said["tools"]
    assert (one["name"], one["effect"]) == ("send_mail", "write")


def test_describe_prints_a_description(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`forbear describe FILE TOOL` prints the description of that tool, and an unknown tool is misuse."""
    (desk / "mine.toml").write_text('[tools.get_order]\neffect = "read"\n', "utf-8")
    assert main(["describe", "mine.toml", "get_order", "--description", "Looks."]) == 0
    assert capsys.readouterr().out.startswith("Looks. A refusal is final")
    assert main(["describe", "mine.toml", "gone"]) == 2
    assert main(["describe", "mine.toml", "get_oder"]) == 2
    assert "nearest is 'get_order'" in capsys.readouterr().err


def test_a_server_that_ends_or_is_silent_is_one_line(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that is no MCP server is named as such and does not hang the doctor."""
    assert main(["doctor", f"mcp:{sys.executable} -c pass"]) == 2
    assert "ended" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_every_line_fits(
    width: int, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are broken between words at the terminal's width; in a file each stays one line, and says the same."""
    main(["doctor", "doctored_desk:tools", "--write", "policy.toml"])
    in_a_file = capsys.readouterr().out
    assert max(map(len, in_a_file.splitlines())) > 80
    (desk / "policy.toml").unlink()
    for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    main(["doctor", "doctored_desk:tools", "--write", "policy.toml"])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.split() == in_a_file.split()
