"""What `make` says while it builds an environment: each package as it comes, and the whole error if there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("pip", "code", "out", "err"),
    [
        (
            "echo Collecting a; echo Downloading; echo Installing collected packages: a",
            0,
            ["a", "installing them all ..."],
            [],
        ),
        ("echo Collecting a; echo ERROR: no such; echo more; exit 1", 2, ["a"], ["ERROR: no such", "more"]),
        ("exit 1", 2, [], []),
    ],
)
def test_an_installation_shows_packages_and_errors(
    pip: str, code: int, out: list[str], err: list[str], tmp_path: Path
) -> None:
    """A line for each package, nothing else of pip's; an error is shown to its end, and fails the target."""
    recipe = f"try:\n\t@{{ sh -c '{pip}' 2>&1 || echo FAILED; }} | awk '$(SHOWN)'\n"
    (tmp_path / "try.mk").write_text(f"include {TOP / 'Makefile'}\n{recipe}", "utf-8")
    done = subprocess.run(
        ["make", "-f", str(tmp_path / "try.mk"), "try"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line.strip() for line in done.stdout.splitlines()]) == (code, out)
    assert [line for line in done.stderr.splitlines() if not line.startswith("make")] == err
