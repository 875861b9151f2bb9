"""Vendor profiles: each loads, none makes a plain success a failure, and their language rejects what it does not know."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forbear.contract import Http, builtin_catalogue, load_profile, profile_names
from forbear.contract.profiles import read_profile
from forbear.core.vocabulary import Executed, Outcome, Recovery
from forbear.errors import ConfigError

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
JSON = ("Content-Type", "application/json")


def answer(status: int, body: object = "", *headers: tuple[str, str]) -> Http:
    """Return an HTTP answer with a JSON body."""
    return Http(status=status, headers=(JSON, *headers), body=body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize("name", profile_names())
def test_profiles_load_and_name_known_codes(name: str) -> None:
    """Every profile of the package loads, and every code that it says is in the catalogue."""
    profile = load_profile(name)
    assert profile.name == name
    for rule in profile.rules:
        assert rule.code == "" or builtin_catalogue().get(rule.code) is not None


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_ordinary_success_stays_one(judge: Any, name: str, effect: str) -> None:
    """A 200 with ordinary data is a success under every profile, also where the data holds a vendor's error words."""
    body = {
        "ok": True, "success": True, "id": "7", "code": "AccessDenied", "type": "card_error", "errorCode": "x",
        "error": None, "status": "LimitExceededException", "text": "secondary rate limit",
    }  # fmt: skip
    envelope = judge(answer(200, body), effect, profile=load_profile(name))
    assert (envelope.outcome, envelope.recovery) == (Outcome.SUCCESS, None)


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520])
def test_a_broken_write_is_looked_at(judge: Any, name: str, status: int) -> None:
    """No profile turns a failure without a word about execution into a repetition of a write."""
    envelope = judge(answer(status, {"error": "internal"}, ("Retry-After", "5")), "write", profile=load_profile(name))
    assert envelope.recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize("name", profile_names())
def test_a_plain_limit_waits(judge: Any, name: str) -> None:
    """429 with Retry-After waits so long under every profile."""
    envelope = judge(answer(429, "", ("Retry-After", "65")), "write", profile=load_profile(name))
    assert (envelope.recovery, envelope.reset_at) == (Recovery.RETRY_AFTER, NOW + timedelta(seconds=65))
    assert envelope.executed is Executed.NO


