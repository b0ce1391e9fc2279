"""A process forks in the middle of a wait: the child uses nothing that belongs to its parent.

If the child goes on with the wait, it gets a place in line of its own. If `sys.exit` ends the wait
in the child, the parent keeps its place.
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
    """Return which processes acquired the lock, in order: "parent", "child" or both."""
    command = [sys.executable, forked_wait.__file__, url, namespace, str(directory / "mark"), what]
    ran = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout.split()


def test_a_child_that_goes_on_waits_for_itself(url, namespace, tmp_path):
    """If the child used its parent's claim, both processes would hold the lock at once."""
    assert let_in(url, namespace, tmp_path, "goes-on") == ["parent", "child"]


def test_a_child_that_leaves_takes_its_parents_place_from_nobody(url, namespace, tmp_path):
    """A child that leaves the wait by `sys.exit` must not withdraw its parent's claim."""
    assert let_in(url, namespace, tmp_path, "leaves") == ["parent"]
