"""An interrupted series of broken locks and their controls goes on where it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lockfast_challenge.broken import __main__ as series
from lockfast_challenge.broken.registry import FLAWS, Flaw
from lockfast_challenge.outcome import Outcome, RunFinding, Setting

FLAW = FLAWS[0]


def outcome(*findings: RunFinding) -> Outcome:
    setting = Setting("redis", FLAW.name, "lock", 2, 1, 15.0, 1.0, ())
    return Outcome(setting, ended=2.0, grants=1, findings=list(findings))


@pytest.fixture(name="runs")
def _runs(monkeypatch) -> list[tuple[str, int]]:
    """What is run; nothing is, because the runs have tests of their own. Seed 2 finds nothing."""
    found: list[tuple[str, int]] = []

    def caught(flaw: Flaw, seed: int, **_: Any) -> Outcome:
        found.append(("broken", seed))
        return outcome(*[RunFinding(flaw.kind, 1.0, "found")] * (seed != 2))

    def spared(_: Flaw, seed: int, **__: Any) -> Outcome:
        found.append(("control", seed))
        return outcome()

    monkeypatch.setattr(series, "caught", caught)
    monkeypatch.setattr(series, "spared", spared)
    return found


def exit_code(monkeypatch, results: Path, *, seeds: int, controls: int = 1) -> int:
    numbers = ["--seeds", str(seeds), "--controls", str(controls), "--results", str(results)]
    monkeypatch.setattr(sys, "argv", ["broken", FLAW.name, *numbers])
    with pytest.raises(SystemExit) as ended:
        series.main()
    return int(ended.value.code or 0)


def test_a_run_that_the_file_has_is_not_repeated(runs, monkeypatch, tmp_path):
    results = tmp_path / "results.jsonl"
    assert exit_code(monkeypatch, results, seeds=1) == 0

    assert exit_code(monkeypatch, results, seeds=2, controls=2) == 0

    assert runs == [("broken", 0), ("control", 0), ("broken", 1), ("control", 1)]
    assert len([json.loads(one) for one in results.read_text("utf-8").splitlines()]) == 4


def test_a_flaw_that_a_kept_run_did_not_find_fails_the_series(runs, monkeypatch, tmp_path, capsys):
    results = tmp_path / "results.jsonl"

    assert [exit_code(monkeypatch, results, seeds=3) for _ in range(2)] == [1, 1]

    assert len(runs) == 4
    assert capsys.readouterr().out.count(" 2/3 ") == 2
