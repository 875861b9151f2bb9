"""What others said is kept for operators, bounded and without direct secrets, and it goes nowhere else."""

from __future__ import annotations

import asyncio
import json
import stat
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import forbear
from forbear.audit.evidence import EvidenceStore, digest_of, evidence_path, scope_of
from forbear.audit.files import entries, of_request, verify_file
from forbear.audit.record import MAX_BODY, MAX_TEXT
from forbear.audit.redact import Scrub, destination_of, header_fields, secret_values, template_of
from forbear.contract import Grpc, Http, Mcp, McpError, Process, Raised, RaisedFacts, Step, current_trail
from forbear.errors import ConfigError, Refused, StoreError, UsageError
from forbear.ports import Commit, Row
from forbear.runtime.controller import Controller
from forbear.runtime.operator import Operator
from forbear.runtime.reply import Reply
from forbear.store.sqlite import open_sqlite
from forbear.testing.clock import ManualClock, SequenceIds

SECRET = 'sk_live_51-Zq/+9é"x'


class Upstream(Exception):
    """What a client library raises."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of the store."""
    return tmp_path / "forbear.db"


@pytest.fixture
def desk(path: Path) -> Iterator[Controller]:
    """Open a controller on the store."""
    clock = ManualClock()
    controller = Controller.open(path, clock=clock, ids=SequenceIds(), worker=False)
    yield controller
    controller.close()


def fail_with(error: BaseException) -> Callable[..., object]:
    """Return a tool that raises."""

    def run(**_arguments: object) -> object:
        raise error

    return run


def pieces(path: Path) -> list[dict[str, Any]]:
    """Return all evidence that lines refer to."""
    return [entry.evidence for entry in entries(path) if entry.evidence is not None]


def call(
    desk: Controller, tool: str, arguments: dict[str, object], execute: Callable[..., object], **more: Any
) -> Reply:
    """Make one call of one run."""
    return desk.call(tool, arguments, run="r", step=f"s{len(arguments)}", execute=execute, wait=False, **more)


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_an_exception_is_kept_with_its_causes_and_notes(desk: Controller, path: Path) -> None:
    """An operator sees class, text, notes and causes of what a tool raised, under the request id of the answer."""
    desk.declare("charge", effect="write")
    error = Upstream("host db-7 refused")
    error.add_note("while charging")
    error.__cause__ = ExceptionGroup("both", [ConnectionResetError("reset by peer"), OSError("second")])
    reply = call(desk, "charge", {"n": 1}, fail_with(error))
    found, loose = of_request(path, reply.envelope.request_id)
    assert loose == []
    [piece] = pieces(path)
    assert [entry.evidence for entry in found if entry.evidence is not None] == [piece]
    assert piece["request_id"] == reply.envelope.request_id
    shown = [(one["class"].rpartition(".")[2], one.get("via", ""), one["text"]) for one in piece["exceptions"]]
    assert shown == [
        ("Upstream", "", "host db-7 refused"),
        ("ExceptionGroup", "cause", "both (2 sub-exceptions)"),
        ("ConnectionResetError", "member", "reset by peer"),
        ("OSError", "member", "second"),
    ]
    assert piece["exceptions"][0]["notes"] == ["while charging"]
    assert (piece["tool"], piece["run"], piece["principal"], piece["attempt"]) == ("charge", "r", "r", 1)


