"""A loop over rows ends correctly, however it was left and whatever fails meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from databases import Database
from puppets import environment
from test_claim_rows import claims, five_jobs

from lockfast import LeaseLost, OutcomeUnknown
from lockfast.sql_rows import claim_rows

HERE = Path(__file__).parent


@pytest.fixture
def database(tmp_path) -> Database:
    return Database("sqlite", tmp_path)


@pytest.fixture
def jobs(database) -> str:
    return five_jobs(database)


def test_a_row_that_was_lost_while_it_waited_is_not_handed_out(database, jobs):
    """Another worker has the lost row by now, and both would do the same work."""
    with claims(database, jobs, limit=3) as rows:
        assert next(rows)["id"] == 5
        database.run(f"UPDATE {jobs} SET claim_token = claim_token + 1 WHERE id = 4")
        [(_, waiting), _] = rows._waiting
        with pytest.raises(LeaseLost):
            waiting.lease.renew()

        assert next(rows)["id"] == 3


def test_a_close_ends_all_although_a_row_could_not_be_given_back(database, jobs):
    """All other rows are given back, the row in hand is marked as lost, and the error is raised."""
    made: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        made.append(database.connect())
        return made[-1]

    rows = claim_rows(connect, jobs, key="id", where={"state": "pending"}, limit=3, ttl=600)
    row = next(rows)
    made[-1].close()

    with pytest.raises(OutcomeUnknown):
        rows.close()

    assert row.lease.lost.reason == "closed"
    assert database.run(f"SELECT claimed_until FROM {jobs} WHERE id = 3") == [(None,)]


def test_sigterm_ends_a_second_loop_though_the_first_was_left_by_an_error(database, jobs):
    with _worker("fails first", database, jobs) as worker:
        assert _next(worker) == "has 2"
        worker.send_signal(signal.SIGTERM)
        worker.stdin.write("\n")
        worker.stdin.flush()

        assert [_next(worker), _next(worker)] == ["did 2", "over"]
        assert worker.wait(60) == 0


def test_sigterm_ends_a_loop_though_an_earlier_one_is_kept(database, jobs):
    with _worker("keeps first", database, jobs) as worker:
        assert _next(worker) == "has 2"
        worker.send_signal(signal.SIGTERM)
        worker.stdin.write("\n")
        worker.stdin.flush()

        assert [_next(worker), _next(worker)] == ["did 2", "over"]
        assert worker.wait(60) == 0


def test_a_program_that_has_left_its_loop_is_ended_when_sigterm_comes_again(database, jobs):
    """After the loop, nothing checks for the first signal; the second signal ends the program."""
    with _worker("leaves", database, jobs) as worker:
        assert _next(worker) == "left"
        end = time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < end:
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.1)

        assert worker.wait(60) == -signal.SIGTERM


def _worker(way: str, database: Database, table: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE / "worker_leaving.py"), way, database.address(), table],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _next(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()
