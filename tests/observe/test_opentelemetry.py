"""Spans and metrics for OpenTelemetry, kept in memory by its SDK."""

from __future__ import annotations

import sys
import threading

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from lockfast import AcquireTimeout, ConfigurationError, Locks, observe
from lockfast.client._sync import dispatch
from lockfast.core.event_notes import ClientSnapshot, EventNote
from lockfast.events import Acquired, Released
from lockfast_challenge.processes import eventually

ASKED = {"context": threading.main_thread(), "queues": True}


class Scene:
    """A program whose spans and metrics are kept in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.hook = observe.opentelemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self):
        return self.exporter.get_finished_spans()

    def figures(self):
        """Return the sums and the counts, by name and outcome or reason."""
        found = {}
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        about = dict(point.attributes)
                        why = about.get("lockfast.outcome", about.get("lockfast.reason", ""))
                        value = getattr(point, "value", None)
                        found[metric.name, why] = point.count if value is None else value
        return found


@pytest.fixture
def scene():
    scene = Scene()
    yield scene
    scene.tracers.shutdown()
    scene.meters.shutdown()


def test_a_wait_and_a_hold_are_spans_below_the_callers(scene):
    with Locks("memory://", on_event=scene.hook) as locks:
        tracer = scene.tracers.get_tracer("program")
        with tracer.start_as_current_span("checkout") as outer, locks.lock("order:17") as lease:
            token = lease.token

    wait, hold = [one for one in scene.spans() if one.name.startswith("lockfast")]
    assert (wait.name, hold.name) == ("lockfast wait", "lockfast hold")
    for one in (wait, hold):
        assert one.parent.span_id == outer.get_span_context().span_id
        assert one.attributes["lockfast.pattern"] == "order:*"
        assert one.attributes["lockfast.store"] == "memory"
        assert one.status.status_code is StatusCode.UNSET
        assert "order:17" not in one.to_json()
    assert hold.attributes["lockfast.token"] == token
    assert wait.start_time <= wait.end_time == hold.start_time <= hold.end_time


def test_a_loss_and_a_timeout_are_errors_of_their_spans(scene):
    with Locks("memory://", on_event=scene.hook) as locks:
        lost = locks.lock("order:1").acquire()

        def wait() -> None:
            with pytest.raises(AcquireTimeout):
                locks.lock("order:1").acquire(timeout=0.01)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join()
        locks.break_("order:1")
        assert lost.lost.is_set()

    [hold] = [one for one in scene.spans() if one.name == "lockfast hold"]
    assert hold.status.status_code is StatusCode.ERROR
    assert hold.attributes["lockfast.reason"] == "broken"
    [timeout] = [
        one for one in scene.spans() if one.attributes.get("lockfast.outcome") == "timed_out"
    ]
    assert timeout.status.status_code is StatusCode.ERROR


def test_the_figures_are_those_of_the_program(scene):
    with Locks("memory://", on_event=scene.hook) as locks:
        for number in range(7):
            with locks.lock(f"order:{number}"):
                pass
        kept = locks.lock("order:8").acquire()
        eventually(lambda: scene.figures().get(("lockfast.leases.held", "")) == 1)
        kept.release()

    figures = scene.figures()
    assert figures["lockfast.acquisitions", "acquired"] == 8
    assert figures["lockfast.hold", ""] == figures["lockfast.wait", ""] == 8
    assert figures["lockfast.leases.held", ""] == 0


def test_without_its_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "lockfast.observe.opentelemetry_hook", raising=False)

    with pytest.raises(ConfigurationError, match=r'pip install "lockfast\[otel\]"'):
        observe.opentelemetry()


def test_what_was_dropped_leaves_no_span_open_and_no_count_wrong(scene, monkeypatch, caplog):
    """The hook is busy with the first lease while more events arrive than its queue can hold."""
    monkeypatch.setattr(dispatch, "HOOK_QUEUE_MAX", 3)
    is_busy, may_go_on = threading.Event(), threading.Event()
    record = scene.hook._state.figures.wait.record

    def wait(*told: object) -> None:
        is_busy.set()
        may_go_on.wait(60)
        record(*told)

    monkeypatch.setattr(scene.hook._state.figures.wait, "record", wait)
    with Locks("memory://", on_event=scene.hook) as locks:
        leases = [locks.lock("order:0").acquire()]
        assert is_busy.wait(60)
        leases += [locks.lock(f"order:{number}").acquire() for number in (1, 2, 3, 4)]
        for one in leases[:4]:
            one.release()
        may_go_on.set()
        eventually(lambda: "has not heard of" in caplog.text)
        eventually(lambda: scene.figures().get(("lockfast.leases.held", "")) == 1)
        leases[4].release()

    assert scene.figures()["lockfast.leases.held", ""] == 0
    assert not scene.hook._state.holds


def test_how_things_stand_may_be_known_before_it_is_told(scene):
    """A snapshot may come before the events that it reflects, which must not be counted twice."""
    with Locks("memory://") as locks:
        client = locks._client
        one, other = (client.new_claim(locks.lock(f"order:{n}"), **ASKED) for n in (1, 2))
    took, gave = (Acquired, 0.0, 30.0, True), (Released, 2.0)

    def tell(kind: type, *facts: object, of: object) -> None:
        scene.hook.take([EventNote(kind, of, 7, 100.0, None, facts)], owner="", store="memory")

    tell(*took, of=one)
    scene.hook.set_right(ClientSnapshot(client.id, [other], []), store="memory")
    tell(*gave, of=one)
    tell(*took, of=other)
    held = scene.figures()["lockfast.leases.held", ""]
    tell(*gave, of=other)

    assert held == 1
    assert scene.figures()["lockfast.leases.held", ""] == 0
    assert scene.figures()["lockfast.hold", ""] == 2