def test_an_answer_is_kept_with_safe_header_fields_in_clear(desk: Controller, path: Path) -> None:
    """Of header fields that are not on the list only name and length stay; the body stays, bounded."""
    desk.declare("find", effect="read", trust="remote")
    headers = (
        ("Retry-After", "30"),
        ("X-RateLimit-Remaining", "0"),
        ("Set-Cookie", "sid=abc"),
        ("X-Internal", "node-9"),
    )
    call(desk, "find", {"n": 1}, lambda n: Http(status=429, headers=headers, body="b" * (MAX_BODY + 10), method="GET"))
    [piece] = pieces(path)
    assert piece["response"]["status"] == 429
    assert piece["response"]["headers"] == [
        {"name": "Retry-After", "value": "30"},
        {"name": "X-RateLimit-Remaining", "value": "0"},
        {"name": "Set-Cookie", "length": 7},
        {"name": "X-Internal", "length": 6},
    ]
    assert piece["response"]["body"] == {"text": "b" * MAX_BODY, "length": MAX_BODY + 10, "cut": True}


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ({"ok": False, "error": {"code": "DESK_FROZEN", "recovery": "do_not_retry"}}, None, '"DESK_FROZEN"'),
        (Mcp(is_error=True, content=({"type": "text", "text": "row is locked"},)), None, "row is locked"),
        (McpError(code=-32603, data={"why": "kernel panic"}), -32603, "kernel panic"),
        (Grpc(code="UNAVAILABLE", details=({"reason": "drained"},)), "UNAVAILABLE", "drained"),
        (RaisedFacts(names=("httpx.ReadTimeout",), status=503, body=b"\xff gone"), 503, "gone"),
        (Raised(Upstream("raised by hand")), None, ""),
        (Http(status=500, body={"set": {1}}), 500, "<set>"),
        (Process(exit_status=2, output="disk full"), "exit 2", "disk full"),
        (Process(signal=9), "signal 9", ""),
        (Process(started=False), "not started", ""),
        (Process(timed_out=True), "timed out", ""),
    ],
    ids="contract mcp mcp-error grpc facts raised object exit signal start time".split(),
)
def test_every_kind_of_answer_leaves_evidence(
    desk: Controller, path: Path, answer: object, status: object, text: str
) -> None:
    """Whatever an adapter hands over, what it was is there for an operator."""
    desk.declare("find", effect="read")
    call(desk, "find", {"n": 1}, lambda n: answer)
    [piece] = pieces(path)
    response = piece.get("response", {})
    assert response.get("status") == status
    assert text in response.get("body", {}).get("text", "")
    if isinstance(answer, Raised):
        assert piece["exceptions"][0]["text"] == "raised by hand"


def test_a_plain_success_leaves_no_evidence_and_no_file(desk: Controller, path: Path) -> None:
    """Nothing of a result that went well is written anywhere but where the caller declared it."""
    desk.declare("find", effect="read")
    desk.declare("charge", effect="write")
    assert call(desk, "find", {"n": 1}, lambda n: {"n": n}).value == {"n": 1}
    assert call(desk, "charge", {"m": 1, "n": 2}, lambda m, n: {"n": n}).value == {"n": 2}
    assert not evidence_path(path).exists()


def test_an_application_makes_the_file_when_it_starts(path: Path) -> None:
    """Making a file syncs the disk: that happens where the application opens, not where its event loop runs."""
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds()):
        assert evidence_path(path).exists()


def test_evidence_is_readable_by_its_user_only(desk: Controller, path: Path) -> None:
    """The file, its log and its lock are private from the first byte on."""
    desk.declare("charge", effect="write")
    call(desk, "charge", {"n": 1}, fail_with(Upstream("x")))
    made = [one for one in path.parent.iterdir() if "evidence" in one.name and one.is_file()]
    assert len(made) >= 3
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o600}


def test_a_cancelled_write_leaves_how_far_it_came(path: Path) -> None:
    """A write whose task was cancelled says in the record that its request had left."""

    async def run() -> None:
        controller = Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False)
        controller.declare("charge", effect="write")

        async def tool(n: int) -> object:
            forbear.mark("request_sent")
            raise asyncio.CancelledError("gone")

        with pytest.raises(asyncio.CancelledError):
            await controller.acall("charge", {"n": 1}, run="r", execute=tool)
        controller.close()

    asyncio.run(run())
    [piece] = pieces(path)
    [facts] = [entry.facts for entry in entries(path) if entry.evidence is not None]
    assert facts["boundaries"] == piece["boundaries"] == ["request_sent"]
    assert piece["event"] == "cancelled"


def test_a_framework_signal_leaves_none(desk: Controller, path: Path) -> None:
    """A framework that steers itself by an exception has said nothing about the world."""
    desk.declare("charge", effect="write")
    with pytest.raises(Upstream):
        call(desk, "charge", {"n": 1}, fail_with(Upstream("interrupt")), signals=(Upstream,))
    assert pieces(path) == []


# ---- boundaries and requests ----------------------------------------------------------------------------------------


def test_marks_are_recorded_and_only_ever_make_stricter(desk: Controller, path: Path) -> None:
    """The same exception is the tool's own mistake unless a boundary says that bytes left; no mark loosens anything."""
    desk.declare("charge", effect="write")

    def before(n: int) -> object:
        forbear.mark("validated")
        raise ValueError("no such account")

    def after(n: int, m: int) -> object:
        forbear.mark("connection_started")
        forbear.mark("request_sent")
        raise ValueError("no such account")

    own = call(desk, "charge", {"n": 1}, before).envelope
    sent = call(desk, "charge", {"n": 1, "m": 2}, after).envelope
    assert (own.executed.value, own.recovery) == ("no", "repair_input")
    assert (sent.executed.value, sent.recovery) == ("unknown", "inspect_outcome")
    assert [entry.facts["boundaries"] for entry in entries(path) if "boundaries" in entry.facts] == [
        ["validated"],
        ["connection_started", "request_sent"],
    ]


