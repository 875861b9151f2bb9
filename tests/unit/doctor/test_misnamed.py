"""Names in policies that nobody has: what is found, how it is said, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from forbear import Controller
from forbear.contract import policies_from_toml
from forbear.doctor import Concern, Finding, Found, FoundTool, Weight, diagnose
from forbear.doctor.sources import found_on


def place_order(desk: str, sku: str, reference: str, memo: str = "") -> str:
    """Place an order."""
    return f"{desk}{sku}{reference}{memo}"


def find_order(reference: str) -> list[str]:
    """Find orders."""
    return [reference]


def anything(**fields: object) -> int:
    """Take whatever comes."""
    return len(fields)


def findings(policy: str, *tools: object) -> list[Finding]:
    """Return what is said about names that a policy file in TOML has wrong, for these tools."""
    found = found_on(list(tools or (place_order, find_order)), name="tools", known=())
    said = diagnose(found, done="", policies=policies_from_toml(policy)).findings
    return [one for one in said if one.concern is Concern.UNKNOWN_NAME]


RIGHT = """
[tools.find_order]
effect = "read"
[tools.place_order]
effect = "write"
target = "desk"
ignore = ["memo"]
required = ["sku"]
secret = ["reference"]
approval = [{ rule = "large", when = { sku = { equals = "x" } }, then = "ask" }]
inspect = { tool = "find_order", arguments = { reference = "reference" }, applied_if = { field = "ref", equals = "sku" } }
status_rules = [{ status = 409, outcome = "already_satisfied", only_if_equal = ["sku"] }]
text_rules = [{ prefix = "bad", recovery = "repair_input", fields = ["sku"] }]
"""


def test_a_policy_without_a_slip_is_left_alone() -> None:
    """Names that are there are no finding, in any field."""
    assert findings(RIGHT) == []


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ('target = "desk"', 'target = "dsk"', "field 'target' names the argument 'dsk', which the tool does not have"),
        ('ignore = ["memo"]', 'ignore = ["mmo"]', "field 'ignore' names the argument 'mmo'"),
        ('required = ["sku"]', 'required = ["skuu"]', "field 'required' names the argument 'skuu'"),
        ('secret = ["reference"]', 'secret = ["refrence"]', "field 'secret' names the argument 'refrence'"),
        ("when = { sku =", "when = { skv =", "field 'approval (rule large)' names the argument 'skv'"),
        ("when = { sku =", 'when = { "/skv/deep" =', "field 'approval (rule large)' names the argument 'skv'"),
        ('tool = "find_order"', 'tool = "find_ordr"', "field 'inspect' names the tool 'find_ordr', which is not known"),
        ("{ reference = ", "{ refrence = ", "names the argument 'refrence', which find_order does not have"),
        ('= "reference" }', '= "refrence" }', "field 'inspect' names the argument 'refrence'"),
        ('equals = "sku" } }\nstatus', 'equals = "sky" } }\nstatus', "field 'inspect' names the argument 'sky'"),
        ('only_if_equal = ["sku"]', 'only_if_equal = ["sky"]', "field 'status_rules' names the argument 'sky'"),
        ('fields = ["sku"]', 'fields = ["sky"]', "field 'text_rules' names the argument 'sky'"),
    ],
)
def test_a_misspelt_name_is_a_risk_with_the_nearest_one(right: str, wrong: str, says: str) -> None:
    """Each field that names an argument or a tool says which name is not there, and the nearest that is."""
    assert right in RIGHT
    (found,) = findings(RIGHT.replace(right, wrong))
    assert found.weight is Weight.RISK
    assert found.where == "place_order"
    assert says in found.message
    assert "; nearest is " in found.message


@pytest.mark.parametrize("field", ["alternatives", "preconditions"])
def test_a_tool_that_is_offered_must_be_there(field: str) -> None:
    """An alternative or a precondition that nobody has is a risk."""
    (found,) = findings(f'[tools.place_order]\n{field} = ["find_ordr"]')
    assert found.message == f"field '{field}' names the tool 'find_ordr', which is not known; nearest is 'find_order'"


def test_a_misspelt_table_is_a_risk_and_another_graphs_tool_is_a_note() -> None:
    """A declared tool that was not found is a slip where an undeclared one has nearly its name, else it is elsewhere."""
    (slip,) = findings('[tools.place_ordr]\neffect = "write"')
    assert (slip.weight, slip.where) == (Weight.RISK, "place_ordr")
    assert slip.change == "nearest is 'place_order', which is not declared"
    (elsewhere,) = findings('[tools.send_mail]\neffect = "write"')
    assert elsewhere.weight is Weight.NOTE


def test_an_idempotency_key_that_a_wrapper_takes_is_no_finding() -> None:
    """A key's argument may never reach the tool; only one that is nearly an argument is a slip."""
    assert findings('[tools.place_order]\neffect = "write"\nidempotency_key = "key"') == []
    (found,) = findings('[tools.place_order]\neffect = "write"\nidempotency_key = "referense"')
    assert "nearest is 'reference'" in found.message


def test_a_tool_that_takes_anything_has_every_argument() -> None:
    """Where a function takes any keyword, or a schema is open, no name is wrong."""
    assert findings('[tools.anything]\ntarget = "whatever"', anything) == []


@pytest.mark.parametrize("schema", [None, {}, {"properties": {"a": {}}, "additionalProperties": True}])
def test_a_schema_that_cannot_be_seen_proves_nothing(schema: Mapping[str, object] | None) -> None:
    """Without a closed list of arguments no name is said to be wrong."""
    found = Found(tools=(FoundTool(name="pay", kind="MCP tool", input_schema=schema),))
    said = diagnose(found, done="", policies=policies_from_toml('[tools.pay]\ntarget = "whom"')).findings
    assert not [one for one in said if one.concern is Concern.UNKNOWN_NAME]


def test_a_controller_is_not_judged_by_its_own_declarations() -> None:
    """What a controller only knows from a policy proves no other field of that policy wrong; a real signature does."""
    with Controller.open(":memory:", worker=False) as controller:
        controller.declare("pay", effect="write", target="to", required=["to"], ignore=["memo"])
        found = found_on(controller, name="controller", known=())
        assert not [one for one in diagnose(found, done="").findings if one.concern is Concern.UNKNOWN_NAME]
