from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forbear import Controller
from forbear.observe import Notice, OpenTelemetryObserver
from forbear.testing.clock import ManualClock, SequenceIds


class Recorder:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def observe(self, notice: Notice) -> None:
        self.notices.append(notice)

    @property
    def rules(self) -> list[str]:
        return [notice.rule.value for notice in self.notices]


@dataclass
class Telemetry:
    """OpenTelemetry's SDK in memory, and an observer on it."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meter_provider = MeterProvider(metric_readers=[self.reader])
        self.tracer = self.tracer_provider.get_tracer("framework")

    def observer(self, **options: Any) -> OpenTelemetryObserver:
        return OpenTelemetryObserver(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options
        )

    def finished(self) -> list[ReadableSpan]:
        return list(self.spans.get_finished_spans())

    def points(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Return the points of each metric: attributes and number (a histogram's: count and sum)."""
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        read = self.reader.get_metrics_data()
        for resource in read.resource_metrics if read is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        number = getattr(point, "value", None)
                        if number is None:
                            number = (getattr(point, "count", 0), getattr(point, "sum", 0))
                        found.setdefault(metric.name, []).append((dict(point.attributes or {}), number))
        return found

    def number(self, name: str, **attributes: str) -> Any:
        """Return the sum of the points of a counter that have these attributes (`_` for `.`, prefix left out)."""
        return sum(
            number
            for found, number in self.points().get(name, [])
            if all(found.get(NAMES[key]) == value for key, value in attributes.items())
        )


NAMES = {
    "tool": "gen_ai.tool.name",
    "code": "error.type",
    "rule": "forbear.rule",
    "answer": "forbear.answer",
    "outcome": "forbear.outcome",
    "recovery": "forbear.recovery",
    "reason": "forbear.reason",
    "cause": "forbear.hold.cause",
    "would": "forbear.would",
    "result": "forbear.step.result",
}


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test moves."""
    return ManualClock()


@pytest.fixture
def telemetry() -> Telemetry:
    """Return an SDK in memory."""
    return Telemetry()


Opener = Callable[..., Controller]


@pytest.fixture
def opened(clock: ManualClock) -> Iterator[Opener]:
    """Open controllers on one clock; all are closed at the end."""
    controllers: list[Controller] = []

    def open_one(*observers: Any, **options: Any) -> Controller:
        options.setdefault("worker", False)
        options.setdefault("ids", SequenceIds(start=1 + 10_000 * len(controllers)))
        options.setdefault("clock", clock)
        controller = Controller.open(":memory:", observer=observers, **options)
        controllers.append(controller)
        return controller

    yield open_one
    for controller in controllers:
        controller.close()


@pytest.fixture
def recorder() -> Recorder:
    """Return an observer that keeps what it is told."""
    return Recorder()
