"""Planted secrets: every form in which one counts as a leak, and everything that somebody else may read of a call."""

from __future__ import annotations

import base64
import codecs
import html
import json
import logging
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forbear import Controller, Operator, Reply
from forbear.contract import write_envelope
from forbear.errors import UsageError
from forbear.observe import LoggingObserver, OpenTelemetryObserver
from forbear.ports import JournalLine

# Ugly enough to catch accidental transformations: signs of URLs, JSON, HTML and shells, bidi and zero-width characters.
SECRET = "sk_live-7KQ2/9f+\"x=&<\u202e\u200b'$(zq)%Z!aPlantedSecret0042"
# A part of it that survives every splitting and escaping.
CORE = "aPlantedSecret0042"


def forms(secret: str) -> set[str]:
    """Return the forms of a text that count as a leak: encoded, escaped, in other case, in halves."""
    raw = secret.encode()
    found = {
        secret,
        secret.lower(),
        secret.upper(),
        secret.swapcase(),
        secret[::-1],
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        "".join(f"%{byte:02X}" for byte in raw),
        "".join(f"%{byte:02x}" for byte in raw),
        raw.hex(),
        raw.hex().upper(),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        html.escape(secret),
        codecs.encode(secret, "rot13"),
        secret.encode("punycode").decode(),
        secret[:12],
        secret[-12:],
    }
    for shift in range(3):
        # Base64 of a longer text holds one of three alignments; the ends depend on what is beside it.
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(b"x" * shift + raw).decode().rstrip("=")
            found.add(encoded[4 if shift else 0 : -4])
    return found


FORMS = forms(SECRET) | forms(CORE)


def leaks(texts: Iterable[str], also: Iterable[str] = ()) -> list[str]:
    """Return the texts in which a planted secret, or one of these other texts, occurs in any form."""
    words = {*FORMS, *also}
    return [text for text in texts if any(word in text for word in words)]


def told(reply: Reply) -> list[str]:
    """Return everything that a model, a person in front of it or a general log may see of an answer."""
    envelope = reply.envelope
    texts = [reply.for_model(), reply.for_user(), repr(reply), str(reply), repr(envelope), str(reply.ticket)]
    for dialect in ("nested", "flat", "problem"):
        try:
            written = write_envelope(envelope, None, dialect)
        except UsageError:
            # A completed result has no problem form.
            continue
        texts += [json.dumps(written), json.dumps(written, ensure_ascii=False)]
    return texts


def lines(controller: Controller, request_id: str | None = None) -> list[JournalLine]:
    """Return the journal, or the lines of one request id."""
    return [line for _, line in controller._engine.store.journal(limit=10_000, request_id=request_id)]


def journal_texts(controller: Controller) -> list[str]:
    """Return the journal as text."""
    return [f"{line!r}{line.body.decode()}" for line in lines(controller)]


def prompts(controller: Controller) -> list[str]:
    """Return what a person is shown of everything that waits."""
    return [repr(pending) for pending in Operator(controller).pending()]


class Watch:
    """Everything that telemetry takes away from a controller: spans, metrics and log records at DEBUG."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider(metric_readers=[self._reader])
        self.observers = (LoggingObserver(), OpenTelemetryObserver(tracer_provider=tracers, meter_provider=meters))

    def texts(self, records: Iterable[logging.LogRecord]) -> list[str]:
        """Return what left as text; with each log record's attributes, and with the traceback that it may carry."""
        written = logging.Formatter("%(name)s %(message)s")
        ours = [record for record in records if record.name.startswith("forbear")]
        metrics = self._reader.get_metrics_data()
        return [
            *(span.to_json() for span in self._spans.get_finished_spans()),
            metrics.to_json() if metrics is not None else "",
            *(f"{written.format(record)} {record.__dict__!r}" for record in ours),
        ]