def test_a_mark_that_is_none_is_an_error_and_outside_a_call_nothing_happens() -> None:
    """A misspelt boundary is not silently nothing."""
    forbear.mark("validated")
    with pytest.raises(UsageError, match="boundary"):
        forbear.mark("sent")


def test_a_read_that_succeeds_records_the_boundaries_that_it_reached(desk: Controller, path: Path) -> None:
    """The short way of reads keeps what somebody marked."""
    desk.declare("find", effect="read")

    def tool(n: int) -> object:
        forbear.mark("response_received")
        return {"n": n}

    call(desk, "find", {"n": 1}, tool)
    desk.engine.world.batch.flush()
    assert [entry.facts.get("boundaries") for entry in entries(path)][-1] == ["response_received"]


def test_halves_of_a_call_record_boundaries_too(desk: Controller, path: Path) -> None:
    """An adapter that proposes and settles has its marks in the same record, and they count in the classification."""
    desk.declare("charge", effect="write")
    reply = desk.propose("charge", {"n": 1}, run="r", step="s")
    assert reply.attempt is not None
    with desk.inside(reply.attempt):
        forbear.mark("request_sent")
    settled = desk.settle(reply.attempt, Raised(TypeError("x")))
    assert settled.envelope.executed.value == "unknown"
    assert pieces(path)[0]["boundaries"] == ["request_sent"]


def test_a_request_is_kept_by_host_and_path_template(desk: Controller, path: Path) -> None:
    """Of where a request went, no user information, identifier or query stays; also where the write succeeded."""
    desk.declare("charge", effect="write")

    def tool(n: int) -> object:
        trail = current_trail()
        assert trail is not None
        exchange = trail.begin("post", "https://me:pw@API.Example.com:443/v1/accounts/8842-17/charges?key=abc")
        exchange.reach(Step.WRITE)
        exchange.answered(200, (("Date", "x"), ("Server", "internal-4")))
        return {"n": n}

    assert call(desk, "charge", {"n": 1}, tool).value == {"n": 1}
    [piece] = pieces(path)
    assert piece["requests"] == [
        {
            "method": "POST",
            "destination": "https://api.example.com",
            "path_template": "/v1/accounts/{}/charges",
            "step": "response",
            "watched": False,
            "key_sent": False,
            "status": 200,
            "headers": [{"name": "Date", "value": "x"}, {"name": "Server", "length": 10}],
        }
    ]


def test_a_request_that_an_exception_carries_is_kept_without_an_adapter(desk: Controller, path: Path) -> None:
    """Clients name the request in their exceptions; that is enough for method and destination."""

    class Request:
        method, url = "get", "http://10.0.0.1:8080/users/alice"

    desk.declare("find", effect="read")
    error = Upstream("x")
    inner: Any = Upstream("inner")
    inner.request = Request()
    error.__context__ = inner
    call(desk, "find", {"n": 1}, fail_with(error))
    [piece] = pieces(path)
    assert piece["requests"] == [
        {"method": "GET", "destination": "http://10.0.0.1:8080", "path_template": "/users/alice"}
    ]


# ---- what never is --------------------------------------------------------------------------------------------------


def forms(secret: str) -> list[str]:
    """Return the forms in which the other side may echo a secret."""
    return [secret, quote(secret, safe=""), b64encode(secret.encode()).decode(), json.dumps(secret)[1:-1]]


def hostile() -> list[object]:
    """Return what a hostile or careless other side answers."""
    inner = OSError(f"ssh -i /home/a/.ssh/id {SECRET}")
    error = Upstream(f"GET https://u:{quote(SECRET, safe='')}@h/?k={SECRET} failed")
    error.add_note(f"Authorization: Bearer {SECRET}")
    error.__cause__ = inner
    headers = (("X-Request-Id", SECRET), ("AUTHORIZATION", SECRET), ("Set-Cookie", SECRET), ("set-cookie", SECRET))
    return [
        error,
        Http(status=401, headers=headers, body=f'{{"a":[{{"b":{json.dumps(SECRET)}}}]}}'),
        Http(status=500, headers=headers, body=b64encode(SECRET.encode())),
        Mcp(is_error=True, content=({"type": "text", "text": " ".join(forms(SECRET))},), structured={"x": [SECRET]}),
        McpError(code=-32000, data={"deep": [{"er": SECRET}]}),
        Grpc(code="UNAUTHENTICATED", details=({"m": SECRET},), trailing_metadata=headers),
    ]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("effect", ["read", "write"])
