"""The commands, where the store knows connections and no names."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from holdfast import AcquireTimeout


@pytest.fixture
def command(url: str) -> Any:
    """Run a command, and return its exit code and all that it said."""

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", words[0], "--url", url, *words[1:]],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_command_runs_under_the_lock_without_a_token(command, name):
    script = "echo under $HOLDFAST_NAME, token=$HOLDFAST_TOKEN."

    assert command("run", name, "--", "sh", "-c", script) == (0, f"under {name}, token=.\n")


def test_a_holder_is_shown_as_its_connection(command, rivals):
    lease = rivals.locks().lock(rivals.name).acquire()

    code, said = command("show", rivals.name)

    assert lease.is_trusted
    assert code == 0
    assert "connection " in said


def test_of_a_holder_elsewhere_is_told_what_the_server_knows(command, rivals):
    """Neither its process nor since when it holds."""
    lease = rivals.locks().lock(rivals.name).acquire()

    said = command("show", rivals.name)[1]
    [holder] = json.loads(command("show", rivals.name, "--json")[1])["holders"]

    assert lease.is_trusted
    assert "pid" not in said
    assert " ms" not in said
    assert (holder["pid"], holder["age"]) == (None, None)


def test_who_does_not_get_it_is_told_no_more_than_that(rivals):
    lease = rivals.locks().lock(rivals.name).acquire()

    with pytest.raises(AcquireTimeout, match="is held") as refused:
        rivals.locks().lock(rivals.name).acquire(timeout=0)

    assert lease.is_trusted
    assert "pid 0" not in str(refused.value)
    assert "0.0 s" not in str(refused.value)


def test_a_free_name_is_told_as_that(command, name):
    code, said = command("show", name)

    assert code == 1
    assert f"nobody holds '{name}'" in said


def test_what_needs_records_says_so(command, name):
    assert "keeps no names with mode=advisory" in command("ls")[1]
    assert "nobody holds" in command("break", name, "--yes")[1]
