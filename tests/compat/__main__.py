"""Try `govern` in the tool builders of sixteen libraries, each in an environment of its own, and write the table.

    python -m tests.compat                 all of them
    python -m tests.compat LangChain agno  these; the table is not written

`UV` names the uv program, `PYTHON` the Python that environments are built with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.compat.builders import LIBRARIES, case_id

TOP = Path(__file__).parents[2]
FOLDER = TOP / ".venv-frameworks"
PAGE = TOP / "docs" / "reference" / "compat.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
TESTS = {
    "test_the_schema_is_that_of_the_function": "schema",
    "test_an_allowed_call_runs_and_gives_its_value": "value",
    "test_a_refusal_is_told_and_stays": "refusal",
    "test_no_text_of_an_exception_reaches_the_model": "no leak",
    "test_the_run_of_the_context_reaches_the_tool": "`in_run`",
    "test_a_parameter_that_the_library_fills_is_no_part_of_the_call": "context",
    "test_objects_of_clients_give_messages_that_clients_take": "`execute`",
}
NEEDED = ("pytest>=9.1", "pytest-asyncio>=1.3")


@dataclass(frozen=True, slots=True)
class Row:
    """What was found out about one library."""

    name: str
    version: str
    # Column -> words such as "sync async"; a failure is said there.
    cells: dict[str, str]
    failed: bool
    output: str


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of this project's environments."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    # Libraries that report to their makers are asked not to.
    clean |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "HAYSTACK_TELEMETRY_ENABLED": "False",
              "AGNO_TELEMETRY": "false", "ANONYMIZED_TELEMETRY": "false"}  # fmt: skip
    return subprocess.run(command, cwd=TOP, env=clean, capture_output=True, text=True, check=False)


def try_one(name: str) -> Row:
    """Build the environment of one library, run the tests in it, and return what came out."""
    library = LIBRARIES[name]
    uv = os.environ.get("UV", "uv")
    slug = name.lower().replace(" ", "-")
    place = FOLDER / slug
    python = place / "bin" / "python"
    if not python.exists():
        made = run(uv, "venv", "--quiet", "--python", os.environ.get("PYTHON", sys.executable), place)
        if made.returncode:
            return Row(name, "-", {}, True, made.stderr)
    installed = run(uv, "pip", "install", "--quiet", "--python", python, "--editable", ".", *NEEDED, library.package)
    if installed.returncode:
        return Row(name, "-", {}, True, installed.stderr)
    listed = json.loads(run(uv, "pip", "list", "--format", "json", "--python", python).stdout)
    version = next(one["version"] for one in listed if one["name"] == library.package)
    report = place / "report.xml"
    ran = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", case_id(name),
        f"--junitxml={report}", "tests/compat",
    )  # fmt: skip
    return _read(name, version, report, ran)


def _read(name: str, version: str, report: Path, ran: subprocess.CompletedProcess[str]) -> Row:
    cells: dict[str, list[str]] = {column: [] for column in TESTS.values()}
    failed = ran.returncode != 0
    if report.exists():
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - the report that pytest just wrote
            test, _, parameters = case.attrib["name"].partition("[")
            if test not in TESTS:
                continue
            kind = parameters.rstrip("]").partition("-")[2]
            wrong = case.find("failure") is not None or case.find("error") is not None
            lost = test.endswith("reaches_the_tool") and kind in LIBRARIES[name].loses_context
            word = "yes" if TESTS[test] == "context" else kind
            cells[TESTS[test]].append(f"{word} FAILED" if wrong else f"not {word}" if lost else word)
    return Row(
        name, version, {column: " ".join(kinds) for column, kinds in cells.items()}, failed, ran.stdout + ran.stderr
    )


def table(rows: list[Row]) -> str:
    """Return the rows in Markdown."""
    lines = ["| library | version | " + " | ".join(TESTS.values()) + " |", "|---|---|" + "---|" * len(TESTS)]
    for row in rows:
        cells = " | ".join(row.cells.get(column) or "-" for column in TESTS.values())
        lines.append(f"| {row.name} | {row.version} | {cells} |")
    return "\n".join(lines)


def main(chosen: list[str]) -> int:
    """Try the chosen libraries, two at a time, and say after each how it went."""
    known = {name.lower(): name for name in LIBRARIES}
    names = [known[one.lower()] for one in chosen] if chosen else list(LIBRARIES)
    rows: dict[str, Row] = {}
    with ThreadPoolExecutor(max_workers=2) as pool:
        for done, row in enumerate(pool.map(try_one, names), 1):
            rows[row.name] = row
            print(f"[{done}/{len(names)}] {row.name} {row.version}: {'FAILED' if row.failed else 'ok'}", flush=True)
            if row.failed:
                print("\n".join(row.output.splitlines()[-60:]), flush=True)
    text = table([rows[name] for name in names])
    print(text)
    if not chosen:
        page = PAGE.read_text("utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")
    return int(any(row.failed for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