def test_secret_arguments_are_nowhere_in_the_record(path: Path, number: int, effect: str) -> None:
    """What a tool's policy calls secret is in no piece, line, view or warning, in whatever form the other side echoes it."""
    answer = hostile()[number]
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False) as desk:
        desk.declare("login", effect=effect, secret=("token",), idempotency_key="idem" if effect == "write" else None)
        execute = fail_with(answer) if isinstance(answer, Exception) else (lambda **_: answer)
        reply = call(desk, "login", {"user": {"token": SECRET}}, execute)
    kept = json.dumps([entry.plain() for entry in entries(path)]) + json.dumps(pieces(path), ensure_ascii=False)
    assert pieces(path)
    for form in forms(SECRET):
        assert form not in kept
        assert form not in json.dumps(reply.for_model(), ensure_ascii=False) + repr(reply.envelope)


def test_evidence_is_in_no_journal_line_view_warning_or_error(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Text of others is in the evidence file and in nothing else that this process writes or says."""
    text = "db-7.internal: relation accounts is locked by pid 4711"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False) as desk:
            desk.declare("charge", effect="write", target="n")
            replies = [call(desk, "charge", {"n": n}, fail_with(Upstream(text))) for n in (1, 1, 2)]
            operator = Operator(desk)
            shown = repr(operator.pending())
            views = [repr(reply) + json.dumps(reply.for_model()) + repr(reply.for_user()) for reply in replies]
    said = "".join([*views, shown, caplog.text, *(str(one.message) for one in heard)])
    assert "4711" not in said
    main = b"".join(one.read_bytes() for one in path.parent.iterdir() if one.is_file() and "evidence" not in one.name)
    assert b"4711" not in main
    assert b"4711" in evidence_path(path).read_bytes()


def test_arguments_are_kept_as_a_keyed_digest(tmp_path: Path) -> None:
    """Two attempts can be compared, and nobody without the evidence's own key can guess what a digest stands for."""
    digests: list[list[str]] = []
    for name in ("one.db", "two.db"):
        place = tmp_path / name
        ids = SequenceIds(start=1 + 1000 * len(digests))
        with Controller.open(place, clock=ManualClock(), ids=ids, worker=False) as desk:
            desk.declare("charge", effect="write")
            for n in (1, 2):
                desk.call("charge", {"pin": n}, run=f"r{n}", step="s", execute=fail_with(Upstream("x")), wait=False)
            desk.call("charge", {"pin": 1}, run="r3", step="s", execute=fail_with(Upstream("x")), wait=False)
        digests.append([piece["arguments_digest"] for piece in pieces(place)])
    first, second = digests
    assert first[0] == first[2] != first[1]
    assert not set(first) & set(second)


def test_a_short_secret_withholds_the_text(desk: Controller, path: Path) -> None:
    """What cannot be cut out without tearing the text is not kept: a PIN of two digits is a secret too."""
    desk.declare("unlock", effect="write", secret=("pin",))
    call(desk, "unlock", {"pin": 42}, fail_with(Upstream("pin 42 is wrong")))
    assert "42" not in json.dumps(pieces(path)[0]["exceptions"])


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunter2@host/",
        "GET /x?api_key=hunter2&b=1",
        "Authorization: Bearer hunter2hunter2",
        'x {"password": "hunter2"}',
        "token=hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2 cut",
        "cookie: hunter2",
    ],
)
def test_credentials_in_texts_are_taken_out_behind_the_boundary(text: str) -> None:
    """Known forms of credentials do not even stay in the protected record."""
    assert "hunter2" not in Scrub()(text, 1000)


def test_ordinary_texts_stay_as_they_are() -> None:
    """What an operator needs to find the fault is not torn by the backstop."""
    for text in ("relation accounts is locked by pid 4711", "HTTP 500 at /v1/charges", "-- BEGIN --", "a\nb\tc é"):
        assert Scrub()(text, 1000) == text


