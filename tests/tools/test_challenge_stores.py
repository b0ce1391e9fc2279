"""A series of challenges that was interrupted goes on where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import challenge_stores


@pytest.fixture
def runs(monkeypatch) -> list[tuple[str, int]]:
    """What is run; nothing is, because the challenge has tests of its own."""
    found: list[tuple[str, int]] = []

    def run(_: Path, store: str, *, seed: int, seconds: float) -> dict[str, Any]:
        assert seconds == 5
        found.append((store, seed))
        return {"verdict": "valid" if seed < 3 else "invalid", "grants": 7, "findings": []}

    monkeypatch.setattr(challenge_stores, "run", run)
    return found


def play(results: Path, *seeds: int) -> int:
    numbers = map(str, seeds)
    stores = ["--stores", "redis", "etcd"]
    return challenge_stores.main([str(results), "--time", "5", *stores, "--seeds", *numbers])


def test_what_the_file_has_is_not_run_again(runs, tmp_path):
    results = tmp_path / "results.jsonl"
    assert play(results, 1) == 0
    before = results.read_text("utf-8")

    assert play(results, 1, 2) == 0

    assert runs == [("redis", 1), ("etcd", 1), ("redis", 2), ("etcd", 2)]
    assert results.read_text("utf-8").startswith(before)
    assert [json.loads(one)["grants"] for one in results.read_text("utf-8").splitlines()] == [7] * 4


def test_a_verdict_that_is_not_valid_fails_the_series_also_when_it_was_kept(runs, tmp_path):
    results = tmp_path / "results.jsonl"

    assert [play(results, 2, 3), play(results, 3), play(results, 2)] == [1, 1, 0]

    assert len(runs) == 4
