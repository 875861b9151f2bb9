"""An observer that speaks OpenTelemetry, with the API alone: without an SDK in the application it costs next to nothing.

Counters are plain numbers that are read when the application's reader collects; no instrument is touched in a call
that succeeds. Names are in `words.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Tracer, TracerProvider

from forbear.errors import UsageError
from forbear.observe import spans
from forbear.observe.counting import Counts, Values
from forbear.observe.notice import Notice, Reads, Seen, Usage
from forbear.observe.words import INSTRUMENTS, RECOVERED, Instrument

__all__ = ["OpenTelemetryObserver"]

SCOPE: Final = "forbear"


class OpenTelemetryObserver:
    """Counts decisions and puts a span around each call.

    Args:
        tracer_provider: Where spans go; default: the global provider.
        meter_provider: Where metrics go; default: the global provider.
        spans: ``"all"``, or ``"none"``: only metrics, so that a succeeding read costs nothing more.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        spans: Literal["all", "none"] = "all",
    ) -> None:
        if spans not in {"all", "none"}:
            raise UsageError("spans: must be 'all' or 'none'")
        self.traces = spans == "all"
        self._tracer: Tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._recovery = meter.create_histogram(RECOVERED.name, unit=RECOVERED.unit, description=RECOVERED.meaning)
        self._counts = Counts(self._recovered)
        for one in INSTRUMENTS:
            if one.kind == "counter":
                meter.create_observable_counter(
                    one.name, callbacks=[self._reader(one)], unit=one.unit, description=one.meaning
                )

    # ---- decisions --------------------------------------------------------------------------------------------------

    def observe(self, notice: Notice) -> None:
        """Count one decision."""
        self._counts.count(notice)

    def observe_reads(self, reads: Sequence[Reads]) -> None:
        """Count reads that succeeded at once."""
        self._counts.count_reads(reads)

    def observe_usage(self, usage: Usage) -> None:
        """Count what a step cost."""
        self._counts.count_usage(usage)

    def _recovered(self, seconds: float, values: Values) -> None:
        self._recovery.record(seconds, _attributes(RECOVERED, values))

    def _reader(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_options: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(number, _attributes(instrument, values)) for values, number in self._counts.read(instrument)
            ]

        return read

    # ---- calls ------------------------------------------------------------------------------------------------------

    def begin(self, tool: str, call_id: str) -> object:
        """Begin the span of a call, or find the framework's."""
        return spans.begin(self._tracer, tool, call_id)

    def end(self, opened: object, seen: Seen) -> None:
        """End the span of a call."""
        assert isinstance(opened, spans.Opened)
        spans.end(opened, seen)

    def mark(self, seen: Seen, call_id: str, began_at: datetime, ended_at: datetime) -> None:
        """Note a call that somebody else executed."""
        spans.mark(self._tracer, seen, call_id, began_at, ended_at)

    def trace_id(self) -> str:
        """Return the id of the trace that this code runs in, 32 hex characters; "" = none."""
        return spans.trace_id()


def _attributes(instrument: Instrument, values: Values) -> dict[str, str]:
    return {name: str(value) for name, value in zip(instrument.attributes, values, strict=True) if value}