def test_texts_are_bounded_after_secrets_are_out() -> None:
    """A secret at the cut is not half kept."""
    assert Scrub([SECRET])("x" * (MAX_TEXT - 5) + SECRET + "y" * 100_000, MAX_TEXT) == "x" * (MAX_TEXT - 5) + "[hidd"


def test_foreign_objects_cannot_break_the_record(desk: Controller, path: Path) -> None:
    """An exception whose text, notes and properties fail is recorded by its class."""

    class Hostile(Exception):
        __notes__: Any = ("a note", object())

        def __str__(self) -> str:
            raise RuntimeError

        @property
        def request(self) -> object:
            raise RuntimeError

    desk.declare("charge", effect="write")
    error = Hostile()
    error.__cause__ = error.__context__ = Hostile()
    error.__cause__.__cause__ = error
    call(desk, "charge", {"n": 1}, fail_with(error))
    [piece] = pieces(path)
    assert [one["text"] for one in piece["exceptions"]] == ["[hidden]", "[hidden]"]


def test_values_of_secret_names_are_found_at_any_depth() -> None:
    """A secret in a list of objects under another name is as secret as one at the top."""
    arguments = {"a": [{"token": ["x1", {"y": 22}]}, {"b": "no"}], "token": None, "flag": {"token": True}}
    assert secret_values(arguments, ["token"]) == ("x1", "22")
    assert secret_values(arguments, []) == ()


def test_header_fields_are_bounded_and_named_safely() -> None:
    """A field whose name is no name is counted, not copied."""
    many = [("x" * 100, "v"), ("bad name", "v"), *[("A", "b")] * 100]
    kept = header_fields(many, Scrub())
    assert len(kept) == 64
    assert [one["name"] for one in kept[:2]] == ["[hidden]", "[hidden]"]


@pytest.mark.parametrize(
    ("url", "destination", "template"),
    [
        ("HTTPS://A.example:443/x", "https://a.example", "/x"),
        ("http://[::1]:8080/a/1/b.json?c=d#e", "http://[::1]:8080", "/a/1/b.json"),
        ("https://h/2f0c1d/ORD-1/v2/9999", "https://h", "/{}/{}/v2/{}"),
        ("https://h./", "https://h", "/"),
        ("/only/a/path", "", "/only/a/path"),
        ("http://[broken", "", ""),
        ("http://h:port/", "", "/"),
        ("", "", ""),
    ],
)
def test_a_destination_has_one_form(url: str, destination: str, template: str) -> None:
    """Equal places look equal, and identifiers in a path do not stay."""
    assert (destination_of(url), template_of(url)) == (destination, template)


# ---- when evidence cannot be written --------------------------------------------------------------------------------


def test_no_decision_is_lost_where_evidence_cannot_be_written(path: Path) -> None:
    """The call is governed and journalled as ever; the line says that its evidence is lost, and somebody is told once."""
    evidence_path(path).mkdir()
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False) as desk:
        desk.declare("charge", effect="write", target="n")
        received: list[int] = []

        def tool(n: int) -> object:
            received.append(n)
            raise Upstream("x")

        with pytest.warns(RuntimeWarning, match="evidence cannot be written") as heard:
            replies = [
                desk.call("charge", {"n": n}, run="r", step=f"s{i}", execute=tool, wait=False)
                for i, n in enumerate((1, 1, 2))
            ]
    assert len(heard) == 1
    assert received == [1, 2]
    assert [reply.answer.value for reply in replies][:2] == ["executed", "blocked"]
    evidence_path(path).rmdir()
    report = verify_file(path)
    assert (report.is_intact, report.lost, report.missing) == (True, 2, 0)
    assert [entry.state for entry in entries(path) if entry.state] == ["lost", "lost"]


