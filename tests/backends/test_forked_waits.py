"""A process that forks in the middle of a wait: the child takes nothing that is its parent's.

The child gets its own place in line, whether it goes on with that wait or is unwound out of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forked_wait
import pytest
from puppets import environment
from servers import etcd, postgresql, redis, zookeeper


@pytest.fixture(params=["etcd", "postgresql", "redis", "sqlite", "zookeeper"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    if request.param == "postgresql":
        return postgresql.shared_server().url()
    return {"etcd": etcd, "redis": redis, "zookeeper": zookeeper}[request.param].shared_server().url


def let_in(url: str, namespace: str, directory: Path, what: str) -> list[str]:
    """Return who was let in, in order."""
    command = [sys.executable, forked_wait.__file__, url, namespace, str(directory / "mark"), what]
    ran = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout.split()


def test_a_child_that_goes_on_waits_for_itself(url, namespace, tmp_path):
    """With its parent's claim both would hold; the parent is woken as if nothing had happened."""
    assert let_in(url, namespace, tmp_path, "goes-on") == ["parent", "child"]


def test_a_child_that_leaves_takes_its_parents_place_from_nobody(url, namespace, tmp_path):
    """Unwound out of the wait by `sys.exit`, it would withdraw a claim that is not its own."""
    assert let_in(url, namespace, tmp_path, "leaves") == ["parent"]
