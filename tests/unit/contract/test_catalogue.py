"""The catalogue: the controller's codes, texts from allowlisted values, and the files of projects."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forbear.contract import builtin_catalogue, lint_text, load_catalogue
from forbear.contract.catalogue import is_code
from forbear.contract.catalogue_files import Change, check, diff, render
from forbear.contract.findings import CODES, found
from forbear.core.values import Envelope, InvalidField
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import ConfigError

NEEDED = """
OUTCOME_UNKNOWN DUPLICATE_IN_FLIGHT RETRY_EXHAUSTED RETRY_TOO_FAR WAIT_EXCEEDS_LIMIT NO_RESET_GIVEN BUDGET_EXHAUSTED
NO_PROGRESS USER_DENIED POLICY_DENIED APPROVAL_REQUIRED APPROVAL_EXPIRED NO_APPROVER PROMPTS_EXHAUSTED
CHECKER_UNAVAILABLE SUPERSEDED CHANGES_REQUESTED CANCELLED INPUT_INVALID INPUT_TRUNCATED PRECONDITION_OPEN CONFLICT
COULD_NOT_SEARCH RESULT_NOT_KEPT RUN_HALTED WAITING RATE_LIMITED QUOTA_EXHAUSTED TEMPORARY_FAILURE NOT_SENT AUTH_FAILED
ACCESS_DENIED NOT_FOUND VAULT_LOCKED UPSTREAM_REFUSED INTERNAL_ERROR CONTROLLER_BROKEN
""".split()
GOOD = """
version = 1
[codes.DESK_FROZEN_BY_OWNER]
category = "domain"
recovery = "do_not_retry"
behaviour = "Stop and report; the owner unfreezes the desk."
text = "This desk is frozen by its owner."
"""
DEPRECATED = """
[codes.X]
text = 'a'
behaviour = 'b'
recovery = 'do_not_retry'
status = 'deprecated'
"""


@pytest.mark.parametrize("code", NEEDED)
def test_the_controllers_codes_are_there(code: str) -> None:
    """Every code that the controller says has an entry with a text and an expected behaviour."""
    entry = builtin_catalogue().get(code)
    assert entry is not None
    assert entry.text
    assert entry.behaviour
    assert entry.status == "active"


def test_every_class_has_a_code_of_its_own() -> None:
    """The code that stands for a class has that class by default."""
    for recovery, code in CODES.items():
        assert builtin_catalogue().recovery(code) is recovery


def test_the_builtin_file_passes_its_own_check() -> None:
    """`forbear catalog check` finds nothing in the built-in catalogue."""
    with as_file(files("forbear.contract").joinpath("catalogue.toml")) as path:
        assert check(path) == []


def test_texts_name_what_is_known() -> None:
    """A text names limit, time and fields where they are known, and is whole without them."""
    catalogue = builtin_catalogue()
    bare = found(Recovery.RETRY_AFTER, "RATE_LIMITED")
    assert "{" not in catalogue.text("RATE_LIMITED", bare)
    timed = Envelope(
        outcome=Outcome.REFUSED, executed=bare.executed, code="RATE_LIMITED", recovery=Recovery.RETRY_AFTER,
        reset_at=datetime(2026, 9, 6, tzinfo=UTC), limit=25,
    )  # fmt: skip
    assert "2026-09-06T00:00:00Z" in catalogue.text("RATE_LIMITED", timed)
    assert "25" in catalogue.text("QUOTA_EXHAUSTED", timed)
    fields = found(Recovery.REPAIR_INPUT, "INPUT_INVALID", fields=("width", "height"))
    assert "width, height" in catalogue.text("INPUT_INVALID", fields)


def test_a_code_without_an_entry_has_a_text() -> None:
    """An unknown code gets the text of an upstream's refusal, never nothing."""
    assert builtin_catalogue().text("NO_SUCH_CODE", found(Recovery.DO_NOT_RETRY)).strip()


@given(
    name=st.text(max_size=80),
    limit=st.none() | st.integers() | st.floats(),
    code=st.sampled_from(NEEDED),
)
def test_every_text_is_clean_whatever_the_envelope_holds(name: str, limit: float | None, code: str) -> None:
    """No value of an envelope makes a text dirty, long or inviting."""
    envelope = Envelope(
        outcome=Outcome.INVALID, executed=found(Recovery.REPAIR_INPUT).executed, code=code,
        recovery=Recovery.REPAIR_INPUT, invalid_fields=(InvalidField(name=name),), limit=limit,
        reset_at=datetime(2026, 9, 6, tzinfo=UTC),
    )  # fmt: skip
    assert lint_text(builtin_catalogue().text(code, envelope)) == []


@pytest.mark.parametrize(
    ("code", "valid"),
    [("A", True), ("RATE_LIMITED", True), ("E0000047", True), ("A1_2", True), ("rate", False), ("A__B", False), ("_A", False),
     ("A_", False), ("1A", False), ("A B", False), ("Ä", False), ("A" * 64, False), ("A\n", False), (5, False), (None, False)],
    ids=repr,
)  # fmt: skip
def test_the_form_of_a_code(code: object, *, valid: bool) -> None:
    """A code is UPPER_SNAKE, bounded, ASCII."""
    assert is_code(code) is valid