def test_a_failure_while_the_piece_is_made_loses_no_decision(
    desk: Controller, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a fault of our own in making the evidence stops the decision."""
    monkeypatch.setattr("forbear.runtime.leaving.piece_of", lambda *_a, **_k: 1 / 0)
    desk.declare("charge", effect="write")
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        reply = call(desk, "charge", {"n": 1}, fail_with(Upstream("x")))
    assert reply.envelope.executed.value == "unknown"
    assert [entry.state for entry in entries(path) if entry.state] == ["lost"]


def test_no_evidence_is_kept_where_none_is_wanted(path: Path) -> None:
    """`keep_evidence=False` writes no text of others to any disk; the journal still says what was decided."""
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False, keep_evidence=False) as desk:
        desk.declare("charge", effect="write")
        call(desk, "charge", {"n": 1}, fail_with(Upstream("x")))
    assert not evidence_path(path).exists()
    assert [entry.state for entry in entries(path) if entry.state] == []
    with pytest.raises(UsageError, match="keep_evidence"):
        Controller.open(path, clock=ManualClock(), keep_evidence=False, evidence="x.db")


def test_evidence_goes_where_the_application_says(path: Path, tmp_path: Path) -> None:
    """The two places may be two volumes."""
    other = tmp_path / "elsewhere" / "pieces.db"
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False, evidence=other) as desk:
        desk.declare("charge", effect="write")
        call(desk, "charge", {"n": 1}, fail_with(Upstream("x")))
    assert not evidence_path(path).exists()
    assert verify_file(path).missing == 1
    assert verify_file(path, evidence=other).evidence == 1


def test_a_piece_is_kept_once_and_found_by_digest() -> None:
    """The same piece twice is one; another one about the same request stands beside it; a closed store refuses."""
    store = open_sqlite(":memory:", clock=ManualClock())
    kept = EvidenceStore(lambda: store, lambda: b"k" * 32)
    assert kept.keep("act_1", b"a") == kept.keep("act_1", b"a") == digest_of(b"a")
    kept.keep("act_1", b"b")
    assert (kept.read("act_1", digest_of(b"a")), kept.read("act_1", digest_of(b"b"))) == (b"a", b"b")
    assert kept.read("act_2", digest_of(b"a")) is None
    assert store.load(scope_of("act_1")).version == 2
    assert kept.key() == kept.key() == b"k" * 32
    again = EvidenceStore(lambda: store, lambda: b"other")
    assert again.key() == b"k" * 32
    # Retention may take pieces and never the key.
    assert store.prune(2**62) == 2
    assert EvidenceStore(lambda: store, lambda: b"other").key() == b"k" * 32
    assert kept.keep("act_1", b"a") == digest_of(b"a")
    kept.close()
    kept.close()
    with pytest.raises(StoreError):
        kept.keep("act_1", b"c")


def test_the_key_of_another_process_is_taken_over() -> None:
    """Two processes that start at the same moment use one key."""
    store = open_sqlite(":memory:", clock=ManualClock())

    def slow() -> bytes:
        store.commit(
            Commit(expected={"keys": 0}, puts=(Row(scope="keys", kind="secret", key="arguments", body=b"first"),))
        )
        return b"second"

    assert EvidenceStore(lambda: store, slow).key() == b"first"
    store.close()


def test_evidence_names_the_trace_that_the_call_was_in(path: Path) -> None:
    """An operator gets from a trace to the evidence and back."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

    from forbear.observe.otel import OpenTelemetryObserver

    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
    observer = OpenTelemetryObserver()
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False, observer=observer) as desk:
        desk.declare("charge", effect="write")
        desk.declare("find", effect="read")
        with use_span(span):
            call(desk, "charge", {"n": 1}, fail_with(Upstream("x")))
        call(desk, "find", {"n": 1, "m": 2}, fail_with(Upstream("x")))
    assert [piece.get("trace_id") for piece in pieces(path)] == [f"{0xABC:032x}", None]


# ---- labels ---------------------------------------------------------------------------------------------------------


def test_labels_are_recorded_with_what_the_application_does(path: Path) -> None:
    """Lines of a controller follow the line that says its labels, and evidence carries them."""
    labels = {"service": "desk", "version": "1.2", "region": "eu", "risk": "high"}
    with Controller.open(path, clock=ManualClock(), ids=SequenceIds(), worker=False, labels=labels) as desk:
        desk.declare("charge", effect="write")
        call(desk, "charge", {"n": 1}, fail_with(Refused("DESK_FROZEN", recovery="do_not_retry")))
    opened = [entry for entry in entries(path) if entry.line.line.rule == "controller.opened"]
    assert [entry.facts["labels"] for entry in opened] == [labels]
    assert pieces(path)[0]["labels"] == labels
    assert verify_file(path).is_intact


@pytest.mark.parametrize("labels", [{"team": "x"}, {"risk": ""}, {"risk": "x" * 65}, {"risk": "a\nb"}, {"risk": "é"}])
def test_labels_are_closed(path: Path, labels: dict[str, str]) -> None:
    """A label is one of four names and a short printable word: nothing of a request gets into it."""
    with pytest.raises(ConfigError, match="labels"):
        Controller.open(path, clock=ManualClock(), labels=labels)