CASES: list[tuple[str, str, Http, Recovery | None, float | None]] = [
    # name, effect, answer, recovery, seconds
    ("github", "write", answer(403, {"message": "You have exceeded a secondary rate limit."}), Recovery.RETRY_AFTER, 60),
    ("github", "read", answer(403, "", ("retry-after", "60"), ("x-ratelimit-remaining", "0"),
                              ("x-ratelimit-reset", "1788265800")), Recovery.RETRY_AFTER, 1800),
    ("github", "read", answer(200, {"data": None, "errors": [{"type": "RATE_LIMITED", "message": "x"}]}),
     Recovery.RETRY_AFTER, None),
    ("github", "write", answer(401, "", ("X-GitHub-OTP", "required; app")), Recovery.REQUEST_APPROVAL, None),
    ("github", "write", answer(422, {"errors": [{"code": "already_exists"}]}), Recovery.INSPECT_OUTCOME, None),
    ("openai", "read", answer(429, {"error": {"code": "rate_limit_exceeded"}}, ("x-ratelimit-remaining-requests", "0"),
                              ("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-remaining-tokens", "0"),
                              ("x-ratelimit-reset-tokens", "6m0s")), Recovery.RETRY_AFTER, 360),
    ("openai", "write", answer(500, "", ("x-should-retry", "true")), Recovery.INSPECT_OUTCOME, None),
    ("openai", "read", answer(429, "", ("x-should-retry", "false"), ("Retry-After", "5")), Recovery.DO_NOT_RETRY, None),
    ("azure-openai", "read", answer(429, "", ("x-ratelimit-remaining-tokens", "-1"), ("x-ratelimit-reset-tokens", "0"),
                                    ("retry-after-ms", "2500")), Recovery.RETRY_AFTER, 2.5),
    ("azure-openai", "read", answer(429, "", ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "0")),
     Recovery.RETRY_AFTER, None),
    ("anthropic", "read", answer(529, {"error": {"type": "overloaded_error"}}), Recovery.RETRY_AFTER, None),
    ("anthropic", "write", answer(529, {"error": {"type": "overloaded_error"}}), Recovery.INSPECT_OUTCOME, None),
    ("google", "read", answer(403, {"error": {"errors": [{"reason": "dailyLimitExceeded"}]}}), Recovery.DO_NOT_RETRY, None),
    ("google", "read", answer(403, {"error": {"errors": [{"reason": "rateLimitExceeded"}]}}, ("Retry-After", "9")),
     Recovery.RETRY_AFTER, 9),
    ("google", "read", answer(401, {"error": {"errors": [{"reason": "rateLimitExceeded"}]}}), Recovery.DO_NOT_RETRY, None),
    ("google", "read", answer(500, {"error": {"status": "INTERNAL"}}), Recovery.DO_NOT_RETRY, None),
    ("aws", "write", answer(400, {"__type": "a#Throttling"}, ("x-amz-retry-after", "1500")), Recovery.RETRY_AFTER, 1.5),
    ("aws", "write", answer(400, {"__type": "a#Throttling"}, ("x-amz-retry-after", "1.5")), Recovery.RETRY_AFTER, None),
    ("aws", "write", answer(400, "", ("x-amzn-ErrorType", "ThrottlingException:http://x/")), Recovery.RETRY_AFTER, None),
    ("aws", "write", answer(400, {"__type": "a#ValidationException"}), Recovery.REPAIR_INPUT, None),
    ("aws", "write", answer(400, {"__type": "a#NewThing"}), Recovery.INSPECT_OUTCOME, None),
    ("aws", "read", answer(400, {"__type": "a#NewThing"}), Recovery.DO_NOT_RETRY, None),
    ("aws", "write", answer(500, {"__type": "a#AccessDenied"}), Recovery.INSPECT_OUTCOME, None),
    ("slack", "write", answer(200, {"ok": False, "error": "ratelimited"}, ("Retry-After", "30")), Recovery.RETRY_AFTER, 30),
    ("slack", "write", answer(200, {"ok": False, "error": "fatal_error"}), Recovery.INSPECT_OUTCOME, None),
    ("slack", "read", answer(200, {"ok": False, "error": "fatal_error"}), Recovery.RETRY_AFTER, None),
    ("slack", "read", answer(200, {"ok": False, "error": "new_code"}), Recovery.DO_NOT_RETRY, None),
    ("slack", "write", answer(200, '{"ok":false,"ok":true}'), Recovery.INSPECT_OUTCOME, None),
    ("discord", "write", answer(429, {"retry_after": 64.57}, ("X-RateLimit-Scope", "global")), Recovery.RETRY_AFTER, 64.57),
    ("stripe", "write", answer(409, {"error": {"code": "idempotency_key_in_use"}}), Recovery.INSPECT_OUTCOME, None),
    ("stripe", "write", answer(500, "", ("Idempotent-Replayed", "true")), Recovery.INSPECT_OUTCOME, None),
    ("stripe", "write", answer(402, {"error": {"code": "authentication_required"}}), Recovery.REQUEST_APPROVAL, None),
    ("shopify", "read", answer(200, {
        "errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}],
        "extensions": {"cost": {"requestedQueryCost": 500, "throttleStatus": {
            "maximumAvailable": 1000.0, "currentlyAvailable": 100, "restoreRate": 50.0}}}}), Recovery.RETRY_AFTER, 8),
    ("shopify", "write", answer(200, {"data": {"productCreate": {"product": {"id": 1}, "userErrors": []}}}), None, None),
    ("notion", "write", answer(409, {"code": "conflict_error"}), Recovery.INSPECT_OUTCOME, None),
    ("salesforce", "write", answer(400, [{"errorCode": "UNABLE_TO_LOCK_ROW"}]), Recovery.RETRY_AFTER, None),
    ("salesforce", "read", answer(429, {"retryAfter": 12}), Recovery.RETRY_AFTER, 12),
    ("hubspot", "read", answer(429, {"policyName": "DAILY"}, ("X-HubSpot-RateLimit-Interval-Milliseconds", "10000"),
                               ("X-HubSpot-RateLimit-Remaining", "0")), Recovery.RETRY_AFTER, None),
    ("hubspot", "read", answer(429, {"policyName": "TEN_SECONDLY_ROLLING"}), Recovery.RETRY_AFTER, 10),
    ("zendesk", "read", answer(429, "", ("zendesk-ratelimit-tickets-index", "total=100; remaining=9; resets=52")),
     Recovery.RETRY_AFTER, None),
    ("x", "write", answer(403, {"detail": "duplicate content"}), Recovery.INSPECT_OUTCOME, None),
    ("x", "write", answer(403, {"detail": "Forbidden"}), Recovery.DO_NOT_RETRY, None),
    ("reddit", "write", answer(200, {"json": {"errors": [["NEW", "x", "y"]]}}), Recovery.INSPECT_OUTCOME, None),
    ("linear", "read", answer(400, {"errors": [{"message": "x", "extensions": {"code": "RATELIMITED"}}]},
                              ("X-RateLimit-Requests-Remaining", "0"), ("X-RateLimit-Requests-Reset", "1788264060000")),
     Recovery.RETRY_AFTER, 60),
    ("airtable", "read", answer(429), Recovery.RETRY_AFTER, 30),
    ("airtable", "read", answer(429, "", ("Retry-After", "45")), Recovery.RETRY_AFTER, 45),
    ("telegram", "write", answer(429, {"ok": False, "parameters": {"retry_after": 7}}), Recovery.RETRY_AFTER, 7),
    ("cloudflare", "read", answer(503, "<html>", ("cf-mitigated", "challenge")), Recovery.DO_NOT_RETRY, None),
    ("msgraph", "write", answer(200, {"responses": [{"id": "1", "status": 201}, {"id": "2", "status": 429}]}),
     Recovery.INSPECT_OUTCOME, None),
    ("msgraph", "write", answer(200, {"responses": [{"id": "1", "status": 201}]}), None, None),
    ("msgraph", "write", answer(503, {"error": {"code": "activityLimitReached"}}, ("Retry-After", "10")),
     Recovery.RETRY_AFTER, 10),
    ("binance", "write", answer(418, "", ("Retry-After", "120")), Recovery.RETRY_AFTER, 120),
    ("binance", "write", answer(400, {"code": -2010, "msg": "Account has insufficient balance"}),
     Recovery.DO_NOT_RETRY, None),
    ("alpaca", "write", answer(422, {"message": "client_order_id must be unique"}), Recovery.INSPECT_OUTCOME, None),
    ("alpaca", "write", answer(422, {"message": "qty must be positive"}), Recovery.REPAIR_INPUT, None),
    ("json-api", "read", Http(status=204), None, None),
    ("json-api", "read", Http(status=200, body="5"), None, None),
    ("graphql", "write", answer(200, {"errors": [{"message": "x", "extensions": {"code": "FORBIDDEN"}}]}),
     Recovery.DO_NOT_RETRY, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "effect", "http", "recovery", "seconds"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_conventions(
    judge: Any, name: str, effect: str, http: Http, recovery: Recovery | None, seconds: float | None
) -> None:
    """Each vendor's documented convention gives the class and the time that it stands for."""
    envelope = judge(http, effect, profile=load_profile(name))
    assert envelope.recovery is recovery
    assert envelope.reset_at == (None if seconds is None else NOW + timedelta(seconds=seconds))


def test_a_cost_that_never_fits_is_the_inputs_fault(judge: Any) -> None:
    """A query that costs more than its bucket holds is not waited for."""
    cost = {"requestedQueryCost": 2000, "throttleStatus": {
        "maximumAvailable": 1000.0, "currentlyAvailable": 1000, "restoreRate": 50.0}}  # fmt: skip
    body = {"errors": [{"message": "x", "extensions": {"code": "THROTTLED"}}], "extensions": {"cost": cost}}
    assert judge(answer(200, body), profile=load_profile("shopify")).recovery is Recovery.REPAIR_INPUT


def test_partial_batches_of_a_read_are_usable(judge: Any) -> None:
    """A read batch with one failed member is a partial result."""
    body = {"responses": [{"status": 200}, {"status": 404}]}
    assert judge(answer(200, body), profile=load_profile("msgraph")).outcome is Outcome.PARTIAL


def test_users_load_their_own(tmp_path: Path, judge: Any) -> None:
    """A file of one's own is a profile, and may extend one of the package's."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "json-api"\ncodes_at = ["/reason"]\n'
        '[[rules]]\nstatus = [409]\ncodes = ["busy"]\nrecovery = "retry_after"\ncode = "RATE_LIMITED"\nwait = 3\n'
    )
    mine = load_profile(path)
    assert mine.json
    assert judge(answer(409, {"reason": "busy"}), "write", profile=mine).reset_at == NOW + timedelta(seconds=3)
    assert judge(answer(409, {"reason": "other"}), "write", profile=mine).recovery is Recovery.INSPECT_OUTCOME


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules = 5", "'rules' must be a list"),
        ("rulez = []", "nearest is 'rules'"),
        ("[[rules]]\nstatus = [400]\nrecovery = 'never'", "must be one of"),
        ("[[rules]]\nstatus = [99]\nrecovery = 'retry_after'", "statuses of 100 to 599"),
        ("[[rules]]\nrecovery = 'retry_after'", "something to match"),
        ("[[rules]]\nstatus = [400]", "must say"),
        ("[[rules]]\nstatus = [400]\nrecovery = 'retry_after'\ncode = 'no code'", "UPPER_SNAKE"),
        ("[[rules]]\nstatus = [400]\nrecovery = 'retry_after'\nwait = 'long'", "whole numbers"),
        ("[[rules]]\nstatus = [400]\nrecover = 'retry_after'", "nearest is 'recovery'"),
        ("[times]\ndelays = [{ form = 'seconds' }]", "needs 'header' or 'pointer'"),
        ("[times]\ndelays = [{ header = 'a', form = 'proto' }]", "needs 'header' or 'pointer'"),
        ("[times]\nbuckets = [{ remaining = 'a' }]", "needs 'reset'"),
        ("[times]\nrefill = { cost = '/a' }", "needs cost, available, maximum, rate"),
        ("[times]\nsoon = true", "is not known"),
        ("codes_at = 5", "list of strings"),
        ("extends = 'githu'", "nearest is 'github'"),
        ("= 5", "must be TOML"),
    ],
)
def test_wrong_profiles_are_errors(text: str, message: str) -> None:
    """A profile that says something unknown is an error that names the key and the rule."""
    with pytest.raises(ConfigError, match=message):
        read_profile(text, name="mine")


def test_missing_profiles(tmp_path: Path) -> None:
    """A profile that does not exist is an error with the nearest name."""
    with pytest.raises(ConfigError, match="nearest is 'stripe'"):
        load_profile("stripes")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_profile(tmp_path / "none.toml")