def file(folder: Path, text: str, name: str = "codes.toml") -> Path:
    """Return a written file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_projects_add_codes(tmp_path: Path) -> None:
    """A project's file adds codes beside the built-in ones."""
    catalogue = load_catalogue(file(tmp_path, GOOD))
    assert catalogue.recovery("DESK_FROZEN_BY_OWNER") is Recovery.DO_NOT_RETRY
    assert catalogue.get("RATE_LIMITED") is not None
    assert builtin_catalogue().get("DESK_FROZEN_BY_OWNER") is None
    assert check(file(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[codes.RATE_LIMITED]\ntext = 'x'", "already taken"),
        ("[codes.X]\ntext = 'Try again.'", "invites"),
        ("[codes.X]\ntext = 'a {secret} b'", "placeholder"),
        ("[codes.X]\ntext = 'a'\nrecovery = 'never'", "must be one of"),
        ("[codes.X]\ntext = 'a'\noutcome = 'meh'", "must be one of"),
        ("[codes.X]\ntext = 5", "must be a string"),
        ("[codes.X]\ntext = 'a'\nhint = 'b'", "not a key"),
        ("[codes.X]\ntext = 'a'\ndetails = 'b'", "list of strings"),
        ("[codes.x_y]\ntext = 'a'", "UPPER_SNAKE"),
        ("codes = 5", "table 'codes'"),
        ("[codes]\nX = 5", "must be a table"),
        ("codes", "must be TOML"),
    ],
)
def test_wrong_files_are_not_loaded(tmp_path: Path, text: str, message: str) -> None:
    """A file that would reach a model in a wrong form is an error that names code and rule."""
    with pytest.raises(ConfigError, match=message):
        load_catalogue(file(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("not toml", "form"),
        ("version = 1", "form"),
        ("extra = 1\n" + GOOD, "form"),
        ("[codes.x]\ntext = 'a'", "form"),
        ("[codes.FAILED]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "name"),
        ("[codes.LIMIT_25_REACHED]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "name"),
        ("[codes.SQL_POLICY_FAILED]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "name"),
        ("[codes.X]\ntext = 'Try again.'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "text"),
        ("[codes.X]\ntext = 'a'\ndetails = ['{when}']\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "text"),
        ("[codes.X]\ntext = 'Limit {limit}.'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "text"),
        ("[codes.X]\ntext = 'a'\nrecovery = 'do_not_retry'", "behaviour"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'", "recovery"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'\nstatus = 'old'", "status"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'\ncategory = 'odd'", "category"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'\nowner = 'controller'", "owner"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'\nstatus = 'deprecated'", "life cycle"),
        ("[codes.X]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'\nreplacement = 'RATE_LIMITED'", "life cycle"),
        (DEPRECATED + "replacement = 'X'\nremoval_date = '2027-01-31'", "life cycle"),
        (DEPRECATED + "replacement = 'RATE_LIMITED'\nremoval_date = 'soon'", "life cycle"),
        ("[codes.RATE_LIMITED]\ntext = 'a'\nbehaviour = 'b'\nrecovery = 'do_not_retry'", "reuse"),
        (DEPRECATED + DEPRECATED.replace("codes.X", "codes.Y"), "text"),
    ],
)  # fmt: skip
def test_check_finds(tmp_path: Path, text: str, rule: str) -> None:
    """`check` names each broken rule, and does not stop at the first file error."""
    assert rule in {finding.rule for finding in check(file(tmp_path, text))}


def test_render(tmp_path: Path) -> None:
    """`render` gives one row per code, by category, with the life cycle."""
    table = render()
    assert all(f"| `{code}` |" in table for code in NEEDED)
    assert table == render()
    deprecated = GOOD + "status = 'deprecated'\nreplacement = 'ACCESS_DENIED'\nremoval_date = 2027-01-31\n"
    assert "deprecated, until 2027-01-31, use `ACCESS_DENIED`" in render(file(tmp_path, deprecated))


def test_diff(tmp_path: Path) -> None:
    """`diff` says which change breaks clients: a class, an outcome, an owner, or a removal without notice."""
    old = file(tmp_path, GOOD, "old.toml")

    def against(text: str) -> list[Change]:
        return diff(old, file(tmp_path, text, "new.toml"))

    def of(text: str) -> list[tuple[str, bool]]:
        return [(change.kind, change.breaking) for change in against(text)]

    assert of(GOOD) == []
    assert of(GOOD.replace("frozen by", "closed by")) == [("text", False)]
    assert of(GOOD.replace("do_not_retry", "retry_after")) == [("recovery", True)]
    assert of(GOOD.replace('category = "domain"', 'category = "access"')) == [("category", True)]
    assert of("[codes.NEW_CODE]\ntext = 'a'") == [("removed", True), ("added", False)]
    assert of(GOOD + 'status = "deprecated"\n') == [("status", False)]
    announced = file(tmp_path, GOOD + 'status = "deprecated"\n', "old.toml")
    assert [(c.kind, c.breaking) for c in diff(announced, file(tmp_path, "[codes.A]\ntext = 'a'", "new.toml"))] == [
        ("added", False), ("removed", False),
    ]  # fmt: skip
    assert {change.kind for change in diff(None, announced)} == {"added", "removed"}


@pytest.mark.parametrize("recovery", list(Recovery))
@pytest.mark.parametrize("code", sorted(builtin_catalogue().entries))
def test_a_text_promises_only_what_its_class_does(code: str, recovery: Recovery) -> None:
    """Whatever class a code comes with, its text speaks of what the controller does only if that class does it."""
    catalogue = builtin_catalogue()
    text = catalogue.text(code, Envelope(outcome=Outcome.REFUSED, executed=Executed.NO, code=code, recovery=recovery))
    assert "controller" not in text.lower() or recovery in (catalogue.recovery(code), Recovery.RETRY_AFTER)
