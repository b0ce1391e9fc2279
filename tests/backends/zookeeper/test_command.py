"""The command line works on ZooKeeper as on any other store."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from servers.zookeeper import shared_server


@pytest.fixture
def lockfast():
    """Return a function that runs a command and returns its exit code and its output."""

    def run(command: str, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "lockfast", command, "--url", shared_server().url, *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_command_runs_under_a_lock_with_a_ttl(lockfast):
    code, printed = lockfast("run", "--ttl", "5", "nightly", "--", "printenv", "LOCKFAST_TOKEN")

    assert code == 0
    assert int(printed) > 0


def test_the_doctor_and_the_list(lockfast):
    found = json.loads(lockfast("doctor", "--json")[1])
    code, printed = lockfast("ls", "--json")

    assert "session timeout" in str(found)
    assert code == 0
    assert "nightly" not in printed


def test_the_demo_is_right_where_a_lock_guards_it(lockfast):
    """In the demo of a frozen holder, the guarded resource refuses every late write."""
    code, printed = lockfast("demo", "frozen", "--json")

    plays = json.loads(printed)
    assert code == 0
    assert [one["stale_writes"] for one in plays if one["guarded"]] == [0]
