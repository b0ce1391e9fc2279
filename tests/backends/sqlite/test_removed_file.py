"""The file, or a file beside it, is removed or replaced while clients are using it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lockfast import Locks
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually


def is_refused(locks: Locks) -> bool:
    lease = locks.lock("door").try_acquire()
    if lease is not None:
        lease.release()
    return lease is None


@pytest.fixture
def old(url) -> Iterator[Locks]:
    """A client that opened the file before the test removes it."""
    with Locks(url) as locks:
        locks.lock("other").acquire().release()
        yield locks


@pytest.fixture
def new(url) -> Iterator[Locks]:
    with Locks(url) as locks:
        yield locks


def remove(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        if one.is_file():
            one.unlink()


def test_those_who_had_a_removed_file_open_exclude_those_who_came_later(path, url, old, new):
    """Clients with a removed file open must notice, or they would go on locking in that file."""
    remove(path)

    with new.lock("door") as lease:
        eventually(lambda: is_refused(old))
        # When the old client closed the old file, it did not remove the new log.
        with Locks(url) as third:
            assert is_refused(third)
        lease.check()

    eventually(lambda: not is_refused(old))


def test_the_holder_in_a_removed_file_is_told(path, old, new):
    """A holder in a removed file learns of its loss at a renewal, as if a server lost its data."""
    lease = old.lock("door", ttl=1.0).acquire()
    remove(path)

    assert lease.lost.wait(EVENTUALLY_SECONDS)
    assert lease.lost.reason in ("taken", "expired")
    successor = new.lock("door").acquire(timeout=EVENTUALLY_SECONDS)
    assert successor.token > lease.token
    successor.release()


def test_who_waits_at_a_removed_file_is_let_in_by_the_new_one(path, url, old, new):
    with Locks(url) as dead:
        dead.lock("door", ttl=600, renew=False).acquire()
        remove(path)
        old.lock("door").acquire(timeout=EVENTUALLY_SECONDS).release()

    new.lock("door").acquire(timeout=EVENTUALLY_SECONDS).release()


def test_a_copy_in_its_place_goes_on_with_what_it_holds(path, old, new, tmp_path):
    """After a restored backup, the holder is renewed in the new file and keeps others out."""
    lease = old.lock("door", ttl=600.0, renew=False).acquire()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    remove(path)
    copy.rename(path)

    [seen] = new.inspect("door").holders
    eventually(lambda: lease.renew() or new.inspect("door").holders[0].remaining > seen.remaining)
    assert is_refused(new)
    lease.release()
    new.lock("door").acquire(timeout=EVENTUALLY_SECONDS).release()


def test_on_posix_a_client_whose_file_of_life_was_removed_makes_another(path, old, new):
    """A client whose liveness file was removed makes a new one, or it would look dead.

    On Windows an open file cannot be removed.
    """
    clients = path.with_name(f"{path.name}-clients")
    shutil.rmtree(clients)

    eventually(lambda: not is_refused(old) and list(clients.glob("*.client")))

    with old.lock("door"):
        assert is_refused(new)
