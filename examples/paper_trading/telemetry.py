"""What one journey looks like to OpenTelemetry: ``python -m examples.paper_trading.telemetry JOURNEY MODEL``.

The loop is `loops.run_chat`; spans and metrics are kept in memory and printed. Nothing is exported.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.paper_trading.agent import Person, Scene, Shown
from examples.paper_trading.clients import ChatClient
from examples.paper_trading.desk import Desk
from examples.paper_trading.governed import controller_of
from examples.paper_trading.journeys import BY_NAME, Journey
from examples.paper_trading.loops import RUN, run_chat
from examples.paper_trading.models import Habit, ScriptedModel
from examples.paper_trading.world import World
from forbear.observe import OpenTelemetryObserver

SHOWN = ("forbear.answer", "forbear.rule", "error.type", "forbear.recovery", "forbear.attempt")
"""What is printed of a span, in this order."""


async def observed(journey: Journey, habit: Habit, folder: Path) -> list[str]:
    """Make one turn of a journey under forbear and return its spans, and then its metrics, a line each."""
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider(metric_readers=[metrics], shutdown_on_exit=False)
    observer = OpenTelemetryObserver(tracer_provider=tracers, meter_provider=meters)
    world = World(folder / "desk.sqlite")
    world.reset(journey.scenario)
    model = ScriptedModel(wishes=journey.wishes, habit=habit, steps=journey.steps, at_once=journey.at_once)
    async with Desk(world.path) as desk, controller_of(world, observer=observer) as controller:
        desk.timeouts = journey.timeouts
        person = Person(world=world, script=journey.person)
        scene = Scene(desk=desk, world=world, journey=journey, model=model, person=person, shown=Shown())
        client = ChatClient(scene.thinking([]), controller.awork)
        tools = await desk.functions()
        await run_chat(client, [{"role": "user", "content": journey.request}], tools, controller, RUN)
    world.close()
    lines: list[str] = []
    for span in spans.get_finished_spans():
        said = dict(span.attributes or {})
        lines.append(" ".join([span.name, *(f"{name}={said[name]}" for name in SHOWN if name in said)]))
    found = metrics.get_metrics_data()
    for metric in [] if found is None else found.resource_metrics[0].scope_metrics[0].metrics:
        lines += _points(metric.name, metric.data.data_points)
    meters.shutdown()
    tracers.shutdown()
    return lines


def _points(name: str, points: Iterable[object]) -> list[str]:
    lines: list[str] = []
    for point in points:
        if isinstance(point, NumberDataPoint):
            said, value = point.attributes, str(point.value)
        elif isinstance(point, HistogramDataPoint):
            said, value = point.attributes, f"{point.count} times"
        else:
            continue
        attributes = ", ".join(f"{key}={one!s}" for key, one in sorted((said or {}).items()))
        lines.append(f"{name} {{{attributes}}} {value}")
    return sorted(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was observed of one journey."""
    parser = argparse.ArgumentParser(prog="python -m examples.paper_trading.telemetry", description=__doc__)
    parser.add_argument("journey", choices=sorted(BY_NAME))
    parser.add_argument("model", choices=[habit.value for habit in Habit])
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="paper-trading-") as folder:
        print("\n".join(asyncio.run(observed(BY_NAME[asked.journey], Habit(asked.model), Path(folder)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
