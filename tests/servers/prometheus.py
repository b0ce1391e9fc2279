"""A real Prometheus, which scrapes programs of the test's and judges the shipped alert rules."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from holdfast.challenge.servers.starting import Server

CONFIGURATION = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}
rule_files: {rules}
scrape_configs:
  - job_name: tests
    static_configs:
      - targets: {targets}
"""


class PrometheusServer(Server):
    """One `prometheus`; what it has scraped is gone with it."""

    kind = "prometheus"
    packages: ClassVar[dict[str, str]] = {"prometheus": "prometheus"}

    def __init__(self, *targets: str, rules: Sequence[Path] = ()) -> None:
        super().__init__()
        self._targets = targets
        self._rules = rules

    def command(self) -> list[str]:
        configuration = self.directory / "prometheus.yml"
        rules = json.dumps([str(one) for one in self._rules])
        text = CONFIGURATION.format(targets=json.dumps(self._targets), rules=rules)
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
        """Return the value of each series that the expression finds, by its labels."""
        found = self._asked("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return {
            tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found["result"]
        }

    def value(self, expression: str) -> float | None:
        """Return the one value that the expression has, if it has one."""
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
