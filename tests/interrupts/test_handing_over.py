"""A client that can no longer release a detached lease never renews it.

An interrupt may lose the text by which the lease would be adopted. The ttl then ends the lease, as
it ends a lease whose text nobody reads.
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
            lock = locks.lock(f"door {place}")  # kept alive, so the lease is not abandoned
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
