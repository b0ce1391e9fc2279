"""A lease that is handed over is its old holder's, or nobody's until it is adopted: never neither.

An interrupt may lose the text by which it is adopted. Then its ttl ends it, as it ends one whose
text nobody reads; it must not be renewed for somebody who cannot release it any more.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from interrupting import interrupt

from lockfast import Lease, LockError, Locks


def test_an_interrupted_detach_leaves_nothing_that_is_renewed_but_cannot_be_released(tmp_path):
    left = []
    with Locks(f"sqlite://{tmp_path}/locks.db") as locks:
        for place in itertools.count():
            lock = locks.lock(f"door {place}")  # alive, and so is its thread: it is not abandoned
            lease = lock.acquire()

            where = interrupt(lease.detach, at=place)

            release_if_ours(lease)
            if locks._client.holds or locks._client.watchdog.watched:
                left.append(where)
                locks._client.remove(lease._hold)
            if where is None:
                break

    assert left == []


def release_if_ours(lease: Lease) -> None:
    with suppress(LockError):
        lease.release()
