"""A lease granted by another client's release ends with its admission window if not renewed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from both_flavours import Flavour, each_flavour
from fault_scene import PATIENT, new_name
from servers import redis

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast_challenge.processes import eventually

TTL = 12 * ADMISSION_WINDOW_SECONDS
"""A ttl in seconds, so long that a lease trusted for all of it would overlap with the next
lease."""
OPTIONS = {"ttl": TTL, "request_timeout": 20.0}
TRIALS = 5


class HandOver:
    """A holder and two clients in line behind it, of which the first cannot renew its lease."""

    def __init__(self, flavour: Flavour, url: str) -> None:
        self.name = new_name()
        self._flavour = flavour
        self.holder = flavour.locks(url, **OPTIONS)
        self.lease = self.holder.lock(self.name).acquire()
        first, backend = flavour.faulty(url, **OPTIONS)
        backend.lose_request("renew", times=1000)
        self.first = self._waiting(first, place=1)
        self.second = self._waiting(flavour.locks(url, **OPTIONS), place=2)

    def _waiting(self, locks: Any, *, place: int) -> Future[Any]:
        waiting = self._flavour.start(locks.lock(self.name).acquire, timeout=PATIENT)
        eventually(lambda: len(self.holder.inspect(self.name).line) == place)
        return waiting

    def leases(self) -> tuple[Any, Any] | None:
        """Return both leases once the second is granted; None if the first missed its turn.

        On a machine that stalls for a whole window, the first client moves to the end of the line.
        """
        late = self.second.result()
        return (self.first.result(), late) if self.first.done() else None


def handed_over(flavours: list[Flavour], url: str) -> Iterator[tuple[Any, Any] | None]:
    """Release the holder's lease in each flavour, and return what `leases` returns for each."""
    scenes = [HandOver(one, url) for one in flavours]
    for one in scenes:
        one.lease.release()
    return (one.leases() for one in scenes)


@pytest.mark.parametrize("store", ["redis", "sqlite"])
def test_a_lease_that_was_not_renewed_in_its_window_is_not_trusted_beside_the_next(
    store: str, tmp_path: Path
) -> None:
    """Law 2 also holds in the time between the end of the window and the end of the ttl."""
    url = redis.shared_server().url if store == "redis" else f"sqlite://{tmp_path}/locks.db"
    with each_flavour() as flavours:
        trials = (list(handed_over(flavours, url)) for _ in range(TRIALS))
        pairs = next(one for one in trials if None not in one)

        for early, late in pairs:
            assert late.token > early.token
            assert not early.is_trusted
