"""The shipped dashboard, tested on a real Prometheus that has scraped the demo."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from servers.prometheus import PrometheusServer, as_grafana_asks

import lockfast
from lockfast import observe
from lockfast.cli.demo import crew, oversell
from lockfast.cli.demo.command import Play
from lockfast_challenge.processes import eventually

BOARD: dict[str, Any] = json.loads(observe.dashboard())
TARGETS = [(panel, one) for panel in BOARD["panels"] for one in panel["targets"]]
Labels = tuple[tuple[str, str], ...]
COLUMNS = 24
"""Width of Grafana's grid."""


@pytest.fixture(scope="module")
def a_store_that_failed() -> Iterator[str]:
    """The address of a program whose store failed once, since the demo's store does not fail."""
    registry = CollectorRegistry()
    hook = observe.prometheus(registry=registry)
    hook(lockfast.StoreError("", None, "me", "renew", "unknown", store="sqlite"))
    hook(lockfast.Reconnected("", None, "me", 3.0, store="sqlite"))
    http, serving = start_http_server(0, addr="127.0.0.1", registry=registry)
    yield f"127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()
    serving.join()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory, a_store_that_failed) -> Iterator[tuple[PrometheusServer, Play]]:
    """A Prometheus that scrapes the demo's four workers while these sell, and the demo's result."""
    with ExitStack() as stage, pytest.MonkeyPatch.context() as patch:

        def played(_module, names, arguments, *, url):
            made = crew.Crew("scraped_worker", names, arguments, url=url)
            workers = stage.enter_context(made)
            ports = [(Path(arguments[0]) / f"port of {name}").read_text() for name in names]
            targets = [f"127.0.0.1:{port}" for port in ports]
            servers.append(stage.enter_context(PrometheusServer(*targets, a_store_that_failed)))
            for one in workers:
                one.say("go")
            return [(one.name, tale) for one in workers for tale in one.messages()], 0.0

        servers: list[PrometheusServer] = []
        inherited = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{inherited}")
        # The workers are scraped until the last test is done, which may have to wait for its turn.
        patch.setattr(crew, "PLAY_MAX_SECONDS", 3600.0)
        patch.setattr(oversell, "played", played)
        play = oversell.play(f"sqlite:///{tmp_path_factory.mktemp('store')}/db", guarded=True)
        yield servers[0], play


def test_what_is_scraped_of_the_demo_agrees_with_its_own_count(scraped):
    """A worker holds the lock once for each sale, and once more to see that nothing is left."""
    server, play = scraped

    assert play.is_right
    assert play.sold == oversell.STOCK
    holds = play.sold + len(oversell.WORKERS)
    expected = {
        'lockfast_acquisitions_total{pattern="stock-*",outcome="acquired"}': holds,
        "lockfast_acquisitions_total": holds,
        "lockfast_wait_seconds_count": holds,
        "lockfast_hold_seconds_count": holds,
        "lockfast_leases_lost_total": 0,
        "lockfast_leases_held": 0,
        "lockfast_waiters": 0,
    }
    # The last value of each series: a scrape missed on a busy machine leaves a gap.
    last = "sum(last_over_time({}[5m]))"
    eventually(lambda: {one: server.value(last.format(one)) for one in expected} == expected)


def test_prometheus_answers_every_query_of_the_dashboard(scraped):
    """The series have exactly the labels that the legend shows."""
    server, _ = scraped
    for _, target in TARGETS:
        expression = as_grafana_asks(target["expr"])
        shown = tuple(sorted(re.findall(r"{{(\w+)}}", target["legendFormat"])))

        eventually(
            lambda: labels_of(server.query(expression)) == {shown},  # noqa: B023 - called at once
            what=f"{expression} is answered by {shown}",
        )


def labels_of(found: dict[Labels, float]) -> set[tuple[str, ...]]:
    return {tuple(label for label, _ in one) for one in found}


def test_the_dashboard_knows_only_figures_that_are_told(scraped):
    server, _ = scraped
    everything = 'count by (__name__) ({__name__=~"lockfast_.+"})'
    asked = set(re.findall(r"lockfast_\w+", observe.dashboard()))

    eventually(lambda: asked <= {dict(labels)["__name__"] for labels in server.query(everything)})


def test_the_dashboard_is_of_the_shape_that_grafana_imports():
    assert BOARD["schemaVersion"] >= 39
    assert BOARD["id"] is None  # Grafana assigns the id; the uid is ours
    assert re.fullmatch(r"[\w-]{1,40}", BOARD["uid"])
    assert BOARD["title"] == "Lockfast"
    source, pattern = BOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    assert (pattern["name"], pattern["type"], pattern["allValue"]) == ("pattern", "query", ".*")
    # Without these two options, Grafana does not escape the * of a pattern in =~"$pattern".
    assert pattern["multi"]
    assert pattern["includeAll"]


def test_every_panel_has_its_place_and_the_chosen_source():
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS
        assert not cells & taken
        taken |= cells
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    the_chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert all(one["datasource"] == the_chosen for pair in TARGETS for one in pair)
