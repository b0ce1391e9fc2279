"""Workers that crash, freeze or are asked to stop, on every database."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from databases import Database
from puppets import Puppet, Stage, environment

from lockfast import StaleToken

HERE = Path(__file__).parent
COLUMNS = "id INTEGER PRIMARY KEY, state VARCHAR(20), claimed_until {real}, claim_token {whole}"


@pytest.fixture
def jobs(plain) -> str:
    table = plain.table(COLUMNS)
    plain.run(f"INSERT INTO {table} VALUES (1, 'pending', NULL, NULL)")
    return table


@pytest.fixture
def hired(plain, jobs, tmp_path) -> Iterator[Callable[..., Puppet]]:
    """Start workers in separate processes."""
    script = HERE / "worker_puppet.py"
    arguments = (plain.name, plain.address(), jobs)
    stage = Stage(tmp_path, script, *arguments)
    yield stage
    stage.clear_away()


def states(database: Database, table: str) -> list[tuple[object, ...]]:
    return [tuple(one) for one in database.run(f"SELECT id, state FROM {table} ORDER BY id")]


def test_the_row_of_a_worker_that_crashed_comes_back(plain, jobs, hired):
    first = hired(ttl=1.0)
    assert first.ask("claim") == 1
    first.kill()

    second = _another(hired)
    second.ask("finish", "done by the second")

    assert states(plain, jobs) == [(1, "done by the second")]


def test_what_a_frozen_worker_brings_late_is_refused(plain, jobs, hired):
    """A worker is frozen until its ttl is over and another worker has the row; then it wakes up."""
    frozen = hired(ttl=1.0)
    assert frozen.ask("claim") == 1
    frozen.freeze()
    second = _another(hired)
    frozen.thaw()

    with pytest.raises(StaleToken) as caught:
        frozen.ask("finish", "too late")
    second.ask("finish", "done by the second")

    assert caught.value.seen > caught.value.token
    assert states(plain, jobs) == [(1, "done by the second")]


def _another(hired) -> Puppet:
    """Return a worker that has the row, once the row is free: each worker tries once."""
    deadline = time.monotonic() + 60
    while True:
        worker = hired(ttl=60.0)
        try:
            assert worker.ask("claim") == 1
        except StopIteration:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return worker


def test_sigterm_ends_a_loop_after_the_row_in_hand(plain, jobs):
    """All other claimed rows are given back at once, and nothing is left half done."""
    plain.run(f"INSERT INTO {jobs} VALUES (2, 'pending', NULL, NULL), (3, 'pending', NULL, NULL)")
    with worker_loop(plain, jobs) as worker:
        assert _next(worker) == "has 1"
        worker.send_signal(signal.SIGTERM)
        _tell(worker)

        assert [_next(worker), _next(worker)] == ["did 1", "over"]
        assert worker.wait(60) == 0

    assert states(plain, jobs) == [(1, "done"), (2, "pending"), (3, "pending")]
    assert plain.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") in ([], ())


def test_sigterm_ends_a_loop_that_waits_for_work(plain, jobs):
    with worker_loop(plain, jobs) as worker:
        assert _next(worker) == "has 1"
        _tell(worker)
        assert _next(worker) == "did 1"  # the worker now waits for an hour
        worker.send_signal(signal.SIGTERM)

        assert _next(worker) == "over"
        assert worker.wait(60) == 0


def worker_loop(database: Database, table: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "worker_loop.py"), database.name, database.address()]
    return subprocess.Popen(
        [*command, table],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _next(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def _tell(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
