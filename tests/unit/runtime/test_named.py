"""Names in a policy that its tool does not have are errors at the first moment at which the controller can know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forbear import ConfigError, Controller, execute, govern


def place(desk: str, sku: str, reference: str = "") -> str:
    """Place an order."""
    return f"{desk} {sku} {reference}"


@pytest.fixture
def controller() -> Controller:
    """A controller that remembers nothing."""
    return Controller.open(":memory:", worker=False)


WRONG = r"tool 'place': field 'target' names the argument 'dsk', which the tool does not have; nearest is 'desk'"


def test_governing_with_a_misspelt_target_is_an_error(controller: Controller) -> None:
    """`govern` knows the signature: a field that names another argument is refused, and nothing is declared."""
    with pytest.raises(ConfigError, match=WRONG):
        govern(place, controller, effect="write", target="dsk")
    assert not controller.engine.tools.is_declared("place")


@pytest.mark.parametrize(
    "fields",
    [
        {"ignore": ["memo"]},
        {"secret": ["token"]},
        {"required": ["id"]},
        {"approval": [{"rule": "large", "when": {"amount": {"above": 5}}}]},
        {"inspect": {"tool": "find", "arguments": {"reference": "ref"}}},
    ],
)
def test_every_field_that_names_an_argument_is_checked(controller: Controller, fields: dict[str, Any]) -> None:
    """Whatever names an argument of the tool is held against its signature."""
    with pytest.raises(ConfigError, match=rf"tool 'place': field '{next(iter(fields))}"):
        govern(place, controller, effect="write", **fields)


def test_what_was_declared_before_is_checked_when_the_function_is_known(controller: Controller) -> None:
    """A declaration by name is held against the function that is governed, bound or executed under it."""
    controller.declare("place", effect="write", target="dsk")
    with pytest.raises(ConfigError, match=WRONG):
        govern(place, controller)
    with pytest.raises(ConfigError, match=WRONG):
        controller.bind("place", place)
    assert controller.engine.tools.executor("place") is None
    with pytest.raises(ConfigError, match=WRONG):
        execute([], [], [place], controller, run="r1")


def test_what_is_declared_later_is_checked_too(controller: Controller) -> None:
    """A second declaration is held against the function that is known by then; the first one stays."""
    controller.bind("place", place)
    controller.declare("place", effect="write", target="desk")
    with pytest.raises(ConfigError, match=WRONG):
        controller.declare("place", effect="write", target="dsk")
    assert controller.engine.tools.policy("place").target == (("desk", "desk"),)


def test_the_decorator_checks(controller: Controller) -> None:
    """`Controller.tool` knows the function that it declares."""
    with pytest.raises(ConfigError, match=WRONG):
        controller.tool(name="place", effect="write", target="dsk")(place)


def test_a_function_that_takes_anything_is_not_judged(controller: Controller) -> None:
    """Where any keyword is taken, any name may be an argument."""
    govern(lambda **fields: fields, controller, name="any", effect="write", target="whom")


def test_a_policy_file_with_a_wrong_name_says_which_file(controller: Controller, tmp_path: Path) -> None:
    """An error of a policy file names the file, whoever finds it, and nothing of the file is declared."""
    controller.bind("place", place)
    file = tmp_path / "mine.toml"
    file.write_text('[tools.find]\neffect = "read"\n[tools.place]\neffect = "write"\ntarget = "dsk"\n', "utf-8")
    with pytest.raises(ConfigError, match=rf"^policy file 'mine.toml': {WRONG}$"):
        controller.declare_from(file)
    assert not controller.engine.tools.is_declared("find")
    file.write_text('[tools.place]\nefect = "write"\n', "utf-8")
    with pytest.raises(
        ConfigError, match=r"^policy file 'mine.toml': tool 'place': field 'efect' is not known; nearest"
    ):
        controller.declare_from(file)


def test_only_watching_checks_nothing(tmp_path: Path) -> None:
    """In observe mode nothing changes for anybody, also where the policy is wrong."""
    controller = Controller.open(":memory:", worker=False, mode="observe")
    controller.declare("place", effect="write", target="dsk", inspect="nobody")
    assert govern(place, controller, run="r1")("a", "b") == "a b "


def test_a_check_that_nobody_declares_is_an_error_before_the_first_write(controller: Controller) -> None:
    """At the first call of a write all tools are declared: a check that is not is refused before anything runs."""
    ran: list[str] = []
    govern(place, controller, effect="write", inspect="find_ordr")
    controller.declare("find_order", effect="read")
    with pytest.raises(
        ConfigError,
        match=r"tool 'place': field 'inspect' names the tool 'find_ordr', which is not dec.*"
        r"nearest is 'find_order'",
    ):
        controller.call("place", {"desk": "a", "sku": "b"}, run="r1", execute=lambda **_: ran.append("x"))
    assert ran == []
    # The author corrects it, in whichever order.
    controller.declare("find_ordr", effect="read")
    assert controller.call("place", {"desk": "a", "sku": "b"}, run="r1").ok


def test_a_check_must_be_a_read_and_have_the_arguments(controller: Controller) -> None:
    """A check that is no read would never run, and one that lacks the argument would fail: both are errors."""
    inspect = {"tool": "find", "arguments": {"ref": "reference"}}
    controller.declare("place", effect="write", inspect=inspect)
    controller.declare("find")
    with pytest.raises(ConfigError, match="'find', which must be declared effect = 'read'"):
        controller.call("place", {}, run="r1", execute=lambda: 1)
    controller.tool(name="find", effect="read")(lambda reference: [reference])
    with pytest.raises(ConfigError, match="names the argument 'ref', which tool 'find' does not have"):
        controller.call("place", {}, run="r1", execute=lambda: 1)
