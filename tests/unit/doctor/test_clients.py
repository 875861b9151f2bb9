"""Clients and decorators that repeat requests are found in sources, with the line to change. Nothing is run."""

from __future__ import annotations

import ast

import pytest

from forbear.doctor.clients import CLIENTS, Module, findings_in


def found(source: str) -> list[tuple[str, str, str]]:
    """Return place, weight and change of each finding."""
    module = Module("desk", "desk.py", ast.parse(source))
    return [(one.where, str(one.weight), one.change) for one in findings_in([module])]


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("import openai\nc = openai.OpenAI()", "max_retries=0"),
        ("from openai import AsyncOpenAI as A\nc = A(max_retries=3)", "max_retries=0"),
        ("import boto3\nc = boto3.client('s3')", 'config=Config(retries={"total_max_attempts": 1})'),
        ("from azure.storage.blob import BlobServiceClient\nc = BlobServiceClient(u)", "retry_total=0"),
        ("from slack_sdk import WebClient\nc = WebClient()", "retry_handlers=[]"),
        ("import redis\nc = redis.Redis()", "retry=Retry(NoBackoff(), 0)"),
        ("import urllib3\nc = urllib3.PoolManager()", "retries=False"),
        ("import httpx\nc = httpx.HTTPTransport(retries=2)", "retries=0"),
        ("import tenacity\n@tenacity.retry\ndef f(): ...", "take it off; the controller retries where that is safe"),
    ],
)
def test_a_client_that_repeats_is_a_risk_at_its_line(source: str, change: str) -> None:
    """The line that makes a repeating client is named with the switch that ends it."""
    ((where, weight, said),) = found(source)
    assert (weight, said) == ("risk", change)
    assert where.startswith("desk.py:")
    assert int(where.partition(":")[2]) >= 2


@pytest.mark.parametrize(
    "source",
    [
        "import openai\nc = openai.OpenAI(max_retries=0)",
        "import boto3, botocore\nc = boto3.client('s3', config=botocore.Config(retries={'total_max_attempts': 1}))",
        "from slack_sdk import WebClient\nc = WebClient(retry_handlers=[])",
        "import redis\nfrom redis.retry import Retry\nc = redis.Redis(retry=Retry(b, 0))",
        "import httpx\nc = httpx.Client()",
        "import requests\nrequests.get('x')",
        "class OpenAI: ...\nc = OpenAI()",
        "import json\njson.dumps(1, **{})",
        "import httpx\nc = httpx.Client(**options)",
        "from tenacity import retry\nfrom forbear_adapters.tenacity import recovery\n@retry(**recovery())\ndef f(): ...",
    ],
)
def test_a_quiet_client_is_no_risk(source: str) -> None:
    """A client whose switch is set, one that makes one attempt by default, and a namesake are left alone."""
    assert [weight for _, weight, _ in found(source) if weight == "risk"] == []


def test_a_decorator_of_recovery_is_a_note_and_one_with_more_in_it_a_risk() -> None:
    """What the documentation recommends is told where a controller would do it; a part of tenacity's own makes it a retry."""
    head = "from tenacity import retry, stop_never\nfrom forbear_adapters.tenacity import recovery\n"
    own = found(f"{head}@retry(**recovery(effect='write'))\ndef pay(): ...")
    assert [(where, weight) for where, weight, _ in own] == [("desk.py:4", "note")]
    mixed = found(f"{head}@retry(**recovery() | {{'stop': stop_never}})\ndef pay(): ...")
    assert [(where, weight) for where, weight, _ in mixed] == [("desk.py:4", "risk")]


def test_an_import_alone_is_a_note() -> None:
    """Where a client is imported and made elsewhere, its switch is named and nothing is claimed."""
    assert found("import anthropic\n") == [("desk.py:1", "note", "max_retries=0")]


def test_every_client_of_the_measured_table_is_known() -> None:
    """The clients that were measured to repeat requests are all in the table."""
    assert set(CLIENTS) >= {"openai", "anthropic", "botocore", "azure", "slack_sdk", "pyairtable", "redis", "urllib3"}
