"""A real Prometheus, which scrapes a test's programs and evaluates the shipped alert rules."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from lockfast_challenge.servers.server import Server

CONFIGURATION = """\
global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}
rule_files: {rules}
scrape_configs:
  - job_name: tests
    static_configs:
      - targets: {targets}
"""


class PrometheusServer(Server):
    """One `prometheus` process; its data is deleted when it ends."""

    kind = "prometheus"
    packages: ClassVar[dict[str, str]] = {"prometheus": "prometheus"}

    def __init__(self, *targets: str, rules: Sequence[Path] = (), every: str = "200ms") -> None:
        super().__init__()
        self._every = every
        self._targets = targets
        self._rules = rules

    def command(self) -> list[str]:
        configuration = self.directory / "prometheus.yml"
        rules = json.dumps([str(one) for one in self._rules])
        targets = json.dumps(self._targets)
        text = CONFIGURATION.format(targets=targets, rules=rules, every=self._every)
        configuration.write_text(text)
        return [
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address={self.address}",
        ]

    def serves(self) -> bool:
        try:
            with self._open("/-/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the value of each series that the expression selects, by labels."""
        found = self._asked("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return {
            tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found["result"]
        }

    def over(
        self, expression: str, *, start: float, end: float, step: float
    ) -> dict[tuple[tuple[str, str], ...], list[tuple[float, float]]]:
        """Return the times and values of each series between two times, by labels."""
        asked = {"query": expression, "start": start, "end": end, "step": step}
        found = self._asked("/api/v1/query_range?" + urllib.parse.urlencode(asked))
        return {
            tuple(sorted(one["metric"].items())): [
                (at, float(value)) for at, value in one["values"]
            ]
            for one in found["result"]
        }

    def value(self, expression: str) -> float | None:
        """Return the value of the expression, or None if there is not exactly one value."""
        found = list(self.query(expression).values())
        return found[0] if len(found) == 1 else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self._asked("/api/v1/alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def _asked(self, path: str) -> Any:
        with self._open(path) as answer:
            return json.load(answer)["data"]

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"http://{self.address}{path}", timeout=30)


def as_grafana_asks(expression: str, *, rate: str = "1m") -> str:
    """Return a dashboard query with its variables filled in: all patterns are selected."""
    return expression.replace("$pattern", ".*").replace("$__rate_interval", rate)
