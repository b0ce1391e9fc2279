"""Two processes wait for each other: `lockfast ls --cycles` and the doctor report the cycle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hold_and_wait
import pytest
from puppets import environment
from servers import redis as redis_servers
from servers import zookeeper as zookeeper_servers

from lockfast import Locks
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually


@pytest.fixture(params=["redis", "sqlite", "zookeeper"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    servers = {"redis": redis_servers, "zookeeper": zookeeper_servers}[request.param]
    return servers.shared_server().url


@contextmanager
def holding(url: str, namespace: str, held: str, wanted: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(Path(hold_and_wait.__file__)), url, namespace, held, wanted],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "holds\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def wait(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def lockfast(url: str, namespace: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lockfast", *arguments, "--url", url, "--namespace", namespace],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=EVENTUALLY_SECONDS,
    )


def test_a_cycle_across_two_processes_is_found_and_named(url, namespace):
    with (
        Locks(url, namespace=namespace, request_timeout=30) as locks,
        holding(url, namespace, "x", "y") as one,
        holding(url, namespace, "y", "x") as other,
    ):
        wait(one)
        eventually(lambda: locks.inspect("y").line)
        half = lockfast(url, namespace, "ls", "--cycles")
        wait(other)
        eventually(lambda: locks.inspect("x").line)

        told = lockfast(url, namespace, "ls", "--cycles")
        fields = lockfast(url, namespace, "ls", "--cycles", "--json")
        doctor = lockfast(url, namespace, "doctor", "--json")

    assert (half.returncode, half.stdout) == (0, "")
    assert told.returncode == fields.returncode == doctor.returncode == 1
    [first, second] = told.stdout.splitlines()
    assert f"pid {other.pid} (y), 'MainThread' waits for 'x', which" in first
    assert f"pid {one.pid} (x), 'MainThread' waits for 'y', which" in second
    [cycle] = json.loads(fields.stdout)["cycles"]
    assert [(connection["pid"], connection["waits_for"]) for connection in cycle] == [
        (other.pid, "x"),
        (one.pid, "y"),
    ]
    [finding] = [
        found for found in json.loads(doctor.stdout)["findings"] if found["subject"] == "deadlock"
    ]
    assert "waits for 'x'" in finding["message"]
